// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include <weft/data/file_reader.hpp>
#include <weft/error.hpp>
#include <weft/tensor/dims.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/text.hpp>

namespace weft::data {

namespace detail {

template <class T>
inline constexpr unsigned idx_code = 0;
template <>
inline constexpr unsigned idx_code<std::uint8_t> = 0x08;
template <>
inline constexpr unsigned idx_code<std::int8_t> = 0x09;
template <>
inline constexpr unsigned idx_code<std::int16_t> = 0x0b;
template <>
inline constexpr unsigned idx_code<std::int32_t> = 0x0c;
template <>
inline constexpr unsigned idx_code<float> = 0x0d;
template <>
inline constexpr unsigned idx_code<double> = 0x0e;

/// An IDX file, after its header has been read.
struct idx_file {
  /// Throws the errors of read_idx. `code` and `element_bytes` describe the expected type.
  idx_file(const std::string& path, unsigned code, std::size_t element_bytes);
  /// Reads all elements, `bytes` in total, and converts them to native byte order.
  void read(void* to);

  file_reader file;
  sequence<std::size_t> extents;
  std::size_t element_bytes, bytes = 0;
  std::string text;  ///< "60000 x 28 x 28"
};

WEFT_COLD_BEGIN
#if WEFT_DEFINITIONS

inline std::string idx_type_name(unsigned code) {
  switch (code) {
    case 0x08:
      return "unsigned bytes";
    case 0x09:
      return "signed bytes";
    case 0x0b:
      return "16-bit integers";
    case 0x0c:
      return "32-bit integers";
    case 0x0d:
      return "floats";
    case 0x0e:
      return "doubles";
    default:
      return str_cat({"elements of unknown type ", code});
  }
}

[[noreturn]] inline void bad_idx(error_code code, const std::string& path, std::initializer_list<piece> why) {
  throw error(code, "read_idx", {path, " ", str_cat(why)});
}

WEFT_DECL idx_file::idx_file(const std::string& path, unsigned code, std::size_t of_each)
    : file(path), element_bytes(of_each) {
  unsigned char magic[4], sizes[4 * max_rank];
  if (file.read(magic, sizeof magic) != sizeof magic || magic[0] != 0 || magic[1] != 0)
    bad_idx(error_code::invalid_argument, path, {"is not an IDX file"});
  if (magic[2] != code)
    bad_idx(error_code::invalid_argument, path,
            {"contains ", idx_type_name(magic[2]), ", but ", idx_type_name(code), " are expected"});
  const std::size_t rank = magic[3];
  if (rank == 0 || rank > max_rank)
    bad_idx(error_code::invalid_argument, path, {"has ", rank, " dimensions, but must have 1 to ", max_rank});
  if (file.read(sizes, 4 * rank) != 4 * rank) bad_idx(error_code::data_loss, path, {"ends inside its header"});

  std::uint64_t promised = element_bytes;
  bool too_big = false;
  for (const unsigned char* at = sizes; at != sizes + 4 * rank; at += 4) {
    const std::uint32_t extent =
        std::uint32_t{at[0]} << 24 | std::uint32_t{at[1]} << 16 | std::uint32_t{at[2]} << 8 | at[3];
    extents.push_back(extent);
    append(text, {at == sizes ? "" : " x ", extent});
    too_big = too_big || __builtin_mul_overflow(promised, std::uint64_t{extent}, &promised);
  }
  if (too_big || promised > file.max_bytes() - sizeof magic - 4 * rank)
    bad_idx(error_code::data_loss, path,
            {"declares ", text, " ", idx_type_name(code), ", more than a file of ", file.bytes(),
             " bytes can contain; fetch the file again"});
  bytes = promised;
}

WEFT_DECL void idx_file::read(void* to) {
  const std::size_t got = file.read(to, bytes);
  if (got != bytes)
    bad_idx(error_code::data_loss, file.path(),
            {"declares ", text, " elements, ", bytes, " bytes, but has ", got, "; fetch the file again"});
  unsigned char beyond;
  if (file.read(&beyond, 1) != 0)
    bad_idx(error_code::data_loss, file.path(),
            {"has more bytes than the ", text, " elements that it declares; fetch the file again"});
  // IDX is big-endian; all machines that Weft supports are little-endian.
  auto* const first = static_cast<unsigned char*>(to);
  if (element_bytes > 1)
    for (unsigned char* each = first; each != first + bytes; each += element_bytes)
      for (std::size_t i = 0; i < element_bytes / 2; ++i) {
        const unsigned char byte = each[i];
        each[i] = each[element_bytes - 1 - i];
        each[element_bytes - 1 - i] = byte;
      }
}

#endif
WEFT_COLD_END

}  // namespace detail

/// An element type of the IDX format.
template <class T>
concept idx_element = (detail::idx_code<T> != 0);

/// The content of an IDX file, the format of MNIST and its successors.
template <idx_element T>
struct idx_array {
  std::vector<std::size_t> extents;
  std::vector<T> values;  ///< in row-major order
};

/// Reads a whole IDX file, plain or (with zlib) compressed.
///
/// The file is not trusted: its size is compared with its header before memory is allocated. Throws invalid_argument if
/// it is not an IDX file of `T`, data_loss if it is shorter or longer than its header promises, and the errors of
/// file_reader.
template <idx_element T>
idx_array<T> read_idx(const std::string& path) {
  detail::idx_file file(path, detail::idx_code<T>, sizeof(T));
  idx_array<T> array;
  array.extents.assign(file.extents.begin(), file.extents.end());
  array.values.resize(file.bytes / sizeof(T));
  file.read(array.values.data());
  return array;
}

}  // namespace weft::data
