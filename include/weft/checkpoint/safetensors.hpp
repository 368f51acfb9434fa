// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weft/checkpoint/tensor_info.hpp>
#include <weft/encoding/crc32c.hpp>
#include <weft/encoding/file.hpp>
#include <weft/encoding/json.hpp>
#include <weft/tensor/dtype.hpp>
#include <weft/tensor/tensor.hpp>

/// Tensors in the safetensors format: github.com/huggingface/safetensors.
WEFT_COLD_BEGIN
namespace weft {

/// A named tensor to write. Refers to the elements.
struct named_tensor {
  std::string name;
  dtype type;
  shape extents;
  const void* data;

  named_tensor(std::string called, dtype elements, const shape& e, const void* first)
      : name(std::move(called)), type(elements), extents(e), data(first) {}
  template <class T, class D>
  named_tensor(std::string called, const tensor<T, D>& t)
      : named_tensor(std::move(called), dtype_of<T>, t.extents(), t.data()) {}

  std::size_t bytes() const { return extents.elements() * size_of(type); }
};

/// A tensor's description in a safetensors file.
struct safetensors_entry {
  std::string name;
  std::string type;                   ///< in the format's spelling: "F32"
  std::vector<std::int64_t> extents;  ///< any number of axes; not all fit a tensor
  std::uint64_t offset = 0;           ///< of the first byte, from the start of the file
  std::uint64_t bytes = 0;
};

/// A safetensors file's texts, by name.
using safetensors_metadata = std::vector<std::pair<std::string, std::string>>;

/// Writes a safetensors file atomically: writes a temporary file, synchronizes it with the disk and renames it, so an
/// older file is replaced only by a complete one. Returns each tensor's position.
///
/// Throws invalid_argument if names are not unique, not UTF-8 or "__metadata__", resource_exhausted if the disk is
/// full, and not_found, permission_denied or unavailable if the file cannot be written.
std::vector<safetensors_entry> write_safetensors(const std::string& path, const std::vector<named_tensor>& tensors,
                                                 const safetensors_metadata& metadata = {});

/// A safetensors file, open for reading. The constructor reads and checks only the header.
///
/// Throws not_found, permission_denied or unavailable if the file cannot be read, and data_loss, with the byte's
/// position, if it is damaged. It rejects the files that Python's library rejects.
class safetensors_file {
 public:
  explicit safetensors_file(std::string path);

  const std::string& path() const { return file_.path(); }
  std::uint64_t bytes() const { return file_.bytes(); }
  /// The tensors, ordered by name.
  const std::vector<safetensors_entry>& entries() const { return entries_; }
  /// Returns null if the file does not contain the tensor.
  const safetensors_entry* find(std::string_view name) const;
  const safetensors_metadata& metadata() const { return metadata_; }

  /// Reads a tensor: `file.read<float, dims<784, 100>>("hidden/weights")`. Throws not_found if the file does not
  /// contain it, and invalid_argument if it has another element type or other extents.
  template <Element T, class D = dims<>>
  tensor<T, D> read(std::string_view name) const;

  /// Reads a tensor's bytes unchanged; `to` has room for `entry.bytes`.
  void read(const safetensors_entry& entry, void* to) const { read(entry, 0, to, entry.bytes); }
  /// Reads `count` bytes of a tensor, beginning at its byte `from`.
  void read(const safetensors_entry& entry, std::uint64_t from, void* to, std::uint64_t count) const;

 private:
  void parse(const std::string& header, std::uint64_t data_bytes);
  void read_entry(detail::json_reader& in, safetensors_entry& e);
  void check_layout(std::uint64_t data_bytes);
  [[noreturn]] void damaged(std::uint64_t at, std::initializer_list<piece> what) const;

