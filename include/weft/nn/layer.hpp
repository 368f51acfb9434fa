#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include <weft/graph/graph_of.hpp>
#include <weft/graph/leaves.hpp>
#include <weft/graph/scopes.hpp>
#include <weft/graph/variables.hpp>

/// What every layer is made of: a name, variables that its first call creates, and initializers that it stores.
WEFT_COLD_BEGIN
namespace weft::nn {

/// How a model is called: batch normalization and dropout differ (the argument `training` of Keras's layers).
enum class mode : unsigned char { inference, training };

/// A variable of a layer whose extents follow from the layer's first operand. It is empty until that call. Valid as
/// nodes are.
class parameter : public weft::detail::handle {
 public:
  parameter() = default;
  explicit parameter(const symbol& s) : handle(s) {}

  /// The variable with its type: `net.head.weights.as<dims<784, 10>>()`. Throws invalid_argument if it has other
  /// extents or elements, and failed_precondition before the layer's first call.
  template <class D, Element T = float>
  variable_node<T, dims_t<D>> as() const {
    check({dtype_of<T>, D::spec});
    return variable_node<T, dims_t<D>>(symbol_);
  }

 private:
  void check(const value_info& asked) const;
};

/// Any initializer, stored in a layer: `dense<10> head{.weights_init = init::normal{.stddev = 0.01}}`.
class stored_initializer {
 public:
  template <Initializer Init>
  stored_initializer(const Init& init) : make_(weft::detail::make_first_value<Init>) {
    static_assert(
        sizeof(Init) <= sizeof bytes_ && alignof(Init) <= alignof(double) && std::is_trivially_copyable_v<Init>,
        "a layer stores initializers of at most 32 bytes that can be copied as bytes");
    __builtin_memcpy(bytes_, static_cast<const void*>(&init), sizeof(Init));
  }

  /// For record_variable; refers to this object.
  weft::detail::first_value first_value() const { return {bytes_, make_}; }

 private:
  alignas(double) unsigned char bytes_[32] = {};
  initializer (*make_)(const void*, const shape&);
};

/// The number of input features of a layer that takes it from its first operand.
inline constexpr int deduced = 0;

/// The last call of a layer that recorded nodes: its operand and its result. Equal calls share nodes: those of this
/// call are what the result is computed from, as far as the names begin with `scope`, and no further than to the
/// operand.
struct recorded_call {
  symbol operand, result;
  std::string scope;
  std::uint32_t first = 0;  ///< the first node that the call added
};

/// The name of a layer, and its last call. `named` (model.hpp) sets the name. A layer without a name is called after
/// its kind, with a number if the graph has several: "dense", "dense_1".
class layer_state {
 public:
  explicit layer_state(const char* kind) : kind_(kind) {}

  const char* kind() const { return kind_; }
  /// Its scope in the graph, relative to the scopes around its first call: "encoder/hidden".
  const std::string& path() const { return path_; }
  /// Throws failed_precondition if the layer was called already under another name.
  void set_path(const std::string& path) const;
  const recorded_call& last_call() const { return call_; }

 private:
  friend class layer_call;

  const char* kind_;
  mutable std::string path_;
  mutable recorded_call call_;
};

/// A variable that a call of a layer needs: `slot` is the layer's handle to it.
struct parameter_request {
  const char* name;
  shape extents;
  const stored_initializer& first;
  weft::detail::handle& slot;
  variable_kind kind = variable_kind::trained;
};

/// One call of a layer, while it records its nodes in the layer's scope. The first call creates the variables, of
/// elements of `type`; a later one checks them. Throws invalid_argument if the layer belongs to another graph or its
/// variables have other extents.
class layer_call {
 public:
  layer_call(const layer_state& layer, const symbol& x, const parameter_request* parameters, std::size_t count,
             dtype type);
  layer_call(const layer_call&) = delete;
  layer_call& operator=(const layer_call&) = delete;

  /// The variable of a request.
  const symbol& operator[](std::size_t i) const { return parameters_[i].slot.erased(); }
  /// Notes the result, and returns it.
  symbol result(const symbol& y);

 private:
  const layer_state& layer_;
  const parameter_request* parameters_;
  graph& graph_;
  symbol operand_;
  std::uint32_t first_;
  graph::variable_scope scope_;
};

#if WEFT_DEFINITIONS

WEFT_DECL void parameter::check(const value_info& asked) const {
  const graph& g = graph_of(erased());
  weft::detail::find_variable(g, g[symbol_.id().node].name, asked);
}

WEFT_DECL void layer_state::set_path(const std::string& path) const {
  if (!call_.result.is_number() && path != path_)
    throw error(error_code::failed_precondition, path_,
                {"the layer has variables of this name already: name the model \"", path, "\" before its first call"});
  path_ = path;
}

namespace detail {

/// The path of a layer. One without a path gets a name that no other scope has: "dense", "dense_1".
inline const std::string& scope_of(std::string& path, const char* kind, graph& g) {
  if (&g.whole() != &g.self())
    throw error(error_code::failed_precondition, path.empty() ? kind : path,
                "layers have their variables outside of the bodies of cond, while_loop and scan: call the layer "
                "before, or pass its variables as operands");
  if (path.empty()) {
    const std::size_t outer = g.scope().size();
    const graph::name_scope here(g, kind);
    path.assign(g.scope(), outer, g.scope().size() - outer - 1);
  }
  return path;
}

inline void check_parameter(const std::string& path, const graph& g, dtype type, const parameter_request& p) {
  if (&graph_of(p.slot.erased()).self() != &g.self())
    throw error(error_code::invalid_argument, path,
                "the layer has its variables in the graph of its first call: make another model for another graph");
  const value_info& there = p.slot.erased().info();
  if (there == value_info{type, p.extents}) return;
  throw error(error_code::invalid_argument, path,
              {"the layer's ", p.name, " are ", weft::name(there.type), " ", to_string(there.extents),
               " since its first call; this operand needs ", weft::name(type), " ", to_string(p.extents),
               ": use another layer"});
}

}  // namespace detail

WEFT_DECL layer_call::layer_call(const layer_state& layer, const symbol& x, const parameter_request* parameters,
                                 std::size_t count, dtype type)
    : layer_(layer),
      parameters_(parameters),
      graph_(graph_of(x)),
      operand_(x),
      first_(static_cast<std::uint32_t>(graph_.size())),
      scope_(graph_, detail::scope_of(layer.path_, layer.kind_, graph_)) {
  for (std::size_t i = 0; i < count; ++i)
    if (!parameters[i].slot.empty()) detail::check_parameter(layer.path_, graph_, type, parameters[i]);
  static const char* const no_names[max_rank + 1] = {};
  for (std::size_t i = 0; i < count; ++i) {
    const parameter_request& p = parameters[i];
    if (p.slot.empty())
      p.slot = weft::detail::handle(
          weft::detail::record_variable(graph_, p.name, type, p.extents, no_names, p.first.first_value(), p.kind));
  }
}

WEFT_DECL symbol layer_call::result(const symbol& y) {
  const auto last = static_cast<std::uint32_t>(graph_.size());
  if (last > first_ || layer_.call_.result.is_number())
    layer_.call_ = {operand_, y, std::string(graph_.scope()), first_};
  return y;
}

#endif

}  // namespace weft::nn
WEFT_COLD_END
