// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <weft/checkpoint/tensor_info.hpp>
#include <weft/encoding/file.hpp>
#include <weft/encoding/file_section.hpp>
#include <weft/error.hpp>
#include <weft/tensor/tensor.hpp>

namespace weft {

namespace detail {

/// The header of a NumPy file; the elements follow it.
struct npy_header {
  tensor_info info;
  bool column_major = false;
  bool swapped = false;  ///< in the other byte order than this machine's
};

npy_header read_npy_header(section_reader& from);
void read_npy_elements(section_reader& from, const npy_header& header, std::byte* to);
std::string npy_header_text(dtype type, const shape& extents);

template <class Tensor>
Tensor read_npy_from(section_reader& from) {
  const npy_header header = read_npy_header(from);
  auto value = tensor_for<Tensor>("read_npy", from.name(), header.info);
  read_npy_elements(from, header, bytes_of(value));
  return value;
}

inline section_place whole_file(const input_file& file) {
  return {.name = file.path(), .stored = file.bytes(), .bytes = file.bytes()};
}

}  // namespace detail

/// Returns the element type and extents from a NumPy .npy file's header.
inline tensor_info npy_info(const std::string& path) {
  const detail::input_file file(path);
  detail::section_reader from(file, detail::whole_file(file));
  return detail::read_npy_header(from).info;
}

/// Reads a NumPy .npy file that contains one array, of format 1.0, 2.0 or 3.0, in any byte order, row-major or
/// column-major, as a tensor of the file's element type and extents: `read_npy<tensor<float, dims<dyn<"batch">,
/// 784>>>(path)`. NumPy has no bfloat16; other programs write it as two bytes of type void, which are read as bfloat16.
///
/// The file is not trusted: its size is compared with its header before memory is allocated. Throws invalid_argument if
/// it is not a .npy file, contains several arrays, or has another element type or other extents, data_loss if it is
/// damaged, unimplemented if Weft does not support the element type, and not_found, permission_denied or unavailable if
/// the file cannot be read.
template <class Tensor>
Tensor read_npy(const std::string& path) {
  static_assert(correct<file_is_not_read_as<Tensor>>,
                "read_npy: the result must be a tensor<T, dims<...>>: read_npy<tensor<...>>(path)");
  const detail::input_file file(path);
  detail::section_reader from(file, detail::whole_file(file));
  if constexpr (correct<file_is_not_read_as<Tensor>>)
    return detail::read_npy_from<Tensor>(from);
  else
    return Tensor();
}

namespace detail {

inline void write_npy_bytes(const std::string& path, dtype type, const shape& extents,
                            std::span<const std::byte> bytes) {
  const std::string header = npy_header_text(type, extents);
  atomic_file file(path, header.size() + bytes.size());
  file.write(header.data(), header.size());
  file.write(bytes.data(), bytes.size());
  file.commit();
}

template <class T, class Dims>
std::span<const std::byte> bytes_of(const tensor<T, Dims, cpu>& t) {
  return std::as_bytes(std::span(t.data(), t.elements()));
}

}  // namespace detail

/// Writes a NumPy .npy file, byte for byte as numpy.save does. An existing file is replaced when the new one is
/// complete. NumPy reads bfloat16 as two bytes of type void; convert them with `array.view(ml_dtypes.bfloat16)`.
///
/// Throws not_found, permission_denied, resource_exhausted or unavailable if the file cannot be written.
template <class T, class Dims>
void write_npy(const std::string& path, const tensor<T, Dims, cpu>& value) {
  detail::write_npy_bytes(path, dtype_of<T>, value.extents(), detail::bytes_of(value));
}
/// Writes a value whose type is known only at run time.
inline void write_npy(const std::string& path, const untyped_tensor& value) {
  detail::write_npy_bytes(path, value.type, value.extents, value.bytes);
}

namespace detail {

[[noreturn]] inline void bad_npy(error_code code, const section_reader& from, const std::string& why) {
  throw error(code, "read_npy", {from.name(), " ", why});
}

/// Parses an .npy file's header: a Python dictionary literal.
class python_dictionary {
 public:
  python_dictionary(const section_reader& file, const std::string& text, std::uint64_t offset)
      : file_(file), text_(text), offset_(offset) {}

