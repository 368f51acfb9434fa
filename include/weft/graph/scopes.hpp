// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include <weft/graph/graph.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// A scope belongs to a graph, which must be the first argument.
template <class Name>
struct scope_has_no_graph : mistake<true> {};

/// `reuse` has three values and is not a bool.
template <class Reuse>
struct reuse_is_a_bool : mistake<true> {};

namespace detail {
graph& no_graph();  // a placeholder after a mistake
}

/// Prefixes the names of nodes created during its lifetime (tf.name_scope). Further scopes of the same name are
/// numbered: layer/, layer_1/. Under variable reuse, numbering starts again, so that scopes entered in the same order
/// find their variables. A model that is called twice in a name_scope has two sets of variables. To share one set, use
/// `variable_scope scope(g, "model", reuse::automatic)`. Preparing a step that reads the second set while only the
/// first is trained writes a warning to standard error.
class graph::name_scope {
 public:
  name_scope(graph& g, const std::string& name)
      : graph_(g.whole()), length_(g.scope().size()), variables_length_(graph_.data_->variables.prefix.size()) {
    graph_.enter_scope(name);
  }
  template <std::size_t Count>
  explicit name_scope(const char (&name)[Count]) : name_scope(detail::no_graph(), name) {
    static_assert(correct<scope_has_no_graph<char[Count]>>, "name_scope: write name_scope scope(graph, \"name\")");
  }
  ~name_scope() {
    graph_.data_->prefix.resize(length_);
    graph_.data_->variables.prefix.resize(variables_length_);
  }
  name_scope(const name_scope&) = delete;
  name_scope& operator=(const name_scope&) = delete;

 private:
  graph& graph_;
  std::size_t length_, variables_length_;
};

/// Prefixes the names of nodes created during its lifetime, without numbering repeated scopes, and determines how
/// variables whose name exists are handled (tf.variable_scope): with reuse::yes or reuse::automatic, the existing
/// variable is used if its elements and extents are the same. A function that creates a model can therefore be called
/// twice for one model:
///
///     const auto trained = [&] { variable_scope first(g, "model"); return model(g, x); }();
///     const auto tested = [&] { variable_scope again(g, "model", reuse::yes); return model(g, images); }();
///
/// Nested scopes inherit reuse.
class graph::variable_scope {
 public:
  variable_scope(graph& g, const std::string& name, reuse mode = reuse::no) : variable_scope(g, mode) {
    detail::graph_data& of = *graph_.data_;
    of.variables.prefix += name + "/";
    of.prefix = of.variables.prefix;
    const std::string full(of.prefix, 0, of.prefix.size() - 1);
    if (!of.names.find(full)) of.names.take(full);
  }
  /// Enables reuse in the current scope.
  variable_scope(graph& g, reuse mode)
      : graph_(g.whole()),
        prefix_(g.scope()),
        outer_(std::exchange(graph_.data_->variables, detail::graph_variable_names())) {
    graph_.data_->variables.mode = mode != reuse::no ? mode : outer_.mode;
    graph_.data_->variables.prefix = outer_.prefix;
  }
  template <class Reuse>
    requires(std::is_same_v<Reuse, bool>)
  variable_scope(graph& g, const std::string& name, Reuse) : variable_scope(g, name) {
    static_assert(correct<reuse_is_a_bool<Reuse>>,
                  "variable_scope: write variable_scope scope(graph, \"name\", reuse::yes), or reuse::automatic");
  }
  template <std::size_t Count>
  explicit variable_scope(const char (&name)[Count]) : variable_scope(detail::no_graph(), name) {
    static_assert(correct<scope_has_no_graph<char[Count]>>,
                  "variable_scope: write variable_scope scope(graph, \"name\")");
  }
  ~variable_scope() {
    graph_.data_->prefix = std::move(prefix_);
    graph_.data_->variables = std::move(outer_);
  }
  variable_scope(const variable_scope&) = delete;
  variable_scope& operator=(const variable_scope&) = delete;

