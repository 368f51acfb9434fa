// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <weft/error.hpp>

namespace weft::data {

/// Reads the fields of a protocol-buffer message (protobuf.dev/programming-guides/encoding) one by one:
///
///   for (protobuf_reader m(bytes, path); m.next();)
///     if (m.field() == 1) size = m.varint();
///
/// Nothing is copied or allocated. The message is not trusted: malformed data, or a field whose wire type differs from
/// the requested one, throws data_loss with `where` and the offset.
class protobuf_reader {
 public:
  /// `offset`: the position of the message in the file, for errors.
  protobuf_reader(std::span<const std::byte> message, std::string where, std::uint64_t offset = 0)
      : message_(message), where_(std::move(where)), offset_(offset) {}

  /// Advances to the next field. Returns false at the end of the message.
  bool next() {
    if (at_ == message_.size()) return false;
    start_ = at_;
    const std::uint64_t key = read_varint();
    if (key >> 3 == 0 || key >> 3 > 0x1fffffff) bad("an invalid field number");
    field_ = static_cast<std::uint32_t>(key >> 3);
    type_ = static_cast<unsigned>(key & 7);
    switch (type_) {
      case varint_type:
        number_ = read_varint();
        break;
      case fixed64_type:
        number_ = read_fixed(8);
        break;
      case fixed32_type:
        number_ = read_fixed(4);
        break;
      case bytes_type:
        read_bytes();
        break;
      default:
        bad("a field of an unknown type");
    }
    return true;
  }

  std::uint32_t field() const { return field_; }

  /// An int32, int64, uint32, uint64, bool or enum. Negative numbers are in two's complement.
  std::uint64_t varint() const { return number(varint_type); }
  std::uint32_t fixed32() const { return static_cast<std::uint32_t>(number(fixed32_type)); }
  std::uint64_t fixed64() const { return number(fixed64_type); }

  /// Returns true if the field contains bytes, text, a message or packed numbers. A repeated number may be packed or
  /// not.
  bool is_bytes() const { return type_ == bytes_type; }

  std::span<const std::byte> bytes() const {
    number(bytes_type);
    return bytes_;
  }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes().data()), bytes_.size()}; }

  /// The message contained in the current field.
  protobuf_reader message() const {
    const auto inner = bytes();
    return {inner, where_, offset_ + at_ - inner.size()};
  }

  /// Calls `take` for each number of a packed field.
  template <class Take>
  void each_packed_varint(Take take) const {
    for (protobuf_reader m = message(); m.at_ != m.message_.size();) take(m.read_varint());
  }

  /// Throws data_loss for the current field; `what` describes the error.
  [[noreturn]] void bad(const char* what) const {
    throw error(error_code::data_loss, "protobuf",
                {where_, ": ", what, " at byte ", offset_ + start_, ": it is damaged; fetch the file again"});
  }

 private:
  static constexpr unsigned varint_type = 0, fixed64_type = 1, bytes_type = 2, fixed32_type = 5;

  std::uint64_t number(unsigned type) const {
    if (type_ != type) bad("a field of an unexpected type");
    return number_;
  }

  std::uint64_t read_varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      if (at_ == message_.size()) bad("a message ends inside a number");
      const auto byte = std::to_integer<std::uint64_t>(message_[at_++]);
      if (shift == 63 && byte > 1) bad("a number exceeds 64 bits");
      value |= (byte & 127u) << shift;
      if (byte < 128) return value;
    }
    bad("a number exceeds 64 bits");
  }

  std::uint64_t read_fixed(std::size_t bytes) {
    if (bytes > message_.size() - at_) bad("a message ends inside a number");
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value |= std::to_integer<std::uint64_t>(message_[at_ + i]) << 8 * i;
    at_ += bytes;
    return value;
  }

  void read_bytes() {
    const std::uint64_t size = read_varint();
    if (size > message_.size() - at_) bad("a field is longer than its message");
    bytes_ = message_.subspan(at_, static_cast<std::size_t>(size));
    at_ += bytes_.size();
  }

  std::span<const std::byte> message_, bytes_;
  std::string where_;
  std::uint64_t offset_;
  std::size_t at_ = 0, start_ = 0;
  std::uint32_t field_ = 0;
  unsigned type_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace weft::data
