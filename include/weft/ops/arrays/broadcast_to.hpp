// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/box_copies.hpp>
#include <weft/ops/arrays/reshape.hpp>

namespace weft {

/// Broadcasts the operand to larger extents, by the rules of operators (tf.broadcast_to):
/// `broadcast_to<dims<dyn<"batch">, 8>>(x)` of a scalar, `[8]` or `[batch, 1]`. In a step, fed values determine the
/// named extents; throws failed_precondition if none does.
template <class To, Expression Expr>
[[nodiscard]] auto broadcast_to(const Expr& e);

/// Broadcasts tensors to extents that the operand does not determine: `broadcast_to<dims<dyn<"batch">, 8>>(x, shape(32,
/// 8))`. Throws invalid_argument if they do not fit.
template <class To, Expression Expr>
  requires(!Expr::symbolic)
[[nodiscard]] auto broadcast_to(const Expr& e, const shape& extents);

/// Returns zeros of the operand's extents and element type, or of another type (tf.zeros_like):
/// `zeros_like<std::int32_t>(x)`. Does not compute the operand.
template <class T = void, Expression Expr>
[[nodiscard]] auto zeros_like(const Expr& e);

/// Returns ones of the operand's extents (tf.ones_like).
template <class T = void, Expression Expr>
[[nodiscard]] auto ones_like(const Expr& e);

namespace detail {

template <class From, class To>
constexpr bool broadcasts_to() {
  if (From::rank > To::rank) return false;
  for (std::size_t i = 1; i <= From::rank; ++i)
    if (From::spec[From::rank - i] != To::spec[To::rank - i] && From::spec[From::rank - i] != 1) return false;
  return true;
}

template <class From, class To>
struct extents_do_not_broadcast_to : mistake<!broadcasts_to<From, To>()> {};

}  // namespace detail

using detail::extents_do_not_broadcast_to;

/// The first mistake in a broadcast, if any.
template <class From, class To>
using broadcast_to_mistake = first_mistake<extents_are_not_valid<To>, extents_do_not_broadcast_to<From, To>>;

WEFT_COLD_BEGIN

/// Repeats an operand to fill the output's extents.
struct broadcast_to_op {
  static constexpr const char* name = "broadcast_to";
  static constexpr const char* onnx = "Expand(a, shape)";

  static strided_copies copies(const prepare_context&);
  static void gradient(gradient_context&);
};

namespace detail {

/// Throws invalid_argument unless each run-time extent of the operand is 1 or equals the result's.
void check_broadcast(const shape& from, const shape& to);

#if WEFT_DEFINITIONS

WEFT_DECL void check_broadcast(const shape& from, const shape& to) {
  bool fits = from.rank <= to.rank;
  for (std::size_t i = 1; fits && i <= from.rank; ++i)
    fits = from[from.rank - i] == to[to.rank - i] || from[from.rank - i] == 1;
  if (!fits)
    throw error(error_code::invalid_argument, broadcast_to_op::name,
                {to_string(from), " does not broadcast to ", to_string(to), ": each extent must be equal or 1"});
}

#endif

}  // namespace detail

#if WEFT_DEFINITIONS

WEFT_DECL strided_copies broadcast_to_op::copies(const prepare_context& p) {
  const shape &from = p.inputs[0].extents, &to = p.outputs[0].extents;
  detail::check_broadcast(from, to);
  const dtype type = p.inputs[0].type;
  return {type, to, device::broadcast_operand(type, from, to), device::broadcast_operand(type, to, to)};
}

WEFT_DECL void broadcast_to_op::gradient(gradient_context& g) {
  g.set_gradient(0, sum_to(g.upstream(), g.input(0).extents()));
}

#endif

WEFT_COLD_END

namespace detail {

/// Returns a number repeated to extents D. In a graph, floating-point numbers become a fill.
template <class T, class D>
node<T, dims_t<D>> filled(op_builder& where, T number) {
  remember_extents<D>(where);
  if constexpr (is_differentiable<T>) {
    return node<T, dims_t<D>>(
        weft::fill(where, {dtype_of<T>, D::spec}, static_cast<double>(static_cast<accumulator<T>>(number))));
  } else {
    gpu::compile_kernels<gpu::moves, T>();
    const symbol one = where.record_constant(&number, {dtype_of<T>, {}}, {});
    return node<T, dims_t<D>>(record<broadcast_to_op>({one}, {dtype_of<T>, D::spec}));
  }
}

template <class Type, class Expr, class Num>
auto filled_like(const Expr& e, Num number) {
  using T = std::conditional_t<std::is_void_v<Type>, value_t<Expr>, Type>;
  const auto x = materialize(e);
  const T one = static_cast<T>(number);
  if constexpr (Expr::symbolic)
    return filled<T, dims_t<Expr>>(*x.erased().builder(), one);
  else
    return broadcast_to<dims_t<Expr>>(tensor<T>(one), x.extents());
}

}  // namespace detail

template <class To, Expression Expr>
auto broadcast_to(const Expr& e) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  using mistake = broadcast_to_mistake<D, To>;
  constexpr bool unknown = !Expr::symbolic && detail::count_unknown<D, To>() > 0;
  static_assert(correct<mistake>,
                "broadcast_to: needs extents, dims<...>, each equal to the operand's unless that is 1");
  static_assert(
      !unknown,
      "broadcast_to: for tensors, pass the extents known at run time: broadcast_to<dims<...>>(x, shape(2, 3))");
  if constexpr (!correct<mistake> || unknown) {
    return detail::after_mistake<T, D>(e);
  } else if constexpr (Expr::symbolic) {
    const auto x = materialize(e);
    detail::remember_extents<To>(*x.erased().builder());
    return call_operation<broadcast_to_op, T, To>(To::spec, {}, x);
  } else {
    const auto x = materialize(e);
    return broadcast_to<To>(x, detail::told_extents(x.extents(), D::spec, To::spec, detail::definitions_of<To>));
  }
}

template <class To, Expression Expr>
  requires(!Expr::symbolic)
auto broadcast_to(const Expr& e, const shape& extents) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  using mistake = broadcast_to_mistake<D, To>;
  static_assert(correct<mistake>,
                "broadcast_to: needs extents, dims<...>, each equal to the operand's unless that is 1");
  if constexpr (!correct<mistake>) {
    return detail::after_mistake<T, D>(e);
  } else {
    const auto x = materialize(e);
    detail::check_fits("broadcast_to", To::spec, To::names, extents);
    return call_operation<broadcast_to_op, T, To>(extents, {}, x);
  }
}

WEFT_OTHER_CALLS(broadcast_to);  // broadcast_to<dims<2, 3>>(x), broadcast_to<dims<dyn<"n">, 3>>(x, shape(2, 3))

template <class T, Expression Expr>
auto zeros_like(const Expr& e) {
  return detail::filled_like<T>(e, 0);
}
template <class T, Expression Expr>
auto ones_like(const Expr& e) {
  return detail::filled_like<T>(e, 1);
}

}  // namespace weft
