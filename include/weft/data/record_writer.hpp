#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <weft/data/crc32c.hpp>

/// Files of TensorFlow's records (TFRecord): each is its length in eight bytes, the masked CRC-32C of these, its bytes,
/// and their masked CRC-32C; numbers are little-endian.
namespace weft::data {

/// Appends one record to what is to be written to a file of them.
inline void append_record(std::string& to, std::string_view record);

}  // namespace weft::data

namespace weft::detail {

inline constexpr std::size_t record_head = 12, record_tail = 4;

template <class Word>
void append_little_endian(std::string& to, Word word) {
  for (std::size_t i = 0; i < sizeof word; ++i) to += static_cast<char>((word >> (8 * i)) & 0xff);
}
template <class Word>
Word little_endian(const char* from) {
  Word word = 0;
  for (std::size_t i = 0; i < sizeof word; ++i)
    word |= static_cast<Word>(static_cast<Word>(static_cast<unsigned char>(from[i])) << (8 * i));
  return word;
}

}  // namespace weft::detail

inline void weft::data::append_record(std::string& to, std::string_view record) {
  const std::size_t begin = to.size();
  weft::detail::append_little_endian(to, std::uint64_t{record.size()});
  weft::detail::append_little_endian(to, weft::detail::masked_crc32c(to.data() + begin, 8));
  to.append(record);
  weft::detail::append_little_endian(to, weft::detail::masked_crc32c(record.data(), record.size()));
}
