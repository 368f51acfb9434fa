// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <weft/encoding/crc32c.hpp>
#include <weft/encoding/endian.hpp>
#include <weft/error.hpp>
#include <weft/transport/separate.hpp>

namespace weft {

/// The meaning of a frame. The numbers are part of the protocol.
enum class frame_kind : std::uint16_t {
  hello = 1,       // dialing task: a nonce
  challenge,       // answer: another nonce, and a proof of the secret
  introduce,       // dialing task: its proof of the secret, its identity, and the channel
  welcome,         // answer: the identity of the dialed task
  refuse,          // answer: the reason for a rejection
  heartbeat,       // no content
  notice,          // the state of a third task
  goodbye,         // the task leaves in order
  failure,         // answer: the request failed, with code and message
  enroll,          // worker to ps: the variables, their rules and the consistency mode
  initialise,      // chief to ps: the initial values
  await_values,    // worker to ps: answer when the values exist
  pull,            // worker to ps: requests the values
  push_pull,       // worker to ps: gradients; requests the new values
  done,            // worker to ps: no more updates from this worker
  acknowledge,     // answer without values
  values,          // answer with values
  group,           // between ranks: this rank's description of the group
  reduce,          // between ranks: part of an all-reduce
  share,           // worker to ps: memory on this host that both could map
  state,           // worker to ps: requests values, slots and step, all of one moment
  restore,         // chief to ps: a checkpoint's values, slots and step; without a payload: there is none
  await_restore,   // worker to ps: answer when the chief has sent `restore`
  await_others,    // worker to ps: no more updates from this worker; answer when no other worker makes any
  held,            // ps to ps 0: the next step, and the step of each worker's gradients that this ps holds
  decision,        // ps 0 to ps: whose gradients make a step
  run_step,        // client to a task, and from there to the others: a run of a step
  transfer,        // between the tasks of a step: a value
  step_ended,      // task to client: its part has ended, or the error that ended it
  cancel_step,     // client to tasks: the run has failed elsewhere
  list_devices,    // client to task: requests its devices
  read_variable,   // client to task: requests the value of a variable
  write_variable,  // client to task: the value of a variable
  shard_status,    // ps to ps 0: its epoch, and the shard that it has written last
  shard_order,     // ps 0 to ps: the epoch, its first shard, and which shards are committed
  end_session,     // client to tasks: this session requests no more steps
  reset,           // client to task: close the resources in these containers
  push,            // worker to ps: the gradients of the replica in the upper half of the request
  await_step,      // worker to ps 0: answer when the step is made, or with a replica whose gradients to compute
  squares,         // ps to ps 0: the squares of its mean gradients; ps 0 to ps: the sums over all servers
};

inline constexpr std::uint16_t last_frame_kind = static_cast<std::uint16_t>(frame_kind::squares);

/// Bits of frame_header::flags.
enum frame_flags : std::uint32_t {
  payload_checked = 1,  // payload_crc holds the payload's CRC32C
  duplicate = 2,        // answer: this update had been applied before, and was not applied again
  in_segment = 4,       // the gradients or values are in the segment that both have mapped, not in the payload
  only_finite = 8,      // answer: gradients that are not finite are rejected
  changed_rows = 16,    // request: variables sent by rows need only the rows changed since this connection's last
                        // answer; answer: the payload consists of such rows
  authenticated = 32,   // a tag follows the payload
  stopping = 64,        // request: this worker stops after the step; answer: some worker does, and all must stop
  stale = 128,          // answer: the step was made without these gradients, which are dropped
  keeps_shards = 256,   // answer: this server writes shards, and `step` contains the run and its epoch
  rolled_back = 512,    // answer: the servers have rolled back since, and did not serve the request
  known_frame_flags = 1023,
};

/// The fixed part of every message: 64 bytes on the wire, little-endian, with its own CRC32C.
struct frame_header {
  frame_kind kind{};
  std::uint32_t flags = 0;
  std::uint64_t request = 0;         // chosen by the sender of a request, repeated in the answer
  std::uint64_t payload_length = 0;  // bytes that follow the header
  std::uint64_t deadline_us = 0;     // remaining microseconds until the sender's deadline; 0: unknown
  std::int64_t step = 0;
  std::uint64_t tag = 0;  // depends on the kind: a run's epoch, a graph's hash, whether all tasks receive a goodbye
  std::uint32_t payload_crc = 0;
  std::uint32_t weight = 0;  // request with gradients: the number of examples that they average; 0: unknown. Answer to
                             // gradients: update_notes. Answer to await_step, or answer without values to push_pull:
                             // the replica to compute first, counted from 1

