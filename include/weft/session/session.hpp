#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <tuple>
#include <utility>

#include <weft/device/cpu/thread_pool.hpp>
#include <weft/device/gpu/device.hpp>
#include <weft/graph/graph.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/lowering.hpp>
#include <weft/plan/gpu_support.hpp>
#include <weft/session/initialize.hpp>
#include <weft/session/step_plan.hpp>
#include <weft/tensor/sequence.hpp>

namespace weft {

struct session_options {
  /// Threads of each CPU device, the caller included; 0: as many as it has cores.
  int threads = 0;
  /// Independent kernels of one device that may run at the same time. Each takes the device's threads that are free.
  int inter_op_threads = 1;
  /// CPU devices `cpu{0}`, `cpu{1}`, ...: each owns an equal share of the cores.
  int devices = 1;
  /// Whether threads stay on their device's cores; one that calls a step on several devices, for as long as it runs.
  bool pin = false;
  /// Where nodes run that name no device: `cpu{0}`, or `cuda{0}`, where every operation that has a kernel for it goes.
  device_spec device = cpu{};
  gpu_options gpu{};
  /// What cannot run where it was asked to runs on the CPU instead of being an error; `explain` says why.
  bool allow_soft_placement = false;
  /// Writes to standard error where each node of a step runs, when the step is first planned.
  bool log_device_placement = false;
};

/// What fetching an effect yields.
struct nothing {};

/// The value is fed to a placeholder of other extents or element type.
template <class Given, class Placeholder>
struct fed_value_differs : mistake<!(std::is_same_v<value_t<Given>, value_t<Placeholder>> &&
                                     detail::assignable(dims_t<Given>::spec, dims_t<Placeholder>::spec))> {};

/// A number is fed to a placeholder that is not a scalar of its type; half and bfloat16 are numbers too.
template <class Number, class Placeholder>
struct fed_number_differs : mistake<!(dims_t<Placeholder>::rank == 0 && std::is_same_v<Number, value_t<Placeholder>>)> {
};

/// What is fed has its elements in the host's memory: a tensor, a tensor_view, or a number. An expression is evaluated
/// first, a vector or a pointer is given its extents by a view.
template <class X>
struct fed_value_is_not_a_tensor : mistake<true> {};

/// A step is called with one value for each of its feeds.
template <std::size_t Given, std::size_t Feeds>
struct number_of_fed_values_differs : mistake<Given != Feeds> {};

/// Nodes, expressions in a graph and effects are fetched. Tensors have their values without a session.
template <class F>
struct fetched_value_not_in_a_graph : mistake<!std::is_same_v<F, effect>> {};
template <Expression Expr>
struct fetched_value_not_in_a_graph<Expr> : value_not_in_a_graph<Expr> {};

/// What is one value to who fetches it and several nodes to a step, as a bounded value is (ops/bounded.hpp): `parts()`
/// are these nodes, and `from_parts` makes the value of theirs.
template <class F>
concept FetchedInParts = requires(const F& f) {
  f.parts();
  &F::from_parts;
};
template <FetchedInParts F>
struct fetched_value_not_in_a_graph<F> : mistake<false> {};

/// Values are fed to nodes; let() makes a node of an expression, before it is used.
template <class P>
struct fed_to_non_node : mistake<!is_node<P>> {};

/// What is to be run is not in a list that fetch() makes, or what is fed in none that feed() makes for prepare, or not
/// in a pair that with() makes for run and eval.
template <class... Arguments>
struct arguments_are_not_fetch_and_feed : mistake<true> {};
template <class... Arguments>
struct arguments_are_not_fetch_and_with : mistake<true> {};

/// A session is made of a graph, and of session_options.
template <class... Arguments>
struct session_is_not_made_of : mistake<true> {};

/// What a step returns, in order: nodes, expressions and effects.
template <class... F>
struct fetch_list {
  std::tuple<F...> fetched;
};

/// What a step is called with, in order.
template <class... P>
struct feed_list {
  std::tuple<P...> fed;
};

namespace detail {

template <class Expr>
auto as_fetch(const Expr& e) {
  if constexpr (std::is_same_v<Expr, effect> || FetchedInParts<Expr>)
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

/// Calls f with every node or effect of what is fetched.
template <class F, class Call>
void for_each_part(const F& fetched, const Call& call) {
  if constexpr (FetchedInParts<F>)
    std::apply([&](const auto&... part) { (call(part), ...); }, fetched.parts());
  else
    call(fetched);
}

template <class X>
inline constexpr bool is_number = std::is_arithmetic_v<X> || is_storage_type<X>;

/// What is wrong with a value that is fed, if anything is.
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
/// What is wrong with the values that a step is called with, if anything is.
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

/// Values to fetch from a step: nodes and expressions yield tensors (scalars of rank 0 yield numbers), effects run.
template <class... F>
auto fetch(const F&... f) {
  static_assert((correct<fetched_value_not_in_a_graph<F>> && ...),
                "fetch: nodes, expressions and effects are fetched; a tensor needs no session, it has its value");
  if constexpr ((correct<fetched_value_not_in_a_graph<F>> && ...))
    return fetch_list<decltype(detail::as_fetch(f))...>{{detail::as_fetch(f)...}};
  else
    return fetch_list<>{};
}

/// Placeholders that a step is called with, in the order of its arguments. Any other node can be fed too.
template <class... P>
auto feed(const P&... p) {
  static_assert((correct<fed_to_non_node<P>> && ...),
                "feed: it lists placeholders, or other nodes: let() makes one; a prepared step is called with the "
                "values");
  if constexpr ((correct<fed_to_non_node<P>> && ...))
    return feed_list<node<value_t<P>, dims_t<P>, device_t<P>>...>{
        {node<value_t<P>, dims_t<P>, device_t<P>>(p.erased())...}};
  else
    return feed_list<>{};
}

/// A node and the value that it gets in one `run`. It refers to the value, so it is written inside the call.
template <class P, class X>
struct fed_pair {
  P placeholder;
  X value;  // by value: a number, or a tensor, which shares its storage
};
template <class P, class X>
requires(is_node<P>) auto with(const P& placeholder, const X& value) {
  using mistake = detail::feed_mistake<X, P>;
  static_assert(correct<mistake>,
                "with: the value is not a tensor, tensor_view or number of the node's extents and elements");
  if constexpr (correct<mistake>)
    return fed_pair<P, X>{placeholder, value};
  else
    return fed_pair<P, tensor<value_t<P>, dims_t<P>>>{placeholder, detail::after_mistake<value_t<P>, dims_t<P>>()};
}

// What others write: values in braces, and the value or a name before the node.
template <class P>
requires(is_node<P>) auto with(const P& placeholder, detail::braces) {
  static_assert(correct<fed_value_is_not_a_tensor<std::initializer_list<value_t<P>>>>,
                "with: values in braces are fed as a tensor: with(x, tensor<T, dims<...>>{...})");
  return fed_pair<P, tensor<value_t<P>, dims_t<P>>>{placeholder, detail::after_mistake<value_t<P>, dims_t<P>>()};
}
template <class X, class P>
requires(!is_node<X>) auto with(const X&, const P& placeholder) {
  static_assert(correct<fed_to_non_node<X>>, "with: the node comes before its value: with(x, value)");
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

// What was meant, where arguments are not what they should be: so that one mistake is one error.
template <class X>
const graph& graph_of(const X& x) {
  if constexpr (std::is_base_of_v<graph, X>)
    return x;
  else
    __builtin_unreachable();
}
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

class session;

/// A prepared run without its types.
class prepared_step {
 public:
  prepared_step(session& s, plan::step_request request);
  prepared_step(prepared_step&&) noexcept = default;

  /// Runs with the given values; fetched values land at the memory that `place(i, extents)` returns for fetched value
  /// i.
  template <class Place>
  void run(const plan::fed_value* fed, Place place);

  std::string explain() const { return plan_->describe(); }
  const detail::step_plan& plan() const { return *plan_; }
  const plan::step_request& request() const { return plan_->request(); }

 private:
  [[noreturn]] static void refuse_moved();
  void execute(plan::binding&);
  void execute_observed(plan::binding&);

  session* owner_;
  gpu::owned<detail::step_plan> plan_;
  bool logged_ = false;
};

/// A prepared run: call it with the fed values, get the fetched ones. Must not outlive its session.
template <class Fetches, class Feeds>
class step;

namespace detail {

template <class... F, class... P>
plan::step_request request_of(const fetch_list<F...>& fetches, const feed_list<P...>& feeds) {
  plan::step_request r;
  const auto add = [&](const auto& one) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(one)>, effect>)
      r.targets.push_back(one.erased().id().node);
    else
      r.fetches.push_back(one.id());
  };
  std::apply([&](const auto&... f) { (for_each_part(f, add), ...); }, fetches.fetched);
  std::apply([&](const auto&... p) { (r.feeds.push_back(p.id()), ...); }, feeds.fed);
  return r;
}

/// Where a fetched value lands, and if it has several parts these: a number.
template <class R>
struct result_slot {
  static constexpr std::size_t parts = 1;
  R value{};

  void* place(std::size_t, const shape&) { return &value; }
  const R& get() const { return value; }
};
template <>
struct result_slot<nothing> {
  static constexpr std::size_t parts = 0;

  void* place(std::size_t, const shape&) { return nullptr; }
  nothing get() const { return {}; }
};

/// A fetched tensor, and those of other extents that calls before have fetched, so that extents which alternate take no
/// new memory.
template <class T, class Dims, class Device>
struct result_slot<tensor<T, Dims, Device>> {
  static constexpr std::size_t parts = 1, max_others = 15;
  using result = tensor<T, Dims, Device>;
  result value;
  sequence<result> others;

  const result& get() const { return value; }
  void* place(std::size_t, const shape& extents) {
    if (!(value.extents() == extents)) exchange(extents);
    if (!value.can_hold(extents)) value = result(extents, uninitialized{});
    return value.data();
  }

 private:
  void exchange(const shape& extents) {
    for (result& other : others)
      if (other.extents() == extents) {
        const result found = other;
        other = value;
        value = found;
        return;
      }
    if (value.elements() == 0) return;
    if (others.size() == max_others) others.erase(0);
    others.push_back(value);
  }
};

/// The same of each part of a value that has some.
template <class F, class Parts>
class parts_slot;
template <class F, class... P>
class parts_slot<F, std::tuple<P...>> {
 public:
  static constexpr std::size_t parts = sizeof...(P);

  void* place(std::size_t part, const shape& extents) {
    void* where = nullptr;
    std::size_t number = 0;
    std::apply(
        [&](auto&... slot) {
          ((number++ == part ? static_cast<void>(where = slot.place(0, extents)) : static_cast<void>(0)), ...);
        },
        slots_);
    return where;
  }
  auto get() const {
    return std::apply([](const auto&... slot) { return F::from_parts(slot.get()...); }, slots_);
  }

 private:
  std::tuple<result_slot<typename fetched_value<P>::type>...> slots_;
};

template <class F>
struct slot_of_fetched {
  using type = result_slot<typename fetched_value<F>::type>;
};
template <FetchedInParts F>
struct slot_of_fetched<F> {
  using type = parts_slot<F, decltype(std::declval<const F&>().parts())>;
};

/// Where the typed values of a step land. Tensors' storage is kept, so that the next call reuses what the caller has
/// let go of.
template <class... F>
class step_results {
 public:
  static constexpr std::size_t values = (slot_of_fetched<F>::type::parts + ... + 0);

  /// The memory for the fetched value of this number.
  void* place(std::size_t fetch, const shape& extents) {
    void* where = nullptr;
    std::size_t first = 0;
    const auto look = [&](auto& slot) {
      constexpr std::size_t parts = std::remove_cvref_t<decltype(slot)>::parts;
      if (fetch >= first && fetch < first + parts) where = slot.place(fetch - first, extents);
      first += parts;
    };
    std::apply([&](auto&... slot) { (look(slot), ...); }, slots_);
    return where;
  }

  auto get() const {
    return std::apply(
        [](const auto&... slot) {
          if constexpr (sizeof...(F) == 1)
            return (slot.get(), ...);
          else
            return std::tuple<typename fetched_value<F>::type...>(slot.get()...);
        },
        slots_);
  }

 private:
  std::tuple<typename slot_of_fetched<F>::type...> slots_;
};

}  // namespace detail

template <class... F, class... P>
class step<fetch_list<F...>, feed_list<P...>> {
 public:
  step(session& s, const fetch_list<F...>& fetches, const feed_list<P...>& feeds)
      : prepared_(s, detail::request_of(fetches, feeds)) {}

