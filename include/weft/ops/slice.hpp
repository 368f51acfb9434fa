#pragma once

#include <weft/ops/box_copies.hpp>

namespace weft {

/// `Size` elements of an axis, from the one of number `Begin` on (tf.slice): `slice<0, 2, 3>(x)` of `[8, n]` is `[3,
/// n]`. With a `Step`, every so many-th, backwards where it is negative (tf.strided_slice): `slice<0, 7, 4, -2>(x)` are
/// the elements 7, 5, 3 and 1. Throws out_of_range if a run-time extent is shorter.
template <int Axis, int Begin, int Size, int Step = 1, Expression Expr>
[[nodiscard]] auto slice(const Expr& e);

/// Zeros before and behind an axis (tf.pad): `pad<1, 2, 0>(x)` of `[n, 8]` is `[n, 10]`.
template <int Axis, int Before, int After, Expression Expr>
[[nodiscard]] auto pad(const Expr& e);

namespace detail {

/// Whether an axis has the elements begin, begin + step and so on. An extent that is not known yet is negative, and
/// has all from 0 on.
constexpr bool has_elements(std::int64_t extent, std::int64_t begin, std::int64_t size, std::int64_t step) {
  if (size <= 0) return size == 0 && begin >= 0 && (extent < 0 || begin <= extent);
  const std::int64_t last = begin + (size - 1) * step;
  return begin >= 0 && last >= 0 && (extent < 0 || (begin < extent && last < extent));
}

}  // namespace detail

/// A slice lies within its axis, where that is known.
template <class Dims, std::size_t Axis, int Begin, int Size, int Step>
struct slice_is_out_of_range : mistake<!detail::has_elements(Dims::spec[Axis], Begin, Size, Step)> {};

/// A slice goes on: its step is not 0.
template <int Step>
struct step_is_zero : mistake<Step == 0> {};

/// Padding is at least 0.
template <int Before, int After>
struct padding_is_negative : mistake<(Before < 0 || After < 0)> {};

WEFT_COLD_BEGIN

/// Part of an axis: as much as the output has, from `begin` on by steps.
struct slice_op {
  static constexpr const char* name = "slice";
  struct attributes {
    attribute<std::size_t> axis;
    attribute<std::int64_t> begin, step = 1;
  };

  static strided_copies copies(const prepare_context&, const attributes&);
  static void gradient(gradient_context&, const attributes&);
};

/// An operand among zeros or other equal elements: at `before` of an axis, and on by steps. literals: their bits, if
/// they are not zeros.
struct pad_op {
  static constexpr const char* name = "pad";
  struct attributes {
    attribute<std::size_t> axis;
    attribute<std::int64_t> before, step = 1;
  };

  static strided_copies copies(const prepare_context& p, const attributes& a) {
    box_copies all(p);
    all.fill_rest(p.c.literals.empty() ? 0 : p.c.literals[0]);
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
                 " are asked for of axis ", std::size_t{a.axis}, " of ", to_string(from)});
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

}  // namespace detail

template <int Axis, int Begin, int Size, int Step, Expression Expr>
auto slice(const Expr& e) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  constexpr std::size_t axis = axis_out_of_range<D, Axis>::value ? 0 : axis_number<D, Axis>;
  using mistake =
      first_mistake<axis_out_of_range<D, Axis>, step_is_zero<Step>, slice_is_out_of_range<D, axis, Begin, Size, Step>>;
  static_assert(correct<mistake>, "slice: slice<axis, begin, size, step>(x) lies within the axis");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<T, D>(e);
  } else {
    using To = with_extent<D, axis, Size>;
    if constexpr (Expr::symbolic) gpu::compile_kernels<gpu::moves, T>();
    const auto x = materialize(e);
    return call_operation<slice_op, T, To>(resized(extents_of(x), axis, Size), {axis, Begin, Step}, x);
  }
}

template <int Axis, int Before, int After, Expression Expr>
auto pad(const Expr& e) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  constexpr std::size_t axis = axis_out_of_range<D, Axis>::value ? 0 : axis_number<D, Axis>;
  using mistake = first_mistake<axis_out_of_range<D, Axis>, padding_is_negative<Before, After>>;
  static_assert(correct<mistake>, "pad: pad<axis, before, behind>(x) names an axis, and counts from 0");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<T, D>(e);
  } else {
    using To = with_extent<D, axis, detail::longer_extent<extent_of<D, axis>(), Before + After>()>;
    if constexpr (Expr::symbolic) gpu::compile_kernels<gpu::moves, T>();
    const auto x = materialize(e);
    return call_operation<pad_op, T, To>(resized(extents_of(x), axis, extents_of(x)[axis] + Before + After),
                                         {axis, Before}, x);
  }
}

}  // namespace weft
