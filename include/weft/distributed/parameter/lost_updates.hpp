// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <weft/config.hpp>

namespace weft::detail {

/// The steps of a worker's updates that parameter servers acknowledged and then lost. An update that several servers
/// lost counts once.
class lost_updates {
 public:
  /// Adds the updates from `begin` up to, but not including, `end`.
  void add(std::int64_t begin, std::int64_t end) {
    if (begin >= end) return;
    range added{begin, end};
    std::erase_if(all_, [&](const range& each) {
      if (each.end < added.begin || added.end < each.begin) return false;
      added = {std::min(each.begin, added.begin), std::max(each.end, added.end)};
      return true;
    });
    all_.push_back(added);
  }
  std::int64_t count() const {
    std::int64_t sum = 0;
    for (const range& each : all_) sum += each.end - each.begin;
    return sum;
  }

 private:
  struct range {
    std::int64_t begin, end;
  };
  std::vector<range> all_;  // disjoint
};

}  // namespace weft::detail
