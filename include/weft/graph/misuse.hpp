// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <type_traits>

#include <weft/graph/graph.hpp>
#include <weft/graph/leaves.hpp>
#include <weft/graph/variables.hpp>
#include <weft/tensor/mistake.hpp>

/// Overloads that catch the argument orders of other libraries and report the correct form.
namespace weft {

/// The arguments must be the graph, the name and, for a variable, the initial value.
template <class... Arguments>
struct arguments_are_not_graph_and_name : mistake<true> {};

/// The element type and the extents must be template arguments: `placeholder<float, dims<3, 4>>`. Element types are
/// bool, integers of 8 to 64 bits by their names in <cstdint>, half, bfloat16, float and double.
template <class... Types>
struct types_are_not_element_and_dims : mistake<true> {};
template <auto... Extents>
struct extents_are_not_in_a_dims : mistake<true> {};

/// A variable's initial value must be an initializer, a tensor or a number.
template <class X>
struct first_value_is_not_an_initializer : mistake<true> {};

/// The value of a constant must be a tensor or a number.
template <class... Arguments>
struct arguments_are_not_graph_and_tensor : mistake<true> {};

namespace detail {

template <class... Types>
struct leaf {
  static constexpr bool has_types = false, says_nothing = sizeof...(Types) == 0;
  using meant = node<float>;
};
template <Element T>
struct leaf<T> {
  static constexpr bool has_types = true, says_nothing = false;
  using meant = node<T>;
};
template <Element T, auto... Extents, class... More>
struct leaf<T, dims<Extents...>, More...> {
  static constexpr bool has_types = true, says_nothing = false;
  using meant = node<T, dims<Extents...>>;
};

template <class Graph, class Name = const char*, class... More>
inline constexpr bool graph_and_name =
    std::is_convertible_v<Graph, graph&> && std::is_convertible_v<Name, std::string_view>;

// True if the initial value determines the element type, so that the program need not name it.
template <class X>
inline constexpr bool is_typed_value = Element<X>;
template <class T, class D>
inline constexpr bool is_typed_value<tensor<T, D>> = true;

template <class X>
concept FirstValue =
    is_typed_value<X> || std::is_arithmetic_v<X> || requires(const X& x, const shape& s) { initializer(x(s)); };

/// True if the arguments after the initial value are at most a variable_kind.
template <class... More>
inline constexpr bool is_kind = sizeof...(More) == 0;
template <class X>
inline constexpr bool is_kind<X> = std::is_same_v<std::remove_cvref_t<X>, variable_kind>;

/// The mistake in the arguments of a variable, if any.
template <class Leaf, class Graph = void, class Name = void, class First = init::none, class... More>
constexpr auto find_variable_mistake() {
  using first = std::remove_cvref_t<First>;
  if constexpr (!graph_and_name<Graph, Name> || !is_kind<More...>)
    return arguments_are_not_graph_and_name<std::remove_cvref_t<Graph>, std::remove_cvref_t<Name>>{};
  else if constexpr (!FirstValue<first>)
    return first_value_is_not_an_initializer<first>{};
  else
    return types_are_not_element_and_dims<>{};
}

template <class Leaf, class Graph = void, class Name = void, class First = init::none, class... More>
inline constexpr bool makes_variable =
    graph_and_name<Graph, Name> && FirstValue<std::remove_cvref_t<First>> &&
    (Leaf::has_types || (Leaf::says_nothing && is_typed_value<std::remove_cvref_t<First>>)) && is_kind<More...>;

// A number, a tensor or an expression over tensors.
template <class X>
inline constexpr bool is_fixed_value = Element<X> || std::is_arithmetic_v<X>;
template <Expression X>
inline constexpr bool is_fixed_value<X> = !X::symbolic;

template <class Graph = void, class X = void, class... More>
inline constexpr bool makes_constant =
    std::is_convertible_v<Graph, graph&> && is_fixed_value<std::remove_cvref_t<X>> && sizeof...(More) == 0;

}  // namespace detail

template <class... Types, class... X>
  requires(!detail::leaf<Types...>::has_types || !detail::graph_and_name<X...> || sizeof...(X) > 2)
auto placeholder(X&&...) {
  using leaf = detail::leaf<Types...>;
  using mistake = std::conditional_t<leaf::has_types, arguments_are_not_graph_and_name<std::remove_cvref_t<X>...>,
                                     types_are_not_element_and_dims<Types...>>;
  static_assert(correct<mistake>, "placeholder: write placeholder<float, dims<dyn<\"batch\">, 784>>(graph, \"name\")");
  return typename leaf::meant(symbol());
}
template <Element T, auto... Extents, class... X>
  requires(sizeof...(Extents) > 0)
auto placeholder(X&&...) {
  static_assert(correct<extents_are_not_in_a_dims<Extents...>>,
                "placeholder: write placeholder<float, dims<dyn<\"batch\">, 784>>(graph, \"name\")");
  return node<T, dims<Extents...>>(symbol());
}
template <Element T>
auto placeholder(graph&, std::initializer_list<std::int64_t>) {
  static_assert(correct<types_are_not_element_and_dims<T, std::initializer_list<std::int64_t>>>,
                "placeholder: write placeholder<float, dims<dyn<\"batch\">, 784>>(graph, \"name\")");
  return node<T>(symbol());
}

template <class... Types, class... X>
  requires(!detail::makes_variable<detail::leaf<Types...>, X...>)
auto variable(X&&...) {
  using leaf = detail::leaf<Types...>;
  static_assert(correct<decltype(detail::find_variable_mistake<leaf, X...>())>,
                "variable: write variable<float, dims<784, 10>>(graph, \"name\", init::normal{.stddev = 0.1})");
  return variable_node<value_t<typename leaf::meant>, dims_t<typename leaf::meant>>(symbol());
}
template <Element T, auto... Extents, class... X>
  requires(sizeof...(Extents) > 0)
auto variable(X&&...) {
  static_assert(correct<extents_are_not_in_a_dims<Extents...>>,
                "variable: write variable<float, dims<784, 10>>(graph, \"name\", init::normal{.stddev = 0.1})");
  return variable_node<T, dims<Extents...>>(symbol());
}

template <class... Types, class... X>
  requires(!detail::makes_constant<X...>)
auto constant(X&&...) {
  static_assert(correct<arguments_are_not_graph_and_tensor<std::remove_cvref_t<X>...>>,
                "constant: write constant(graph, 0.5f) or constant(graph, tensor<float, dims<3>>{1, 2, 3})");
  return typename detail::leaf<Types...>::meant(symbol());
}
template <class T>
auto constant(graph&, std::initializer_list<T>) {
  static_assert(correct<arguments_are_not_graph_and_tensor<graph, std::initializer_list<T>>>,
                "constant: write constant(graph, tensor<float, dims<3>>{1, 2, 3})");
  return node<T>(symbol());
}

template <class X = void>
  requires(std::is_void_v<X>)
auto find_variable(graph&, std::string_view) {
  static_assert(correct<types_are_not_element_and_dims<X>>,
                "find_variable: write find_variable<float, dims<784, 10>>(graph, \"name\")");
  return variable_node<float>(symbol());
}
template <Element T, auto... Extents>
  requires(sizeof...(Extents) > 0)
auto find_variable(graph&, std::string_view) {
  static_assert(correct<extents_are_not_in_a_dims<Extents...>>,
                "find_variable: write find_variable<float, dims<784, 10>>(graph, \"name\")");
  return variable_node<T, dims<Extents...>>(symbol());
}

}  // namespace weft
