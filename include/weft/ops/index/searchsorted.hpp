// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/check.hpp>
#include <weft/ops/cpu/searchsorted.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/lowering.hpp>

/// Search in sorted values. Not part of <weft/weft.hpp>.
namespace weft {

/// The place of a value among equal ones: in front of them, or behind them.
enum class side : unsigned char { left, right };

/// The values must have the leading extents of the sorted values, or these must have one axis.
template <class Sorted, class Values>
struct sorted_rows_differ
    : mistake<(Sorted::rank != 1 && (Sorted::rank == 0 || Sorted::rank != Values::rank ||
                                     !detail::same_extents(Sorted::spec, Values::spec, Sorted::rank - 1)))> {};

/// Inputs: sorted rows, and values. Output: places, std::int32_t.
template <class T>
struct searchsorted_op {
  static constexpr const char* name = "searchsorted";
  static constexpr const char* onnx = "searchsorted()";
  struct attributes {
    attribute<bool> right;
  };
  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::searchsorted_kernel<T>(p, a.right);
  }
};

/// Returns for each value the place at which it would be inserted in the sorted values of the last axis, std::int32_t
/// (tf.searchsorted, torch.searchsorted): for sorted `[..., n]` and values `[..., m]` of equal leading extents, `[...,
/// m]`. In one sorted list `[n]`, values may have any extents. The order is that of `sort`: NaN is larger than every
/// number. If the values are not sorted, the results are arbitrary places. There is no gradient.
template <Expression Sorted, Expression Values>
[[nodiscard]] auto searchsorted(const Sorted& sorted, const Values& values, side s = side::left) {
  using T = value_t<Sorted>;
  using mistake = first_mistake<sorted_rows_differ<dims_t<Sorted>, dims_t<Values>>,
                                element_types_differ<T, value_t<Values>>, elements_not_numeric<T>>;
  static_assert(correct<mistake>,
                "searchsorted(sorted, values): needs numbers of one type; sorted is [n], or has the leading extents of "
                "the values");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<std::int32_t, dims_t<Values>>(sorted, values);
  } else {
    const auto in = materialize(sorted);
    const auto x = materialize(values);
    return call_operation<searchsorted_op<T>, std::int32_t, dims_t<Values>>(extents_of(x), {s == side::right}, in, x);
  }
}

/// Returns the bucket of each value, std::int32_t: the number of boundaries `[n]` that are less than the value or, with
/// `side::right`, not greater. torch.bucketize has side::left by default; tf.raw_ops.Bucketize and
/// tf.keras.layers.Discretization have side::right.
template <Expression Expr, Expression Boundaries>
[[nodiscard]] auto bucketize(const Expr& values, const Boundaries& boundaries, side s = side::left) {
  using mistake = sorted_rows_differ<std::conditional_t<dims_t<Boundaries>::rank == 1, dims<1>, dims<>>, dims<1>>;
  static_assert(correct<mistake>, "bucketize(x, boundaries): the boundaries must have one axis");
  if constexpr (correct<mistake>)
    return searchsorted(boundaries, values, s);
  else
    return detail::after_mistake<std::int32_t, dims_t<Expr>>(values, boundaries);
}

WEFT_OTHER_CALLS(searchsorted);  // takes tensors or nodes and a side: searchsorted(sorted, values, side::right)
WEFT_OTHER_CALLS(bucketize);     // takes tensors or nodes and a side: bucketize(x, boundaries, side::right)

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/searchsorted.hpp>
#endif
