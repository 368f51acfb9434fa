// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <type_traits>

#include <weft/device/axis_rows.hpp>
#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/scan.hpp>

/// Cumulative sums along an axis. Every row is summed from beginning to end, so the bits do not depend on the division
/// of the work.
namespace weft::device {

/// The direction of a sum. An exclusive sum omits the element itself; a reversed one starts at the end.
struct scan_direction {
  bool exclusive = false, reverse = false;
};

/// The accumulator type. A sequential sum is not hierarchical: in float, a million equal terms would be off by 1 %.
template <class T>
using running_sum = std::conditional_t<std::is_same_v<T, float>, double, scan_sum<T>>;

template <class T>
void scan_row(const T* x, T* y, std::size_t extent, scan_direction d) {
  running_sum<T> sum{};
  for (std::size_t p = 0; p < extent; ++p) {
    const std::size_t k = d.reverse ? extent - 1 - p : p;
    const running_sum<T> before = sum;
    sum += static_cast<running_sum<T>>(x[k]);
    y[k] = static_cast<T>(d.exclusive ? before : sum);
  }
}

/// A group of adjacent rows, whose sums stay in the first-level cache.
template <class T>
struct scan_columns {
  const T* x;
  T* y;
  std::size_t extent, inner, width;
  scan_direction d;

  WEFT_INLINE void operator()() const {
    running_sum<T> sums[axis_rows::width] = {};
    for (std::size_t p = 0; p < extent; ++p) {
      const std::size_t k = d.reverse ? extent - 1 - p : p;
      const T* const from = x + k * inner;
      T* const to = y + k * inner;
      if (d.exclusive) {
        WEFT_VECTORIZE
        for (std::size_t c = 0; c < width; ++c) {
          const running_sum<T> before = sums[c];
          sums[c] += static_cast<running_sum<T>>(from[c]);
          to[c] = static_cast<T>(before);
        }
      } else {
        WEFT_VECTORIZE
        for (std::size_t c = 0; c < width; ++c) {
          sums[c] += static_cast<running_sum<T>>(from[c]);
          to[c] = static_cast<T>(sums[c]);
        }
      }
    }
  }
};

/// Computes groups [begin, end) of rows.
template <class T>
void scan(const axis_rows& s, scan_direction d, const T* x, T* y, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    const axis_rows::group g = s.group_at(i);
    const std::size_t at = s.start(g);
    if (s.inner == 1)
      scan_row(x + at, y + at, s.extent, d);
    else
      multiversioned(scan_columns<T>{x + at, y + at, s.extent, s.inner, g.width, d});
  }
}

}  // namespace weft::device