  /// Runs the step. One fetched value is returned as it is, several as a tuple. Throws invalid_argument if the fed
  /// extents disagree, and whatever a kernel throws.
  template <class... X>
  auto operator()(const X&... x) {
    using mistake = detail::call_mistake<feed_list<P...>, X...>;
    static_assert(correct<mistake>,
                  "a step takes a tensor, tensor_view(pointer, shape(...)) or number for each feed; eval(x) makes "
                  "tensors");
    if constexpr (correct<mistake>) {
      const plan::fed_value fed[] = {detail::as_fed(x)..., plan::fed_value{}};
      prepared_.run(fed, [&](std::size_t fetch, const shape& extents) { return results_.place(fetch, extents); });
    }
    return results_.get();
  }
  // Values in braces have no type.
  template <class T = float>
  auto operator()(detail::braces, detail::anything = {}, detail::anything = {}) {
    static_assert(correct<fed_value_is_not_a_tensor<std::initializer_list<T>>>,
                  "a step: values in braces are fed as a tensor: step(tensor<T, dims<...>>{...})");
    return results_.get();
  }

  /// Kernels, memory and placement of the last run's extents.
  std::string explain() const { return prepared_.explain(); }
  prepared_step& prepared() { return prepared_; }

 private:
  prepared_step prepared_;
  detail::step_results<F...> results_;
};

WEFT_COLD_BEGIN

/// Owns the variables of a graph on this process's devices, and runs fetches against feeds (tf.Session). The graph must
/// outlive it. One thread at a time may use it.
class session {
 public:
  explicit session(const graph& g, session_options options = {})
      : session(g, std::move(options), memory_resource_of<>) {}
  /// Variables, and the values between a step's kernels, lie in memory of this allocator. What is fetched is the
  /// caller's, and does not.
  template <Allocator A>
  session(const graph& g, session_options options, A) : session(g, std::move(options), memory_resource_of<A>) {}
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  session() = delete;  // A session runs a graph: session s{g};
  template <class X, class... More>
  requires(!std::is_base_of_v<graph, X> || (sizeof...(More) > 0 && !(std::is_same_v<More, session_options> ||
                                                                     ...))) explicit session(const X& x, const More&...)
      : session(detail::graph_of(x), {}) {
    static_assert(correct<session_is_not_made_of<X, More...>>,
                  "session: it is made of a graph and options: session s{g, {.threads = 4}}");
  }

