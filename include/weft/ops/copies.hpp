#pragma once

#include <tuple>

#include <weft/device/cpu/strided_copy.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/lowering.hpp>

/// Operations that only move elements. Each says which boxes of its operands go to which of its results
/// (`Op::copies`), once for all kinds of devices.
namespace weft {
namespace detail {

WEFT_COLD_BEGIN

kernel* prepare_copies(const prepare_context&, strided_copies);

/// Where something begins along one axis, and at 0 along the others.
struct axis_start {
  std::int64_t at[max_rank]{};
  axis_start(std::size_t axis, std::int64_t begin) { at[axis] = begin; }
};

/// An operand of these extents with its axes in another order.
strided_copies permuted(dtype, const shape& from, const shape& to, const std::int64_t* order);
symbol record_transpose(symbol, const sequence<std::int64_t>& axes);
symbol record_slice(symbol x, std::size_t axis, std::int64_t begin, const shape& extents);
symbol record_pad(symbol x, std::size_t axis, std::int64_t before, const shape& extents);

}  // namespace detail

/// The attributes are the operand's axes in their new order.
struct transpose_op {
  static constexpr const char* name = "transpose";

  static strided_copies copies(const prepare_context& p) {
    return detail::permuted(p.inputs[0].type, p.inputs[0].extents, p.outputs[0].extents, p.c.attributes.data());
  }
  static kernel* prepare(const prepare_context& p) { return detail::prepare_copies(p, copies(p)); }
  static void gradient(gradient_context&);
};
inline constexpr operation transpose_operation = declare<transpose_op>();

/// Part of an axis: as much as the output has, from `begin` on.
struct slice_op {
  static constexpr const char* name = "slice";
  struct attributes {
    attribute<std::size_t> axis;
    attribute<std::int64_t> begin;
  };

  static strided_copies copies(const prepare_context& p, const attributes& a) {
    const shape &from = p.inputs[0].extents, &to = p.outputs[0].extents;
    if (a.begin + to[a.axis] > from[a.axis])
      throw error(error_code::out_of_range, name,
                  {"elements ", std::int64_t{a.begin}, " to ", a.begin + to[a.axis], " are asked for of axis ",
                   std::size_t{a.axis}, " of ", to_string(from)});
    strided_copies all(p.inputs[0].type);
    all.add(0, from, detail::axis_start(a.axis, a.begin).at, 0, to, nullptr, to);
    return all;
  }
  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return detail::prepare_copies(p, copies(p, a));
  }
  static void gradient(gradient_context& g, const attributes& a) {
    g.set_gradient(0, detail::record_pad(g.upstream(), a.axis, a.begin, g.input(0).extents()));
  }
};
inline constexpr operation slice_operation = declare<slice_op>();

/// An operand among zeros or other equal elements: at `before` of an axis. literals: their bits, if they are not zeros.
struct pad_op {
  static constexpr const char* name = "pad";
  struct attributes {
    attribute<std::size_t> axis;
    attribute<std::int64_t> before;
  };

  static strided_copies copies(const prepare_context& p, const attributes& a) {
    const shape &from = p.inputs[0].extents, &to = p.outputs[0].extents;
    strided_copies all(p.inputs[0].type);
    all.fills = true;
    if (!p.c.literals.empty()) all.fill = p.c.literals[0];
    all.add(0, from, nullptr, 0, to, detail::axis_start(a.axis, a.before).at, from);
    return all;
  }
  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return detail::prepare_copies(p, copies(p, a));
  }
  static void gradient(gradient_context& g, const attributes& a) {
    g.set_gradient(0, detail::record_slice(g.upstream(), a.axis, a.before, g.input(0).extents()));
  }
};
inline constexpr operation pad_operation = declare<pad_op>();

/// Operands one behind the other along an axis.
struct concat_op {
  static constexpr const char* name = "concat";
  struct attributes {
    attribute<std::size_t> axis;
  };

