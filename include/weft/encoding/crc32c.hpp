// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <weft/config.hpp>

namespace weft {
namespace detail {

inline constexpr std::uint32_t crc32c_polynomial = 0x82f63b78u;  // Castagnoli, bits reversed

using crc_matrix = std::array<std::uint32_t, 32>;  // a linear map on CRC registers: column i is the image of bit i

constexpr std::uint32_t multiply(const crc_matrix& matrix, std::uint32_t vector) {
  std::uint32_t product = 0;
  for (std::size_t i = 0; vector != 0; ++i, vector >>= 1)
    if (vector & 1u) product ^= matrix[i];
  return product;
}

// The map that appending `bytes` zero bytes applies to a CRC register; `bytes` is a power of two.
constexpr crc_matrix append_zeros(std::size_t bytes) {
  crc_matrix matrix{crc32c_polynomial};  // one zero bit
  for (std::size_t i = 1; i < 32; ++i) matrix[i] = 1u << (i - 1);
  for (std::size_t bits = 1; bits < 8 * bytes; bits *= 2) {
    crc_matrix squared{};
    for (std::size_t i = 0; i < 32; ++i) squared[i] = multiply(matrix, matrix[i]);
    matrix = squared;
  }
  return matrix;
}

// The same map, as one table for each byte of the register.
struct crc_shift {
  std::array<std::array<std::uint32_t, 256>, 4> table{};

  explicit crc_shift(std::size_t bytes) {
    const crc_matrix matrix = append_zeros(bytes);
    for (std::uint32_t byte = 0; byte < 4; ++byte)
      for (std::uint32_t value = 0; value < 256; ++value) table[byte][value] = multiply(matrix, value << (8 * byte));
  }

  std::uint32_t operator()(std::uint32_t crc) const {
    return table[0][crc & 255u] ^ table[1][(crc >> 8) & 255u] ^ table[2][(crc >> 16) & 255u] ^ table[3][crc >> 24];
  }
};

// Slicing by eight: table k advances a byte over k more zero bytes.
template <std::uint32_t Polynomial>
const auto& crc_tables() {
  static const auto tables = [] {
    std::array<std::array<std::uint32_t, 256>, 8> result{};
    for (std::uint32_t value = 0; value < 256; ++value) {
      std::uint32_t crc = value;
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) ? Polynomial : 0u);
      result[0][value] = crc;
    }
    for (std::size_t k = 1; k < 8; ++k)
      for (std::size_t value = 0; value < 256; ++value)
        result[k][value] = (result[k - 1][value] >> 8) ^ result[0][result[k - 1][value] & 255u];
    return result;
  }();
  return tables;
}

template <std::uint32_t Polynomial>
std::uint32_t crc_portable(std::uint32_t crc, const std::byte* data, std::size_t size) {
  const auto& tables = crc_tables<Polynomial>();
  const auto at = [&](std::size_t i) { return std::to_integer<std::uint32_t>(data[i]); };
  for (; size >= 8; size -= 8, data += 8) {
    crc ^= at(0) | at(1) << 8 | at(2) << 16 | at(3) << 24;
    crc = tables[7][crc & 255u] ^ tables[6][(crc >> 8) & 255u] ^ tables[5][(crc >> 16) & 255u] ^ tables[4][crc >> 24] ^
          tables[3][at(4)] ^ tables[2][at(5)] ^ tables[1][at(6)] ^ tables[0][at(7)];
  }
  for (; size != 0; --size, ++data) crc = (crc >> 8) ^ tables[0][(crc ^ at(0)) & 255u];
  return crc;
}

}  // namespace detail

/// CRC32C (Castagnoli; RFC 3720, appendix B.4) of `bytes`. To continue an earlier checksum, pass it as `before`.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

namespace detail {

/// A checksum stored next to its data is rotated, and a constant is added. Without this, the CRC of a record that
/// contains its own CRC would be the same for all data (TensorFlow's lib/hash/crc32c.h).
inline std::uint32_t masked_crc32c(const void* bytes, std::size_t size) {
  const std::uint32_t crc = crc32c({static_cast<const std::byte*>(bytes), size});
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace detail

#if WEFT_DEFINITIONS

namespace detail {

  #if defined(__x86_64__) && defined(__GNUC__)

inline std::uint64_t load_word(const std::byte* from) {
  std::uint64_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

// The crc32 instruction has a latency of three cycles and a throughput of one per cycle, so three independent streams
// keep the unit busy.
template <std::size_t Block>
__attribute__((target("sse4.2"))) inline void crc32c_three_streams(std::uint64_t& crc, const std::byte*& data,
                                                                   std::size_t& size, const crc_shift& shift) {
  while (size >= 3 * Block) {
    std::uint64_t second = 0, third = 0;
    for (const std::byte* end = data + Block; data != end; data += 8) {
      crc = __builtin_ia32_crc32di(crc, load_word(data));
      second = __builtin_ia32_crc32di(second, load_word(data + Block));
      third = __builtin_ia32_crc32di(third, load_word(data + 2 * Block));
    }
    crc = shift(static_cast<std::uint32_t>(crc)) ^ second;
    crc = shift(static_cast<std::uint32_t>(crc)) ^ third;
    data += 2 * Block;
    size -= 3 * Block;
  }
}

__attribute__((target("sse4.2"))) inline std::uint32_t crc32c_sse42(std::uint32_t start, const std::byte* data,
                                                                    std::size_t size) {
  static const crc_shift over_4096{4096}, over_256{256};
  std::uint64_t crc = start;
  crc32c_three_streams<4096>(crc, data, size, over_4096);
  crc32c_three_streams<256>(crc, data, size, over_256);
  for (; size >= 8; size -= 8, data += 8) crc = __builtin_ia32_crc32di(crc, load_word(data));
  auto result = static_cast<std::uint32_t>(crc);
  for (; size != 0; --size, ++data) result = __builtin_ia32_crc32qi(result, std::to_integer<unsigned char>(*data));
  return result;
}

inline bool has_sse42() {
  static const bool has = __builtin_cpu_supports("sse4.2");
  return has;
}

  #endif

}  // namespace detail

WEFT_DECL std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  #if defined(__x86_64__) && defined(__GNUC__)
  if (detail::has_sse42()) return ~detail::crc32c_sse42(~before, bytes.data(), bytes.size());
  #endif
  return ~detail::crc_portable<detail::crc32c_polynomial>(~before, bytes.data(), bytes.size());
}

#endif

}  // namespace weft
