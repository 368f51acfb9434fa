// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <weft/graph/graph.hpp>
#include <weft/graph/variables.hpp>
#include <weft/plan/gpu_support.hpp>
#include <weft/plan/placement.hpp>
#include <weft/plan/task_support.hpp>
#include <weft/session/fetch.hpp>
#include <weft/session/prepared_step.hpp>
#include <weft/session/session_resources.hpp>
#include <weft/tensor/intrusive_ptr.hpp>
#include <weft/tensor/owned.hpp>
#include <weft/tensor/sequence.hpp>
#if WEFT_DEFINITIONS
  #include <weft/device/cpu/thread_pool.hpp>
  #include <weft/session/initialize.hpp>
#endif

namespace weft {

/// Variables that sessions share; created by `variables_in` in <weft/queue.hpp>.
struct variable_sharing {
  std::string container = {};
  /// Returns the value of the variable with this name. If it does not exist, creates it with the value `first`.
  storage (*find_or_add)(const std::string& container, const std::string& name, const value_info& info,
                         const storage& first) = nullptr;
};

/// The tasks that run a session's steps (tf.Session's target). Empty: only this process.
struct session_target {
  session_target() = default;
  session_target(plan::task_support* (*connects)(void* to, const graph&), void* with) : connect(connects), to(with) {}
  /// "weft://host:port", the address of a task in a cluster; "": only this process.
  session_target(const char* where) : address(where) {}
  session_target(std::string where) : address(static_cast<std::string&&>(where)) {}

  plan::task_support* (*connect)(void* to, const graph&) = nullptr;
  void* to = nullptr;
  std::string address = {};

  WEFT_DECL plan::task_support* open(const graph&) const;
};

/// Options of a session.
struct session_options {
  /// Threads of each CPU device, including the caller; 0: the number of its cores.
  int threads = 0;
  /// Maximum number of independent kernels that run in parallel on a device. They share the device's threads.
  int inter_op_threads = 1;
  /// Number of CPU devices `cpu{0}`, `cpu{1}`, ... Each has an equal share of the cores.
  int devices = 1;
  /// Binds threads to their device's cores. Also binds a thread that calls a step on several devices, for the duration
  /// of the call.
  bool pin = false;
  /// Default device for nodes that name none: `cpu{0}`, or `cuda{0}` for all operations that have a GPU kernel.
  device_spec device = cpu{};
  gpu_options gpu{};
  /// If true, a node that cannot run on the requested device runs on the CPU, and `explain` says why. Otherwise this is
  /// an error.
  bool allow_soft_placement = false;
  /// Writes the device of each node to standard error when a step is first planned.
  bool log_device_placement = false;
  /// The container of shared variables, by name. By default, the session has its own variables. Variables with equal
  /// names must have equal types and extents, an initial value, and be on CPUs. Only one thread at a time may use
  /// sessions that share variables.
  variable_sharing variables = {};
  /// This session's task in a cluster, such as /job:worker/task:1, which nodes may name. Replicated sessions set it.
  device_spec task = {};
  /// The tasks that run the graph. Nodes and variables that name no task run in the target's own task.
  session_target target = {};
};

/// Sessions can only read and write variables directly.
template <class X>
struct value_is_not_of_a_variable : mistake<true> {};

/// A session must be created from a graph and session_options.
template <class... Arguments>
struct session_is_not_made_of : mistake<true> {};

namespace detail {

// The graph to continue with after a mistake, so that one mistake prints one error.
template <class X>
const graph& meant_graph(const X& x) {
  if constexpr (std::is_base_of_v<graph, X>)
    return x;
  else
    __builtin_unreachable();
}

}  // namespace detail

WEFT_COLD_BEGIN

namespace detail {

/// The state of a session. Steps share ownership, so that none runs on freed memory.
struct session_core final : ref_counted {
  session_core(const graph& g, session_options options, const memory_resource& memory);
  WEFT_DECL ~session_core() override;  // here too: see graph::record

  const graph& nodes() const { return records.self(); }
  void check_graph(const symbol& s) const;
  void adopt_new_variables();
  /// Uses the variables of another session of the graph, with copies of local variables.
  void share_variables(session_core& from);
  value_info variable_info(std::uint32_t node) const;
  /// Releases threads and variables. Steps throw from now on.
  void close();