  static strided_copies copies(const prepare_context& p, const attributes& a) {
    const shape& to = p.outputs[0].extents;
    strided_copies all(p.inputs[0].type);
    std::int64_t begin = 0;
    for (std::uint32_t k = 0; k < p.c.inputs.size(); ++k) {
      const shape& from = p.inputs[k].extents;
      all.add(k, from, nullptr, 0, to, detail::axis_start(a.axis, begin).at, from);
      begin += from[a.axis];
    }
    return all;
  }
  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return detail::prepare_copies(p, copies(p, a));
  }
  static void gradient(gradient_context&, const attributes&);
};
inline constexpr operation concat_operation = declare<concat_op>();

/// An axis in parts, each as long as its output's.
struct split_op {
  static constexpr const char* name = "split";
  using attributes = concat_op::attributes;

  static strided_copies copies(const prepare_context& p, const attributes& a) {
    const shape& from = p.inputs[0].extents;
    strided_copies all(p.inputs[0].type);
    std::int64_t begin = 0;
    for (std::uint32_t o = 0; o < p.c.outputs.size(); ++o) {
      const shape& to = p.outputs[o].extents;
      all.add(0, from, detail::axis_start(a.axis, begin).at, o, to, nullptr, to);
      begin += to[a.axis];
    }
    if (begin != from[a.axis])
      throw error(
          error_code::invalid_argument, name,
          {"axis ", std::size_t{a.axis}, " of ", to_string(from), " is not ", p.c.outputs.size(), " equal parts"});
    return all;
  }
  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return detail::prepare_copies(p, copies(p, a));
  }
  static void gradient(gradient_context&, const attributes&);
};
inline constexpr operation split_operation = declare<split_op>();

#if WEFT_BODIES

namespace detail {

WEFT_DECL kernel* prepare_copies(const prepare_context& p, strided_copies what) {
  sequence<std::size_t> elements;
  for (std::size_t o = 0; o < p.c.outputs.size(); ++o) elements.push_back(p.outputs[o].extents.elements());
  return new device::strided_copy_kernel(
      p.c.op->name, static_cast<strided_copies&&>(what), {p.input_slots, p.input_slots + p.c.inputs.size()},
      {p.output_slots, p.output_slots + p.c.outputs.size()}, static_cast<sequence<std::size_t>&&>(elements));
}

WEFT_DECL strided_copies permuted(dtype type, const shape& from, const shape& to, const std::int64_t* order) {
  strided_copies all(type);
  strided_region& r = all.add(0, from, nullptr, 0, to, nullptr, to);
  std::int64_t stride[max_rank];
  strides_of(from, stride);
  for (std::size_t i = 0; i < to.rank; ++i) r.from_stride[i] = stride[order[i]];
  return all;
}

WEFT_DECL symbol record_transpose(symbol x, const sequence<std::int64_t>& axes) {
  shape extents;
  for (auto axis : axes) extents.push_back(x.extents()[static_cast<std::size_t>(axis)]);
  return record_call(transpose_operation, {x}, {x.type(), extents}, axes);
}
WEFT_DECL symbol record_slice(symbol x, std::size_t axis, std::int64_t begin, const shape& extents) {
  return record_call(slice_operation, {x}, {x.type(), extents}, words_of(slice_op::attributes{axis, begin}));
}
WEFT_DECL symbol record_pad(symbol x, std::size_t axis, std::int64_t before, const shape& extents) {
  return record_call(pad_operation, {x}, {x.type(), extents}, words_of(pad_op::attributes{axis, before}));
}

}  // namespace detail

WEFT_DECL void transpose_op::gradient(gradient_context& g) {
  sequence<std::int64_t> inverse(g.c.attributes.size());
  for (std::size_t i = 0; i < inverse.size(); ++i)
    inverse[static_cast<std::size_t>(g.c.attributes[i])] = static_cast<std::int64_t>(i);
  g.set_gradient(0, detail::record_transpose(g.upstream(), inverse));
}

