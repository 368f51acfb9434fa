#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/graph/device_spec.hpp>
#include <weft/ops/primitives.hpp>
#include <weft/ops/reshape.hpp>
#include <weft/ops/symbol.hpp>
#include <weft/tensor/random.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/tensor/storage.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// How a variable gets its first value.
struct initializer {
  enum class kind_type : unsigned char {
    none,
    constant,
    uniform,
    normal,
    truncated_normal,
    value
  } kind = kind_type::none;
  double a = 0;  ///< constant; lowest; mean
  double b = 0;  ///< highest; standard deviation
  storage data;  ///< value
};

/// One operation of a graph: what it computes, its name, and where it is to run.
struct graph_node {
  node_def def;
  std::string name;
  device_spec device;
  static constexpr std::uint32_t no_node = ~std::uint32_t{0};
  std::uint32_t beside = no_node;   ///< the node that it is colocated with
  sequence<std::uint32_t> control;  ///< nodes that run before this one although it does not read them
  initializer init;                 ///< of variables; of constants, the value
  bool named = false;               ///< by the program, so that the name stays
};

/// What a device function sees of a node: enough to place it as TensorFlow's functions do.
struct placement_query {
  const char* operation;
  const std::string& name;
  const value_info& output;
  const device_spec& requested;
};

namespace detail {

/// Open-addressing set of node numbers, by a hash that the caller makes.
class index_set {
 public:
  template <class Equal>
  std::uint32_t find(std::uint64_t hash, Equal equal) const {
    if (slots_.empty()) return none;
    for (std::size_t i = hash & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].index == none) return none;
      if (slots_[i].hash == hash && equal(slots_[i].index)) return slots_[i].index;
    }
  }
  void insert(std::uint64_t hash, std::uint32_t index) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    put(hash, index);
    ++count_;
  }
  static constexpr std::uint32_t none = ~std::uint32_t{0};

 private:
  struct slot {
    std::uint64_t hash = 0;
    std::uint32_t index = none;
  };
  void put(std::uint64_t hash, std::uint32_t index) {
    std::size_t i = hash & (slots_.size() - 1);
    while (slots_[i].index != none) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = {hash, index};
  }
  void grow() {
    sequence<slot> old(slots_.empty() ? 64 : 2 * slots_.size());
    old.swap(slots_);
    for (const slot& s : old)
      if (s.index != none) put(s.hash, s.index);
  }
  sequence<slot> slots_;
  std::size_t count_ = 0;
};

class hasher {
 public:
  void add(std::uint64_t word) {
    state_ = (state_ ^ word) * 0x9E3779B97F4A7C15u;
    state_ ^= state_ >> 29;
  }
  void add(const std::string& text) {
    for (char c : text) add(static_cast<std::uint64_t>(static_cast<unsigned char>(c)));
    add(text.size());
  }
  void add(const void* p) { add(reinterpret_cast<std::uintptr_t>(p)); }
  void add(const value_info& v) {
    add(static_cast<std::uint64_t>(v.type));
    add(v.extents.rank);
    for (std::size_t i = 0; i < v.extents.rank; ++i) add(static_cast<std::uint64_t>(v.extents[i]));
  }
  std::uint64_t result() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325u;
};

}  // namespace detail

/// What a variable is to a training, and so what becomes of it where several workers train one model.
enum class variable_kind : unsigned char {
  trained,   ///< minimize() updates it if the loss depends on it (a trainable variable of TensorFlow)
  averaged,  ///< statistics that steps assign, such as moving averages: workers have the mean of what each assigned
  counter,   ///< a scalar that counts updates, such as tf.train.global_step: workers have the count of all
  local,     ///< a worker's own
  slot,      ///< what an optimizer remembers of another variable
};

