// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <weft/graph/device_spec.hpp>
#include <weft/graph/gradient_clip.hpp>
#include <weft/graph/graph_node.hpp>
#include <weft/graph/structural_hash.hpp>
#include <weft/ops/aliases.hpp>
#include <weft/ops/primitives.hpp>
#include <weft/ops/symbol.hpp>
#include <weft/tensor/owned.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/tensor/storage.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// How a `variable_scope` treats variables whose name exists (tf.variable_scope's reuse).
enum class reuse : unsigned char {
  no,        ///< creates variables; throws if the name exists
  yes,       ///< uses existing variables; throws if the name does not exist
  automatic  ///< uses an existing variable or creates it (tf.AUTO_REUSE)
};

class graph;
struct subgraph;

/// An object that nodes refer to and the graph owns.
struct graph_owned {
  virtual ~graph_owned() = default;
};

namespace detail {

/// A gradient with respect to a variable, as produced by reverse mode or gradient accumulation.
struct noted_gradient {
  value of;
  std::uint32_t variable;
};

/// A value computed from the rows of a sparse gradient, and the equal value computed from the dense gradient.
struct whole_twin {
  value by_rows, whole;
};

/// A clipped gradient. It is recorded so that parameter servers can clip the mean of the workers' gradients instead.
struct noted_clip {
  value clipped, gradient;
  std::uint32_t rows =
      graph_node::no_node;  // the node that sums a sparse gradient's rows by index; none for a dense gradient
  gradient_clip how{};
  value norm{};  // for clip_kind::by_global_norm: shared by all gradients with the same norm
};

/// How a loss is scaled (train/loss_scale.hpp). It is recorded so that parameter servers can apply the scale.
struct noted_loss_scale {
  value scale{}, good_steps{};  // variables, or constants for a fixed scale
  value finite{};               // true if no gradient of the step is infinite or NaN
  value factor{};               // the last hyperparameter of updates that receive gradients of the scaled loss
  value passes{};               // the last hyperparameter of updates whose gradients are divided by the scale already
  sequence<std::uint32_t> assignments;  // to the scale, the good steps and counters
  bool is_dynamic = false;
  sequence<double> numbers;  // the hyperparameters of detail::loss_scale_rule
};

/// The names in use, in a hash table.
struct taken_name {
  std::string name;
  int next = 1;  ///< the first suffix to try for a further node of this name
  std::uint32_t node = graph_node::no_node;
  bool is_shared = false;  ///< belongs to a variable that scopes can reuse
  std::string scope = {};  ///< the scope in which that variable was created
};
class taken_names {
 public:
  taken_name& take(const std::string& name);
  taken_name& last() { return all_.back(); }
  const taken_name* find(const std::string& name) const;
  /// Returns the name, with _1, _2, ... appended if it is taken.
  std::string free(const std::string& name);

 private:
  std::uint32_t index_of(const std::string& name) const;
  static std::uint64_t hash_of(const std::string& name) {
    hasher h;
    h.add(name);
    return h.result();
  }

  index_set by_hash_;
  sequence<taken_name> all_;
};

// Names of variables: numbered like those of other nodes, unless variables are reused.
struct graph_variable_names {
  reuse mode = reuse::no;
  std::string prefix;
  taken_names entered = {};  // name scopes entered in this variable_scope

  std::string enter(const std::string& name) {
    const std::string full = entered.free(prefix + name);
    entered.take(full);
    return full + "/";
  }
};
struct graph_place {
  device_spec fixed;
  device_spec (*function)(const void*, const placement_query&);
  const void* state;
  std::uint32_t beside;
  bool is_used = false;  // the scope has placed a node
};
struct graph_location {
  device_spec device;
  std::uint32_t beside = graph_node::no_node;
};

struct graph_records;

/// If a model is called twice in a name_scope, the second call creates a second set of variables, and training may
/// update only the first. Describes the untrained variables of this kind that a step reads; empty if there are none.
/// `only_new` omits variables that the graph has reported before.
std::string untrained_copies(const graph& g, const sequence<std::uint32_t>& read, bool only_new);

/// A name scope that was numbered because its name was taken: layer_1/ after layer/.
struct numbered_scope {
  std::string first, scope;
  bool is_reported = false;  ///< true after reporting that only the first scope is trained
};

/// Records other nodes in place of a node, and sets `result` to their result. Returns false to record the node itself.
using graph_rewrite = bool(op_builder& where, const node_def&, symbol& result);

/// The contents of a graph.
struct graph_data {
  std::uint64_t seed = 87654321, random_operations = 0;
  std::size_t planned_size = 0, growing_runs = 0;
  sequence<graph_node> nodes;
  index_set shared;
  taken_names names;
  std::string prefix;
  graph_variable_names variables;
  sequence<graph_place> places;
  sequence<std::uint32_t> colocated, control, updates, optimizer_updates;
  sequence<noted_gradient> gradients;
  sequence<whole_twin> whole_twins;
  sequence<noted_clip> clips;
  sequence<noted_loss_scale> loss_scales;
  sequence<std::pair<std::int64_t, std::int64_t>> extents;
  sequence<std::pair<std::int64_t, const char*>> extent_names;
  sequence<const extent_definition*> extent_formulas;
  sequence<const primitive_table*> primitives;
  graph* whole = nullptr;        // set for a subgraph
  subgraph* body = nullptr;      // being recorded
  std::size_t outer_places = 0;  // number of open device scopes when the subgraph was created
  device_spec unused_place;      // device of the last device scope that ended without placing a node
  sequence<subgraph*> subgraphs;
  sequence<graph_owned*> owned;
  sequence<numbered_scope> numbered_scopes;
  decltype(untrained_copies)* find_untrained_copies = nullptr;  // set when a scope is numbered
  graph_rewrite* rewrite = nullptr;                             // of nodes, while an nn::autocast exists
};

}  // namespace detail