  detail::input_file file_;
  std::vector<safetensors_entry> entries_;
  safetensors_metadata metadata_;
};

namespace detail {

struct safetensors_type {
  const char* name;
  unsigned bits;
  dtype type;
  bool known;  ///< true if Weft supports the element type
};
inline constexpr safetensors_type safetensors_types[] = {
    {"BOOL", 8, dtype::boolean, true},       {"I8", 8, dtype::int8, true},
    {"I16", 16, dtype::int16, true},         {"I32", 32, dtype::int32, true},
    {"I64", 64, dtype::int64, true},         {"U8", 8, dtype::uint8, true},
    {"U16", 16, dtype::uint16, true},        {"U32", 32, dtype::uint32, true},
    {"U64", 64, dtype::uint64, true},        {"F16", 16, dtype::float16, true},
    {"BF16", 16, dtype::bfloat16, true},     {"F32", 32, dtype::float32, true},
    {"F64", 64, dtype::float64, true},       {"F4", 4, dtype::uint8, false},
    {"F6_E2M3", 6, dtype::uint8, false},     {"F6_E3M2", 6, dtype::uint8, false},
    {"F8_E5M2", 8, dtype::uint8, false},     {"F8_E4M3", 8, dtype::uint8, false},
    {"F8_E8M0", 8, dtype::uint8, false},     {"C64", 64, dtype::uint8, false},
    {"F8_E4M3FNUZ", 8, dtype::uint8, false}, {"F8_E5M2FNUZ", 8, dtype::uint8, false}};

inline const safetensors_type* find_safetensors_type(std::string_view name) {
  for (const safetensors_type& t : safetensors_types)
    if (name == t.name) return &t;
  return nullptr;
}
inline const char* safetensors_name(dtype type) { return safetensors_types[static_cast<std::size_t>(type)].name; }

/// The reference implementation's limit for the size of a header, in bytes.
inline constexpr std::uint64_t max_safetensors_header = 100'000'000;

/// Returns true if the file's tensor has this element type and these extents.
inline bool is_of(const safetensors_entry& e, dtype type, const shape& extents) {
  if (e.type != safetensors_name(type) || e.extents.size() != extents.rank) return false;
  return std::equal(e.extents.begin(), e.extents.end(), extents.extents);
}

/// Throws data_loss unless each bool is 0 or 1: other values are undefined in C++.
inline void check_bools(const std::string& path, const safetensors_entry& e, const void* bytes) {
  if (e.type != "BOOL") return;
  const auto* at = static_cast<const unsigned char*>(bytes);
  for (std::uint64_t i = 0; i < e.bytes; ++i)
    if (at[i] > 1)
      throw error(error_code::data_loss, "read",
                  {path, " is damaged at byte ", e.offset + i, ": an element of '", e.name, "' is bool and is ", at[i],
                   ", but must be 0 or 1"});
}

/// Returns the header, padded with spaces to a multiple of eight bytes. `order` is the order of the tensors' elements.
/// Throws invalid_argument if a name or text is invalid.
inline std::string safetensors_header(const std::string& path, const std::vector<named_tensor>& tensors,
                                      const std::vector<std::size_t>& order, const safetensors_metadata& metadata) {
  const auto check = [&](const std::string& text) {
    if (!is_utf8(text))
      throw error(error_code::invalid_argument, "write", {path, ": names and metadata must be UTF-8: ", text});
    return json_string(text);
  };
  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, text] : metadata)
      append(header, {header.back() == '{' ? "" : ",", check(key), ":", check(text)});
    header += "}";
  }
  std::uint64_t at = 0;
  for (const std::size_t i : order) {
    const named_tensor& t = tensors[i];
    append(header,
           {header.size() > 1 ? "," : "", check(t.name), ":{\"dtype\":\"", safetensors_name(t.type), "\",\"shape\":["});
    for (std::size_t axis = 0; axis < t.extents.rank; ++axis) append(header, {axis ? "," : "", t.extents[axis]});
    append(header, {"],\"data_offsets\":[", at, ",", at + t.bytes(), "]}"});
    at += t.bytes();
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  if (header.size() > max_safetensors_header)
    throw error(error_code::invalid_argument, "write",
                {path, ": the header must have at most ", max_safetensors_header, " bytes, but would have ",
                 header.size(), ": write fewer tensors into one file"});
  return header;
}