  /// Plans a run once; the step is then called as a function.
  template <class... F, class... P>
  [[nodiscard]] auto prepare(const fetch_list<F...>& fetches, const feed_list<P...>& feeds) {
    const auto check = [&](const auto&... v) {
      (detail::for_each_part(v, [&](const auto& part) { check_graph(part.erased()); }), ...);
    };
    std::apply(check, fetches.fetched);
    std::apply(check, feeds.fed);
    graph_.note_planned_run();
    return step<fetch_list<F...>, feed_list<P...>>(*this, fetches, feeds);
  }
  template <class... F>
  [[nodiscard]] auto prepare(const fetch_list<F...>& fetches) {
    return prepare(fetches, feed_list<>{});
  }

  /// Plans and runs once: `s.run(fetch(loss, train), with(images, x), with(labels, y))`. Planning takes far longer than
  /// a small step: a run that is repeated is prepared.
  template <class... F, class... P, class... X>
  auto run(const fetch_list<F...>& fetches, const fed_pair<P, X>&... fed) {
    auto once = prepare(fetches, feed(fed.placeholder...));
    return once(fed.value...);
  }

  /// The value of one node or expression, planned and run once.
  template <class Expr, class... P, class... X>
  auto eval(const Expr& e, const fed_pair<P, X>&... fed) {
    return run(fetch(e), fed...);
  }