// What sessions know of themselves, and need no kernel.
struct placeholder_op {
  static constexpr const char* name = "placeholder";
  static constexpr bool stateful = true;
};
/// attributes: its kind, or nothing for one that is trained.
struct variable_op {
  static constexpr const char* name = "variable";
  static constexpr bool stateful = true;
  struct attributes {
    attribute<variable_kind> kind;
  };
};
/// attributes: the extents, some of which may have names in what it yields.
struct constant_op {
  static constexpr const char* name = "constant";
  static constexpr bool stateful = true;
};
/// Runs its control inputs and yields nothing (tf.group).
struct group_op {
  static constexpr const char* name = "group";
  static constexpr bool stateful = true;
};

inline variable_kind kind_of(const node_def& variable) {
  return variable.attributes.empty() ? variable_kind::trained : variable_kind(attributes_of<variable_op>(variable).kind);
}
constexpr const char* name(variable_kind kind) {
  constexpr const char* names[] = {"trained", "averaged", "counter", "local", "slot"};
  return names[static_cast<int>(kind)];
}

/// Whether variables of a `variable_scope` are made, or are those that are there (tf.variable_scope's reuse).
enum class reuse : unsigned char {
  no,        ///< made; a second one of a name is an error
  yes,       ///< those that are there; it is an error if one is not
  automatic  ///< those that are there, else made (tf.AUTO_REUSE)
};

struct graph_body;

/// A dataflow graph. Written once through typed handles; sessions prune, place, order and run it. Equal operations on
/// equal operands are one node. Not safe for concurrent writing.
class graph final : public op_builder {
 public:
  graph() = default;
  explicit graph(std::uint64_t seed) : seed_(seed) {}
  graph(const graph&) = delete;
  graph& operator=(const graph&) = delete;
  ~graph();

  std::uint64_t seed() const { return seed_; }
  std::size_t size() const { return nodes_.size(); }
  const graph_node& operator[](std::uint32_t node) const { return nodes_[node]; }
  /// The nodes that are there to be where another one is.
  const sequence<std::uint32_t>& colocated() const { return colocated_; }
  const value_info& info(value v) const override { return nodes_[v.node].def.outputs[v.output]; }

  /// Gives a named dynamic extent its value, `g.set(dyn<"hidden">, 100)`, before the variables that have it are made.
  /// Not to be changed once a session of the graph exists.
  template <detail::named_extent Extent>
  void set(Extent, std::int64_t size) {
    if (size < 0) throw error(error_code::invalid_argument, Extent::name, "an extent is not negative");
    remember_name(Extent::code, Extent::name);
    for (auto& [code, value] : extents_)
      if (code == Extent::code) {
        value = size;
        return;
      }
    extents_.push_back({Extent::code, size});
  }
  const sequence<std::pair<std::int64_t, std::int64_t>>& fixed_extents() const { return whole().extents_; }

  /// The name behind a dynamic extent's code.
  const char* extent_name(std::int64_t code) const {
    for (const auto& [known, name] : whole().extent_names_)
      if (known == code) return name;
    return "?";
  }
  void remember_name(std::int64_t code, const char* name) {
    for (const auto& known : whole().extent_names_)
      if (known.first == code) return;
    whole().extent_names_.push_back({code, name});
  }
  /// What a computed extent is made of; null for a name.
  const extent_definition* extent_formula(std::int64_t code) const {
    for (const extent_definition* d : whole().extent_formulas_)
      if (d->code == code) return d;
    return nullptr;
  }
  void remember_extent(const extent_definition& d) override {
    if (extent_formula(d.code)) return;
    whole().extent_formulas_.push_back(&d);
    remember_name(d.code, d.text);
  }
  std::string to_string(const weft::shape& s) const {
    const char* names[max_rank + 1]{};
    for (std::size_t i = 0; i < s.rank; ++i)
      if (s[i] < 0) names[i] = extent_name(s[i]);
    return weft::to_string(s, names);
  }