 private:
  graph& graph_;
  std::string prefix_;
  detail::graph_variable_names outer_;
};

/// Places the nodes created during its lifetime on a device (tf.device). Scopes nest, and each part of an inner scope's
/// device takes precedence. A function `device_spec f(const placement_query&)` is called for each node.
class graph::device_scope {
 public:
  device_scope(graph& g, const device_spec& where) : graph_(g.self()) {
    g.data_->places.push_back({where, nullptr, nullptr, graph_node::no_node});
  }
  /// Places nodes on the device of the node that computes the value, regardless of enclosing scopes.
  device_scope(graph& g, value beside) : graph_(g.self()) {
    g.data_->places.push_back({g.data_->nodes[beside.node].device, nullptr, nullptr, beside.node});
  }
  template <class F>
    requires requires(const F& f, const placement_query& q) { device_spec(f(q)); }
  device_scope(graph& g, const F& function)
      : graph_(g.self()), state_(new F(function)), destroy_([](void* f) { delete static_cast<F*>(f); }) {
    g.data_->places.push_back(
        {{},
         [](const void* f, const placement_query& q) -> device_spec { return (*static_cast<const F*>(f))(q); },
         state_,
         graph_node::no_node});
  }
  template <std::size_t Count>
  device_scope(graph& g, const char (&)[Count]) : device_scope(g, device_spec()) {
    static_assert(correct<device_is_not_a_device_spec<char[Count]>>,
                  "device_scope: write \"/device:CPU:0\"_device, cpu{0} or cuda{0}");
  }
  ~device_scope() {
    sequence<detail::graph_place>& places = graph_.data_->places;
    if (!places.back().is_used) graph_.data_->unused_place = places.back().fixed;
    places.pop_back();
    if (destroy_) destroy_(state_);
  }
  template <class = void>
  device_scope(graph&, ...) = delete;  // device_scope on(graph, cpu{0}), or (graph, "/device:CPU:0"_device)
  device_scope(const device_scope&) = delete;
  device_scope& operator=(const device_scope&) = delete;

 private:
  graph& graph_;
  void* state_ = nullptr;
  void (*destroy_)(void*) = nullptr;
};

inline value graph::with_name(value v, const char* name) {
  graph_node& n = data_->nodes[v.node];
  if (n.named && n.name == scope() + name) return v;
  if (n.named || v.output != 0) {
    node_def def;
    def.op = &operation_of<identity_op>;
    def.inputs = {v};
    def.outputs = {info(v)};
    const device_scope beside(*this, n.device);
    return {add(std::move(def), name), 0};
  }
  n.name = free_name(name);
  n.named = true;
  data_->names.take(n.name).node = v.node;
  return v;
}

/// See graph::name_scope.
using name_scope = graph::name_scope;
/// See graph::variable_scope.
using variable_scope = graph::variable_scope;
/// See graph::device_scope.
using device_scope = graph::device_scope;

/// Places nodes that belong to a variable: its slots have the variable's task, while other operations run in this task,
/// which has a copy of the variable.
struct place_of_variable {
  device_spec where;

  device_spec operator()(const placement_query& q) const {
    return where.has_job() && q.operation != operation_of<variable_op>.name ? device_spec() : where;
  }
};

/// Returns a device scope: `auto on_gpu = with_device(g, cuda{0});`
template <class Where>
[[nodiscard]] device_scope with_device(graph& g, const Where& where) {
  return device_scope(g, where);
}

/// Returns a scope whose nodes run on the device of `n`, regardless of enclosing scopes (tf.colocate_with). If one of
/// the nodes has no GPU kernel, soft placement moves all of them.
template <class Node>
[[nodiscard]] device_scope colocate_with(graph& g, const Node& n) {
  return device_scope(g, n.id());
}

}  // namespace weft
WEFT_COLD_END

#include <weft/graph/reverse_mode.hpp>
#include <weft/graph/untrained_copies.hpp>
