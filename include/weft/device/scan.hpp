// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <type_traits>

#include <weft/tensor/dtype.hpp>

namespace weft {

namespace detail {
template <class T>
struct sum_of {
  using type = T;
};
template <>
struct sum_of<half> {
  using type = float;
};
template <>
struct sum_of<bfloat16> {
  using type = float;
};
template <class T>
  requires std::is_integral_v<T>
struct sum_of<T> {
  using type = std::make_unsigned_t<T>;
};
}  // namespace detail

/// The accumulator type of cumulative sums of T: float for half and bfloat16, a wrapping type for integers.
template <class T>
using scan_sum = typename detail::sum_of<T>::type;

}  // namespace weft