/// A dataflow graph. A program builds it once through typed handles; sessions prune, place, order and run it. Equal
/// operations on equal operands share one node. Not safe for concurrent writing.
///
/// Moving a graph keeps its nodes, scopes and sessions valid, so a function can return a graph together with its nodes.
/// Recording in a moved-from graph throws failed_precondition. A session keeps the records of its graph alive.
class graph final : public op_builder {
 public:
  graph() : graph(87654321) {}
  /// Creates a graph with the given seed for random numbers.
  explicit graph(std::uint64_t seed);
  graph(graph&& other) noexcept;
  graph& operator=(graph&& other) noexcept;
  graph(const graph&) = delete;  // std::move(g): nodes stay valid
  graph& operator=(const graph&) = delete;
  ~graph();

  /// The handle inside the records, whose address does not change when the graph moves. Code that stores a reference to
  /// a graph should refer to this handle.
  graph& self() { return static_cast<graph&>(*self_); }
  const graph& self() const { return static_cast<const graph&>(*self_); }
  /// Returns another owner of the same records.
  graph share() const;

  std::uint64_t seed() const { return data_->seed; }
  std::size_t size() const { return data_->nodes.size(); }
  const graph_node& operator[](std::uint32_t node) const { return data_->nodes[node]; }
  /// The nodes that are colocated with another node.
  const sequence<std::uint32_t>& colocated() const { return data_->colocated; }
  const value_info& info(value v) const override { return data_->nodes[v.node].def.outputs[v.output]; }

  /// Sets a named dynamic extent, `g.set(dyn<"hidden">, 100)`. Call it before creating variables with this extent, and
  /// do not change the value once the graph has a session.
  template <detail::named_extent Extent>
  void set(Extent, std::int64_t size) {
    if (size < 0) throw error(error_code::invalid_argument, Extent::name, "an extent must not be negative");
    remember_name(Extent::code, Extent::name);
    for (auto& [code, value] : data_->extents)
      if (code == Extent::code) {
        value = size;
        return;
      }
    data_->extents.push_back({Extent::code, size});
  }
  const sequence<std::pair<std::int64_t, std::int64_t>>& fixed_extents() const { return whole().data_->extents; }

  /// The name of a dynamic extent, by its code.
  const char* extent_name(std::int64_t code) const;
  void remember_name(std::int64_t code, const char* name);
  /// The formula of a computed extent; null for a named extent.
  const extent_definition* extent_formula(std::int64_t code) const;
  WEFT_DECL void remember_extent(const extent_definition& d) override;
  std::string to_string(const weft::shape& s) const;

  /// Sessions report each run that they plan. Nodes are never removed, so a program that records nodes for each run
  /// becomes slower and uses more memory each time. After this many planned runs with a larger graph, recording throws.
  static constexpr std::size_t max_growing_runs = 2000;
  void note_planned_run() const {
    // Atomic, because sessions of one graph can plan on different threads.
    if (__atomic_exchange_n(&data_->planned_size, data_->nodes.size(), __ATOMIC_RELAXED) != data_->nodes.size())
      __atomic_fetch_add(&data_->growing_runs, 1, __ATOMIC_RELAXED);
  }

  // ---- subgraphs of nodes: separate graphs that share the extent names and kernels of the whole graph ----

