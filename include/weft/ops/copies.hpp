#pragma once

#include <tuple>

#include <weft/device/cpu/strided_copy.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/lowering.hpp>

/// Operations that only move elements. Each says which boxes of its operands go to which of its results
/// (`Op::copies`), once for all kinds of devices.
namespace weft {

WEFT_COLD_BEGIN

/// Where a box begins: at `begin` of an axis, and at 0 of the others.
struct box_start {
  std::int64_t at[max_rank]{};
  box_start() = default;
  box_start(std::size_t axis, std::int64_t begin) { at[axis] = begin; }
};

/// What an operation that only moves elements does, said box by box.
class box_copies : public strided_copies {
 public:
  explicit box_copies(const prepare_context& p) : strided_copies(p.inputs[0].type), p_(p) {}

  /// Copies a box of these extents from an operand to a result.
  void copy(const shape& extents, std::uint32_t operand, const box_start& from, std::uint32_t result,
            const box_start& to) {
    strided_region r;
    r.from = operand, r.to = result;
    r.extents = extents;
    r.ends[0] = whole(p_.inputs[operand].extents);
    r.ends[1] = whole(p_.outputs[result].extents);
    for (std::size_t i = 0; i < extents.rank; ++i)
      r.from_offset += from.at[i] * r.from_stride()[i], r.to_offset += to.at[i] * r.to_stride()[i];
    regions.push_back(r);
  }
  /// Gives all other elements of the results a value, by its bits.
  void fill_rest(std::uint64_t bits) { fills = true, fill = bits; }

 private:
  device::operand whole(const shape& s) const { return device::broadcast_operand(type, s, s); }

  const prepare_context& p_;
};

namespace detail {

template <class Op>
strided_copies copies_declared(const prepare_context& p) {
  if constexpr (has_attributes<Op>)
    return Op::copies(p, attributes_of<Op>(p.c));
  else
    return Op::copies(p);
}

/// An operand of these extents with its axes in another order.
strided_copies permuted(dtype, const shape& from, const shape& to, const std::int64_t* order);
symbol record_transpose(symbol, const sequence<std::int64_t>& axes);

}  // namespace detail

/// The attributes are the operand's axes in their new order.
struct transpose_op {
  static constexpr const char* name = "transpose";

  static strided_copies copies(const prepare_context& p) {
    return detail::permuted(p.inputs[0].type, p.inputs[0].extents, p.outputs[0].extents, p.c.attributes.data());
  }
  static void gradient(gradient_context&);
};

/// Part of an axis: as much as the output has, from `begin` on.
struct slice_op {
  static constexpr const char* name = "slice";
  struct attributes {
    attribute<std::size_t> axis;
    attribute<std::int64_t> begin;
  };

  static strided_copies copies(const prepare_context&, const attributes&);
  static void gradient(gradient_context&, const attributes&);
};

/// An operand among zeros or other equal elements: at `before` of an axis. literals: their bits, if they are not zeros.
struct pad_op {
  static constexpr const char* name = "pad";
  struct attributes {
    attribute<std::size_t> axis;
    attribute<std::int64_t> before;
  };

  static strided_copies copies(const prepare_context& p, const attributes& a) {
    box_copies all(p);
    all.fill_rest(p.c.literals.empty() ? 0 : p.c.literals[0]);
    all.copy(p.inputs[0].extents, 0, {}, 0, {a.axis, a.before});
    return all;
  }
  static void gradient(gradient_context& g, const attributes& a) {
    g.set_gradient(0, record<slice_op>({g.upstream()}, g.input(0).info(), {a.axis, a.before}));
  }
};

/// Operands one behind the other along an axis.
struct concat_op {
  static constexpr const char* name = "concat";
  using attributes = axis_attribute;