/// Writes a file. `crcs`, if not null, receives the CRC32C of each tensor.
inline std::vector<safetensors_entry> write_safetensors(const std::string& path,
                                                        const std::vector<named_tensor>& tensors,
                                                        const safetensors_metadata& metadata,
                                                        std::vector<std::uint32_t>* crcs) {
  // Widest types first, so that all tensors are aligned, as in the reference implementation.
  std::vector<std::size_t> order(tensors.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const std::size_t of_a = size_of(tensors[a].type), of_b = size_of(tensors[b].type);
    return of_a != of_b ? of_a > of_b : tensors[a].name < tensors[b].name;
  });
  std::vector<std::string_view> names;
  for (const named_tensor& t : tensors) names.push_back(t.name);
  std::sort(names.begin(), names.end());
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == "__metadata__" || (i && names[i] == names[i - 1]))
      throw error(error_code::invalid_argument, "write",
                  {path, ": names must be unique, and must not be the format's own __metadata__: '",
                   std::string(names[i]), "'"});

  const std::string header = safetensors_header(path, tensors, order, metadata);
  std::uint64_t at = 8 + header.size();
  std::vector<safetensors_entry> entries(tensors.size());
  for (const std::size_t i : order) {
    const named_tensor& t = tensors[i];
    entries[i] = {
        t.name, safetensors_name(t.type), {t.extents.extents, t.extents.extents + t.extents.rank}, at, t.bytes()};
    at += t.bytes();
  }
  atomic_file file(path, at);
  std::string front;
  for (unsigned shift = 0; shift < 64; shift += 8) front += static_cast<char>((header.size() >> shift) & 0xffu);
  front += header;
  file.write(front.data(), front.size());
  if (crcs) crcs->assign(tensors.size(), 0);
  for (const std::size_t i : order) {
    const auto* from = static_cast<const std::byte*>(tensors[i].data);
    for (std::size_t done = 0; done < tensors[i].bytes();) {
      const std::size_t n = std::min(atomic_file::piece, tensors[i].bytes() - done);
      if (crcs) (*crcs)[i] = crc32c({from + done, n}, (*crcs)[i]);
      file.write(from + done, n);
      done += n;
    }
  }
  file.commit();
  return entries;
}

}  // namespace detail

inline std::vector<safetensors_entry> write_safetensors(const std::string& path,
                                                        const std::vector<named_tensor>& tensors,
                                                        const safetensors_metadata& metadata) {
  return detail::write_safetensors(path, tensors, metadata, nullptr);
}

inline safetensors_file::safetensors_file(std::string path) : file_(std::move(path)) {
  if (file_.bytes() < 8) damaged(0, {"the file must begin with the 8 bytes of its header's length, but has ", bytes()});
  unsigned char front[8];
  file_.read(0, front, sizeof front);
  std::uint64_t size = 0;
  for (unsigned i = 0; i < 8; ++i) size |= std::uint64_t{front[i]} << (8 * i);
  if (size > detail::max_safetensors_header || size > bytes() - 8)
    damaged(0, {"the header must have at most ", std::min(detail::max_safetensors_header, bytes() - 8),
                " bytes, but declares ", size, ": it is not a safetensors file, or was truncated"});
  std::string header(size, '\0');
  file_.read(8, header.data(), header.size());
  parse(header, bytes() - 8 - size);
}

inline void safetensors_file::parse(const std::string& header, std::uint64_t data_bytes) {
  detail::json_reader in(header, path(), 8);
  bool has_metadata = false;
  in.object([&](const std::string& name) {
    if (name != "__metadata__") {
      entries_.push_back({name, {}, {}, 0, 0});
      return read_entry(in, entries_.back());
    }
    if (has_metadata) in.fail("__metadata__ occurs twice");
    has_metadata = true;
    if (in.peek() == 'n') return in.skip();
    in.object([&](const std::string& key) { metadata_.emplace_back(key, in.string()); });
  });
  in.end();
  for (safetensors_entry& e : entries_) e.offset += 8 + header.size();
  check_layout(data_bytes);
}

