#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <weft/text.hpp>

namespace weft {

/// A process that takes part in training: its worker's index, and which of the worker's processes it is.
struct view_member {
  int index = 0;
  std::uint64_t incarnation = 0;

  friend bool operator==(const view_member&, const view_member&) = default;
};

/// The workers that train together from some step on, as all of them have agreed.
struct training_view {
  std::uint64_t epoch = 0;           ///< 1: that in which training began; 0: none yet
  std::vector<view_member> members;  ///< by index, ascending
  std::int64_t updates = 0;          ///< that were complete where the most were, when the view was agreed on
  int source = 0;                    ///< the member whose values those take that have made fewer
  bool brings_values = false;        ///< some member has made fewer, or is new

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
  /// The member that computes a replica's gradients with loss_action::take_over: the worker itself or, where it is
  /// lost, the nearest member, on a tie the lower one. So each member has replicas that follow each other. Returns -1
  /// before the first view.
  int owner_of(int replica) const {
    const view_member* owner = nullptr;
    const auto distance = [&](const view_member& one) { return std::abs(one.index - replica); };
    for (const view_member& each : members)
      if (!owner || distance(each) < distance(*owner)) owner = &each;
    return owner ? owner->index : -1;
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

}  // namespace weft