WEFT_DECL void concat_op::gradient(gradient_context& g, const attributes& a) {
  node_def c;
  c.op = &split_operation;
  c.inputs = {g.upstream().id()};
  for (std::size_t k = 0; k < g.c.inputs.size(); ++k) c.outputs.push_back(g.input(k).info());
  c.attributes = words_of(a);
  const symbol parts = g.upstream().builder()->record(static_cast<node_def&&>(c));
  for (std::uint32_t k = 0; k < g.c.inputs.size(); ++k)
    g.set_gradient(k, symbol(parts.builder(), {parts.id().node, k}));
}

WEFT_DECL void split_op::gradient(gradient_context& g, const attributes& a) {
  node_def c;
  c.op = &concat_operation;
  for (std::size_t o = 0; o < g.c.outputs.size(); ++o) {
    const symbol part = g.output(o);
    const symbol up = g.has_upstream(o) ? g.upstream(o) : detail::record_fill(*part.builder(), 0, part.info());
    c.inputs.push_back(up.id());
  }
  c.outputs = {g.input(0).info()};
  c.attributes = words_of(a);
  g.set_gradient(0, g.output(0).builder()->record(static_cast<node_def&&>(c)));
}

#endif

WEFT_COLD_END

namespace detail {

template <class Dims, std::size_t Axis, auto Extent, class Indices>
struct with_extent_at;
template <class Dims, std::size_t Axis, auto Extent, std::size_t... Index>
struct with_extent_at<Dims, Axis, Extent, indices<Index...>> {
  template <std::size_t Here>
  static constexpr auto extent() {
    if constexpr (Here == Axis)
      return Extent;
    else
      return extent_at<Dims, Here>::value;
  }
  using type = dims<extent<Index>()...>;
};
/// `Dims` with another extent along an axis.
template <class Dims, std::size_t Axis, auto Extent>
using with_extent = typename with_extent_at<Dims, Axis, Extent, typename make_indices<Dims::rank>::type>::type;

/// A known extent as one that others are computed with.
template <auto Extent>
constexpr auto as_operand() {
  if constexpr (extent_like<decltype(Extent)>)
    return Extent;
  else
    return extent<static_cast<std::int64_t>(Extent)>;
}
template <std::size_t Axis, class... Dims>
constexpr auto summed_extent() {
  if constexpr ((is_dynamic(extent_at<Dims, Axis>::value) || ...))
    return (as_operand<extent_at<Dims, Axis>::value>() + ...);
  else
    return (extent_at<Dims, Axis>::value + ...);
}
template <auto Extent, int More>
constexpr auto longer_extent() {
  if constexpr (is_dynamic(Extent) && More != 0)
    return Extent + extent<More>;
  else if constexpr (is_dynamic(Extent))
    return Extent;
  else
    return Extent + More;
}
template <auto Extent, int Count>
constexpr auto part_of_extent() {
  if constexpr (is_dynamic(Extent))
    return Extent / extent<Count>;
  else
    return Extent / Count;
}

template <int... Axes>
struct pick_listed {
  static constexpr std::size_t axis(std::size_t i) {
    constexpr int axes[] = {Axes..., 0};
    return static_cast<std::size_t>(axes[i] < 0 ? axes[i] + static_cast<int>(sizeof...(Axes)) : axes[i]);
  }
};
template <std::size_t Rank>
struct pick_reversed {
  static constexpr std::size_t axis(std::size_t i) { return Rank - 1 - i; }
};

constexpr bool agree_beside(const shape& a, const shape& b, std::size_t axis) {
  if (a.rank != b.rank) return false;
  for (std::size_t i = 0; i < a.rank; ++i)
    if (i != axis && a[i] != b[i]) return false;
  return true;
}

}  // namespace detail

/// The axes of a transpose are those of its operand, each once.
template <class Dims, int... Axes>
struct axes_not_a_permutation
    : mistake<sizeof...(Axes) != Dims::rank || detail::axis_mask<Axes...>(Dims::rank) == detail::invalid_axes> {};

/// What is joined has the same extents along all other axes.
template <class A, class B, std::size_t Axis>
struct extents_beside_axis_differ : mistake<!detail::agree_beside(A::spec, B::spec, Axis)> {};

