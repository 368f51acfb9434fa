// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/encoding/endian.hpp>
#include <weft/error.hpp>
#include <weft/printable.hpp>
#include <weft/transport/separate.hpp>
#include <weft/transport/transport.hpp>

namespace weft::detail {

/// Largest payload, in bytes, of a message without values.
inline constexpr std::uint64_t max_control_bytes = std::uint64_t{64} << 10;

/// Longest text of a message, in bytes.
inline constexpr std::size_t max_text_bytes = 4096;

/// The fields of a message. A message defines `void fields(message_fields& io)`, which calls one of the functions below
/// for each field, in wire order. The same definition writes messages, reads them, and generates them in tests. Numbers
/// are little-endian, and as wide as their types. Readers check bounds and conditions; writers only check the length of
/// texts.
class message_fields {
 public:
  message_fields(const message_fields&) = delete;
  message_fields& operator=(const message_fields&) = delete;

  template <typename Integer>
  message_fields& number(Integer& x, std::type_identity_t<Integer> least = std::numeric_limits<Integer>::min(),
                         std::type_identity_t<Integer> most = std::numeric_limits<Integer>::max()) {
    const auto extended = [](Integer value) { return static_cast<std::uint64_t>(value); };
    constexpr char kind = std::is_signed_v<Integer> ? 'i' : 'u';
    x = static_cast<Integer>(word(extended(x), {sizeof x, kind, extended(least), extended(most)}));
    return *this;
  }
  message_fields& real(double& x);
  message_fields& flag(bool& x) { return flags({&x}); }
  /// One byte, whose lowest bit is the first flag.
  message_fields& flags(std::initializer_list<bool*> all);
  /// One byte.
  template <typename Enum>
  message_fields& one_of(Enum& x, Enum first, Enum last) {
    auto bits = static_cast<std::uint8_t>(x);
    number(bits, static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last));
    x = static_cast<Enum>(bits);
    return *this;
  }
  message_fields& duration(std::chrono::milliseconds& x, std::chrono::milliseconds longest);
  /// The index of a task or worker, which must be below peers(). Four bytes.
  template <typename Integer>
  message_fields& peer(Integer& index) {
    auto number_of = static_cast<std::uint32_t>(index);
    number(number_of, 0, static_cast<std::uint32_t>(peers_ - 1)).must_hold(number_of < peers_);
    index = static_cast<Integer>(number_of);
    return *this;
  }

  /// A text, preceded by its length. Readers return it in printable form.
  virtual message_fields& text(std::string& x, std::size_t longest = max_text_bytes) = 0;
  /// A text for people. If it is too long, its end is cut off.
  message_fields& sentence(std::string& x, std::size_t longest = 4000);
  /// Bytes, preceded by their number in `width` bytes.
  virtual message_fields& bytes(std::vector<std::byte>& x, std::uint64_t most, unsigned width = 4) = 0;
  /// All bytes up to the end of the message. Readers return a view of the message's memory.
  virtual message_fields& rest(const_bytes& x) = 0;

  /// A list, preceded by its length. Calls `each(element)` for the elements in order.
  template <typename List, typename Each>
  message_fields& list(List& all, std::uint64_t most, Each each, unsigned width = 4) {
    return repeat(all.size(), most, [&](std::size_t k) { each(at(all, k)); }, width);
  }
  /// Several lists of one length. Calls `each(k)` for each index.
  template <typename Each>
  message_fields& repeat(std::size_t size, std::uint64_t most, Each each, unsigned width = 4) {
    size = count(size, most, width);
    mark("[");
    for (std::size_t k = 0; k < size; ++k) each(k);
    mark("]");
    return *this;
  }
  /// A list with an element for each task or worker, without its length.
  template <typename List, typename Each>
  message_fields& for_each_peer(List& all, Each each) {
    const std::size_t size = peers_ == unknown ? all.size() : peers_;
    mark("{");
    for (std::size_t k = 0; k < size; ++k) each(at(all, k));
    mark("}");
    return *this;
  }
  /// The length of a list whose elements do not follow immediately.
  virtual std::size_t count(std::size_t size, std::uint64_t most, unsigned width = 4) = 0;
  /// Returns element k. Appends a new element if the list has only k elements.
  template <typename List>
  static auto& at(List& all, std::size_t k) {
    if (k == all.size()) all.push_back({});
    return all[k];
  }

