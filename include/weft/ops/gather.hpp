#pragma once

#include <type_traits>

#include <weft/ops/check.hpp>
#include <weft/ops/cpu/indexed_rows.hpp>
#include <weft/ops/cpu/sum_rows.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/lowering.hpp>

/// Rows by their numbers. Included by name, not by <weft/weft.hpp>.
namespace weft {

WEFT_COLD_BEGIN

/// Inputs: x, and numbers of its rows along the axis.
template <class T>
struct gather_op {
  static constexpr const char* name = "gather";
  using attributes = axis_attribute;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::indexed_rows_kernel<T, false>(p, a.axis);
  }
  static void gradient(gradient_context&, const attributes&);
};

/// Rows of one number added up, and nothing for a number that does not come (tf.unsorted_segment_sum of the rows and
/// numbers of an IndexedSlices). Inputs: what the rows are of, and any number of lists: rows, and their numbers.
/// Outputs: for each list the sums that stand in it, and their numbers: a std::int64_t each, -1 where there is none and
/// the row is not written. On a GPU a number that no row has becomes -1, too.
template <class T>
struct sum_rows_op {
  static constexpr const char* name = "sum_rows";

  static kernel* prepare(const prepare_context& p) { return new detail::row_sums_kernel<T>(p); }
  static constexpr operand_use use(const node_def&, std::size_t operand) {
    return operand == 0 ? operand_use::extents : operand_use::read;
  }
};

/// Its transpose: rows are added up where the numbers say. Inputs: the rows, and the numbers.
template <class T>
struct scatter_add_op {
  static constexpr const char* name = "scatter_add";
  using attributes = axis_attribute;
  static constexpr const operation* row_sums = [] {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)  // what is trained
      return &operation_of<sum_rows_op<T>>;
    else
      return static_cast<const operation*>(nullptr);
  }();

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::indexed_rows_kernel<T, true>(p, a.axis);
  }
  static void gradient(gradient_context& g, const attributes& a) {
    if (g.needs_gradient(0)) g.set_gradient(0, record<gather_op<T>>({g.upstream(), g.input(1)}, g.input(0).info(), a));
  }
};

template <class T>
void gather_op<T>::gradient(gradient_context& g, const attributes& a) {
  if constexpr (is_differentiable<T>)
    if (g.needs_gradient(0))
      g.set_gradient(0, record<scatter_add_op<T>>({g.upstream(), g.input(1)}, g.input(0).info(), a));
}

namespace detail {

/// x with the extents of n in place of an axis.
inline shape gathered_extents(const shape& x, const shape& n, std::size_t axis) {
  shape to;
  for (std::size_t i = 0; i < axis; ++i) to.push_back(x[i]);
  for (std::size_t i = 0; i < n.rank; ++i) to.push_back(n[i]);
  for (std::size_t i = axis + 1; i < x.rank; ++i) to.push_back(x[i]);
  return to;
}

WEFT_COLD_END

/// D with the extents of I in place of an axis.
template <class D, class I, std::size_t Axis, class Indices>
struct gathered_at;
template <class D, class I, std::size_t Axis, std::size_t... Index>
struct gathered_at<D, I, Axis, indices<Index...>> {
  template <std::size_t Here>
  static constexpr auto extent() {
    if constexpr (Here < Axis)
      return extent_at<D, Here>::value;
    else if constexpr (Here < Axis + I::rank)
      return extent_at<I, Here - Axis>::value;
    else
      return extent_at<D, Here - I::rank + 1>::value;
  }
  using type = dims<extent<Index>()...>;
};
template <class D, class I, std::size_t Axis>
using gathered = typename gathered_at<D, I, Axis, typename make_indices<D::rank - 1 + I::rank>::type>::type;

}  // namespace detail

/// The numbers of rows are std::int32_t or std::int64_t.
template <class I>
struct row_numbers_not_integers : mistake<!std::is_same_v<I, std::int32_t> && !std::is_same_v<I, std::int64_t>> {};

/// Rows of x along an axis by their numbers (tf.gather, tf.nn.embedding_lookup): of `[n, d]` and numbers `[batch, k]`
/// along axis 0 `[batch, k, d]`. Numbers are std::int32_t or std::int64_t, and a row may be taken any number of times:
/// its gradient is then the sum of theirs, in the order of the numbers, and zero for a row that is not taken; of a
/// variable, `minimize` updates the rows that were taken and no others, where the optimizer allows it. Throws
/// out_of_range if there is no such row; on a GPU, which cannot, its elements are 0 and nothing is added to it.
template <int Axis = 0, Expression Expr, Expression Numbers>
[[nodiscard]] auto gather(const Expr& e, const Numbers& numbers) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  using mistake = first_mistake<axis_out_of_range<D, Axis>, row_numbers_not_integers<value_t<Numbers>>>;
  static_assert(correct<mistake>, "gather: needs an axis, and numbers of rows: cast<std::int32_t>(numbers)");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<T, D>(e, numbers);
  } else {
    constexpr std::size_t axis = axis_number<D, Axis>;
    using To = detail::gathered<D, dims_t<Numbers>, axis>;
    if constexpr (Expr::symbolic || Numbers::symbolic) gpu::compile_kernels<gather_op, T>();
    const auto x = materialize(e);
    const auto n = materialize(numbers);
    return call_operation<gather_op<T>, T, To>(detail::gathered_extents(extents_of(x), extents_of(n), axis), {axis}, x,
                                               n);
  }
}

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/gather.hpp>
#endif
