// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/box_copies.hpp>
#include <weft/ops/arrays/shape.hpp>
#include <weft/ops/arrays/slice_at.hpp>
#include <weft/ops/extent_values.hpp>

namespace weft {

/// Returns `Size` elements of an axis, starting at `Begin` (tf.slice): `slice<0, 2, 3>(x)` of `[8, n]` is `[3, n]`.
/// Both can be named or computed: `slice<0, dyn<"n"> - extent<1>, 1>(x)` is the last row of `[n, 4]`. A size of -1
/// takes all remaining elements: `slice<0, 1, -1>(x)` is `[n - 1, 4]`. If both are numbers, `Step` is the distance
/// between elements, and may be negative (tf.strided_slice): `slice<0, 7, 4, -2>(x)` takes the elements 7, 5, 3 and 1.
/// Throws out_of_range if a run-time extent is shorter.
template <int Axis, auto Begin, auto Size, int Step = 1, Expression Expr>
[[nodiscard]] auto slice(const Expr& e);

/// Returns a slice that starts at a computed index, a number or a scalar of std::int32_t or std::int64_t: `slice<0,
/// 3>(x, i)` of `[8, n]` is rows i to i + 2, `[3, n]` (tf.slice). Throws out_of_range if there are no such rows; on a
/// GPU, which cannot throw, missing rows are 0. The gradient of x is the slice's gradient among zeros; i has no
/// gradient.
template <int Axis, auto Size, Expression Expr, class Index>
[[nodiscard]] auto slice(const Expr& e, const Index& begin);

/// Pads an axis with zeros on both ends (tf.pad): `pad<1, 2, 0>(x)` of `[n, 8]` is `[n, 10]`.
template <int Axis, int Before, int After, Expression Expr>
[[nodiscard]] auto pad(const Expr& e);

namespace detail {

/// Returns true if an axis contains the elements begin, begin + step and so on. An unknown extent is negative, and
/// contains all elements from 0 on.
constexpr bool has_elements(std::int64_t extent, std::int64_t begin, std::int64_t size, std::int64_t step) {
  if (size <= 0) return size == 0 && begin >= 0 && (extent < 0 || begin <= extent);
  const std::int64_t last = begin + (size - 1) * step;
  return begin >= 0 && last >= 0 && (extent < 0 || (begin < extent && last < extent));
}

template <class Dims, std::size_t Axis, auto Begin>
constexpr auto rest_of_axis() {
  if constexpr (code(Begin) == 0)
    return extent_of<Dims, Axis>();
  else
    return extent_of<Dims, Axis>() - operand_extent<Begin>();
}
/// Returns the size of a slice; -1 stands for the rest of the axis.
template <class Dims, std::size_t Axis, auto Begin, auto Size>
constexpr auto slice_size() {
  if constexpr (code(Size) == inferred)
    return rest_of_axis<Dims, Axis, Begin>();
  else
    return operand_extent<Size>();
}

/// Returns true if A - B is known to be negative.
template <class A, class B>
constexpr bool is_less(A, B) {
  if constexpr (A::code >= 0 && B::code >= 0)
    return A::code < B::code;
  else
    return defined_extent<decltype(A() - B())>.definition.is_number() &&
           defined_extent<decltype(A() - B())>.definition.number() < 0;
}

template <class Dims, std::size_t Axis, auto Begin, auto Size, int Step>
constexpr bool slice_fits() {
  if constexpr (Step != 1 && (is_dynamic(Begin) || is_dynamic(Size)))
    return false;
  else if constexpr (Step != 1)
    return has_elements(Dims::spec[Axis], code(Begin), code(Size), Step);
  else if constexpr (!is_extent(Begin) || (!is_extent(Size) && code(Size) != inferred))
    return false;
  else if constexpr (is_less(extent_of<Dims, Axis>(), operand_extent<Begin>()))
    return false;
  else
    return !is_less(rest_of_axis<Dims, Axis, Begin>(), slice_size<Dims, Axis, Begin, Size>());
}

}  // namespace detail

/// A slice must be within its axis, as far as extents are known.
template <class Dims, std::size_t Axis, auto Begin, auto Size, int Step = 1>
struct slice_is_out_of_range : mistake<!detail::slice_fits<Dims, Axis, Begin, Size, Step>()> {};

/// The step of a slice must not be 0.
template <int Step>
struct step_is_zero : mistake<Step == 0> {};

/// A slice must begin at a scalar of std::int32_t or std::int64_t.
template <class Index>
struct slice_does_not_begin_at_an_index : mistake<!std::is_integral_v<Index> || std::is_same_v<Index, bool>> {};
template <Expression Index>
struct slice_does_not_begin_at_an_index<Index>
    : mistake<dims_t<Index>::rank != 0 ||
              (!std::is_same_v<value_t<Index>, std::int32_t> && !std::is_same_v<value_t<Index>, std::int64_t>)> {};

/// Over tensors, the operand's extents must determine the extents of a slice.
template <class From, class To>
struct sliced_extents_are_unknown : mistake<(detail::count_unknown<From, To>() > 0)> {};

/// Padding must be at least 0.
template <int Before, int After>
struct padding_is_negative : mistake<(Before < 0 || After < 0)> {};

WEFT_COLD_BEGIN

/// Takes part of an axis: as many elements as the output has, starting at `begin`.
struct slice_op {
  static constexpr const char* name = "slice";
  static constexpr const char* onnx = "slice()";
  struct attributes {
    attribute<std::size_t> axis;
    attribute<std::int64_t> begin, step = 1;
  };

