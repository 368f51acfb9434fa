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

inline shape without_reduced(const shape& space, std::int64_t reduced) {
  shape extents;
  for (std::size_t i = 0; i < space.rank; ++i)
    if (!((reduced >> i) & 1)) extents.push_back(space[i]);
  return extents;
}

inline void reduce_now(const fused_reduction& r, device::combine how, std::int64_t reduced, const tensor_leaves& x,
                       const iteration_space& space, dtype type, void* to, std::size_t results) {
  const shape& extents = space.extents;
  r.arithmetic->fill_identity(how, to, results);
  const bool light = r.body->signature.light, all = reduced + 1 == std::int64_t{1} << extents.rank;
  if (space.plain && all && device::loop::is_one_call(extents.elements(), light))
    return version(r.reduce)(x.data, &to, extents.elements(), x.literals);
  bool kept[max_rank];
  kept_axes(reduced, extents.rank, kept);
  loop_over(x, light, extents, device::reduced_operand(type, extents, kept), to, results, how, r.arithmetic,
            evaluation(*r.body), version(r.reduce));
}

template <class T, class D, class Dev, class S, device::combine How, class E>
auto reduce_now(const E& e, std::int64_t reduced, bool mean) {
  const tensor_leaves leaves(e);
  const auto& r = weft::reduced<S, How, false>;
  const iteration_space space(leaves, *r.body);
  auto result = make_tensor<T, D, Dev>(without_reduced(space.extents, reduced), uninitialized{});
  const std::size_t results = result.elements();
  T* data = result.data();
  reduce_now(r, How, reduced, leaves, space, dtype_of<T>, data, results);
  if (mean)
    r.arithmetic->divide(static_cast<double>(space.extents.elements()) / static_cast<double>(results), data, data,
                         results);
  return result;
}

template <device::combine How, bool Mean, int... Axes, class E, class Compiler = gpu::this_compiler>
auto reduce(const E& e) {
  using T = value_t<E>;
  using D = dims_t<E>;
  if constexpr (!correct<reduction_mistake<E, Axes...>>) {
    return after_mistake<T, D>(e);
  } else {
    constexpr std::uint32_t axes = reduced_axes<D, Axes...>();
    using result_dims = without_axes<D, axes>;
    using S = skeleton_of<E>;
    if constexpr (E::symbolic) {
      gpu::compiled<Compiler>::template reduction<S, How>();
      const symbol result =
          record_expression<Compiler>(e, reduction_operation, &reduced<S, How, is_differentiable<T>>,
                                      {dtype_of<T>, result_dims::spec}, {axes, static_cast<std::int64_t>(How), Mean});
      if constexpr (How == device::combine::product && is_differentiable<T>)
        gpu::compile_family<gpu::exclusive_products, T, Compiler>();
      if constexpr (How != device::combine::sum) use_primitives<T, Compiler>(*result.where());
      return make_node<T, result_dims, device_t<E>>(result);
    } else {
      return reduce_now<T, result_dims, device_t<E>, S, How>(e, axes, Mean);
    }
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

/// Product over the given axes, or over all (tf.reduce_prod). Its first gradient is the product of the other elements,
/// as TensorFlow's is, and divides nothing: it is right whichever elements are 0 or infinite, and where the whole
/// product overflows. Its second gradients divide by the elements that are not 0, and are right whichever are 0; third
/// ones are so where no more than two are.
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

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/exclusive_product.hpp>
#endif
