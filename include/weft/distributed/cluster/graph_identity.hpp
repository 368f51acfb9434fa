// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <weft/config.hpp>

namespace weft {

/// The values that all tasks of a training run must share in addition to the variables. Another seed would change the
/// initial values and the share of the data. `settings` is a text for anything else that must be equal, such as the
/// number of steps or how the data are divided.
struct graph_identity {
  std::uint64_t hash, seed;
  std::string settings;
  graph_identity(std::uint64_t graph_hash = 0, std::uint64_t graph_seed = 0, std::string other_settings = {})
      : hash(graph_hash), seed(graph_seed), settings(std::move(other_settings)) {}
};

}  // namespace weft
