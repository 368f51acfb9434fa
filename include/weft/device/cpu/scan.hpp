// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <type_traits>

#include <weft/device/axis_rows.hpp>
#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/scans.hpp>

/// Scans along an axis: cumulative sums and the like. Every row is scanned from beginning to end, so the bits do not
/// depend on the division of the work.
namespace weft::device {

/// The accumulator type. A sequential sum is not hierarchical: in float, a million equal terms would be off by 1 %.
template <class T>
using running_sum = std::conditional_t<std::is_same_v<T, float>, double, scan_sum<T>>;

/// A row from element `at` on.
template <class Scan>
void scan_row(const Scan& s, std::size_t at, std::size_t extent, scan_direction d) {
  typename Scan::state carried = Scan::identity();
  std::size_t before = d.reverse ? at + extent - 1 : at;
  for (std::size_t p = 0; p < extent; ++p) {
    const std::size_t k = d.reverse ? extent - 1 - p : p;
    const typename Scan::state last = carried;
    carried = Scan::combine(carried, s.load(at + k, before, k));
    s.store(at + k, d.exclusive ? last : carried);
    before = at + k;
  }
}

/// A group of adjacent rows, whose states stay in the first-level cache.
template <class Scan>
struct scan_columns {
  Scan s;
  std::size_t at, extent, inner, width;
  scan_direction d;

  WEFT_INLINE void operator()() const {
    const Scan scan = s;
    typename Scan::state carried[axis_rows::width];
    for (std::size_t c = 0; c < width; ++c) carried[c] = Scan::identity();
    for (std::size_t p = 0; p < extent; ++p) {
      const std::size_t k = d.reverse ? extent - 1 - p : p;
      const std::size_t i = at + k * inner, before = p == 0 ? i : d.reverse ? i + inner : i - inner;
      if (d.exclusive) {
        WEFT_VECTORIZE
        for (std::size_t c = 0; c < width; ++c) {
          const typename Scan::state last = carried[c];
          carried[c] = Scan::combine(last, scan.load(i + c, before + c, k));
          scan.store(i + c, last);
        }
      } else {
        WEFT_VECTORIZE
        for (std::size_t c = 0; c < width; ++c) {
          carried[c] = Scan::combine(carried[c], scan.load(i + c, before + c, k));
          scan.store(i + c, carried[c]);
        }
      }
    }
  }
};

/// The rows of an axis_kernel.
template <class Scan>
struct scanned_rows : Scan {
  scan_direction d;

  /// Computes groups [begin, end) of rows.
  void run(const axis_rows& r, std::size_t begin, std::size_t end) const {
    for (std::size_t i = begin; i < end; ++i) {
      const axis_rows::group g = r.group_at(i);
      if (r.inner == 1)
        scan_row<Scan>(*this, r.start(g), r.extent, d);
      else
        multiversioned(scan_columns<Scan>{*this, r.start(g), r.extent, r.inner, g.width, d});
    }
  }
};

}  // namespace weft::device