  /// The graph itself or, for a subgraph, the outermost graph that contains it.
  graph& whole() { return data_->whole ? *data_->whole : self(); }
  const graph& whole() const { return data_->whole ? *data_->whole : self(); }
  bool is_subgraph() const { return data_->whole != nullptr; }
  /// Adds a subgraph and returns its number. The name is for messages and printing.
  std::uint32_t add_subgraph(const std::string& name);
  /// The device of the last scope that ended without placing a node since the previous call.
  device_spec take_unused_place() {
    const device_spec place = whole().data_->unused_place;
    whole().data_->unused_place = {};
    return place;
  }
  /// Until it is called with null, operations on values of this graph are recorded in the body, which captures them.
  void record_body(subgraph* body);
  WEFT_DECL const symbol& captured(value) override;
  subgraph& subgraph_at(std::uint32_t number) { return *whole().data_->subgraphs[number]; }
  const subgraph& subgraph_at(std::uint32_t number) const { return *whole().data_->subgraphs[number]; }

  // ---- recording ----

  // WEFT_DECL here too: if only the definition of a virtual function were inline, every file would emit the class.

  WEFT_DECL symbol record(node_def def) override;

  WEFT_DECL symbol record_constant(const void* data, const value_info& declared, const shape& extents) override;

  /// Adds a node with its own name, which is not shared with equal calls: a placeholder, a variable and the like.
  std::uint32_t add(node_def def, const std::string& name);

  /// Returns the variable to reuse under this name in the current scopes. Returns no_node if the scopes do not reuse
  /// variables, or if the variable does not exist and may be created. Throws invalid_argument if the variable exists
  /// but must not be reused, or has other elements; not_found if it must exist but does not.
  std::uint32_t reused_variable(std::string_view name, const value_info& declared, variable_kind kind) const;

  /// Adds a variable with a unique name.
  std::uint32_t add_variable(node_def def, std::string_view name);

  /// Returns the node with this name, including scopes; no_node if there is none.
  std::uint32_t find(std::string_view name) const;
  /// The nodes that update variables: optimizers, gradient sums and averages.
  const sequence<std::uint32_t>& optimizer_updates() const { return data_->optimizer_updates; }

  /// A node's definition, for code that rewrites a subgraph. New operands must precede the node.
  node_def& rewrite(std::uint32_t node) { return data_->nodes[node].def; }
  /// Makes this node run before all nodes recorded from now on (control_dependencies, effects.hpp).
  void enter_control(std::uint32_t before) { data_->control.push_back(before); }
  void leave_control(std::size_t depth) { data_->control.resize(depth); }
  std::size_t control_depth() const { return data_->control.size(); }

  /// Makes trainings recorded from now on run this node if they share a computed value with it (add_update,
  /// effects.hpp).
  void note_update(std::uint32_t node) { data_->updates.push_back(node); }
  const sequence<std::uint32_t>& updates() const { return data_->updates; }

  void add_control(std::uint32_t node, std::uint32_t before) { data_->nodes[node].control.push_back(before); }
  void initialize(std::uint32_t node, initializer init) { data_->nodes[node].init = std::move(init); }
  /// Gives a variable the same initial value as `other`. Random values depend on the name of `other`.
  void initialize_as(std::uint32_t node, std::uint32_t other) { data_->nodes[node].begins_as = other; }

  WEFT_DECL std::uint64_t random_key(const std::uint64_t* seed) override;

  WEFT_DECL value with_name(value v, const char* name) override;
  WEFT_DECL std::string description(value v) const override;

  /// Takes ownership of an object that nodes refer to.
  void keep(graph_owned* object) {
    data_->owned.reserve(data_->owned.size() + 1);
    data_->owned.push_back(object);
  }

  // ---- gradients ----

  WEFT_DECL void use(const primitive_table& table) override;
  WEFT_DECL const fused* kernels(primitive p, dtype type, dtype to) const override;
  WEFT_DECL dtype compared_type(value condition) const override;
  WEFT_DECL const fused_reduction* sums(dtype type) const override;

  WEFT_DECL sequence<symbol> differentiate(const sequence<symbol>& ys, const sequence<symbol>& upstream,
                                           const sequence<symbol>& xs, bool partial = false) override;

  /// Records the gradients of variables: clusters exchange them and replace them by their mean.
  void note_gradient(value of, std::uint32_t variable) { data_->gradients.push_back({of, variable}); }
  const sequence<detail::noted_gradient>& gradients() const { return data_->gradients; }
  /// Records that `by_rows`, computed from the rows of a sparse gradient, equals `whole`, computed from the dense one.
  void note_whole(value by_rows, value whole) { data_->whole_twins.push_back({by_rows, whole}); }
  const sequence<detail::whole_twin>& whole_twins() const { return data_->whole_twins; }
  void note_clip(const detail::noted_clip& clip) { data_->clips.push_back(clip); }
  const sequence<detail::noted_clip>& clips() const { return data_->clips; }
  void note_loss_scale(const detail::noted_loss_scale& scale) { data_->loss_scales.push_back(scale); }
  const sequence<detail::noted_loss_scale>& loss_scales() const { return data_->loss_scales; }
  /// The value computed from the dense gradient that equals `v`; `v` if there is none.
  value whole_of(value v) const {
    for (const auto& [by_rows, whole] : data_->whole_twins)
      if (by_rows == v) return whole;
    return v;
  }

