// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include <weft/graph/graph_of.hpp>
#include <weft/graph/leaves.hpp>
#include <weft/graph/scopes.hpp>
#include <weft/graph/variables.hpp>
#include <weft/nn/members.hpp>
#include <weft/tensor/intrusive_ptr.hpp>
#include <weft/tensor/mistake.hpp>

/// The parts of every layer: a name, variables that its first call creates, and stored initializers.
WEFT_COLD_BEGIN
namespace weft::nn {

/// The mode of a call: batch normalization and dropout depend on it (the argument `training` of Keras's layers).
enum class mode : unsigned char { inference, training };

/// A layer that behaves differently in training requires a mode. `Called` is the layer or its operand.
template <class Called>
struct mode_is_missing : mistake<true> {};

/// A variable of a layer whose extents depend on the layer's first operand. It is empty before the first call. Its
/// lifetime is that of a node.
class parameter : public weft::detail::handle {
 public:
  parameter() = default;
  explicit parameter(const symbol& s) : handle(s) {}

  /// Returns the variable with its type: `net.head.weights.as<dims<784, 10>>()`. Throws invalid_argument if it has
  /// other extents or elements, and failed_precondition before the layer's first call.
  template <class D, Element T = float>
  variable_node<T, dims_t<D>> as() const {
    check({dtype_of<T>, D::spec});
    return variable_node<T, dims_t<D>>(symbol_);
  }

 private:
  void check(const value_info& asked) const;
};

/// An initializer of a layer's variables must not be a number or a text.
template <class Given>
struct value_is_not_an_initializer : mistake<true> {};

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
  template <class Given>
    requires(!Initializer<Given> && !std::is_base_of_v<detail::member_probe, Given>)
  stored_initializer(const Given&) : make_(nullptr) {
    static_assert(correct<value_is_not_an_initializer<Given>>,
                  "a layer's variables need an initializer, such as init::constant{0.5} or init::he_normal{}");
  }

  /// For record_variable; refers to this object.
  weft::detail::first_value first_value() const { return {bytes_, make_}; }

 private:
  alignas(double) unsigned char bytes_[32] = {};
  initializer (*make_)(const void*, const shape&);
};

/// Marks a layer that deduces its input features from its first operand.
inline constexpr int deduced = 0;

/// The last call of a layer that recorded nodes: its operand and its result. Equal calls share nodes. The call consists
/// of the nodes from which the result is computed, back to the operand, whose names begin with `scope`.
struct recorded_call {
  symbol operand, result;
  std::string scope;
  std::uint32_t first = 0;  ///< the first node that the call added
};

namespace detail {

/// The classes of Weft's layers. All other layers are `custom`.
enum class layer_class : unsigned char {
  custom,
  dense,
  conv1d,
  conv2d,
  conv2d_transpose,
  depthwise_conv2d,
  grouped_conv2d,
  batch_norm,
  layer_norm,
  group_norm,
  instance_norm,
  rms_norm,
  embedding,
  simple_rnn,
  lstm,
  gru,
  attention,
  prelu,
  conv1d_transpose,
  embedding_bag,
  conv3d
};

/// State shared by a layer and the copies made before its first call: the graphs in which one of them has variables.
/// Each thread can have its own copy and graph.
class layer_copies final : public weft::detail::ref_counted {
 public:
  /// Returns true if one of the copies has variables in the graph of x.
  bool have_variables_in(const symbol& x);
  void add_graph_of(const symbol& x);

 private:
  void lock() {
    while (__atomic_test_and_set(&locked_, __ATOMIC_ACQUIRE)) {
    }
  }
  void unlock() { __atomic_clear(&locked_, __ATOMIC_RELEASE); }

  bool locked_ = false;
  sequence<symbol> operands_;  // one for each graph
};

}  // namespace detail

class layer_state;

namespace detail {

/// Receives the result of each call of a layer on this thread while it exists (observe.hpp).
class call_observer {
 public:
  call_observer() : outer_(innermost) { innermost = this; }
  call_observer(const call_observer&) = delete;
  call_observer& operator=(const call_observer&) = delete;
  virtual void observe(const layer_state&, const symbol& result) = 0;

  call_observer* outer() const { return outer_; }

