#pragma once

#include <cstdint>
#include <vector>

#include <weft/config.hpp>

namespace weft {

/// Where a cluster's training is, beside the values of its variables: what its checkpoints have and those of one
/// process do not.
struct cluster_state {
  std::int64_t global_step = 0;
  std::int64_t last_step = -1;             // the number of the last update that all workers have made together
  std::uint32_t unit = 0;                  // of how many examples what counts 1 is the mean; 0: not known yet
  std::vector<std::uint64_t> unused = {};  // files have it
  /// How far each worker's updates are in the values, so that none is applied twice.
  std::vector<std::int64_t> newest = {};

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive & global_step & last_step & unit & unused & newest;
  }
};

}  // namespace weft
