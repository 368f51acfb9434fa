// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <weft/deadline.hpp>
#include <weft/graph/leaves.hpp>
#include <weft/ops/bounded.hpp>
#include <weft/queue/components.hpp>
#include <weft/queue/queue_state.hpp>
#include <weft/queue/recorded.hpp>
#include <weft/queue/resources.hpp>

namespace weft {

/// A call that may wait takes a deadline.
template <class... Arguments>
struct call_has_no_deadline : mistake<true> {};

/// The first component of a priority_queue is the priority, one std::int64_t.
template <class First>
struct priority_is_not_an_int64 : mistake<!std::is_same_v<detail::component_value<First>, std::int64_t>> {};

namespace detail {

struct queue_kind {
  const char* name;
  std::int64_t capacity;
  std::int64_t min_after_dequeue = 0;
};

/// Throws invalid_argument for a queue that could not store an element, or would never release one.
inline void check_queue(const queue_kind& k) {
  if (k.capacity == 0)
    throw error(error_code::invalid_argument, k.name, "capacity must be positive, or -1 for unbounded, but is 0");
  if (k.min_after_dequeue < 0 || (k.capacity > 0 && k.min_after_dequeue >= k.capacity))
    throw error(
        error_code::invalid_argument, k.name,
        {"min_after_dequeue must be at least 0 and below capacity ", k.capacity, ", but is ", k.min_after_dequeue});
}

/// A queue with its types. It stores the components in their stored form.
template <class Store, bool Pads, class... Components>
class typed_queue final : public erased_queue {
 public:
  using stored = std::tuple<component_value<Components>...>;
  using elements = element_array<stored>;

  template <class... StoreArguments>
  typed_queue(std::string name, std::string declaration, std::size_t capacity, std::size_t min_after_dequeue,
              const StoreArguments&... s)
      : declaration_(std::move(declaration)),
        capacity_(capacity),
        min_after_dequeue_(min_after_dequeue),
        seeds_{s...},
        state(std::move(name), capacity, min_after_dequeue, s...) {}

  void put(deadline until, const operand* values, bool many) override { put(until, values, many, all()); }
  std::size_t take(deadline until, const result* to, bool many, bool up_to) override {
    return take(until, to, many, up_to, all());
  }
  std::int64_t size() const override { return state.size(); }
  bool is_closed() const override { return state.is_closed(); }
  void close(bool cancel_pending_enqueues) override { state.close(cancel_pending_enqueues); }
  void abandon() noexcept override { state.abandon(); }
  const std::string& name() const noexcept override { return state.name(); }
  const std::string& declaration() const noexcept override { return declaration_; }
  std::shared_ptr<resource> make_again() const override {
    if constexpr (std::is_constructible_v<Store, std::uint64_t, std::uint64_t>)
      return std::make_shared<typed_queue>(name(), declaration_, capacity_, min_after_dequeue_, seeds_[0], seeds_[1]);
    else
      return std::make_shared<typed_queue>(name(), declaration_, capacity_, min_after_dequeue_);
  }

  /// Throws invalid_argument if two extents with one name differ within an element.
  void check(const stored& e) const {
    if constexpr (!(component_dims<Components>::is_static && ...)) check(e, all());
  }

 private:
  using all = std::index_sequence_for<Components...>;

  template <std::size_t... Index>
  void check(const stored& e, std::index_sequence<Index...>) const {
    const value_info infos[] = {
        {dtype_of<component_type<Components>>, extents_of_component<Components>(std::get<Index>(e))}...};
    static constexpr const char* const* names[] = {component_dims<Components>::names...};
    check_names(infos, names, sizeof...(Components), [&] { return name(); });
  }

  template <std::size_t... Index>
  void put(deadline until, const operand* values, bool many, std::index_sequence<Index...>) {
    const std::size_t count = many ? static_cast<std::size_t>(values[0].extents[0]) : 1;
    for (std::size_t k = 1; many && k < sizeof...(Components); ++k)
      if (values[k].extents[0] != values[0].extents[0])
        throw error(error_code::invalid_argument, name(),
                    {"component ", k, " has ", values[k].extents[0], " elements, but component 0 has ",
                     values[0].extents[0], ": give the same number for each component"});
    const shape each[] = {many ? without_first(values[Index].extents) : values[Index].extents...};
    elements rows(count);
    for (std::size_t i = 0; i < count; ++i) {
      rows.emplace_back(row_of<Components>(reinterpret_cast<const component_type<Components>*>(values[Index].data),
                                           each[Index], i)...);
      if (i == 0) check(rows[0]);
    }
    state.enqueue(until, rows.data(), count);
  }

