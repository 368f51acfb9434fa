#pragma once

#include <cstddef>
#include <type_traits>

#include <weft/device/axis_rows.hpp>
#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/scan.hpp>

namespace weft::device {

/// What such products are kept in: of floats in double, so that they may leave a float's range on the way.
template <class T>
using exclusive_product_of = std::conditional_t<std::is_same_v<T, float>, double, scan_sum<T>>;

/// The product of the others in a row, of a group of rows side by side: of those before, then times that of those
/// behind. Nothing is divided, so zeros and infinities are as they should be.
template <class T>
struct exclusive_product_columns {
  const T* x;
  T* y;
  std::size_t extent, inner, width;

  WEFT_INLINE void operator()() const {
    using product = exclusive_product_of<T>;
    product all[axis_rows::width];
    for (std::size_t c = 0; c < width; ++c) all[c] = 1;
    for (std::size_t k = 0; k < extent; ++k) {
      const T* const from = x + k * inner;
      T* const to = y + k * inner;
      WEFT_VECTORIZE
      for (std::size_t c = 0; c < width; ++c) {
        to[c] = static_cast<T>(all[c]);
        all[c] *= static_cast<product>(from[c]);
      }
    }
    for (std::size_t c = 0; c < width; ++c) all[c] = 1;
    for (std::size_t k = extent; k-- > 0;) {
      const T* const from = x + k * inner;
      T* const to = y + k * inner;
      WEFT_VECTORIZE
      for (std::size_t c = 0; c < width; ++c) {
        to[c] = static_cast<T>(static_cast<product>(to[c]) * all[c]);
        all[c] *= static_cast<product>(from[c]);
      }
    }
  }
};

/// Groups [begin, end) of rows.
template <class T>
void exclusive_products(const axis_rows& s, const T* x, T* y, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    const axis_rows::group g = s.group_at(i);
    const std::size_t at = s.start(g);
    multiversioned(exclusive_product_columns<T>{x + at, y + at, s.extent, s.inner, g.width});
  }
}

}  // namespace weft::device
