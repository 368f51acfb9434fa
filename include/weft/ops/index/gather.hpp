// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <type_traits>

#include <weft/ops/arrays/broadcast_to.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/cpu/indexed_rows.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/index/sum_rows.hpp>
#include <weft/ops/lowering.hpp>

/// Selection of rows by index. Not part of <weft/weft.hpp>.
namespace weft {

/// Makes `gather` combine each index with each row, even if their extents have the same name.
struct outer_indexing_option {};
/// See outer_indexing_option.
inline constexpr outer_indexing_option outer_indexing{};
/// The indices of rows must be std::int32_t or std::int64_t.
template <class Index>
struct row_indices_not_integers
    : mistake<!std::is_same_v<Index, std::int32_t> && !std::is_same_v<Index, std::int64_t>> {};

namespace detail {

constexpr bool meets_all(const shape& x, const shape& indices, std::size_t axis) {
  for (std::size_t i = 0; i < x.rank; ++i)
    for (std::size_t k = 0; k < indices.rank; ++k)
      if (i != axis && x[i] < 0 && x[i] == indices[k]) return true;
  return false;
}
constexpr bool broadcast_but_for(const shape& a, const shape& b, std::size_t axis) {
  if (a.rank != b.rank) return false;
  for (std::size_t i = 0; i < a.rank; ++i)
    if (i != axis && a[i] != b[i] && a[i] != 1 && b[i] != 1) return false;
  return true;
}

}  // namespace detail

/// The result would contain an element for each pair of row and index, although both have the same named extent.
template <class Dims, class Indices, int Axis>
struct each_row_meets_each_index : mistake<detail::meets_all(Dims::spec, Indices::spec, axis_number<Dims, Axis>)> {};

/// The axis must follow the batch axes, which x and the indices share.
template <class Dims, class Indices, int BatchDims, int Axis>
struct batch_axes_not_there : mistake<(BatchDims<1 || BatchDims> static_cast<int>(Indices::rank) ||
                                       static_cast<int>(axis_number<Dims, Axis>) < BatchDims)> {};

/// x and the indices must have equal batch extents.
template <class Dims, class Indices, int BatchDims>
struct batch_extents_differ : mistake<!detail::same_extents(Dims::spec, Indices::spec, BatchDims)> {};

/// x and the indices must have the same number of axes, and broadcast along all axes except the given one.
template <class Dims, class Indices, int Axis>
struct extents_along_axis_differ
    : mistake<!detail::broadcast_but_for(Dims::spec, Indices::spec, axis_number<Dims, Axis>)> {};

/// A tensor cannot broadcast to extents that are known only in a step. `constant(graph, t)` makes it a node.
template <class Dims, class To>
struct tensor_meets_named_extents : mistake<true> {};

WEFT_COLD_BEGIN

/// Inputs: x, and the indices of its rows along the axis.
template <class T>
struct gather_op {
  static constexpr const char* name = "gather";
  static constexpr const char* onnx = "Gather<axis=$0>(a, b)";
  using attributes = axis_attribute;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    const axis_rows rows(p.inputs[0].extents, a.axis);
    return new detail::gathered_rows_kernel<T>(p, rows, {rows, p.inputs[1].extents}, name);
  }
  static void gradient(gradient_context&, const attributes&);
};

/// The transpose of gather: adds rows to the positions in the indices. Inputs: the rows, and the indices.
template <class T>
struct scatter_add_op {
  static constexpr const char* name = "scatter_add";
  using attributes = axis_attribute;
  static constexpr const operation* row_sums = [] {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)  // the types of trainable variables
      return &operation_of<sum_rows_op<T>>;
    else
      return static_cast<const operation*>(nullptr);
  }();

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    const axis_rows rows(p.outputs[0].extents, a.axis);
    return new detail::written_rows_kernel<T, combine::add>(p, rows, {rows, p.inputs[1].extents}, "gather");
  }
  static void gradient(gradient_context& g, const attributes& a) {
    if (g.needs_gradient(0)) g.set_gradient(0, record<gather_op<T>>({g.upstream(), g.input(1)}, g.input(0).info(), a));
  }
  static bool stacks(const node_def& c) { return attributes_of<scatter_add_op>(c).axis == 0; }
};