  static strided_copies copies(const prepare_context& p, const attributes& a) {
    box_copies all(p);
    std::int64_t begin = 0;
    for (std::uint32_t k = 0; k < p.c.inputs.size(); ++k) {
      const shape& part = p.inputs[k].extents;
      all.copy(part, k, {}, 0, {a.axis, begin});
      begin += part[a.axis];
    }
    return all;
  }
  static void gradient(gradient_context&, const attributes&);
};

/// An axis in parts, each as long as its output's.
struct split_op {
  static constexpr const char* name = "split";
  using attributes = axis_attribute;

  static strided_copies copies(const prepare_context&, const attributes&);
  static void gradient(gradient_context&, const attributes&);
};

#if WEFT_DEFINITIONS

namespace detail {

WEFT_DECL kernel* prepare_copies(const prepare_context& p) {
  sequence<std::size_t> elements;
  for (std::size_t o = 0; o < p.c.outputs.size(); ++o) elements.push_back(p.outputs[o].extents.elements());
  return new device::strided_copy_kernel(
      p.c.op->name, p.c.op->copies(p), {p.input_slots, p.input_slots + p.c.inputs.size()},
      {p.output_slots, p.output_slots + p.c.outputs.size()}, static_cast<sequence<std::size_t>&&>(elements));
}

WEFT_DECL strided_copies permuted(dtype type, const shape& from, const shape& to, const std::int64_t* order) {
  strided_copies all(type);
  strided_region r;
  r.extents = to;
  const device::operand all_of = device::broadcast_operand(type, from, from);
  for (std::size_t i = 0; i < to.rank; ++i) r.ends[0].stride[i] = all_of.stride[order[i]];
  r.ends[1] = device::broadcast_operand(type, to, to);
  all.regions.push_back(r);
  return all;
}

WEFT_DECL symbol record_transpose(symbol x, const sequence<std::int64_t>& axes) {
  shape extents;
  for (auto axis : axes) extents.push_back(x.extents()[static_cast<std::size_t>(axis)]);
  return record_call(operation_of<transpose_op>, {x}, {x.type(), extents}, axes);
}
}  // namespace detail

WEFT_DECL void transpose_op::gradient(gradient_context& g) {
  sequence<std::int64_t> inverse(g.c.attributes.size());
  for (std::size_t i = 0; i < inverse.size(); ++i)
    inverse[static_cast<std::size_t>(g.c.attributes[i])] = static_cast<std::int64_t>(i);
  g.set_gradient(0, detail::record_transpose(g.upstream(), inverse));
}

WEFT_DECL strided_copies slice_op::copies(const prepare_context& p, const attributes& a) {
  const shape &from = p.inputs[0].extents, &part = p.outputs[0].extents;
  if (a.begin + part[a.axis] > from[a.axis])
    throw error(error_code::out_of_range, name,
                {"elements ", std::int64_t{a.begin}, " to ", a.begin + part[a.axis], " are asked for of axis ",
                 std::size_t{a.axis}, " of ", to_string(from)});
  box_copies all(p);
  all.copy(part, 0, {a.axis, a.begin}, 0, {});
  return all;
}

WEFT_DECL void slice_op::gradient(gradient_context& g, const attributes& a) {
  g.set_gradient(0, record<pad_op>({g.upstream()}, g.input(0).info(), {a.axis, a.begin}));
}

WEFT_DECL strided_copies split_op::copies(const prepare_context& p, const attributes& a) {
  const shape& from = p.inputs[0].extents;
  box_copies all(p);
  std::int64_t begin = 0;
  for (std::uint32_t o = 0; o < p.c.outputs.size(); ++o) {
    const shape& part = p.outputs[o].extents;
    all.copy(part, 0, {a.axis, begin}, o, {});
    begin += part[a.axis];
  }
  if (begin != from[a.axis])
    throw error(
        error_code::invalid_argument, name,
        {"axis ", std::size_t{a.axis}, " of ", to_string(from), " is not ", p.c.outputs.size(), " equal parts"});
  return all;
}

WEFT_DECL void concat_op::gradient(gradient_context& g, const attributes& a) {
  sequence<value_info> outputs;
  for (std::size_t k = 0; k < g.c.inputs.size(); ++k) outputs.push_back(g.input(k).info());
  const symbol parts = record<split_op>({g.upstream()}, outputs, a);
  for (std::uint32_t k = 0; k < g.c.inputs.size(); ++k) g.set_gradient(k, detail::output_of(parts, k));
}

WEFT_DECL void split_op::gradient(gradient_context& g, const attributes& a) {
  sequence<symbol> parts;
  for (std::size_t o = 0; o < g.c.outputs.size(); ++o) {
    const symbol part = g.output(o);
    parts.push_back(g.has_upstream(o) ? g.upstream(o) : detail::record_fill(*part.builder(), 0, part.info()));
  }
  g.set_gradient(0, record<concat_op>(parts, {g.input(0).info()}, a));
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
    const auto x = materialize(e);
    sequence<std::int64_t> axes;
    shape extents;
    for (std::size_t i = 0; i < D::rank; ++i) {
      axes.push_back(static_cast<std::int64_t>(pick::axis(i)));
      extents.push_back(extents_of(x)[pick::axis(i)]);
    }
    return detail::record_or_run<value_t<Expr>, To, device_t<Expr>>(operation_of<transpose_op>, extents, axes, x);
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
    using To = with_extent<D, axis, (extent_of<D, axis>() + ... + extent_of<dims_t<Rest>, axis>())>;
    if constexpr (First::symbolic || (Rest::symbolic || ...)) gpu::compile_kernels<gpu::moves, T>();
    return detail::concat_of<T, To>(axis, materialize(first), materialize(rest)...);
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
    using To = with_extent<D, axis, Size>;
    if constexpr (Expr::symbolic) gpu::compile_kernels<gpu::moves, T>();
    const auto x = materialize(e);
    return call_operation<slice_op, T, To>(resized(extents_of(x), axis, Size), {axis, Begin}, x);
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
    using To = with_extent<D, axis, detail::longer_extent<extent_of<D, axis>(), Before + After>()>;
    if constexpr (Expr::symbolic) gpu::compile_kernels<gpu::moves, T>();
    const auto x = materialize(e);
    return call_operation<pad_op, T, To>(resized(extents_of(x), axis, extents_of(x)[axis] + Before + After),
                                         {axis, Before}, x);
  }
}