  graph records;  // shares ownership of the records
  session_options options;
  const memory_resource& memory;
  owned<plan::gpu_support> gpus;
  owned<plan::task_support> tasks;  // null if steps run only in this process
  plan::placement place;
  sequence<owned<thread_pool>> pools;  // for each device
  owned<thread_pool> lanes;
  sequence<sequence<int>> cores;  // for each device, if threads are bound to cores
  extent_bindings extents;
  sequence<plan::variable_state> variables;
  plan::random_state random;
  session_resources resources;
  intrusive_ptr<session_core> variables_of;  // the session that owns the variables, if it is another one

 private:
  plan::variable_state first_state(std::uint32_t n) const;
  /// Adopts the graph's values of named extents. Values that this session already uses do not change.
  void adopt_extents();
};

}  // namespace detail

/// Owns the variables of a graph on this process's devices and runs steps (tf.Session). Only one thread at a time may
/// use a session. It shares ownership of the graph's nodes and may outlive the graph. Steps remain valid when a session
/// is moved; a moved-from session throws failed_precondition.
class session {
 public:
  explicit session(const graph& g, session_options options = {});
  /// Allocates variables and intermediate values with this allocator. Fetched values belong to the caller and do not
  /// use it.
  template <Allocator A>
  session(const graph& g, session_options options, A) : session(g, std::move(options), memory_resource_of<A>) {}
  session(session&&) noexcept;
  session& operator=(session&&) noexcept;
  session(const session&) = delete;  // std::move(s); s.clone_for_inference() for another thread
  session& operator=(const session&) = delete;
  ~session();

  /// Returns a session that reads this session's variables without copying them, for inference on another thread. Each
  /// thread uses one clone, for example with `{.threads = 1}`, and prepares its steps with it. Until the last clone
  /// ends, all these sessions throw failed_precondition instead of writing variables, except for those of
  /// variable_kind::local, of which each clone has a copy. The values outlive this session. Call it on the thread that
  /// uses this session. Variables that are added to the graph later belong to the clone alone. Throws unimplemented for
  /// variables on GPUs. The default options are those of this session.
  [[nodiscard]] session clone_for_inference(session_options options);
  [[nodiscard]] session clone_for_inference();

  session() = delete;  // A session runs a graph: session s{g};
  template <class = void>
  session(const graph&, ...) = delete;  // session_options: threads, inter_op_threads, devices, pin, device, gpu, ...
  template <class X, class... More>
    requires(!std::is_base_of_v<graph, X> || (sizeof...(More) > 0 && !(std::is_same_v<More, session_options> || ...)))
  explicit session(const X& x, const More&...) : session(detail::meant_graph(x), {}) {
    static_assert(correct<session_is_not_made_of<X, More...>>,
                  "session: needs a graph and options: session s{g, {.threads = 4}}");
  }

  /// Plans a run once and returns a step, which can be called like a function.
  template <class... F, class... P>
  [[nodiscard]] auto prepare(const fetch_list<F...>& fetches, const feed_list<P...>& feeds) {
    const auto check = [&](const auto&... v) {
      (detail::for_each_part(v, [&](const auto& part) { check_graph(part.erased()); }), ...);
    };
    std::apply(check, fetches.fetched);
    std::apply(check, feeds.fed);
    of().note_planned_run();
    return step<fetch_list<F...>, feed_list<P...>>(*this, fetches, feeds);
  }
  template <class... F>
  [[nodiscard]] auto prepare(const fetch_list<F...>& fetches) {
    return prepare(fetches, feed_list<>{});
  }

  /// Plans and runs once: `s.run(fetch(loss, train), with(images, x), with(labels, y))`. Planning takes much longer
  /// than running a small step; use `prepare` for repeated runs.
  template <class... F, class... P, class... X>
  auto run(const fetch_list<F...>& fetches, const fed_pair<P, X>&... fed) {
    auto once = prepare(fetches, feed(fed.placeholder...));
    return once(fed.value...);
  }

  /// Returns the value of one node or expression, planned and run once.
  template <class Expr, class... P, class... X>
  auto eval(const Expr& e, const fed_pair<P, X>&... fed) {
    return run(fetch(e), fed...);
  }