/// A slice lies within its axis, where that is known.
template <class Dims, std::size_t Axis, int Begin, int Size>
struct slice_is_out_of_range
    : mistake<(Begin < 0 || Size < 0 || (Dims::spec[Axis] >= 0 && Begin + Size > Dims::spec[Axis]))> {};

/// An axis is split into equal parts.
template <class Dims, std::size_t Axis, int Count>
struct axis_has_no_equal_parts : mistake<(Count < 1 || (Dims::spec[Axis] >= 0 && Dims::spec[Axis] % Count != 0))> {};

/// Padding is at least 0.
template <int Before, int After>
struct padding_is_negative : mistake<(Before < 0 || After < 0)> {};

namespace detail {

template <class T, class To, class Dev, class... X>
auto concat_of(std::size_t axis, const X&... x) {
  shape extents = To::spec;
  if constexpr (!(X::symbolic || ...)) {
    std::int64_t sum = 0;
    for (const shape* s : {&x.extents()...}) sum += (*s)[axis], extents = *s;
    extents[axis] = sum;
  }
  return record_or_run<T, To, Dev>(concat_operation, extents, words_of(concat_op::attributes{axis}), x...);
}

/// The operand's extents, with another one along an axis: To's, or what it says of a tensor.
template <class To, class X>
shape resized(const X& x, std::size_t axis, std::int64_t extent) {
  if constexpr (X::symbolic) {
    return To::spec;
  } else {
    shape extents = x.extents();
    extents[axis] = extent;
    return extents;
  }
}

}  // namespace detail

/// The axes in another order, `transpose<1, 0>(x)`; in reverse where none are given (tf.transpose).
template <int... Axes, Expression Expr>
[[nodiscard]] auto transpose(const Expr& e) {
  using D = dims_t<Expr>;
  if constexpr (sizeof...(Axes) > 0)
    static_assert(correct<axes_not_a_permutation<D, Axes...>>, "transpose: name each axis once");
  if constexpr (sizeof...(Axes) > 0 && axes_not_a_permutation<D, Axes...>::value) {
    return detail::after_mistake<value_t<Expr>, D>(e);
  } else {
    using pick = std::conditional_t<sizeof...(Axes) == 0, detail::pick_reversed<D::rank>, detail::pick_listed<Axes...>>;
    using To = detail::select<D, D::rank, pick>;
    if constexpr (Expr::symbolic) gpu::compile_kernels<gpu::moves, value_t<Expr>>();
    const auto x = detail::materialize(e);
    sequence<std::int64_t> axes;
    shape extents;
    for (std::size_t i = 0; i < D::rank; ++i) {
      axes.push_back(static_cast<std::int64_t>(pick::axis(i)));
      extents.push_back(detail::extents_of(x)[pick::axis(i)]);
    }
    return detail::record_or_run<value_t<Expr>, To, device_t<Expr>>(transpose_operation, extents, axes, x);
  }
}

/// Operands of one element type, one behind the other along an axis (tf.concat): of `[a, n]` and `[b, n]` along axis 0
/// `[a + b, n]`. All other extents are equal. Throws invalid_argument where run-time extents of one name are not.
template <int Axis, Expression First, Expression... Rest>
[[nodiscard]] auto concat(const First& first, const Rest&... rest) {
  using T = value_t<First>;
  using D = dims_t<First>;
  constexpr bool there = !axis_out_of_range<D, Axis>::value;
  constexpr std::size_t axis = there ? axis_number<D, Axis> : 0;
  using mistake = first_mistake<axis_out_of_range<D, Axis>, element_types_differ<T, value_t<Rest>>...,
                                extents_beside_axis_differ<D, dims_t<Rest>, axis>...>;
  static_assert(correct<mistake>, "concat: needs an axis, and operands of one type that differ along it alone");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<T, D>(first, rest...);
  } else {
    using To = detail::with_extent<D, axis, detail::summed_extent<axis, D, dims_t<Rest>...>()>;
    if constexpr (First::symbolic || (Rest::symbolic || ...)) gpu::compile_kernels<gpu::moves, T>();
    return detail::concat_of<T, To, device_t<First>>(axis, detail::materialize(first), detail::materialize(rest)...);
  }
}

