// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <limits>

#include <weft/ops/arrays/reshape.hpp>
#include <weft/ops/arrays/shape.hpp>
#include <weft/ops/arrays/stop_gradient.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/reduce/argmax.hpp>
#include <weft/ops/reduce/reduce.hpp>

/// Reductions composed of the reductions in ops/reduce/reduce.hpp. Not part of <weft/weft.hpp>. They take axes and
/// `keep_dims` in the same way: `all<1>(x > 0)`, `variance<0, keep_dims>(x)`; no axes means all axes.
namespace weft {

/// A vector norm: the sum of magnitudes, the root of the sum of squares, or the largest magnitude.
enum class norm_order { one, two, infinity };

/// Among the axes of variance and stddev: divides the sum of squares by n - 1 instead of n.
struct unbiased_option {};
/// See unbiased_option: `variance<0, unbiased>(x)`.
inline constexpr unbiased_option unbiased{};

/// The operation takes elements of bool.
template <class T>
struct elements_are_not_bool : mistake<!std::is_same_v<T, bool>> {};

namespace detail {

/// Calls a function template with the axes as template arguments, without `keep_dims`.
template <class F, auto... Axes>
constexpr auto with_axes(axis_list<Axes...>, const F& f) {
  return f.template operator()<Axes...>();
}

/// Returns the last option of this type, or the default.
template <class Option>
constexpr Option option_among(Option found) {
  return found;
}
template <class Option, class First, class... More>
constexpr Option option_among(Option found, First first, More... more) {
  if constexpr (std::is_same_v<First, Option>)
    return option_among(first, more...);
  else
    return option_among(found, more...);
}

/// Returns the square root, with gradient 0 at 0.
template <class X>
auto root(const X& e) {
  const auto x = materialize(e);
  return weft::select(x == 0, 0, weft::sqrt(weft::select(x == 0, 1, x)));
}

/// Returns the number of elements along the axes of `Mask`: a number or, for dynamic extents, a value of type T.
template <class T, std::uint32_t Mask, class X>
auto reduced_elements(const X& x) {
  using D = dims_t<X>;
  constexpr bool known = [] {
    for (std::size_t i = 0; i < D::rank; ++i)
      if (((Mask >> i) & 1) && D::spec[i] < 0) return false;
    return true;
  }();
  if constexpr (known || !X::symbolic) {
    double n = 1;
    for (std::size_t i = 0; i < D::rank; ++i)
      if ((Mask >> i) & 1) n *= static_cast<double>(extents_of(x)[i]);
    return n;
  } else {
    tensor<bool, dims<static_cast<int>(D::rank)>> reduced;
    for (std::size_t i = 0; i < D::rank; ++i) reduced.data()[i] = (Mask >> i) & 1;
    return cast<T>(prod(weft::select(reduced, shape_of(x), std::int64_t{1})));
  }
}

}  // namespace detail

/// Returns true if any element is true: bool of bool (tf.reduce_any). False if there are no elements.
template <auto... Axes, Expression Expr>
[[nodiscard]] auto any(const Expr& e) {
  using mistake = decltype(detail::find_reduction_mistake<Expr, elements_are_not_bool>(detail::axis_list<Axes...>{}));
  static_assert(correct<mistake>, "any: needs axes of the operand and elements of bool: any<1>(x > 0)");
  if constexpr (correct<mistake>)
    return materialize(max<Axes...>(cast<std::int32_t>(e)) > 0);  // the maximum of no elements is the smallest number
  else
    return detail::after_mistake<bool, dims_t<Expr>>(e);
}

/// Returns true if all elements are true: bool of bool (tf.reduce_all). True if there are no elements.
template <auto... Axes, Expression Expr>
[[nodiscard]] auto all(const Expr& e) {
  using mistake = decltype(detail::find_reduction_mistake<Expr, elements_are_not_bool>(detail::axis_list<Axes...>{}));
  static_assert(correct<mistake>, "all: needs axes of the operand and elements of bool: all<1>(x > 0)");
  if constexpr (correct<mistake>)
    return materialize(min<Axes...>(cast<std::int32_t>(e)) > 0);
  else
    return detail::after_mistake<bool, dims_t<Expr>>(e);
}

/// Returns the index of the smallest element along an axis, std::int32_t, or of the first one if several are equal
/// (tf.argmin). Skips NaNs and throws like argmax.
template <int Axis, Expression Expr>
[[nodiscard]] auto argmin(const Expr& e) {
  using T = value_t<Expr>;
  static_assert(correct<axis_out_of_range<dims_t<Expr>, Axis>>, "argmin: the axis is out of range");
  if constexpr (!correct<axis_out_of_range<dims_t<Expr>, Axis>>)
    return detail::after_mistake<std::int32_t, dims_t<Expr>>(e);
  else if constexpr (std::is_same_v<T, bool>)
    return argmax<Axis>(!e);
  else if constexpr (std::is_integral_v<T>)
    return argmax<Axis>(static_cast<T>(-1) - e);  // reverses the order of all integers without overflow
  else if constexpr (std::is_floating_point_v<T>)
    return argmax<Axis>(-e);
  else
    return argmax<Axis>(-cast<float>(e));
}

/// Returns log(sum(exp(x))) without overflow, float or double (tf.reduce_logsumexp). If all elements are -inf, the
/// result is -inf and the gradient NaN, as in TensorFlow and PyTorch.
template <auto... Axes, Expression Expr>
[[nodiscard]] auto logsumexp(const Expr& e) {
  using D = dims_t<Expr>;
  using T = value_t<Expr>;
  using mistake = decltype(detail::find_reduction_mistake<Expr, not_floating>(detail::axis_list<Axes...>{}));
  static_assert(correct<mistake>, "logsumexp: needs axes of the operand and elements of float or double");
  if constexpr (correct<mistake>) {
    return detail::with_axes(detail::axes_beside<keep_dims_option, Axes...>{}, [&]<auto... Reduced>() {
      const auto x = materialize(e);
      const auto largest = max<Reduced..., keep_dims>(x);
      // x - inf would be NaN.
      const auto shift = stop_gradient(select(abs(largest) <= std::numeric_limits<T>::max(), largest, T(0)));
      const auto y = materialize(log(sum<Reduced..., keep_dims>(exp(x - shift))) + shift);
      if constexpr (detail::keeps_dims<Axes...>)
        return y;
      else
        return detail::without<detail::reduced_axes<D, static_cast<int>(Reduced)...>()>(y);
    });
  } else {
    return detail::same_after_mistake(e);
  }
}

/// Returns the norm of vectors, float or double (tf.norm). The default is the Euclidean norm; an order among the axes
/// selects another one, `norm<1, norm_order::one>(x)`. Over two axes, the Euclidean norm is the Frobenius norm. The
/// gradient at 0 is 0 (torch.linalg.vector_norm; TensorFlow's is NaN), and equal largest magnitudes share the gradient.
template <auto... Axes, Expression Expr>
[[nodiscard]] auto norm(const Expr& e) {
  using mistake =
      decltype(detail::find_reduction_mistake<Expr, not_floating>(detail::axes_beside<norm_order, Axes...>{}));
  static_assert(correct<mistake>, "norm: needs axes of the operand and elements of float or double: norm<1>(x)");
  if constexpr (correct<mistake>) {
    constexpr norm_order order = detail::option_among(norm_order::two, Axes...);
    return detail::with_axes(detail::axes_beside<norm_order, Axes...>{}, [&]<auto... Reduced>() {
      if constexpr (order == norm_order::one)
        return sum<Reduced...>(abs(e));
      else if constexpr (order == norm_order::infinity)
        return max<Reduced...>(abs(e));
      else
        return materialize(detail::root(sum<Reduced...>(square(e))));
    });
  } else {
    return detail::same_after_mistake(e);
  }
}

/// Returns the mean squared difference from the mean, float or double (tf.math.reduce_variance): `variance<0>(x)`. For
/// a sample, `variance<0, unbiased>(x)` (torch.var) is NaN for one element.
template <auto... Axes, Expression Expr>
[[nodiscard]] auto variance(const Expr& e) {
  using D = dims_t<Expr>;
  using T = value_t<Expr>;
  using given = detail::axes_beside<unbiased_option, Axes...>;
  using mistake = decltype(detail::find_reduction_mistake<Expr, not_floating>(given{}));
  static_assert(correct<mistake>,
                "variance: needs axes of the operand and elements of float or double: variance<0, unbiased>(x)");
  if constexpr (correct<mistake>) {
    const auto x = materialize(e);
    using axes = decltype(detail::without_option<keep_dims_option>(detail::axis_list<>{}, given{}));
    const auto centred = detail::with_axes(axes{}, [&]<auto... A>() { return x - mean<A..., keep_dims>(x); });
    return detail::with_axes(given{}, [&]<auto... A>() {
      if constexpr (detail::has_option<unbiased_option, Axes...>) {
        constexpr std::uint32_t mask = detail::with_axes(
            axes{}, []<auto... Reduced>() { return detail::reduced_axes<D, static_cast<int>(Reduced)...>(); });
        return materialize(sum<A...>(square(centred)) / (detail::reduced_elements<T, mask>(x) - 1));
      } else {
        return mean<A...>(square(centred));
      }
    });
  } else {
    return detail::same_after_mistake(e);
  }
}

/// Returns the root of the variance (tf.math.reduce_std, torch.std). The gradient is 0 if the variance is 0, as in
/// PyTorch.
template <auto... Axes, Expression Expr>
[[nodiscard]] auto stddev(const Expr& e) {
  using mistake =
      decltype(detail::find_reduction_mistake<Expr, not_floating>(detail::axes_beside<unbiased_option, Axes...>{}));
  static_assert(correct<mistake>,
                "stddev: needs axes of the operand and elements of float or double: stddev<0, unbiased>(x)");
  if constexpr (correct<mistake>)
    return materialize(detail::root(variance<Axes...>(e)));
  else
    return detail::same_after_mistake(e);
}

/// Returns the number of elements that are not 0, std::int64_t (tf.math.count_nonzero, torch.count_nonzero). For all
/// types; NaN is not 0.
template <auto... Axes, Expression Expr>
[[nodiscard]] auto count_nonzero(const Expr& e) {
  if constexpr (std::is_same_v<value_t<Expr>, bool>)
    return sum<Axes...>(cast<std::int64_t>(e));
  else
    return sum<Axes...>(cast<std::int64_t>(e != static_cast<value_t<Expr>>(0)));
}

/// Returns the sum of the elements that are not NaN, float or double (torch.nansum).
template <auto... Axes, Expression Expr>
[[nodiscard]] auto nansum(const Expr& e) {
  using mistake = mean_mistake<Expr, Axes...>;
  static_assert(correct<mistake>, "nansum: needs axes of the operand and elements of float or double: cast<float>(x)");
  if constexpr (correct<mistake>) {
    const auto x = materialize(e);
    return sum<Axes...>(select(x == x, x, 0));
  } else {
    return detail::same_after_mistake(e);
  }
}

/// Returns the mean of the elements that are not NaN, float or double (torch.nanmean); NaN if there are none.
template <auto... Axes, Expression Expr>
[[nodiscard]] auto nanmean(const Expr& e) {
  using T = value_t<Expr>;
  using mistake = mean_mistake<Expr, Axes...>;
  static_assert(correct<mistake>, "nanmean: needs axes of the operand and elements of float or double: cast<float>(x)");
  if constexpr (correct<mistake>) {
    const auto x = materialize(e);
    return materialize(nansum<Axes...>(x) / sum<Axes...>(cast<T>(x == x)));
  } else {
    return detail::same_after_mistake(e);
  }
}

WEFT_OTHER_CALLS(any);        // axes are template arguments: any<1>(x > 0), any<1, keep_dims>(x > 0)
WEFT_OTHER_CALLS(all);        // axes are template arguments: all<1>(x > 0), all<1, keep_dims>(x > 0)
WEFT_OTHER_CALLS(argmin);     // the axis is a template argument: argmin<1>(x), argmin<-1>(x) for the last
WEFT_OTHER_CALLS(logsumexp);  // axes are template arguments: logsumexp<1>(x), logsumexp<1, keep_dims>(x)
WEFT_OTHER_CALLS(norm);       // axes and the order are template arguments: norm<1>(x), norm<1, norm_order::one>(x)
WEFT_OTHER_CALLS(variance);   // axes and options are template arguments: variance<0>(x), variance<0, unbiased>(x)
WEFT_OTHER_CALLS(stddev);     // axes and options are template arguments: stddev<0>(x), stddev<0, unbiased>(x)

}  // namespace weft