  friend bool operator==(const frame_header&, const frame_header&) = default;
};

inline constexpr std::size_t frame_header_size = 64;
inline constexpr std::uint32_t frame_magic = 0x54464557u;  // "WEFT"
inline constexpr std::uint16_t protocol_version = 18;

using frame_header_bytes = std::array<std::byte, frame_header_size>;

/// Encodes the header for the wire.
frame_header_bytes encode(const frame_header& header);

/// Decodes an untrusted header. `payload_limit` is the largest payload, in bytes, that the reader accepts at this
/// moment.
/// Throws weft::error: invalid_argument for bytes that are not a Weft frame; failed_precondition for another protocol
/// version and for TLS; data_loss for a damaged header; resource_exhausted for a payload above the limit.
frame_header decode(std::span<const std::byte, frame_header_size> bytes, std::uint64_t payload_limit);

namespace detail {

// Offsets: magic 0, version 4, kind 6, flags 8, payload crc 12, request 16, payload length 24, deadline 32, step 40,
// tag 48, weight 56, header crc 60.
inline constexpr std::size_t header_crc_at = 60;

/// Checks the four bytes at `first`. Throws the errors of decode() for bytes that do not begin a Weft frame.
void check_magic(const std::byte* first);

}  // namespace detail

#if WEFT_DISTRIBUTED_DEFINITIONS

namespace detail {

WEFT_DISTRIBUTED_DECL void check_magic(const std::byte* first) {
  if (get_little<std::uint32_t>(first) == frame_magic) return;
  const auto kind = std::to_integer<unsigned>(first[0]);
  if (kind >= 20 && kind <= 23 && first[1] == std::byte{3})  // record type and major version (RFC 8446, 5.1)
    throw error(error_code::failed_precondition, "frame",
                "the peer uses TLS, but this task has no certificate (server_options::tls, WEFT_TLS_CERT); give every "
                "task a certificate, or none");
  throw error(error_code::invalid_argument, "frame", "the peer does not speak Weft's protocol (no magic number)");
}

}  // namespace detail

WEFT_DISTRIBUTED_DECL frame_header_bytes encode(const frame_header& header) {
  frame_header_bytes bytes{};
  std::byte* to = bytes.data();
  detail::put_little(to, frame_magic);
  detail::put_little(to + 4, protocol_version);
  detail::put_little(to + 6, static_cast<std::uint16_t>(header.kind));
  detail::put_little(to + 8, header.flags);
  detail::put_little(to + 12, header.payload_crc);
  detail::put_little(to + 16, header.request);
  detail::put_little(to + 24, header.payload_length);
  detail::put_little(to + 32, header.deadline_us);
  detail::put_little(to + 40, header.step);
  detail::put_little(to + 48, header.tag);
  detail::put_little(to + 56, header.weight);
  detail::put_little(to + detail::header_crc_at, crc32c(std::span{bytes}.first(detail::header_crc_at)));
  return bytes;
}

WEFT_DISTRIBUTED_DECL frame_header decode(std::span<const std::byte, frame_header_size> bytes,
                                          std::uint64_t payload_limit) {
  const std::byte* from = bytes.data();
  const auto fail = [](error_code code, std::initializer_list<piece> sentence) {
    throw error(code, "frame", sentence);
  };
  detail::check_magic(from);
  if (const auto version = detail::get_little<std::uint16_t>(from + 4); version != protocol_version)
    fail(error_code::failed_precondition, {"the peer uses protocol version ", version, ", this task version ",
                                           protocol_version, "; run the same build on every task"});
  if (detail::get_little<std::uint32_t>(from + detail::header_crc_at) != crc32c(bytes.first(detail::header_crc_at)))
    fail(error_code::data_loss, {"the header's checksum does not match; it was damaged in transit"});

  const auto kind = detail::get_little<std::uint16_t>(from + 6);
  if (kind == 0 || kind > last_frame_kind)
    fail(error_code::invalid_argument, {"the frame has an unknown kind: ", kind});
  frame_header header;
  header.kind = static_cast<frame_kind>(kind);
  header.flags = detail::get_little<std::uint32_t>(from + 8);
  if ((header.flags & ~static_cast<std::uint32_t>(known_frame_flags)) != 0)
    fail(error_code::invalid_argument, {"the frame has unknown flags: ", header.flags});
  header.payload_crc = detail::get_little<std::uint32_t>(from + 12);
  header.request = detail::get_little<std::uint64_t>(from + 16);
  header.payload_length = detail::get_little<std::uint64_t>(from + 24);
  if (header.payload_length > payload_limit)
    fail(error_code::resource_exhausted, {"the payload must have at most ", payload_limit,
                                          " bytes here; the header announces ", header.payload_length});
  header.deadline_us = detail::get_little<std::uint64_t>(from + 32);
  header.step = detail::get_little<std::int64_t>(from + 40);
  header.tag = detail::get_little<std::uint64_t>(from + 48);
  header.weight = detail::get_little<std::uint32_t>(from + 56);
  return header;
}

#endif

}  // namespace weft