  npy_header read() {
    npy_header header;
    bool type = false, order = false, extents = false;
    expect('{');
    while (!take('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr")
        once(type), read_type(header, quoted());
      else if (key == "fortran_order")
        once(order), header.column_major = truth();
      else if (key == "shape")
        once(extents), header.info.extents = tuple();
      else
        bad("an unknown key");
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    if (peek() != 0) bad("text after the dictionary");
    if (!type || !order || !extents) bad("a dictionary without descr, fortran_order or shape");
    return header;
  }

 private:
  [[noreturn]] void bad(const char* what) const {
    bad_npy(error_code::data_loss, file_,
            str_cat({"has an invalid header: ", what, " at byte ", offset_ + at_, "; fetch the file again"}));
  }

  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (take(c)) return;
    const char what[] = {'n', 'o', ' ', c, '\0'};
    bad(what);
  }
  void once(bool& seen) {
    if (seen) bad("a duplicate key");
    seen = true;
  }
  bool word(const char* what) {
    peek();
    const std::size_t size = std::strlen(what);
    if (text_.compare(at_, size, what) != 0) return false;
    at_ += size;
    return true;
  }
  bool truth() {
    if (word("True")) return true;
    if (!word("False")) bad("neither True nor False");
    return false;
  }
  std::string quoted() {
    const char quote = peek();
    if (quote == '[')
      bad_npy(error_code::unimplemented, file_,
              "has a structured element type, which Weft does not support: save each field, array['name'], separately");
    if (quote != '\'' && quote != '"') bad("no quote");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string::npos) bad("an unclosed quote");
    const std::string content = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return content;
  }
  std::int64_t number() {
    std::int64_t value = 0;
    const char first = peek();
    if (first < '0' || first > '9') bad("a missing extent");
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text_[at_] - '0', &value))
        bad("an extent that exceeds 64 bits");
    take('L');  // Python 2's suffix of a long
    return value;
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> extents;
    expect('(');
    while (!take(')')) {
      extents.push_back(number());
      if (extents.size() > 64) bad("more than 64 axes");
      if (!take(',')) {
        if (extents.size() == 1) bad("no comma after the only extent");
        expect(')');
        break;
      }
    }
    return extents;
  }

  // NumPy writes '<f4': byte order, kind and size. Other programs write any argument of numpy.dtype(): '<q', a byte
  // order and a type code, or 'float32', a name in native byte order.
  static std::string canonical(const std::string& type, bool order) {
    struct spelling {
      const char *kind, *codes, *names;
    };
    constexpr spelling known[] = {{"b1", "?", "bool bool_"},
                                  {"i1", "b", "int8 byte"},
                                  {"i2", "h", "int16 short"},
                                  {"i4", "i", "int32 intc"},
                                  {"i8", "lqpn", "int64 int int_ intp long longlong"},
                                  {"u1", "B", "uint8 ubyte"},
                                  {"u2", "H", "uint16 ushort"},
                                  {"u4", "I", "uint32 uintc"},
                                  {"u8", "LQPN", "uint64 uint uintp ulong ulonglong"},
                                  {"f2", "e", "float16 half"},
                                  {"f4", "f", "float32 single"},
                                  {"f8", "d", "float64 double float"}};
    const std::string word = " " + type + " ";
    for (const spelling& s : known) {
      const bool code = type.size() == 1 && type[0] != '\0' && std::strchr(s.codes, type[0]);
      if (code || (!order && type.size() > 1 && str_cat({" ", s.names, " "}).find(word) != std::string::npos))
        return s.kind;
    }
    return type;
  }
  static void read_type(npy_header& header, const std::string& text) {
    header.info.type_name = text;
    if (text.empty()) return;
    const bool order = text[0] == '<' || text[0] == '>' || text[0] == '|' || text[0] == '=';
    const std::string type = canonical(order ? text.substr(1) : text, order);
    constexpr const char* known[] = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "V2", "f4", "f8"};
    for (unsigned char i = 0; i < std::size(known); ++i)
      if (type == known[i]) header.info.type = static_cast<dtype>(i);
    const char other = std::endian::native == std::endian::little ? '>' : '<';
    header.swapped = text[0] == other && type != "V2";
  }

  const section_reader& file_;
  const std::string& text_;
  std::uint64_t offset_;
  std::size_t at_ = 0;
};

/// Throws if the file is longer than the array, which has `bytes` bytes. numpy.save() into an open file appends an
/// array, and no header gives the number of arrays.
[[noreturn]] inline void refuse_more(section_reader& from, const npy_header& header, std::uint64_t bytes) {
  const std::uint64_t end = from.at() + bytes, more = from.left() - bytes;
  std::byte passed[4096];
  while (from.at() < end)
    from.read(passed, static_cast<std::size_t>(std::min<std::uint64_t>(end - from.at(), sizeof passed)));
  if (more >= 6) from.read(passed, 6);
  if (more >= 6 && std::memcmp(passed, "\x93NUMPY", 6) == 0)
    bad_npy(error_code::invalid_argument, from,
            str_cat({"contains several arrays, the second at byte ", end,
                     ": save each to its own file, or all of them with numpy.savez"}));
  bad_npy(error_code::data_loss, from,
          str_cat({"declares ", extents_text(header.info.extents), " elements of type ", header.info.type_name, ", ",
                   bytes, " bytes, but ", bytes + more, " follow its header; fetch the file again"}));
}

