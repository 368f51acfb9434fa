// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include <weft/device/cpu/vector_loops.hpp>

namespace weft::detail {

/// An array that a rank adds to a sum, times its weight.
template <typename Element>
struct weighted_array {
  const Element* data;
  Element weight;
};

/// Adds elements `first` to `first + count - 1` of each array, one array after another.
template <typename Element>
void add_arrays(Element* to, std::span<const weighted_array<Element>> arrays, std::size_t first, std::size_t count) {
  constexpr std::size_t at_once = 1024;
  Element scaled[at_once];
  for (std::size_t done = 0; done < count; done += at_once) {
    const std::size_t size = std::min(at_once, count - done);
    for (const weighted_array<Element>& each : arrays) {
      const Element* from = each.data + first + done;
      if (each.weight != 1) {
        scale(scaled, from, size, each.weight);
        from = scaled;
      }
      accumulate(to + done, from, size);
    }
  }
}

}  // namespace weft::detail
