// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <weft/transport/any_transport.hpp>
#include <weft/transport/framing.hpp>
#include <weft/transport/separate.hpp>

namespace weft::detail {

/// A connection for small messages in both directions, without blocking. It stores whole frames with their payloads.
/// For large payloads, use frame_reader and frame_writer.
/// Every function throws the errors of the stream and of the frames: weft::error with code unavailable if the peer has
/// closed the connection, other codes for bytes that are not a frame.
class message_stream {
 public:
  /// `max_bytes`: the maximum size of a payload.
  explicit message_stream(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}
  message_stream(any_transport::stream stream, std::uint64_t max_bytes) : max_bytes_(max_bytes) {
    attach(std::move(stream));
  }

  /// Continues on another connection. Discards messages that were partly received or sent.
  void attach(any_transport::stream stream);
  /// Changes the limit of payloads.
  void allow(std::uint64_t max_bytes);
  void close() { stream_.close(); }
  bool is_open() const { return stream_.is_open(); }

  any_transport::stream& stream() { return stream_; }
  const any_transport::stream& stream() const { return stream_; }

  /// Reads the available bytes of the next message. Returns true if it is complete: header() and payload() are then
  /// valid until the next call.
  bool receive();
  const frame_header& header() const { return in_.header(); }
  const std::vector<std::byte>& payload() const { return came_; }

  /// Starts to send a message. Requires !is_sending().
  void start(const frame_header& header, std::vector<std::byte> payload = {});
  bool is_sending() const { return !out_.idle(); }
  /// Writes the bytes that the connection accepts. Returns their number.
  std::size_t send() { return out_.advance(stream_); }

 private:
  any_transport::stream stream_;
  std::uint64_t max_bytes_;
  frame_reader in_;
  frame_writer out_;
  std::vector<std::byte> came_, leaving_;
};

#if WEFT_DISTRIBUTED_DEFINITIONS

WEFT_DISTRIBUTED_DECL void message_stream::attach(any_transport::stream stream) {
  stream_ = std::move(stream);
  in_ = {};
  out_ = {};
  came_.clear();
  in_.expect(max_bytes_);
}

WEFT_DISTRIBUTED_DECL void message_stream::allow(std::uint64_t max_bytes) {
  max_bytes_ = max_bytes;
  if (!in_.has_begun() && !in_.complete()) in_.expect(max_bytes_);
}

WEFT_DISTRIBUTED_DECL bool message_stream::receive() {
  if (in_.complete()) {
    came_.clear();
    in_.expect(max_bytes_);
  }
  in_.advance(stream_, came_);
  return in_.complete();
}

WEFT_DISTRIBUTED_DECL void message_stream::start(const frame_header& header, std::vector<std::byte> payload) {
  leaving_ = std::move(payload);
  out_.start(header, const_bytes(leaving_));
}

#endif

}  // namespace weft::detail