  /// Writes a variable, on whatever device it lies, and records nothing (tf.Variable.load): a tensor or a view of its
  /// elements and extents, or a number for one that is a scalar. Throws invalid_argument if extents that are known at
  /// run time alone differ.
  template <class T, class D, class Dev, class X>
  void set(const variable_node<T, D, Dev>& v, const X& value) {
    if constexpr (Expression<X> && !requires { value.data(); }) {
      set(v, tensor<value_t<X>, dims_t<X>>(value));
    } else {
      using mistake = detail::feed_mistake<X, node<T, D, Dev>>;
      static_assert(correct<mistake>, "set: the value has other extents or elements than the variable");
      if constexpr (correct<mistake>) set_variable(v.erased(), detail::as_fed(value));
    }
  }

  /// The value of a variable: a tensor, or a number if it is a scalar. Throws failed_precondition if it has none yet.
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

  // What others write: nodes that are in no list, values without their placeholders, lists in braces.
  template <class F, class... X>
  auto prepare(const F& fetched, const X&... fed) {
    static_assert(correct<arguments_are_not_fetch_and_feed<F, X...>>,
                  "prepare: it takes two lists: prepare(fetch(loss, train), feed(images, labels))");
    return prepare(detail::meant_fetches(fetched), detail::meant_feeds(fed...));
  }
  template <class F = fetch_list<>>
  auto prepare(detail::braces, detail::braces = {}) {
    static_assert(correct<arguments_are_not_fetch_and_feed<F>>,
                  "prepare: it takes two lists: prepare(fetch(loss, train), feed(images, labels))");
    return prepare(F());
  }
  template <class F, class... X>
  requires(!(detail::is_fetch_list<F> && ... && detail::is_fed_pair<X>)) auto run(const F& fetched, const X&...) {
    static_assert(correct<arguments_are_not_fetch_and_with<F, X...>>,
                  "run: it takes a list and pairs: run(fetch(loss, train), with(images, x), with(labels, y))");
    return run(detail::meant_fetches(fetched));
  }
  template <class Expr, class... X>
  requires(!(detail::is_fed_pair<X> && ...)) auto eval(const Expr& e, const X&...) {
    static_assert(correct<arguments_are_not_fetch_and_with<Expr, X...>>,
                  "eval: values are given in pairs: eval(loss, with(images, x), with(labels, y))");
    return run(detail::meant_fetches(e));
  }

