// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/config.hpp>

namespace weft::data {

/// Writes a Protocol Buffers message field by field in wire format (protobuf.dev/programming-guides/encoding). There is
/// no schema: the caller passes each field's number and calls the function for its type.
class protobuf_writer {
 public:
  /// int32, int64, uint64, bool and enumerations. A negative number takes ten bytes.
  void add_integer(std::uint32_t field, std::int64_t value) {
    add_key(field, varint);
    add_varint(static_cast<std::uint64_t>(value));
  }
  /// double or float, which differ on the wire.
  void add_number(std::uint32_t field, double value) {
    add_key(field, eight_bytes);
    add_fixed(std::bit_cast<std::uint64_t>(value));
  }
  void add_number(std::uint32_t field, float value) {
    add_key(field, four_bytes);
    add_fixed(std::bit_cast<std::uint32_t>(value));
  }
  /// string and bytes.
  void add_text(std::uint32_t field, std::string_view value) {
    add_key(field, length_delimited);
    add_varint(value.size());
    bytes_.append(value);
  }
  /// Adds bytes without a copy: they must exist until the message is written. `bytes` omits them, `each_piece` does
  /// not.
  void add_reference(std::uint32_t field, std::span<const std::byte> value) {
    add_key(field, length_delimited);
    add_varint(value.size());
    references_.emplace_back(bytes_.size(), value);
  }
  void add_message(std::uint32_t field, const protobuf_writer& message) {
    add_key(field, length_delimited);
    add_varint(message.size());
    for (const auto& [at, value] : message.references_) references_.emplace_back(bytes_.size() + at, value);
    bytes_.append(message.bytes_);
  }
  /// One entry of a map<string, message>.
  void add_entry(std::uint32_t field, std::string_view key, const protobuf_writer& message) {
    protobuf_writer entry;
    entry.add_text(1, key);
    entry.add_message(2, message);
    add_message(field, entry);
  }
  /// A packed `repeated double` or `repeated float`.
  template <class T>
    requires std::is_floating_point_v<T>
  void add_numbers(std::uint32_t field, const T* values, std::size_t count) {
    using word = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
    add_key(field, length_delimited);
    add_varint(sizeof(T) * count);
    for (std::size_t i = 0; i < count; ++i) add_fixed(std::bit_cast<word>(values[i]));
  }
  /// A packed `repeated int64` or any other integer type except sint.
  template <class T>
    requires std::is_integral_v<T>
  void add_integers(std::uint32_t field, const T* values, std::size_t count) {
    std::size_t size = 0;
    for (std::size_t i = 0; i < count; ++i)
      size += static_cast<std::size_t>(64 - std::countl_zero(static_cast<std::uint64_t>(values[i]) | 1) + 6) / 7;
    add_key(field, length_delimited);
    add_varint(size);
    for (std::size_t i = 0; i < count; ++i) add_varint(static_cast<std::uint64_t>(values[i]));
  }

  /// The message, if nothing was added by reference.
  const std::string& bytes() const { return bytes_; }

  /// The message's size in bytes.
  std::uint64_t size() const {
    std::uint64_t total = bytes_.size();
    for (const auto& reference : references_) total += reference.second.size();
    return total;
  }

  /// Calls `take` with the pieces of the message in order.
  template <class Take>
  void each_piece(Take take) const {
    std::size_t from = 0;
    for (const auto& [at, value] : references_) {
      take(bytes_.data() + from, at - from);
      take(value.data(), value.size());
      from = at;
    }
    take(bytes_.data() + from, bytes_.size() - from);
  }

 private:
  enum wire_type : std::uint32_t { varint = 0, eight_bytes = 1, length_delimited = 2, four_bytes = 5 };

  void add_key(std::uint32_t field, wire_type type) { add_varint((std::uint64_t{field} << 3) | type); }
  void add_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7f) | 0x80);
    bytes_ += static_cast<char>(value);
  }
  template <class Word>
  void add_fixed(Word word) {
    for (std::size_t i = 0; i < sizeof word; ++i) bytes_ += static_cast<char>((word >> (8 * i)) & 0xff);
  }

  std::string bytes_;
  std::vector<std::pair<std::size_t, std::span<const std::byte>>> references_;  // and their positions in bytes_
};

}  // namespace weft::data
