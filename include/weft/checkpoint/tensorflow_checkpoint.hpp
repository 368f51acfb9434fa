// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weft/checkpoint/sorted_table.hpp>
#include <weft/checkpoint/tensor_info.hpp>
#include <weft/encoding/crc32c.hpp>
#include <weft/encoding/file.hpp>
#include <weft/encoding/protobuf.hpp>
#include <weft/error.hpp>
#include <weft/printable.hpp>
#include <weft/tensor/tensor.hpp>

namespace weft {

namespace detail {

/// The entry of a tensor, or of a slice of one, in a checkpoint's index (tensor_bundle.proto, BundleEntryProto).
struct bundle_entry {
  struct extent {
    std::int64_t start = 0, length = -1;  ///< -1: the whole axis
  };
  using slice = std::vector<extent>;

  tensor_info info;
  std::uint64_t shard = 0, offset = 0, bytes = 0;
  std::uint32_t masked_crc = 0;
  std::vector<slice> slices;  ///< of a partitioned variable, whose elements have separate entries
};

bundle_entry read_bundle_entry(const std::string& name, std::span<const std::byte> message, const std::string& path);
std::string bundle_key(std::string_view name, const bundle_entry::slice& slice);

}  // namespace detail

/// A checkpoint that TensorFlow's Saver has written in format V2: `<prefix>.index`, and `<prefix>.data-*` in one or
/// more shards. Partitioned variables are merged. Object-based checkpoints of TensorFlow 2 have the same format; their
/// names end in `/.ATTRIBUTES/VARIABLE_VALUE`.
///
/// Files are not trusted: sizes are compared with the files before memory is allocated, and each block of the index and
/// each tensor has a CRC-32C. Throws invalid_argument if the index has another format, data_loss if the index or a
/// tensor is damaged, and not_found, permission_denied or unavailable if a file cannot be read.
class tensorflow_checkpoint {
 public:
  /// `prefix`: the result of `Saver.save`, or the name of the .index file.
  explicit tensorflow_checkpoint(std::string prefix);

  const std::string& prefix() const { return prefix_; }

  /// The tensors' names, sorted.
  const std::vector<std::string>& names() const { return names_; }

  bool contains(std::string_view name) const { return find(name) != nullptr; }

  /// Returns the element type and extents of a tensor. Throws not_found if the checkpoint does not contain it.
  const tensor_info& info(std::string_view name) const { return entry(name).info; }

  /// Reads a tensor with the element type and extents of the file. Throws not_found if the checkpoint lacks it,
  /// invalid_argument if it does not fit `Tensor`, and unimplemented if Weft does not support its element type, for
  /// example strings.
  template <class Tensor>
  Tensor read(std::string_view name) const {
    static_assert(correct<file_is_not_read_as<Tensor>>,
                  "read: the result must be a tensor<T, dims<...>>: checkpoint.read<tensor<...>>(name)");
    const detail::bundle_entry& found = entry(name);
    check_places(found);
    if constexpr (correct<file_is_not_read_as<Tensor>>) {
      auto value = detail::tensor_for<Tensor>(operation, where(found.info.name), found.info);
      read_elements(found, detail::bytes_of(value));
      return value;
    } else {
      return Tensor();
    }
  }

 private:
  static constexpr const char* operation = "tensorflow_checkpoint";

  const detail::bundle_entry* find(std::string_view name) const {
    const auto at = entries_.find(name);
    return at == entries_.end() || name.empty() || name[0] == '\0' ? nullptr : &at->second;
  }
  const detail::bundle_entry& entry(std::string_view name) const;
  std::string where(std::string_view name) const {
    return str_cat({prefix_, ": tensor ", printable(std::string(name))});
  }

  std::vector<const detail::bundle_entry*> slices_of(const detail::bundle_entry& whole) const;
  void check_places(const detail::bundle_entry& whole) const;
  /// `whole`: the tensor that error messages name.
  void check_place(const detail::bundle_entry& part, const detail::bundle_entry& whole) const;
  void read_elements(const detail::bundle_entry& whole, std::byte* to) const;
  void read_part(const detail::bundle_entry& part, const detail::bundle_entry& whole, std::byte* to) const;

