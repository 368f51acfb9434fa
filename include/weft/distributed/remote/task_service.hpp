// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <weft/deadline.hpp>
#include <weft/graph/graph.hpp>
#include <weft/session/session.hpp>
#include <weft/tensor/owned.hpp>

namespace weft {

class task_server;

namespace detail {
class graph_host;
}

/// Options of a graph_service.
struct graph_service_options {
  /// The task's devices and threads. The client's session decides on soft placement and the devices of nodes without a
  /// pin.
  session_options session = {};
  std::chrono::milliseconds step_timeout{600'000};    ///< a run of a step ends within this time, or fails
  std::chrono::milliseconds connect_timeout{60'000};  ///< time that a new session waits for the tasks
  /// Limits the size of one value that arrives, and of all values that wait for one client that reads slowly.
  std::uint64_t max_value_bytes = std::uint64_t{4} << 30;
  std::uint64_t max_parked_bytes = std::uint64_t{8} << 30;  ///< limit for values that wait for their steps
};

/// Serves one task's part of a graph that spans the tasks of a cluster, and lets sessions of this process request steps
/// from all tasks. The tasks run the same program and record the same graph before the first step. Each task creates
/// one graph_service, which from then on runs its part of all steps.
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
/// long as its graph_service. Sessions that place variables of one name in one task share them. Runs of several
/// sessions take turns.
class task_service {
 public:
  task_service(task_server& here, const graph& g, graph_service_options options = {});
  ~task_service();
  task_service(const task_service&) = delete;
  task_service& operator=(const task_service&) = delete;

  /// For session_options::target: nodes without a task run in this task.
  session_target target();
  /// Like target(), with the task of this rank instead of this task.
  session_target target(std::size_t rank);

  /// Serves the steps of sessions in other processes until SIGINT or SIGTERM, if server_options::handle_signals is
  /// true, until server::stop(), or until the deadline. A second such signal ends the process at once. Returns the
  /// signal's number, or 0 if none has arrived. Throws aborted if other tasks have declared this task lost, because it
  /// was stopped or disconnected for too long: it must be restarted. Unlike server::join(), it does not return when the
  /// chief leaves or is lost, so sessions continue when a lost task is back.
  int serve(deadline until = deadline::never());

  /// Also serves the steps of another program's graph, of which this task runs a part. Graphs of sessions of this
  /// process are added automatically.
  void add_graph(const graph& g);

  task_server& here();
  const graph_service_options& options() const;

 private:
  owned<detail::graph_host> host_;
};

}  // namespace weft
