// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <weft/encoding/crc32c.hpp>
#include <weft/encoding/endian.hpp>

/// TFRecord files, TensorFlow's record format. Each record consists of its length in eight bytes, the masked CRC-32C of
/// the length, the data, and the masked CRC-32C of the data. Numbers are little-endian.
namespace weft::data {

/// Appends one record to `to`, the contents of a TFRecord file.
inline void append_record(std::string& to, std::string_view record);

}  // namespace weft::data

namespace weft::detail {

inline constexpr std::size_t record_head = 12, record_tail = 4;

template <class Integer>
void append_little(std::string& to, Integer value) {
  to.resize(to.size() + sizeof value);
  put_little(to.data() + to.size() - sizeof value, value);
}

}  // namespace weft::detail

inline void weft::data::append_record(std::string& to, std::string_view record) {
  const std::size_t begin = to.size();
  weft::detail::append_little(to, std::uint64_t{record.size()});
  weft::detail::append_little(to, weft::detail::masked_crc32c(to.data() + begin, 8));
  to.append(record);
  weft::detail::append_little(to, weft::detail::masked_crc32c(record.data(), record.size()));
}