  /// Sets the function that rewrites nodes as they are recorded, also in subgraphs, and returns the previous one.
  detail::graph_rewrite* set_rewrite(detail::graph_rewrite* function) {
    return std::exchange(whole().data_->rewrite, function);
  }

  // ---- names and devices: see scopes.hpp ----

  /// The prefix that the current scopes add to names, such as "layer/"; "" outside of scopes.
  const std::string& scope() const { return whole().data_->prefix; }
  sequence<detail::numbered_scope>& numbered_scopes() const { return data_->numbered_scopes; }
  /// detail::untrained_copies, or null if no scope is numbered. Programs without numbered scopes do not compile the
  /// function.
  decltype(detail::untrained_copies)* find_untrained_copies() const { return data_->find_untrained_copies; }

  class name_scope;
  class variable_scope;
  class device_scope;
  /// The device on which the current scopes place a node without inputs.
  WEFT_DECL device_spec device_here() const;

  /// A hash of the graph's structure: equal in all processes that build the graph the same way.
  std::uint64_t hash() const;

 private:
  friend struct subgraph;
  friend struct detail::graph_records;
  explicit graph(detail::graph_records&) noexcept;
  /// Creates a subgraph.
  explicit graph(graph& whole);

  std::uint64_t hash_nodes() const;

  [[noreturn]] static void refuse_growth(const std::string& name);

  std::uint32_t append(node_def def, std::string name, const detail::graph_location& here, bool named);

  detail::graph_location current_location(const node_def& def, const std::string& name) const;

  /// Returns the name in this scope, with _1, _2, ... appended if it is taken.
  std::string free_name(const std::string& name);
  void enter_scope(const std::string& name);

  detail::graph_data* data_;
};

/// A graph nested in a node, such as a branch or a loop body.
struct subgraph {
  explicit subgraph(graph& whole, const std::string& called) : nodes(whole), name(called) {}

  graph nodes;
  std::string name;
  sequence<value> parameters, results;

  /// A value of the enclosing graph, and the parameter that the body reads in its place.
  struct captured_value {
    value outside;
    owned<symbol> inside;  // at an address that does not change
  };
  sequence<captured_value> captured;
  /// Returns the parameter for a value of the graph around this one.
  const symbol& capture(const graph& around, value);
};

#if WEFT_DEFINITIONS

/// The records of a graph, whose address does not change when handles move. They are recycled for other graphs and
/// never freed, because symbols can check at any time whether their graph still exists.
struct detail::graph_records : graph_data {
  graph self{*this};
  std::size_t owners = 1;
  graph_records* next = nullptr;
  /// True for the records that moved-from graphs refer to. Each module of a process has its own such records, so their
  /// address does not identify them.
  bool are_of_moved_graphs = false;

  static graph_records& take();
  void release() noexcept;
  static graph_records& moved_from() noexcept {
    static graph_records& none = *[] {
      graph_records* const made = &take();
      made->are_of_moved_graphs = true;
      return made;
    }();
    return none;
  }

 private:
  /// Recycled records of this module. The virtual functions of `self` belong to the module, so another module, which
  /// can outlive it, must not recycle them.
  struct unused_records {
    graph_records* first;
    bool taken;
  };
  static inline unused_records unused{nullptr, false};
  unused_records* home = &unused;

  // A spin lock: any thread can create and destroy graphs.
  class guard {
   public:
    explicit guard(unused_records& of) noexcept : taken_(&of.taken) {
      while (__atomic_test_and_set(taken_, __ATOMIC_ACQUIRE)) {
      }
    }
    guard(const guard&) = delete;
    guard& operator=(const guard&) = delete;
    ~guard() { __atomic_clear(taken_, __ATOMIC_RELEASE); }

   private:
    bool* taken_;
  };
};

WEFT_DECL detail::graph_records& detail::graph_records::take() {
  {
    const guard here(unused);
    if (graph_records* const found = unused.first) {
      unused.first = found->next;
      found->owners = 1;
      return *found;
    }
  }
  return *new graph_records;
}

