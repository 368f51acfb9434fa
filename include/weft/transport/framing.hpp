// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <weft/error.hpp>
#include <weft/transport/frame.hpp>
#include <weft/transport/frame_authentication.hpp>
#include <weft/transport/separate.hpp>
#include <weft/transport/transport.hpp>

namespace weft {

/// Sends one frame at a time over a non-blocking stream: gather writes send header and payload directly from the
/// caller's memory. On a stream with frame_authentication, a tag follows them and replaces the payload checksum.
/// Movable while it sends a frame: it contains no pointers to itself.
class frame_writer {
 public:
  frame_writer() = default;
  frame_writer(frame_writer&&) = default;
  frame_writer& operator=(frame_writer&&) = default;

  /// The maximum number of bytes of one write. Smaller pieces let the receiver start earlier, and stay in the cache
  /// between sender and receiver.
  static constexpr std::size_t max_at_once = std::size_t{1} << 20;
  /// The maximum if tags are computed: the receiver verifies one piece while this side computes the next.
  static constexpr std::size_t max_with_tag = std::size_t{128} << 10;

  /// Begins a frame. The payload must stay unchanged until idle() or detach(). advance() computes length and checksum.
  void start(const frame_header& header, std::span<const const_bytes> payload, bool checked = true);

  void start(const frame_header& header) { start(header, std::span<const const_bytes>{}, false); }
  void start(const frame_header& header, const_bytes payload, bool checked = true) {
    start(header, std::span(&payload, 1), checked);
  }

  bool idle() const { return header_sent_ == frame_header_size && next_ == pieces_.size() && tag_left_ == 0; }

  /// Writes the bytes that the stream accepts now. Returns their number.
  template <byte_stream Stream>
  std::size_t advance(Stream& stream) {
    detail::frame_authentication* const authentication = detail::authentication_of(stream);
    std::size_t total = 0;
    while (!idle()) {
      if (!is_sealed_) {
        if constexpr (requires { stream.is_encrypted(); }) checked_ &= !stream.is_encrypted();  // TLS detects changes
        seal(authentication);
      }
      std::array<const_bytes, max_buffers> gather;
      std::size_t count = 0, room = authentication ? max_with_tag : max_at_once;
      if (header_sent_ < frame_header_size) gather[count++] = const_bytes(header_).subspan(header_sent_);
      const std::size_t of_payload = count;
      for (std::size_t i = next_; i < pieces_.size() && count < max_buffers && room > 0; ++i) {
        gather[count] = pieces_[i].first(std::min(room, pieces_[i].size()));
        room -= gather[count++].size();
      }
      if (tag_left_ > 0) {
        authenticate(authentication->sending, std::span(gather).first(count).subspan(of_payload));
        if (has_tag_ && count < max_buffers) gather[count++] = const_bytes(tag_).last(tag_left_);
      }
      std::size_t moved = stream.write_some(std::span(gather).first(count));
      if (moved == 0) break;
      total += moved;
      const std::size_t of_header = std::min(moved, frame_header_size - header_sent_);
      header_sent_ += of_header;
      moved -= of_header;
      while (moved > 0 && next_ < pieces_.size()) {
        const std::size_t n = std::min(moved, pieces_[next_].size());
        pieces_[next_] = pieces_[next_].subspan(n);
        moved -= n;
        if (tag_left_ > 0) ahead_ -= n;
        if (pieces_[next_].empty()) ++next_;
      }
      tag_left_ -= moved;
    }
    return total;
  }

  /// Copies the rest of the payload, so that the caller may change the original.
  void detach();

 private:
  void seal(detail::frame_authentication* authentication);

  /// Adds the bytes of the next write to the tag, unless it already contains them.
  void authenticate(detail::frame_authenticator& by, std::span<const const_bytes> leaving);

  frame_header starting_;
  bool checked_ = false, is_sealed_ = true;  // is_sealed_: header_ is encoded
  frame_header_bytes header_{};
  std::size_t header_sent_ = frame_header_size;
  std::vector<const_bytes> pieces_;  // the payload, or kept_, whose memory does not change when the writer is moved
  std::size_t next_ = 0;
  std::vector<std::byte> kept_;
  frame_tag tag_{};
  bool has_tag_ = false;
  std::size_t tag_left_ = 0;           // remaining bytes of the tag; 0 without a tag
  std::size_t ahead_ = 0;              // bytes in the tag that are not sent yet
  std::uint64_t unauthenticated_ = 0;  // payload bytes that are not in the tag yet
};

/// Receives one frame at a time from a non-blocking stream: first the header, then the payload, directly into its
/// destination. Verifies the payload checksum or the frame's tag on arrival: do not use the contents of a frame that is
/// not complete(). Movable while it receives a frame.
class frame_reader {
 public:
  frame_reader() = default;
  frame_reader(frame_reader&&) = default;
  frame_reader& operator=(frame_reader&&) = default;

  /// Waits for any frame with at most `payload_limit` bytes of payload. When needs_destination() returns true, the
  /// caller must call payload_to().
  void expect(std::uint64_t payload_limit);