  /// Throws if a message that is read violates the condition.
  virtual message_fields& must_hold(bool condition) = 0;

  /// The number of tasks or workers that indices in the message refer to; `unknown` in writers.
  std::size_t peers() const { return peers_; }
  static constexpr std::size_t unknown = ~std::size_t{0};

 protected:
  struct number_type {
    unsigned width;             // in bytes
    char kind;                  // 'u', 'i' or 'f', as in u32
    std::uint64_t least, most;  // sign-extended
  };

  explicit message_fields(std::size_t peers) : peers_(peers) {}
  ~message_fields() = default;

  /// Returns the value of the field. Values are sign-extended.
  virtual std::uint64_t word(std::uint64_t value, const number_type& type) = 0;
  /// Marks the beginning or the end of a list in descriptions of a message.
  virtual void mark(const char*) {}

 private:
  std::size_t peers_;
};

class message_writer final : public message_fields {
 public:
  message_writer() : message_fields(unknown) {}

  /// Throws weft::error (invalid_argument) if the text is too long.
  message_fields& text(std::string& x, std::size_t longest = max_text_bytes) override;
  message_fields& bytes(std::vector<std::byte>& x, std::uint64_t most, unsigned width = 4) override;
  message_fields& rest(const_bytes& x) override;
  message_fields& must_hold(bool) override { return *this; }
  std::size_t count(std::size_t size, std::uint64_t most, unsigned width = 4) override;
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::uint64_t word(std::uint64_t value, const number_type& type) override;
  void append(const_bytes more) { bytes_.insert(bytes_.end(), more.begin(), more.end()); }

  std::vector<std::byte> bytes_;
};

/// Reads messages from untrusted peers. All errors are weft::error (invalid_argument). A length is compared with its
/// limit and with the remaining bytes before memory is allocated.
class message_reader final : public message_fields {
 public:
  explicit message_reader(const_bytes bytes, std::size_t peers = 0) : message_fields(peers), rest_(bytes) {}

  message_fields& text(std::string& x, std::size_t longest = max_text_bytes) override;
  message_fields& bytes(std::vector<std::byte>& x, std::uint64_t most, unsigned width = 4) override;
  message_fields& rest(const_bytes& x) override;
  message_fields& must_hold(bool condition) override {
    if (!condition) malformed();
    return *this;
  }
  std::size_t count(std::size_t size, std::uint64_t most, unsigned width = 4) override;
  void end() { must_hold(rest_.empty()); }

  [[noreturn]] static void malformed();

 private:
  std::uint64_t word(std::uint64_t value, const number_type& type) override;
  const_bytes take(std::size_t size);

  const_bytes rest_;
};

/// Returns the bytes of a message. Takes a copy, because field lists can assign to members.
template <typename Message>
std::vector<std::byte> write_message(Message message) {
  message_writer out;
  message.fields(out);
  return out.take();
}

/// Reads a complete message into `message`. `peers`: see message_fields::peers().
template <typename Message>
Message read_message(const_bytes bytes, std::size_t peers = 0, Message message = {}) {
  message_reader in(bytes, peers);
  message.fields(in);
  in.end();
  return message;
}

#if WEFT_DISTRIBUTED_DEFINITIONS

WEFT_DISTRIBUTED_DECL message_fields& message_fields::real(double& x) {
  x = std::bit_cast<double>(word(std::bit_cast<std::uint64_t>(x), {8, 'f', 0, ~std::uint64_t{0}}));
  return *this;
}

WEFT_DISTRIBUTED_DECL message_fields& message_fields::flags(std::initializer_list<bool*> all) {
  unsigned bits = 0, bit = 1;
  for (const bool* const each : all) bits |= std::exchange(bit, bit << 1) * *each;
  auto byte = static_cast<std::uint8_t>(bits);
  number(byte, 0, static_cast<std::uint8_t>(bit - 1));
  bit = 1;
  for (bool* const each : all) *each = (byte & std::exchange(bit, bit << 1)) != 0;
  return *this;
}