  std::string prefix_;
  bool big_endian_ = false;
  std::map<std::string, detail::bundle_entry, std::less<>> entries_;  // includes slices
  std::vector<std::string> names_;
  std::vector<detail::input_file> shards_;
};

inline tensorflow_checkpoint::tensorflow_checkpoint(std::string prefix) : prefix_(std::move(prefix)) {
  constexpr std::string_view suffix = ".index";
  if (prefix_.ends_with(suffix)) prefix_.resize(prefix_.size() - suffix.size());
  const std::string index = prefix_ + std::string(suffix);
  const auto table = detail::sorted_table::read(index);
  if (table.empty() || !table.begin()->first.empty())
    throw error(error_code::invalid_argument, operation,
                {index, " must be a checkpoint of TensorFlow's format V2, but has no header"});
  std::uint64_t shards = 0;
  for (data::protobuf_reader header(table.begin()->second, index + ": the header"); header.next();) {
    if (header.field() == 1) shards = header.varint();
    if (header.field() == 2) big_endian_ = header.varint() == 1;
  }
  if (shards == 0 || shards > 99'999)
    throw error(error_code::data_loss, operation, {index, " must have 1 to 99999 shards, but declares ", shards});
  for (auto at = std::next(table.begin()); at != table.end(); ++at) {
    const auto& [name, message] = *at;
    auto read = detail::read_bundle_entry(name, message, index);
    if (read.slices.empty() && read.shard >= shards)
      throw error(error_code::data_loss, operation,
                  {where(name), " is in shard ", read.shard, " of ", shards, "; fetch the file again"});
    entries_.emplace_hint(entries_.end(), name, std::move(read));
    if (name[0] != '\0') names_.push_back(name);
  }
  for (std::uint64_t shard = 0; shard < shards; ++shard) {
    const auto five = [](std::uint64_t n) {
      const std::string digits = std::to_string(n);
      return std::string(5 - digits.size(), '0') + digits;
    };
    shards_.emplace_back(str_cat({prefix_, ".data-", five(shard), "-of-", five(shards)}));
  }
}

inline const detail::bundle_entry& tensorflow_checkpoint::entry(std::string_view name) const {
  if (const detail::bundle_entry* const found = find(name)) return *found;
  std::string some;
  for (std::size_t i = 0; i < names_.size() && i < 8; ++i) append(some, {i ? ", " : "", names_[i]});
  throw error(error_code::not_found, operation,
              {prefix_, " has no tensor ", std::string(name), "; it has ", some.empty() ? "none" : some,
               names_.size() > 8 ? ", ..." : ""});
}

inline std::vector<const detail::bundle_entry*> tensorflow_checkpoint::slices_of(
    const detail::bundle_entry& whole) const {
  std::vector<const detail::bundle_entry*> parts;
  for (const auto& slice : whole.slices) {
    const auto at = entries_.find(detail::bundle_key(whole.info.name, slice));
    if (at == entries_.end())
      throw error(error_code::data_loss, operation,
                  {where(whole.info.name), " has ", whole.slices.size(), " slices, but slice ", parts.size(),
                   " is missing; fetch the files again"});
    parts.push_back(&at->second);
  }
  return parts;
}

// Checks, before memory is allocated, that the shards contain each element exactly once.
inline void tensorflow_checkpoint::check_places(const detail::bundle_entry& whole) const {
  if (whole.slices.empty()) return check_place(whole, whole);
  const auto bad = [&](const char* what) {
    throw error(error_code::data_loss, operation,
                {where(whole.info.name), " of extents ", detail::extents_text(whole.info.extents), " has ", what,
                 "; fetch the files again"});
  };
  if (whole.slices.size() > 10'000) bad("more than 10000 slices");
  const std::size_t rank = whole.info.extents.size();
  std::uint64_t bytes = 0;
  const auto parts = slices_of(whole);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& slice = whole.slices[i];
    if (slice.size() != rank || parts[i]->info.extents.size() != rank || parts[i]->info.type != whole.info.type)
      bad("a slice with different axes or elements");
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const std::int64_t extent = whole.info.extents[axis],
                         length = slice[axis].length < 0 ? extent : slice[axis].length;
      if (slice[axis].start < 0 || slice[axis].start > extent || length > extent - slice[axis].start ||
          length != parts[i]->info.extents[axis])
        bad("a slice that is out of range");
    }
    check_place(*parts[i], whole);
    bytes += parts[i]->bytes;
    for (std::size_t j = 0; j < i; ++j) {
      bool apart = false;
      for (std::size_t axis = 0; axis < rank && !apart; ++axis) {
        const auto end = [&](std::size_t n) { return whole.slices[n][axis].start + parts[n]->info.extents[axis]; };
        apart = end(i) <= whole.slices[j][axis].start || end(j) <= slice[axis].start;
      }
      if (!apart) bad("overlapping slices");
    }
  }
  if (bytes != detail::checked_bytes(operation, where(whole.info.name), whole.info)) bad("slices that do not cover it");
}

inline void tensorflow_checkpoint::check_place(const detail::bundle_entry& part,
                                               const detail::bundle_entry& whole) const {
  if (!part.info.type) return;  // tensor_for reports it
  // The constructor checks only entries without slices.
  if (!part.slices.empty() || part.shard >= shards_.size())
    throw error(error_code::data_loss, operation,
                {where(whole.info.name), " refers to ",
                 part.slices.empty() ? str_cat({"shard ", part.shard, " of ", shards_.size()})
                                     : std::string("more slices instead of elements"),
                 "; fetch the files again"});
  const std::uint64_t bytes = detail::checked_bytes(operation, where(whole.info.name), part.info);
  const auto& shard = shards_[static_cast<std::size_t>(part.shard)];
  if (part.bytes != bytes || part.offset > shard.bytes() || part.bytes > shard.bytes() - part.offset)
    throw error(error_code::data_loss, operation,
                {where(whole.info.name), " of ", part.info.type_name, detail::extents_text(part.info.extents),
                 " requires ", bytes, " bytes, but the index declares ", part.bytes, " from byte ", part.offset, " of ",
                 shard.path(), ", which has ", shard.bytes(), "; fetch the files again"});
}

inline void tensorflow_checkpoint::read_part(const detail::bundle_entry& part, const detail::bundle_entry& whole,
                                             std::byte* to) const {
  const auto& shard = shards_[static_cast<std::size_t>(part.shard)];
  const auto size = static_cast<std::size_t>(part.bytes);
  shard.read(part.offset, to, size);
  if (detail::masked_crc32c(to, size) != part.masked_crc)
    throw error(error_code::data_loss, operation,
                {where(whole.info.name), " does not have the CRC-32C in the index, ", size, " bytes from byte ",
                 part.offset, " of ", shard.path(), "; fetch the files again"});
  const std::size_t element = size_of(*part.info.type);
  if (big_endian_ != (std::endian::native == std::endian::big))
    for (std::byte* at = to; at != to + size; at += element) std::reverse(at, at + element);
  detail::check_bools(operation, where(whole.info.name), *part.info.type, reinterpret_cast<const unsigned char*>(to),
                      size);
}

inline void tensorflow_checkpoint::read_elements(const detail::bundle_entry& whole, std::byte* to) const {
  if (whole.slices.empty()) return read_part(whole, whole, to);
  const auto parts = slices_of(whole);
  const std::size_t rank = whole.info.extents.size(), element = size_of(*whole.info.type);
  std::vector<std::byte> rows;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    rows.resize(static_cast<std::size_t>(parts[i]->bytes));
    if (rows.empty()) continue;
    read_part(*parts[i], whole, rows.data());
    const auto& extents = parts[i]->info.extents;
    const std::size_t row = rank == 0 ? element : element * static_cast<std::size_t>(extents[rank - 1]);
    std::vector<std::int64_t> index(rank, 0);
    for (std::size_t from = 0; from < rows.size(); from += row) {
      std::size_t at = 0;
      for (std::size_t axis = 0; axis < rank; ++axis)
        at = at * static_cast<std::size_t>(whole.info.extents[axis]) +
             static_cast<std::size_t>(whole.slices[i][axis].start + index[axis]);
      std::memcpy(to + at * element, rows.data() + from, row);
      for (std::size_t axis = rank > 0 ? rank - 1 : 0; axis-- > 0;) {
        if (++index[axis] < extents[axis]) break;
        index[axis] = 0;
      }
    }
  }
}