namespace detail {

template <class T, class To, class X, std::size_t... Part>
auto parts_of(const X& x, std::size_t axis, indices<Part...>) {
  const shape part = resized(extents_of(x), axis, extents_of(x)[axis] / static_cast<std::int64_t>(sizeof...(Part)));
  return call_operation<split_op>(std::tuple{(static_cast<void>(Part), typed_result<T, To>{part})...}, {axis}, x);
}

}  // namespace detail

/// An axis in `Count` equal parts (tf.split), a tuple of them: `auto [a, b] = split<1, 2>(x)`. Throws invalid_argument,
/// in a graph when a step runs, if a run-time extent has no such parts.
template <int Axis, int Count, Expression Expr>
[[nodiscard]] auto split(const Expr& e) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  constexpr std::size_t axis = axis_out_of_range<D, Axis>::value ? 0 : axis_number<D, Axis>;
  using mistake = first_mistake<axis_out_of_range<D, Axis>, axis_has_no_equal_parts<D, axis, Count>>;
  static_assert(correct<mistake>, "split: split<axis, count>(x) names an axis that has so many equal parts");
  using parts = typename detail::make_indices<(Count > 0 ? Count : 1)>::type;
  if constexpr (!correct<mistake>) {
    return [&]<std::size_t... Part>(detail::indices<Part...>) {
      return std::tuple{(static_cast<void>(Part), detail::after_mistake<T, D>(e))...};
    }
    (parts());
  } else {
    using To = with_extent<D, axis, extent_of<D, axis>() / extent<Count>>;
    if constexpr (Expr::symbolic) gpu::compile_kernels<gpu::moves, T>();
    return detail::parts_of<T, To>(materialize(e), axis, parts());
  }
}

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/copies.hpp>
#endif