  static inline thread_local call_observer* innermost = nullptr;

 protected:
  ~call_observer() { innermost = outer_; }

 private:
  call_observer* const outer_;
};

}  // namespace detail

/// The name of a layer, and its last call. `named` (model.hpp) sets the name. The default name is the layer's kind,
/// numbered if the graph has several: "dense", "dense_1".
///
/// A class with a member layer_state is a layer: the names of its variable members are prefixed with its name.
class layer_state {
 public:
  explicit layer_state(const char* kind) : layer_state(kind, detail::layer_class::custom) {}
  explicit layer_state(detail::layer_class type);

  const char* kind() const { return kind_; }
  detail::layer_class type() const { return type_; }
  /// Its scope in the graph, relative to the scopes around its first call: "encoder/hidden".
  const std::string& path() const { return path_; }
  /// Throws failed_precondition if the layer was already called under another name.
  void set_path(const std::string& path) const;
  const recorded_call& last_call() const { return call_; }
  /// Returns true after the first call, also in copies made after it.
  bool has_variables() const { return !first_operand_.is_number(); }

 private:
  friend class layer_call;

  layer_state(const char* kind, detail::layer_class type);
  /// Marks this layer as the copy that has variables in the graph of x.
  void own_variables_in_graph_of(const symbol& x) const;

  const char* kind_;
  detail::layer_class type_;
  mutable std::string path_;
  mutable recorded_call call_;
  mutable symbol first_operand_;  // of the call that created the variables
  mutable weft::detail::intrusive_ptr<detail::layer_copies> copies_;
};

/// A variable that a layer's call requires: `slot` is the layer's handle to it.
struct parameter_request {
  const char* name;
  shape extents;
  const stored_initializer& first;
  weft::detail::handle& slot;
  variable_kind kind = variable_kind::trained;
};

/// One call of a layer, while it records its nodes in the layer's scope. The first call creates the variables, with
/// elements of `type`; later calls check them. Throws invalid_argument if the layer belongs to another graph or its
/// variables have other extents, and failed_precondition in the first call of a layer if another copy of it has
/// variables in the same graph.
class layer_call {
 public:
  layer_call(const layer_state& layer, const symbol& x, const parameter_request* parameters, std::size_t count,
             dtype type);
  /// For a layer that creates its variables itself, by variable(): their names are prefixed with the layer's name while
  /// this object exists. x must be a node.
  template <class X>
    requires(std::is_base_of_v<weft::detail::handle, X>)
  layer_call(const layer_state& layer, const X& x) : layer_call(layer, x.erased(), nullptr, 0, dtype_of<value_t<X>>) {}
  ~layer_call() { innermost_ = outer_; }
  layer_call(const layer_call&) = delete;
  layer_call& operator=(const layer_call&) = delete;

  /// Returns the variable of request i.
  const symbol& operator[](std::size_t i) const { return parameters_[i].slot.erased(); }
  /// Stores the result for describe(), and returns it.
  symbol result(const symbol& y);
  /// Stores the result for describe(), and returns it as a node.
  template <Expression Y>
  auto result(const Y& y) {
    auto noted = let(y);
    result(noted.erased());
    return noted;
  }

 private:
  std::string scope_in_outer() const;

  static inline thread_local const layer_call* innermost_ = nullptr;

  const layer_call* outer_ = innermost_;
  const layer_state& layer_;
  const parameter_request* parameters_;
  graph& graph_;
  symbol operand_;
  std::uint32_t first_;
  graph::variable_scope scope_;
};

#if WEFT_DEFINITIONS

WEFT_DECL void parameter::check(const value_info& asked) const {
  const graph& g = graph_of(symbol_);
  weft::detail::find_variable(g, g[symbol_.id().node].name, asked);
}

WEFT_DECL void layer_state::set_path(const std::string& path) const {
  if (has_variables() && path != path_)
    throw error(error_code::failed_precondition, path_,
                {"the layer already has variables of this name: name the model \"", path, "\" before its first call"});
  if (path != path_) copies_ = weft::detail::intrusive_ptr<detail::layer_copies>(new detail::layer_copies);
  path_ = path;
}