  /// Where an operation runs and by which rule: "hidden on /device:CPU:0: the session's own choice, for it names no
  /// device". What soft placement did not have to move, a step's `explain` leaves out.
  template <class Expr>
  requires(is_node<Expr>) std::string explain(const Expr& node)
  const {
    check_graph(node.erased());
    const std::uint32_t n = node.id().node;
    return str_cat({graph_[n].name, " ", place_.explain(n)});
  }

  /// The number of the next step that draws random numbers, from 0 on: how many have run to their end. Steps that draw
  /// none are not counted, so evaluation between two steps of training changes nothing; all prepared steps of a session
  /// count together, and each session for itself. A step that throws is not counted: run again, it draws the same.
  std::int64_t step_number() const { return random_.step(); }
  /// Goes on as a session does that has run so many: whoever restores variables sets it to what it was. Throws
  /// invalid_argument unless 0 <= n < 2^48.
  void set_step_number(std::int64_t n) {
    check_random_number("set_step_number", n, plan::random_state::steps);
    random_.position = random_.stream() * plan::random_state::steps + n;
  }
  /// Which of 2^15 streams random numbers come from: 0, the worker's number in a replicated session. Sessions of one
  /// graph and of one stream draw the same numbers, of others different ones. Throws invalid_argument unless
  /// 0 <= n < 2^15.
  void set_random_stream(std::int64_t n) {
    check_random_number("set_random_stream", n, plan::random_state::streams);
    random_.position = n * plan::random_state::steps + random_.step();
  }

  const graph& of() const { return graph_; }
  const session_options& options() const { return options_; }

  /// Who is told of each step's kernels: a trace (session/trace.hpp), or nobody.
  step_observer* observer() const { return observer_; }
  void observe(step_observer* by) { observer_ = by; }

  // ---- for the layers above: variables by node number ----