  static strided_copies copies(const prepare_context&, const attributes&);
  static void gradient(gradient_context&, const attributes&);
};

/// Places an operand among equal elements, given by their bits, starting at `before` of an axis.
struct pad_op {
  static constexpr const char* name = "pad";
  static constexpr const char* onnx = "pad()";
  struct attributes {
    attribute<std::size_t> axis;
    attribute<std::int64_t> before, step = 1, bits = 0;
  };

  static strided_copies copies(const prepare_context& p, const attributes& a) {
    box_copies all(p);
    all.fill_rest(static_cast<std::uint64_t>(std::int64_t{a.bits}));
    all.copy(p.inputs[0].extents, 0, {}, 0, {a.axis, a.before, a.step});
    return all;
  }
  static void gradient(gradient_context& g, const attributes& a) {
    g.set_gradient(0, record<slice_op>({g.upstream()}, g.input(0).info(), {a.axis, a.before, a.step}));
  }
};

#if WEFT_DEFINITIONS

WEFT_DECL strided_copies slice_op::copies(const prepare_context& p, const attributes& a) {
  const shape &from = p.inputs[0].extents, &part = p.outputs[0].extents;
  if (!detail::has_elements(from[a.axis], a.begin, part[a.axis], a.step))
    throw error(error_code::out_of_range, name,
                {"elements ", std::int64_t{a.begin}, " to ", a.begin + part[a.axis] * a.step,
                 a.step == 1 ? "" : " by steps of ", a.step == 1 ? "" : std::to_string(std::int64_t{a.step}),
                 " are out of range for axis ", std::size_t{a.axis}, " of ", to_string(from)});
  box_copies all(p);
  all.copy(part, 0, {a.axis, a.begin, a.step}, 0, {});
  return all;
}

WEFT_DECL void slice_op::gradient(gradient_context& g, const attributes& a) {
  g.set_gradient(0, record<pad_op>({g.upstream()}, g.input(0).info(), {a.axis, a.begin, a.step}));
}

#endif

WEFT_COLD_END

namespace detail {

template <auto Extent, int More>
constexpr auto longer_extent() {
  if constexpr (More == 0)
    return Extent;
  else
    return Extent + extent<More>;
}

template <class Op, std::size_t Axis, int Before, int After, class X>
auto padded(const X& x, const attributes_type<Op>& a) {
  using D = dims_t<X>;
  using To = with_extent<D, Axis, longer_extent<extent_of<D, Axis>(), Before + After>()>;
  return call_operation<Op, value_t<X>, To>(resized(extents_of(x), Axis, extents_of(x)[Axis] + Before + After), a, x);
}

/// Returns an extent as a scalar of the graph that contains x.
template <auto Extent, class X>
auto extent_value(const X& x) {
  if constexpr (!is_dynamic(Extent)) {
    return tensor<std::int64_t>(code(Extent));
  } else if constexpr (X::symbolic) {
    using D = dims<Extent>;
    op_builder& g = *x.erased().builder();
    remember_extents<D>(g);
    return call_operation<size_op, std::int64_t, dims<>>(shape(), {},
                                                         node<float, D>(weft::fill(g, {dtype::float32, D::spec}, 0)));
  } else {
    using D = dims<Extent>;
    return tensor<std::int64_t>(told_extents(x.extents(), dims_t<X>::spec, D::spec, definitions_of<D>)[0]);
  }
}

/// Returns the extents of part of an axis; over tensors, they must be numbers.
template <class To, class X>
shape sliced_extents(const X& x) {
  if constexpr (X::symbolic || To::is_static)
    return To::spec;
  else
    return told_extents(x.extents(), dims_t<X>::spec, To::spec, definitions_of<To>);
}

}  // namespace detail

template <int Axis, auto Begin, auto Size, int Step, Expression Expr>
auto slice(const Expr& e) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  constexpr std::size_t axis = axis_out_of_range<D, Axis>::value ? 0 : axis_number<D, Axis>;
  using mistake =
      first_mistake<axis_out_of_range<D, Axis>, step_is_zero<Step>, slice_is_out_of_range<D, axis, Begin, Size, Step>>;
  static_assert(correct<mistake>, "slice: slice<axis, begin, size, step>(x) must stay within the axis");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<T, D>(e);
  } else if constexpr (Step != 1) {
    const auto x = materialize(e);
    return call_operation<slice_op, T, with_extent<D, axis, Size>>(resized(extents_of(x), axis, Size),
                                                                   {axis, Begin, Step}, x);
  } else if constexpr (detail::is_dynamic(Begin)) {
    const auto x = materialize(e);
    return slice<Axis, detail::slice_size<D, axis, Begin, Size>()>(x, detail::extent_value<Begin>(x));
  } else {
    using To = with_extent<D, axis, detail::slice_size<D, axis, Begin, Size>()>;
    using unknown = sliced_extents_are_unknown<std::conditional_t<Expr::symbolic, To, D>, To>;
    static_assert(correct<unknown>, "slice: for tensors, a named extent must be one of the operand's");
    const auto x = materialize(e);
    if constexpr (Expr::symbolic && !To::is_static) detail::remember_extents<To>(*x.erased().builder());
    return call_operation<slice_op, T, To>(detail::sliced_extents<To>(x),
                                           {axis, static_cast<std::int64_t>(Begin), Step}, x);
  }
}

