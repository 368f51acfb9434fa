// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <type_traits>

#include <weft/device/axis_rows.hpp>
#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/scan.hpp>

namespace weft::device {

/// The type of intermediate products: double for float, so that they may exceed the range of float.
template <class T>
using exclusive_product_of = std::conditional_t<std::is_same_v<T, float>, double, scan_sum<T>>;

/// Computes the product of all other elements in each row, for a group of adjacent rows: the product of the preceding
/// elements, then times the product of the following elements. It does not divide, so zeros and infinities yield
/// correct results.
template <class T>
struct exclusive_product_columns {
  using product = exclusive_product_of<T>;
  const T* x;
  product* before;
  T* y;
  std::size_t extent, inner, width;

  WEFT_INLINE void operator()() const {
    product all[axis_rows::width];
    for (std::size_t c = 0; c < width; ++c) all[c] = 1;
    for (std::size_t k = 0; k < extent; ++k) {
      const T* const from = x + k * inner;
      product* const to = before + k * inner;
      WEFT_VECTORIZE
      for (std::size_t c = 0; c < width; ++c) {
        to[c] = all[c];
        all[c] *= static_cast<product>(from[c]);
      }
    }
    for (std::size_t c = 0; c < width; ++c) all[c] = 1;
    for (std::size_t k = extent; k-- > 0;) {
      const T* const from = x + k * inner;
      const product* const head = before + k * inner;
      T* const to = y + k * inner;
      WEFT_VECTORIZE
      for (std::size_t c = 0; c < width; ++c) {
        to[c] = static_cast<T>(head[c] * all[c]);
        all[c] *= static_cast<product>(from[c]);
      }
    }
  }
};

/// Processes groups [begin, end) of rows; `before` has the shape of x.
template <class T>
void exclusive_products(const axis_rows& s, const T* x, exclusive_product_of<T>* before, T* y, std::size_t begin,
                        std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    const axis_rows::group g = s.group_at(i);
    const std::size_t at = s.start(g);
    multiversioned(exclusive_product_columns<T>{x + at, before + at, y + at, s.extent, s.inner, g.width});
  }
}

}  // namespace weft::device