  template <std::size_t... Index>
  std::size_t take(deadline until, const result* to, bool many, bool up_to, std::index_sequence<Index...>) {
    const shape each[] = {many ? without_first(to[Index].extents) : to[Index].extents...};
    const std::size_t room = many ? static_cast<std::size_t>(to[0].extents[0]) : 1;
    elements taken(room);
    state.dequeue(until, taken, room, up_to);
    const shape largest[] = {largest_extents<Components, Index>(taken, taken.size())...};
    for (std::size_t k = 0; k < sizeof...(Components); ++k)
      for (std::size_t a = 0; a < each[k].rank; ++a) {
        if (largest[k][a] == each[k][a] || (Pads && many && largest[k][a] < each[k][a])) continue;
        state.restore(taken);
        throw error(error_code::invalid_argument, name(),
                    {"component ", k, " of an element has extents ", to_string(largest[k]), ", but the step expects ",
                     to_string(each[k]), Pads ? " or smaller" : ": named extents must have one value in a step"});
      }
    (write<Components, Index>(taken, room, each[Index], to[Index].data), ...);
    return taken.size();
  }
  template <class C, std::size_t Index>
  static void write(const elements& taken, std::size_t room, const shape& each, std::byte* to) {
    const std::size_t bytes = each.elements() * sizeof(component_type<C>);
    write_batch<C, Index>(taken, taken.size(), each, to);
    if (taken.size() < room) __builtin_memset(to + taken.size() * bytes, 0, (room - taken.size()) * bytes);
  }

  const std::string declaration_;
  const std::size_t capacity_, min_after_dequeue_;
  const std::uint64_t seeds_[2];

 public:
  queue_state<Store> state;
};

template <class X>
inline constexpr bool is_symbolic = false;
template <Expression X>
inline constexpr bool is_symbolic<X> = X::symbolic;

/// The mistake in a node for a component, or for a batch of it, if any.
template <class C, bool Many, class X>
constexpr auto find_recorded_mistake() {
  if constexpr (!Expression<X>)
    return std::conditional_t<Many || !is_component_number<X>, enqueued_value_is_not_a_tensor<X>,
                              enqueue_mistake<C, X>>{};
  else if constexpr (Many)
    return first_mistake<batch_differs_from_elements<dims_t<X>, component_dims<C>>,
                         element_types_differ<value_t<X>, component_type<C>>>{};
  else
    return assignment_mistake<value_t<X>, dims_t<X>, component_type<C>, component_dims<C>>{};
}
template <bool Many, class... C, class... X>
constexpr auto find_recorded_mistakes(void (*)(C...), void (*)(X...)) {
  if constexpr (sizeof...(C) != sizeof...(X))
    return number_of_components_differs<sizeof...(X), sizeof...(C)>{};
  else
    return first_mistake<decltype(find_recorded_mistake<C, Many, X>())...>{};
}

/// Converts a value for a graph: a node or a tensor.
template <class C, class X>
auto as_recorded(const X& x) {
  if constexpr (is_component_number<X>)
    return tensor<component_type<C>>(as_element<component_type<C>>(x));
  else
    return materialize(x);
}

template <class... X>
auto one_or_all(const X&... x) {
  if constexpr (sizeof...(X) == 1)
    return (x, ...);
  else
    return std::tuple<X...>(x...);
}

}  // namespace detail

/// The operations of all queues; see fifo_queue.
template <template <class> class Store, bool Pads, class... Components>
class basic_queue {
  static_assert((correct<component_is_not_a_tensor<Components>> && ...),
                "a queue: components must be tensors or element types: fifo_queue<tensor<float, dims<784>>, int>");
  static_assert(sizeof...(Components) > 0, "a queue: elements must have at least one component");

  using queue = detail::typed_queue<Store<std::tuple<detail::component_value<Components>...>>, Pads, Components...>;
  using stored = typename queue::stored;
  using elements = typename queue::elements;
  using all = std::index_sequence_for<Components...>;
  using no_batch = std::conditional_t<Pads || (detail::component_dims<Components>::is_static && ...), mistake<false>,
                                      batch_needs_known_extents<Components...>>;
  template <bool Many, class... X>
  using recorded_mistake = decltype(detail::find_recorded_mistakes<Many>(static_cast<void (*)(Components...)>(nullptr),
                                                                         static_cast<void (*)(X...)>(nullptr)));