WEFT_DECL void detail::graph_records::release() noexcept {
  if (__atomic_fetch_sub(&owners, 1, __ATOMIC_ACQ_REL) != 1) return;
  for (subgraph* b : subgraphs) delete b;
  for (graph_owned* o : owned) delete o;
  graph_data* const ended = this;
  ended->~graph_data();
  new (ended) graph_data;
  __atomic_fetch_add(&self.generation_, 2, __ATOMIC_RELAXED);
  const guard here(*home);
  next = home->first;
  home->first = this;
}

WEFT_DECL graph::graph(detail::graph_records& of) noexcept : data_(&of) {}
WEFT_DECL graph::graph(std::uint64_t seed) : data_(&detail::graph_records::take()) {
  self_ = &static_cast<detail::graph_records*>(data_)->self;
  data_->seed = seed;
}
WEFT_DECL graph::graph(graph& whole) : graph() {
  data_->whole = &whole.self();
  data_->outer_places = whole.data_->places.size();
}
WEFT_DECL graph::graph(graph&& other) noexcept : data_(other.data_) {
  self_ = other.self_;
  other.data_ = &detail::graph_records::moved_from();
  other.self_ = &detail::graph_records::moved_from().self;
}
WEFT_DECL graph& graph::operator=(graph&& other) noexcept {
  graph from(std::move(other));
  std::swap(data_, from.data_);
  std::swap(self_, from.self_);
  return *this;
}
WEFT_DECL graph::~graph() {
  auto* const records = static_cast<detail::graph_records*>(data_);
  if (self_ != this && !records->are_of_moved_graphs) records->release();
}
WEFT_DECL graph graph::share() const {
  auto* const records = static_cast<detail::graph_records*>(data_);
  if (records->are_of_moved_graphs)
    throw error(error_code::failed_precondition, "session",
                "its graph has been moved from: use the graph that it was moved to");
  __atomic_fetch_add(&records->owners, 1, __ATOMIC_RELAXED);
  graph also(*records);
  also.self_ = &records->self;
  return also;
}

WEFT_DECL std::uint32_t detail::taken_names::index_of(const std::string& name) const {
  return by_hash_.find(hash_of(name), [&](std::uint32_t i) { return all_[i].name == name; });
}

WEFT_DECL detail::taken_name& detail::taken_names::take(const std::string& name) {
  all_.push_back({name});
  by_hash_.insert(hash_of(name), static_cast<std::uint32_t>(all_.size() - 1));
  return all_.back();
}

WEFT_DECL const detail::taken_name* detail::taken_names::find(const std::string& name) const {
  const std::uint32_t i = index_of(name);
  return i == index_set::none ? nullptr : &all_[i];
}

WEFT_DECL std::string detail::taken_names::free(const std::string& name) {
  const std::uint32_t first = index_of(name);
  if (first == index_set::none) return name;
  for (;; ++all_[first].next) {
    std::string candidate = str_cat({name, "_", all_[first].next});
    if (index_of(candidate) == index_set::none) return candidate;
  }
}

WEFT_DECL const char* graph::extent_name(std::int64_t code) const {
  for (const auto& [known, name] : whole().data_->extent_names)
    if (known == code) return name;
  return "?";
}

WEFT_DECL void graph::remember_name(std::int64_t code, const char* name) {
  for (const auto& known : whole().data_->extent_names)
    if (known.first == code) return;
  whole().data_->extent_names.push_back({code, name});
}

WEFT_DECL const extent_definition* graph::extent_formula(std::int64_t code) const {
  for (const extent_definition* d : whole().data_->extent_formulas)
    if (d->code == code) return d;
  return nullptr;
}

WEFT_DECL void graph::remember_extent(const extent_definition& d) {
  if (d.is_number() || extent_formula(d.code)) return;
  if (d.is_name()) return remember_name(d.code, d.text);
  if (d.numerator) remember_extent(*d.numerator), remember_extent(*d.denominator);
  for (std::size_t i = 0; i < d.atom_count; ++i)
    if (d.atoms[i]->is_name()) remember_extent(*d.atoms[i]);
  whole().data_->extent_formulas.push_back(&d);
  remember_name(d.code, d.text);
}

WEFT_DECL std::string graph::to_string(const weft::shape& s) const {
  const char* names[max_rank + 1]{};
  for (std::size_t i = 0; i < s.rank; ++i)
    if (s[i] < 0) names[i] = extent_name(s[i]);
  return weft::to_string(s, names);
}

WEFT_DECL symbol graph::record(node_def def) {
  if (data_->body) {
    for (value& in : def.inputs) in = captured(in).id();
    return data_->body->nodes.record(std::move(def));
  }
  symbol result;
  if (detail::graph_rewrite* const function = whole().data_->rewrite; function && function(*this, def, result))
    return result;
  return {this, {add(std::move(def), {}), 0}};
}

