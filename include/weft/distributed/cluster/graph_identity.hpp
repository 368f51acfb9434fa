#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <weft/config.hpp>

namespace weft {

/// All that the tasks of a training have in common beside the variables: another seed would mean other first values and
/// another share of the data. `settings`: what else the program wants to be the same everywhere, in words: how many
/// steps there are, how the data are divided.
struct graph_identity {
  std::uint64_t hash, seed;
  std::string settings;
  graph_identity(std::uint64_t graph_hash = 0, std::uint64_t graph_seed = 0, std::string other_settings = {})
      : hash(graph_hash), seed(graph_seed), settings(std::move(other_settings)) {}
};

}  // namespace weft
