// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/merge_axes.hpp>
#include <weft/ops/bounded.hpp>
#include <weft/ops/cpu/masked_rows.hpp>
#include <weft/ops/index/in_graph.hpp>
#include <weft/ops/reduce/scan.hpp>

/// Rows selected by a mask. Not part of <weft/weft.hpp>.
namespace weft {

WEFT_COLD_BEGIN

/// Inputs: running counts of a mask's true elements, and the mask. Outputs: the indices of the true elements, in order;
/// the position of each element among these; and their number. Unused indices and the positions of false elements are
/// -1.
struct mask_rows_op {
  static constexpr const char* name = "mask_rows";
  static constexpr const char* onnx =
      "k = Squeeze(NonZero(b), [0]); Cast<to=6>(Pad(k, Concat<axis=0>([0], Sub(Shape(b), Shape(k))), -1L)); "
      "Where(b, Sub(a, 1), -1); Squeeze(Shape(k))";
  static kernel* prepare(const prepare_context& p) {
    detail::check_indices(p, 0);
    return new detail::mask_rows_kernel(p);
  }
};

/// Inputs: rows; for each row of the result, the index of its source row, or -1 for a row of zeros; and the inverse
/// mapping, which the gradient uses. No row is taken twice.
struct boolean_mask_op {
  static constexpr const char* name = "boolean_mask";
  static constexpr const char* onnx = "Gather(Pad(Reshape(a, shape), [0, 1], 0, [0]), b)";  // -1 is the added row
  struct attributes {
    attribute<std::size_t> row_rank;  ///< axes of a row
  };

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::masked_rows_kernel(p, a.row_rank);
  }
  static constexpr operand_use use(const node_def&, std::size_t operand) {
    return operand == 2 ? operand_use::extents : operand_use::read;
  }
  static void gradient(gradient_context& g, const attributes& a) {
    if (g.needs_gradient(0))
      g.set_gradient(0, record<boolean_mask_op>({g.upstream(), g.input(2), g.input(1)}, g.input(0).info(), a));
  }
};

/// A mask must be of type bool.
template <class T>
struct mask_is_not_bool : mistake<!std::is_same_v<T, bool>> {};

namespace detail {

constexpr bool leads(const shape& mask, const shape& x) {
  return mask.rank > 0 && mask.rank <= x.rank && same_extents(mask, x, mask.rank);
}

}  // namespace detail

/// The extents of a mask must equal the first extents of x, at least one.
template <class Mask, class Dims>
struct mask_does_not_fit : mistake<!detail::leads(Mask::spec, Dims::spec)> {};

namespace detail {

/// Returns all elements along one axis.
template <class Expr>
auto flattened(const Expr& x) {
  return merge_axes<0, dims_t<Expr>::rank>(x);
}

/// The rows that a one-dimensional mask selects: their indices, the positions of all rows among them, and their number.
template <class Rows, class Count>
struct rows_found {
  Rows rows, places;
  Count count;
};
template <class Mask>
auto find_rows(const Mask& mask) {
  using Line = dims_t<Mask>;
  const shape extents = extents_of(mask);
  const auto running = materialize(cumsum<0>(cast<std::int32_t>(mask)));
  auto [rows, places, count] = call_operation<mask_rows_op>(
      std::tuple{typed_result<std::int32_t, Line>{extents}, typed_result<std::int32_t, Line>{extents},
                 typed_result<std::int64_t, dims<>>{shape()}},
      {}, running, mask);
  return rows_found<decltype(rows), decltype(count)>{rows, places, count};
}

/// Returns the selected rows of x; the mask covers the first `Gone` axes. The result has the bound's number of rows in
/// a graph, and the actual number over tensors.
template <class Op, class Count, std::size_t Gone, class Expr, class Rows, class Number>
auto take_rows(const Expr& x, const rows_found<Rows, Number>& found) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  using Real = with_rows<D, Gone, Count>;
  constexpr std::size_t row_rank = D::rank - Gone;
  if constexpr (Rows::symbolic) {
    using To = with_rows<D, Gone, dims_t<Rows>>;
    auto values = call_operation<Op, T, To>(To::spec, {row_rank}, x, found.rows, found.places);
    return bounded<decltype(values), Real>{values, found.count};
  } else {
    shape extents(found.count.data()[0]);
    for (std::size_t i = Gone; i < D::rank; ++i) extents.push_back(x.extents()[i]);
    return call_operation<Op, T, Real>(extents, {row_rank}, x, found.rows, found.places);
  }
}

}  // namespace detail

/// Returns the rows of x where the mask is true, in order (tf.boolean_mask). For `[n, d]`, a mask `[n]` selects along
/// the first axis; for `[n, k, d]`, a mask `[n, k]` selects along the first two. In a graph, the result is a bounded
/// value (ops/bounded.hpp) whose bound is the number of all rows, and whose gradient flows to the selected rows. Over
/// tensors, it is a tensor of the actual number of rows. `Count` names this number in the type of a fetched result:
/// `boolean_mask<dyn<"kept">>(x, mask)`.
///
/// Throws invalid_argument if the extents of the mask and of x differ: at once for tensors, in the step for a graph.
template <auto Count = dyn<"count">, Expression Expr, Expression Mask>
[[nodiscard]] auto boolean_mask(const Expr& e, const Mask& mask) {
  using D = dims_t<Expr>;
  using mistake = first_mistake<mask_is_not_bool<value_t<Mask>>, mask_does_not_fit<dims_t<Mask>, D>>;
  static_assert(correct<mistake>, "boolean_mask: needs a mask of bool, such as x > 0, with the first extents of x");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<value_t<Expr>, D>(e, mask);
  } else if constexpr (Expr::symbolic && !Mask::symbolic) {
    const auto x = let(e);
    return boolean_mask<Count>(x, detail::in_graph(*x.erased().builder(), eval(mask)));
  } else {
    const auto x = materialize(e);
    const auto m = materialize(mask);
    if constexpr (!Expr::symbolic && !Mask::symbolic)
      if (!detail::leads(m.extents(), x.extents()))
        throw error(error_code::invalid_argument, "boolean_mask",
                    {"the mask must have the first extents of x, ", to_string(x.extents()), ", but it has ",
                     to_string(m.extents())});
    return detail::take_rows<boolean_mask_op, dims<Count>, dims_t<Mask>::rank>(x,
                                                                               detail::find_rows(detail::flattened(m)));
  }
}
/// Returns the real rows of a bounded value where the mask is true.
template <auto Count = dyn<"count">, class Values, class Dims, Expression Mask>
[[nodiscard]] auto boolean_mask(const bounded<Values, Dims>& b, const Mask& mask) {
  using D = detail::rows_of_bound<Values>;
  using mistake = first_mistake<mask_is_not_bool<value_t<Mask>>, mask_does_not_fit<dims_t<Mask>, D>>;
  static_assert(correct<mistake>, "boolean_mask: a bounded value needs a mask of bool with one element for each row");
  if constexpr (correct<mistake>)
    return boolean_mask<Count>(b.values, mask && valid(b));
  else
    return b;
}

WEFT_COLD_END

WEFT_OTHER_CALLS(boolean_mask);  // takes a value and a mask: boolean_mask(x, x > 0)
template <fixed_string>
auto boolean_mask(...) WEFT_DELETED;  // write the extent's name as dyn<...>: boolean_mask<dyn<"kept">>(x, x > 0)

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/masked_rows.hpp>
#endif