 public:
  // ---- eager calls ----

  template <class... X>
    requires(!(detail::is_symbolic<X> || ...))
  void enqueue(deadline until, const X&... x) const {
    static_assert(correct<number_of_components_differs<sizeof...(X), sizeof...(Components)>>,
                  "enqueue: pass a deadline, and one value for each component of the queue");
    if constexpr (sizeof...(X) == sizeof...(Components)) {
      using mistake = first_mistake<detail::enqueue_mistake<Components, X>...>;
      static_assert(correct<mistake>, "enqueue: values must have their component's extents and element type");
      if constexpr (correct<mistake>) {
        stored e = to_stored(x...);
        queue_->check(e);
        queue_->state.enqueue(until, &e, 1);
      }
    }
  }

  template <class... X>
    requires(!(detail::is_symbolic<X> || ...))
  void enqueue_many(deadline until, const X&... batches) const {
    static_assert(correct<number_of_components_differs<sizeof...(X), sizeof...(Components)>>,
                  "enqueue_many: pass a deadline, and one batch for each component of the queue");
    if constexpr (sizeof...(X) == sizeof...(Components)) {
      using mistake = first_mistake<detail::batch_mistake<Components, X>...>;
      static_assert(
          correct<mistake>,
          "enqueue_many: the first axis of a batch counts elements; the other axes must equal the component's extents");
      if constexpr (correct<mistake>) {
        const detail::erased_queue::operand operands[] = {
            {reinterpret_cast<const std::byte*>(batches.data()), batches.extents()}...};
        queue_->put(until, operands, true);
      }
    }
  }

  auto dequeue(deadline until) const {
    elements one(1);
    queue_->state.dequeue(until, one, 1);
    if constexpr (sizeof...(Components) == 1)
      return std::get<0>(one[0]);
    else
      return stored(one[0]);
  }

  template <auto...>
  auto dequeue_many(...) const WEFT_DELETED;  // dequeue_many(5s, 20), dequeue_many<20>(graph, 5s)
  auto dequeue_many(deadline until, std::int64_t n) const {
    static_assert(correct<no_batch>,
                  "dequeue_many: use a padding_fifo_queue to make batches of elements with different extents");
    return batch_of<dyn<"batch">>(until, n, false);
  }
  template <auto Count>
    requires std::is_integral_v<decltype(Count)>
  auto dequeue_many(deadline until) const {
    static_assert(Count >= 0, "dequeue_many: the number of elements must be at least 0");
    static_assert(correct<no_batch>,
                  "dequeue_many: use a padding_fifo_queue to make batches of elements with different extents");
    return batch_of<Count>(until, Count, false);
  }
  auto dequeue_up_to(deadline until, std::int64_t n) const {
    static_assert(correct<no_batch>,
                  "dequeue_up_to: use a padding_fifo_queue to make batches of elements with different extents");
    return batch_of<dyn<"batch">>(until, n, true);
  }

  // TensorFlow's form without a deadline, to report the correct form.
  template <class Deadline = deadline>
  auto dequeue() const {
    static_assert(correct<call_has_no_deadline<Deadline>>,
                  "dequeue: pass a deadline: dequeue(5s), or in a graph dequeue(g, 5s)");
    return dequeue(deadline(std::chrono::seconds(0)));
  }

  std::int64_t size() const { return queue_->size(); }
  bool is_closed() const { return queue_->is_closed(); }
  /// The number of waiting calls of all kinds.
  std::size_t waiting() const { return queue_->state.waiting(); }
  void close(bool cancel_pending_enqueues = false) const { queue_->close(cancel_pending_enqueues); }
  const std::string& name() const { return queue_->name(); }

  // ---- operations of a graph, which run in each step ----

  template <class... X>
    requires(detail::is_symbolic<X> || ...)
  effect enqueue(time_limit within, const X&... x) const {
    using mistake = recorded_mistake<false, X...>;
    static_assert(correct<mistake>,
                  "enqueue: pass a time limit, and for each component a value of its extents and element type");
    if constexpr (correct<mistake>) return record_enqueue(within, false, detail::as_recorded<Components>(x)...);
    return effect();
  }
  template <class... X>
    requires(detail::is_symbolic<X> || ...)
  effect enqueue_many(time_limit within, const X&... batches) const {
    using mistake = recorded_mistake<true, X...>;
    static_assert(correct<mistake>, "enqueue_many: pass a time limit, and for each component a batch of its elements");
    if constexpr (correct<mistake>) return record_enqueue(within, true, detail::as_recorded<Components>(batches)...);
    return effect();
  }

