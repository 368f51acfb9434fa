// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/broadcast_to.hpp>
#include <weft/ops/index/gather_nd.hpp>

/// Writes by index. Not part of <weft/weft.hpp>.
///
/// `combine` selects how a row is combined with the row at its index: `update` replaces it, `add`, `mul`, `min` and
/// `max` accumulate. Rows are combined in the order of the indices, for any number of threads; with `update`, the last
/// of several rows with one index remains, although the gradient reaches all of them, as in TensorFlow and PyTorch.
/// Equal minima and maxima share the gradient. Second gradients of `mul` are correct if at most one of the factors of
/// an element is 0. Indices are std::int32_t or std::int64_t and may repeat; one out of range throws out_of_range, and
/// is ignored on a GPU. Rows may be a number.
namespace weft {

/// Rows to write must have the extents of the rows that the indices select.
template <class Given, class Selected>
struct written_rows_differ : mistake<!(Given::spec == Selected::spec)> {};

WEFT_COLD_BEGIN

/// Inputs: rows, their indices and, if the result does not start from a number, the values before.
template <class T>
struct scatter_op {
  static constexpr const char* name = "scatter";
  static constexpr const char* onnx = "scatter()";
  struct attributes {
    batch_gather_attributes lists;
    attribute<combine> how;
  };

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    switch (a.how) {
      case combine::update:
        return prepare_as<combine::update>(p, a);
      case combine::add:
        return prepare_as<combine::add>(p, a);
      case combine::mul:
        return prepare_as<combine::mul>(p, a);
      case combine::min:
        return prepare_as<combine::min>(p, a);
      default:
        return prepare_as<combine::max>(p, a);
    }
  }
  static void gradient(gradient_context&, const attributes&);

 private:
  template <combine How>
  static kernel* prepare_as(const prepare_context& p, const attributes& a) {
    return detail::prepare_batch_rows<detail::written_rows_kernel<T, How>>(
        p, p.outputs[0].extents, a.lists, a.lists.rule == index_rule::in_range ? name : "segments");
  }
};

namespace detail {

/// The operations of one element type in which the gradient of a scatter is written.
struct scatter_operations {
  const operation *take, *add, *scatter;
};

/// Writes the gradient of a scatter. Those of `mul` multiply by the nonzero elements and count the zeros.
inline void scatter_gradient(gradient_context& g, const batch_gather_attributes& lists, combine how,
                             const scatter_operations& ops) {
  const symbol up = g.upstream(), y = g.output(), rows = g.input(0), at = g.input(1);
  const bool from_x = g.node.inputs.size() > 2;
  const symbol x = from_x ? g.input(2) : symbol(0);
  const auto words = words_of(lists);
  const auto take = [&](symbol s) { return record_call(*ops.take, {s, at}, rows.info(), words); };
  const auto add = [&](symbol s) { return record_call(*ops.add, {s, at}, y.info(), words); };
  symbol d_rows = up, d_x = up;
  if (how == combine::update || how == combine::add) {
    d_rows = take(up);
    if (from_x && how == combine::update)
      d_x = record_call(*ops.scatter, {fill(*up.builder(), rows.info(), 0), at, up}, y.info(), g.node.attributes);
  } else if (how == combine::mul) {
    const auto is_zero = [](symbol s) { return s == symbol(0); };
    const auto others = [&](symbol s) { return math::select(is_zero(s), symbol(1), s); };
    const auto counted = [&](symbol s) { return math::convert(is_zero(s), s.type()); };
    symbol zeros = add(counted(rows));
    symbol product = record_call(*ops.scatter, {others(rows), at}, y.info(), g.node.attributes);
    if (from_x) zeros = zeros + counted(x), product = product * others(x);
    const auto derivative = [&](symbol s, symbol z, symbol p) {
      return math::select(is_zero(s), math::select(z == symbol(1), p, symbol(0)),
                          math::select(z == symbol(0), p / others(s), symbol(0)));
    };
    d_rows = take(up) * derivative(rows, take(zeros), take(product));
    if (from_x) d_x = up * derivative(x, zeros, product);
  } else {
    const symbol mine = math::convert(rows == take(y), rows.type());
    symbol count = add(mine), of_x;
    if (from_x) of_x = math::convert(x == y, x.type()), count = count + of_x;
    const symbol share = up / math::select(count == symbol(0), symbol(1), count);
    d_rows = mine * take(share);
    if (from_x) d_x = of_x * share;
  }
  g.set_gradient(0, d_rows);
  if (from_x) g.set_gradient(2, d_x);
}

}  // namespace detail

template <class T>
void scatter_op<T>::gradient(gradient_context& g, const attributes& a) {
  if constexpr (is_differentiable<T>)
    detail::scatter_gradient(
        g, a.lists, a.how,
        {&operation_of<batch_gather_op<T>>, &operation_of<batch_scatter_add_op<T>>, &operation_of<scatter_op<T>>});
}

WEFT_COLD_END