// Offsets are relative to the end of the header.
inline void safetensors_file::read_entry(detail::json_reader& in, safetensors_entry& e) {
  bool has_type = false, has_extents = false;
  std::uint64_t offsets[2] = {};
  std::size_t offset_count = 0;
  in.object([&](const std::string& member) {
    if (member == "dtype" && !has_type) {
      has_type = true;
      e.type = in.string();
    } else if (member == "shape" && !has_extents) {
      has_extents = true;
      in.array([&] {
        const std::uint64_t extent = in.number();
        if (extent > ~std::uint64_t{0} / 2) in.fail("an extent exceeds 63 bits");
        e.extents.push_back(static_cast<std::int64_t>(extent));
      });
    } else if (member == "data_offsets" && offset_count == 0) {
      in.array([&] {
        if (offset_count == 2) in.fail("data_offsets must be two numbers");
        offsets[offset_count++] = in.number();
      });
    } else if (member == "dtype" || member == "shape" || member == "data_offsets") {
      in.fail("a member occurs twice");
    } else {
      in.skip();
    }
  });
  if (!has_type || !has_extents || offset_count != 2) in.fail("a tensor must have dtype, shape and two data_offsets");
  const detail::safetensors_type* type = detail::find_safetensors_type(e.type);
  if (!type) in.fail("an unknown dtype");
  std::uint64_t bits = 1;
  bool overflows = false;
  for (const std::int64_t extent : e.extents)
    overflows = __builtin_mul_overflow(bits, static_cast<std::uint64_t>(extent), &bits) || overflows;
  if (__builtin_mul_overflow(bits, std::uint64_t{type->bits}, &bits) || overflows)
    in.fail("a tensor has too many elements");
  if (offsets[1] < offsets[0] || bits % 8 != 0 || offsets[1] - offsets[0] != bits / 8)
    in.fail("data_offsets do not match dtype and shape");
  e.offset = offsets[0];
  e.bytes = bits / 8;
}

// Tensors must be contiguous from the end of the header to the end of the file.
inline void safetensors_file::check_layout(std::uint64_t data_bytes) {
  std::uint64_t end = bytes() - data_bytes;
  std::sort(entries_.begin(), entries_.end(), [](const safetensors_entry& a, const safetensors_entry& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes;
  });
  for (const safetensors_entry& e : entries_) {
    if (e.offset != end)
      damaged(std::min(end, e.offset), {"tensor '", e.name, "' must begin where the one before it ends, at byte ", end,
                                        ", but begins at ", e.offset, ": tensors must neither overlap nor leave gaps"});
    if (e.bytes > bytes() - end)
      damaged(bytes(), {"tensor '", e.name, "' must end within the file, but ends at byte ", end + e.bytes, " of ",
                        bytes(), ": it was truncated"});
    end += e.bytes;
  }
  if (end != bytes()) damaged(end, {"the file must end with its last tensor, but has ", bytes() - end, " more bytes"});
  std::sort(entries_.begin(), entries_.end(),
            [](const safetensors_entry& a, const safetensors_entry& b) { return a.name < b.name; });
  for (std::size_t i = 1; i < entries_.size(); ++i)
    if (entries_[i].name == entries_[i - 1].name)
      damaged(8, {"names must be unique, but '", entries_[i].name, "' occurs twice"});
}

inline void safetensors_file::damaged(std::uint64_t at, std::initializer_list<piece> what) const {
  throw error(error_code::data_loss, "read", {path(), " is damaged at byte ", at, ": ", str_cat(what)});
}

inline const safetensors_entry* safetensors_file::find(std::string_view name) const {
  const auto found = std::lower_bound(entries_.begin(), entries_.end(), name,
                                      [](const safetensors_entry& e, std::string_view n) { return e.name < n; });
  return found != entries_.end() && found->name == name ? &*found : nullptr;
}

inline void safetensors_file::read(const safetensors_entry& entry, std::uint64_t from, void* to,
                                   std::uint64_t count) const {
  file_.read(entry.offset + from, to, count);
}

template <Element T, class D>
tensor<T, D> safetensors_file::read(std::string_view name) const {
  const safetensors_entry* e = find(name);
  if (!e)
    throw error(error_code::not_found, "read",
                {path(), " has no tensor '", std::string(name), "': entries() lists them"});
  shape extents;
  if (e->extents.size() <= max_rank)
    for (const std::int64_t n : e->extents) extents.push_back(n);
  if (e->extents.size() > max_rank || e->type != detail::safetensors_name(dtype_of<T>))
    throw error(
        error_code::invalid_argument, "read",
        {path(), ": '", e->name, "' is ", e->type, " ", detail::extents_text(e->extents), ", but was requested as ",
         detail::safetensors_name(dtype_of<T>), " with at most ", max_rank, " axes"});
  tensor<T, D> value(extents, uninitialized{});
  read(*e, value.data());
  detail::check_bools(path(), *e, value.data());
  return value;
}

}  // namespace weft
WEFT_COLD_END