  /// Sessions tell of each run that they plan. What is recorded stays: a program that records for each run takes more
  /// memory with each, and more time. After so many runs for which the graph has grown it grows no more.
  static constexpr std::size_t max_growing_runs = 2000;
  void note_planned_run() const {
    // Atomic: sessions of one graph may plan on threads of their own.
    if (__atomic_exchange_n(&planned_size_, nodes_.size(), __ATOMIC_RELAXED) != nodes_.size())
      __atomic_fetch_add(&growing_runs_, 1, __ATOMIC_RELAXED);
  }

  // ---- bodies of nodes: graphs of their own, which know the names of extents and the kernels of the whole ----

  /// The graph itself or, of a body, the one in which it lies, however deep.
  graph& whole() { return whole_ ? *whole_ : *this; }
  const graph& whole() const { return whole_ ? *whole_ : *this; }
  bool is_body() const { return whole_ != nullptr; }
  /// A new one. The name is for messages and prints.
  std::uint32_t add_body(const char* name);
  graph_body& body(std::uint32_t number) { return *whole().bodies_[number]; }
  const graph_body& body(std::uint32_t number) const { return *whole().bodies_[number]; }

  // ---- recording ----

  symbol record(node_def def) override { return {this, {add(std::move(def), {}), 0}}; }

  symbol record_constant(const void* data, const value_info& declared, const shape& extents) override {
    detail::hasher h;
    h.add(&operation_of<constant_op>);
    h.add(declared);
    const sequence<std::int64_t> sizes(extents.extents, extents.extents + extents.rank);
    for (const std::int64_t s : sizes) h.add(static_cast<std::uint64_t>(s));
    const auto* bytes = static_cast<const unsigned char*>(data);
    const std::size_t size = value_info{declared.type, extents}.bytes();
    for (std::size_t i = 0; i < size; ++i) h.add(bytes[i]);
    const auto same = [&](std::uint32_t n) {
      const graph_node& other = nodes_[n];
      return other.def.op == &operation_of<constant_op> && other.def.outputs[0].type == declared.type &&
             other.def.outputs[0].extents == declared.extents && other.def.attributes == sizes &&
             __builtin_memcmp(other.init.data.data(), data, size) == 0;
    };
    std::uint32_t found = shared_.find(h.result(), same);
    if (found == detail::index_set::none) {
      node_def def;
      def.op = &operation_of<constant_op>;
      def.outputs = {declared};
      def.attributes = sizes;
      found = add(std::move(def), {});
      nodes_[found].init = {initializer::kind_type::value, 0, 0, storage(size)};
      __builtin_memcpy(nodes_[found].init.data.data(), data, size);
      shared_.insert(h.result(), found);
    }
    return {this, {found, 0}};
  }

  /// A node with a name of its own: placeholders, variables, and whatever is not to be shared.
  std::uint32_t add(node_def def, const std::string& name) {
    for (const value& v : def.inputs)
      if (v.node >= nodes_.size())
        throw error(error_code::invalid_argument, def.op->name, "an operand belongs to another graph");
    std::string full = free_name(name.empty() ? def.op->name : name);
    const location here = current_location(def, full);
    if (def.op->stateful || !name.empty()) return append(std::move(def), std::move(full), here, !name.empty());
    detail::hasher h;
    h.add(def.op);
    h.add(def.detail);
    for (const value& v : def.inputs) h.add((std::uint64_t{v.node} << 32) | v.output);
    for (auto a : def.attributes) h.add(static_cast<std::uint64_t>(a));
    for (auto l : def.literals) h.add(l);
    for (auto b : def.bodies) h.add(b);
    for (const auto& o : def.outputs) h.add(o);
    const auto same = [&](std::uint32_t n) {
      const node_def& other = nodes_[n].def;
      return other.op == def.op && other.detail == def.detail && other.inputs == def.inputs &&
             other.attributes == def.attributes && other.literals == def.literals && other.outputs == def.outputs &&
             other.bodies == def.bodies && nodes_[n].device == here.device && nodes_[n].beside == here.beside;
    };
    const std::uint32_t found = shared_.find(h.result(), same);
    if (found != detail::index_set::none) return found;
    const std::uint32_t made = append(std::move(def), std::move(full), here, false);
    shared_.insert(h.result(), made);
    return made;
  }