namespace detail {

/// Rows of the extents To: a value that has them, or a number. `node_or_tensor` is any operand of the call.
template <class T, class To, class X, class Rows>
auto rows_to_write([[maybe_unused]] const X& node_or_tensor, const shape& extents, const Rows& rows) {
  if constexpr (Expression<Rows>)
    return materialize(rows);
  else if constexpr (X::symbolic)
    return filled<T, To>(*node_or_tensor.erased().builder(), static_cast<T>(rows));
  else
    return broadcast_to<To>(tensor<T>(static_cast<T>(rows)), extents);
}

/// Records or runs a scatter whose result has the extents D. `before` is x, or nothing.
template <class D, class Rows, class Indices, class... Before>
auto call_scatter(const shape& extents, const batch_gather_attributes& lists, combine how, const Rows& rows,
                  const Indices& indices, const Before&... before) {
  using T = value_t<Rows>;
  constexpr bool symbolic = Rows::symbolic || Indices::symbolic || (Before::symbolic || ...);
  auto y = call_operation<scatter_op<T>, T, D>(extents, {lists, how}, rows, indices, before...);
  if constexpr (symbolic) use_primitives<T>(*y.erased().builder());
  return y;
}

/// The element type and the extents of rows to write, where a number has those of the call.
template <class Rows, class T, class To>
struct written_rows {
  using type = std::conditional_t<std::is_arithmetic_v<Rows>, T, Rows>;
  using dims = To;
};
template <Expression Rows, class T, class To>
struct written_rows<Rows, T, To> {
  using type = value_t<Rows>;
  using dims = dims_t<Rows>;
};
template <class Rows, class T>
using written_type = typename written_rows<Rows, T, void>::type;
template <class Rows, class To>
using written_dims = typename written_rows<Rows, void, To>::dims;

/// Writes rows of the extents To into e.
template <class To, class X, class Indices, class Rows>
auto scatter_into(const X& e, const Indices& at, const Rows& rows, combine how, const shape& extents_of_rows,
                  const batch_gather_attributes& lists) {
  const auto write = [&](const auto& any) {
    return call_scatter<dims_t<X>>(extents_of(e), lists, how, rows_to_write<value_t<X>, To>(any, extents_of_rows, rows),
                                   at, e);
  };
  if constexpr (X::symbolic || !Indices::symbolic)
    return write(e);
  else
    return write(at);
}

/// The mistakes of scatter, scatter_nd and scatter_along_axis, if any.
template <class D, int Axis, class At, class Rows>
constexpr auto find_axis_mistake() {
  if constexpr (axis_out_of_range<D, Axis>::value) {
    return axis_out_of_range<D, Axis>{};
  } else {
    using To = gathered<D, At, axis_number<D, Axis>>;
    return written_rows_differ<written_dims<Rows, To>, To>{};
  }
}
template <class D, class At, class Rows>
constexpr auto find_vectors_mistake() {
  if constexpr (index_vectors_do_not_fit<D, At>::value) {
    return index_vectors_do_not_fit<D, At>{};
  } else {
    using To = typename by_vectors<D, At, 0>::type;
    return written_rows_differ<written_dims<Rows, To>, To>{};
  }
}
template <class T, class Indices, class Rows, class Extents>
using scatter_mistake =
    first_mistake<row_indices_not_integers<value_t<Indices>>, element_types_differ<T, written_type<Rows, T>>, Extents>;

}  // namespace detail

/// Returns x after rows are written to the indices along an axis (torch.index_copy, index_add, index_reduce,
/// index_fill): for x `[n, d]`, indices `[k]` and rows `[k, d]` or a number, `scatter<0>(x, indices, rows,
/// combine::add)` is `[n, d]`. The rows have the extents of `gather<Axis>(x, indices)`.
template <int Axis = 0, Expression Expr, Expression Indices, class Rows>
[[nodiscard]] auto scatter(const Expr& e, const Indices& indices, const Rows& rows, combine how = combine::update) {
  using D = dims_t<Expr>;
  using At = dims_t<Indices>;
  using mistake =
      detail::scatter_mistake<value_t<Expr>, Indices, Rows, decltype(detail::find_axis_mistake<D, Axis, At, Rows>())>;
  static_assert(correct<mistake>,
                "scatter<axis>(x, indices, rows): needs an axis of x, integer indices, and rows of x's type with the "
                "extents of gather<axis>(x, indices), or a number");
  if constexpr (correct<mistake>) {
    constexpr std::size_t axis = axis_number<D, Axis>;
    const auto x = materialize(e);
    const auto i = materialize(indices);
    return detail::scatter_into<detail::gathered<D, At, axis>>(x, i, rows, how, detail::gathered_extents<axis>(x, i),
                                                               {axis, 0});
  } else {
    return detail::after_mistake<value_t<Expr>, D>(e, indices);
  }
}