template <int Axis, auto Size, Expression Expr, class Index>
auto slice(const Expr& e, const Index& begin) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  constexpr std::size_t axis = axis_out_of_range<D, Axis>::value ? 0 : axis_number<D, Axis>;
  using mistake = first_mistake<axis_out_of_range<D, Axis>, slice_is_out_of_range<D, axis, 0, Size>,
                                slice_does_not_begin_at_an_index<Index>>;
  static_assert(correct<mistake>,
                "slice: slice<axis, size>(x, begin) needs an axis of at least that size, and an integer scalar begin");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<T, D>(e);
  } else if constexpr (!Expression<Index>) {
    return slice<Axis, Size>(e, tensor<std::int64_t>(static_cast<std::int64_t>(begin)));
  } else {
    using To = with_extent<D, axis, detail::slice_size<D, axis, 0, Size>()>;
    constexpr bool symbolic = Expr::symbolic || Index::symbolic;
    using unknown = sliced_extents_are_unknown<std::conditional_t<symbolic, To, D>, To>;
    static_assert(correct<unknown>, "slice: for tensors, a named extent must be one of the operand's");
    const auto x = materialize(e);
    const auto i = materialize(begin);
    if constexpr (Expr::symbolic && !To::is_static) detail::remember_extents<To>(*x.erased().builder());
    return call_operation<slice_at_op<T>, T, To>(detail::sliced_extents<To>(x), {axis}, x, i);
  }
}

template <int Axis, int Before, int After, Expression Expr>
auto pad(const Expr& e) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  constexpr std::size_t axis = axis_out_of_range<D, Axis>::value ? 0 : axis_number<D, Axis>;
  using mistake = first_mistake<axis_out_of_range<D, Axis>, padding_is_negative<Before, After>>;
  static_assert(correct<mistake>, "pad: pad<axis, before, after>(x) needs an axis of x, and counts of at least 0");
  if constexpr (!correct<mistake>)
    return detail::after_mistake<T, D>(e);
  else
    return detail::padded<pad_op, axis, Before, After>(materialize(e), {axis, Before});
}

}  // namespace weft