  /// The variable of this name in the scopes that are entered, if they say that it is to be used again, or none: then
  /// one may be made, under the name that is given. Throws invalid_argument if there is one that is not to be used, or
  /// that has other elements; not_found if one is asked for that is not there.
  std::uint32_t reused_variable(std::string_view name, const value_info& declared, variable_kind kind) const;

  /// A variable, of a name that no other one has.
  std::uint32_t add_variable(node_def def, std::string_view name) {
    const std::string prefix = static_cast<std::string&&>(prefix_);
    prefix_ = variables_.prefix;
    struct restore {
      std::string& to;
      const std::string& from;
      ~restore() { to = from; }
    } after{prefix_, prefix};
    const std::uint32_t node = add(std::move(def), std::string(name));
    names_.back().variable = node;
    names_.back().scope = variables_.prefix;
    return node;
  }

  /// For who rewrites a body: what a node computes, of values that were made before it.
  node_def& rewrite(std::uint32_t node) { return nodes_[node].def; }

  void add_control(std::uint32_t node, std::uint32_t before) { nodes_[node].control.push_back(before); }
  void initialize(std::uint32_t node, initializer init) { nodes_[node].init = std::move(init); }

  std::uint64_t random_key(const std::uint64_t* seed) override {
    detail::hasher h;
    h.add(whole().seed_);
    h.add(std::uint64_t{seed != nullptr});
    h.add(seed ? *seed : whole().random_operations_++);
    return h.result();
  }

  value with_name(value v, const char* name) override {
    graph_node& n = nodes_[v.node];
    if (n.named && n.name == prefix_ + name) return v;
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
    take_name(n.name);
    return v;
  }

  // ---- gradients ----

  void use(const primitive_table& table) override {
    for (const primitive_table* known : whole().primitives_)
      if (known == &table) return;
    whole().primitives_.push_back(&table);
  }
  const fused* kernels(primitive p, dtype type, dtype to) const override {
    for (const primitive_table* table : whole().primitives_)
      if (const fused* f = table->find(p, type, to)) return f;
    return nullptr;
  }
  dtype compared_type(value condition) const override {
    while (info(condition).type == dtype::boolean && !nodes_[condition.node].def.inputs.empty())
      condition = nodes_[condition.node].def.inputs[0];
    const sequence<const primitive_table*>& known = whole().primitives_;
    return is_floating(info(condition).type) || known.empty() ? info(condition).type : known[0]->type;
  }
  const fused_reduction* sums(dtype type) const override {
    for (const primitive_table* table : whole().primitives_)
      if (table->type == type) return table->sum;
    return nullptr;
  }

  // WEFT_DECL here too: this is the class's key function. All virtual functions are emitted where it is.
  WEFT_DECL sequence<symbol> differentiate(const sequence<symbol>& ys, const sequence<symbol>& upstream,
                                           const sequence<symbol>& xs, bool partial = false) override;

  // ---- names and places ----

  /// Prefixes the names of nodes made while it lives (tf.name_scope). A second scope of a name is numbered: layer/,
  /// layer_1/. Where variables are reused, in the order in which it is entered there.
  class name_scope {
   public:
    name_scope(graph& g, const std::string& name)
        : graph_(g), length_(g.prefix_.size()), variables_length_(g.variables_.prefix.size()) {
      const std::string full = g.free_name(name);
      g.take_name(full);
      g.prefix_ = full + "/";
      g.variables_.prefix = g.variables_.mode == reuse::no ? g.prefix_ : g.variables_.enter(name);
    }
    ~name_scope() {
      graph_.prefix_.resize(length_);
      graph_.variables_.prefix.resize(variables_length_);
    }
    name_scope(const name_scope&) = delete;
    name_scope& operator=(const name_scope&) = delete;

