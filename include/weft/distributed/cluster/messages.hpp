#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/error.hpp>
#include <weft/printable.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/frame.hpp>
#include <weft/transport/separate.hpp>
#include <weft/transport/shared_memory.hpp>

namespace weft::detail {

/// Largest payload, in bytes, of a message that is not values: names, sentences.
inline constexpr std::uint64_t max_control_bytes = std::uint64_t{64} << 10;

/// Longest text of a message, in bytes: a name, a sentence.
inline constexpr std::size_t max_text_bytes = 4096;

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
  /// Throws weft::error (invalid_argument) for one that no reader would take.
  message_writer& text(std::string_view value);
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
  /// A byte that is 0 or 1.
  bool flag();
  /// Fit to be shown: whatever a peer says may come to stand on a terminal.
  std::string text(std::size_t longest = max_text_bytes);
  const_bytes bytes(std::size_t size) { return take(size); }
  std::size_t left() const { return rest_.size(); }
  void end() const {
    if (!rest_.empty()) malformed();
  }

  [[noreturn]] static void malformed();

 private:
  const_bytes take(std::size_t size);

  const_bytes rest_;
};

/// A task says this of itself when it meets another, once that has proved to know the secret.
struct introduction {
  std::string library_version;
  std::uint64_t cluster_hash = 0;
  std::string cluster;  // canonical text, so that a mismatch can be shown
  task_id from, to;
  std::uint64_t incarnation = 0;  // random, new for every start of a task
  std::uint64_t given_up = 0;     // the incarnation of `to` that `from` takes for lost; 0: none
  std::uint64_t waits_us = 0;     // how long it goes on waiting for what the channel is for; 0: not said
  std::string channel;            // "" for the control connection
  bool authenticates = false;     // whether it wants tags on what follows

  static constexpr std::size_t max_bytes = std::size_t{16} << 10;

  std::vector<std::byte> bytes() const;

  static introduction read(const_bytes bytes);
};

/// One task's notice to the others about a third: that an incarnation of it has left or is lost, and why, or that
/// another process has taken its place.
struct notice {
  task_id about;
  std::uint64_t incarnation = 0;
  bool left = false;
  bool hearsay = false;  // the sender knows it from another task
  bool back = false;     // this incarnation has taken the place of one that was lost
  std::string why;       // continues the task's name

  std::vector<std::byte> bytes() const;

  static notice read(const_bytes bytes);
};

/// Ranks of an all-reduce compare this when they meet; the graph's hash and seed are in the frame's header.
struct group_message {
  bool applies_nonfinite = false;
  std::string settings;

  std::vector<std::byte> bytes() const;

  static group_message read(const_bytes bytes);
};

/// A segment on offer; one of 0 bytes is none.
std::vector<std::byte> offer_bytes(const shared_offer& offer);

shared_offer read_offer(const_bytes bytes);

/// An error as it travels: refuse and failure frames.
std::vector<std::byte> error_bytes(error_code code, std::string_view sentence);

error read_error(const_bytes bytes, const std::string& operation);

/// A gradient that nobody should train with.
error nonfinite_gradient(const char* operation, const std::string& worker, const std::string& variable,
                         std::size_t element, std::int64_t step);

#if WEFT_DISTRIBUTED_DEFINITIONS

WEFT_DISTRIBUTED_DECL message_writer& message_writer::text(std::string_view value) {
  if (value.size() > max_text_bytes)
    throw error(error_code::invalid_argument, "message",
                {"a text must have at most ", max_text_bytes, " bytes and has ", value.size(),
                 "; shorten the name that begins '", printable(value, 64), "'"});
  number(static_cast<std::uint32_t>(value.size()));
  const auto* from = reinterpret_cast<const std::byte*>(value.data());
  bytes_.insert(bytes_.end(), from, from + value.size());
  return *this;
}

WEFT_DISTRIBUTED_DECL bool message_reader::flag() {
  const auto byte = number<std::uint8_t>();
  if (byte > 1) malformed();
  return byte == 1;
}