template <class T>
void gather_op<T>::gradient(gradient_context& g, const attributes& a) {
  if constexpr (is_differentiable<T>)
    if (g.needs_gradient(0))
      g.set_gradient(0, record<scatter_add_op<T>>({g.upstream(), g.input(1)}, g.input(0).info(), a));
}

namespace detail {

/// Creates a kernel of the rows of `whole` along the indexed axes.
template <class Kernel>
kernel* prepare_batch_rows(const prepare_context& p, const shape& whole, const batch_gather_attributes& a,
                           const char* operation) {
  return new Kernel(p, axis_rows(whole, a.axis, a.axis + a.depth), index_lists(whole, p.inputs[1].extents, a),
                    operation);
}
/// Returns the function to which an error of a batch_gather belongs.
inline const char* caller_of(const batch_gather_attributes& a, const char* of_vectors) {
  return a.per_element                    ? "take_along_axis"
         : a.depth > 1                    ? of_vectors
         : a.rule != index_rule::in_range ? "segments"
                                          : "batch_gather";
}

}  // namespace detail

/// Inputs: x, and a list of row indices for each element of the batch.
template <class T>
struct batch_gather_op {
  static constexpr const char* name = "batch_gather";
  static constexpr const char* onnx = "batch_gather()";
  using attributes = batch_gather_attributes;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return detail::prepare_batch_rows<detail::gathered_rows_kernel<T>>(p, p.inputs[0].extents, a,
                                                                       detail::caller_of(a, "gather_nd"));
  }
  static void gradient(gradient_context&, const attributes&);
};

/// The transpose of batch_gather. Inputs: the rows, and the indices.
template <class T>
struct batch_scatter_add_op {
  static constexpr const char* name = "batch_scatter_add";
  static constexpr const char* onnx = "scatter()";
  using attributes = batch_gather_attributes;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return detail::prepare_batch_rows<detail::written_rows_kernel<T, combine::add>>(p, p.outputs[0].extents, a,
                                                                                    detail::caller_of(a, "scatter_nd"));
  }
  static void gradient(gradient_context& g, const attributes& a) {
    if (g.needs_gradient(0))
      g.set_gradient(0, record<batch_gather_op<T>>({g.upstream(), g.input(1)}, g.input(0).info(), a));
  }
};

template <class T>
void batch_gather_op<T>::gradient(gradient_context& g, const attributes& a) {
  if constexpr (is_differentiable<T>)
    if (g.needs_gradient(0))
      g.set_gradient(0, record<batch_scatter_add_op<T>>({g.upstream(), g.input(1)}, g.input(0).info(), a));
}

WEFT_COLD_END

namespace detail {

/// The axes of x and of the indices, which replace an axis of x, except those of the batch.
template <std::size_t Rank, std::size_t RankOfIndices, std::size_t Axis, std::size_t BatchDims>
struct axes_gathered {
  static constexpr std::size_t rank = Rank - 1 + RankOfIndices - BatchDims;
  static constexpr std::size_t axis(std::size_t i) {
    if (i < Axis) return i;
    return i < Axis + RankOfIndices - BatchDims ? Rank + i - Axis + BatchDims : i + 1 + BatchDims - RankOfIndices;
  }
};
template <class D, class At, std::size_t Axis, std::size_t BatchDims = 0>
using gathered =
    select<joined_dims<D, At>, D::rank - 1 + At::rank - BatchDims, axes_gathered<D::rank, At::rank, Axis, BatchDims>>;
/// The extents over tensors.
template <std::size_t Axis, std::size_t BatchDims = 0, class X, class Indices>
shape gathered_extents(const X& x, const Indices& i) {
  using axes = axes_gathered<dims_t<X>::rank, dims_t<Indices>::rank, Axis, BatchDims>;
  return selected<axes>(axes::rank, extents_of(x), extents_of(i));
}

template <std::size_t Axis, class Expr, class Indices>
auto gather_rows(const Expr& e, const Indices& indices) {
  using T = value_t<Expr>;
  const auto x = materialize(e);
  const auto i = materialize(indices);
  return call_operation<gather_op<T>, T, gathered<dims_t<Expr>, dims_t<Indices>, Axis>>(gathered_extents<Axis>(x, i),
                                                                                        {Axis}, x, i);
}

/// Broadcasts x to the extents of another operand, except along an axis.
template <class Other, std::size_t Axis, class X>
auto broadcast_along(const X& x, const shape& other) {
  using D = dims_t<X>;
  using To = with_extent<broadcast_dims<D, with_extent<Other, Axis, 1>>, Axis, extent_at<D, Axis>::value>;
  if constexpr (To::spec == D::spec) {
    return x;
  } else if constexpr (X::symbolic) {
    return broadcast_to<To>(x);
  } else {
    shape to = x.extents();
    for (std::size_t i = 0; i < to.rank; ++i)
      if (i != Axis && D::spec[i] == 1) to[i] = other[i];
    return broadcast_to<To>(x, to);
  }
}
template <class X, class Other, std::size_t Axis>
constexpr bool is_unknown_along() {
  if constexpr (X::symbolic || !Other::symbolic) return false;
  for (std::size_t i = 0; i < dims_t<X>::rank; ++i)
    if (i != Axis && dims_t<X>::spec[i] == 1 && dims_t<Other>::spec[i] < 0) return true;
  return false;
}

}  // namespace detail