   private:
    graph& graph_;
    std::size_t length_, variables_length_;
  };

 private:
  // How variables are named: as other nodes are, but where they are reused.
  struct variable_names {
    reuse mode = reuse::no;
    std::string prefix;
    sequence<std::string> entered;  // name scopes, since they are reused

    std::string enter(const std::string& name) {
      std::string full = prefix + name;
      for (int i = 1; is_entered(full); ++i) full = str_cat({prefix, name, "_", i});
      entered.push_back(full);
      return full + "/";
    }
    bool is_entered(const std::string& full) const {
      for (const std::string& e : entered)
        if (e == full) return true;
      return false;
    }
  };

 public:
  /// Prefixes the names of nodes made while it lives as they are given, entered again too, and says what a variable is
  /// whose name is taken (tf.variable_scope): with reuse::yes or reuse::automatic it is the one that has the name, if
  /// that has the same elements and extents. So a function that makes a model can be called twice, and means one model:
  ///
  ///     const auto trained = [&] { variable_scope first(g, "model"); return model(g, x); }();
  ///     const auto tested = [&] { variable_scope again(g, "model", reuse::yes); return model(g, images); }();
  ///
  /// Scopes in one that reuses do so too.
  class variable_scope {
   public:
    variable_scope(graph& g, const std::string& name, reuse mode = reuse::no) : variable_scope(g, mode) {
      g.variables_.prefix += name + "/";
      g.prefix_ = g.variables_.prefix;
      const std::string full(g.prefix_, 0, g.prefix_.size() - 1);
      if (g.find_name(full) == detail::index_set::none) g.take_name(full);
    }
    /// The scope that is entered already, with reuse.
    variable_scope(graph& g, reuse mode) : graph_(g), prefix_(g.prefix_), outer_(g.variables_) {
      if (mode != reuse::no) g.variables_.mode = mode;
      g.variables_.entered.clear();
    }
    ~variable_scope() {
      graph_.prefix_ = std::move(prefix_);
      graph_.variables_ = std::move(outer_);
    }
    variable_scope(const variable_scope&) = delete;
    variable_scope& operator=(const variable_scope&) = delete;

   private:
    graph& graph_;
    std::string prefix_;
    variable_names outer_;
  };

  /// Places the nodes made while it lives (tf.device). Scopes nest: the inner one wins, part by part. A function is
  /// asked for each node: `device_spec f(const placement_query&)`.
  class device_scope {
   public:
    device_scope(graph& g, const device_spec& where) : graph_(g) {
      g.places_.push_back({where, nullptr, nullptr, graph_node::no_node});
    }
    /// Where the node is that computes the value, whatever scopes are around this one.
    device_scope(graph& g, value beside) : graph_(g) {
      g.places_.push_back({g.nodes_[beside.node].device, nullptr, nullptr, beside.node});
    }
    template <class F>
    requires requires(const F& f, const placement_query& q) { device_spec(f(q)); }
    device_scope(graph& g, const F& function)
        : graph_(g), state_(new F(function)), destroy_([](void* f) { delete static_cast<F*>(f); }) {
      g.places_.push_back(
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
      graph_.places_.pop_back();
      if (destroy_) destroy_(state_);
    }
    device_scope(const device_scope&) = delete;
    device_scope& operator=(const device_scope&) = delete;

   private:
    graph& graph_;
    void* state_ = nullptr;
    void (*destroy_)(void*) = nullptr;
  };

  /// Identifies the graph's structure: equal in every process that built it the same way.
  std::uint64_t hash() const;

 private:
  friend struct graph_body;
  explicit graph(graph* whole) : whole_(whole), outer_places_(whole->places_.size()) {}

