// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/special_functions.hpp>
#include <weft/ops/elementwise/define.hpp>

/// Tests for NaN and infinities, which flags like -ffast-math do not remove, and functions that replace such elements.
namespace weft {

namespace formula {

#define WEFT_PREDICATE(op, form)                                                \
  struct op {                                                                   \
    static constexpr const char* name = #op;                                    \
    static constexpr const char* onnx = form;                                   \
    static constexpr bool cheap = true, predicate = true, floating_only = true; \
    template <class V>                                                          \
    WEFT_HOST_DEVICE static constexpr auto apply(V x) {                         \
      if constexpr (detail::is_dependence<V>)                                   \
        return x;                                                               \
      else                                                                      \
        return math::op(x);                                                     \
    }                                                                           \
  };
WEFT_PREDICATE(is_nan, "IsNaN(a)")
WEFT_PREDICATE(is_inf, "IsInf(a)")
WEFT_PREDICATE(is_finite, "Not(Or(IsNaN(a), IsInf(a)))")
#undef WEFT_PREDICATE

}  // namespace formula

// clang-format off
/// Returns true for each NaN of float or double (tf.math.is_nan).
template <Expression X> [[nodiscard]] auto is_nan(const X& x) { return detail::function<formula::is_nan>(x); }
/// Returns true for each infinite element of float or double (tf.math.is_inf).
template <Expression X> [[nodiscard]] auto is_inf(const X& x) { return detail::function<formula::is_inf>(x); }
/// Returns true for each element of float or double that is neither infinite nor NaN (tf.math.is_finite).
template <Expression X> [[nodiscard]] auto is_finite(const X& x) { return detail::function<formula::is_finite>(x); }
// clang-format on

/// Replaces NaN by `nan`, and infinities by `posinf` and `neginf`, by default the largest and the smallest number of
/// the type (torch.nan_to_num). The gradient of a replaced element is 0.
template <Expression X>
[[nodiscard]] auto nan_to_num(const X& x, double nan, double posinf, double neginf) {
  return select(is_nan(x), nan, select(is_inf(x), select(x > 0, posinf, select(x < 0, neginf, x)), x));
}
template <Expression X>
[[nodiscard]] auto nan_to_num(const X& x, double nan = 0) {
  const double most = std::is_same_v<value_t<X>, double> ? 0x1.fffffffffffffp1023 : 0x1.fffffep127;
  return nan_to_num(x, nan, most, -most);
}

namespace math {

template <class V>
WEFT_HOST_DEVICE constexpr V heaviside(V a, V b) {
  return select(a > V(0), V(1), select(a < V(0), V(0), select(a == V(0), b, a)));
}

}  // namespace math

// clang-format off
WEFT_NODE_FORMULA_2(heaviside, "Where(Equal(a, 0), b, Where(Less(a, 0), 0, Where(Less(0, a), 1, a)))", true, numbers, g * V(0), math::select(a == V(0), g, V(0)))
/// Returns 0 if a is negative, b if a is 0, and 1 if a is positive; NaN for NaN (numpy.heaviside). Extents broadcast.
/// The gradient with respect to a is 0.
template <Operand A, Operand B> requires(Expression<A> || Expression<B>)
[[nodiscard]] auto heaviside(const A& a, const B& b) { return detail::function<formula::heaviside>(a, b); }
// clang-format on

}  // namespace weft