inline npy_header read_npy_header(section_reader& from) {
  unsigned char start[12];
  if (from.left() < 10) bad_npy(error_code::invalid_argument, from, "is not an .npy file: it has fewer than 10 bytes");
  from.read(start, 8);
  if (std::memcmp(start, "\x93NUMPY", 6) != 0)
    bad_npy(error_code::invalid_argument, from, "is not an .npy file: it does not begin with \\x93NUMPY");
  const unsigned major = start[6];
  if (major < 1 || major > 3)
    bad_npy(error_code::unimplemented, from,
            str_cat({"has version ", major, ".", unsigned{start[7]}, " of the format, but Weft reads 1.0 to 3.0"}));
  const std::size_t digits = major == 1 ? 2 : 4;
  if (from.left() < digits) bad_npy(error_code::data_loss, from, "ends inside its header; fetch the file again");
  from.read(start + 8, digits);
  std::size_t size = 0;
  for (std::size_t i = 0; i < digits; ++i) size |= std::size_t{start[8 + i]} << 8 * i;
  if (size > from.left() || size > (1u << 20))
    bad_npy(error_code::data_loss, from,
            str_cat({"declares a header of ", size, " bytes, but ", from.left(),
                     " are left, and headers have at most 1 MiB; fetch the file again"}));
  const std::uint64_t offset = from.at();
  std::string text(size, '\0');
  from.read(text.data(), size);
  npy_header header = python_dictionary(from, text, offset).read();
  if (header.info.type) {
    const std::uint64_t bytes = checked_bytes("read_npy", from.name(), header.info);
    if (bytes < from.left()) refuse_more(from, header, bytes);
    if (bytes != from.left())
      bad_npy(error_code::data_loss, from,
              str_cat({"declares ", extents_text(header.info.extents), " elements of type ", header.info.type_name,
                       ", ", bytes, " bytes, but ", from.left(), " follow its header; fetch the file again"}));
  }
  return header;
}

/// Converts column-major to row-major order.
inline void to_row_major(const std::byte* from, std::byte* to, const shape& extents, std::size_t element) {
  std::size_t steps[max_rank] = {}, step = element;
  for (std::size_t i = 0; i < extents.rank; ++i) {
    steps[i] = step;
    step *= static_cast<std::size_t>(extents[i]);
  }
  std::int64_t index[max_rank] = {};
  const std::size_t count = extents.elements();
  for (std::size_t n = 0; n < count; ++n, to += element) {
    std::memcpy(to, from, element);
    for (std::size_t axis = extents.rank; axis-- > 0;) {
      from += steps[axis];
      if (++index[axis] < extents[axis]) break;
      from -= steps[axis] * static_cast<std::size_t>(extents[axis]);
      index[axis] = 0;
    }
  }
}

/// Reverses the bytes of each element.
inline void swap_element_bytes(std::byte* bytes, std::size_t size, std::size_t element) {
  for (std::byte* const end = bytes + size; bytes != end; bytes += element) std::reverse(bytes, bytes + element);
}

inline void read_npy_elements(section_reader& from, const npy_header& header, std::byte* to) {
  const std::size_t element = size_of(*header.info.type);
  const std::size_t size = from.left();
  if (size > 0 && header.column_major && header.info.extents.size() > 1) {
    std::vector<std::byte> columns(size);
    from.read(columns.data(), size);
    to_row_major(columns.data(), to, checked_extents("read_npy", from.name(), header.info), element);
  } else {
    from.read(to, size);
  }
  if (header.swapped) swap_element_bytes(to, size, element);
  check_bools("read_npy", from.name(), *header.info.type, reinterpret_cast<const unsigned char*>(to), size);
}

inline std::string npy_header_text(dtype type, const shape& extents) {
  static_assert(std::endian::native == std::endian::little, "the types below say so");
  constexpr const char* types[] = {"|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2",
                                   "<u4", "<u8", "<f2", "<V2", "<f4", "<f8"};
  std::string text =
      str_cat({"{'descr': '", types[static_cast<std::size_t>(type)], "', 'fortran_order': False, 'shape': ("});
  for (std::size_t i = 0; i < extents.rank; ++i)
    append(text, {i ? ", " : "", extents[i], extents.rank == 1 ? "," : ""});
  text += "), }";
  // As in NumPy: reserves 21 digits for the first extent, so that rows can be appended in place, and pads to 64 bytes.
  if (extents.rank > 0) text.append(21 - std::to_string(extents[0]).size(), ' ');
  text.append(64 - (10 + text.size() + 1) % 64, ' ');
  text += '\n';
  const auto size = static_cast<unsigned>(text.size());
  return std::string("\x93NUMPY\x01", 7) + '\0' + static_cast<char>(size & 255u) + static_cast<char>(size >> 8) + text;
}

}  // namespace detail

}  // namespace weft
