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

/// A change in the number of workers, as a task sees it.
struct worker_change {
  task_id worker;
  bool is_back = false;  ///< a process has taken the place of one that was gone
  bool failed = false;   ///< it was lost, or says that an error has ended it
  std::string reason;    ///< why it is gone; continues the worker's name
  int present = 0;       ///< workers that are not gone, those that have not come yet included
  int workers = 0;       ///< of the cluster
};

/// "1 of 2 workers: /job:worker/task:1 has left the cluster"
inline std::string to_string(const worker_change& c) {
  return str_cat(
      {c.present, " of ", c.workers, " workers: ", to_string(c.worker), " ", c.is_back ? "is back" : c.reason});
}

/// A wait for other tasks begins, or is over.
struct wait_change {
  bool is_over = false;
  bool trains = false;                   ///< the wait interrupts training that has begun
  std::string tasks;                     ///< that are waited for, each with the reason: "/job:worker/task:1 (it has
                                         ///< closed its connection)"; or that training continues with
  std::chrono::milliseconds longest{0};  ///< of a wait that begins; 0: not known
  std::int64_t step = -1;                ///< of a wait that is over: the step with which training continues
};

/// "training waits up to 30 s for a process in place of /job:worker/task:1 (it has closed its connection)"
std::string to_string(const wait_change& c);

#if WEFT_DISTRIBUTED_DEFINITIONS
WEFT_DISTRIBUTED_DECL std::string to_string(const wait_change& c) {
  if (c.is_over && c.step >= 0)
    return str_cat({"training continues with step ", c.step, c.tasks.empty() ? "" : "; ", c.tasks});
  if (c.is_over) return str_cat({"the wait is over for ", c.tasks});
  const std::int64_t ms = c.longest.count();
  const std::string time = ms % 1000 == 0 ? str_cat({ms / 1000, " s"}) : str_cat({ms, " ms"});
  return str_cat({c.trains ? "training waits " : "waits ", ms > 0 ? "up to " + time + " " : std::string(), "for ",
                  c.trains ? "a process in place of " : "", c.tasks});
}
#endif

/// The treatment of gradients that are not finite: some element is infinite or not a number.
enum class nonfinite_gradients : unsigned char {
  refuse,  ///< their worker gets an error that names the worker, the step and the variable; nothing is applied
  apply,   ///< applied as they are
};

/// Where a parameter server writes what it holds, so that a process that takes its place restores it.
struct shard_options {
  std::string folder;              ///< of this server's own or of all of them; empty: nothing is written
  std::int64_t every_steps = 100;  ///< synchronous steps, or the updates that an asynchronous server applies
};

