// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/symbol.hpp>
#include <weft/tensor/expression.hpp>
#include <weft/tensor/mistake.hpp>

namespace weft {

/// A node is assigned a node with other extents or elements, or a value that is not in a graph.
template <class X>
struct assigned_to_a_node : mistake<true> {};

namespace detail {

/// The untyped part of a node, so that nodes of all shapes share its code.
class handle {
 public:
  handle() = default;
  explicit handle(const symbol& s) : symbol_(s) {}

  /// Returns the value; in the body of a loop or branch, the one that the body reads in its place. Throws
  /// failed_precondition if the handle is empty or its graph no longer exists.
  const symbol& erased() const {
    if (!symbol_.is_current()) [[unlikely]]
      return captured_symbol(symbol_);
    return symbol_;
  }
  value id() const { return erased().id(); }
  bool empty() const { return symbol_.is_number(); }
  /// Returns true for a value of a graph that still exists.
  bool is_in_a_graph() const { return symbol_.is_in_a_graph(); }

 protected:
  symbol symbol_;
};

}  // namespace detail

/// A cheap typed handle to a value in a graph; element type and extents are part of the type. Stays valid when the
/// graph moves. Using a node throws failed_precondition if neither its graph nor a session of the graph exists. A node
/// declared without a value, such as a member of a layer, is empty until it is assigned.
template <Element T, class Dims = dims<>, class Device = cpu>
class node : public detail::handle {
 public:
  using weft_expression = void;
  using value_type = T;
  using dims_type = Dims;
  using device_type = Device;
  static constexpr std::size_t operations = 0;
  static constexpr bool symbolic = true;

  explicit node(const symbol& s) : handle(s) {}
  /// Records an expression in its graph.
  template <Expression Expr>
    requires(Expr::symbolic && !std::is_same_v<Expr, node> && std::is_same_v<value_t<Expr>, T> &&
             std::is_same_v<dims_t<Expr>, Dims> && Expr::operations > 0)
  node(const Expr& e) : node(let(e)) {}

  node() = default;
  explicit node(const op_builder&, ...) = delete;  // auto x = placeholder<float, dims<784, 10>>(graph, "x")

  template <class X>
    requires(!std::is_convertible_v<const X&, node>)
  constexpr node& operator=(const X&) {
    static_assert(correct<assigned_to_a_node<X>>,
                  "a node refers only to values of its own type: write `auto y = ...;`; assign(variable, value) writes "
                  "a variable");
    return *this;
  }
  template <class Num>
    requires detail::Arithmetic<Num>
  constexpr explicit(!std::is_same_v<Num, T>) operator Num() const {
    static_assert(correct<value_needs_a_session<Dims>>,
                  "a node has no value yet: session.eval(x) computes it; cast<T>(x), weft::exp(x) take nodes, not "
                  "std::exp");
    return Num();
  }
};

/// A node whose extents are not in canonical form, `dims<std::size_t{8}>`: derives from the node of `dims<8>`.
template <Element T, class Dims, class Device>
  requires(!Dims::is_canonical)
class node<T, Dims, Device> : public node<T, dims_t<Dims>, Device> {
  using canonical_node = node<T, dims_t<Dims>, Device>;

 public:
  using canonical_node::canonical_node;
  node() = default;
  node(const canonical_node& n) : canonical_node(n) {}
  template <class X>
    requires(!std::is_convertible_v<const X&, node>)
  constexpr node& operator=(const X&) {
    static_assert(correct<assigned_to_a_node<X>>,
                  "a node refers only to values of its own type: write `auto y = ...;`; assign(variable, value) writes "
                  "a variable");
    return *this;
  }
};

/// A variable is initialized or assigned with a value that is not a variable.
template <class X>
struct value_is_not_a_variable : mistake<true> {};

/// A trainable state of a graph. Reading a variable is a node; `assign` and the optimizers write it.
template <Element T, class Dims = dims<>, class Device = cpu>
class variable_node : public node<T, Dims, Device> {
 public:
  explicit variable_node(const symbol& s) : node<T, Dims, Device>(s) {}
  variable_node() = default;
  explicit variable_node(const op_builder&, ...) = delete;  // auto w = variable<float, dims<784, 10>>(graph, "w")
  /// A computed value is not a variable; a step writes a variable by `assign(variable, value)`.
  template <Expression Expr>
    requires(!__is_base_of(variable_node, Expr))
  variable_node(const Expr&) : variable_node(symbol()) {
    static_assert(correct<value_is_not_a_variable<Expr>>, "use assign(variable, value) in a step to write a variable");
  }
  template <class X>
    requires(!std::is_convertible_v<const X&, variable_node>)
  constexpr variable_node& operator=(const X&) {
    static_assert(correct<value_is_not_a_variable<X>>, "use assign(variable, value) in a step to write a variable");
    return *this;
  }
};

template <Element T, class Dims, class Device>
  requires(!Dims::is_canonical)
class variable_node<T, Dims, Device> : public variable_node<T, dims_t<Dims>, Device> {
  using canonical_node = variable_node<T, dims_t<Dims>, Device>;

 public:
  using canonical_node::canonical_node;
  variable_node() = default;
  variable_node(const canonical_node& n) : canonical_node(n) {}
  template <class X>
    requires(!std::is_convertible_v<const X&, variable_node>)
  constexpr variable_node& operator=(const X&) {
    static_assert(correct<value_is_not_a_variable<X>>, "use assign(variable, value) in a step to write a variable");
    return *this;
  }
};

node(const op_builder&, ...) -> node<float>;
variable_node(const op_builder&, ...) -> variable_node<float>;

/// A node that is run for its effect, such as an assignment or a training step. Fetching an effect yields nothing.
class effect : public detail::handle {
 public:
  effect() = default;
  explicit effect(const symbol& s) : handle(s) {}
};

namespace detail {

/// Returns a value of a graph as a node. Uses member type names, as make_tensor does.
template <class T, class Dims, class Device>
auto make_node(const symbol& s) {
  return node<typename element<T>::value_type, typename Dims::dims_type, typename Device::device_type>(s);
}

/// Registers the formulas of computed extents with a graph.
template <auto... Extents>
void remember_formulas(op_builder& g, dims<Extents...>) {
  const extent_definition* const formulas[] = {extent_formula(Extents)...};
  for (const extent_definition* const f : formulas)
    if (f) g.remember_extent(*f);
}
/// Registers the formulas of the computed extents in Dims.
template <class Dims>
void remember_formulas(op_builder& g) {
  if constexpr (Dims::is_computed) remember_formulas(g, Dims{});
}
/// Registers all extents that are not numbers, for a value whose operands may not have them.
template <class Dims>
void remember_extents(op_builder& g) {
  if constexpr (!Dims::is_static)
    for (std::size_t i = 0; i < Dims::rank; ++i)
      if (definitions_of<Dims>[i]) g.remember_extent(*definitions_of<Dims>[i]);
}

/// Returns a symbol as a node of the type and extents of `Expr`.
template <class Expr>
auto node_of(const symbol& s) {
  return make_node<value_t<Expr>, dims_t<Expr>, device_t<Expr>>(s);
}

}  // namespace detail

/// True if Expr is a node or a variable.
template <class Expr>
inline constexpr bool is_node = false;
template <class T, class D, class Dev>
inline constexpr bool is_node<node<T, D, Dev>> = true;
template <class T, class D, class Dev>
inline constexpr bool is_node<variable_node<T, D, Dev>> = true;

}  // namespace weft
