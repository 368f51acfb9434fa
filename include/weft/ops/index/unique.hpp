// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/first_of_equals.hpp>
#include <weft/ops/cpu/unique.hpp>
#include <weft/ops/index/boolean_mask.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/ops/index/sort.hpp>

/// Distinct values. Not part of <weft/weft.hpp>.
namespace weft {

/// Implemented as boolean_mask, which selects the distinct elements.
struct unique_op : boolean_mask_op {
  static constexpr const char* name = "unique";
  static void gradient(gradient_context& g, const attributes&) {
    if (g.needs_gradient(0))
      throw error(error_code::unimplemented, name,
                  "has no gradient, as in TensorFlow: use gather(table, indices), which has one, or stop_gradient(x) "
                  "if none is intended");
  }
};

WEFT_COLD_BEGIN

/// Inputs: sorted elements, and their original indices. Outputs, in the original order: the index of the first equal
/// element, true if this is the element itself, and the number of equal elements if so.
template <class T>
struct first_appearances_op {
  static constexpr const char* name = "first_appearances";
  // n: true for the first of equal sorted elements; m: the group of each; k: the first index of each group.
  static constexpr const char* onnx =
      "p = Slice(a, [0], [-1]); q = Slice(a, [1], Shape(a)); "
      "n = Slice(Concat<axis=0>(Cast<to=9>([1]), Not(Or(Equal(p, q), Not(Or(Equal(p, p), Equal(q, q)))))), [0], "
      "Shape(a)); m = Sub(CumSum(Cast<to=7>(n), 0L), 1L); k = Compress(b, n); y = ScatterElements(b, b, Gather(k, m)); "
      "s = ScatterElements<reduction='add'>(Sub(k, k), m, Cast<to=6>(Equal(m, m))); "
      "y; Equal(y, Cast<to=6>(Range(0L, Size(a), 1L))); ScatterElements(b, b, Mul(Gather(s, m), Cast<to=6>(n)))";
  static kernel* prepare(const prepare_context& p) { return new detail::first_appearances_kernel<T>(p); }
  static bool optional(const node_def&, std::uint32_t output) { return output == 2; }
};

/// Distinct values, and for each element the index of its value among them.
template <class Values, class Indices>
struct unique_values {
  Values values;
  Indices indices;
};
/// Distinct values, the index of each element's value, and the number of elements of each value.
template <class Values, class Indices, class Counts>
struct counted_values {
  Values values;
  Indices indices;
  Counts counts;
};

/// The elements must be along one axis.
template <class Dims>
struct elements_not_along_one_axis : mistake<Dims::rank != 1> {};

/// The first mistake in the operand of unique, if any.
template <class Expr>
using unique_mistake = first_mistake<elements_not_along_one_axis<dims_t<Expr>>, elements_not_numeric<value_t<Expr>>>;

namespace detail {

template <bool Counted, class Count, class Expr>
auto find_unique(const Expr& e) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  const auto x = materialize(e);
  const shape extents = extents_of(x);
  const auto in_order = sorted<D>(x, 0, -1, direction::ascending);
  const auto [first, is_first, lengths] = call_operation<first_appearances_op<T>>(
      std::tuple{typed_result<std::int32_t, D>{extents}, typed_result<bool, D>{extents},
                 typed_result<std::int32_t, D>{extents}},
      {}, in_order.values, in_order.indices);
  const auto found = find_rows(is_first);
  auto values = take_rows<unique_op, Count, 1>(x, found);
  auto indices = gather(found.places, first);
  if constexpr (Counted) {
    auto counts = take_rows<unique_op, Count, 1>(lengths, found);
    return counted_values<decltype(values), decltype(indices), decltype(counts)>{values, indices, counts};
  } else {
    return unique_values<decltype(values), decltype(indices)>{values, indices};
  }
}

}  // namespace detail

/// Returns the distinct values of `[n]`, in the order of their first occurrence, and for each element the index of its
/// value among them, std::int32_t (tf.unique): `auto [values, indices] = unique(ids)`. In a graph, `values` is a
/// bounded value (ops/bounded.hpp) with bound n; later rows are 0, which is a valid index of a table. Over tensors, it
/// has one element for each distinct value. All NaNs are one value (in TensorFlow, each NaN is distinct); so are -0 and
/// 0, represented by whichever occurs first. There is no gradient, as in TensorFlow.
///
///     auto [ids, indices] = unique(words);
///     auto vectors = gather(gather(table, ids.values), indices);   // each row of the table is read once
template <auto Count = dyn<"count">, Expression Expr>
[[nodiscard]] auto unique(const Expr& e) {
  static_assert(correct<unique_mistake<Expr>>,
                "unique: x must be numeric and of rank 1; use cast<std::int32_t>(x) or reshape");
  if constexpr (correct<unique_mistake<Expr>>) {
    return detail::find_unique<false, dims<Count>>(e);
  } else {
    auto x = detail::after_mistake<value_t<Expr>, dims_t<Expr>>(e);
    return unique_values<decltype(x), decltype(x)>{x, x};
  }
}
/// Returns the result of `unique` and the number of elements of each value, std::int32_t, with the same count
/// (tf.unique_with_counts): `auto [values, indices, counts] = unique_with_counts(ids)`.
template <auto Count = dyn<"count">, Expression Expr>
[[nodiscard]] auto unique_with_counts(const Expr& e) {
  static_assert(correct<unique_mistake<Expr>>,
                "unique_with_counts: x must be numeric and of rank 1; use cast<std::int32_t>(x) or reshape");
  if constexpr (correct<unique_mistake<Expr>>) {
    return detail::find_unique<true, dims<Count>>(e);
  } else {
    auto x = detail::after_mistake<value_t<Expr>, dims_t<Expr>>(e);
    return counted_values<decltype(x), decltype(x), decltype(x)>{x, x, x};
  }
}

WEFT_COLD_END

WEFT_OTHER_CALLS(unique);              // takes one value of rank 1: unique(reshape<dims<12>>(x))
WEFT_OTHER_CALLS(unique_with_counts);  // takes one value of rank 1: unique_with_counts(reshape<dims<12>>(x))
template <fixed_string>
auto unique(...) WEFT_DELETED;  // write the extent's name as dyn<...>: unique<dyn<"words">>(x)
template <fixed_string>
auto unique_with_counts(...) WEFT_DELETED;  // the extent's name is dyn<...>: unique_with_counts<dyn<"words">>(x)

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/unique.hpp>
#endif
