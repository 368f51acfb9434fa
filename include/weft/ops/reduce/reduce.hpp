// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/check.hpp>
#include <weft/ops/cpu/reduce.hpp>
#include <weft/ops/lowering.hpp>

namespace weft {

/// Among the axes of a reduction: keeps the reduced axes with extent 1, so that the result broadcasts against the
/// operand (keepdims): `x - mean<-1, keep_dims>(x)`.
struct keep_dims_option {};
/// See keep_dims_option.
inline constexpr keep_dims_option keep_dims{};

/// Returns the sum over the given axes, or over all axes (tf.reduce_sum): `sum<1>(x)` of `[n, 3, k]` is `[n, k]`, and
/// `sum<1, keep_dims>(x)` is `[n, 1, k]`; all reductions take `keep_dims`. Fuses the expression. The result has the
/// element type of the operand, as in TensorFlow, so cast small integers first, before their sum wraps around.
template <auto... Axes, Expression Expr, class... More>
[[nodiscard]] auto sum(const Expr& e, const More&...);

/// Returns the arithmetic mean over the given axes, or over all axes (tf.reduce_mean).
template <auto... Axes, Expression Expr, class... More>
[[nodiscard]] auto mean(const Expr& e, const More&...);

/// Returns the product over the given axes, or over all axes (tf.reduce_prod). The first gradient is the product of the
/// other elements, as in TensorFlow. It does not divide, so it is correct if elements are 0 or infinite, or if the
/// whole product overflows. Second gradients divide by the nonzero elements, and are correct for any number of zeros;
/// third gradients are correct for at most two zeros.
template <auto... Axes, Expression Expr, class... More>
[[nodiscard]] auto prod(const Expr& e, const More&...);

/// Returns the largest element over the given axes, or over all axes (tf.reduce_max). Equal maxima share the gradient.
template <auto... Axes, Expression Expr, class... More>
[[nodiscard]] auto max(const Expr& e, const More&...);

/// Returns the smallest element over the given axes, or over all axes (tf.reduce_min).
template <auto... Axes, Expression Expr, class... More>
[[nodiscard]] auto min(const Expr& e, const More&...);

/// The reduction is not defined for this element type.
template <class T>
struct reduction_undefined_for : mistake<!std::is_arithmetic_v<T> || std::is_same_v<T, bool>> {};

/// Axes must be template arguments.
template <class... Arguments>
struct axis_is_not_a_template_argument : mistake<(sizeof...(Arguments) > 0)> {};

/// An axis must be an integer.
template <auto... Axes>
struct axes_are_not_integers : mistake<!(std::is_integral_v<decltype(Axes)> && ...)> {};

namespace detail {

template <auto... Axes>
struct axis_list {};

template <class Option, auto... Axes>
inline constexpr bool has_option = (std::is_same_v<std::remove_cvref_t<decltype(Axes)>, Option> || ...);
template <auto... Axes>
inline constexpr bool keeps_dims = has_option<keep_dims_option, Axes...>;

/// The axes without options of this type.
template <class Option, auto... Done>
constexpr axis_list<Done...> without_option(axis_list<Done...>, axis_list<>) {
  return {};
}
template <class Option, auto... Done, auto First, auto... Rest>
constexpr auto without_option(axis_list<Done...>, axis_list<First, Rest...>) {
  if constexpr (has_option<Option, First>)
    return without_option<Option>(axis_list<Done...>{}, axis_list<Rest...>{});
  else
    return without_option<Option>(axis_list<Done..., First>{}, axis_list<Rest...>{});
}
template <class Option, auto... Axes>
using axes_beside = decltype(without_option<Option>(axis_list<>{}, axis_list<Axes...>{}));

template <class Expr, template <class> class Undefined, auto... Axes>
constexpr auto find_reduction_mistake(axis_list<Axes...>) {
  if constexpr (keeps_dims<Axes...>)
    return find_reduction_mistake<Expr, Undefined>(axes_beside<keep_dims_option, Axes...>{});
  else if constexpr (axes_are_not_integers<Axes...>::value)
    return axes_are_not_integers<Axes...>{};
  else
    return first_mistake<axis_out_of_range<dims_t<Expr>, static_cast<int>(Axes)...>, Undefined<value_t<Expr>>>{};
}

}  // namespace detail

/// The first mistake in a reduction, if any.
template <class Expr, auto... Axes>
using reduction_mistake =
    decltype(detail::find_reduction_mistake<Expr, reduction_undefined_for>(detail::axis_list<Axes...>{}));
template <class Expr, auto... Axes>
using mean_mistake = decltype(detail::find_reduction_mistake<Expr, not_floating>(detail::axis_list<Axes...>{}));

namespace detail {

template <class Dims, int... Axes>
constexpr std::uint32_t reduced_axes() {
  if constexpr (sizeof...(Axes) > 0)
    return axis_mask<Axes...>(Dims::rank);
  else
    return (std::uint32_t{1} << Dims::rank) - 1;
}

/// The axes of a reduced value, and axes of extent 1 in place of the reduced ones.
template <std::uint32_t Mask>
struct axes_restored {
  static constexpr std::size_t axis(std::size_t i) {
    return (Mask >> i) & 1 ? max_rank : i - static_cast<std::size_t>(__builtin_popcount(Mask & ((1u << i) - 1)));
  }
};
/// Returns a reduced value with the reduced axes of `Mask`, of the operand's `Dims`, restored as axes of extent 1.
template <class Dims, std::uint32_t Mask, class X>
auto with_reduced_axes(const X& x) {
  return under_axes<axes_restored<Mask>, Dims::rank>(x);
}

template <device::reduce_op How, bool Mean, class Expr, auto... Axes>
auto reduce_and_keep(const Expr& e, axis_list<Axes...>);

template <device::reduce_op How, bool Mean, auto... Axes, class Expr, class Compiler = gpu::this_compiler>
auto reduce(const Expr& e) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  if constexpr (!correct<reduction_mistake<Expr, Axes...>>) {
    return after_mistake<T, D>(e);
  } else if constexpr (keeps_dims<Axes...>) {
    return reduce_and_keep<How, Mean>(e, axes_beside<keep_dims_option, Axes...>{});
  } else {
    constexpr std::uint32_t axes = reduced_axes<D, Axes...>();
    using result_dims = without_axes<D, axes>;
    using S = skeleton_of<Expr>;
    if constexpr (Expr::symbolic) {
      gpu::compiled<Compiler>::template reduction<S, How>();
      const symbol result = record_expression<Compiler>(
          e, operation_of<detail::reduction_op>, &reduced<S, How, is_differentiable<T>>, dtype_of<T>, result_dims::spec,
          attribute_words(detail::reduction_op::attributes{axes, How, Mean}));
      if constexpr (How == device::reduce_op::product && is_differentiable<T>)
        gpu::compile_kernels<exclusive_product_op, T, Compiler>();
      if constexpr (How != device::reduce_op::sum) use_primitives<T, Compiler>(*result.builder());
      return make_node<T, result_dims, device_t<Expr>>(result);
    } else {
      return eager_reduce<T, result_dims, device_t<Expr>, S, How>(e, axes, Mean);
    }
  }
}

template <device::reduce_op How, bool Mean, class Expr, auto... Axes>
auto reduce_and_keep(const Expr& e, axis_list<Axes...>) {
  return with_reduced_axes<dims_t<Expr>, reduced_axes<dims_t<Expr>, Axes...>()>(reduce<How, Mean, Axes...>(e));
}

}  // namespace detail