  /// Waits for a frame whose payload fills `destination` exactly, so that one read can return header and payload.
  void expect(std::span<const mutable_bytes> destination);

  /// Returns true if the header has arrived and payload_to() must be called.
  bool needs_destination() const {
    return header_ready_ && !complete_ && (!pieces_known_ || (next_ == pieces_.size() && left_ > 0));
  }
  const frame_header& header() const { return header_; }
  /// The remaining bytes of the payload; valid once the header has arrived.
  std::uint64_t left() const { return left_; }

  /// Sets the destination of the next bytes of the payload, and replaces that of an earlier call. The total size must
  /// not exceed left().
  void payload_to(std::span<const mutable_bytes> destination);
  void payload_to(mutable_bytes destination) { payload_to(std::span(&destination, 1)); }

  bool complete() const { return complete_; }
  /// Returns true if part of a frame has arrived.
  bool has_begun() const { return header_filled_ > 0 && !complete_; }

  /// Reads the available bytes and returns their number.
  /// Throws weft::error: the errors of decode(); data_loss for a damaged payload; unavailable if the peer has closed
  /// the connection.
  template <byte_stream Stream>
  std::size_t advance(Stream& stream) {
    detail::frame_authentication* const authentication = detail::authentication_of(stream);
    if (header_filled_ == 0) tag_expected_ = authentication ? sizeof tag_ : 0;
    std::size_t total = 0;
    while (!complete_ && !needs_destination()) {
      std::array<mutable_bytes, max_buffers> scatter;
      std::size_t count = 0, asked = 0;
      if (!header_ready_) scatter[count++] = std::span(bytes_).subspan(header_filled_);
      for (std::size_t i = next_; pieces_known_ && i < pieces_.size() && count < max_buffers; ++i)
        scatter[count++] = pieces_[i];
      for (std::size_t i = 0; i < count; ++i) asked += scatter[i].size();
      const std::uint64_t to_the_end = left_ + (header_ready_ ? 0 : frame_header_size - header_filled_);
      if (pieces_known_ && asked == to_the_end && count < max_buffers && tag_filled_ < tag_expected_) {
        scatter[count++] = std::span(tag_).subspan(tag_filled_);
        asked += scatter[count - 1].size();
      }
      std::size_t moved = stream.read_some(std::span(scatter).first(count));
      if (moved == 0) break;
      const bool drained = moved < asked;
      total += moved;
      if (!header_ready_) {
        const std::size_t n = std::min(moved, frame_header_size - header_filled_);
        header_filled_ += n;
        moved -= n;
        if (header_filled_ == frame_header_size)
          accept_header(authentication);
        else if (header_filled_ >= 4)  // bytes that are not a frame may end here
          detail::check_magic(bytes_.data());
      }
      moved -= accept_payload(moved, authentication);
      tag_filled_ += moved;
      finish_if_complete(authentication);
      if (drained) break;  // another read would find nothing
    }
    return total;
  }

  /// The same for a payload of any size up to the limit, stored in `payload`.
  template <byte_stream Stream>
  std::size_t advance(Stream& stream, std::vector<std::byte>& payload) {
    const std::size_t moved = advance(stream);
    if (!needs_destination()) return moved;
    payload.resize(static_cast<std::size_t>(header().payload_length));
    payload_to(mutable_bytes(payload));
    return moved + advance(stream);
  }

 private:
  void reset(std::uint64_t limit);

  void accept_header(detail::frame_authentication* authentication);

  /// Returns the number of bytes that belonged to the payload.
  std::size_t accept_payload(std::size_t moved, detail::frame_authentication* authentication);

  void finish_if_complete(detail::frame_authentication* authentication = nullptr);

