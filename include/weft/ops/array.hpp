#pragma once

#include <weft/ops/check.hpp>
#include <weft/ops/cpu/argmax.hpp>
#include <weft/ops/cpu/one_hot.hpp>
#include <weft/ops/cpu/shape.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/lowering.hpp>
#include <weft/tensor/sequence.hpp>

namespace weft {
namespace detail {

/// Throws invalid_argument if there is nothing along the axis to be the largest, and what check_indices throws.
void check_argmax(const prepare_context&, std::size_t axis);

/// Throws out_of_range if std::int32_t does not hold the numbers that elements have along the axis.
void check_indices(const prepare_context&, std::size_t axis);

}  // namespace detail

template <class T>
struct argmax_op {
  static constexpr const char* name = "argmax";
  using attributes = axis_attribute;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    detail::check_argmax(p, a.axis);
    return new detail::argmax_kernel<T>(p, a.axis);
  }
};

template <class T>
struct one_hot_op {
  static constexpr const char* name = "one_hot";
  struct attributes {
    attribute<std::size_t> depth;
  };

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::one_hot_kernel<T>(p, a.depth);
  }
};

/// The operand's extents, and their product.
struct shape_op {
  static constexpr const char* name = "shape";
  static kernel* prepare(const prepare_context& p) { return new detail::extents_kernel(p, false); }
  static constexpr operand_use use(const node_def&, std::size_t) { return operand_use::extents; }
};
struct size_op {
  static constexpr const char* name = "size";
  static kernel* prepare(const prepare_context& p) { return new detail::extents_kernel(p, true); }
  static constexpr operand_use use(const node_def&, std::size_t) { return operand_use::extents; }
};

namespace detail {

WEFT_INSTANTIATE(kernel* prepare_declared<argmax_op<float>>(const prepare_context&));

}  // namespace detail

namespace detail {

#if WEFT_BODIES

WEFT_DECL void check_indices(const prepare_context& p, std::size_t axis) {
  const std::int64_t extent = p.inputs[0].extents[axis];
  if (extent > std::int64_t{1} << 31)
    throw error(error_code::out_of_range, p.c.op->name,
                {"axis ", axis, " of ", to_string(p.inputs[0].extents),
                 " has more elements than std::int32_t can number, 2147483648: reshape it into shorter rows, and "
                 "compare what they yield"});
}

WEFT_DECL void check_argmax(const prepare_context& p, std::size_t axis) {
  check_indices(p, axis);
  if (p.inputs[0].extents[axis] == 0 && p.outputs[0].extents.elements() > 0)
    throw error(error_code::invalid_argument, "argmax",
                {"axis ", axis, " of ", to_string(p.inputs[0].extents), " is empty"});
}

#endif

constexpr bool reshapes(const shape& from, const shape& to) {
  // The dynamic extents must be the same on both sides; then the static elements must be as many.
  std::int64_t a = 1, b = 1;
  for (std::size_t i = 0; i < from.rank; ++i)
    if (from[i] >= 0) a *= from[i];
  for (std::size_t i = 0; i < to.rank; ++i)
    if (to[i] >= 0) b *= to[i];
  bool used[max_rank]{};
  std::size_t dynamic = 0;
  for (std::size_t i = 0; i < from.rank; ++i) {
    if (from[i] >= 0) continue;
    ++dynamic;
    bool found = false;
    for (std::size_t j = 0; j < to.rank && !found; ++j)
      if (!used[j] && to[j] == from[i]) found = used[j] = true;
    if (!found) return false;
  }
  for (std::size_t j = 0; j < to.rank; ++j)
    if (to[j] < 0) --dynamic;
  return a == b && dynamic == 0;
}

}  // namespace detail

/// A reshape keeps the number of elements, and every dynamic extent.
template <class From, class To>
struct reshape_changes_elements : mistake<!detail::reshapes(From::spec, To::spec)> {};

namespace detail {

template <class From, class To>
constexpr auto find_reshape_mistake() {
  if constexpr (extents_are_not_valid<To>::value)
    return extents_are_not_valid<To>{};
  else
    return reshape_changes_elements<From, To>{};
}

}  // namespace detail

/// What is wrong with a reshape, if anything is.
template <class From, class To>
using reshape_mistake = decltype(detail::find_reshape_mistake<From, To>());

