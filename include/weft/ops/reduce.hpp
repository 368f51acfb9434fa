#pragma once

#include <weft/ops/check.hpp>
#include <weft/ops/enter.hpp>

namespace weft {

/// The reduction has no meaning for this element type.
template <class T>
struct reduction_undefined_for : mistake<!std::is_arithmetic_v<T> || std::is_same_v<T, bool>> {};

/// What is wrong with a reduction, if anything is.
template <class E, int... Axes>
using reduction_mistake =
    std::conditional_t<axis_out_of_range<dims_t<E>, Axes...>::value, axis_out_of_range<dims_t<E>, Axes...>,
                       reduction_undefined_for<value_t<E>>>;

namespace detail {

template <class Dims, int... Axes>
constexpr std::uint32_t reduced_axes() {
  if constexpr (sizeof...(Axes) > 0)
    return axis_mask<Axes...>(Dims::rank);
  else
    return (std::uint32_t{1} << Dims::rank) - 1;
}

template <class T, class D, class Dev, class S, device::combine How, class E>
tensor<T, D, Dev> reduce_now(const E& e, std::int64_t axes, bool mean) {
  std::uint64_t literals[device::max_operands], *end = literals;
  collect_buffers leaves;
  for_each_leaf(e, end, leaves);
  const shape space = broadcast_space(leaves.infos, leaves.count);
  device::operand in[device::max_operands];
  for (std::size_t k = 0; k < leaves.count; ++k)
    in[k] = device::broadcast_operand(leaves.infos[k].type, leaves.infos[k].extents, space);
  bool kept[max_rank];
  kept_axes(axes, space.rank, kept);
  shape extents;
  for (std::size_t i = 0; i < space.rank; ++i)
    if (kept[i]) extents.push_back(space[i]);
  tensor<T, D, Dev> result(extents, typename tensor<T, D, Dev>::uninitialized{});
  T* data = result.data();
  void* to = data;
  device::detail::fill_identity<T>(How, data, result.elements());
  const auto out = device::reduced_operand(dtype_of<T>, space, kept);
  const auto how = How;
  const auto& r = reduced<S, How, false>;
  device::loop(space, leaves.count, in, 1, &out, &how, &r.arithmetic, version(r.body->map), version(r.reduce))
      .run(leaves.pointers, &to, literals);
  if (mean)
    device::detail::scale<T>(static_cast<double>(result.elements()) / static_cast<double>(space.elements()), data, data,
                             result.elements());
  return result;
}

template <device::combine How, bool Mean, int... Axes, class E>
auto reduce(const E& e) {
  using T = value_t<E>;
  using D = dims_t<E>;
  if constexpr (!correct<reduction_mistake<E, Axes...>>) {
    return after_mistake<T, D>(e);
  } else {
    constexpr std::uint32_t axes = reduced_axes<D, Axes...>();
    using result_dims = without_axes<D, axes>;
    using S = skeleton_of<E>;
    if constexpr (E::symbolic)
      return node<T, result_dims, device_t<E>>(
          record_expression(e, reduction_operation, &reduced<S, How, is_differentiable<T>>,
                            {dtype_of<T>, result_dims::spec}, {axes, static_cast<std::int64_t>(How), Mean}));
    else
      return reduce_now<T, result_dims, device_t<E>, S, How>(e, axes, Mean);
  }
}

}  // namespace detail

/// Sum over the given axes, or over all (tf.reduce_sum). Fuses the expression that it sums.
template <int... Axes, Expression E>
[[nodiscard]] auto sum(const E& e) {
  static_assert(correct<reduction_mistake<E, Axes...>>, "sum: no such axis, or an element type without sum");
  return detail::reduce<device::combine::sum, false, Axes...>(e);
}

template <class E, int... Axes>
using mean_mistake = std::conditional_t<axis_out_of_range<dims_t<E>, Axes...>::value,
                                        axis_out_of_range<dims_t<E>, Axes...>, not_floating<value_t<E>>>;

/// Arithmetic mean over the given axes, or over all (tf.reduce_mean).
template <int... Axes, Expression E>
[[nodiscard]] auto mean(const E& e) {
  static_assert(correct<mean_mistake<E, Axes...>>,
                "mean: no such axis, or integers, whose mean is none: use cast<float>(x)");
  return detail::reduce<device::combine::sum, true, Axes...>(e);
}

/// Product over the given axes, or over all (tf.reduce_prod).
template <int... Axes, Expression E>
[[nodiscard]] auto product(const E& e) {
  static_assert(correct<reduction_mistake<E, Axes...>>, "product: no such axis, or an element type without product");
  return detail::reduce<device::combine::product, false, Axes...>(e);
}

/// Largest element over the given axes, or over all (tf.reduce_max). Equal maxima share the gradient.
template <int... Axes, Expression E>
[[nodiscard]] auto max(const E& e) {
  static_assert(correct<reduction_mistake<E, Axes...>>, "max: no such axis, or an element type without max");
  return detail::reduce<device::combine::maximum, false, Axes...>(e);
}

/// Smallest element over the given axes, or over all (tf.reduce_min).
template <int... Axes, Expression E>
[[nodiscard]] auto min(const E& e) {
  static_assert(correct<reduction_mistake<E, Axes...>>, "min: no such axis, or an element type without min");
  return detail::reduce<device::combine::minimum, false, Axes...>(e);
}

}  // namespace weft