  /// Where a variable lies; variables that joined the graph after the session was made are initialised now.
  plan::variable_state& state_of(std::uint32_t node) {
    adopt_new_variables();
    return variables_[node];
  }
  /// A variable's value on its way to the host, and back, wherever it lies.
  void read_variable(std::uint32_t node, void* to) {
    const plan::variable_state& v = state_of(node);
    if (!v.where.gpu) return static_cast<void>(__builtin_memcpy(to, v.data.data(), v.data.bytes()));
    gpus_->copy(v.where.ordinal, to, v.on_gpu, variable_info(node).bytes());
  }
  void write_variable(std::uint32_t node, const void* from) {
    plan::variable_state& v = state_of(node);
    v.initialized = true;
    if (!v.where.gpu) return static_cast<void>(__builtin_memcpy(v.data.data(), from, v.data.bytes()));
    gpus_->copy(v.where.ordinal, v.on_gpu, from, variable_info(node).bytes());
  }
  value_info variable_info(std::uint32_t node) const {
    value_info info = graph_[node].def.outputs[0];
    extent_bindings known = extents_;
    info.extents = known.resolve(graph_, graph_[node].name, info.extents);
    return info;
  }

 private:
  friend class prepared_step;

  static void check_random_number(const char* what, std::int64_t n, std::int64_t end) {
    if (n < 0 || n >= end) throw error(error_code::invalid_argument, what, {n, " is not in [0, ", end, ")"});
  }

  void check_graph(const symbol& s) const {
    if (s.builder() != &graph_)
      throw error(error_code::invalid_argument, "session", "a fetched or fed value belongs to another graph");
  }

  /// The values that the graph gives to named extents. One that this session has used stays as it was.
  void adopt_extents() {
    for (const auto& [code, size] : graph_.fixed_extents())
      if (!extents_.find(code)) extents_.bind(code, size);
  }

  session(const graph& g, session_options options, const memory_resource& memory);
  void adopt_new_variables();
  void initialize_variable(std::uint32_t n);
  void set_variable(const symbol& variable, const plan::fed_value& value);
  std::uint32_t variable_to_read(const symbol& variable);