namespace detail {

// tensorflow/core/framework/types.proto, DataType.
inline void set_tensorflow_type(tensor_info& info, std::uint64_t code) {
  struct type {
    const char* name;
    std::optional<dtype> weft;
  };
  static constexpr type types[] = {{"invalid", {}},
                                   {"float32", dtype::float32},
                                   {"float64", dtype::float64},
                                   {"int32", dtype::int32},
                                   {"uint8", dtype::uint8},
                                   {"int16", dtype::int16},
                                   {"int8", dtype::int8},
                                   {"string", {}},
                                   {"complex64", {}},
                                   {"int64", dtype::int64},
                                   {"bool", dtype::boolean},
                                   {"qint8", {}},
                                   {"quint8", {}},
                                   {"qint32", {}},
                                   {"bfloat16", dtype::bfloat16},
                                   {"qint16", {}},
                                   {"quint16", {}},
                                   {"uint16", dtype::uint16},
                                   {"complex128", {}},
                                   {"float16", dtype::float16},
                                   {"resource", {}},
                                   {"variant", {}},
                                   {"uint32", dtype::uint32},
                                   {"uint64", dtype::uint64}};
  if (code < std::size(types)) {
    info.type_name = types[code].name;
    info.type = types[code].weft;
  } else {
    info.type_name = str_cat({"number ", code});
  }
}

inline std::int64_t read_extent(const data::protobuf_reader& field) {
  const auto extent = static_cast<std::int64_t>(field.varint());
  if (extent < 0) field.bad("an extent is negative");
  return extent;
}

inline bundle_entry::slice read_slice(data::protobuf_reader message) {
  bundle_entry::slice slice;
  while (message.next()) {
    if (message.field() != 1) continue;
    bundle_entry::extent& extent = slice.emplace_back();
    for (data::protobuf_reader in = message.message(); in.next();) {
      if (in.field() == 1) extent.start = read_extent(in);
      if (in.field() == 2) extent.length = read_extent(in);
    }
  }
  return slice;
}

inline bundle_entry read_bundle_entry(const std::string& name, std::span<const std::byte> message,
                                      const std::string& path) {
  bundle_entry entry;
  // A slice's key consists of its tensor's name and its range in binary; messages use only the name.
  entry.info.name = name.starts_with('\0') ? name.substr(1, std::min(name.find('\0', 1), name.size()) - 1) : name;
  entry.info.type_name = "invalid";
  for (data::protobuf_reader in(message, str_cat({path, ": the entry of ", entry.info.name})); in.next();) {
    switch (in.field()) {
      case 1:
        set_tensorflow_type(entry.info, in.varint());
        break;
      case 2:
        for (data::protobuf_reader extents = in.message(); extents.next();) {
          if (extents.field() == 3 && extents.varint() != 0) extents.bad("a tensor has no known extents");
          if (extents.field() != 2) continue;
          std::int64_t size = 0;
          for (data::protobuf_reader extent = extents.message(); extent.next();)
            if (extent.field() == 1) size = read_extent(extent);
          entry.info.extents.push_back(size);
        }
        break;
      case 3:
        entry.shard = in.varint();
        break;
      case 4:
        entry.offset = in.varint();
        break;
      case 5:
        entry.bytes = in.varint();
        break;
      case 6:
        entry.masked_crc = in.fixed32();
        break;
      case 7:
        entry.slices.push_back(read_slice(in.message()));
        break;
      default:
        break;
    }
  }
  return entry;
}

// TensorFlow's EncodeTensorNameSlice: order-preserving codes (tensorflow/core/lib/strings/ordered_code.h).

inline void put_ordered(std::string& to, std::uint64_t number) {
  char bytes[9];
  std::size_t count = 0;
  for (; number != 0; number >>= 8) bytes[8 - count++] = static_cast<char>(number & 255u);
  to += static_cast<char>(count);
  to.append(bytes + 9 - count, count);
}

inline void put_ordered(std::string& to, std::string_view text) {
  for (const char c : text) {
    to += c;
    if (c == '\0') to += '\xff';
    if (c == '\xff') to += '\0';
  }
  to.append("\0\1", 2);
}

// n bytes: n ones, the inverted sign bit, and 7 n - 1 bits of two's complement. For a negative number, the ones are
// zeros.
inline void put_ordered_signed(std::string& to, std::int64_t number) {
  const std::uint64_t magnitude = static_cast<std::uint64_t>(number < 0 ? ~number : number);
  const auto size = static_cast<std::size_t>((64 - std::countl_zero(magnitude)) / 7 + 1);
  unsigned char bytes[10];
  for (std::size_t i = 0; i < 10; ++i)
    bytes[9 - i] = static_cast<unsigned char>(i < 8 ? number >> 8 * i : number < 0 ? -1 : 0);
  unsigned char* const first = bytes + 10 - size;
  for (std::size_t bit = 0; bit < size; ++bit) first[bit / 8] ^= static_cast<unsigned char>(128u >> bit % 8);
  to.append(reinterpret_cast<const char*>(first), size);
}

inline std::string bundle_key(std::string_view name, const bundle_entry::slice& slice) {
  std::string key;
  put_ordered(key, std::uint64_t{0});
  put_ordered(key, name);
  put_ordered(key, std::uint64_t{slice.size()});
  for (const auto& extent : slice) {
    put_ordered_signed(key, extent.start);
    put_ordered_signed(key, extent.length);
  }
  return key;
}

}  // namespace detail

}  // namespace weft
