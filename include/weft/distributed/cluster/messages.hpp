// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/distributed/cluster/message_fields.hpp>
#include <weft/error.hpp>
#include <weft/printable.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/frame.hpp>
#include <weft/transport/separate.hpp>
#include <weft/transport/shared_memory.hpp>

namespace weft::detail {

/// The data about itself that a task sends to another task that has proved the secret.
struct introduction {
  std::string library_version;
  std::uint64_t cluster_hash = 0;
  std::string cluster;  // canonical text, for the error about a mismatch
  task_id from, to;
  std::uint64_t incarnation = 0;  // random, new for every start of a task
  std::uint64_t given_up = 0;     // the incarnation of `to` that `from` has declared dead; 0: none
  std::uint64_t waits_us = 0;     // the remaining time until the sender's deadline for the channel; 0: unknown
  std::string channel;            // empty for the control connection
  bool authenticates = false;     // requests tags on the frames that follow

  static constexpr std::size_t max_bytes = std::size_t{16} << 10;

  void fields(message_fields& io);
  std::vector<std::byte> bytes() const { return write_message(*this); }
  static introduction read(const_bytes from) { return read_message<introduction>(from); }
};

/// A message to peers about a third task: one of its incarnations has left or is lost, or another process has replaced
/// it.
struct notice {
  task_id about;
  std::uint64_t incarnation = 0;
  bool left = false;
  bool hearsay = false;  // the sender learned it from another task
  bool back = false;     // this incarnation has replaced a lost one
  std::string why;       // continues the task's name

  void fields(message_fields& io);
  std::vector<std::byte> bytes() const { return write_message(*this); }
  static notice read(const_bytes from) { return read_message<notice>(from); }
};

/// The values that the ranks of an all-reduce compare at the start. The graph's hash and seed are in the frame header.
struct group_message {
  bool applies_nonfinite = false;
  std::string settings;

  void fields(message_fields& io);
  std::vector<std::byte> bytes() const { return write_message(*this); }
  static group_message read(const_bytes from) { return read_message<group_message>(from); }
};

/// An offer of a segment. An offer of 0 bytes means that there is no segment.
struct offer_message {
  shared_offer offer;

  void fields(message_fields& io);
};
std::vector<std::byte> offer_bytes(const shared_offer& offer);
shared_offer read_offer(const_bytes bytes);

/// An error without its operation, which the receiver adds.
struct error_message {
  error_code code{};
  std::string sentence;

  void fields(message_fields& io);
};
std::vector<std::byte> error_bytes(error_code code, std::string_view sentence);
error read_error(const_bytes bytes, const std::string& operation);

/// Returns the error for a gradient with an infinite or NaN element.
error nonfinite_gradient(const char* operation, const std::string& worker, const std::string& variable,
                         std::size_t element, std::int64_t step);

#if WEFT_DISTRIBUTED_DEFINITIONS

WEFT_DISTRIBUTED_DECL void introduction::fields(message_fields& io) {
  io.text(library_version).number(cluster_hash).sentence(cluster, max_text_bytes);
  io.text(from.job).number(from.index).text(to.job).number(to.index);
  io.number(incarnation).number(given_up).number(waits_us).sentence(channel, max_text_bytes).flag(authenticates);
}

WEFT_DISTRIBUTED_DECL void notice::fields(message_fields& io) {
  io.text(about.job).number(about.index).number(incarnation).flags({&left, &hearsay, &back}).sentence(why);
  io.must_hold(!back || !(left || hearsay));
}

WEFT_DISTRIBUTED_DECL void group_message::fields(message_fields& io) {
  io.flag(applies_nonfinite).sentence(settings, max_text_bytes);
}

WEFT_DISTRIBUTED_DECL void offer_message::fields(message_fields& io) {
  io.number(offer.process).number(offer.descriptor).number(offer.bytes);
  for (std::uint64_t& word : offer.nonce) io.number(word);
}
WEFT_DISTRIBUTED_DECL std::vector<std::byte> offer_bytes(const shared_offer& offer) {
  return write_message(offer_message{offer});
}
WEFT_DISTRIBUTED_DECL shared_offer read_offer(const_bytes bytes) { return read_message<offer_message>(bytes).offer; }

WEFT_DISTRIBUTED_DECL void error_message::fields(message_fields& io) {
  io.one_of(code, error_code{1}, error_code::unauthenticated).sentence(sentence);
}
WEFT_DISTRIBUTED_DECL std::vector<std::byte> error_bytes(error_code code, std::string_view sentence) {
  return write_message(error_message{code, std::string(sentence)});
}
WEFT_DISTRIBUTED_DECL error read_error(const_bytes bytes, const std::string& operation) {
  const auto said = read_message<error_message>(bytes);
  return error(said.code, operation, said.sentence);
}

WEFT_DISTRIBUTED_DECL error nonfinite_gradient(const char* operation, const std::string& worker,
                                               const std::string& variable, std::size_t element, std::int64_t step) {
  return error(
      error_code::invalid_argument, operation,
      {"the gradient of '", variable, "' from ", worker, " is not finite in step ", step, " (element ", element,
       "); lower the learning rate, look for such values in the data, or set server_options::not_finite to apply it"});
}

#endif

}  // namespace weft::detail
