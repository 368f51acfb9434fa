// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <weft/distributed/parameter/cluster_state.hpp>
#include <weft/distributed/parameter/replay_window.hpp>

namespace weft::detail {

/// The updates that a parameter server has applied, by worker, so that each is applied once and a worker, or the
/// process that takes its place, receives the step at which to continue. Workers are numbered by their index.
/// Invariant: an update in a restored checkpoint counts as applied. Not thread-safe: the serving thread owns the
/// object.
class update_history {
 public:
  explicit update_history(std::size_t workers) : applied_(workers) {}

  bool contains(std::size_t worker, std::int64_t step) const { return applied_[worker].contains(step); }
  void insert(std::size_t worker, std::int64_t step) { applied_[worker].insert(step); }

  /// Records a step that the workers made together.
  void complete_step(std::int64_t step) { last_step_ = std::max(last_step_, step); }
  /// The last step that the workers made together; -1: none.
  std::int64_t last_step() const { return last_step_; }

  /// The smallest step that is new to this server. A worker continues there, whatever it requested before on any
  /// connection.
  std::int64_t next_step(std::size_t worker) const {
    return following(std::max(applied_[worker].newest(), last_step_));
  }
  /// The step after this one, or the same if it is the largest number, which a peer may send.
  static std::int64_t following(std::int64_t step) {
    return step < std::numeric_limits<std::int64_t>::max() ? step + 1 : step;
  }

  /// Writes the last step and the newest applied step of each worker.
  void save(cluster_state& to) const {
    to.last_step = last_step_;
    for (const replay_window& each : applied_) to.newest.push_back(each.newest());
  }
  /// Replaces the history by the history in a checkpoint, which has an entry for each worker.
  void restore(const cluster_state& from) {
    last_step_ = from.last_step;
    for (std::size_t w = 0; w < applied_.size(); ++w) applied_[w] = replay_window::up_to(from.newest[w]);
  }

  /// The complete replay window of each worker, which shards contain.
  const std::vector<replay_window>& applied() const { return applied_; }
  void restore(std::int64_t last_step, std::vector<replay_window> applied) {
    last_step_ = last_step;
    applied_ = std::move(applied);
  }

 private:
  std::vector<replay_window> applied_;
  std::int64_t last_step_ = -1;
};

}  // namespace weft::detail