/// Options of a server.
struct server_options {
  /// Between signs of life, to every peer; nothing: 250 ms, more where a host has dozens of tasks.
  std::optional<std::chrono::milliseconds> heartbeat_interval = {};
  /// A peer silent for so long is lost; nothing: 7 intervals on one host, and at least 10 s between hosts, where TCP
  /// may need seconds to resume after a link was down. Must exceed the interval of all tasks.
  std::optional<std::chrono::milliseconds> heartbeat_timeout = {};
  std::chrono::milliseconds handshake_timeout{5000};  ///< a connection must name its task within this time
  std::chrono::milliseconds stalled{30'000};  ///< a message that is on its way moves within this time, or is given up
  std::chrono::milliseconds idle_worker{600'000};  ///< a worker that asks a parameter server for nothing for so long is
                                                   ///< not waited for at the end
  std::optional<wait_policy> waiting = {};  ///< nothing: chosen from the number of tasks on this host and its cores
  bool shared_memory = true;                ///< tasks of one host and user pass values through memory that both map
  bool checksum = true;                     ///< CRC32C over values that travel, too; headers always have one
  bool authenticate = false;  ///< tags on the frames between tasks of one host, too; those between hosts have them
  nonfinite_gradients not_finite = nonfinite_gradients::refuse;  ///< the parameter servers' counts, or each worker's
                                                                 ///< own where there are none
  /// How many workers asynchronous training needs; nothing: all. When more of them are gone without finish(), parameter
  /// servers refuse the others' updates, which end with an error that says why. Synchronous training needs all, less
  /// its backups. Training that shrinks when workers are lost (loss_action::shrink) needs so many, too; nothing: one.
  std::optional<int> min_workers = {};
  /// After SIGINT or SIGTERM join() continues to serve until the workers, or the chief of a graph, have left, so that
  /// the chief can save a last checkpoint, for `stop_patience` at most. graph_service::serve() returns at once.
  bool handle_signals = true;
  std::chrono::milliseconds stop_patience{30'000};
  /// A parameter server that is killed may be replaced, if all parameter servers write shards and the loss policy
  /// waits: docs/how-to/failures.md.
  shard_options shards = {};
  std::uint64_t max_parameter_bytes = std::uint64_t{16} << 30;  ///< what workers may make a parameter server hold
  std::size_t max_strangers = 64;  ///< connections that have not yet proved to belong here, at one time
  std::size_t max_channels = 16;   ///< of one peer, that nobody has taken up yet
  /// The secret that tasks prove to know; nothing: cluster_secret::of_user(), or with tls none.
  std::optional<cluster_secret> secret = {};
  std::optional<tls_credentials> tls = {};  ///< by which all is encrypted; nothing: tls_credentials::from_environment()
  /// Where to listen, if not at the task's own address, {"0.0.0.0"} say; port 0: the address's.
  std::optional<endpoint> bind = {};
  /// A socket that listens already, in place of one that is bound.
  std::shared_ptr<const owned_descriptor> listening = {};
  std::string ps_job = "ps", worker_job = "worker";
  /// The tasks that this one connects to and waits for by itself, "/job:ps", "/job:worker/task:0", as TensorFlow's
  /// ConfigProto has them. Empty: a parameter server connects to all, a worker to servers, or to all where there are
  /// none. A task that a strategy asks, or that connects to this one, is spoken to whatever the filters say.
  std::vector<std::string> device_filters = {};
  std::function<void(const error&)> on_lost = {};  ///< a peer was lost; called from the server's own thread
  /// Called from there too, for every worker but this.
  std::function<void(const worker_change&)> on_worker_change = {};
  /// This task begins to wait for tasks that are missing or lost, or continues; from the thread that waits. Nothing: a
  /// line on stderr.
  std::function<void(const wait_change&)> on_wait = {};
  /// A parameter server lets training go on without a worker that is lost; called from the thread in join(). Nothing: a
  /// line on stderr.
  std::function<void(const error&)> on_left_out = {};
  /// A parameter server has made a synchronous step of the gradients of these workers, by their indices; from there
  /// too.
  std::function<void(std::int64_t step, const std::vector<std::size_t>& workers)> on_step = {};
  /// A parameter server has restored a shard, and training goes on with step `to`; -1: it had made no steps before;
  /// called from the thread in join(). Nothing: a line on stderr.
  std::function<void(std::int64_t from, std::int64_t to)> on_rollback = {};
  /// A parameter server could not write or read a shard; from there too. Training goes on. Nothing: a line on stderr,
  /// once for each reason.
  std::function<void(const error&)> on_shard_problem = {};
  /// A connection was rejected, for its secret, its certificate, its version or its cluster; once for each reason, from
  /// the server's own thread. The task goes on waiting. Nothing: a line on stderr.
  std::function<void(const error&)> on_rejected = {};
};

namespace detail {

/// Throws weft::error (invalid_argument) for times that are negative, or so long that sums of them would overflow.
inline server_options checked_times(server_options options) {
  using std::chrono::milliseconds;
  constexpr std::int64_t longest = milliseconds(std::chrono::hours(366 * 24)).count();
  const auto check = [](const char* name, milliseconds time, std::int64_t least) {
    if (time.count() < least || time.count() > longest)
      throw error(error_code::invalid_argument, "server",
                  {"server_options::", name, " must be from ", least, " to ", longest, " ms, which is 366 days; it is ",
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
