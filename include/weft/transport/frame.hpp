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
  hello = 1,       // the task that dials: a nonce
  challenge,       // the answer: another nonce, and the proof of knowing the secret
  introduce,       // the task that dials: the same proof, which task it is, and for which channel
  welcome,         // the answer: which task was reached
  refuse,          // the other answer: why not
  heartbeat,       // nothing but a sign of life
  notice,          // what became of a third task
  goodbye,         // the task leaves in order
  failure,         // an answer: the request failed, here is the code and the sentence
  enroll,          // worker to ps: the variables, their rules and the consistency mode
  initialise,      // chief to ps: the first values
  await_values,    // worker to ps: answer when there are values
  pull,            // worker to ps: the values, please
  push_pull,       // worker to ps: here are gradients, the fresh values please
  done,            // worker to ps: no more updates from here
  acknowledge,     // an answer without values
  values,          // an answer with values
  group,           // between ranks: what this rank believes about the group
  reduce,          // between ranks: part of an all-reduce
  share,           // worker to ps: memory of this host that both could map
  state,           // worker to ps: values, slots and step, all of one moment, please
  restore,         // chief to ps: a checkpoint's values, slots and step; without a payload: there is none
  await_restore,   // worker to ps: answer when the chief has said either
  await_others,    // worker to ps: no more updates from here; answer when no other worker makes any
  held,            // ps to ps 0: the next step, and of which step each worker's gradients are here
  decision,        // ps 0 to ps: whose gradients make a step
  run_step,        // client to a task, and from there to the others: a run of a step
  transfer,        // between the tasks of a step: a value
  step_ended,      // task to client: its part has ended, or why it has not
  cancel_step,     // client to tasks: the run has failed elsewhere
  list_devices,    // client to task: its devices, please
  read_variable,   // client to task: the value of a variable, please
  write_variable,  // client to task: the value of a variable
  shard_status,    // ps to ps 0: its epoch, and the shard that it has written last
  shard_order,     // ps 0 to ps: the epoch, the shard to begin it with, and which shards are committed
  end_session,     // client to tasks: this session asks for no more steps
  reset,           // client to task: close what these containers hold
  push,            // worker to ps: here are the gradients of the replica that the request's upper half names
  await_step,      // worker to ps 0: answer when the step is made, or which replica's gradients are to be computed
  squares,         // ps to ps 0: the squares of its mean gradients; ps 0 to ps: the sums over all servers
};

inline constexpr std::uint16_t last_frame_kind = static_cast<std::uint16_t>(frame_kind::squares);

/// Bits of frame_header::flags.
enum frame_flags : std::uint32_t {
  payload_checked = 1,  // payload_crc holds the payload's CRC32C
  duplicate = 2,        // an answer: this update had been applied before, it was not applied again
  in_segment = 4,       // the gradients, or the values, lie in the segment that both have mapped; they do not follow
  only_finite = 8,      // an answer: gradients that are not finite are refused
  changed_rows = 16,    // a request: of variables that travel by rows, those are enough that have changed since this
                        // connection's last answer; an answer: they are what follows
  authenticated = 32,   // a tag follows the payload
  stopping = 64,        // a request: this worker stops, after the step; an answer: some worker does, and all are to
  stale = 128,          // an answer: the step was made without these gradients, which are dropped
  keeps_shards = 256,   // an answer: this server writes shards, and `step` is the run and its epoch
  rolled_back = 512,    // an answer: the run has gone back since, and the request was not served
  known_frame_flags = 1023,
};

/// The fixed part of every message. Sixty-four bytes on the wire, little-endian, guarded by its own CRC32C.
struct frame_header {
  frame_kind kind{};
  std::uint32_t flags = 0;
  std::uint64_t request = 0;         // chosen by the asker, repeated in the answer
  std::uint64_t payload_length = 0;  // bytes that follow the header
  std::uint64_t deadline_us = 0;     // microseconds that the sender still waits; 0: not said
  std::int64_t step = 0;
  std::uint64_t tag = 0;  // meaning depends on the kind: a run's epoch, a graph's hash, whether all hear a goodbye
  std::uint32_t payload_crc = 0;
  std::uint32_t weight = 0;  // of a worker's gradients: of how many examples they are the mean; 0: not said. Of an
                             // answer to them: update_notes. Of an answer to await_step, or of an answer without
                             // values to push_pull: the replica to compute first, counted from 1

