// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/parameter/parameter_store.hpp>
#include <weft/distributed/parameter/row_lists.hpp>
#include <weft/error.hpp>
#include <weft/transport/aligned_bytes.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/framing.hpp>
#include <weft/transport/shared_memory.hpp>

namespace weft::detail {

/// A parameter server's end of the connection to one worker: requests and answers alternate, one at a time.
///
/// Invariant: the connection is in one of three states. It receives a request; or a complete request is parked until it
/// can be answered, or its deadline passes; or an answer is being sent. request() does not change from the completion
/// of a request until its answer has been sent. Not thread-safe: the serving thread owns the object.
class worker_connection {
 public:
  using moment = deadline;
  using time_point = deadline::time_point;

  worker_connection(any_transport::stream stream, std::uint64_t payload_limit) : stream_(std::move(stream)) {
    in_.expect(payload_limit);
  }

  const any_transport::stream& stream() const { return stream_; }
  bool is_parked() const { return at_ == state::parked; }
  bool is_answering() const { return at_ == state::answering; }

  // ---- the request ----

  /// Reads the available bytes of the next request; returns their number. Throws weft::error (invalid_argument) for a
  /// request that arrives before the last one has been answered.
  std::size_t receive() {
    const std::size_t bytes = in_.advance(stream_);
    if (needs_place() && is_parked())
      throw error(error_code::invalid_argument, "parameter_server",
                  "the worker sent a request before it received the answer to the last one");
    return bytes;
  }

  /// Returns true if the header of a request, arriving(), has arrived and its payload needs one of the places below.
  bool needs_place() const { return in_.needs_destination(); }
  const frame_header& arriving() const { return in_.header(); }

  void place_in(mutable_bytes destination) {
    is_kept_ = false;
    in_.payload_to(destination);
  }
  void place_in_message() {
    message_.resize(arriving_bytes());
    in_.payload_to(message_);
  }
  void place_in_gradients() {
    const std::size_t size = arriving_bytes();
    if (gradients_.size() < size) {
      gradients_ = {};
      gradients_ = aligned_bytes(size);
    }
    is_kept_ = true;
    in_.payload_to(static_cast<mutable_bytes>(gradients_).first(size));
  }
  /// Returns true if payload() returns the payload; otherwise it is in another place.
  bool keeps_payload() const { return is_kept_; }

  /// Returns true if a request is complete; it is request() from then on.
  bool take_request() {
    if (!in_.complete()) return false;
    request_ = in_.header();
    return true;
  }
  const frame_header& request() const { return request_; }
  bool asks_for(frame_kind kind) const { return request_.kind == kind; }

  const_bytes message() const { return message_; }
  void free_message() { message_ = {}; }

  /// The payload of push_pull, push, initialise or restore.
  const_bytes payload() const { return {gradients_.data(), static_cast<std::size_t>(request_.payload_length)}; }
  void free_payload() { gradients_ = {}; }

  /// Reads the rows in the payload of push_pull.
  void read_rows(const parameter_store& store) { store.read_rows(payload(), uses_segment(), rows_); }
  /// The gradients of push_pull, from the segment or the payload.
  placed_gradients gradients(const parameter_store& store) const {
    if (uses_segment()) return {{segment_.bytes().data(), store.shared_layout().gradients}, rows_};
    placed_gradients placed = store.packed({gradients_.data(), gradients_.size()});
    placed.rows = rows_;
    return placed;
  }

  /// Swaps the payload of push_pull, and the rows in it, with buffers that are no longer used.
  void swap_payload(aligned_bytes& payload, std::vector<row_list>& rows) {
    std::swap(gradients_, payload);
    std::swap(rows_, rows);
  }

  // ---- shared memory ----

  /// Sets the segment for gradients and values, which both sides have mapped.
  void share(shared_segment segment) { segment_ = std::move(segment); }

  /// Returns true if the gradients or values of the request are in the segment.
  bool uses_segment() const { return (request_.flags & in_segment) != 0; }
  /// The same for an arriving request. Throws weft::error (invalid_argument) if the request cannot use a segment.
  bool arriving_uses_segment() const {
    if ((arriving().flags & in_segment) == 0) return false;
    if (!segment_ || arriving().kind == frame_kind::restore)
      throw error(error_code::invalid_argument, "parameter_server",
                  "the worker's request refers to a segment that it has not shared");
    return true;
  }
  /// The worker's copy of the values in the segment.
  placed_bytes<std::byte> values_in_segment(const parameter_store& store) const {
    return {segment_.bytes().data(), store.shared_layout().values};
  }