  /// Writes a variable on any device without recording a node (tf.Variable.load). The value is a tensor or view with
  /// the variable's elements and extents, or a number for a scalar. Throws invalid_argument if extents that are only
  /// known at run time differ.
  template <class T, class D, class Dev, class X>
  void set(const variable_node<T, D, Dev>& v, const X& value) {
    if constexpr (Expression<X> && !requires { value.data(); }) {
      set(v, tensor<value_t<X>, dims_t<X>>(value));
    } else {
      using mistake = detail::feed_mistake<X, node<T, D, Dev>>;
      static_assert(correct<mistake>, "set: the value must have the variable's extents and elements");
      if constexpr (correct<mistake>) set_variable(v.erased(), detail::as_fed(value));
    }
  }

  /// The same with values in braces, row by row, for static extents.
  template <class T, class D, class Dev>
    requires(D::is_static && D::rank > 0)
  void set(const variable_node<T, D, Dev>& v, std::initializer_list<std::type_identity_t<T>> values) {
    set(v, tensor<T, D>(values));
  }

  /// Returns the value of a variable: a tensor, or a number for a scalar. Throws failed_precondition if it has no
  /// value.
  template <class T, class D, class Dev>
  auto get(const variable_node<T, D, Dev>& v) {
    const std::uint32_t n = variable_to_read(v.erased());
    if constexpr (D::rank == 0) {
      T value;
      read_variable(n, &value);
      return value;
    } else {
      tensor<T, D> value(variable_info(n).extents, uninitialized{});
      read_variable(n, value.data());
      return value;
    }
  }

  // Overloads that report common mistakes: nodes outside a list, values without placeholders, lists in braces.
  template <class F, class... X>
  auto prepare(const F& fetched, const X&... fed) {
    static_assert(correct<arguments_are_not_fetch_and_feed<F, X...>>,
                  "prepare: takes two lists: prepare(fetch(loss, train), feed(images, labels))");
    return prepare(detail::meant_fetches(fetched), detail::meant_feeds(fed...));
  }
  template <class F = fetch_list<>>
  auto prepare(detail::braces, detail::braces = {}) {
    static_assert(correct<arguments_are_not_fetch_and_feed<F>>,
                  "prepare: takes two lists: prepare(fetch(loss, train), feed(images, labels))");
    return prepare(F());
  }
  template <class F, class... X>
    requires(!(detail::is_fetch_list<F> && ... && detail::is_fed_pair<X>))
  auto run(const F& fetched, const X&...) {
    static_assert(correct<arguments_are_not_fetch_and_with<F, X...>>,
                  "run: pass fetch(...) first, then with(placeholder, value) for each feed: run(fetch(loss, train), "
                  "with(images, x), with(labels, y))");
    return run(detail::meant_fetches(fetched));
  }
  template <class F = fetch_list<>, class... X>
  auto run(detail::braces, const X&...) {
    static_assert(correct<arguments_are_not_fetch_and_with<F>>,
                  "run: pass fetch(...) first, then with(placeholder, value) for each feed: run(fetch(loss, train), "
                  "with(images, x), with(labels, y))");
    return std::tuple(0.0f, 0.0f);  // usually the intended number of results
  }
  template <class F>
  auto run(const F& fetched, detail::braces) {
    static_assert(correct<arguments_are_not_fetch_and_with<F, detail::braces>>,
                  "run: pass fetch(...) first, then with(placeholder, value) for each feed: run(fetch(loss, train), "
                  "with(images, x), with(labels, y))");
    return run(detail::meant_fetches(fetched));
  }
  template <class F = fetch_list<>>
  auto run() {
    static_assert(correct<arguments_are_not_fetch_and_with<F>>,
                  "run: pass fetch(...) first, then with(placeholder, value) for each feed: run(fetch(loss, train), "
                  "with(images, x), with(labels, y))");
    return run(F());
  }
  template <class X>
  auto get(const X&) {
    static_assert(correct<value_is_not_of_a_variable<X>>,
                  "get: reads a variable: get(w); find_variable<float, dims<...>>(graph, \"w\") finds one by name");
    return 0.0f;
  }
  template <class V, class X>
  void set(const V&, const X&) {
    static_assert(correct<value_is_not_of_a_variable<V>>,
                  "set: writes a variable: set(w, value); feed a placeholder by with(x, value)");
  }
  template <class = void>
  auto eval(...) WEFT_DELETED;  // one value: eval(loss, with(images, x), with(labels, y)); for several run(fetch(a, b))
  template <class Expr, class... X>
    requires(!(detail::is_fed_pair<X> && ...))
  auto eval(const Expr& e, const X&...) {
    static_assert(correct<arguments_are_not_fetch_and_with<Expr, X...>>,
                  "eval: pass values in pairs: eval(loss, with(images, x), with(labels, y))");
    return run(detail::meant_fetches(e));
  }

