#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <weft/distributed/collective/rank_links.hpp>
#include <weft/distributed/collective/reduce_algorithms.hpp>

namespace weft {

/// A report of what a mean was made of, and whether one should go on with it: the same on all ranks.
struct mean_report {
  double weights = 0;                 ///< the sum of all ranks'
  bool finite = true;                 ///< all elements are
  std::size_t element = 0;            ///< or else the first that is not
  std::optional<std::size_t> rank{};  ///< and whose it was; nothing where each rank's was finite
};

/// Options of an all_reduce group.
struct all_reduce_options {
  std::string job;                             ///< whose tasks take part; empty: the server's own job
  std::string channel = "all_reduce";          ///< tells several groups of the same tasks apart
  std::vector<int> tasks = {};                 ///< which of the job's tasks take part, ascending; empty: all
  std::size_t chunk = std::size_t{256} << 10;  ///< the most bytes of a message
  link_cost cost;                              ///< of the links, as far as it is known; or see fit()
};

namespace detail {

/// The processes of a group, or none for all tasks, and the channel by which a member says that it has left the group:
/// where all tasks are meant, as long as they connect.
struct group_members {
  std::vector<group_member> all;
  std::string interrupted_by;
};

}  // namespace detail
}  // namespace weft
