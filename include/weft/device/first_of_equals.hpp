#pragma once

#include <weft/device/sort.hpp>

namespace weft::device {

/// Elements in order, of which equal ones stand beside each other, the one of the lowest number first. Where a kernel
/// for any device finds the first of each, and how many they are.
template <class T>
struct first_of_equals {
  const T* sorted;
  const std::int32_t* order;  ///< the indices that they had
  std::int32_t* first;        ///< by these indices: that of the first
  bool* is_first;
  std::int32_t* lengths;  ///< for the first, how many they are; null: nobody asks
  std::size_t n;

  /// Writes the results for the k-th in order.
  WEFT_HOST_DEVICE void find(std::size_t k) const {
    const std::size_t begin = bound(k, 0, k, false);
    first[order[k]] = order[begin];
    is_first[order[k]] = begin == k;
    if (lengths) lengths[order[k]] = begin == k ? static_cast<std::int32_t>(bound(k, k + 1, n, true) - k) : 0;
  }

 private:
  /// Where those of k's key begin, or end.
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
