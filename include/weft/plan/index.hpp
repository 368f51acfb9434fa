// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include <weft/tensor/sequence.hpp>

namespace weft::plan {

/// Represents the absence of a node, value, buffer, instruction or lane of a step. For nodes of a graph, see
/// graph_node::no_node.
inline constexpr std::uint32_t none = ~std::uint32_t{0};

inline bool contains(const sequence<std::uint32_t>& list, std::uint32_t x) {
  for (const std::uint32_t y : list)
    if (x == y) return true;
  return false;
}

}  // namespace weft::plan
