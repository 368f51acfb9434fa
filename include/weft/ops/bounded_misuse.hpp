// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tuple>

#include <weft/ops/bounded.hpp>
#include <weft/ops/elementwise/functions.hpp>

/// Overloads that reject a bounded value in place of an expression, with advice. Likely mistakes have overloads of
/// their own, because compilers report two more lines for a function that a macro defines.
namespace weft {

/// A bounded value, some of whose rows may not be real, is used like an ordinary value.
template <class... Operands>
struct some_rows_are_not_real : mistake<(is_bounded<Operands> || ...)> {};

WEFT_COLD_BEGIN
namespace detail {

template <class X>
const auto& rows_of(const X& x) {
  if constexpr (is_bounded<X>)
    return x.values;
  else
    return x;
}
/// Returns a stand-in for the result: the first operand that is a value, or its rows.
template <class First, class... Rest>
auto after_bounded(const First& first, const Rest&... rest) {
  if constexpr (Expression<std::remove_cvref_t<decltype(rows_of(first))>>) {
    using rows = std::remove_cvref_t<decltype(rows_of(first))>;
    return after_mistake<value_t<rows>, dims_t<rows>>(rows_of(first), rows_of(rest)...);
  } else {
    return after_bounded(rest...);
  }
}
template <class... X>
auto refuse_bounded(const X&... x) {
  static_assert(correct<some_rows_are_not_real<X...>>,
                "a bounded value has padding rows: compute with b.values, then with_count(y, b)");
  return after_bounded(x...);
}

}  // namespace detail

template <class A, class B>
  requires(is_bounded<A> || is_bounded<B>)
auto operator+(const A& a, const B& b) {
  static_assert(correct<some_rows_are_not_real<A, B>>, "operator+: compute with b.values, then with_count(y, b)");
  return detail::after_bounded(a, b);
}
template <class A, class B>
  requires(is_bounded<A> || is_bounded<B>)
auto operator-(const A& a, const B& b) {
  static_assert(correct<some_rows_are_not_real<A, B>>, "operator-: compute with b.values, then with_count(y, b)");
  return detail::after_bounded(a, b);
}
template <class A, class B>
  requires(is_bounded<A> || is_bounded<B>)
auto operator*(const A& a, const B& b) {
  static_assert(correct<some_rows_are_not_real<A, B>>, "operator*: compute with b.values, then with_count(y, b)");
  return detail::after_bounded(a, b);
}
template <class A, class B>
  requires(is_bounded<A> || is_bounded<B>)
auto operator/(const A& a, const B& b) {
  static_assert(correct<some_rows_are_not_real<A, B>>, "operator/: compute with b.values, then with_count(y, b)");
  return detail::after_bounded(a, b);
}
template <auto... Options, class... X>
  requires(is_bounded<X> || ...)
auto matmul(const X&... x) {
  static_assert(correct<some_rows_are_not_real<X...>>, "matmul: compute with b.values, then with_count(y, b)");
  return detail::after_bounded(x...);
}
template <auto... Options, class... X>
  requires(is_bounded<X> || ...)
auto softmax(const X&... x) {
  static_assert(correct<some_rows_are_not_real<X...>>,
                "softmax: for the softmax of each row use with_count(softmax(b.values), b)");
  return detail::after_bounded(x...);
}
template <auto... Options, class... X>
  requires(is_bounded<X> || ...)
auto softmax_cross_entropy(const X&... x) {
  static_assert(correct<some_rows_are_not_real<X...>>,
                "softmax_cross_entropy: compute with b.values, then with_count(loss, b)");
  return detail::after_bounded(x...);
}
template <auto... Options, class... X>
  requires(is_bounded<X> || ...)
auto gather(const X&... x) {
  static_assert(correct<some_rows_are_not_real<X...>>,
                "gather: indices in padding rows are 0: use gather(x, b.values)");
  return detail::after_bounded(x...);
}
template <auto... Options, class... X>
  requires(is_bounded<X> || ...)
auto sort(const X&... x) {
  static_assert(correct<some_rows_are_not_real<X...>>,
                "sort: use b.values, whose padding rows are 0 and sorted with the others");
  return detail::after_bounded(x...);
}
template <auto... Options, class... X>
  requires(is_bounded<X> || ...)
auto argsort(const X&... x) {
  static_assert(correct<some_rows_are_not_real<X...>>,
                "argsort: use b.values, whose padding rows are 0 and sorted with the others");
  return detail::after_bounded(x...);
}
template <auto... Options, class... X>
  requires(is_bounded<X> || ...)
auto top_k(const X&... x) {
  static_assert(correct<some_rows_are_not_real<X...>>,
                "top_k: use b.values, whose padding rows are 0 and ranked with the others");
  return std::tuple{detail::after_bounded(x...), detail::after_bounded(x...)};
}
template <auto... Options, class... X>
  requires(is_bounded<X> || ...)
auto unique(const X&... x) {
  static_assert(correct<some_rows_are_not_real<X...>>, "unique: use b.values, whose padding rows add a 0");
  return std::tuple{detail::after_bounded(x...), detail::after_bounded(x...)};
}
template <auto... Options, class... X>
  requires(is_bounded<X> || ...)
auto let(const X&... x) {
  static_assert(correct<some_rows_are_not_real<X...>>, "let: use let(b.values)");
  return detail::after_bounded(x...);
}
template <class To, class Values, class Dims>
auto cast(const bounded<Values, Dims>& b) {
  static_assert(correct<some_rows_are_not_real<bounded<Values, Dims>>>, "cast: use with_count(cast<T>(b.values), b)");
  return b.values;
}
template <class To, class Values, class Dims>
auto reshape(const bounded<Values, Dims>& b) {
  static_assert(correct<some_rows_are_not_real<bounded<Values, Dims>>>,
                "reshape: use with_count(reshape<dims<...>>(b.values), b)");
  return b.values;
}
template <class Values, class Dims, class... Xs>
auto gradients(const bounded<Values, Dims>&, const Xs&... xs) {
  static_assert(correct<some_rows_are_not_real<bounded<Values, Dims>>>,
                "gradients: use the gradients of sum(b) or mean(b)");
  return std::tuple{xs...};
}

#define WEFT_COMPARISONS(row) row(<) row(<=) row(>) row(>=) row(==) row(!=)
#define WEFT_COMPARISON_OF_BOUNDED(sign)       \
  template <class A, class B>                  \
    requires(is_bounded<A> || is_bounded<B>)   \
  auto operator sign(const A& a, const B& b) { \
    return detail::refuse_bounded(a, b);       \
  }
WEFT_COMPARISONS(WEFT_COMPARISON_OF_BOUNDED)
#undef WEFT_COMPARISON_OF_BOUNDED
#undef WEFT_COMPARISONS

#define WEFT_FUNCTIONS_OF_ROWS(row)                                                                            \
  row(select, 3) row(log_softmax, 1) row(cumsum, 1) row(concat, 2) row(slice, 1) row(pad, 1) row(transpose, 1) \
      row(one_hot, 1) row(conv2d, 2) row(dropout, 2) row(shuffle, 1) row(stop_gradient, 1)
#define WEFT_OF_BOUNDED(name, operands)  \
  template <auto... Options, class... X> \
    requires(is_bounded<X> || ...)       \
  auto name(const X&... x) {             \
    return detail::refuse_bounded(x...); \
  }
WEFT_FORMULAS(WEFT_NO_ROW, WEFT_OF_BOUNDED, WEFT_OF_BOUNDED)
WEFT_FUNCTIONS_OF_ROWS(WEFT_OF_BOUNDED)
#undef WEFT_OF_BOUNDED
#undef WEFT_FUNCTIONS_OF_ROWS

template <class Values, class Dims>
auto operator-(const bounded<Values, Dims>& b) {
  return detail::refuse_bounded(b);
}

WEFT_COLD_END
}  // namespace weft
