// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <weft/session/fetch.hpp>
#include <weft/session/fetch_watcher.hpp>
#include <weft/tensor/intrusive_ptr.hpp>
#include <weft/tensor/owned.hpp>
#include <weft/tensor/sequence.hpp>
#if WEFT_DEFINITIONS
  #include <cstdio>

  #include <weft/session/step_plan.hpp>
#endif

namespace weft {

class session;
namespace plan {
struct binding;
}
namespace detail {
class step_plan;
struct session_resources;
}  // namespace detail

/// A prepared run: call it with the fed values to get the fetched ones. `auto` deduces the type that `prepare` returns,
/// step<fetch_list<...>, feed_list<...>>; step<R(A...)> names only the results and feeds.
template <class...>
class step;

/// An untyped prepared run. Throws failed_precondition if it is called after its session has ended. For internals, see
/// session/step_plan.hpp.
class prepared_step {
 public:
  prepared_step(session& s, plan::step_request request);
  prepared_step(prepared_step&&) noexcept;
  prepared_step& operator=(prepared_step&&) noexcept;
  ~prepared_step();

  /// Runs with the given values. Fetched value i is written to the memory that `place(i, extents)` returns; null
  /// discards it. `watcher`, if not null, is notified of values that are final before the end.
  template <class Place>
  void run(const plan::fed_value* fed, Place place, detail::fetch_watcher* watcher = nullptr) {
    run(fed,
        {&place, [](void* to, std::size_t i, const shape& e) -> void* { return (*static_cast<Place*>(to))(i, e); }},
        watcher);
  }

  std::string explain() const;
  /// Describes the fetches, effects and feeds in one line (session/print.hpp).
  std::string summary() const;
  const detail::step_plan& plan() const { return *plan_; }
  const plan::step_request& request() const;

 private:
  struct placing {
    void* object;
    void* (*place)(void* object, std::size_t fetch, const shape& extents);
  };

  [[noreturn]] static void refuse_moved();
  void run(const plan::fed_value* fed, placing, detail::fetch_watcher*);
  void execute(plan::binding&, detail::fetch_watcher*);
  void execute_observed(plan::binding&, detail::fetch_watcher*);

  detail::intrusive_ptr<detail::ref_counted> owner_;  // owns what the plan uses, also after the session has ended
  const detail::session_resources* session_;
  owned<detail::step_plan> plan_;
  std::uint32_t refused_by_;  // bits of the session's status that prevent runs
  bool logged_ = false;
};

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

/// The destination of a fetched value. `parts` is the number of its nodes.
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

/// A fetched tensor, and tensors with other extents from earlier calls, so that alternating extents allocate no memory.
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

/// The destination of a value that is fetched in parts: one slot for each part.
template <class F, class Parts>
class parts_slot;
template <class F, class... P>
class parts_slot<F, std::tuple<P...>> {
 public:
  static constexpr std::size_t parts = sizeof...(P);

  void remember(const F& fetched) { fetched_ = owned(new F(fetched)); }

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
    return std::apply([this](const auto&... slot) { return fetched_->from_parts(slot.get()...); }, slots_);
  }

 private:
  owned<F> fetched_;
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

/// The destinations of a step's typed values. The storage of a tensor is kept: the next call reuses it if the caller no
/// longer does.
template <class... F>
class step_results {
 public:
  static constexpr std::size_t values = (slot_of_fetched<F>::type::parts + ... + 0);

  explicit step_results(const fetch_list<F...>& fetches) {
    if constexpr ((FetchedInParts<F> || ...)) remember(fetches.fetched, std::index_sequence_for<F...>());
  }

  /// Returns the memory for the fetched value with this number.
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
  template <std::size_t... Index>
  void remember(const std::tuple<F...>& fetched, std::index_sequence<Index...>) {
    const auto one = [](auto& slot, const auto& f) {
      if constexpr (FetchedInParts<std::remove_cvref_t<decltype(f)>>) slot.remember(f);
    };
    (one(std::get<Index>(slots_), std::get<Index>(fetched)), ...);
  }

  std::tuple<typename slot_of_fetched<F>::type...> slots_;
};

}  // namespace detail

/// A prepared run with the types of its fetches and feeds, as returned by `prepare`.
template <class... F, class... P>
class step<fetch_list<F...>, feed_list<P...>> {
 public:
  step(session& s, const fetch_list<F...>& fetches, const feed_list<P...>& feeds)
      : prepared_(s, detail::request_of(fetches, feeds)), results_(fetches) {}
  step(step&&) = default;
  step& operator=(step&&) = default;
  step(const step&) = delete;  // a step owns the buffers of its runs: move it, or prepare another