  frame_header_bytes bytes_{};
  frame_header header_{};
  std::uint64_t limit_ = 0, left_ = 0;
  std::size_t header_filled_ = 0;
  bool header_ready_ = false, complete_ = false, exact_ = false, pieces_known_ = false;
  std::vector<mutable_bytes> pieces_;
  std::size_t next_ = 0;
  std::uint32_t crc_ = 0;
  frame_tag tag_{};
  std::size_t tag_filled_ = 0, tag_expected_ = 0;
};

#if WEFT_DISTRIBUTED_DEFINITIONS

WEFT_DISTRIBUTED_DECL void frame_writer::start(const frame_header& header, std::span<const const_bytes> payload,
                                               bool checked) {
  pieces_.clear();
  starting_ = header;
  starting_.payload_length = 0;
  for (const const_bytes piece : payload) {
    starting_.payload_length += piece.size();
    if (!piece.empty()) pieces_.push_back(piece);
  }
  checked_ = checked;
  header_sent_ = 0;
  next_ = 0;
  is_sealed_ = false;
  tag_left_ = 0;
}

WEFT_DISTRIBUTED_DECL void frame_writer::detach() {
  if (next_ == pieces_.size()) return;
  std::vector<std::byte> rest;
  for (std::size_t i = next_; i < pieces_.size(); ++i) rest.insert(rest.end(), pieces_[i].begin(), pieces_[i].end());
  kept_ = std::move(rest);
  pieces_.assign(1, const_bytes(kept_));
  next_ = 0;
}

WEFT_DISTRIBUTED_DECL void frame_writer::seal(detail::frame_authentication* authentication) {
  frame_header header = starting_;
  // These fields of a forwarded frame describe how it arrived.
  header.flags &= ~(authenticated | payload_checked);
  header.payload_crc = 0;
  if (authentication) {
    header.flags |= authenticated;
  } else if (checked_) {
    header.flags |= payload_checked;
    for (const const_bytes piece : pieces_) header.payload_crc = crc32c(piece, header.payload_crc);
  }
  header_ = encode(header);
  is_sealed_ = true;
  if (!authentication) return;
  tag_left_ = sizeof tag_;
  has_tag_ = false;
  ahead_ = 0;
  unauthenticated_ = header.payload_length;
  authentication->sending.begin_frame();
  authentication->sending.add(header_);
}

WEFT_DISTRIBUTED_DECL void frame_writer::authenticate(detail::frame_authenticator& by,
                                                      std::span<const const_bytes> leaving) {
  std::size_t known = ahead_;
  for (const const_bytes piece : leaving) {
    const std::size_t skipped = std::min(known, piece.size());
    known -= skipped;
    by.add(piece.subspan(skipped));
    ahead_ += piece.size() - skipped;
    unauthenticated_ -= piece.size() - skipped;
  }
  if (unauthenticated_ > 0 || has_tag_) return;
  tag_ = by.finish_frame();
  has_tag_ = true;
}

WEFT_DISTRIBUTED_DECL void frame_reader::expect(std::uint64_t payload_limit) {
  reset(payload_limit);
  pieces_.clear();
  pieces_known_ = false;
}

WEFT_DISTRIBUTED_DECL void frame_reader::expect(std::span<const mutable_bytes> destination) {
  std::uint64_t size = 0;
  pieces_.clear();
  for (const mutable_bytes piece : destination) {
    size += piece.size();
    if (!piece.empty()) pieces_.push_back(piece);
  }
  reset(size);
  exact_ = true;
  pieces_known_ = true;
}

WEFT_DISTRIBUTED_DECL void frame_reader::payload_to(std::span<const mutable_bytes> destination) {
  pieces_.clear();
  next_ = 0;
  for (const mutable_bytes piece : destination)
    if (!piece.empty()) pieces_.push_back(piece);
  pieces_known_ = true;
  if (tag_expected_ == 0) finish_if_complete();
}

WEFT_DISTRIBUTED_DECL void frame_reader::reset(std::uint64_t limit) {
  limit_ = limit;
  header_filled_ = 0;
  header_ready_ = complete_ = exact_ = false;
  next_ = 0;
  left_ = limit;  // for an exact destination; otherwise the header determines it
  crc_ = 0;
  tag_filled_ = tag_expected_ = 0;
}

WEFT_DISTRIBUTED_DECL void frame_reader::accept_header(detail::frame_authentication* authentication) {
  header_ = decode(bytes_, limit_);
  if (((header_.flags & authenticated) != 0) != (authentication != nullptr))
    throw error(error_code::data_loss, "frame",
                authentication ? "a frame without a tag on a connection whose frames are authenticated"
                               : "a frame with a tag on a connection whose frames have no tags");
  if (authentication) {
    authentication->receiving.begin_frame();
    authentication->receiving.add(bytes_);
  }
  if (exact_ && header_.payload_length != limit_)
    throw error(error_code::invalid_argument, "frame",
                {"the payload must have ", limit_, " bytes; it has ", header_.payload_length,
                 ", so the tasks disagree about the operation"});
  header_ready_ = true;
  left_ = header_.payload_length;
}

WEFT_DISTRIBUTED_DECL std::size_t frame_reader::accept_payload(std::size_t moved,
                                                               detail::frame_authentication* authentication) {
  const std::size_t all = moved;
  while (moved > 0 && next_ < pieces_.size()) {
    mutable_bytes& piece = pieces_[next_];
    const std::size_t n = std::min(moved, piece.size());
    if (header_.flags & payload_checked) crc_ = crc32c(piece.first(n), crc_);
    if (authentication) authentication->receiving.add(piece.first(n));
    piece = piece.subspan(n);
    moved -= n;
    left_ -= n;
    if (piece.empty()) ++next_;
  }
  return all - moved;
}

WEFT_DISTRIBUTED_DECL void frame_reader::finish_if_complete(detail::frame_authentication* authentication) {
  if (complete_ || !header_ready_ || !pieces_known_ || left_ > 0 || tag_filled_ < tag_expected_) return;
  if (authentication && !same_digest(authentication->receiving.finish_frame(), tag_))
    throw error(error_code::data_loss, "frame",
                "the frame's tag does not match: a frame was changed, repeated or removed in transit");
  if ((header_.flags & payload_checked) && crc_ != header_.payload_crc)
    throw error(error_code::data_loss, "frame", "the payload's checksum does not match; it was damaged in transit");
  complete_ = true;
}

#endif

}  // namespace weft
