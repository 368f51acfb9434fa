// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <weft/graph/scopes.hpp>
#include <weft/graph/subgraphs.hpp>
#include <weft/queue/queue_operations.hpp>

/// Queues in graphs: operations of a step.
namespace weft {

/// How long a queue operation may block in each run of a step. To wait without limit, write time_limit::never().
class time_limit {
 public:
  template <typename Rep, typename Period>
  time_limit(std::chrono::duration<Rep, Period> of_each_run)
      : nanoseconds_(std::chrono::duration<double, std::nano>(of_each_run).count() < 9e18
                         ? std::chrono::duration_cast<std::chrono::nanoseconds>(of_each_run).count()
                         : INT64_MAX) {}
  static time_limit never() { return time_limit(std::chrono::nanoseconds(INT64_MAX)); }

  std::int64_t nanoseconds() const { return nanoseconds_; }

 private:
  std::int64_t nanoseconds_;
};

WEFT_COLD_BEGIN

namespace detail {

/// Returns the options of a queue or a critical section of a graph: the current scopes complete its device.
inline queue_options placed_in(const graph& g, queue_options options) {
  options.device = merge(g.device_here(), options.device);
  return options;
}

/// Records an operation of a queue; `c` contains everything but its detail. Throws unimplemented in the body of a loop
/// or a branch, because the order of a step's operations does not cover bodies.
inline symbol record_queue_operation(graph& g, std::shared_ptr<erased_queue> q, const device_spec& where,
                                     const char* what, node_def c) {
  const std::string name = str_cat({q->name(), "_", what});
  if (g.is_subgraph())
    throw error(error_code::unimplemented, name,
                "a queue cannot be used in the body of a loop or branch: dequeue before it, and enqueue its results");
  const device_scope there(g, where);
  auto* const kept = new recorded_queue(std::move(q));
  g.keep(kept);
  c.detail = kept;
  return {&g, {g.add(static_cast<node_def&&>(c), name), 0}};
}

inline symbol record_queue_state(graph& g, std::shared_ptr<erased_queue> q, const device_spec& where, const char* what,
                                 queue_state_op::kind kind, value_info output) {
  node_def c;
  c.op = &operation_of<queue_state_op>;
  c.attributes = words_of(queue_state_op::attributes{kind});
  c.outputs = {output};
  return record_queue_operation(g, std::move(q), where, what, static_cast<node_def&&>(c));
}

}  // namespace detail

WEFT_COLD_END
}  // namespace weft