  /// Runs the step. Returns one fetched value by itself, and several as a tuple. Throws invalid_argument if the extents
  /// of the fed values disagree, and any error of a kernel.
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
  // Overload for values in braces, which have no type.
  template <class T = float>
  auto operator()(detail::braces, detail::anything = {}, detail::anything = {}) {
    static_assert(correct<fed_value_is_not_a_tensor<std::initializer_list<T>>>,
                  "a step: pass values in braces as a tensor: step(tensor<T, dims<...>>{...})");
    return results_.get();
  }

  /// Describes the kernels, memory and placement for the extents of the last run.
  std::string explain() const { return prepared_.explain(); }
  /// Describes the fetches, effects and feeds in one line.
  std::string summary() const { return prepared_.summary(); }
  prepared_step& prepared() { return prepared_; }

 private:
  prepared_step prepared_;
  detail::step_results<F...> results_;
};

namespace detail {

/// A prepared step that copies of step<R(A...)> share.
struct shared_step : ref_counted {
  virtual std::string explain() const = 0;
  virtual std::string summary() const = 0;
};

template <class Prepared>
struct shared_step_of final : shared_step {
  explicit shared_step_of(Prepared&& from) : prepared(static_cast<Prepared&&>(from)) {}
  std::string explain() const override { return prepared.explain(); }
  std::string summary() const override {
    if constexpr (requires { prepared.summary(); })
      return prepared.summary();
    else
      return "step of a supervised or replicated session";
  }
  Prepared prepared;
};

[[noreturn]] void refuse_empty_step();

template <class X>
auto without_nothing(const X& x) {
  if constexpr (std::is_same_v<X, nothing>)
    return std::tuple<>();
  else
    return std::tuple<X>(x);
}
// The results of a step without those of effects: nothing, a single value, or a tuple.
template <class... X>
auto without_effects(const std::tuple<X...>& results) {
  return std::apply([](const auto&... x) { return std::tuple_cat(without_nothing(x)...); }, results);
}
template <class X>
auto without_effects(const X& result) {
  return without_nothing(result);
}

template <class R, class Results>
R results_as(Results&& results) {
  if constexpr (std::is_void_v<R> || std::is_same_v<R, Results>) {
    return static_cast<R>(static_cast<Results&&>(results));
  } else {
    auto rest = without_effects(results);
    if constexpr (std::is_same_v<R, decltype(rest)>)
      return rest;
    else if constexpr (std::is_same_v<std::tuple<R>, decltype(rest)>)
      return std::get<0>(rest);
    else
      __builtin_unreachable();
  }
}
template <class R, class Results>
inline constexpr bool are_results_of = [] {
  using rest = decltype(without_effects(std::declval<const Results&>()));
  return std::is_void_v<R> || std::is_same_v<R, Results> || std::is_same_v<R, rest> ||
         std::is_same_v<std::tuple<R>, rest>;
}();

}  // namespace detail

/// step<R(A...)> takes ownership of a prepared step: `train = s.prepare(...)`, or `train = std::move(step)`.
template <class Prepared>
struct step_is_not_moved : mistake<std::is_lvalue_reference_v<Prepared>> {};

/// R in step<R(A...)> must match the results of the prepared step.
template <class Results, class R>
struct step_results_differ : mistake<!detail::are_results_of<R, Results>> {};

/// A prepared step whose type names only results and feeds, so that a class can have it as a member:
///
///     step<float(tensor<float, dims<dyn<"batch">, 784>>, tensor<std::int32_t, dims<dyn<"batch">>>)> train;
///     train = s.prepare(fetch(loss, minimize), feed(images, labels));
///
/// The results are those of the prepared step, in a tuple if there are several, with or without the `nothing` of
/// effects; void discards them. The feeds are tensors, tensor_views or numbers. Steps of supervised and replicated
/// sessions can also be assigned, but must not outlive these sessions. Empty until assigned. Copies share the prepared
/// step and its buffers, so only one thread at a time may call it or any copy.
template <class R, class... A>
class step<R(A...)> {
 public:
  step() = default;
  template <class Prepared>
    requires(!std::is_same_v<std::remove_cvref_t<Prepared>, step> &&
             requires(const std::remove_cvref_t<Prepared>& p) { p.explain(); })
  step(Prepared&& prepared) {
    static_assert(correct<step_is_not_moved<Prepared>>,
                  "step<R(A...)>: takes ownership of the result of prepare(): write std::move(step) if it has a name");
    if constexpr (correct<step_is_not_moved<Prepared>>) {
      using results = decltype(prepared(std::declval<const std::remove_cvref_t<A>&>()...));
      static_assert(correct<step_results_differ<results, R>>,
                    "step<R(A...)>: R must be the fetched value, a std::tuple of several, or void");
      if constexpr (correct<step_results_differ<results, R>>) {
        using shared = detail::shared_step_of<Prepared>;
        shared_ = detail::intrusive_ptr<detail::shared_step>(new shared(static_cast<Prepared&&>(prepared)));
        call_ = [](detail::shared_step& s, const std::remove_cvref_t<A>&... x) -> R {
          return detail::results_as<R>(static_cast<shared&>(s).prepared(x...));
        };
      }
    }
  }

