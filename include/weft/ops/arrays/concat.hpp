// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tuple>

#include <weft/ops/arrays/box_copies.hpp>

namespace weft {

/// Joined operands must have equal extents along all other axes.
template <class A, class B, std::size_t Axis>
struct extents_beside_axis_differ
    : mistake<(A::rank != B::rank || !(resized(A::spec, Axis, 0) == resized(B::spec, Axis, 0)))> {};

/// The extent of the axis must be divisible by the number of parts.
template <class Dims, std::size_t Axis, int Count>
struct axis_has_no_equal_parts : mistake<(Count < 1 || (Dims::spec[Axis] >= 0 && Dims::spec[Axis] % Count != 0))> {};

WEFT_COLD_BEGIN

/// Along `count` axes from `axis` on: the diagonal of a matrix for two.
struct joined_axes {
  attribute<std::size_t> axis, count = 1;

  /// Moves behind a part.
  void advance(box_walk& at, const shape& part) const {
    for (std::size_t i = 0; i < count; ++i) at.begin[axis + i] += part[axis + i];
  }
};

/// Joins operands along an axis or a diagonal, whose other elements are 0.
struct concat_op {
  static constexpr const char* name = "concat";
  static constexpr const char* onnx = "concat()";
  static constexpr operation_id id{"weft.concat"};
  using attributes = joined_axes;

  static strided_copies copies(const prepare_context& p, const attributes& a) {
    box_copies all(p);
    all.fills = a.count > 1;
    box_walk at;
    for (std::uint32_t k = 0; k < p.node.inputs.size(); ++k) {
      all.copy(p.inputs[k].extents, k, {}, 0, at);
      a.advance(at, p.inputs[k].extents);
    }
    return all;
  }
  static void gradient(gradient_context&, const attributes&);
};

/// Splits an axis or a diagonal into parts; the outputs determine the extents of each part.
struct split_op {
  static constexpr const char* name = "split";
  static constexpr const char* onnx = "split()";
  static constexpr operation_id id{"weft.split"};
  using attributes = joined_axes;

  static strided_copies copies(const prepare_context&, const attributes&);
  static void gradient(gradient_context&, const attributes&);
};

#if WEFT_DEFINITIONS

WEFT_DECL strided_copies split_op::copies(const prepare_context& p, const attributes& a) {
  const shape& from = p.inputs[0].extents;
  box_copies all(p);
  box_walk at;
  for (std::uint32_t o = 0; o < p.node.outputs.size(); ++o) {
    all.copy(p.outputs[o].extents, 0, at, o, {});
    a.advance(at, p.outputs[o].extents);
  }
  if (at.begin[a.axis] != from[a.axis])
    throw error(error_code::invalid_argument, name,
                {"axis ", std::size_t{a.axis}, " of ", to_string(from), " cannot be split into ", p.node.outputs.size(),
                 " equal parts"});
  return all;
}

WEFT_DECL void concat_op::gradient(gradient_context& g, const attributes& a) {
  sequence<value_info> outputs;
  for (std::size_t k = 0; k < g.node.inputs.size(); ++k) outputs.push_back(g.input(k).info());
  const symbol parts = record<split_op>({g.upstream()}, outputs, a);
  for (std::uint32_t k = 0; k < g.node.inputs.size(); ++k) g.set_gradient(k, parts.output(k));
}

WEFT_DECL void split_op::gradient(gradient_context& g, const attributes& a) {
  sequence<symbol> parts;
  for (std::size_t o = 0; o < g.node.outputs.size(); ++o) {
    const symbol part = g.output(o);
    parts.push_back(g.has_upstream(o) ? g.upstream(o) : fill(*part.builder(), part.info(), 0));
  }
  g.set_gradient(0, record<concat_op>(parts, {g.input(0).info()}, a));
}

#endif

WEFT_COLD_END

namespace detail {

template <class T, class To, class... X>
auto concat_of(std::size_t axis, const X&... x) {
  shape extents = To::spec;
  if constexpr (!(X::symbolic || ...)) {
    std::int64_t sum = 0;
    for (const shape* s : {&x.extents()...}) sum += (*s)[axis], extents = *s;
    extents[axis] = sum;
  }
  return call_operation<concat_op, T, To>(extents, {axis}, x...);
}

template <class T, class To, class X, std::size_t... Part>
auto parts_of(const X& x, std::size_t axis, indices<Part...>) {
  const shape part = resized(extents_of(x), axis, extents_of(x)[axis] / static_cast<std::int64_t>(sizeof...(Part)));
  return call_operation<split_op>(std::tuple{(static_cast<void>(Part), typed_result<T, To>{part})...}, {axis}, x);
}

}  // namespace detail

/// Joins operands of one element type along an axis (tf.concat): `[a, n]` and `[b, n]` along axis 0 become `[a + b,
/// n]`. All other extents must be equal. Throws invalid_argument if run-time extents of one name differ.
template <int Axis, Expression First, Expression... Rest>
[[nodiscard]] auto concat(const First& first, const Rest&... rest) {
  using T = value_t<First>;
  using D = dims_t<First>;
  constexpr bool there = !axis_out_of_range<D, Axis>::value;
  constexpr std::size_t axis = there ? axis_number<D, Axis> : 0;
  using mistake = first_mistake<axis_out_of_range<D, Axis>, element_types_differ<T, value_t<Rest>>...,
                                extents_beside_axis_differ<D, dims_t<Rest>, axis>...>;
  static_assert(correct<mistake>, "concat: needs an axis, and operands of one type that differ only along it");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<T, D>(first, rest...);
  } else {
    using To = with_extent<D, axis, (extent_of<D, axis>() + ... + extent_of<dims_t<Rest>, axis>())>;
    return detail::concat_of<T, To>(axis, materialize(first), materialize(rest)...);
  }
}

/// Splits an axis into `Count` equal parts, returned as a tuple (tf.split): `auto [a, b] = split<1, 2>(x)`. Throws
/// invalid_argument, in a graph when a step runs, if a run-time extent is not divisible.
template <int Axis, int Count, Expression Expr>
[[nodiscard]] auto split(const Expr& e) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  constexpr std::size_t axis = axis_out_of_range<D, Axis>::value ? 0 : axis_number<D, Axis>;
  using mistake = first_mistake<axis_out_of_range<D, Axis>, axis_has_no_equal_parts<D, axis, Count>>;
  static_assert(correct<mistake>, "split: split<axis, count>(x) needs an axis whose extent is a multiple of count");
  using parts = typename detail::make_indices<static_cast<std::size_t>(Count > 0 ? Count : 1)>::type;
  if constexpr (!correct<mistake>) {
    return [&]<std::size_t... Part>(detail::indices<Part...>) {
      return std::tuple{(static_cast<void>(Part), detail::after_mistake<T, D>(e))...};
    }(parts());
  } else {
    using To = with_extent<D, axis, extent_of<D, axis>() / extent<Count>>;
    return detail::parts_of<T, To>(materialize(e), axis, parts());
  }
}

}  // namespace weft
