// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include <weft/graph/loop_gradient.hpp>
#include <weft/graph/loop_kernel.hpp>
#include <weft/graph/loop_operation.hpp>
#include <weft/ops/arrays/transpose.hpp>

/// Operands that while_loop and scan share.
namespace weft {

/// Passes a value to the body of while_loop or scan that is the same in all iterations. The body receives it but does
/// not return it. A body can use the value without this, as all others of the graph.
template <Expression X>
[[nodiscard]] auto invariant(const X& x) {
  return loop_invariant<X>{x};
}

/// The body must return the loop variables in order, with unchanged element types and extents.
template <class Variables, class Results>
struct loop_variables_change : mistake<!std::is_same_v<Variables, Results>> {};

WEFT_COLD_BEGIN

namespace detail {

/// Instantiates the GPU kernels that gradients of loops require in addition to those of their subgraphs: transposes of
/// matrices.
template <class... X>
void compile_loop_kernels() {
  if constexpr ((std::is_same_v<value_t<X>, float> || ...)) gpu::compile_kernels<gpu::moves, float>();
}

/// How a loop uses an operand: it carries a value from iteration to iteration, or passes a row, or the same value, to
/// each of them.
enum class loop_role : unsigned char { carry, rows, invariant };

template <class X>
struct loop_operand {
  using expression = X;
  static constexpr loop_role role = loop_role::carry;
};
template <class X>
struct loop_operand<loop_invariant<X>> {
  using expression = X;
  static constexpr loop_role role = loop_role::invariant;
};
template <class X>
using operand_expression = typename loop_operand<X>::expression;
template <class X>
inline constexpr loop_role role_of = loop_operand<X>::role;
template <class X>
inline constexpr bool is_carry = role_of<X> == loop_role::carry;
template <class X>
inline constexpr bool is_rows = role_of<X> == loop_role::rows;

template <class X>
const auto& operand_value(const X& x) {
  if constexpr (Expression<X>)
    return x;
  else
    return x.value;
}

/// Returns the values of carries, out of those of all operands.
template <class... X, class... Values>
auto carries_among(const std::tuple<Values...>& all) {
  const auto one = []<class V>(const auto carry, const V& v) {
    if constexpr (carry)
      return std::tuple<V>(v);
    else
      return std::tuple<>();
  };
  return std::apply([&](const auto&... v) { return std::tuple_cat(one(std::bool_constant<is_carry<X>>(), v)...); },
                    all);
}
/// A tuple of the carries.
template <class... X>
using carries_of = decltype(carries_among<X...>(std::declval<const std::tuple<operand_expression<X>...>&>()));

template <class R>
struct as_tuple_of_results {
  using type = std::tuple<R>;
};
template <class... R>
struct as_tuple_of_results<std::tuple<R...>> {
  using type = std::tuple<R...>;
};
template <class X>
auto as_tuple(const X& results) {
  if constexpr (Expression<X>)
    return std::tuple<X>(results);
  else
    return results;
}
template <class Tuple>
auto one_or_tuple(const Tuple& t) {
  if constexpr (std::tuple_size_v<Tuple> == 1)
    return std::get<0>(t);
  else
    return t;
}

// ---- over tensors ----

template <class X, class T>
auto row_at(const T& all, std::int64_t row);

/// Runs a body with the values of operands, until `next_row(n, values)` returns -1 for iteration n. `keep(n, row,
/// results)` receives the results. Returns the carries.
template <class... X, class Body, class... Values, class NextRow, class Keep>
auto run_loop(const Body& body, std::tuple<Values...> now, const NextRow& next_row, const Keep& keep) {
  std::int64_t row = 0;
  const auto of_row = [&]<class Operand>(std::type_identity<Operand>, const auto& v) {
    if constexpr (is_rows<Operand>)
      return row_at<Operand>(v, row);
    else
      return v;
  };
  for (std::int64_t n = 0; (row = next_row(n, now)) >= 0; ++n) {
    const auto next = as_tuple(
        each_result(std::apply([&](const auto&... v) { return body(of_row(std::type_identity<X>(), v)...); }, now),
                    [](const auto& x) { return eval(x); }));
    [&]<std::size_t... Index>(std::index_sequence<Index...>) {
      static constexpr bool carry[] = {is_carry<X>...};
      constexpr auto before = [](std::size_t operand) {
        std::size_t count = 0;
        for (std::size_t i = 0; i < operand; ++i) count += carry[i];
        return count;
      };
      const auto assign = [&]<std::size_t At>(std::integral_constant<std::size_t, At>) {
        if constexpr (carry[At]) std::get<At>(now) = std::get<before(At)>(next);
      };
      (assign(std::integral_constant<std::size_t, Index>()), ...);
    }(std::index_sequence_for<X...>());
    keep(n, row, next);
  }
  return carries_among<X...>(now);
}

}  // namespace detail

WEFT_COLD_END
}  // namespace weft