/// Returns x after elements or slices are written to index vectors (tf.tensor_scatter_nd_update, _add, _min, _max): for
/// x `[n, m, d]`, indices `[k, 2]` and rows `[k, d]` or a number. The rows have the extents of `gather_nd(x, indices)`.
template <Expression Expr, Expression Indices, class Rows>
[[nodiscard]] auto scatter_nd(const Expr& e, const Indices& indices, const Rows& rows, combine how = combine::update) {
  using D = dims_t<Expr>;
  using mistake = detail::scatter_mistake<value_t<Expr>, Indices, Rows,
                                          decltype(detail::find_vectors_mistake<D, dims_t<Indices>, Rows>())>;
  static_assert(correct<mistake>,
                "scatter_nd(x, indices, rows): needs integer indices [..., k], where k is a number from 1 to the rank "
                "of x, and rows of x's type with the extents of gather_nd(x, indices), or a number");
  if constexpr (correct<mistake>) {
    using slices = detail::by_vectors<D, dims_t<Indices>, 0>;
    const auto x = materialize(e);
    const auto i = materialize(indices);
    return detail::scatter_into<typename slices::type>(x, i, rows, how, slices::extents(x, i),
                                                       {0, 0, false, index_rule::in_range, slices::depth});
  } else {
    return detail::after_mistake<value_t<Expr>, D>(e, indices);
  }
}

/// Returns zeros to which rows are added at index vectors (tf.scatter_nd): `scatter_nd<dims<8, 4>>(indices, rows)`.
/// Over tensors, pass the values of extents that have names: `scatter_nd<dims<dyn<"n">, 4>>(indices, rows, shape(8,
/// 4))`.
template <class To, Expression Indices, Expression Rows>
[[nodiscard]] auto scatter_nd(const Indices& indices, const Rows& rows, const shape& extents = To::spec) {
  using T = value_t<Rows>;
  using D = dims_t<std::conditional_t<is_dims<To>, To, dims<>>>;
  using mistake = first_mistake<
      extents_are_not_valid<To>,
      detail::scatter_mistake<T, Indices, Rows, decltype(detail::find_vectors_mistake<D, dims_t<Indices>, Rows>())>>;
  static_assert(
      correct<mistake>,
      "scatter_nd<dims<...>>(indices, rows): needs extents, integer indices [..., k], where k is a number from "
      "1 to their number, and rows with the extents of gather_nd(result, indices)");
  if constexpr (correct<mistake>) {
    constexpr batch_gather_attributes lists{0, 0, false, index_rule::in_range,
                                            detail::by_vectors<D, dims_t<Indices>, 0>::depth};
    const auto x = materialize(rows);
    const auto i = materialize(indices);
    if constexpr (Rows::symbolic || Indices::symbolic) {
      auto y = call_operation<batch_scatter_add_op<T>, T, D>(D::spec, lists, x, i);
      detail::remember_extents<D>(*y.erased().builder());
      return y;
    } else {
      detail::check_fits("scatter_nd", D::spec, D::names, extents);
      return call_operation<batch_scatter_add_op<T>, T, D>(extents, lists, x, i);
    }
  } else {
    return detail::after_mistake<T, dims_t<Rows>>(rows, indices);
  }
}

/// Returns x after elements are written along an axis, with one index for each element (torch.scatter, scatter_add,
/// scatter_reduce, numpy.put_along_axis): `y[indices[i, j], j] = values[i, j]` for axis 0. The values have the extents
/// of the indices, or are a number; the extents of x may differ along the axis only.
template <int Axis, Expression Expr, Expression Indices, class Values>
[[nodiscard]] auto scatter_along_axis(const Expr& e, const Indices& indices, const Values& values,
                                      combine how = combine::update) {
  using D = dims_t<Expr>;
  using At = dims_t<Indices>;
  using mistake =
      first_mistake<axis_out_of_range<D, Axis>,
                    detail::scatter_mistake<value_t<Expr>, Indices, Values,
                                            first_mistake<extents_along_axis_differ<At, D, Axis>,
                                                          written_rows_differ<detail::written_dims<Values, At>, At>>>>;
  static_assert(correct<mistake>,
                "scatter_along_axis<axis>(x, indices, values): needs an axis of x, integer indices with the extents of "
                "x except along the axis, and values of x's type with the indices' extents, or a number");
  if constexpr (correct<mistake>) {
    constexpr std::size_t axis = axis_number<D, Axis>;
    const auto x = materialize(e);
    const auto i = materialize(indices);
    return detail::scatter_into<At>(x, i, values, how, extents_of(i), {axis, axis, true});
  } else {
    return detail::after_mistake<value_t<Expr>, D>(e, indices);
  }
}

WEFT_OTHER_CALLS(scatter);     // the axis is in brackets: scatter<0>(x, indices, rows, combine::add)
WEFT_OTHER_CALLS(scatter_nd);  // scatter_nd<dims<8, 4>>(indices, rows), scatter_nd(x, indices, rows, combine::max)
WEFT_OTHER_CALLS(scatter_along_axis);  // the axis is in brackets: scatter_along_axis<1>(x, indices, values)

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/scatter.hpp>
#endif
