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

/// The updates that a parameter server has applied, by worker, so that each counts once and a worker, or the process
/// that takes its place, learns at which step to continue. Workers are numbered by their index. Invariant: an update
/// that a restored checkpoint contains counts as applied. Not locked: the serving thread owns it.
class update_history {
 public:
  explicit update_history(std::size_t workers) : applied_(workers) {}

  bool contains(std::size_t worker, std::int64_t step) const { return applied_[worker].contains(step); }
  void insert(std::size_t worker, std::int64_t step) { applied_[worker].insert(step); }

  /// The workers have made this step together.
  void complete_step(std::int64_t step) { last_step_ = std::max(last_step_, step); }
  /// The last step that they have made together; -1: none.
  std::int64_t last_step() const { return last_step_; }

  /// The smallest step that would be new here. A worker continues from there, whatever it has asked for before, on this
  /// connection or another.
  std::int64_t next_step(std::size_t worker) const {
    return following(std::max(applied_[worker].newest(), last_step_));
  }
  /// The step after this one; a peer may name the last number that there is.
  static std::int64_t following(std::int64_t step) {
    return step < std::numeric_limits<std::int64_t>::max() ? step + 1 : step;
  }

  /// Writes the last step and how far each worker's updates are applied.
  void save(cluster_state& to) const {
    to.last_step = last_step_;
    for (const replay_window& each : applied_) to.newest.push_back(each.newest());
  }
  /// Replaces the history by that of a checkpoint, which has an entry for each worker.
  void restore(const cluster_state& from) {
    last_step_ = from.last_step;
    for (std::size_t w = 0; w < applied_.size(); ++w) applied_[w] = replay_window::up_to(from.newest[w]);
  }

  /// The same with all that is remembered of each worker.
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