  [[nodiscard]] auto dequeue(graph& g, time_limit within) const {
    const symbol first = record_dequeue<detail::component_dims<Components>...>(g, within, false, false);
    return nodes<detail::component_dims<Components>...>(first, all());
  }
  template <auto Count>
  [[nodiscard]] auto dequeue_many(graph& g, time_limit within) const {
    static_assert(correct<no_batch>,
                  "dequeue_many: use a padding_fifo_queue to make batches of elements with different extents");
    const symbol first = record_dequeue<detail::batch_dims<Count, Components>...>(g, within, true, false);
    return nodes<detail::batch_dims<Count, Components>...>(first, all());
  }
  template <auto Count>
  [[nodiscard]] auto dequeue_up_to(graph& g, time_limit within) const {
    static_assert(correct<no_batch>,
                  "dequeue_up_to: use a padding_fifo_queue to make batches of elements with different extents");
    const symbol first = record_dequeue<detail::batch_dims<Count, Components>...>(g, within, true, true);
    return bounded_nodes<Count>(first, all());
  }

  [[nodiscard]] auto size(graph& g) const {
    return node<std::int64_t>(
        detail::record_queue_state(g, queue_, device_, "size", queue_state_op::kind::size, {dtype::int64, {}}));
  }
  [[nodiscard]] auto is_closed(graph& g) const {
    return node<bool>(detail::record_queue_state(g, queue_, device_, "is_closed", queue_state_op::kind::is_closed,
                                                 {dtype::boolean, {}}));
  }
  [[nodiscard]] effect close(graph& g, bool cancel_pending_enqueues = false) const {
    return effect(detail::record_queue_state(
        g, queue_, device_, "close",
        cancel_pending_enqueues ? queue_state_op::kind::close_and_cancel : queue_state_op::kind::close,
        {dtype::boolean, shape(0)}));
  }

 protected:
  template <class... StoreArguments>
  basic_queue(const detail::queue_kind& kind, const queue_options& options, const StoreArguments&... s)
      : device_(options.device) {
    detail::check_queue(kind);
    std::string declaration = str_cat({kind.name, "<", detail::components_text<Components...>(), "> of capacity ",
                                       kind.capacity < 0 ? -1 : kind.capacity});
    if constexpr (sizeof...(StoreArguments) > 0)
      append(declaration, {", min_after_dequeue ", kind.min_after_dequeue, ", seed ", options.seed});
    const auto make = [&] {
      return std::make_shared<queue>(
          !options.name.empty()         ? options.name
          : options.shared_name.empty() ? kind.name
                                        : options.shared_name,
          declaration, kind.capacity < 0 ? decltype(queue::state)::unbounded : static_cast<std::size_t>(kind.capacity),
          static_cast<std::size_t>(kind.min_after_dequeue), s...);
    };
    queue_ = options.shared_name.empty()
                 ? make()
                 : detail::resource_table::of_process().find_or_make<queue>(options, declaration, make);
  }

 private:
  template <class... X>
  stored to_stored(const X&... x) const {
    if constexpr ((detail::component_dims<Components>::is_static && ...)) {
      return stored(detail::to_component<Components>(x)...);
    } else {
      try {
        return stored(detail::to_component<Components>(x)...);
      } catch (const error& e) {
        throw error(e.code(), name(), e.sentence());
      }
    }
  }

  template <auto First>
  auto batch_of(deadline until, std::int64_t n, bool up_to) const {
    if (n < 0)
      throw error(error_code::invalid_argument, name(), {"the number of elements must be at least 0, but is ", n});
    elements taken(static_cast<std::size_t>(n));
    queue_->state.dequeue(until, taken, static_cast<std::size_t>(n), up_to);
    try {
      return batch_of<First>(taken, all());
    } catch (...) {  // out of memory for the batch
      queue_->state.restore(taken);
      throw;
    }
  }
  template <auto First, std::size_t... Index>
  static auto batch_of(const elements& taken, std::index_sequence<Index...>) {
    return detail::one_or_all(component_batch<First, Components, Index>(taken)...);
  }
  template <auto First, class C, std::size_t Index>
  static auto component_batch(const elements& taken) {
    const shape each = detail::largest_extents<C, Index>(taken, taken.size());
    tensor<detail::component_type<C>, detail::batch_dims<First, C>> batch(
        detail::with_first(static_cast<std::int64_t>(taken.size()), each), uninitialized{});
    detail::write_batch<C, Index>(taken, taken.size(), each, reinterpret_cast<std::byte*>(batch.data()));
    return batch;
  }

