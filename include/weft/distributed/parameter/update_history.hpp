#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <weft/distributed/parameter/cluster_state.hpp>
#include <weft/distributed/parameter/replay_window.hpp>

namespace weft::detail {

/// The updates that a parameter server has applied, by worker, so that each counts once and a worker learns at which
/// step to continue. Workers are numbered by their index. Invariant: an update that a restored checkpoint contains
/// counts as applied. Not locked: the serving thread owns it.
class update_history {
 public:
  explicit update_history(std::size_t workers) : workers_(workers) {}

  bool contains(std::size_t worker, std::uint64_t incarnation, std::int64_t step) const {
    return workers_[worker].applied.contains(incarnation, step);
  }
  void insert(std::size_t worker, std::uint64_t incarnation, std::int64_t step) {
    workers_[worker].applied.insert(incarnation, step);
  }

  /// All workers have made this step together.
  void complete_step(std::int64_t step) { last_step_ = std::max(last_step_, step); }

  /// The smallest step that would be new here. A worker continues from there, whatever it has asked for before, on this
  /// connection or another.
  std::int64_t next_step(std::size_t worker, std::uint64_t incarnation) const {
    const entry& its = workers_[worker];
    const std::int64_t newest = std::max({its.applied.newest(incarnation), its.restored, last_step_});
    return newest < std::numeric_limits<std::int64_t>::max() ? newest + 1 : newest;
  }

  /// Writes the last step and how far each worker's updates are applied.
  void save(cluster_state& to) const {
    to.last_step = last_step_;
    for (const entry& each : workers_) {
      to.incarnations.push_back(each.applied.incarnation());
      to.newest.push_back(std::max(each.applied.newest(each.applied.incarnation()), each.restored));
    }
  }
  /// Replaces the history by that of a checkpoint, which has an entry for each worker.
  void restore(const cluster_state& from) {
    last_step_ = from.last_step;
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      workers_[w].restored = from.newest[w];
      workers_[w].applied = replay_window::up_to(from.incarnations[w], from.newest[w]);
    }
  }

 private:
  struct entry {
    replay_window applied;
    std::int64_t restored = -1;  // the newest of its updates that the checkpoint contains
  };

  std::vector<entry> workers_;
  std::int64_t last_step_ = -1;  // the last one that all workers made together; -1: none
};

}  // namespace weft::detail