/// `Size` elements of an axis, from the one of number `Begin` on (tf.slice): `slice<0, 2, 3>(x)` of `[8, n]` is `[3,
/// n]`. Throws out_of_range if a run-time extent is shorter.
template <int Axis, int Begin, int Size, Expression Expr>
[[nodiscard]] auto slice(const Expr& e) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  constexpr std::size_t axis = axis_out_of_range<D, Axis>::value ? 0 : axis_number<D, Axis>;
  using mistake = first_mistake<axis_out_of_range<D, Axis>, slice_is_out_of_range<D, axis, Begin, Size>>;
  static_assert(correct<mistake>, "slice: slice<axis, begin, size>(x) lies within the axis");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<T, D>(e);
  } else {
    using To = detail::with_extent<D, axis, Size>;
    if constexpr (Expr::symbolic) gpu::compile_kernels<gpu::moves, T>();
    const auto x = detail::materialize(e);
    return detail::record_or_run<T, To, device_t<Expr>>(slice_operation, detail::resized<To>(x, axis, Size),
                                                        words_of(slice_op::attributes{axis, Begin}), x);
  }
}

/// Zeros before and behind an axis (tf.pad): `pad<1, 2, 0>(x)` of `[n, 8]` is `[n, 10]`.
template <int Axis, int Before, int After, Expression Expr>
[[nodiscard]] auto pad(const Expr& e) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  constexpr std::size_t axis = axis_out_of_range<D, Axis>::value ? 0 : axis_number<D, Axis>;
  using mistake = first_mistake<axis_out_of_range<D, Axis>, padding_is_negative<Before, After>>;
  static_assert(correct<mistake>, "pad: pad<axis, before, behind>(x) names an axis, and counts from 0");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<T, D>(e);
  } else {
    using To = detail::with_extent<D, axis, detail::longer_extent<detail::extent_at<D, axis>::value, Before + After>()>;
    if constexpr (Expr::symbolic) gpu::compile_kernels<gpu::moves, T>();
    const auto x = detail::materialize(e);
    return detail::record_or_run<T, To, device_t<Expr>>(
        pad_operation, detail::resized<To>(x, axis, detail::extents_of(x)[axis] + Before + After),
        words_of(pad_op::attributes{axis, Before}), x);
  }
}

/// An axis in `Count` equal parts (tf.split), a tuple of them: `auto [a, b] = split<1, 2>(x)`. In a graph only.
template <int Axis, int Count, Expression Expr>
[[nodiscard]] auto split(const Expr& e) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  constexpr std::size_t axis = axis_out_of_range<D, Axis>::value ? 0 : axis_number<D, Axis>;
  using mistake =
      first_mistake<axis_out_of_range<D, Axis>, axis_has_no_equal_parts<D, axis, Count>, value_not_in_a_graph<Expr>>;
  static_assert(correct<mistake>, "split: split<axis, count>(x) of a value of a graph has equal parts");
  if constexpr (!correct<mistake>) {
    return std::tuple{detail::after_mistake<T, D>(e)};
  } else {
    using To = detail::with_extent<D, axis, detail::part_of_extent<detail::extent_at<D, axis>::value, Count>()>;
    gpu::compile_kernels<gpu::moves, T>();
    node_def c;
    c.op = &split_operation;
    for (int i = 0; i < Count; ++i) c.outputs.push_back({dtype_of<T>, To::spec});
    c.attributes = words_of(split_op::attributes{axis});
    const auto x = detail::materialize(e);
    const detail::operand_source source = detail::source_of(x);
    const symbol first = detail::record_operation(static_cast<node_def&&>(c), &source, 1);
    detail::remember_formulas<To>(*first.builder());
    return [&]<std::size_t... Part>(detail::indices<Part...>) {
      return std::tuple{detail::make_node<T, To, device_t<Expr>>(
          symbol(first.builder(), {first.id().node, static_cast<std::uint32_t>(Part)}))...};
    }
    (typename detail::make_indices<Count>::type());
  }
}

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/copies.hpp>
#endif