  friend bool operator==(const frame_header&, const frame_header&) = default;
};

inline constexpr std::size_t frame_header_size = 64;
inline constexpr std::uint32_t frame_magic = 0x54464557u;  // "WEFT"
inline constexpr std::uint16_t protocol_version = 17;

using frame_header_bytes = std::array<std::byte, frame_header_size>;

/// The header as it travels.
frame_header_bytes encode(const frame_header& header);

/// Reads a header that came from outside. `payload_limit` is the largest payload, in bytes, that the reader is prepared
/// to hold at this moment.
/// Throws weft::error: invalid_argument for bytes that are no Weft frame, failed_precondition for another protocol
/// version and for TLS, data_loss for a header damaged on the way, resource_exhausted for a payload above the limit.
frame_header decode(std::span<const std::byte, frame_header_size> bytes, std::uint64_t payload_limit);

namespace detail {

// magic 0, version 4, kind 6, flags 8, payload crc 12, request 16, payload length 24, deadline 32, step 40, tag 48,
// weight 56, header crc 60
inline constexpr std::size_t header_crc_at = 60;

/// Checks the four bytes at `first`. Throws what decode() does for a frame that begins with other bytes than Weft's.
void check_magic(const std::byte* first);

}  // namespace detail

#if WEFT_DISTRIBUTED_DEFINITIONS

namespace detail {

WEFT_DISTRIBUTED_DECL void check_magic(const std::byte* first) {
  if (get_little<std::uint32_t>(first) == frame_magic) return;
  const auto kind = std::to_integer<unsigned>(first[0]);
  if (kind >= 20 && kind <= 23 && first[1] == std::byte{3})  // a record's type, and the major version (RFC 8446, 5.1)
    throw error(
        error_code::failed_precondition, "frame",
        "the peer speaks TLS, and this task has no certificate (server_options::tls, WEFT_TLS_CERT); give every "
        "task one, or none");
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
    fail(error_code::failed_precondition, {"the peer speaks protocol version ", version, ", this task ",
                                           protocol_version, "; run the same build on every task"});
  if (detail::get_little<std::uint32_t>(from + detail::header_crc_at) != crc32c(bytes.first(detail::header_crc_at)))
    fail(error_code::data_loss, {"the header's checksum does not match; it was damaged on the way"});

  const auto kind = detail::get_little<std::uint16_t>(from + 6);
  if (kind == 0 || kind > last_frame_kind)
    fail(error_code::invalid_argument, {"the frame has the unknown kind ", kind});
  frame_header header;
  header.kind = static_cast<frame_kind>(kind);
  header.flags = detail::get_little<std::uint32_t>(from + 8);
  if ((header.flags & ~static_cast<std::uint32_t>(known_frame_flags)) != 0)
    fail(error_code::invalid_argument, {"the frame has unknown flags: ", header.flags});
  header.payload_crc = detail::get_little<std::uint32_t>(from + 12);
  header.request = detail::get_little<std::uint64_t>(from + 16);
  header.payload_length = detail::get_little<std::uint64_t>(from + 24);
  if (header.payload_length > payload_limit)
    fail(error_code::resource_exhausted,
         {"the frame may announce at most ", payload_limit, " bytes here and announces ", header.payload_length});
  header.deadline_us = detail::get_little<std::uint64_t>(from + 32);
  header.step = detail::get_little<std::int64_t>(from + 40);
  header.tag = detail::get_little<std::uint64_t>(from + 48);
  header.weight = detail::get_little<std::uint32_t>(from + 56);
  return header;
}

#endif

}  // namespace weft