/// Returns rows of x along an axis by index (tf.gather, tf.nn.embedding_lookup): for `[n, d]` and indices `[batch, k]`
/// along axis 0, `[batch, k, d]`. Indices are std::int32_t or std::int64_t, and may repeat. The gradient of a row is
/// the sum over its occurrences, in the order of the indices, and zero for a row that does not occur. For a variable,
/// `minimize` updates only the selected rows if the optimizer supports it. Throws out_of_range if an index is invalid;
/// on a GPU, which cannot throw, the elements are 0 and the gradient is ignored.
///
/// Each index selects a whole slice of the other axes. If one of these has the name of an extent of the indices, as in
/// `gather<1>(q, actions)` of `[batch, n]` and `[batch]`, the result would contain all pairs, `[batch, batch]`. That is
/// an error, since `batch_gather<1>(q, actions)`, one element for each row, is more likely intended. For all pairs,
/// write `gather<1, outer_indexing>(q, actions)`.
template <int Axis = 0, Expression Expr, Expression Indices>
[[nodiscard]] auto gather(const Expr& e, const Indices& indices) {
  using D = dims_t<Expr>;
  using mistake = first_mistake<axis_out_of_range<D, Axis>, row_indices_not_integers<value_t<Indices>>>;
  using pairs = std::conditional_t<correct<mistake>, each_row_meets_each_index<D, dims_t<Indices>, Axis>, mistake>;
  static_assert(correct<mistake>, "gather: needs an axis that x has, and integer indices: cast<std::int32_t>(indices)");
  static_assert(correct<pairs> || !correct<mistake>,
                "gather: x and indices both have rows: batch_gather<1>(x, indices) pairs them, gather<axis, "
                "outer_indexing>(x, indices) gathers all combinations");
  if constexpr (correct<pairs>)
    return detail::gather_rows<axis_number<D, Axis>>(e, indices);
  else
    return detail::after_mistake<value_t<Expr>, D>(e, indices);
}

/// Returns rows of x along an axis, for every pair of row and index: `gather<1, outer_indexing>(q, actions)`.
template <int Axis, outer_indexing_option, Expression Expr, Expression Indices>
[[nodiscard]] auto gather(const Expr& e, const Indices& indices) {
  using D = dims_t<Expr>;
  using mistake = first_mistake<axis_out_of_range<D, Axis>, row_indices_not_integers<value_t<Indices>>>;
  static_assert(correct<mistake>, "gather: needs an axis that x has, and integer indices: cast<std::int32_t>(indices)");
  if constexpr (correct<mistake>)
    return detail::gather_rows<axis_number<D, Axis>>(e, indices);
  else
    return detail::after_mistake<value_t<Expr>, D>(e, indices);
}

/// The first mistake in a call of batch_gather, if any.
template <class Dims, class Indices, class At, int BatchDims, int Axis>
using batch_gather_mistake =
    first_mistake<axis_out_of_range<Dims, Axis>, row_indices_not_integers<At>,
                  batch_axes_not_there<Dims, Indices, BatchDims, Axis>, batch_extents_differ<Dims, Indices, BatchDims>>;