WEFT_DISTRIBUTED_DECL message_fields& message_fields::duration(std::chrono::milliseconds& x,
                                                               std::chrono::milliseconds longest) {
  std::int64_t count = x.count();
  number(count, 0, longest.count());
  x = std::chrono::milliseconds(count);
  return *this;
}

WEFT_DISTRIBUTED_DECL message_fields& message_fields::sentence(std::string& x, std::size_t longest) {
  x = printable(x, longest);
  return text(x);
}

WEFT_DISTRIBUTED_DECL message_fields& message_writer::text(std::string& x, std::size_t longest) {
  if (x.size() > longest)
    throw error(error_code::invalid_argument, "message",
                {"a text must have at most ", longest, " bytes; it has ", x.size(),
                 ": shorten the name that begins with '", printable(x, 64), "'"});
  count(x.size(), longest, 4);
  append(std::as_bytes(std::span(x)));
  return *this;
}

WEFT_DISTRIBUTED_DECL message_fields& message_writer::bytes(std::vector<std::byte>& x, std::uint64_t most,
                                                            unsigned width) {
  count(x.size(), most, width);
  append(x);
  return *this;
}

WEFT_DISTRIBUTED_DECL message_fields& message_writer::rest(const_bytes& x) {
  append(x);
  return *this;
}

WEFT_DISTRIBUTED_DECL std::uint64_t message_writer::word(std::uint64_t value, const number_type& type) {
  std::byte bytes[8];
  put_little(bytes, value);
  append(const_bytes(bytes).first(type.width));
  return value;
}

WEFT_DISTRIBUTED_DECL std::size_t message_writer::count(std::size_t size, std::uint64_t most, unsigned width) {
  word(size, {width, 'u', 0, most});
  return size;
}

WEFT_DISTRIBUTED_DECL message_fields& message_reader::text(std::string& x, std::size_t longest) {
  const const_bytes bytes = take(count(0, longest, 4));
  x = printable({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, longest);
  return *this;
}

WEFT_DISTRIBUTED_DECL message_fields& message_reader::bytes(std::vector<std::byte>& x, std::uint64_t most,
                                                            unsigned width) {
  const const_bytes all = take(count(0, most, width));
  x.assign(all.begin(), all.end());
  return *this;
}

WEFT_DISTRIBUTED_DECL message_fields& message_reader::rest(const_bytes& x) {
  x = take(rest_.size());
  return *this;
}

WEFT_DISTRIBUTED_DECL std::uint64_t message_reader::word(std::uint64_t, const number_type& type) {
  std::byte bytes[8]{};
  const const_bytes taken = take(type.width);
  std::copy(taken.begin(), taken.end(), bytes);
  auto value = get_little<std::uint64_t>(bytes);
  if (type.kind == 'i') {
    const unsigned unused = 64 - 8 * type.width;
    const auto extended = static_cast<std::int64_t>(value << unused) >> unused;
    must_hold(extended >= static_cast<std::int64_t>(type.least) && extended <= static_cast<std::int64_t>(type.most));
    return static_cast<std::uint64_t>(extended);
  }
  must_hold(value >= type.least && value <= type.most);
  return value;
}

/// An element has at least one byte, so no list is longer than the remaining bytes.
WEFT_DISTRIBUTED_DECL std::size_t message_reader::count(std::size_t, std::uint64_t most, unsigned width) {
  const std::uint64_t size = word(0, {width, 'u', 0, most});
  must_hold(size <= rest_.size());
  return static_cast<std::size_t>(size);
}

WEFT_DISTRIBUTED_DECL void message_reader::malformed() {
  throw error(error_code::invalid_argument, "message", "the peer has sent a malformed message");
}

WEFT_DISTRIBUTED_DECL const_bytes message_reader::take(std::size_t size) {
  must_hold(size <= rest_.size());
  const const_bytes taken = rest_.first(size);
  rest_ = rest_.subspan(size);
  return taken;
}

#endif

}  // namespace weft::detail
