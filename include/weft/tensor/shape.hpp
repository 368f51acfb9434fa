// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/compiler.hpp>

namespace weft {

/// The maximum number of axes of a tensor.
inline constexpr std::size_t max_rank = 8;

/// Extents at run time, at most `max_rank`. In a graph, a negative extent is the code of a named dynamic extent.
struct shape {
  std::int64_t extents[max_rank]{};
  std::uint32_t rank = 0;

  constexpr shape() = default;
  template <class... Extents>
    requires(sizeof...(Extents) > 0)
  constexpr explicit shape(Extents... e) : extents{static_cast<std::int64_t>(e)...}, rank(sizeof...(Extents)) {}

  constexpr std::int64_t operator[](std::size_t axis) const { return extents[axis]; }
  constexpr std::int64_t& operator[](std::size_t axis) { return extents[axis]; }
  constexpr void push_back(std::int64_t extent) { extents[rank++] = extent; }

  /// The number of elements. Only valid if all extents are static.
  constexpr std::size_t elements() const {
    std::size_t n = 1;
    for (std::size_t i = 0; i < rank; ++i) n *= static_cast<std::size_t>(extents[i]);
    return n;
  }
  constexpr bool is_static() const {
    for (std::size_t i = 0; i < rank; ++i)
      if (extents[i] < 0) return false;
    return true;
  }
  friend constexpr bool operator==(const shape& a, const shape& b) {
    if (a.rank != b.rank) return false;
    for (std::size_t i = 0; i < a.rank; ++i)
      if (a.extents[i] != b.extents[i]) return false;
    return true;
  }
};

}  // namespace weft
