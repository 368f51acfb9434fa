// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <weft/distributed/collective/rank_links.hpp>
#include <weft/distributed/collective/reduce_algorithms.hpp>

namespace weft {

/// Describes a mean; equal on all ranks.
struct mean_report {
  double weights = 0;                 ///< sum of all ranks' weights
  bool finite = true;                 ///< true if all elements are finite
  std::size_t element = 0;            ///< otherwise the first element that is not
  std::optional<std::size_t> rank{};  ///< and its rank; empty if all ranks' arrays are finite
};

/// Options of an all_reduce group.
struct all_reduce_options {
  std::string job;                             ///< job whose tasks take part; empty: this server's job
  std::string channel = "all_reduce";          ///< distinguishes several groups of the same tasks
  std::vector<int> tasks = {};                 ///< indices of the tasks that take part, ascending; empty: all
  std::size_t chunk = std::size_t{256} << 10;  ///< largest message, in bytes
  link_cost cost;                              ///< estimated cost of the links; fit() measures it
};

namespace detail {

/// The processes of a group, or none for all tasks, and the channel that a member opens when it leaves the group. In a
/// group of all tasks, the channel only interrupts connecting.
struct group_members {
  std::vector<group_member> all;
  std::string interrupted_by;
};

}  // namespace detail
}  // namespace weft
