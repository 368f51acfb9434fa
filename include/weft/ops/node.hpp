#pragma once

#include <weft/ops/symbol.hpp>
#include <weft/tensor/expression.hpp>
#include <weft/tensor/mistake.hpp>

namespace weft {

/// A node is assigned a node of other extents or elements, or a value that is not in a graph.
template <class X>
struct assigned_to_a_node : mistake<true> {};

namespace detail {

/// The part of a handle that no type changes, so that nodes of all shapes share its code.
class handle {
 public:
  handle() = default;
  explicit handle(const symbol& s) : symbol_(s) {}

  /// The value. Throws failed_precondition if nothing was assigned to the handle, or its graph no longer exists.
  const symbol& erased() const {
    if (!symbol_.is_in_a_graph()) [[unlikely]]
      refuse_symbol(symbol_);
    return symbol_;
  }
  value id() const { return erased().id(); }
  bool empty() const { return symbol_.is_number(); }
  /// Whether it is a value of a graph that still exists.
  bool is_in_a_graph() const { return symbol_.is_in_a_graph(); }

 protected:
  symbol symbol_;
};

}  // namespace detail

/// A cheap typed handle to one value in a graph: element type and extents in the type. It stays valid when the graph
/// moves; one that is used when neither its graph nor a session of it exists throws failed_precondition. One that is
/// declared without a value, a member of a layer say, is empty until it is assigned.
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
  /// Enters an expression into its graph.
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
                  "a node is a handle of its type: write `auto y = ...;`; assign(variable, value) writes a variable");
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

/// A node of extents in another form than the canonical one, `dims<std::size_t{8}>`: a node of `dims<8>`.
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
                  "a node is a handle of its type: write `auto y = ...;`; assign(variable, value) writes a variable");
    return *this;
  }
};

/// A variable is made of, or is to become, a value that is not a variable.
template <class X>
struct value_is_not_a_variable : mistake<true> {};

/// A trainable state of a graph: reading it is a node, `assign` and the optimizers write it.
template <Element T, class Dims = dims<>, class Device = cpu>
class variable_node : public node<T, Dims, Device> {
 public:
  explicit variable_node(const symbol& s) : node<T, Dims, Device>(s) {}
  variable_node() = default;
  explicit variable_node(const op_builder&, ...) = delete;  // auto w = variable<float, dims<784, 10>>(graph, "w")
  /// Nothing that is computed is a variable; a step writes one, by `assign(variable, value)`.
  template <Expression Expr>
    requires(!__is_base_of(variable_node, Expr))
  variable_node(const Expr&) : variable_node(symbol()) {
    static_assert(correct<value_is_not_a_variable<Expr>>,
                  "a variable is written by assign(variable, value), in a step");
  }
  template <class X>
    requires(!std::is_convertible_v<const X&, variable_node>)
  constexpr variable_node& operator=(const X&) {
    static_assert(correct<value_is_not_a_variable<X>>, "a variable is written by assign(variable, value), in a step");
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
    static_assert(correct<value_is_not_a_variable<X>>, "a variable is written by assign(variable, value), in a step");
    return *this;
  }
};

node(const op_builder&, ...) -> node<float>;
variable_node(const op_builder&, ...) -> variable_node<float>;

/// A node that is run for its effect: an assignment, a training step. Fetching it yields nothing.
class effect : public detail::handle {
 public:
  effect() = default;
  explicit effect(const symbol& s) : handle(s) {}
};

namespace detail {

/// A value of a graph as a node, its types asked for their own names like make_tensor's.
template <class T, class Dims, class Device>
auto make_node(const symbol& s) {
  return node<typename element<T>::value_type, typename Dims::dims_type, typename Device::device_type>(s);
}

/// Tells a graph what computed extents are made of.
template <auto... Extents>
void remember_formulas(op_builder& g, dims<Extents...>) {
  const extent_definition* const formulas[] = {extent_formula(Extents)...};
  for (const extent_definition* const f : formulas)
    if (f) g.remember_extent(*f);
}
/// Extents that are computed: how.
template <class Dims>
void remember_formulas(op_builder& g) {
  if constexpr (Dims::is_computed) remember_formulas(g, Dims{});
}
/// All that are not numbers, of a value whose operands may not have them.
template <class Dims>
void remember_extents(op_builder& g) {
  if constexpr (!Dims::is_static)
    for (std::size_t i = 0; i < Dims::rank; ++i)
      if (definitions_of<Dims>[i]) g.remember_extent(*definitions_of<Dims>[i]);
}

/// A value of the type and the extents of `Expr`.
template <class Expr>
auto node_of(const symbol& s) {
  return make_node<value_t<Expr>, dims_t<Expr>, device_t<Expr>>(s);
}

}  // namespace detail

/// Whether Expr is a node or a variable.
template <class Expr>
inline constexpr bool is_node = false;
template <class T, class D, class Dev>
inline constexpr bool is_node<node<T, D, Dev>> = true;
template <class T, class D, class Dev>
inline constexpr bool is_node<variable_node<T, D, Dev>> = true;

}  // namespace weft
