// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <vector>

#include <weft/config.hpp>

namespace weft {

/// The progress of a cluster's training. Checkpoints of clusters contain it; checkpoints of a single process do not.
struct cluster_state {
  std::int64_t global_step = 0;
  std::int64_t last_step = -1;             // the last step that the workers made together; -1: none
  std::uint32_t unit = 0;                  // number of examples in gradients of weight 1; 0: not known yet
  std::vector<std::uint64_t> unused = {};  // part of the file format
  /// The newest applied step of each worker, so that no update is applied twice.
  std::vector<std::int64_t> newest = {};

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive & global_step & last_step & unit & unused & newest;
  }
};

}  // namespace weft
