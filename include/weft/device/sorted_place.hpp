// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/sort.hpp>

namespace weft::device {

/// Returns the number of sorted elements that are less than x or, if `right`, not greater. First tests `guess`, the
/// place of a similar element, and the next place.
template <class T>
WEFT_HOST_DEVICE std::size_t sorted_place(const T* sorted, std::size_t n, T x, bool right, std::size_t guess = 0) {
  const auto key = key_of(x, direction::ascending);
  const auto is_before = [&](std::size_t i) {
    const auto there = key_of(sorted[i], direction::ascending);
    return there < key || (right && there == key);
  };
  std::size_t low = 0, high = n;
  if (guess < n && is_before(guess)) {
    low = guess + 1;
    if (low < n && !is_before(low)) return low;
  } else if (guess <= n) {
    high = guess;
    if (guess == 0 || is_before(guess - 1)) return guess;
  }
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (is_before(middle))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

}  // namespace weft::device
