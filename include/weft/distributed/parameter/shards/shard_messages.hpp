// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <weft/distributed/cluster/message_fields.hpp>
#include <weft/distributed/parameter/shards/shard_file.hpp>
#include <weft/transport/separate.hpp>

namespace weft::detail {

/// The gradients that a parameter server holds, sent to parameter server 0.
struct held_message {
  std::int64_t next_step = 0;       // the first step that it has not made
  std::uint64_t attempt = 0;        // number of means that the servers have refused in this epoch
  std::vector<std::int64_t> steps;  // the step of each worker's gradients; -1: none

  void fields(message_fields& io);
  std::vector<std::byte> bytes() const { return write_message(*this); }
  static held_message read(const_bytes from, std::size_t workers) { return read_message<held_message>(from, workers); }
};

/// The workers whose gradients make a step, sent by parameter server 0 to the others.
struct decision_message {
  std::int64_t step = -1;
  std::uint64_t attempt = 0;         // as in held_message
  std::vector<std::size_t> workers;  // indices, ascending

  void fields(message_fields& io);
  std::vector<std::byte> bytes() const { return write_message(*this); }
  static decision_message read(const_bytes from, std::size_t workers) {
    return read_message<decision_message>(from, workers);
  }
};

/// A server's shard status, sent to parameter server 0.
struct shard_status {
  run_epoch at;               // 0: the server has just been started and holds nothing
  bool is_settled = false;    // the chief has restored a checkpoint, or found none
  bool is_failing = false;    // it could not write its last shard
  bool is_leaving = false;    // a signal has stopped it
  std::int64_t written = -1;  // the step of the last shard that it wrote in this epoch; -1: none
  shard_digest digest;
  std::string why;  // why it could not restore the shard that begins this epoch

  void fields(message_fields& io);
  std::vector<std::byte> bytes() const { return write_message(*this); }
  static shard_status read(const_bytes from) { return read_message<shard_status>(from); }
};

/// The epoch of the training and how it began, sent by parameter server 0 to the others that write shards.
struct shard_order {
  run_epoch at;
  std::int64_t restored = -1;  // the step of the shard that begins the epoch; -1: the run began with this epoch
  shard_digest digest;         // of the receiver's shard
  bool is_settled = false;
  bool is_insecure = false;     // some server cannot write shards
  std::int64_t committed = -1;  // the step of the last manifest; -1: there is none
  std::int64_t kept = -1;       // shards of earlier steps are no longer needed
  std::int64_t wanted = -1;     // the step of the shards that all servers are to write
  std::vector<finished_worker> done;

  static std::uint64_t max_bytes(std::size_t workers) { return 64 + 9 * std::uint64_t{workers}; }

  void fields(message_fields& io);
  std::vector<std::byte> bytes() const { return write_message(*this); }
  static shard_order read(const_bytes from, std::size_t workers) { return read_message<shard_order>(from, workers); }
};

#if WEFT_DISTRIBUTED_DEFINITIONS

WEFT_DISTRIBUTED_DECL void held_message::fields(message_fields& io) {
  io.number(next_step, 0).number(attempt).list(steps, io.peers(), [&](std::int64_t& step) { io.number(step, -1); });
  io.must_hold(steps.size() == io.peers());
}

WEFT_DISTRIBUTED_DECL void decision_message::fields(message_fields& io) {
  io.number(step, 0).number(attempt).list(workers, io.peers(), [&](std::size_t& each) { io.peer(each); });
  io.must_hold(!workers.empty());
  for (std::size_t k = 1; k < workers.size(); ++k) io.must_hold(workers[k - 1] < workers[k]);
}

WEFT_DISTRIBUTED_DECL void shard_status::fields(message_fields& io) {
  io.number(at.bits).flags({&is_settled, &is_failing, &is_leaving}).number(written, -1);
  digest.fields(io);
  io.sentence(why);
}

WEFT_DISTRIBUTED_DECL void shard_order::fields(message_fields& io) {
  io.number(at.bits, 1).number(restored, -1);
  digest.fields(io);
  io.flags({&is_settled, &is_insecure}).number(committed, -1).number(kept, -1).number(wanted, -1);
  io.must_hold(kept <= committed);
  io.for_each_peer(done, [&](finished_worker& each) { each.fields(io); });
}

#endif

}  // namespace weft::detail