WEFT_DECL symbol graph::record_constant(const void* data, const value_info& declared, const shape& extents) {
  if (data_->body) return data_->body->nodes.record_constant(data, declared, extents);
  detail::hasher h;
  h.add(&operation_of<constant_op>);
  h.add(declared);
  const sequence<std::int64_t> sizes(extents.extents, extents.extents + extents.rank);
  for (const std::int64_t s : sizes) h.add(static_cast<std::uint64_t>(s));
  const auto* bytes = static_cast<const unsigned char*>(data);
  const std::size_t size = value_info{declared.type, extents}.bytes();
  for (std::size_t i = 0; i < size; ++i) h.add(bytes[i]);
  const auto same = [&](std::uint32_t n) {
    const graph_node& other = data_->nodes[n];
    return is_operation<constant_op>(other.def.op) && other.def.outputs[0].type == declared.type &&
           other.def.outputs[0].extents == declared.extents && other.def.attributes == sizes &&
           (size == 0 || __builtin_memcmp(other.init.data.data(), data, size) == 0);
  };
  std::uint32_t found = data_->shared.find(h.result(), same);
  if (found == detail::index_set::none) {
    node_def def;
    def.op = &operation_of<constant_op>;
    def.outputs = {declared};
    def.attributes = sizes;
    found = add(std::move(def), {});
    data_->nodes[found].init = {initializer::kind_type::value, 0, 0, storage(size)};
    if (size > 0) __builtin_memcpy(data_->nodes[found].init.data.data(), data, size);
    data_->shared.insert(h.result(), found);
  }
  return {this, {found, 0}};
}

WEFT_DECL std::uint32_t graph::add(node_def def, const std::string& name) {
  for (const value& v : def.inputs)
    if (v.node >= data_->nodes.size())
      throw error(error_code::invalid_argument, def.op->name, "an operand belongs to another graph");
  std::string full = free_name(name.empty() ? def.op->name : name);
  const detail::graph_location here = current_location(def, full);
  if (def.op->stateful || !name.empty()) return append(std::move(def), std::move(full), here, !name.empty());
  detail::hasher h;
  h.add(def.op);
  h.add(def.detail);
  for (const value& v : def.inputs) h.add((std::uint64_t{v.node} << 32) | v.output);
  for (auto a : def.attributes) h.add(static_cast<std::uint64_t>(a));
  for (auto l : def.literals) h.add(l);
  for (auto b : def.subgraphs) h.add(b);
  for (const auto& o : def.outputs) h.add(o);
  for (const std::uint32_t c : data_->control) h.add(std::uint64_t{c});
  const auto same = [&](std::uint32_t n) {
    const node_def& other = data_->nodes[n].def;
    return other.op == def.op && other.detail == def.detail && other.inputs == def.inputs &&
           other.attributes == def.attributes && other.literals == def.literals && other.outputs == def.outputs &&
           other.subgraphs == def.subgraphs && data_->nodes[n].device == here.device &&
           data_->nodes[n].beside == here.beside && data_->nodes[n].control == data_->control;
  };
  const std::uint32_t found = data_->shared.find(h.result(), same);
  if (found != detail::index_set::none) return found;
  const std::uint32_t made = append(std::move(def), std::move(full), here, false);
  data_->shared.insert(h.result(), made);
  return made;
}

WEFT_DECL std::uint32_t graph::add_variable(node_def def, std::string_view name) {
  const std::string prefix = static_cast<std::string&&>(data_->prefix);
  data_->prefix = data_->variables.prefix;
  struct restore {
    std::string& to;
    const std::string& from;
    ~restore() { to = from; }
  } after{data_->prefix, prefix};
  const std::uint32_t node = add(std::move(def), std::string(name));
  data_->names.last().is_shared = true;
  data_->names.last().scope = data_->variables.prefix;
  return node;
}

WEFT_DECL std::uint32_t graph::find(std::string_view name) const {
  const detail::taken_name* const taken = data_->names.find(std::string(name));
  const bool has_it = taken && taken->node != graph_node::no_node && data_->nodes[taken->node].name == name;
  return has_it ? taken->node : graph_node::no_node;
}

WEFT_DECL std::uint64_t graph::random_key(const std::uint64_t* seed) {
  detail::hasher h;
  h.add(whole().data_->seed);
  h.add(std::uint64_t{seed != nullptr});
  h.add(seed ? *seed : whole().data_->random_operations++);
  return h.result();
}

WEFT_DECL std::string graph::description(value v) const {
  const auto& node = (*this)[v.node];
  return node.name.empty() ? str_cat({"an unnamed result of ", node.def.op->name}) : str_cat({"'", node.name, "'"});
}

WEFT_DECL void graph::use(const primitive_table& table) {
  for (const primitive_table* known : whole().data_->primitives)
    if (known == &table) return;
  whole().data_->primitives.push_back(&table);
}