/// The same elements, in row-major order, under other extents: `reshape<dims<dyn<"batch">, 784>>(x)` (tf.reshape).
template <class To, Expression Expr>
[[nodiscard]] auto reshape(const Expr& e) {
  using From = dims_t<Expr>;
  using mistake = reshape_mistake<From, To>;
  static_assert(correct<mistake>,
                "reshape: needs extents, dims<...>, of as many elements and the same dynamic extents");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<value_t<Expr>, From>(e);
  } else if constexpr (Expr::symbolic) {
    return detail::make_node<value_t<Expr>, To, device_t<Expr>>(detail::record_reshape(let(e).erased(), To::spec));
  } else {
    const auto x = eval(e);
    shape extents = To::spec;
    for (std::size_t i = 0; i < To::rank; ++i)
      for (std::size_t j = 0; j < From::rank; ++j)
        if (extents[i] < 0 && To::spec[i] == From::spec[j]) extents[i] = x.extent(j);
    return detail::make_tensor<value_t<Expr>, To, device_t<Expr>>(extents, x);
  }
}

/// Index of the largest element along an axis, std::int32_t; of equals, the first (tf.argmax). A NaN is passed over,
/// wherever it stands; where no element is larger than the lowest finite number the index is 0. Throws, over tensors at
/// once and in a graph when a step runs: invalid_argument if the axis is empty, out_of_range if it has more than 2^31
/// elements.
template <int Axis, Expression Expr>
[[nodiscard]] auto argmax(const Expr& e) {
  using D = dims_t<Expr>;
  static_assert(correct<axis_out_of_range<D, Axis>>, "argmax: there is no such axis");
  if constexpr (axis_out_of_range<D, Axis>::value) {
    return detail::after_mistake<std::int32_t, D>(e);
  } else {
    constexpr std::uint32_t mask = detail::axis_mask<Axis>(D::rank);
    using To = without_axes<D, mask>;
    if constexpr (Expr::symbolic) gpu::compile_kernels<argmax_op, value_t<Expr>>();
    const auto x = materialize(e);
    shape extents;
    for (std::size_t i = 0; i < D::rank; ++i)
      if (!((mask >> i) & 1)) extents.push_back(extents_of(x)[i]);
    return call_operation<argmax_op<value_t<Expr>>, std::int32_t, To>(extents, {axis_number<D, Axis>}, x);
  }
}

namespace detail {
// Extents by their places: of a pack of them nvcc makes a name that the host's compiler does not know, wherever the
// same dims are written down later.
template <class Dims, int Depth, class Indices>
struct append_to;
template <class Dims, int Depth, std::size_t... Index>
struct append_to<Dims, Depth, indices<Index...>> {
  using type = dims<extent_at<Dims, Index>::value..., Depth>;
};
template <class Dims, int Depth>
using append_extent = append_to<Dims, Depth, typename make_indices<Dims::rank>::type>;
}  // namespace detail

/// Rows of zeros with a one at each label, `[..., Depth]`; zeros alone where a label is out of range (tf.one_hot).
template <int Depth, class T = float, Expression Expr>
[[nodiscard]] auto one_hot(const Expr& labels) {
  using U = value_t<Expr>;
  static_assert(
      correct<element_types_differ<std::conditional_t<std::is_same_v<U, std::int64_t>, std::int32_t, U>, std::int32_t>>,
      "one_hot: labels are std::int32_t or std::int64_t");
  static_assert(std::is_floating_point_v<T>, "one_hot: the result is float or double");
  using To = typename detail::append_extent<dims_t<Expr>, Depth>::type;
  if constexpr (Expr::symbolic) gpu::compile_kernels<one_hot_op, T>();
  const auto x = materialize(labels);
  shape extents = extents_of(x);
  extents.push_back(Depth);
  return call_operation<one_hot_op<T>, T, To>(extents, {Depth}, x);
}

/// The extents as std::int64_t, `[rank]`; known when a step runs (tf.shape).
template <Expression Expr>
[[nodiscard]] auto shape_of(const Expr& e) {
  const auto x = materialize(e);
  constexpr int rank = static_cast<int>(dims_t<Expr>::rank);
  return call_operation<shape_op, std::int64_t, dims<rank>>(shape(rank), {}, x);
}

/// The number of elements, std::int64_t (tf.size).
template <Expression Expr>
[[nodiscard]] auto size(const Expr& e) {
  const auto x = materialize(e);
  return call_operation<size_op, std::int64_t, dims<>>(shape(), {}, x);
}

/// The number of axes, known to the compiler (tf.rank).
template <Expression Expr>
constexpr std::size_t rank(const Expr&) {
  return dims_t<Expr>::rank;
}

/// The operand, through which no gradient passes (tf.stop_gradient).
template <Expression Expr>
[[nodiscard]] auto stop_gradient(const Expr& e) {
  if constexpr (Expr::symbolic) {
    const symbol x = let(e).erased();
    return detail::node_of<Expr>(record<stop_gradient_op>({x}, x.info()));
  } else {
    return eval(e);
  }
}

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/array.hpp>
#endif
