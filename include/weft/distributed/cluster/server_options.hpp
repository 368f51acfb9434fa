// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/distributed/cluster/secret.hpp>
#include <weft/error.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/endpoint.hpp>
#include <weft/transport/owned_descriptor.hpp>
#include <weft/transport/separate.hpp>
#include <weft/transport/tls.hpp>

namespace weft {

/// A change in the number of workers, as observed by one task.
struct worker_change {
  task_id worker;
  bool is_back = false;  ///< another process has replaced one that was gone
  bool failed = false;   ///< lost, or left because of an error
  std::string reason;    ///< why the worker is gone; continues the worker's name
  int present = 0;       ///< workers that are not gone, including workers that have not connected yet
  int workers = 0;       ///< all workers of the cluster
};

/// "1 of 2 workers: /job:worker/task:1 has left the cluster"
inline std::string to_string(const worker_change& c) {
  return str_cat(
      {c.present, " of ", c.workers, " workers: ", to_string(c.worker), " ", c.is_back ? "is back" : c.reason});
}

/// The beginning or the end of a wait for other tasks.
struct wait_change {
  bool is_over = false;
  bool trains = false;                   ///< the wait interrupts training
  std::string tasks;                     ///< the tasks that are missing, each with its reason: "/job:worker/task:1 (it
                                         ///< has closed its connection)"; if training continues, the tasks that train
  std::chrono::milliseconds longest{0};  ///< the limit of a wait that begins; 0: unknown
  std::int64_t step = -1;                ///< after a wait: the step with which training continues; -1: training has not
                                         ///< begun
};

/// "training waits up to 30 s for a replacement for /job:worker/task:1 (it has closed its connection)"
std::string to_string(const wait_change& c);

#if WEFT_DISTRIBUTED_DEFINITIONS
WEFT_DISTRIBUTED_DECL std::string to_string(const wait_change& c) {
  if (c.is_over && c.step >= 0)
    return str_cat({"training continues with step ", c.step, c.tasks.empty() ? "" : "; ", c.tasks});
  if (c.is_over) return str_cat({"the wait is over for ", c.tasks});
  const std::int64_t ms = c.longest.count();
  const std::string time = ms % 1000 == 0 ? str_cat({ms / 1000, " s"}) : str_cat({ms, " ms"});
  return str_cat({c.trains ? "training waits " : "waits ", ms > 0 ? "up to " + time + " " : std::string(), "for ",
                  c.trains ? "a replacement for " : "", c.tasks});
}
#endif

/// How gradients with an element that is infinite or not a number are treated.
enum class nonfinite_gradients : unsigned char {
  refuse,  ///< rejected with an error that names the worker, the step and the variable; no gradient is applied
  apply,   ///< applied as they are
};

/// The shard files of a parameter server, from which a replacement can restore the server's state.
struct shard_options {
  std::string folder;              ///< a folder of this server or of all servers; empty: no shards are written
  std::int64_t every_steps = 100;  ///< interval in synchronous steps, or in updates of an asynchronous server
};

/// Options of a server.
struct server_options {
  /// Interval between heartbeats to each peer. Default: 250 ms, longer if a host has dozens of tasks.
  std::optional<std::chrono::milliseconds> heartbeat_interval = {};
  /// A peer that is silent for this long is lost. Default: 7 intervals on one host, and at least 10 s between hosts,
  /// because TCP can take seconds to resume after a link failure. Must exceed the interval of every task.
  std::optional<std::chrono::milliseconds> heartbeat_timeout = {};
  std::chrono::milliseconds handshake_timeout{5000};  ///< time in which a connection must identify its task
  std::chrono::milliseconds stalled{30'000};          ///< a message that makes no progress for this long is abandoned
  std::chrono::milliseconds idle_worker{600'000};     ///< a parameter server does not wait at the end for a worker that
                                                      ///< has sent no request for this long
  std::optional<wait_policy> waiting = {};            ///< default: depends on this host's number of tasks and cores
  bool shared_memory = true;  ///< tasks of one host and user exchange values through mapped memory
  bool checksum = true;       ///< also CRC32C over payloads; headers always have a checksum
  bool authenticate = false;  ///< also tags frames between tasks of one host; between hosts, frames always have tags or
                              ///< are encrypted
  nonfinite_gradients not_finite = nonfinite_gradients::refuse;  ///< set on the parameter servers or, if the cluster
                                                                 ///< has none, on the workers
  /// The number of workers that asynchronous training requires. Default: all. If fewer remain because the others are
  /// gone without finish(), parameter servers reject further updates with an error that names the reason. Synchronous
  /// training requires all workers except its backups. Training that shrinks after a loss (loss_action::shrink) also
  /// requires this number; there, the default is one.
  std::optional<int> min_workers = {};
  /// After SIGINT or SIGTERM, join() continues to serve until the workers, or the chief of a graph, have left, but for
  /// at most `stop_patience`. The chief can then save a last checkpoint. graph_service::serve() returns at once.
  bool handle_signals = true;
  std::chrono::milliseconds stop_patience{30'000};
  /// A killed parameter server can be replaced if all parameter servers write shards and the loss policy waits; see
  /// docs/how-to/failures.md.
  shard_options shards = {};
  std::uint64_t max_parameter_bytes = std::uint64_t{16} << 30;  ///< limit of the parameters that workers can create on
                                                                ///< this server
  std::size_t max_strangers = 64;                               ///< limit of unauthenticated connections at one time
  std::size_t max_channels = 16;  ///< limit of one peer's channels that no thread has accepted yet
  /// The secret that tasks prove to know. Default: cluster_secret::of_user(); with tls, none.
  std::optional<cluster_secret> secret = {};
  std::optional<tls_credentials> tls = {};  ///< encrypts all traffic; default: tls_credentials::from_environment()
  /// The address to listen at if it differs from the task's address, such as {"0.0.0.0"}. Port 0: the port of the task.
  std::optional<endpoint> bind = {};
  /// An open listening socket to use instead of binding one.
  std::shared_ptr<const owned_descriptor> listening = {};
  std::string ps_job = "ps", worker_job = "worker";
  /// The tasks that this one connects to and waits for at the start, such as "/job:ps" or "/job:worker/task:0"; the
  /// device_filters of TensorFlow's ConfigProto. Empty: a parameter server connects to all tasks, and a worker to the
  /// parameter servers, or to all tasks if there are none. Filters do not block connections that a strategy or a peer
  /// opens.
  std::vector<std::string> device_filters = {};
  std::function<void(const error&)> on_lost = {};  ///< called when a peer is lost, on the server's own thread
  /// Called when a worker leaves, is lost or is replaced, on the server's own thread; not for this task itself.
  std::function<void(const worker_change&)> on_worker_change = {};
  /// Called when this task begins to wait for missing or lost tasks, and when it continues, on the thread that waits.
  /// Default: a line on stderr.
  std::function<void(const wait_change&)> on_wait = {};
  /// Called when a parameter server continues training without a lost worker, on the thread in join(). Default: a line
  /// on stderr.
  std::function<void(const error&)> on_left_out = {};
  /// Called when a parameter server has made a synchronous step from the gradients of these workers (indices), on the
  /// thread in join().
  std::function<void(std::int64_t step, const std::vector<std::size_t>& workers)> on_step = {};
  /// Called when a parameter server has restored a shard, on the thread in join(). Training continues with step `to`.
  /// `from` is -1 if the server had made no steps. Default: a line on stderr.
  std::function<void(std::int64_t from, std::int64_t to)> on_rollback = {};
  /// Called when a parameter server cannot write or read a shard, on the thread in join(). Training continues. Default:
  /// a line on stderr, once for each reason.
  std::function<void(const error&)> on_shard_problem = {};
  /// Called when a connection is rejected because of its secret, certificate, version or cluster, on the server's own
  /// thread, once for each reason. The task continues to wait. Default: a line on stderr.
  std::function<void(const error&)> on_rejected = {};
};

namespace detail {

/// Throws weft::error (invalid_argument) if a time is negative, zero where it must be positive, or so long that sums
/// overflow.
inline server_options checked_times(server_options options) {
  using std::chrono::milliseconds;
  constexpr std::int64_t longest = milliseconds(std::chrono::hours(366 * 24)).count();
  const auto check = [](const char* name, milliseconds time, std::int64_t least) {
    if (time.count() < least || time.count() > longest)
      throw error(error_code::invalid_argument, "server",
                  {"server_options::", name, " must be from ", least, " to ", longest, " ms (366 days); it is ",
                   std::int64_t{time.count()}});
  };
  if (options.heartbeat_interval) check("heartbeat_interval", *options.heartbeat_interval, 1);
  if (options.heartbeat_timeout) check("heartbeat_timeout", *options.heartbeat_timeout, 1);
  check("handshake_timeout", options.handshake_timeout, 1);
  check("stalled", options.stalled, 0);
  check("idle_worker", options.idle_worker, 0);
  check("stop_patience", options.stop_patience, 0);
  return options;
}

}  // namespace detail

}  // namespace weft