  std::uint64_t hash_nodes() const {
    detail::hasher h;
    for (const graph_node& n : nodes_) {
      h.add(std::string(n.def.op->name));
      h.add(n.name);
      if (n.def.op->expression) h.add(skeleton::print(n.def.op->expression(n.def.detail)->text));
      if (n.def.op == &operation_of<constant_op>)
        for (std::size_t i = 0; i < n.init.data.bytes(); ++i) h.add(static_cast<std::uint64_t>(n.init.data.data()[i]));
      for (const value& v : n.def.inputs) h.add((std::uint64_t{v.node} << 32) | v.output);
      for (auto a : n.def.attributes) h.add(static_cast<std::uint64_t>(a));
      for (auto l : n.def.literals) h.add(l);
      for (auto b : n.def.bodies) h.add(b);
      for (const auto& o : n.def.outputs) h.add(o);
    }
    for (const auto& [code, size] : extents_)
      h.add(static_cast<std::uint64_t>(code)), h.add(static_cast<std::uint64_t>(size));
    return h.result();
  }

  struct place {
    device_spec fixed;
    device_spec (*function)(const void*, const placement_query&);
    const void* state;
    std::uint32_t beside;
  };
  struct location {
    device_spec device;
    std::uint32_t beside = graph_node::no_node;
  };

  [[noreturn]] static void refuse_growth(const std::string& name) {
    throw error(error_code::resource_exhausted, name,
                {"the graph has grown for each of ", max_growing_runs,
                 " runs, and all that is recorded stays: record once, and feed what changes to a placeholder of a step "
                 "that is prepared; s.set(v, value) writes a variable and records nothing"});
  }

  std::uint32_t append(node_def def, std::string name, const location& here, bool named) {
    if (__atomic_load_n(&growing_runs_, __ATOMIC_RELAXED) > max_growing_runs) refuse_growth(name);
    take_name(name);
    graph_node n;
    n.def = std::move(def);
    n.name = std::move(name);
    n.device = here.device;
    n.beside = here.beside;
    n.named = named;
    nodes_.push_back(std::move(n));
    const auto made = static_cast<std::uint32_t>(nodes_.size() - 1);
    if (here.beside != graph_node::no_node) colocated_.push_back(made);
    return made;
  }

  location current_location(const node_def& def, const std::string& name) const {
    location here;
    device_spec& d = here.device;
    const value_info none;
    for (std::size_t i = places_.size(); i-- > 0;) {
      const place& p = places_[i];
      // A scope within the one for colocated nodes that names another device has its way.
      if (p.beside != graph_node::no_node && d == device_spec()) here.beside = p.beside;
      d = merge(p.function
                    ? p.function(p.state, {def.op->name, name, def.outputs.empty() ? none : def.outputs[0], d})
                    : p.fixed,
                d);
      if (p.beside != graph_node::no_node) break;
    }
    if (is_body() && (whole().places_.size() > outer_places_ || !(d == device_spec())))
      throw error(error_code::invalid_argument, name,
                  "is placed in a body: bodies run where their node does, so the device scope is around cond or "
                  "while_loop");
    return here;
  }

  /// The name in this scope, with _1, _2, ... behind it if it is taken.
  std::string free_name(const std::string& name) {
    const std::string full = prefix_ + name;
    const std::uint32_t first = find_name(full);
    if (first == detail::index_set::none) return full;
    for (;; ++names_[first].next) {
      std::string candidate = str_cat({full, "_", names_[first].next});
      if (find_name(candidate) == detail::index_set::none) return candidate;
    }
  }
  std::uint32_t find_name(const std::string& full) const {
    return taken_.find(hash_of(full), [&](std::uint32_t i) { return names_[i].name == full; });
  }
  void take_name(const std::string& full) {
    names_.push_back({full, 1, graph_node::no_node, {}});
    taken_.insert(hash_of(full), static_cast<std::uint32_t>(names_.size() - 1));
  }
  static std::uint64_t hash_of(const std::string& name) {
    detail::hasher h;
    h.add(name);
    return h.result();
  }

