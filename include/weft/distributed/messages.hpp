#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <weft/distributed/cluster_spec.hpp>
#include <weft/error.hpp>
#include <weft/transport/frame.hpp>
#include <weft/transport/shared_memory.hpp>
#include <weft/transport/transport.hpp>

namespace weft::detail {

/// Largest payload, in bytes, of a message that is not values: names, sentences.
inline constexpr std::uint64_t most_control_bytes = std::uint64_t{64} << 10;

/// Writes small messages: little-endian numbers, strings with their length in front.
class message_writer {
 public:
  template <typename Integer>
  message_writer& number(Integer value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    put_little(bytes_.data() + at, value);
    return *this;
  }
  message_writer& real(double value) { return number(std::bit_cast<std::uint64_t>(value)); }
  message_writer& text(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    const auto* from = reinterpret_cast<const std::byte*>(value.data());
    bytes_.insert(bytes_.end(), from, from + value.size());
    return *this;
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads what message_writer wrote, and trusts nothing: every length is held against what is left.
class message_reader {
 public:
  explicit message_reader(const_bytes bytes) : rest_(bytes) {}

  template <typename Integer>
  Integer number() {
    return get_little<Integer>(take(sizeof(Integer)).data());
  }
  double real() { return std::bit_cast<double>(number<std::uint64_t>()); }
  std::string text(std::size_t longest = 4096) {
    const auto size = number<std::uint32_t>();
    if (size > longest) malformed();
    const const_bytes bytes = take(size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::size_t left() const { return rest_.size(); }
  void end() const {
    if (!rest_.empty()) malformed();
  }

  [[noreturn]] static void malformed() {
    throw error(error_code::invalid_argument, "message", "a malformed message came from the peer");
  }

 private:
  const_bytes take(std::size_t size) {
    if (size > rest_.size()) malformed();
    const const_bytes taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }

  const_bytes rest_;
};

/// The first words on every connection.
struct hello_message {
  std::string library_version;
  std::uint64_t cluster_hash = 0;
  std::string cluster;  // canonical text, so that a mismatch can be shown
  task_id from, to;
  std::uint64_t incarnation = 0;  // random, new for every start of a task
  std::string channel;            // "" for the control connection

  std::vector<std::byte> bytes() const {
    message_writer out;
    out.text(library_version).number(cluster_hash).text(cluster.substr(0, 4096));
    out.text(from.job).number(from.index).text(to.job).number(to.index);
    out.number(incarnation).text(channel);
    return out.take();
  }

  static hello_message read(const_bytes bytes) {
    message_reader in(bytes);
    hello_message hello;
    hello.library_version = in.text();
    hello.cluster_hash = in.number<std::uint64_t>();
    hello.cluster = in.text();
    hello.from.job = in.text();
    hello.from.index = in.number<int>();
    hello.to.job = in.text();
    hello.to.index = in.number<int>();
    hello.incarnation = in.number<std::uint64_t>();
    hello.channel = in.text();
    in.end();
    return hello;
  }
};

/// A segment on offer; one of 0 bytes is none.
inline std::vector<std::byte> offer_bytes(const shared_offer& offer) {
  message_writer out;
  out.number(offer.process).number(offer.descriptor).number(offer.bytes);
  out.number(offer.nonce[0]).number(offer.nonce[1]);
  return out.take();
}

inline shared_offer read_offer(const_bytes bytes) {
  message_reader in(bytes);
  shared_offer offer;
  offer.process = in.number<std::uint64_t>();
  offer.descriptor = in.number<std::uint64_t>();
  offer.bytes = in.number<std::uint64_t>();
  for (std::uint64_t& word : offer.nonce) word = in.number<std::uint64_t>();
  in.end();
  return offer;
}

/// An error as it travels: refuse and failure frames.
inline std::vector<std::byte> error_bytes(error_code code, std::string_view sentence) {
  message_writer out;
  out.number(static_cast<std::uint8_t>(code)).text(sentence.substr(0, 4000));
  return out.take();
}

inline error read_error(const_bytes bytes, const std::string& operation) {
  message_reader in(bytes);
  const auto code = in.number<std::uint8_t>();
  const std::string sentence = in.text();
  if (code == 0 || code > static_cast<std::uint8_t>(error_code::unauthenticated)) message_reader::malformed();
  return error(static_cast<error_code>(code), operation, sentence);
}

}  // namespace weft::detail