WEFT_DECL layer_state::layer_state(const char* kind, detail::layer_class type)
    : kind_(kind), type_(type), copies_(new detail::layer_copies) {}

WEFT_DECL layer_state::layer_state(detail::layer_class type)
    : layer_state(
          [type] {
            constexpr const char* names[] = {"layer",
                                             "dense",
                                             "conv1d",
                                             "conv2d",
                                             "conv2d_transpose",
                                             "depthwise_conv2d",
                                             "grouped_conv2d",
                                             "batch_norm",
                                             "layer_norm",
                                             "group_norm",
                                             "instance_norm",
                                             "rms_norm",
                                             "embedding",
                                             "simple_rnn",
                                             "lstm",
                                             "gru",
                                             "attention",
                                             "prelu",
                                             "conv1d_transpose",
                                             "embedding_bag",
                                             "conv3d"};
            return names[static_cast<std::size_t>(type)];
          }(),
          type) {}

WEFT_DECL void layer_state::own_variables_in_graph_of(const symbol& x) const {
  if (has_variables()) return;
  first_operand_ = x;
  if (copies_) copies_->add_graph_of(x);
}

namespace detail {

WEFT_DECL bool layer_copies::have_variables_in(const symbol& x) {
  bool found = false;
  lock();
  for (const symbol& other : operands_)
    found |= other.is_in_a_graph() && &graph_of(other).whole() == &graph_of(x).whole();
  unlock();
  return found;
}
WEFT_DECL void layer_copies::add_graph_of(const symbol& x) {
  lock();
  for (std::size_t i = operands_.size(); i-- > 0;)
    if (!operands_[i].is_in_a_graph()) operands_.erase(i);
  operands_.push_back(x);
  unlock();
}

/// Returns the path of a layer. A layer without a path gets an unused scope name: "dense", "dense_1".
inline const std::string& scope_of(std::string& path, const char* kind, graph& g) {
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
                "the layer's variables are in the graph of its first call: make another model for another graph");
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
      scope_(graph_, scope_in_outer()) {
  if (!layer.has_variables() && layer.copies_ && layer.copies_->have_variables_in(x))
    throw error(error_code::failed_precondition, layer.path_,
                "the layer was copied before its first call, and a copy already has variables: copy a model after its "
                "first call to share its variables, or give the copy another name, nn::named(copy, \"other\"), for "
                "variables of its own");
  for (std::size_t i = 0; i < count; ++i)
    if (!parameters[i].slot.empty()) detail::check_parameter(layer.path_, graph_, type, parameters[i]);
  static const char* const no_names[max_rank + 1] = {};
  for (std::size_t i = 0; i < count; ++i) {
    const parameter_request& p = parameters[i];
    if (!p.slot.empty()) continue;
    p.slot = weft::detail::handle(
        weft::detail::record_variable(graph_, p.name, type, p.extents, no_names, p.first.first_value(), p.kind));
    layer.own_variables_in_graph_of(x);
  }
  layer.own_variables_in_graph_of(x);  // also for a layer that creates its variables itself
  innermost_ = this;
}

/// Returns the layer's path, relative to the layer that calls it.
WEFT_DECL std::string layer_call::scope_in_outer() const {
  const std::string& path = detail::scope_of(layer_.path_, layer_.kind_, graph_);
  if (!outer_ || &outer_->graph_.whole() != &graph_.whole()) return path;
  const std::string& outer = outer_->layer_.path_;
  return path.size() > outer.size() + 1 && path.starts_with(outer) && path[outer.size()] == '/'
             ? path.substr(outer.size() + 1)
             : path;
}

WEFT_DECL symbol layer_call::result(const symbol& y) {
  const auto last = static_cast<std::uint32_t>(graph_.size());
  if (last > first_ || layer_.call_.result.is_number())
    layer_.call_ = {operand_, y, std::string(graph_.scope()), first_};
  for (detail::call_observer* o = detail::call_observer::innermost; o; o = o->outer()) o->observe(layer_, y);
  return y;
}

#endif

/// The mistake of `dense layer(10, relu)`: sizes are template arguments.
template <class... Arguments>
struct extents_are_template_arguments : mistake<true> {};

}  // namespace weft::nn
WEFT_COLD_END