  /// Returns a node's device and the rule that determined it: "hidden on /device:CPU:0: the session's own choice, since
  /// the node names no device". A step's `explain` contains this only for nodes that soft placement moved.
  template <class Expr>
    requires(is_node<Expr>)
  std::string explain(const Expr& node) const {
    return explain_placement(node.erased());
  }

  /// The number of completed steps that drew random numbers, which identifies the numbers of the next such step. Other
  /// steps are not counted, so evaluating between training steps changes nothing. All prepared steps of a session count
  /// together. A step that throws is not counted: when run again, it draws the same numbers.
  std::int64_t step_number() const { return state().random.step(); }
  /// Sets step_number(), for code that restores variables. Throws invalid_argument unless 0 <= n < 2^48.
  void set_step_number(std::int64_t n);
  /// Selects one of 2^15 streams of random numbers: 0 by default, the worker's number in a replicated session. Sessions
  /// of one graph draw equal numbers if their streams are equal, and different ones otherwise. Throws invalid_argument
  /// unless 0 <= n < 2^15.
  void set_random_stream(std::int64_t n);

  const graph& of() const { return state().nodes(); }
  const session_options& options() const { return state().options; }

  /// The observer of kernels, such as a trace (session/trace.hpp), or null.
  step_observer* observer() const { return state().resources.observer; }
  void observe(step_observer* by) { state().resources.observer = by; }

  // ---- for the layers above: variables by node number ----

  /// The resources that steps use. Initializes variables that were added to the graph after the session was created.
  const detail::session_resources& resources();
  /// The variable's storage. Initializes variables that were added to the graph after the session was created.
  plan::variable_state& state_of(std::uint32_t node);
  /// The same for writing. Throws failed_precondition while clones of the session read the variable.
  plan::variable_state& state_to_write(std::uint32_t node);
  /// Copies a variable on any device to host memory, or back.
  void read_variable(std::uint32_t node, void* to);
  void write_variable(std::uint32_t node, const void* from);
  /// Initializes a variable that has no value. Throws failed_precondition if it has no initializer (init::none).
  void initialize_variable(std::uint32_t node);
  value_info variable_info(std::uint32_t node) const;

 private:
  friend prepared_step;
  static void check_random_number(const char* what, std::int64_t n, std::int64_t end);
  [[noreturn]] static void refuse_moved();

  detail::session_core& state() const {
    if (!state_) [[unlikely]]
      refuse_moved();
    return *state_;
  }
  void check_graph(const symbol& s) const;

  session(const graph& g, session_options options, const memory_resource& memory);
  explicit session(detail::intrusive_ptr<detail::session_core> state);
  std::string explain_placement(const symbol& node) const;
  void set_variable(const symbol& variable, const plan::fed_value& value);
  std::uint32_t variable_to_read(const symbol& variable);