WEFT_DISTRIBUTED_DECL std::string message_reader::text(std::size_t longest) {
  const auto size = number<std::uint32_t>();
  if (size > longest) malformed();
  const const_bytes bytes = take(size);
  return printable({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, longest);
}

WEFT_DISTRIBUTED_DECL void message_reader::malformed() {
  throw error(error_code::invalid_argument, "message", "the peer has sent a malformed message");
}

WEFT_DISTRIBUTED_DECL const_bytes message_reader::take(std::size_t size) {
  if (size > rest_.size()) malformed();
  const const_bytes taken = rest_.first(size);
  rest_ = rest_.subspan(size);
  return taken;
}

WEFT_DISTRIBUTED_DECL std::vector<std::byte> introduction::bytes() const {
  message_writer out;
  out.text(library_version).number(cluster_hash).text(printable(cluster, max_text_bytes));
  out.text(from.job).number(from.index).text(to.job).number(to.index);
  out.number(incarnation).number(given_up).number(waits_us).text(printable(channel));
  out.number(static_cast<std::uint8_t>(authenticates));
  return out.take();
}

WEFT_DISTRIBUTED_DECL introduction introduction::read(const_bytes bytes) {
  message_reader in(bytes);
  introduction said;
  said.library_version = in.text();
  said.cluster_hash = in.number<std::uint64_t>();
  said.cluster = in.text();
  said.from.job = in.text();
  said.from.index = in.number<int>();
  said.to.job = in.text();
  said.to.index = in.number<int>();
  said.incarnation = in.number<std::uint64_t>();
  said.given_up = in.number<std::uint64_t>();
  said.waits_us = in.number<std::uint64_t>();
  said.channel = in.text();
  said.authenticates = in.flag();
  in.end();
  return said;
}

WEFT_DISTRIBUTED_DECL std::vector<std::byte> notice::bytes() const {
  message_writer out;
  out.text(about.job)
      .number(about.index)
      .number(incarnation)
      .number(static_cast<std::uint8_t>(left | hearsay << 1 | back << 2));
  return out.text(printable(why, 4000)).take();
}

WEFT_DISTRIBUTED_DECL notice notice::read(const_bytes bytes) {
  message_reader in(bytes);
  notice said;
  said.about.job = in.text();
  said.about.index = in.number<int>();
  said.incarnation = in.number<std::uint64_t>();
  const auto flags = in.number<std::uint8_t>();
  if (flags > 4) message_reader::malformed();
  said.left = (flags & 1) != 0;
  said.hearsay = (flags & 2) != 0;
  said.back = flags == 4;
  said.why = in.text();
  in.end();
  return said;
}

WEFT_DISTRIBUTED_DECL std::vector<std::byte> group_message::bytes() const {
  message_writer out;
  return out.number(static_cast<std::uint8_t>(applies_nonfinite)).text(printable(settings)).take();
}

WEFT_DISTRIBUTED_DECL group_message group_message::read(const_bytes bytes) {
  message_reader in(bytes);
  group_message said;
  said.applies_nonfinite = in.flag();
  said.settings = in.text();
  in.end();
  return said;
}

WEFT_DISTRIBUTED_DECL std::vector<std::byte> offer_bytes(const shared_offer& offer) {
  message_writer out;
  out.number(offer.process).number(offer.descriptor).number(offer.bytes);
  out.number(offer.nonce[0]).number(offer.nonce[1]);
  return out.take();
}

WEFT_DISTRIBUTED_DECL shared_offer read_offer(const_bytes bytes) {
  message_reader in(bytes);
  shared_offer offer;
  offer.process = in.number<std::uint64_t>();
  offer.descriptor = in.number<std::uint64_t>();
  offer.bytes = in.number<std::uint64_t>();
  for (std::uint64_t& word : offer.nonce) word = in.number<std::uint64_t>();
  in.end();
  return offer;
}

WEFT_DISTRIBUTED_DECL std::vector<std::byte> error_bytes(error_code code, std::string_view sentence) {
  message_writer out;
  out.number(static_cast<std::uint8_t>(code)).text(printable(sentence, 4000));
  return out.take();
}

WEFT_DISTRIBUTED_DECL error read_error(const_bytes bytes, const std::string& operation) {
  message_reader in(bytes);
  const auto code = in.number<std::uint8_t>();
  const std::string sentence = in.text();
  if (code == 0 || code > static_cast<std::uint8_t>(error_code::unauthenticated)) message_reader::malformed();
  in.end();
  return error(static_cast<error_code>(code), operation, sentence);
}

WEFT_DISTRIBUTED_DECL error nonfinite_gradient(const char* operation, const std::string& worker,
                                               const std::string& variable, std::size_t element, std::int64_t step) {
  return error(
      error_code::invalid_argument, operation,
      {"the gradient of '", variable, "' from ", worker, " is not finite in step ", step, " (element ", element,
       "); lower the learning rate, look for such numbers in the data, or let "
       "server_options::not_finite apply it"});
}

#endif

}  // namespace weft::detail