/// Returns rows by index, with separate indices for each element of a batch (tf.gather with batch_dims). The first
/// `BatchDims` axes of x and of the indices are equal. For q `[batch, n]` and actions `[batch]`, `batch_gather<1>(q,
/// actions)` is `[batch]`: `q[b, actions[b]]`. For x `[b, n, d]` and indices `[b, k]` it is `[b, k, d]`, and for `[b,
/// h, n, d]` and `[b, k]`, `batch_gather<1, 2>(x, indices)` is `[b, h, k, d]`. For indices, gradients and errors, see
/// `gather`.
template <int BatchDims = 1, int Axis = BatchDims, Expression Expr, Expression Indices>
[[nodiscard]] auto batch_gather(const Expr& e, const Indices& indices) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  using At = dims_t<Indices>;
  using mistake = batch_gather_mistake<D, At, value_t<Indices>, BatchDims, Axis>;
  static_assert(correct<mistake>,
                "batch_gather<batch_dims, axis>: needs x [batch, n, ...] and integer indices [batch, ...], "
                "cast<std::int32_t>(indices)");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<T, D>(e, indices);
  } else {
    constexpr std::size_t axis = axis_number<D, Axis>, batch_dims = BatchDims;
    const auto x = materialize(e);
    const auto i = materialize(indices);
    return call_operation<batch_gather_op<T>, T, detail::gathered<D, At, axis, batch_dims>>(
        detail::gathered_extents<axis, batch_dims>(x, i), {axis, batch_dims}, x, i);
  }
}

/// The first mistake in a call of take_along_axis, if any.
template <class Dims, class Indices, class At, int Axis>
using take_along_axis_mistake = first_mistake<axis_out_of_range<Dims, Axis>, row_indices_not_integers<At>,
                                              extents_along_axis_differ<Dims, Indices, Axis>>;

/// Returns elements by index along an axis, with one index for each element of the result (numpy.take_along_axis,
/// torch.gather): for x `[n, d]` and indices `[k, d]` along axis 0, `[k, d]`: `x[indices[i, j], j]`. Both have the same
/// number of axes, and broadcast along all others. `take_along_axis<1>(x, argsort<1>(x))` is sorted. For indices,
/// gradients and errors, see `gather`; a negative index is an error.
template <int Axis, Expression Expr, Expression Indices>
[[nodiscard]] auto take_along_axis(const Expr& e, const Indices& indices) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  using mistake = take_along_axis_mistake<D, dims_t<Indices>, value_t<Indices>, Axis>;
  static_assert(correct<mistake>,
                "take_along_axis<axis>: needs integer indices, cast<std::int32_t>(indices), of the rank of x, whose "
                "other extents broadcast");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<T, D>(e, indices);
  } else {
    constexpr std::size_t axis = axis_number<D, Axis>;
    constexpr bool unknown =
        detail::is_unknown_along<Expr, Indices, axis>() || detail::is_unknown_along<Indices, Expr, axis>();
    using unknown_extents =
        std::conditional_t<unknown, tensor_meets_named_extents<D, dims_t<Indices>>, weft::mistake<false>>;
    static_assert(
        correct<unknown_extents>,
        "take_along_axis: a tensor cannot broadcast to extents known only in a step: use constant(graph, tensor)");
    if constexpr (unknown) {
      return detail::after_mistake<T, D>(e, indices);
    } else {
      const auto given = materialize(e);
      const auto given_indices = materialize(indices);
      const auto x = detail::broadcast_along<dims_t<Indices>, axis>(given, extents_of(given_indices));
      const auto i = detail::broadcast_along<D, axis>(given_indices, extents_of(given));
      using To = dims_t<std::remove_const_t<decltype(i)>>;
      return call_operation<batch_gather_op<T>, T, To>(extents_of(i), {axis, axis, true}, x, i);
    }
  }
}

WEFT_OTHER_CALLS(gather);           // takes a tensor or a node of indices: gather<0>(x, tensor<int, dims<2>>{3, 1})
WEFT_OTHER_CALLS(batch_gather);     // a tensor or a node of indices, numbers in brackets: batch_gather<1>(x, i)
WEFT_OTHER_CALLS(take_along_axis);  // tensors or nodes, the axis in brackets: take_along_axis<1>(x, indices)

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/indexed_rows.hpp>
#endif
