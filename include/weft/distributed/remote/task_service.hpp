#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <weft/deadline.hpp>
#include <weft/graph/graph.hpp>
#include <weft/session/session.hpp>

namespace weft {

class task_server;

namespace detail {
class graph_host;
}

/// Options of a graph_service.
struct graph_service_options {
  /// The task's devices and threads. The client's session chooses soft placement and the devices of nodes without a
  /// pin.
  session_options session = {};
  std::chrono::milliseconds step_timeout{600'000};    ///< a run of a step ends within this time, or fails
  std::chrono::milliseconds connect_timeout{60'000};  ///< a new session waits so long for the tasks
  /// Limits the size of one value that arrives, and of all values that wait for one client that reads slowly.
  std::uint64_t max_value_bytes = std::uint64_t{4} << 30;
  std::uint64_t max_parked_bytes = std::uint64_t{8} << 30;  ///< of values that wait here for their steps
};

/// One task's share of a graph that spans the tasks of a cluster, and the way for sessions of this process to ask all
/// of them for steps. The tasks run the same program, and record the same graph before the first step; each makes one
/// graph_service, on which the others' steps run from then on.
///
///     server here(cluster, job, index);
///     graph_service tasks(here, g);
///     if (here.is_chief()) {
///       session s(g, {.target = tasks.target()});
///       ...
///     } else {
///       here.join();
///     }
///
/// Each session places the nodes of its graph by its own pins and options. Variables belong to their task and live as
/// long as its graph_service. Sessions whose graphs place a variable of one name in one task share it. Runs of several
/// sessions take turns.
class task_service {
 public:
  task_service(task_server& here, const graph& g, graph_service_options options = {});
  ~task_service();
  task_service(const task_service&) = delete;
  task_service& operator=(const task_service&) = delete;

  /// For session_options::target: nodes that name no task run in this one.
  session_target target();
  /// The same with the task of this rank in place of this one.
  session_target target(std::size_t rank);

  /// Waits while this task serves the steps of sessions elsewhere: until SIGINT or SIGTERM, if
  /// server_options::handle_signals, until server::stop(), or until the deadline. A second signal of the kind ends the
  /// process at once. Returns the signal's number, or 0 if none has arrived. Throws aborted if other tasks have
  /// declared this one lost, because it was stopped or disconnected for too long: it must be started again.
  /// server::join() returns after the chief has left or is lost. This does not, so sessions continue when a lost task
  /// is back.
  int serve(deadline until = deadline::never());

  /// Serves the steps of another graph, too: that of another program, of which this task runs a part. Graphs of
  /// sessions of this process are added without a call.
  void add_graph(const graph& g);

  task_server& here();
  const graph_service_options& options() const;

 private:
  std::unique_ptr<detail::graph_host> host_;
};

}  // namespace weft