  template <class... X>
  effect record_enqueue(time_limit within, bool many, const X&... x) const {
    graph& g = detail::graph_around(x...);
    node_def c;
    c.op = &operation_of<enqueue_op>;
    c.attributes = words_of(enqueue_op::attributes{within.nanoseconds(), many});
    (c.inputs.push_back(detail::enter(g, x).id()), ...);
    c.outputs = {{dtype::boolean, shape(0)}};
    return effect(detail::record_queue_operation(g, queue_, device_, "enqueue", static_cast<node_def&&>(c)));
  }

  template <class... Dims>
  symbol record_dequeue(graph& g, time_limit within, bool many, bool up_to) const {
    node_def c;
    c.op = &operation_of<dequeue_op>;
    c.attributes = words_of(dequeue_op::attributes{within.nanoseconds(), many, up_to});
    c.outputs = {{dtype_of<detail::component_type<Components>>, Dims::spec}...};
    if (up_to) c.outputs.push_back({dtype::int64, {}});
    (detail::remember_names(g, Dims::spec, Dims::names), ...);
    (detail::remember_formulas<Dims>(g), ...);
    return detail::record_queue_operation(g, queue_, device_, "dequeue", static_cast<node_def&&>(c));
  }
  template <class... Dims, std::size_t... Index>
  static auto nodes(symbol first, std::index_sequence<Index...>) {
    return detail::one_or_all(node<detail::component_type<Components>, Dims>(first.output(Index))...);
  }
  template <auto Count, std::size_t... Index>
  static auto bounded_nodes(symbol first, std::index_sequence<Index...>) {
    const node<std::int64_t> count(first.output(sizeof...(Components)));
    return detail::one_or_all(bounded<node<detail::component_type<Components>, detail::batch_dims<Count, Components>>,
                                      detail::batch_dims<dyn<"batch">, Components>>{
        node<detail::component_type<Components>, detail::batch_dims<Count, Components>>(first.output(Index)),
        count}...);
  }