template <auto... Axes, Expression Expr, class... More>
auto sum(const Expr& e, const More&...) {
  static_assert(correct<axis_is_not_a_template_argument<More...>>,
                "sum: axes are template arguments: sum<1>(x), sum<1, keep_dims>(x)");
  static_assert(correct<reduction_mistake<Expr, Axes...>>,
                "sum: needs axes of the operand and numeric elements: cast<float>(x)");
  return detail::reduce<device::reduce_op::sum, false, Axes...>(e);
}

template <auto... Axes, Expression Expr, class... More>
auto mean(const Expr& e, const More&...) {
  static_assert(correct<axis_is_not_a_template_argument<More...>>,
                "mean: axes are template arguments: mean<1>(x), mean<1, keep_dims>(x)");
  static_assert(correct<mean_mistake<Expr, Axes...>>,
                "mean: needs axes of the operand and elements of float or double: cast<float>(x)");
  return detail::reduce<device::reduce_op::sum, true, Axes...>(e);
}

template <auto... Axes, Expression Expr, class... More>
auto prod(const Expr& e, const More&...) {
  static_assert(correct<axis_is_not_a_template_argument<More...>>,
                "prod: axes are template arguments: prod<1>(x), prod<1, keep_dims>(x)");
  static_assert(correct<reduction_mistake<Expr, Axes...>>,
                "prod: needs axes of the operand and numeric elements: cast<float>(x)");
  return detail::reduce<device::reduce_op::product, false, Axes...>(e);
}

template <auto... Axes, Expression Expr, class... More>
auto max(const Expr& e, const More&...) {
  static_assert(correct<axis_is_not_a_template_argument<More...>>,
                "max: axes are template arguments: max<1>(x); maximum(x, y) is the larger of two");
  static_assert(correct<reduction_mistake<Expr, Axes...>>,
                "max: needs axes of the operand and numeric elements: cast<float>(x)");
  return detail::reduce<device::reduce_op::maximum, false, Axes...>(e);
}

template <auto... Axes, Expression Expr, class... More>
auto min(const Expr& e, const More&...) {
  static_assert(correct<axis_is_not_a_template_argument<More...>>,
                "min: axes are template arguments: min<1>(x); minimum(x, y) is the smaller of two");
  static_assert(correct<reduction_mistake<Expr, Axes...>>,
                "min: needs axes of the operand and numeric elements: cast<float>(x)");
  return detail::reduce<device::reduce_op::minimum, false, Axes...>(e);
}

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/exclusive_product.hpp>
#endif
