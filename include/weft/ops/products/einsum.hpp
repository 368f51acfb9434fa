// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tuple>

#include <weft/ops/arrays/diagonal.hpp>
#include <weft/ops/arrays/merge_axes.hpp>
#include <weft/ops/arrays/transpose.hpp>
#include <weft/ops/products/einsum_plan.hpp>
#include <weft/ops/products/matmul.hpp>
#include <weft/ops/reduce/reduce.hpp>

/// Einstein's summation. Not part of <weft/weft.hpp>.
namespace weft {

/// A letter has different extents in two operands; '0' is the last axis of an ellipsis, '1' the one before it.
template <char Letter, class A, class B>
struct einsum_letter_extents_differ : mistake<true> {};

/// The result's letters are letters of the operands, and each occurs once.
template <char Letter>
struct einsum_letter_of_result_not_in_operands : mistake<true> {};
template <char Letter>
struct einsum_letter_occurs_twice_in_result : mistake<true> {};

/// Each axis has a letter, unless an ellipsis stands for it.
template <std::size_t Letters, class Dims>
struct einsum_letters_and_axes_differ : mistake<true> {};

/// Subscripts consist of letters, commas, `->`, and one `...` for each operand and the result.
template <char Character>
struct einsum_character_not_taken : mistake<true> {};

/// The subscripts of operands are separated by commas; there are at most 8.
template <std::size_t Subscripts, std::size_t Operands>
struct einsum_subscripts_and_operands_differ : mistake<true> {};

/// A result, or a product of some operands, has more than 8 axes.
template <class... Dims>
struct einsum_product_has_too_many_axes : mistake<true> {};

/// Products need numbers.
template <class T>
struct einsum_undefined_for : mistake<!is_differentiable<T> && (!std::is_arithmetic_v<T> || std::is_same_v<T, bool>)> {
};

namespace detail {

template <fixed_string Subscripts, bool Multiplies, class... D>
constexpr einsum_plan plan_einsum() {
  const shape shapes[] = {D::spec...};
  return einsum_planner(Subscripts.text, shapes, sizeof...(D), Multiplies).plan;
}
template <fixed_string Subscripts, bool Multiplies, class... D>
struct planned_einsum {
  static constexpr einsum_plan value = plan_einsum<Subscripts, Multiplies, D...>();
  template <std::size_t Operand>
  using dims_at = std::tuple_element_t<Operand, std::tuple<D...>>;
};

template <class Plan, class... D>
constexpr auto find_einsum_mistake() {
  constexpr const einsum_plan& p = Plan::value;
  if constexpr (sizeof...(D) > max_einsum_operands || p.fault == einsum_fault::operands)
    return einsum_subscripts_and_operands_differ<p.first, sizeof...(D)>{};
  else if constexpr (p.fault == einsum_fault::character)
    return einsum_character_not_taken<p.letter>{};
  else if constexpr (p.fault == einsum_fault::axes)
    return einsum_letters_and_axes_differ<p.first, typename Plan::template dims_at<p.second>>{};
  else if constexpr (p.fault == einsum_fault::extents)
    return einsum_letter_extents_differ<p.letter, typename Plan::template dims_at<p.first>,
                                        typename Plan::template dims_at<p.second>>{};
  else if constexpr (p.fault == einsum_fault::unknown)
    return einsum_letter_of_result_not_in_operands<p.letter>{};
  else if constexpr (p.fault == einsum_fault::repeated)
    return einsum_letter_occurs_twice_in_result<p.letter>{};
  else if constexpr (p.fault == einsum_fault::too_many_axes)
    return einsum_product_has_too_many_axes<D...>{};
  else
    return mistake<false>{};
}

template <fixed_string Subscripts, class First, class... More>
using einsum_plan_of = planned_einsum<Subscripts, is_differentiable<value_t<First>>, dims_t<First>, dims_t<More>...>;

}  // namespace detail

/// The first mistake in an einsum of these operands, if any.
template <fixed_string Subscripts, class First, class... More>
using einsum_mistake =
    first_mistake<decltype(detail::find_einsum_mistake<detail::einsum_plan_of<Subscripts, First, More...>,
                                                       dims_t<First>, dims_t<More>...>()),
                  element_types_differ<value_t<First>, value_t<More>>..., einsum_undefined_for<value_t<First>>>;

namespace detail {

// ---- one value ----

/// The axes of `From` in the order of `To` from axis `Begin` on; none for letters that only `To` has.
template <einsum_term From, einsum_term To, std::size_t Begin = 0>
struct einsum_order {
  static constexpr std::size_t axis(std::size_t i) { return From.find(To.axes[Begin + i]); }
};

/// Returns a value with the axes in the order of `To`, and with axes of extent 1 for the others. Leading ones are
/// omitted, since values broadcast.
template <einsum_term From, einsum_term To, class Expr>
auto arranged(const Expr& e) {
  constexpr einsum_term order = To.only(From.letters());
  if constexpr (!(order == From)) {
    return arranged<order, To>(transpose_by<einsum_order<From, order>>(e));
  } else if constexpr (From.rank == 0 || From.rank == To.rank - To.find(From.axes[0])) {
    return e;
  } else {
    constexpr std::size_t begin = To.find(From.axes[0]);
    return under_axes<einsum_order<From, To, begin>, To.rank - begin>(e);
  }
}

template <std::uint32_t Axes, std::size_t... Index, class Expr>
auto sum_over(const Expr& e, indices<Index...>) {
  using T = value_t<Expr>;
  if constexpr (is_storage_type<T>)
    return materialize(cast<T>(sum_over<Axes>(cast<float>(e), indices<Index...>())));
  else
    return sum<static_cast<int>(pick_kept<~Axes>::axis(Index))...>(e);
}
template <std::uint32_t Axes, class Expr>
auto sum_over(const Expr& e) {
  if constexpr (Axes == 0)
    return e;
  else
    return sum_over<Axes>(e, typename make_indices<static_cast<std::size_t>(__builtin_popcount(Axes))>::type());
}

template <einsum_term Term>
struct einsum_diagonal {
  static constexpr std::size_t axis(std::size_t i) { return Term.moved(i); }
};

/// Removes broadcast axes, repeated letters, and letters that nothing else needs.
template <einsum_term Term, std::uint64_t Needed, class Expr>
auto prepared(const Expr& e) {
  constexpr std::uint32_t ones = Term.axes_outside(einsum_term::every_letter);
  if constexpr (ones != 0)
    return prepared<Term.only(einsum_term::every_letter), Needed>(without<ones>(e));
  else if constexpr (Term.repeated() < Term.rank)
    return prepared<Term.diagonal(), Needed>(diag_part(transpose_by<einsum_diagonal<Term>>(e)));
  else
    return sum_over<Term.axes_outside(Needed)>(e);
}

// ---- products ----

/// The axes of the letters of a matrix product, among those of both factors.
template <einsum_step S, std::size_t RankOfA>
struct product_axes {
  static constexpr std::size_t axis(std::size_t i) {
    return i < S.batch + S.left ? S.axis_of_a(i) : RankOfA + S.axis_of_b(i);
  }
};

template <einsum_step S, class A, class B>
auto multiplied(const A& a, const B& b) {
  // Many rows times one matrix need no merged rows.
  constexpr bool keeps_rows = S.batch == 0 && !S.transpose_a;
  constexpr std::size_t second_a = S.batch + (S.transpose_a ? 1 : keeps_rows ? S.left : 1);
  const auto x = materialize(a);
  const auto y = materialize(b);
  const auto rows = merge_axes<S.batch, S.transpose_a ? S.contracted : keeps_rows ? 1 : S.left>(x);
  const auto columns = merge_axes<S.batch, S.transpose_b ? S.right : S.contracted>(y);
  constexpr auto transposed = static_cast<transpose_of>((S.transpose_a ? 1 : 0) | (S.transpose_b ? 2 : 0));
  const auto product = matmul<transposed>(merge_axes<second_a, S.transpose_a ? S.left : S.contracted>(rows),
                                          merge_axes<S.batch + 1, S.transpose_b ? S.contracted : S.right>(columns));
  if constexpr ((keeps_rows || S.left == 1) && S.right == 1) {
    return product;
  } else {
    using axes = product_axes<S, dims_t<A>::rank>;
    using D = select<joined_dims<dims_t<A>, dims_t<B>>, S.product.rank, axes>;
    return under_extents<D>(product, selected<axes>(S.product.rank, extents_of(x), extents_of(y)));
  }
}

template <einsum_step S, class A, class B>
auto product_of(const A& a, const B& b) {
  const auto x = arranged<S.a, S.arranged_a>(a);
  const auto y = arranged<S.b, S.arranged_b>(b);
  const auto product = [&] {
    using T = value_t<A>;
    if constexpr (S.by_matmul)
      return multiplied<S>(x, y);
    else if constexpr (is_storage_type<T>)
      return materialize(cast<T>(sum_over<S.summed>(cast<float>(x) * cast<float>(y))));
    else
      return materialize(sum_over<S.summed>(x * y));
  }();
  return arranged<S.product, S.result>(product);
}

template <class Plan, std::size_t Step, std::size_t... Index, class... X>
auto contracted(const std::tuple<const X&...>& values, indices<Index...>) {
  constexpr const einsum_step& s = Plan::value.steps[Step];
  const auto product = product_of<s>(std::get<s.first>(values), std::get<s.second>(values));
  if constexpr (sizeof...(X) == 2) {
    return product;
  } else {
    constexpr std::size_t a = s.first < s.second ? s.first : s.second, b = s.first < s.second ? s.second : s.first;
    constexpr auto kept = [](std::size_t i) { return i + (i >= a) + (i + (i >= a) >= b); };
    return contracted<Plan, Step + 1>(std::tie(std::get<kept(Index)>(values)..., product),
                                      typename make_indices<sizeof...(Index) - 1>::type());
  }
}

template <class Plan, std::size_t... Index, class... X>
auto contracted(indices<Index...>, const X&... x) {
  constexpr const einsum_plan& p = Plan::value;
  if constexpr (sizeof...(X) == 1) {
    constexpr einsum_term term = p.operands[0].prepared(p.needed[0]);
    return materialize(arranged<term, p.result>(prepared<p.operands[0], p.needed[0]>(x...)));
  } else {
    const std::tuple values{prepared<p.operands[Index], p.needed[Index]>(x)...};
    return contracted<Plan, 0>(std::tie(std::get<Index>(values)...), typename make_indices<sizeof...(X) - 2>::type());
  }
}

}  // namespace detail

/// Multiplies operands, and sums over the letters that the result does not have (tf.einsum, torch.einsum):
/// `einsum<"bhqd,bhkd->bhqk">(q, k)`. Each letter names an axis and has one extent in all operands. A letter that
/// occurs twice in an operand is its diagonal: `einsum<"ii">(x)` is the trace. Without `->`, the result has the letters
/// that occur once, in alphabetical order. An ellipsis stands for any further axes, which broadcast from the last one:
/// `einsum<"...ij,...jk->...ik">(a, b)`; a result without an ellipsis sums over them.
///
/// For numeric elements of one type, and at most 8 operands. The compiler plans the products: up to 5 operands in the
/// order with the fewest multiplications, more of them by the cheapest pair first. A product of floating-point operands
/// that both have a letter of the result that the other one lacks is one `matmul`; the order of its axes is chosen such
/// that few elements are copied. Other products are elementwise, and fuse with their sum. Throws invalid_argument if
/// run-time extents of a letter differ.
template <fixed_string Subscripts, Expression First, Expression... More>
[[nodiscard]] auto einsum(const First& first, const More&... more) {
  using mistake = einsum_mistake<Subscripts, First, More...>;
  static_assert(correct<mistake>,
                "einsum: needs a letter for each axis, with one extent in all operands, and numbers of one type: "
                "einsum<\"ij,jk->ik\">(a, b)");
  if constexpr (correct<mistake>)
    return detail::contracted<detail::einsum_plan_of<Subscripts, First, More...>>(
        typename detail::make_indices<1 + sizeof...(More)>::type(), first, more...);
  else
    return detail::after_mistake<value_t<First>, dims_t<First>>(first, more...);
}

template <class... Given>
auto einsum(const Given&...) WEFT_DELETED;  // subscripts are a template argument: einsum<"ij,jk->ik">(a, b)

}  // namespace weft
