// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/check.hpp>
#include <weft/ops/cpu/sort.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/lowering.hpp>
#include <weft/ops/reduce/argmax.hpp>

/// Sorting. Not part of <weft/weft.hpp>, since for GPUs it includes CUB, which adds seconds to the compile time of
/// nvcc.
///
/// All sorts are stable: of equal elements, the one with the lower index comes first, in both directions. A NaN is
/// larger than every number, and all NaNs are equal; -0 equals 0. CPUs and GPUs yield the same bits.
namespace weft {
namespace detail {

WEFT_COLD_BEGIN

/// Throws invalid_argument if the axis has fewer elements than the output, in addition to the errors of check_indices.
inline void check_sort(const prepare_context& p, std::size_t axis) {
  const std::int64_t extent = p.inputs[0].extents[axis], first = p.outputs[0].extents[axis];
  if (first > extent)
    throw error(
        error_code::invalid_argument, "top_k",
        {"k must be at most ", extent, ", the last extent of ", to_string(p.inputs[0].extents), "; it is ", first});
  check_indices(p, axis);
}

}  // namespace detail

/// Inputs: x, and for each element of the output, the index along the axis of its source in x.
template <class T>
struct gather_along_op {
  static constexpr const char* name = "gather_along";
  static constexpr const char* onnx = "GatherElements<axis=$0>(a, b)";
  using attributes = axis_attribute;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::along_kernel<T, false>(p, a.axis);
  }
  static void gradient(gradient_context&, const attributes&);
};
/// The transpose of gather_along: moves elements to the given indices; all others are 0.
template <class T>
struct scatter_along_op {
  static constexpr const char* name = "scatter_along";
  using attributes = axis_attribute;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::along_kernel<T, true>(p, a.axis);
  }
  static void gradient(gradient_context&, const attributes&);
};

template <class T>
void gather_along_op<T>::gradient(gradient_context& g, const attributes& a) {
  if (g.needs_gradient(0))
    g.set_gradient(0, record<scatter_along_op<T>>({g.upstream(), g.input(1)}, g.input(0).info(), a));
}
template <class T>
void scatter_along_op<T>::gradient(gradient_context& g, const attributes& a) {
  if (g.needs_gradient(0))
    g.set_gradient(0, record<gather_along_op<T>>({g.upstream(), g.input(1)}, g.input(0).info(), a));
}

/// Outputs: the first elements in order, and their indices along the axis.
template <class T>
struct sort_op {
  static constexpr const char* name = "sort";
  static constexpr const char* onnx = "sort()";
  struct attributes {
    attribute<std::size_t> axis;
    attribute<direction> order;
  };

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    detail::check_sort(p, a.axis);
    return new detail::sort_kernel<T>(p, a.axis, a.order);
  }
  /// The gradient of a value goes to the value's source; elements that are not among the values get 0.
  static void gradient(gradient_context& g, const attributes& a) {
    if (g.has_upstream(0))
      g.set_gradient(0, record<scatter_along_op<T>>({g.upstream(0), g.output(1)}, g.input(0).info(), {a.axis}));
  }
};

WEFT_COLD_END

/// Elements in order, and their indices along the axis, std::int32_t.
template <class Values, class Indices>
struct ordered {
  Values values;
  Indices indices;
};

namespace detail {
constexpr bool last_axis_has(const shape& s, std::int64_t k) {
  return k >= 0 && (s.rank == 0 || s[s.rank - 1] < 0 || k <= s[s.rank - 1]);
}
}  // namespace detail

/// k must be between 0 and the extent of the last axis.
template <class Dims, int K>
struct last_axis_is_shorter : mistake<!detail::last_axis_has(Dims::spec, K)> {};

/// The first mistake in the operand of a sort, if any.
template <class Expr, int Axis>
using sort_mistake = std::conditional_t<axis_out_of_range<dims_t<Expr>, Axis>::value,
                                        axis_out_of_range<dims_t<Expr>, Axis>, elements_not_numeric<value_t<Expr>>>;

namespace detail {

template <class To, class Expr>
auto sorted(const Expr& e, std::size_t axis, std::int64_t first, direction d) {
  using T = value_t<Expr>;
  const auto x = materialize(e);
  shape extents = extents_of(x);
  if (first >= 0) extents[axis] = first;
  auto [values, indices] = call_operation<sort_op<T>>(
      std::tuple{typed_result<T, To>{extents}, typed_result<std::int32_t, To>{extents}}, {axis, d}, x);
  return ordered<decltype(values), decltype(indices)>{values, indices};
}

template <class Expr>
auto nothing_sorted(const Expr& e) {
  auto values = after_mistake<value_t<Expr>, dims_t<Expr>>(e);
  auto indices = after_mistake<std::int32_t, dims_t<Expr>>(e);
  return ordered<decltype(values), decltype(indices)>{values, indices};
}

template <int Axis, class Expr>
auto sorted_along(const Expr& e, direction d) {
  if constexpr (sort_mistake<Expr, Axis>::value)
    return nothing_sorted(e);
  else
    return sorted<dims_t<Expr>>(e, static_cast<std::size_t>(__builtin_ctz(axis_mask<Axis>(dims_t<Expr>::rank))), -1, d);
}

}  // namespace detail

/// Returns the elements in order along an axis (tf.sort): `sort(x)`, `sort<0>(x, direction::descending)`. The gradient
/// of an element goes to its source.
template <int Axis = -1, Expression Expr>
[[nodiscard]] auto sort(const Expr& e, direction d = direction::ascending) {
  static_assert(correct<sort_mistake<Expr, Axis>>, "sort: needs a valid axis and numeric elements");
  return detail::sorted_along<Axis>(e, d).values;
}

/// Returns the indices that sort the elements along an axis, std::int32_t (tf.argsort).
template <int Axis = -1, Expression Expr>
[[nodiscard]] auto argsort(const Expr& e, direction d = direction::ascending) {
  static_assert(correct<sort_mistake<Expr, Axis>>, "argsort: needs a valid axis and numeric elements");
  return detail::sorted_along<Axis>(e, d).indices;
}

/// Returns the K largest elements of the last axis, largest first, and their indices (tf.math.top_k): `auto [values,
/// indices] = top_k<5>(x)`. Throws invalid_argument if a run-time extent is shorter: at once for tensors, in the step
/// for a graph.
template <int K, Expression Expr>
[[nodiscard]] auto top_k(const Expr& e) {
  using D = dims_t<Expr>;
  static_assert(correct<sort_mistake<Expr, -1>>, "top_k: needs rank 1 or more, and numeric elements");
  static_assert(correct<last_axis_is_shorter<D, K>>, "top_k: k must be between 0 and the extent of the last axis");
  if constexpr (sort_mistake<Expr, -1>::value || last_axis_is_shorter<D, K>::value) {
    return detail::nothing_sorted(e);
  } else {
    using To = with_extent<D, D::rank - 1, K>;
    return detail::sorted<To>(e, D::rank - 1, K, direction::descending);
  }
}

WEFT_OTHER_CALLS(top_k);    // works along the last axis; k is a template argument: top_k<5>(x)
WEFT_OTHER_CALLS(sort);     // axes are template arguments, directions not: sort<1>(x, direction::descending)
WEFT_OTHER_CALLS(argsort);  // axes are template arguments, directions not: argsort<1>(x, direction::descending)

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/sort.hpp>
#endif