  const graph& graph_;
  session_options options_;
  const memory_resource& memory_;
  gpu::owned<plan::gpu_support> gpus_;
  plan::placement place_;
  sequence<gpu::owned<thread_pool>> pools_;  // of a device each
  gpu::owned<thread_pool> lanes_;
  sequence<sequence<int>> cores_;  // of a device each, if threads stay on them
  extent_bindings extents_;
  sequence<plan::variable_state> variables_;
  step_observer* observer_ = nullptr;
  plan::random_state random_;
  detail::session_resources resources_;
};

#if WEFT_BODIES

WEFT_DECL session::session(const graph& g, session_options options, const memory_resource& memory)
    : graph_(g),
      options_(std::move(options)),
      memory_(memory),
      gpus_(plan::new_gpu_support ? plan::new_gpu_support(options_.gpu) : nullptr),
      place_(g, static_cast<std::size_t>(options_.devices), gpus_.get(), options_.device,
             options_.allow_soft_placement),
      resources_{{place_, variables_, extents_, memory_, gpus_.get(), static_cast<std::size_t>(options_.devices),
                  static_cast<std::size_t>(options_.inter_op_threads), random_},
                 pools_,
                 nullptr,
                 cores_} {
  if (options_.devices < 1 || options_.threads < 0 || options_.inter_op_threads < 1)
    throw error(error_code::invalid_argument, "session",
                {"devices = ", options_.devices, ", threads = ", options_.threads, ", inter_op_threads = ",
                 options_.inter_op_threads, ": there is at least one device and one thread between operations, and no ",
                 "negative number of threads"});
  const sequence<int> cores = available_cores();
  const auto devices = static_cast<std::size_t>(options_.devices);
  for (std::size_t d = 0; d < devices; ++d) {
    const std::size_t first = cores.size() * d / devices, last = cores.size() * (d + 1) / devices;
    const int share = last > first ? static_cast<int>(last - first) : 1;
    sequence<int> mine;
    if (options_.pin) mine.append(cores.begin() + first, last - first);
    pools_.push_back(gpu::owned(new thread_pool(options_.threads ? options_.threads : share, mine)));
    cores_.push_back(std::move(mine));
  }
  const int lanes = options_.devices * options_.inter_op_threads;
  if (lanes > 1) lanes_ = gpu::owned(new thread_pool(lanes));
  resources_.lane_threads = lanes_.get();
  adopt_extents();
  variables_.resize(g.size());
  for (std::uint32_t n = 0; n < g.size(); ++n)
    if (g[n].def.op == &operation_of<variable_op>) initialize_variable(n);
}

WEFT_DECL void session::adopt_new_variables() {
  const std::size_t known = variables_.size();
  if (known == graph_.size()) return;
  adopt_extents();
  variables_.resize(graph_.size());
  for (auto n = static_cast<std::uint32_t>(known); n < graph_.size(); ++n)
    if (graph_[n].def.op == &operation_of<variable_op>) initialize_variable(n);
}

WEFT_DECL void session::initialize_variable(std::uint32_t n) {
  const value_info info = variable_info(n);
  plan::variable_state& v = variables_[n];
  v.where = place_.of(n);
  storage first(info.bytes(), memory_);
  v.initialized = detail::initialize(graph_[n].init, info, graph_.seed(), graph_[n].name, first.data());
  if (!v.where.gpu) {
    v.data = std::move(first);
    return;
  }
  v.on_gpu = gpus_->allocate(v.where.ordinal, info.bytes(), graph_[n].name);
  gpus_->copy(v.where.ordinal, v.on_gpu, first.data(), info.bytes());
}

WEFT_DECL void session::set_variable(const symbol& variable, const plan::fed_value& value) {
  check_graph(variable);
  const std::uint32_t n = variable.id().node;
  state_of(n);
  const shape extents = variable_info(n).extents;
  if (!(value.extents == extents))
    throw error(error_code::invalid_argument, graph_[n].name,
                {"a value of extents ", to_string(value.extents), " is set, the variable has ", to_string(extents)});
  write_variable(n, value.data);
}

WEFT_DECL std::uint32_t session::variable_to_read(const symbol& variable) {
  check_graph(variable);
  const std::uint32_t n = variable.id().node;
  if (!state_of(n).initialized)
    throw error(error_code::failed_precondition, graph_[n].name,
                "the variable has no value yet: set() writes one, or a step that assigns to it");
  return n;
}

WEFT_DECL prepared_step::prepared_step(session& s, plan::step_request request) : owner_(&s) {
  s.adopt_new_variables();
  plan_ = gpu::owned(new detail::step_plan(s.resources_, s.graph_, std::move(request)));
}

WEFT_DECL void prepared_step::refuse_moved() {
  throw error(error_code::failed_precondition, "step", "was moved to another one, which runs in its place");
}
WEFT_DECL void prepared_step::execute_observed(plan::binding& b) {
  if (owner_->options_.log_device_placement && !logged_)
    std::fputs(plan_->placement_log().c_str(), stderr), logged_ = true;
  step_observer* const observer = owner_->observer_;
  if (!observer) return plan_->run(b, nullptr);
  detail::step_times times;
  times.of.resize(plan_->kernels());
  plan_->run(b, &times);
  plan_->report(times, *observer);
}

#endif

WEFT_COLD_END

inline void prepared_step::execute(plan::binding& b) {
  if (plan_->runs_kernels_alone() && !owner_->observer_)
    plan_->run_kernels(b);
  else
    execute_observed(b);
}

template <class Place>
void prepared_step::run(const plan::fed_value* fed, Place place) {
  if (!plan_) [[unlikely]]
    refuse_moved();
  plan::binding& b = plan_->bind(fed);
  b.feed(fed);
  for (std::size_t i = 0; i < b.fetched.size(); ++i)
    if (const plan::binding::fetched_operand& f = b.fetched[i]; f.to_caller)
      b.addresses[f.buffer] = static_cast<std::byte*>(place(i, f.extents));
  execute(b);
  for (std::size_t i = 0; i < b.fetched.size(); ++i)
    if (const plan::binding::fetched_operand& f = b.fetched[i]; !f.to_caller)
      if (void* to = place(i, f.extents)) __builtin_memcpy(to, b.addresses[f.buffer], f.bytes);
}

/// Kernels in order, fused regions, memory and placement of a step.
template <class Fetches, class Feeds>
std::string explain(const step<Fetches, Feeds>& s) {
  return s.explain();
}

}  // namespace weft
