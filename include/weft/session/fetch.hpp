// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include <weft/graph/graph.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/lowering.hpp>
#include <weft/plan/step_request.hpp>

/// The results and inputs of a step: fetch, feed and with.
namespace weft {

/// The result of fetching an effect.
struct nothing {};

/// A fed value must have the placeholder's extents and element type.
template <class Given, class Placeholder>
struct fed_value_differs : mistake<!(std::is_same_v<value_t<Given>, value_t<Placeholder>> &&
                                     detail::assignable(dims_t<Given>::spec, dims_t<Placeholder>::spec))> {};

/// A number, including half and bfloat16, can only be fed to a scalar placeholder of the same type.
template <class Number, class Placeholder>
struct fed_number_differs : mistake<!(dims_t<Placeholder>::rank == 0 && std::is_same_v<Number, value_t<Placeholder>>)> {
};

/// A fed value must be a tensor, a tensor_view or a number in host memory. Evaluate an expression first; wrap a vector
/// or a pointer in a view with extents.
template <class X>
struct fed_value_is_not_a_tensor : mistake<true> {};

/// A step must be called with one value for each of its feeds.
template <std::size_t Given, std::size_t Feeds>
struct number_of_fed_values_differs : mistake<Given != Feeds> {};

/// Fetched values must be nodes, expressions in a graph or effects. Tensors have values without a session.
template <class F>
struct fetched_value_not_in_a_graph : mistake<!std::is_base_of_v<effect, F>> {};
template <Expression Expr>
struct fetched_value_not_in_a_graph<Expr> : value_not_in_a_graph<Expr> {};

/// A value that the caller fetches as one but that consists of several nodes, such as a bounded value
/// (ops/bounded.hpp). `parts()` returns the nodes, and `from_parts` creates the value from their results.
template <class F>
concept FetchedInParts = requires(const F& f) {
  f.parts();
  &F::from_parts;
};
template <FetchedInParts F>
struct fetched_value_not_in_a_graph<F> : mistake<false> {};

/// Values can only be fed to nodes. Turn an expression into a node with let() before using it.
template <class P>
struct fed_to_non_node : mistake<!is_node<P>> {};

/// prepare requires a list from fetch() and a list from feed(); run and eval require pairs from with().
template <class... Arguments>
struct arguments_are_not_fetch_and_feed : mistake<true> {};
template <class... Arguments>
struct arguments_are_not_fetch_and_with : mistake<true> {};

/// The fetches of a step, in order: nodes, expressions and effects.
template <class... F>
struct fetch_list {
  std::tuple<F...> fetched;
};

/// The feeds of a step, in the order of its arguments.
template <class... P>
struct feed_list {
  std::tuple<P...> fed;
};

namespace detail {

template <class Expr>
auto as_fetch(const Expr& e) {
  if constexpr (std::is_base_of_v<effect, Expr>)
    return effect(e);
  else if constexpr (FetchedInParts<Expr>)
    return e;
  else
    return let(e);
}

template <class F>
struct fetched_value {
  using type = tensor<value_t<F>, dims_t<F>, device_t<F>>;
};
template <class T, class Dev>
struct fetched_value<node<T, dims<>, Dev>> {
  using type = T;
};
template <>
struct fetched_value<effect> {
  using type = nothing;
};
template <FetchedInParts F>
struct fetched_value<F> {
  using type = typename F::fetched_type;
};

/// Calls `call` with every node or effect of a fetched value.
template <class F, class Call>
void for_each_part(const F& fetched, const Call& call) {
  if constexpr (FetchedInParts<F>)
    std::apply([&](const auto&... part) { (call(part), ...); }, fetched.parts());
  else
    call(fetched);
}

template <class X>
inline constexpr bool is_number = std::is_arithmetic_v<X> || is_storage_type<X>;

/// The mistake in a fed value, if any.
template <class X, class P>
constexpr auto find_feed_mistake() {
  if constexpr (is_number<X>)
    return fed_number_differs<X, P>{};
  else if constexpr (requires(const X& x) { plan::fed_value{x.data(), x.extents()}; })
    return fed_value_differs<X, P>{};
  else
    return fed_value_is_not_a_tensor<X>{};
}
template <class X, class P>
using feed_mistake = decltype(find_feed_mistake<X, P>());

template <class... P, class... X>
constexpr auto find_call_mistake(feed_list<P...> (*)(X...)) {
  if constexpr (sizeof...(P) != sizeof...(X) || sizeof...(P) == 0)
    return number_of_fed_values_differs<sizeof...(X), sizeof...(P)>{};
  else
    return first_mistake<feed_mistake<X, P>...>{};
}
/// The mistake in the arguments of a step, if any.
template <class Feeds, class... X>
using call_mistake = decltype(find_call_mistake(static_cast<Feeds (*)(X...)>(nullptr)));

template <class X>
plan::fed_value as_fed(const X& x) {
  if constexpr (is_number<X>)
    return {&x, shape()};
  else
    return {x.data(), x.extents()};
}

}  // namespace detail

/// Lists the values to fetch from a step. Nodes and expressions yield tensors, scalars yield numbers, and effects run.
template <class... F>
auto fetch(const F&... f) {
  static_assert((correct<fetched_value_not_in_a_graph<F>> && ...),
                "fetch: takes nodes, expressions and effects; a tensor already has its value");
  if constexpr ((correct<fetched_value_not_in_a_graph<F>> && ...))
    return fetch_list<decltype(detail::as_fetch(f))...>{{detail::as_fetch(f)...}};
  else
    return fetch_list<>{};
}

/// Lists the placeholders of a step, in the order of its arguments. Any other node can also be fed.
template <class... P>
auto feed(const P&... p) {
  static_assert(
      (correct<fed_to_non_node<P>> && ...),
      "feed: takes placeholders, or other nodes: let() makes one; pass the values when calling the prepared step");
  if constexpr ((correct<fed_to_non_node<P>> && ...))
    return feed_list<node<value_t<P>, dims_t<P>, device_t<P>>...>{
        {node<value_t<P>, dims_t<P>, device_t<P>>(p.erased())...}};
  else
    return feed_list<>{};
}

template <class...>
auto fetch(detail::braces, ...) WEFT_DELETED;  // nodes, expressions and effects, one by one: fetch(loss, train)
template <class...>
auto feed(detail::braces, ...) WEFT_DELETED;  // placeholders, one by one: feed(images, labels)

/// A node and the value to feed in one `run`. Holds a copy, and tensors share their storage; only the memory of a
/// tensor_view must outlive it.
template <class P, class X>
struct fed_pair {
  P placeholder;
  X value;  // a copy: a number, or a tensor with shared storage
};
/// Feeds a node in one run: `s.eval(y, with(x, value))`. The value is a tensor, a tensor_view or a number with the
/// node's element type and extents. The node need not be a placeholder.
template <class P, class X>
  requires(is_node<P>)
auto with(const P& placeholder, const X& value) {
  using mistake = detail::feed_mistake<X, P>;
  static_assert(correct<mistake>,
                "with: the value must be a tensor, tensor_view or number of the node's extents and elements");
  if constexpr (correct<mistake>)
    return fed_pair<P, X>{placeholder, value};
  else
    return fed_pair<P, tensor<value_t<P>, dims_t<P>>>{placeholder, detail::after_mistake<value_t<P>, dims_t<P>>()};
}

// Overloads that report common mistakes: values in braces, and the value or a name before the node.
template <class P>
  requires(is_node<P>)
auto with(const P& placeholder, detail::braces) {
  static_assert(correct<fed_value_is_not_a_tensor<std::initializer_list<value_t<P>>>>,
                "with: pass values in braces as a tensor: with(x, tensor<T, dims<...>>{...})");
  return fed_pair<P, tensor<value_t<P>, dims_t<P>>>{placeholder, detail::after_mistake<value_t<P>, dims_t<P>>()};
}
template <class X, class P>
  requires(!is_node<X>)
auto with(const X&, const P& placeholder) {
  static_assert(correct<fed_to_non_node<X>>, "with: pass the node before its value: with(x, value)");
  if constexpr (is_node<P>)
    return fed_pair<P, tensor<value_t<P>, dims_t<P>>>{placeholder, detail::after_mistake<value_t<P>, dims_t<P>>()};
  else
    return fed_pair<std::conditional_t<is_node<P>, P, node<float>>, float>{
        std::conditional_t<is_node<P>, P, node<float>>(symbol()), 0};
}

namespace detail {

template <class X>
inline constexpr bool is_fetch_list = false;
template <class... F>
inline constexpr bool is_fetch_list<fetch_list<F...>> = true;
template <class X>
inline constexpr bool is_fed_pair = false;
template <class P, class X>
inline constexpr bool is_fed_pair<fed_pair<P, X>> = true;

// The intended lists after a mistake, so that one mistake prints one error.
template <class F>
auto meant_fetches(const F& f) {
  if constexpr (Expression<F>)
    return fetch_list<decltype(let(f))>{{let(f)}};
  else
    return fetch_list<>{};
}
template <class... F>
auto meant_fetches(const fetch_list<F...>& f) {
  return f;
}
template <class... P>
auto meant_feeds(const feed_list<P...>& fed) {
  return fed;
}
template <class... P>
auto meant_feeds(const P&...) {
  return feed_list<>{};
}

}  // namespace detail

}  // namespace weft