WEFT_DECL const fused* graph::kernels(primitive p, dtype type, dtype to) const {
  for (const primitive_table* table : whole().data_->primitives)
    if (const fused* f = table->find(p, type, to)) return f;
  return nullptr;
}

WEFT_DECL dtype graph::compared_type(value condition) const {
  while (info(condition).type == dtype::boolean && !data_->nodes[condition.node].def.inputs.empty())
    condition = data_->nodes[condition.node].def.inputs[0];
  const sequence<const primitive_table*>& known = whole().data_->primitives;
  return is_floating(info(condition).type) || known.empty() ? info(condition).type : known[0]->type;
}

WEFT_DECL const fused_reduction* graph::sums(dtype type) const {
  for (const primitive_table* table : whole().data_->primitives)
    if (table->type == type) return table->sum ? table->sum() : nullptr;
  return nullptr;
}

WEFT_DECL std::uint64_t graph::hash_nodes() const {
  detail::hasher h;
  for (const graph_node& n : data_->nodes) {
    h.add(std::string(n.def.op->name));
    h.add(n.name);
    if (n.def.op->expression) h.add(skeleton::print(n.def.op->expression(n.def.detail)->text));
    if (is_operation<constant_op>(n.def.op))
      for (std::size_t i = 0; i < n.init.data.bytes(); ++i) h.add(static_cast<std::uint64_t>(n.init.data.data()[i]));
    for (const value& v : n.def.inputs) h.add((std::uint64_t{v.node} << 32) | v.output);
    for (const std::uint32_t c : n.control) h.add(std::uint64_t{c});
    for (auto a : n.def.attributes) h.add(static_cast<std::uint64_t>(a));
    for (auto l : n.def.literals) h.add(l);
    for (auto b : n.def.subgraphs) h.add(b);
    for (const auto& o : n.def.outputs) h.add(o);
  }
  for (const auto& [code, size] : data_->extents)
    h.add(static_cast<std::uint64_t>(code)), h.add(static_cast<std::uint64_t>(size));
  return h.result();
}

WEFT_DECL void graph::refuse_growth(const std::string& name) {
  throw error(error_code::resource_exhausted, name,
              {"the graph has grown in each of ", max_growing_runs,
               " runs, and nodes are never removed: build the graph once, prepare a step, and feed changing values to "
               "its placeholders; s.set(v, value) writes a variable without adding nodes"});
}

WEFT_DECL std::uint32_t graph::append(node_def def, std::string name, const detail::graph_location& here, bool named) {
  if (__atomic_load_n(&data_->growing_runs, __ATOMIC_RELAXED) > max_growing_runs) refuse_growth(name);
  data_->names.take(name).node = static_cast<std::uint32_t>(data_->nodes.size());
  graph_node n;
  n.def = std::move(def);
  n.name = std::move(name);
  n.device = here.device;
  n.beside = here.beside;
  n.named = named;
  // Leaves have no control inputs: their values exist before the step runs.
  if (!n.def.inputs.empty() || is_operation<group_op>(n.def.op) || n.def.op->ordered) n.control = data_->control;
  data_->nodes.push_back(std::move(n));
  const auto made = static_cast<std::uint32_t>(data_->nodes.size() - 1);
  if (here.beside != graph_node::no_node) data_->colocated.push_back(made);
  if (data_->nodes[made].def.op->update) data_->optimizer_updates.push_back(made);
  return made;
}

WEFT_DECL detail::graph_location graph::current_location(const node_def& def, const std::string& name) const {
  detail::graph_location here;
  device_spec& d = here.device;
  const value_info none;
  for (std::size_t i = data_->places.size(); i-- > 0;) {
    detail::graph_place& p = data_->places[i];
    p.is_used = true;
    // A scope inside the colocation scope that names another device takes precedence.
    if (p.beside != graph_node::no_node && d == device_spec()) here.beside = p.beside;
    d = merge(p.function ? p.function(p.state, {def.op->name, name, def.outputs.empty() ? none : def.outputs[0], d})
                         : p.fixed,
              d);
    if (p.beside != graph_node::no_node) break;
  }
  if (is_subgraph() && (whole().data_->places.size() > data_->outer_places || !(d == device_spec())))
    throw error(
        error_code::invalid_argument, name,
        "is placed inside cond or while_loop, whose subgraphs run where their node runs: put the device scope around "
        "the call");
  return here;
}

WEFT_DECL device_spec graph::device_here() const {
  node_def def;
  def.op = &operation_of<group_op>;
  return current_location(def, {}).device;
}