  struct taken_name {
    std::string name;
    int next;
    std::uint32_t variable = graph_node::no_node;  // that has it, made in this scope
    std::string scope = {};
  };

  std::uint64_t seed_ = 87654321, random_operations_ = 0;
  mutable std::size_t planned_size_ = 0, growing_runs_ = 0;
  sequence<graph_node> nodes_;
  detail::index_set shared_, taken_;
  sequence<taken_name> names_;
  std::string prefix_;
  variable_names variables_;
  sequence<place> places_;
  sequence<std::uint32_t> colocated_;
  sequence<std::pair<std::int64_t, std::int64_t>> extents_;
  sequence<std::pair<std::int64_t, const char*>> extent_names_;
  sequence<const extent_definition*> extent_formulas_;
  sequence<const primitive_table*> primitives_;
  graph* whole_ = nullptr;        // of a body
  std::size_t outer_places_ = 0;  // device scopes that were there when it was begun
  sequence<graph_body*> bodies_;
};

/// A body of a node.
struct graph_body {
  explicit graph_body(graph& whole, const char* called) : nodes(&whole), name(called) {}

  graph nodes;
  const char* name;
  sequence<value> parameters, results;
};

#if WEFT_BODIES

WEFT_DECL graph::~graph() {
  for (graph_body* b : bodies_) delete b;
}

WEFT_DECL std::uint32_t graph::add_body(const char* name) {
  graph& all = whole();
  all.bodies_.reserve(all.bodies_.size() + 1);
  all.bodies_.push_back(new graph_body(all, name));
  return static_cast<std::uint32_t>(all.bodies_.size() - 1);
}

WEFT_DECL std::uint64_t graph::hash() const {
  detail::hasher h;
  h.add(hash_nodes());
  for (const graph_body* b : bodies_) h.add(b->nodes.hash_nodes());
  return bodies_.empty() ? hash_nodes() : h.result();
}

WEFT_DECL std::uint32_t graph::reused_variable(std::string_view name, const value_info& declared,
                                                variable_kind kind) const {
  const std::string full = variables_.prefix + std::string(name);
  const auto within = [](const std::string& prefix) {
    return prefix.empty() ? "in no scope" : "in the scope " + prefix.substr(0, prefix.size() - 1);
  };
  const std::string here = within(variables_.prefix);
  const std::uint32_t taken = find_name(full);
  const std::uint32_t known = taken == detail::index_set::none ? graph_node::no_node : names_[taken].variable;
  if (known == graph_node::no_node) {
    if (variables_.mode != reuse::yes) return known;
    throw error(error_code::not_found, full,
                {"a variable is to be used again that is not there, ", here,
                 ": it is made before, in a scope of the same name, or reuse::automatic makes it"});
  }
  const value_info& there = nodes_[known].def.outputs[0];
  const std::string first = within(names_[taken].scope);
  if (variables_.mode == reuse::no)
    throw error(error_code::invalid_argument, full,
                {"there is a variable of this name, made ", first, ", and a second one is asked for ", here,
                 ": give it another name or name_scope; or make variables once, in an object that is called twice; or "
                 "share them: variable_scope(g, reuse::yes) around the second use"});
  if (kind_of(nodes_[known].def) != kind)
    throw error(error_code::invalid_argument, full,
                {"the variable of this name, made ", first, ", is ", weft::name(kind_of(nodes_[known].def)),
                 ", and one that is ", weft::name(kind), " is asked for"});
  if (there.type != declared.type || !(there.extents == declared.extents))
    throw error(error_code::invalid_argument, full,
                {"a variable is to be used again as ", weft::name(declared.type), " ", to_string(declared.extents),
                 " that is ", weft::name(there.type), " ", to_string(there.extents)});
  return known;
}

/// Reverse mode: walks the nodes between xs and ys backwards and lets each write its gradient in symbols.
WEFT_DECL sequence<symbol> graph::differentiate(const sequence<symbol>& ys, const sequence<symbol>& upstream,
                                                const sequence<symbol>& xs, bool partial) {
  const auto count = static_cast<std::uint32_t>(nodes_.size());
  sequence<char> depends(count, 0), is_end(count, 0);
  std::uint32_t first = count, last = 0;
  for (const symbol& x : xs) {
    detail::check_same_graph("gradients", this, x.builder());
    depends[x.id().node] = 1;
    is_end[x.id().node] = partial;
    if (x.id().node < first) first = x.id().node;
  }
  for (const symbol& y : ys)
    if (y.id().node > last) last = y.id().node;
  for (std::uint32_t n = first; n < count; ++n)
    for (const value& in : nodes_[n].def.inputs)
      if (depends[in.node] && is_floating(info(in).type) && nodes_[n].def.op != &operation_of<stop_gradient_op>)
        depends[n] = 1;

  constexpr std::size_t max_inputs = 64;
  sequence<sequence<symbol>> arriving(count);  // per node and output
  const auto arrive = [&](value at, symbol g) {
    auto& outputs = arriving[at.node];
    outputs.resize(nodes_[at.node].def.outputs.size());
    outputs[at.output] = outputs[at.output].is_number() ? g : outputs[at.output] + g;
  };
  for (std::size_t i = 0; i < ys.size(); ++i)
    if (depends[ys[i].id().node]) arrive(ys[i].id(), upstream[i]);

  for (std::uint32_t n = last + 1; n-- > first && !ys.empty();) {
    if (arriving[n].empty() || !depends[n] || is_end[n]) continue;
    const node_def def = nodes_[n].def;  // a copy: recording moves the nodes
    sequence<symbol> inputs, outputs, results(def.inputs.size());
    bool wanted[max_inputs], any = false;
    if (def.inputs.size() > max_inputs)
      throw error(error_code::internal, nodes_[n].name, "more inputs than a gradient handles");
    for (std::size_t i = 0; i < def.inputs.size(); ++i) {
      const value in = def.inputs[i];
      inputs.push_back({this, in});
      wanted[i] = depends[in.node] && is_floating(info(in).type);
      any = any || wanted[i];
    }
    if (!any) continue;
    for (std::uint32_t o = 0; o < def.outputs.size(); ++o) outputs.push_back({this, {n, o}});
    if (!def.op->gradient) throw error(error_code::unimplemented, nodes_[n].name, {def.op->name, " has no gradient"});
    const device_scope beside(*this, nodes_[n].device);  // gradients run where their operations do
    gradient_context context(def, inputs.data(), outputs.data(), arriving[n].data(), wanted, results.data());
    def.op->gradient(context);
    for (std::size_t i = 0; i < results.size(); ++i)
      if (wanted[i] && !results[i].is_number()) arrive(def.inputs[i], results[i]);
  }

  sequence<symbol> results;
  for (const symbol& x : xs) {
    const auto& outputs = arriving[x.id().node];
    results.push_back(outputs.empty() ? symbol() : outputs[x.id().output]);
  }
  return results;
}

#endif

using name_scope = graph::name_scope;
using variable_scope = graph::variable_scope;
using device_scope = graph::device_scope;

/// A device scope to keep: `auto on_gpu = with_device(g, cuda{0});`
template <class Where>
[[nodiscard]] device_scope with_device(graph& g, const Where& where) {
  return device_scope(g, where);
}

/// A scope for what is to run where `n` does, whatever scopes are around it (tf.colocate_with). If one of them has no
/// kernel for a GPU, soft placement moves them all.
template <class Node>
[[nodiscard]] device_scope colocate_with(graph& g, const Node& n) {
  return device_scope(g, n.id());
}

}  // namespace weft

WEFT_COLD_END
