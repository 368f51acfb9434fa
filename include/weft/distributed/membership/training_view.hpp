// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/text.hpp>

namespace weft {

/// A process that takes part in training: its worker's index and its incarnation.
struct view_member {
  int index = 0;
  std::uint64_t incarnation = 0;

  friend bool operator==(const view_member&, const view_member&) = default;
};

/// The workers that train together from some step on, by agreement of all of them.
struct training_view {
  std::uint64_t epoch = 0;           ///< 1: the view in which training begins; 0: no view yet
  std::vector<view_member> members;  ///< in ascending order of their indices
  std::int64_t updates = 0;          ///< the largest number of updates that a member had completed at the time of the
                                     ///< agreement
  int source = 0;                    ///< the member whose values are copied to members with fewer updates
  bool brings_values = false;        ///< some member has fewer updates, or is new
  std::vector<int> owners = {};      ///< by replica: the result of owner_of()

  int chief() const { return members.empty() ? 0 : members.front().index; }
  const view_member* find(int index) const {
    for (const view_member& each : members)
      if (each.index == index) return &each;
    return nullptr;
  }
  bool has(const view_member& one) const {
    const view_member* const found = find(one.index);
    return found && *found == one;
  }
  /// Returns the member that computes a replica's gradients with loss_action::take_over: the worker itself or, if it is
  /// lost, a member with the fewest replicas. Returns -1 before the first view.
  int owner_of(int replica) const {
    return replica >= 0 && replica < static_cast<int>(owners.size()) ? owners[static_cast<std::size_t>(replica)] : -1;
  }

  friend bool operator==(const training_view&, const training_view&) = default;
};

/// "view 3 of 2 workers: 0, 2"
inline std::string to_string(const training_view& v) {
  std::string text =
      str_cat({"view ", v.epoch, " of ", v.members.size(), v.members.size() == 1 ? " worker: " : " workers: "});
  for (std::size_t i = 0; i < v.members.size(); ++i) append(text, {i ? ", " : "", v.members[i].index});
  return text;
}

namespace detail {

/// The role of a worker in loss_action::take_over.
enum class replica_part : unsigned char {
  computes,  // its own replica, and perhaps replicas of lost workers
  lost,      // another worker computes its replica
  none,      // finished, or about to connect again
};

/// Returns the worker that computes each replica in loss_action::take_over, or -1; all strategies use this function.
/// `owners`: the previous result, initially empty. A worker that computes owns its own replica. The replica of a lost
/// worker keeps its owner while the owner computes; otherwise it goes to the worker with the fewest replicas, of these
/// to the nearest one, then to the lowest one. If the loads differ by more than one, for example after a worker has
/// returned, the fewest possible replicas move to balance them.
inline std::vector<int> assign_replicas(std::vector<int> owners, std::span<const replica_part> workers) {
  const auto at = [](auto& all, int index) -> auto& { return all[static_cast<std::size_t>(index)]; };
  const int count = static_cast<int>(workers.size());
  std::vector<int> loads(workers.size());  // the number of replicas of each worker
  owners.resize(workers.size(), -1);
  const auto computes = [&](int worker) { return worker >= 0 && at(workers, worker) == replica_part::computes; };
  const auto lightest_for = [&](int replica) {
    int best = -1;
    const auto cost = [&](int worker) { return std::pair(at(loads, worker), std::abs(worker - replica)); };
    for (int w = 0; w < count; ++w)
      if (computes(w) && (best < 0 || cost(w) < cost(best))) best = w;
    return best;
  };
  for (int r = 0; r < count; ++r) {
    int& owner = at(owners, r);
    if (computes(r))
      owner = r;
    else if (at(workers, r) != replica_part::lost || !computes(owner))
      owner = -1;
    if (owner >= 0) ++at(loads, owner);
  }
  for (int r = 0; r < count; ++r)
    if (at(workers, r) == replica_part::lost && at(owners, r) < 0)
      if (const int to = at(owners, r) = lightest_for(r); to >= 0) ++at(loads, to);
  for (;;) {
    const int most = loads.empty() ? 0 : *std::max_element(loads.begin(), loads.end());
    int moved = -1;
    for (int r = 0; r < count && moved < 0; ++r)
      if (const int owner = at(owners, r); owner >= 0 && owner != r && at(loads, owner) == most) moved = r;
    if (moved < 0) return owners;
    const int to = lightest_for(moved);
    if (at(loads, to) + 1 >= most) return owners;
    --at(loads, std::exchange(at(owners, moved), to));
    ++at(loads, to);
  }
}

}  // namespace detail

}  // namespace weft