WEFT_DECL std::string graph::free_name(const std::string& name) {
  if (static_cast<detail::graph_records*>(data_)->are_of_moved_graphs)
    throw error(error_code::failed_precondition, name,
                "cannot be added to a graph that has been moved from: use the graph that it was moved to");
  return data_->names.free(scope() + name);
}

WEFT_DECL void graph::enter_scope(const std::string& name) {
  const std::string full = free_name(name), asked = data_->prefix + name;
  data_->names.take(full);
  data_->prefix = full + "/";
  detail::graph_variable_names& variables = data_->variables;
  variables.prefix = variables.mode == reuse::no ? data_->prefix : variables.enter(name);
  if (full == asked || variables.mode != reuse::no) return;
  data_->numbered_scopes.push_back({asked + "/", data_->prefix});
  data_->find_untrained_copies = detail::untrained_copies;
}

WEFT_DECL std::uint32_t graph::add_subgraph(const std::string& name) {
  graph& all = whole();
  all.data_->subgraphs.reserve(all.data_->subgraphs.size() + 1);
  all.data_->subgraphs.push_back(new subgraph(all, name));
  return static_cast<std::uint32_t>(all.data_->subgraphs.size() - 1);
}

WEFT_DECL void graph::record_body(subgraph* body) {
  data_->body = body;
  std::uint64_t& generation = self().generation_;
  __atomic_store_n(&generation, body ? generation | in_body : generation & ~in_body, __ATOMIC_RELAXED);
}

WEFT_DECL const symbol& graph::captured(value v) {
  const symbol& inside = data_->body->capture(*this, v);
  graph& nodes = data_->body->nodes;
  return nodes.data_->body ? nodes.captured(inside.id()) : inside;
}

WEFT_DECL const symbol& subgraph::capture(const graph& around, value v) {
  for (const captured_value& known : captured)
    if (known.outside == v) return *known.inside;
  node_def def;
  def.op = &operation_of<placeholder_op>;
  def.outputs = {around.info(v)};
  std::string free = nodes.data_->names.free(around[v.node].name);
  const std::uint32_t inside = nodes.append(std::move(def), std::move(free), detail::graph_location(), true);
  captured.push_back({v, owned(new symbol(&nodes, {inside, 0}))});
  return *captured.back().inside;
}

WEFT_DECL std::uint64_t graph::hash() const {
  detail::hasher h;
  h.add(hash_nodes());
  for (const subgraph* b : data_->subgraphs) h.add(b->nodes.hash_nodes());
  return data_->subgraphs.empty() ? hash_nodes() : h.result();
}

WEFT_DECL std::uint32_t graph::reused_variable(std::string_view name, const value_info& declared,
                                               variable_kind kind) const {
  const std::string full = data_->variables.prefix + std::string(name);
  const auto scope = [](const std::string& prefix) {
    return prefix.empty() ? "outside any scope" : "in the scope " + prefix.substr(0, prefix.size() - 1);
  };
  const std::string here = scope(data_->variables.prefix);
  const detail::taken_name* const taken = data_->names.find(full);
  if (!taken || !taken->is_shared) {
    if (data_->variables.mode != reuse::yes) return graph_node::no_node;
    throw error(error_code::not_found, full,
                {"reuse::yes requires a variable of this name, but there is none ", here,
                 ": create it first, in a scope of the same name, or use reuse::automatic, which creates it"});
  }
  const std::uint32_t known = taken->node;
  const value_info& there = data_->nodes[known].def.outputs[0];
  const std::string first = scope(taken->scope);
  if (data_->variables.mode == reuse::no)
    throw error(error_code::invalid_argument, full,
                {"a variable of this name exists, created ", first, ", so a second one cannot be created ", here,
                 ": use another name or name_scope; or create the variables once, in an object that is called twice; "
                 "or share them: variable_scope(g, reuse::yes) around the second use"});
  const variable_kind kind_there = kind_of(data_->nodes[known].def);
  if (kind_there != kind && !(kind_there == variable_kind::frozen && kind == variable_kind::trained))
    throw error(error_code::invalid_argument, full,
                {"the variable of this name, created ", first, ", has the kind ", weft::name(kind_there),
                 ", but this use declares the kind ", weft::name(kind), ": use the same kind in both places"});
  if (there.type != declared.type || !(there.extents == declared.extents))
    throw error(error_code::invalid_argument, full,
                {"the variable of this name, created ", first, ", is ", weft::name(there.type), " ",
                 to_string(there.extents), ", but this use declares ", weft::name(declared.type), " ",
                 to_string(declared.extents), ": use the same type and extents in both places"});
  return known;
}

#endif

}  // namespace weft

WEFT_COLD_END

// The rest of the class: its scopes, followed by reverse mode.
#include <weft/graph/scopes.hpp>
