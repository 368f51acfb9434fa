// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/sort.hpp>

namespace weft::device {

/// Finds the first of equal elements, and their number, for kernels on any device. Elements are sorted; of equal
/// elements, the one with the lowest index comes first.
template <class T>
struct first_of_equals {
  const T* sorted;
  const std::int32_t* order;  ///< the original indices
  std::int32_t* first;        ///< by original index: the index of the first equal element
  bool* is_first;
  std::int32_t* lengths;  ///< for the first, the number of equal elements; null if not needed
  std::size_t n;

  /// Writes the results for the k-th sorted element.
  WEFT_HOST_DEVICE void find(std::size_t k) const {
    const std::size_t begin = bound(k, 0, k, false);
    first[order[k]] = order[begin];
    is_first[order[k]] = begin == k;
    if (lengths) lengths[order[k]] = begin == k ? static_cast<std::int32_t>(bound(k, k + 1, n, true) - k) : 0;
  }

 private:
  /// Returns the begin or the end of the elements with k's key.
  WEFT_HOST_DEVICE std::size_t bound(std::size_t k, std::size_t low, std::size_t high, bool end) const {
    const auto key = key_of(sorted[k], direction::ascending);
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      const auto there = key_of(sorted[middle], direction::ascending);
      if (there < key || (end && there == key))
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
};

}  // namespace weft::device
