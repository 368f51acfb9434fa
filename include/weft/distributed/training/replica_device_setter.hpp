#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/graph/graph.hpp>
#include <weft/graph/leaves.hpp>

namespace weft {

/// Places variables on parameter servers, as tf.train.replica_device_setter does; everything else stays with the
/// worker. Tasks are taken so that each server holds about as many bytes, in the order in which variables are made.
///
///     device_scope on(g, replica_device_setter(cluster));
class replica_device_setter {
 public:
  explicit replica_device_setter(const cluster_spec& cluster, const std::string& ps_job = "ps")
      : job_(ps_job), load_(static_cast<std::size_t>(cluster.num_tasks(ps_job))) {}

  template <class = void>
  explicit replica_device_setter(...) = delete;  // replica_device_setter(cluster)

  device_spec operator()(const placement_query& q) const {
    if (load_.empty() || std::string_view(q.operation) != operation_of<variable_op>.name || q.requested.has_job())
      return {};
    const auto least = std::min_element(load_.begin(), load_.end());
    // Dynamic extents count as 1: they are the same for every variable that has them.
    std::size_t bytes = size_of(q.output.type);
    for (std::size_t i = 0; i < q.output.extents.rank; ++i)
      if (q.output.extents[i] > 0) bytes *= static_cast<std::size_t>(q.output.extents[i]);
    *least += bytes;
    device_spec d;
    job_.copy(d.job, sizeof d.job - 1);
    d.task = static_cast<int>(least - load_.begin());
    return d;
  }

 private:
  std::string job_;
  mutable std::vector<std::size_t> load_;
};

}  // namespace weft