  std::shared_ptr<queue> queue_;
  device_spec device_;  // of the queue's operations
};

/// A first-in, first-out queue of tensors for threads and steps (tf.FIFOQueue). It is a handle: copies are the same
/// queue. Its components are tensors or, for scalars, element types:
///
///     fifo_queue<tensor<float, dims<784>>, std::int32_t> examples(1000);   // -1: unbounded
///     examples.enqueue(5s, image, 7);
///     auto [x, y] = examples.dequeue(5s);                            // a tensor and a number
///     auto [xs, ys] = examples.dequeue_many(5s, 32);                 // 32 elements along a new first axis, "batch"
///     auto [same, too] = examples.dequeue_many<32>(5s);              // the same with a static extent
///     examples.close();
///
/// `enqueue` waits while the queue is full; `enqueue_many` adds row after row as room becomes available. `dequeue`
/// waits for an element. `dequeue_many` waits for all of its n elements, and takes them as they arrive. `dequeue_up_to`
/// returns fewer if a closed queue has no more. Waiting calls are served in order: none overtakes another, and batches
/// do not mix. Elements share their storage with the enqueued tensor until either is written; a batch is one copy. All
/// functions are thread-safe.
///
/// `close` announces that no more elements follow. Enqueues that already wait still complete or, with `true`, are
/// cancelled. Throws, with TensorFlow's codes: `cancelled` for an enqueue after close and for a second close;
/// `out_of_range` for a dequeue if a closed queue has too few elements, which it keeps; `deadline_exceeded`, after
/// which a dequeue has taken nothing and an enqueue_many may have added some rows; invalid_argument for dynamic extents
/// that do not fit.
///
/// In a graph, the same functions record operations, which run in each run of a step:
///
///     effect put = examples.enqueue(5s, image_node, label_node);
///     auto [x, y] = examples.dequeue(g, 5s);
///     auto [xs, ys] = examples.dequeue_many<32>(g, 5s);              // or dyn<"batch">, from g.set or a feed
///     auto [some, labels] = examples.dequeue_up_to<32>(g, 5s);       // bounded: at most 32 valid rows
///
/// The time limit applies to each run. Queue operations of one step run in the order in which they were recorded. Each
/// call of `dequeue` is a separate node, never shared with an equal one, and runs if one of its results is needed. No
/// gradient passes through a queue.
template <class... Components>
class fifo_queue : public basic_queue<detail::fifo_store, false, Components...> {
 public:
  explicit fifo_queue(std::int64_t capacity = -1, const queue_options& options = {})
      : basic_queue<detail::fifo_store, false, Components...>({"fifo_queue", capacity}, options) {}
  /// For a graph whose tasks share the queue: queue_options::device, or the current scopes, select the task that owns
  /// it.
  explicit fifo_queue(const graph& g, std::int64_t capacity = -1, const queue_options& options = {})
      : fifo_queue(capacity, detail::placed_in(g, options)) {}
  template <class = void>
  explicit fifo_queue(...) = delete;  // of a capacity; queue_options: name, shared_name, container, seed, device
};

/// A queue that dequeues random elements while it contains more than `min_after_dequeue` or is closed
/// (tf.RandomShuffleQueue). With the same seed, TensorFlow's queue draws the same elements.
template <class... Components>
class random_shuffle_queue : public basic_queue<detail::shuffle_store, false, Components...> {
 public:
  random_shuffle_queue(std::int64_t capacity, std::int64_t min_after_dequeue, const queue_options& options = {})
      : basic_queue<detail::shuffle_store, false, Components...>({"random_shuffle_queue", capacity, min_after_dequeue},
                                                                 options, std::uint64_t{87654321}, options.seed) {}
  /// For a graph whose tasks share the queue: queue_options::device, or the current scopes, select the task that owns
  /// it.
  explicit random_shuffle_queue(const graph& g, std::int64_t capacity, std::int64_t min_after_dequeue,
                                const queue_options& options = {})
      : random_shuffle_queue(capacity, min_after_dequeue, detail::placed_in(g, options)) {}
  template <class = void>
  explicit random_shuffle_queue(...) =
      delete;  // of two capacities; queue_options: name, shared_name, container, seed, device
};

/// A first-in, first-out queue that pads batches: if named extents of the elements differ, each element is padded with
/// 0 to the largest extents (tf.PaddingFIFOQueue). A padding_fifo_queue<tensor<float, dims<dyn<"length">, 8>>> yields
/// batches of [batch, length, 8]. In a step, the extents are the step's, and elements must fit into them.
template <class... Components>
class padding_fifo_queue : public basic_queue<detail::fifo_store, true, Components...> {
 public:
  explicit padding_fifo_queue(std::int64_t capacity = -1, const queue_options& options = {})
      : basic_queue<detail::fifo_store, true, Components...>({"padding_fifo_queue", capacity}, options) {}
  /// For a graph whose tasks share the queue: queue_options::device, or the current scopes, select the task that owns
  /// it.
  explicit padding_fifo_queue(const graph& g, std::int64_t capacity = -1, const queue_options& options = {})
      : padding_fifo_queue(capacity, detail::placed_in(g, options)) {}
  template <class = void>
  explicit padding_fifo_queue(...) =
      delete;  // of a capacity; queue_options: name, shared_name, container, seed, device
};

/// A queue that dequeues the element with the smallest priority (tf.PriorityQueue), and the oldest among equals. The
/// priority is its first component, a std::int64_t: priority_queue<std::int64_t, tensor<float, dims<784>>>.
template <class... Components>
class priority_queue : public basic_queue<detail::priority_store, false, Components...> {
  static_assert(correct<priority_is_not_an_int64<std::tuple_element_t<0, std::tuple<Components...>>>>,
                "priority_queue: the first component must be the priority, a std::int64_t");

 public:
  explicit priority_queue(std::int64_t capacity = -1, const queue_options& options = {})
      : basic_queue<detail::priority_store, false, Components...>({"priority_queue", capacity}, options) {}
  /// For a graph whose tasks share the queue: queue_options::device, or the current scopes, select the task that owns
  /// it.
  explicit priority_queue(const graph& g, std::int64_t capacity = -1, const queue_options& options = {})
      : priority_queue(capacity, detail::placed_in(g, options)) {}
  template <class = void>
  explicit priority_queue(...) = delete;  // of a capacity; queue_options: name, shared_name, container, seed, device
};

}  // namespace weft