  /// Runs the step. Throws failed_precondition if the step is empty, and all errors of the prepared step.
  R operator()(const std::remove_cvref_t<A>&... x) const {
    if (!shared_) [[unlikely]]
      detail::refuse_empty_step();
    return call_(*shared_, x...);
  }

  bool empty() const { return !shared_; }
  explicit operator bool() const { return !empty(); }
  std::string explain() const { return empty() ? "an empty step" : shared_->explain(); }
  std::string summary() const { return empty() ? "step, empty" : shared_->summary(); }

 private:
  R (*call_)(detail::shared_step&, const std::remove_cvref_t<A>&...) = nullptr;
  detail::intrusive_ptr<detail::shared_step> shared_;
};

/// Describes a step: its kernels in order, fused regions, memory and placement.
template <class... Of>
std::string explain(const step<Of...>& s) {
  return s.explain();
}

#if WEFT_DEFINITIONS

WEFT_COLD_BEGIN

WEFT_DECL prepared_step::prepared_step(prepared_step&&) noexcept = default;
WEFT_DECL prepared_step& prepared_step::operator=(prepared_step&& other) noexcept {
  plan_ = {};  // before owner_, which owns memory that the plan uses
  owner_ = static_cast<detail::intrusive_ptr<detail::ref_counted>&&>(other.owner_);
  session_ = other.session_;
  refused_by_ = other.refused_by_;
  plan_ = static_cast<owned<detail::step_plan>&&>(other.plan_);
  logged_ = other.logged_;
  return *this;
}
WEFT_DECL prepared_step::~prepared_step() = default;
WEFT_DECL std::string prepared_step::explain() const {
  return plan_ ? plan_->describe() : "a step that was moved from";
}
WEFT_DECL const plan::step_request& prepared_step::request() const {
  if (!plan_) refuse_moved();
  return plan_->request();
}

WEFT_DECL void detail::refuse_empty_step() {
  throw error(error_code::failed_precondition, "step",
              "is empty: assign the result of prepare(fetch(...), feed(...)) before calling it");
}
WEFT_DECL void prepared_step::refuse_moved() {
  throw error(error_code::failed_precondition, "step", "has been moved from: call the step that it was moved to");
}
WEFT_DECL void prepared_step::execute_observed(plan::binding& b, detail::fetch_watcher* watcher) {
  if (session_->log_device_placement && !logged_) std::fputs(plan_->placement_log().c_str(), stderr), logged_ = true;
  step_observer* const observer = session_->observer;
  if (!observer) return plan_->run(b, nullptr, watcher);
  detail::step_times times;
  times.of.resize(plan_->kernels());
  plan_->run(b, &times, watcher);
  plan_->report(times, *observer);
}

WEFT_COLD_END

// Optimized for speed: every step runs this code.

WEFT_DECL void prepared_step::execute(plan::binding& b, detail::fetch_watcher* watcher) {
  if (plan_->runs_kernels_alone() && !session_->observer && !watcher)
    plan_->run_kernels(b);
  else
    execute_observed(b, watcher);
}

WEFT_DECL void prepared_step::run(const plan::fed_value* fed, placing p, detail::fetch_watcher* watcher) {
  if (!plan_) [[unlikely]]
    refuse_moved();
  // Acquire: the readers of shared variables may have ended on other threads.
  if (__atomic_load_n(&session_->status, __ATOMIC_ACQUIRE) & refused_by_) [[unlikely]]
    session_->refuse_step();
  plan::binding& b = plan_->bind(fed);
  b.feed(fed);
  for (std::size_t i = 0; i < b.fetched.size(); ++i)
    if (const plan::binding::fetched_operand& f = b.fetched[i]; f.to_caller)
      b.addresses[f.buffer] = static_cast<std::byte*>(p.place(p.object, i, f.extents));
  execute(b, watcher);
  for (std::size_t i = 0; i < b.fetched.size(); ++i)
    if (const plan::binding::fetched_operand& f = b.fetched[i]; !f.to_caller)
      if (void* to = p.place(p.object, i, f.extents)) __builtin_memcpy(to, b.addresses[f.buffer], f.bytes);
}

#endif

}  // namespace weft