  // ---- the answer ----

  /// Parks the request. `payload_limit` bounds the next request, which must not arrive yet: reading only detects the
  /// end of the connection.
  void park(std::uint64_t payload_limit) {
    at_ = state::parked;
    // The answer is due shortly before the worker's own deadline, because this side knows for which workers the request
    // waits.
    if (const std::uint64_t us = request_.deadline_us; us > 0 && us < std::uint64_t{1} << 50)
      expires_ = moment(std::chrono::microseconds(us - us / 20));
    in_.expect(payload_limit);
  }
  /// The deadline for answering the parked request; empty if it has none.
  const std::optional<moment>& expires() const { return expires_; }

  /// Begins the answer. `pieces` must stay valid until it has been sent.
  void answer(const frame_header& header, std::span<const const_bytes> pieces, bool checksum) {
    out_.start(header, pieces, checksum);
    begin_answer(false);
  }
  void answer(const frame_header& header) {
    out_.start(header);
    begin_answer(false);
  }
  /// Begins an answer whose values are sent directly from the store. `pieces` must stay valid until it has been sent,
  /// or until detach().
  void answer_from_store(const frame_header& header, std::span<const const_bytes> pieces, bool checksum) {
    out_.start(header, pieces, checksum);
    begin_answer(true);
  }
  void answer_failure(const frame_header& header, const error& problem) {
    reply_ = error_bytes(problem.code(), problem.sentence());
    out_.start(header, const_bytes(reply_));
    begin_answer(false);
  }
  /// Memory for a part of the answer, which this connection keeps until the answer has been sent.
  std::vector<std::byte>& reply() { return reply_; }

  /// Copies the unsent part of an answer from the store. Must be called before the values change.
  void detach() {
    if (!sends_from_store_ || out_.idle()) return;
    out_.detach();
    sends_from_store_ = false;
  }

  /// Sends as much of the answer as the stream takes; returns the number of bytes.
  std::size_t send() { return out_.advance(stream_); }
  bool has_answered() const { return is_answering() && out_.idle(); }
  /// Starts to receive the next request, after the answer has been sent.
  void await_request(std::uint64_t payload_limit) {
    at_ = state::receiving;
    sends_from_store_ = false;
    in_.expect(payload_limit);
  }

  /// The state of the values that the worker has, as of the last answer.
  parameter_store::knowledge& known() { return known_; }

  // ---- supervision ----

  void note_traffic() { has_moved_ = true; }

  struct stall {
    const char* why;
    bool may_return;  // the worker may open another connection
  };
  /// The reason to drop the connection, if no bytes have moved on it for longer than `limit` although they should have.
  /// `enrolled`: the worker has enrolled on this connection.
  template <typename Duration>
  std::optional<stall> find_stall(time_point now, Duration limit, bool enrolled) {
    if (has_moved_ || is_parked()) {
      has_moved_ = false;
      last_moved_ = now;
    }
    if (now - last_moved_ <= limit) return {};
    if (is_answering()) return stall{"does not read its answer", false};
    if (in_.has_begun()) return stall{"has stopped in the middle of a request", false};
    if (!enrolled) return stall{"has connected, but sends no request", true};
    return {};
  }

 private:
  enum class state : unsigned char { receiving, parked, answering };

  std::size_t arriving_bytes() const { return static_cast<std::size_t>(arriving().payload_length); }

  void begin_answer(bool from_store) {
    at_ = state::answering;
    sends_from_store_ = from_store;
    expires_.reset();
  }

  any_transport::stream stream_;
  frame_reader in_;
  frame_writer out_;
  frame_header request_;
  state at_ = state::receiving;
  bool sends_from_store_ = false;
  bool is_kept_ = false;            // the payload is in gradients_
  std::optional<moment> expires_;   // deadline of a parked request
  std::vector<std::byte> message_;  // payload of a small request
  std::vector<std::byte> reply_;    // payload of a small answer
  aligned_bytes gradients_;         // payload of a large request, which may be smaller
  std::vector<row_list> rows_;      // rows in gradients_
  parameter_store::knowledge known_;
  shared_segment segment_;
  bool has_moved_ = true;    // bytes have moved since the last find_stall()
  time_point last_moved_{};  // time of the last traffic, as of the last find_stall()
};

}  // namespace weft::detail
