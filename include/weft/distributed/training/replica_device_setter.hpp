// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/graph/graph.hpp>
#include <weft/graph/leaves.hpp>

namespace weft {

/// How replica_device_setter chooses the parameter server of a variable.
enum class ps_strategy : unsigned char {
  round_robin,         ///< one after the other, in the order of creation (TensorFlow's default)
  greedy_by_byte_size  ///< the one with the fewest bytes so far (GreedyLoadBalancingStrategy with byte_size_load_fn)
};

/// Options of replica_device_setter.
struct replica_device_options {
  std::string ps_job = "ps";
  ps_strategy strategy = ps_strategy::round_robin;
  /// The device of all other nodes. By default the scopes around this one choose it, or the session.
  device_spec worker_device = {};
};

/// Places variables on parameter servers (tf.train.replica_device_setter). A scope within this one takes precedence.
///
///     device_scope on(g, replica_device_setter(cluster));
///     device_scope on(g, replica_device_setter(cluster, {.strategy = ps_strategy::greedy_by_byte_size}));
class replica_device_setter {
 public:
  explicit replica_device_setter(const cluster_spec& cluster, replica_device_options options = {})
      : options_(std::move(options)), load_(static_cast<std::size_t>(cluster.num_tasks(options_.ps_job))) {}

  template <class = void>
  explicit replica_device_setter(...) = delete;  // replica_device_setter(cluster), or (cluster, {.strategy = ...})

  device_spec operator()(const placement_query& q) const {
    if (load_.empty() || q.operation != operation_of<variable_op>.name) return options_.worker_device;
    if (q.requested.has_job() && std::string_view(q.requested.job) != options_.ps_job) return {};
    const auto next = std::min_element(load_.begin(), load_.end());  // the lowest index on a tie
    *next += options_.strategy == ps_strategy::round_robin ? 1 : bytes_of(q.output);
    device_spec d;
    options_.ps_job.copy(d.job, sizeof d.job - 1);
    d.task = static_cast<int>(next - load_.begin());
    return d;
  }

 private:
  /// Dynamic extents count as 1: they are the same for every variable that has them.
  static std::size_t bytes_of(const value_info& v) {
    std::size_t bytes = size_of(v.type);
    for (std::size_t i = 0; i < v.extents.rank; ++i)
      if (v.extents[i] > 0) bytes *= static_cast<std::size_t>(v.extents[i]);
    return bytes;
  }

  replica_device_options options_;
  mutable std::vector<std::size_t> load_;  // variables or bytes on each server
};

}  // namespace weft
