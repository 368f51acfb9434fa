#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <weft/data/file_reader.hpp>
#include <weft/error.hpp>
#include <weft/tensor/dims.hpp>

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
      return "elements of unknown type " + std::to_string(code);
  }
}

inline std::uint32_t big_endian(const unsigned char* at) {
  return std::uint32_t{at[0]} << 24 | std::uint32_t{at[1]} << 16 | std::uint32_t{at[2]} << 8 | at[3];
}

/// The file's byte order is the other one on every machine that Weft runs on.
template <class T>
void swap_bytes(std::vector<T>& values) {
  if constexpr (sizeof(T) > 1)
    for (T& value : values) {
      auto* bytes = reinterpret_cast<unsigned char*>(&value);
      for (std::size_t i = 0; i < sizeof(T) / 2; ++i) std::swap(bytes[i], bytes[sizeof(T) - 1 - i]);
    }
}

[[noreturn]] inline void bad_idx(error_code code, const std::string& path, const std::string& why) {
  throw error(code, "read_idx", path + " " + why);
}

}  // namespace detail

/// An element type of the IDX format.
template <class T>
concept idx_element = detail::idx_code<T>
!= 0;

/// The content of an IDX file: the format of MNIST and its successors.
template <idx_element T>
struct idx_array {
  std::vector<std::size_t> extents;
  std::vector<T> values;  ///< in row-major order
};

/// Reads a whole IDX file, plain or (with zlib) compressed.
///
/// The file is not trusted: nothing is allocated before its size has been held against what it promises. Throws
/// invalid_argument where it is no IDX file of `T`, data_loss where it is shorter or longer than it says, and what
/// file_reader throws.
template <idx_element T>
idx_array<T> read_idx(const std::string& path) {
  file_reader file(path);
  unsigned char magic[4], sizes[4 * max_rank];
  if (file.read(magic, sizeof magic) != sizeof magic || magic[0] != 0 || magic[1] != 0)
    detail::bad_idx(error_code::invalid_argument, path, "is not an IDX file");
  if (magic[2] != detail::idx_code<T>)
    detail::bad_idx(error_code::invalid_argument, path,
                    "holds " + detail::idx_type_name(magic[2]) + " where " +
                        detail::idx_type_name(detail::idx_code<T>) + " are expected");
  const std::size_t rank = magic[3];
  if (rank == 0 || rank > max_rank)
    detail::bad_idx(
        error_code::invalid_argument, path,
        "has " + std::to_string(rank) + " dimensions where 1 to " + std::to_string(max_rank) + " are expected");
  if (file.read(sizes, 4 * rank) != 4 * rank) detail::bad_idx(error_code::data_loss, path, "ends within its header");

  idx_array<T> array;
  std::uint64_t bytes = sizeof(T);
  std::string text;
  bool too_big = false;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::uint32_t extent = detail::big_endian(sizes + 4 * i);
    array.extents.push_back(extent);
    text += (i ? " x " : "") + std::to_string(extent);
    too_big = too_big || __builtin_mul_overflow(bytes, std::uint64_t{extent}, &bytes);
  }
  if (too_big || bytes > file.max_bytes() - sizeof magic - 4 * rank)
    detail::bad_idx(error_code::data_loss, path,
                    "promises " + text + " " + detail::idx_type_name(detail::idx_code<T>) + ", more than a file of " +
                        std::to_string(file.bytes()) + " bytes can hold; fetch the file again");

  array.values.resize(static_cast<std::size_t>(bytes / sizeof(T)));
  const std::size_t got = file.read(array.values.data(), static_cast<std::size_t>(bytes));
  if (got != bytes)
    detail::bad_idx(error_code::data_loss, path,
                    "promises " + text + " elements in " + std::to_string(bytes) + " bytes but has " +
                        std::to_string(got) + "; fetch the file again");
  unsigned char beyond;
  if (file.read(&beyond, 1) != 0)
    detail::bad_idx(error_code::data_loss, path, "goes on after the " + text + " elements that it promises");
  detail::swap_bytes(array.values);
  return array;
}

}  // namespace weft::data
