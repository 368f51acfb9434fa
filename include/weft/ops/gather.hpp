#pragma once

#include <type_traits>

#include <weft/ops/check.hpp>
#include <weft/ops/cpu/indexed_rows.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/lowering.hpp>
#include <weft/ops/sum_rows.hpp>

/// Rows by their indices. Included by name, not by <weft/weft.hpp>.
namespace weft {

/// Rows of x along an axis by their indices (tf.gather, tf.nn.embedding_lookup): of `[n, d]` and indices `[batch, k]`
/// along axis 0 `[batch, k, d]`. Indices are std::int32_t or std::int64_t, and a row may be taken any number of times:
/// its gradient is then the sum of theirs, in the order of the indices, and zero for a row that is not taken; of a
/// variable, `minimize` updates the rows that were taken and no others, where the optimizer allows it. Throws
/// out_of_range if there is no such row; on a GPU, which cannot, its elements are 0 and nothing is added to it.
template <int Axis = 0, Expression Expr, Expression Indices>
[[nodiscard]] auto gather(const Expr& e, const Indices& indices);

/// The indices of rows are std::int32_t or std::int64_t.
template <class I>
struct row_indices_not_integers : mistake<!std::is_same_v<I, std::int32_t> && !std::is_same_v<I, std::int64_t>> {};

WEFT_COLD_BEGIN

/// Inputs: x, and indices of its rows along the axis.
template <class T>
struct gather_op {
  static constexpr const char* name = "gather";
  using attributes = axis_attribute;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::indexed_rows_kernel<T, false>(p, a.axis);
  }
  static void gradient(gradient_context&, const attributes&);
};

/// Its transpose: rows are added up where the indices say. Inputs: the rows, and the indices.
template <class T>
struct scatter_add_op {
  static constexpr const char* name = "scatter_add";
  using attributes = axis_attribute;
  static constexpr const operation* row_sums = [] {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)  // types that are trained
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
  static bool stacks(const node_def& c) { return attributes_of<scatter_add_op>(c).axis == 0; }
};

template <class T>
void gather_op<T>::gradient(gradient_context& g, const attributes& a) {
  if constexpr (is_differentiable<T>)
    if (g.needs_gradient(0))
      g.set_gradient(0, record<scatter_add_op<T>>({g.upstream(), g.input(1)}, g.input(0).info(), a));
}

namespace detail {

/// x with the extents of the indices in place of an axis.
inline shape gathered_extents(const shape& x, const shape& indices, std::size_t axis) {
  shape to;
  for (std::size_t i = 0; i < axis; ++i) to.push_back(x[i]);
  for (std::size_t i = 0; i < indices.rank; ++i) to.push_back(indices[i]);
  for (std::size_t i = axis + 1; i < x.rank; ++i) to.push_back(x[i]);
  return to;
}

}  // namespace detail

WEFT_COLD_END

namespace detail {

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

template <int Axis, Expression Expr, Expression Indices>
auto gather(const Expr& e, const Indices& indices) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  using mistake = first_mistake<axis_out_of_range<D, Axis>, row_indices_not_integers<value_t<Indices>>>;
  static_assert(correct<mistake>, "gather: needs an axis that x has, and integer indices: cast<std::int32_t>(indices)");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<T, D>(e, indices);
  } else {
    constexpr std::size_t axis = axis_number<D, Axis>;
    using To = detail::gathered<D, dims_t<Indices>, axis>;
    if constexpr (Expr::symbolic || Indices::symbolic) gpu::compile_kernels<gather_op, T>();
    const auto x = materialize(e);
    const auto i = materialize(indices);
    return call_operation<gather_op<T>, T, To>(detail::gathered_extents(extents_of(x), extents_of(i), axis), {axis}, x,
                                               i);
  }
}

// Calls as other libraries write them: with a number, a list, a vector, or an axis behind the indices.
template <auto... Given, Expression Expr>
auto gather(const Expr& e, detail::anything, detail::anything = {}) {
  static_assert(correct<arguments_are_not_taken<dims_t<Expr>, Given...>>,
                "gather: takes a tensor or a node of indices: gather<0>(x, tensor<std::int32_t, dims<2>>{3, 1})");
  return detail::same_after_mistake(e);
}

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/indexed_rows.hpp>
#endif