  detail::intrusive_ptr<detail::session_core> state_;
};

/// Initializes all variables of the session's graph that have no value, including slots of optimizers
/// (tf.report_uninitialized_variables with tf.variables_initializer). A new session has already done so; call this for
/// variables whose task was restarted. Throws failed_precondition for a variable without an initializer (init::none).
void initialize(session& s);
/// The same for the variables in a list.
void initialize(session& s, const variable_list& list);

#if WEFT_DEFINITIONS

WEFT_DECL void initialize(session& s) {
  const graph& g = s.of();
  for (std::uint32_t n = 0; n < g.size(); ++n)
    if (is_operation<variable_op>(g[n].def.op)) s.initialize_variable(n);
}
WEFT_DECL void initialize(session& s, const variable_list& list) {
  for (const symbol& v : list.erased()) {
    if (v.builder() != &s.of())
      throw error(error_code::invalid_argument, "initialize", "a variable belongs to another graph than the session's");
    s.initialize_variable(v.id().node);
  }
}

WEFT_DECL session::session(const graph& g, session_options options)
    : session(g, std::move(options), memory_resource_of<>) {}
WEFT_DECL session::session(const graph& g, session_options options, const memory_resource& memory)
    : state_(new detail::session_core(g, std::move(options), memory)) {
  state_->adopt_new_variables();
}
WEFT_DECL session::session(detail::intrusive_ptr<detail::session_core> state) : state_(std::move(state)) {}
WEFT_DECL session::session(session&&) noexcept = default;
WEFT_DECL session& session::operator=(session&& other) noexcept {
  session from(std::move(other));
  std::swap(state_, from.state_);
  return *this;
}
WEFT_DECL session::~session() {
  if (state_) state_->close();
}
WEFT_DECL void session::refuse_moved() {
  throw error(error_code::failed_precondition, "session", "has been moved from: use the session that it was moved to");
}

WEFT_DECL session session::clone_for_inference(session_options options) {
  detail::session_core& own = state();
  own.adopt_new_variables();
  if (options.variables.find_or_add)
    throw error(error_code::invalid_argument, "clone_for_inference",
                "a clone uses the variables of its session: session_options::variables must be empty");
  for (std::uint32_t n = 0; n < own.variables.size(); ++n)
    if (own.variables[n].where.gpu)
      throw error(error_code::unimplemented, own.nodes()[n].name,
                  "variables that sessions share must be on a CPU: place it on cpu{0}");
  if (own.tasks)
    throw error(error_code::unimplemented, "clone_for_inference",
                "the session's variables are in other tasks: make a second session with the same target");
  detail::intrusive_ptr<detail::session_core> clone(
      new detail::session_core(own.nodes(), std::move(options), own.memory));
  clone->share_variables(own);
  return session(std::move(clone));
}
WEFT_DECL session session::clone_for_inference() {
  session_options same = options();
  same.variables = {};
  return clone_for_inference(std::move(same));
}

WEFT_DECL void session::set_step_number(std::int64_t n) {
  check_random_number("set_step_number", n, plan::random_state::steps);
  plan::random_state& random = state().random;
  random.position = random.stream() * plan::random_state::steps + n;
}

WEFT_DECL void session::set_random_stream(std::int64_t n) {
  check_random_number("set_random_stream", n, plan::random_state::streams);
  plan::random_state& random = state().random;
  random.position = n * plan::random_state::steps + random.step();
}

WEFT_DECL const detail::session_resources& session::resources() {
  state().adopt_new_variables();
  return state_->resources;
}

WEFT_DECL plan::variable_state& session::state_of(std::uint32_t node) {
  state().adopt_new_variables();
  return state_->variables[node];
}

WEFT_DECL void session::read_variable(std::uint32_t node, void* to) {
  const plan::variable_state& v = state_of(node);
  if (state_->tasks && v.where.task != state_->tasks->self()) return state_->tasks->read_variable(node, v.where, to);
  if (!v.where.gpu) return static_cast<void>(__builtin_memcpy(to, v.data(), v.bytes()));
  state_->gpus->copy(v.where.ordinal, to, v.on_gpu, variable_info(node).bytes());
}

WEFT_DECL plan::variable_state& session::state_to_write(std::uint32_t node) {
  plan::variable_state& v = state_of(node);
  const graph_node& of_graph = of()[node];
  if (__atomic_load_n(&state_->resources.status, __ATOMIC_ACQUIRE) && kind_of(of_graph.def) != variable_kind::local)
    throw error(error_code::failed_precondition, of_graph.name,
                "the variable is shared with clones of its session, which read it: destroy them, then write it in the "
                "session that was cloned");
  return v;
}

WEFT_DECL void session::write_variable(std::uint32_t node, const void* from) {
  plan::variable_state& v = state_to_write(node);
  if (state_->tasks && v.where.task != state_->tasks->self()) return state_->tasks->write_variable(node, v.where, from);
  v.initialized = true;
  if (!v.where.gpu) return static_cast<void>(__builtin_memcpy(v.write().data(), from, v.bytes()));
  state_->gpus->copy(v.where.ordinal, v.on_gpu, from, variable_info(node).bytes());
}

WEFT_DECL void session::initialize_variable(std::uint32_t node) {
  const plan::variable_state& v = state_to_write(node);
  if (state_->tasks && v.where.task != state_->tasks->self()) return state_->tasks->initialize_variable(node, v.where);
  if (v.initialized) return;
  const graph& g = of();
  const graph_node& first_of = g[g[node].begins_as == graph_node::no_node ? node : g[node].begins_as];
  const value_info info = variable_info(node);
  const storage first(info.bytes(), state_->memory);
  if (!detail::initialize(first_of.init, info, g.seed(), first_of.name, first.data()))
    throw error(error_code::failed_precondition, g[node].name,
                "the variable has no initial value (init::none): call set(), or run a step that assigns to it");
  write_variable(node, first.data());
}

WEFT_DECL value_info session::variable_info(std::uint32_t node) const { return state().variable_info(node); }

WEFT_DECL void session::check_random_number(const char* what, std::int64_t n, std::int64_t end) {
  if (n < 0 || n >= end)
    throw error(error_code::invalid_argument, what, {"the number must be in [0, ", end, "), but is ", n});
}

WEFT_DECL void session::check_graph(const symbol& s) const { state().check_graph(s); }

WEFT_DECL std::string session::explain_placement(const symbol& node) const {
  check_graph(node);
  const std::uint32_t n = node.id().node;
  return str_cat({of()[n].name, " ", state_->place.explain(n)});
}

WEFT_DECL plan::task_support* session_target::open(const graph& g) const {
  if (connect) return connect(to, g);
  if (address.empty()) return nullptr;
  if (!plan::connect_to_address)
    throw error(error_code::failed_precondition, "session",
                {"the target '", address, "' is an address: include <weft/distributed/remote/graph_client.hpp>"});
  return plan::connect_to_address(address, g);
}

WEFT_DECL detail::session_core::session_core(const graph& g, session_options o, const memory_resource& m)
    : records(g.share()),
      options(std::move(o)),
      memory(m),
      gpus(plan::new_gpu_support ? plan::new_gpu_support(options.gpu) : nullptr),
      tasks(options.target.open(nodes())),
      place(nodes(), static_cast<std::size_t>(options.devices), gpus.get(), options.device,
            options.allow_soft_placement, options.task, tasks.get()),
      resources{{place, variables, extents, memory, gpus.get(), tasks.get(), static_cast<std::size_t>(options.devices),
                 static_cast<std::size_t>(options.inter_op_threads), random},
                pools,
                nullptr,
                cores,
                options.log_device_placement} {
  if (tasks) tasks->use_container(options.variables.container);
  if (options.devices < 1 || options.threads < 0 || options.inter_op_threads < 1)
    throw error(error_code::invalid_argument, "session",
                {"devices and inter_op_threads must be at least 1, and threads at least 0, but devices = ",
                 options.devices, ", inter_op_threads = ", options.inter_op_threads, ", threads = ", options.threads});
  const sequence<int> available = available_cores();
  const auto devices = static_cast<std::size_t>(options.devices);
  for (std::size_t d = 0; d < devices; ++d) {
    const std::size_t first = available.size() * d / devices, last = available.size() * (d + 1) / devices;
    const int share = last > first ? static_cast<int>(last - first) : 1;
    sequence<int> mine;
    if (options.pin) mine.append(available.begin() + first, last - first);
    pools.push_back(owned(new thread_pool(options.threads ? options.threads : share, mine)));
    cores.push_back(std::move(mine));
  }
  const int lane_count = options.devices * options.inter_op_threads;
  if (lane_count > 1) lanes = owned(new thread_pool(lane_count));
  resources.lane_threads = lanes.get();
}

WEFT_DECL void detail::session_core::share_variables(session_core& from) {
  // The session that owns the variables counts all readers, including clones of clones.
  session_core& first = from.variables_of ? *from.variables_of : from;
  variables_of = intrusive_ptr<session_core>(&first);
  resources.status = session_resources::reader;
  __atomic_fetch_add(&first.resources.status, session_resources::reader, __ATOMIC_RELAXED);
  extents = from.extents;
  variables = from.variables;
  for (std::uint32_t n = 0; n < variables.size(); ++n) {
    plan::variable_state& v = variables[n];
    if (v.bytes() && kind_of(nodes()[n].def) == variable_kind::local) v.copy_values(memory);
  }
  adopt_new_variables();
}
WEFT_DECL detail::session_core::~session_core() { close(); }

WEFT_DECL void detail::session_core::close() {
  __atomic_fetch_or(&resources.status, session_resources::closed, __ATOMIC_RELAXED);
  resources.lane_threads = nullptr;
  lanes = {};
  pools.clear();
  variables.clear();
  if (variables_of) __atomic_fetch_sub(&variables_of->resources.status, session_resources::reader, __ATOMIC_RELEASE);
  variables_of = nullptr;
}

WEFT_DECL void detail::session_core::check_graph(const symbol& s) const {
  if (s.builder() != &nodes())
    throw error(error_code::invalid_argument, "session",
                "a fetched or fed value belongs to another graph: a session runs the nodes of its own graph only");
}

WEFT_DECL value_info detail::session_core::variable_info(std::uint32_t node) const {
  value_info info = nodes()[node].def.outputs[0];
  extent_bindings known = extents;
  info.extents = known.resolve(nodes(), nodes()[node].name, info.extents);
  return info;
}

WEFT_DECL void detail::session_core::adopt_extents() {
  for (const auto& [code, size] : nodes().fixed_extents())
    if (!extents.find(code)) extents.bind(code, size);
}

WEFT_DECL void detail::session_core::adopt_new_variables() {
  if (variables.size() == nodes().size()) return;
  adopt_extents();
  variables.reserve(nodes().size());
  for (auto n = static_cast<std::uint32_t>(variables.size()); n < nodes().size(); ++n)
    variables.push_back(first_state(n));
}

WEFT_DECL plan::variable_state detail::session_core::first_state(std::uint32_t n) const {
  plan::variable_state v;
  const graph& g = nodes();
  if (!is_operation<variable_op>(g[n].def.op)) return v;
  const value_info info = variable_info(n);
  v.where = place.of(n);
  if (tasks && v.where.task != tasks->self()) {
    v.initialized = true;  // assumed; only the other task knows
    return v;
  }
  if (tasks && tasks->find_variable(n, info, v)) return v;
  storage first(info.bytes(), memory);
  const graph_node& first_of = g[g[n].begins_as == graph_node::no_node ? n : g[n].begins_as];
  v.initialized = detail::initialize(first_of.init, info, g.seed(), first_of.name, first.data());
  if (const variable_sharing& with = options.variables; with.find_or_add) {
    if (v.where.gpu || !v.initialized)
      throw error(v.where.gpu ? error_code::unimplemented : error_code::failed_precondition, g[n].name,
                  v.where.gpu
                      ? "variables that sessions share must be on a CPU: place it on cpu{0}"
                      : "variables that sessions share need an initial value: use another initializer than init::none");
    first = with.find_or_add(with.container, g[n].name, info, first);
  }
  if (!v.where.gpu) {
    v.lie_in(std::move(first));
    return v;
  }
  v.on_gpu = gpus->allocate(v.where.ordinal, info.bytes(), g[n].name);
  gpus->copy(v.where.ordinal, v.on_gpu, first.data(), info.bytes());
  return v;
}

WEFT_DECL void session::set_variable(const symbol& variable, const plan::fed_value& value) {
  check_graph(variable);
  const std::uint32_t n = variable.id().node;
  state_of(n);
  const shape extents = variable_info(n).extents;
  if (!(value.extents == extents))
    throw error(
        error_code::invalid_argument, of()[n].name,
        {"the variable has extents ", to_string(extents), ", but the value to set has ", to_string(value.extents)});
  write_variable(n, value.data);
}

WEFT_DECL std::uint32_t session::variable_to_read(const symbol& variable) {
  check_graph(variable);
  const std::uint32_t n = variable.id().node;
  if (!state_of(n).initialized)
    throw error(error_code::failed_precondition, of()[n].name,
                "the variable has no value yet: call set(), or run a step that assigns to it");
  return n;
}

WEFT_DECL prepared_step::prepared_step(session& s, plan::step_request request)
    : owner_(&s.state()),
      session_(&s.resources()),
      plan_(new detail::step_plan(*session_, s.of(), std::move(request))),
      refused_by_(plan_->writes_shared() ? ~std::uint32_t{0} : detail::session_resources::closed) {}

#endif

WEFT_COLD_END

}  // namespace weft
