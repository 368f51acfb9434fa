// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/training/exchange.hpp>
#include <weft/distributed/training/replica_variables.hpp>
#include <weft/session/session.hpp>
#include <weft/transport/separate.hpp>

namespace weft {

template <class Strategy>
class replicated_session;

template <class Session, class Fetches, class Feeds>
class replicated_step;

namespace detail {

template <class X>
constexpr bool is_integer_scalar_node = false;
template <class X>
  requires is_node<X>
constexpr bool is_integer_scalar_node<X> =
    dims_t<X>::rank == 0 && (std::is_same_v<value_t<X>, std::int32_t> || std::is_same_v<value_t<X>, std::int64_t>);

/// A node whose value is the number of examples of a step.
struct example_count {
  value of{};
  bool is_wide = false;

  template <class Node>
  explicit example_count(const Node& n) : of(n.id()), is_wide(sizeof(value_t<Node>) == 8) {}
};

inline constexpr std::int64_t max_examples = 0xffffffff;

/// Returns the number of examples that the gradients of a step average. `leading`: the name of each feed's leading
/// extent, or 0. The result is that extent if all named ones have the same name. Otherwise it is 1, or 0 if all of them
/// are 0.
std::uint32_t examples_of(const std::int64_t* leading, const plan::fed_value* fed, std::size_t feeds);
template <class... P>
std::uint32_t examples_of(const plan::fed_value* fed) {
  constexpr std::int64_t leading[] = {(dims_t<P>::rank > 0 && dims_t<P>::spec[0] < 0 ? dims_t<P>::spec[0] : 0)..., 0};
  return examples_of(leading, fed, sizeof...(P));
}

/// Moves the training updates among `targets` to `updates`, and expands groups. Other nodes stay in `targets`.
void take_updates(const graph& g, sequence<std::uint32_t>& targets, std::vector<std::uint32_t>& updates);

#if WEFT_DISTRIBUTED_DEFINITIONS
WEFT_DISTRIBUTED_DECL std::uint32_t examples_of(const std::int64_t* leading, const plan::fed_value* fed,
                                                std::size_t feeds) {
  std::size_t found = feeds;
  bool same = true, empty = true;
  for (std::size_t i = 0; i < feeds; ++i) {
    if (leading[i] == 0) continue;
    if (found < feeds && leading[found] != leading[i]) same = false;
    empty = empty && fed[i].extents[0] == 0;
    found = i;
  }
  if (found == feeds) return 1;
  if (!same) return empty ? 0 : 1;
  return static_cast<std::uint32_t>(std::min(fed[found].extents[0], max_examples));
}

WEFT_DISTRIBUTED_DECL void take_updates(const graph& g, sequence<std::uint32_t>& targets,
                                        std::vector<std::uint32_t>& updates) {
  sequence<std::uint32_t> rest;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::uint32_t n = targets[i];
    if (is_operation<group_op>(g[n].def.op))
      targets.append(g[n].control.data(), g[n].control.size());
    else if (is_training_update(g, n) && kind_of(g[g[n].def.inputs[0].node].def) != variable_kind::slot)
      updates.push_back(n);
    else
      rest.push_back(n);
  }
  targets = rest;
}
#endif

}  // namespace detail

/// A prepared run on a replicated session; called like a `step`.
template <class Strategy, class... F, class... P>
class replicated_step<replicated_session<Strategy>, fetch_list<F...>, feed_list<P...>> {
  using session_type = replicated_session<Strategy>;

 public:
  replicated_step(session_type& owner, const fetch_list<F...>& fetches, const feed_list<P...>& feeds)
      : owner_(owner),
        local_(owner.local(), request(owner, fetches, feeds)),
        results_(fetches),
        results_of_others_(fetches) {}

  /// Runs the step and, if it trains, exchanges gradients. The last argument may be a deadline for the exchange:
  /// `step(x, y, 5s)`. Default: one minute.
  /// Throws the errors of a step; unavailable, which names the lost task; invalid_argument for gradients that are not
  /// finite; deadline_exceeded, which names the tasks that it waits for: then call exchange() to continue the same
  /// update. With parameter servers, values that were being received at the time of the error are unspecified until an
  /// exchange succeeds.
  template <class... X>
  auto operator()(const X&... x) {
    if constexpr (sizeof...(X) == sizeof...(P) + 1) {
      return call(std::index_sequence_for<P...>(), std::forward_as_tuple(x...));
    } else {
      using mistake = detail::call_mistake<feed_list<P...>, X...>;
      static_assert(correct<mistake>,
                    "a step takes a tensor, tensor_view(pointer, shape(...)) or number for each feed, then an optional "
                    "deadline; eval(x) computes a tensor from an expression");
      if constexpr (correct<mistake>) compute(x...);
      return exchange();
    }
  }

  /// The same, but a function of the replica returns the batch: a tuple with one value for each feed, or the value
  /// itself if there is one feed. The batch must depend only on the replica's index and step. With
  /// loss_action::take_over, steps that train must use run(): it calls the function for this worker, and for each lost
  /// worker whose gradients this worker computes.
  ///
  ///     step.run([&](replica r) { return std::tuple(images_of(r.index, r.step), labels_of(r.index, r.step)); }, 2min);
  ///
  /// After deadline_exceeded, call it again to continue the same update.
  template <class Batches>
  auto run(Batches&& batches, deadline until = std::chrono::seconds(60)) {
    if (!trains_ || !owner_.unfinished_) {
      // Every worker that computes this replica's gradients draws the same random numbers.
      if (trains_ && owner_.exchange_->takes_over()) owner_.local().set_step_number(owner_.next_step());
      compute_batch(batches(replica{owner_.here_.index(), owner_.next_step()}), true);
      own_examples_ = examples_;
    }
    if (!trains_) return results_.get();
    struct work_of_others {
      replicated_step& step;
      Batches& batches;
      static std::uint32_t compute(void* self, const replica& of) {
        auto& to = *static_cast<work_of_others*>(self);
        to.step.compute_batch(to.batches(of), false);
        return to.step.examples_;
      }
    } others{*this, batches};
    const detail::replica_work work{&others, work_of_others::compute};
    owner_.exchange(until, own_examples_, &work);
    return results_.get();
  }

  /// The first half of a call, for callers that time the halves or repeat the second.
  template <class... X>
  auto compute(const X&... x) {
    using mistake = detail::call_mistake<feed_list<P...>, X...>;
    static_assert(correct<mistake>,
                  "a step takes a tensor, tensor_view(pointer, shape(...)) or number for each feed, then an optional "
                  "deadline; eval(x) computes a tensor from an expression");
    if (trains_ && owner_.exchange_->takes_over())
      throw error(
          error_code::failed_precondition, "step",
          "with loss_action::take_over a worker computes the parts of lost workers and requires their batches; write "
          "step.run([&](replica r) { return std::tuple(images_of(r.index, r.step), labels_of(r.index, r.step)); "
          "}, 2min)");
    if (trains_ && owner_.unfinished_)
      throw error(
          error_code::failed_precondition, "step",
          "the last update ran out of time and has not completed; call exchange() until it has, then compute new "
          "gradients");
    if constexpr (correct<mistake>) {
      run_on(true, x...);
    }
    return results_.get();
  }
  /// The second half. Returns the fetched values. After deadline_exceeded, it can be called again: the update keeps its
  /// number, and takes effect once.
  auto exchange(deadline until = std::chrono::seconds(60)) {
    if (trains_) owner_.exchange(until, examples_);
    return results_.get();
  }

  /// Returns the values that the last compute() has fetched.
  auto fetched() const { return results_.get(); }

  std::string explain() const { return local_.explain(); }

 private:
  template <class... X>
  void run_on(bool fetches, const X&... x) {
    const plan::fed_value fed[] = {detail::as_fed(x)..., plan::fed_value{}};
    examples_ = detail::examples_of<P...>(fed);
    run_step(fed, fetches);
  }
  template <class Batch>
  void compute_batch(const Batch& batch, bool fetches) {
    if constexpr (requires { std::tuple_size<Batch>::value; }) {
      std::apply(
          [&](const auto&... x) {
            using mistake = detail::call_mistake<feed_list<P...>, std::remove_cvref_t<decltype(x)>...>;
            static_assert(
                correct<mistake>,
                "run: the function must return a std::tuple with a tensor, tensor_view or number for each feed");
            if constexpr (correct<mistake>) run_on(fetches, x...);
          },
          batch);
    } else {
      compute_batch(std::forward_as_tuple(batch), fetches);
    }
  }

  /// `fetches`: the results go to the caller; otherwise they are another replica's and are discarded.
  void run_step(const plan::fed_value* fed, bool fetches) {
    constexpr std::size_t own = detail::step_results<F...>::values;
    detail::exchange& exchange = *owner_.exchange_;
    const std::size_t parts = exchange.fetched_gradients();
    if (trains_) {
      exchange.set_effects(effects_);
      exchange.prepare_step();
    }
    detail::fetch_watcher* const watcher = trains_ && !count_ ? exchange.begin_step(examples_, own) : nullptr;
    const auto place = [&](std::size_t fetch, const shape& extents) -> void* {
      if (fetch >= own + parts) return count_ && fetch == own + parts ? static_cast<void*>(&counted_) : &is_used_;
      return fetch < own ? (fetches ? results_ : results_of_others_).place(fetch, extents)
                         : exchange.place_gradient(fetch - own, extents);
    };
    try {
      local_.run(fed, place, watcher);
      if (trains_ && count_) examples_ = counted_examples();
      if (!is_used_) examples_ = 0;
      if (trains_) exchange.take_gradients();
    } catch (...) {
      if (trains_) exchange.abandon_step();
      throw;
    }
  }

  /// The example count of the last step.
  std::uint32_t counted_examples() const {
    std::int64_t count = counted_;
    if (!count_->is_wide) {
      std::int32_t narrow;
      __builtin_memcpy(&narrow, &counted_, sizeof narrow);
      count = narrow;
    }
    if (count < 0)
      throw error(
          error_code::invalid_argument, "step",
          {"the example count must be at least 0; ", owner_.variables_.of()[count_->of.node].name, " is ", count});
    return static_cast<std::uint32_t>(std::min(count, detail::max_examples));
  }

  template <std::size_t... Index, class Given>
  auto call(std::index_sequence<Index...>, const Given& given) {
    static_assert(std::is_convertible_v<std::tuple_element_t<sizeof...(Index), Given>, deadline>,
                  "a step takes one value for each feed, then an optional deadline");
    const deadline until(std::get<sizeof...(Index)>(given));
    compute(std::get<Index>(given)...);
    return exchange(until);
  }

  plan::step_request request(session_type& owner, const fetch_list<F...>& fetches, const feed_list<P...>& feeds) {
    plan::step_request r = detail::request_of(fetches, feeds);
    std::vector<std::uint32_t> updates;
    detail::take_updates(owner.variables_.of(), r.targets, updates);
    trains_ = !updates.empty();
    if (!trains_) return r;
    take_effects(owner.variables_.effects(), r.targets);
    if (updates.size() != owner.variables_.trained())
      throw error(error_code::unimplemented, "replicated_session",
                  {"a step must train all shared variables or none; this one trains ", updates.size(), " of ",
                   owner.variables_.trained()});
    owner.exchange_->add_fetches(r);
    if (owner.example_count_) {
      count_ = owner.example_count_;
      r.fetches.push_back(count_->of);
    }
    if (const auto use = owner.exchange_->use_of_gradients()) r.fetches.push_back(*use);
    return r;
  }

  /// Moves assignments that run with the updates from `targets` to effects_.
  void take_effects(const sequence<std::uint32_t>& known, sequence<std::uint32_t>& targets) {
    sequence<std::uint32_t> rest;
    for (const std::uint32_t n : targets)
      (std::find(known.begin(), known.end(), n) != known.end() ? effects_ : rest).push_back(n);
    targets = rest;
  }

  session_type& owner_;
  bool trains_ = false;
  sequence<std::uint32_t> effects_;  // assignments of a step that trains, which run with the updates
  std::uint32_t examples_ = 1, own_examples_ = 1;
  std::optional<detail::example_count> count_;
  std::int64_t counted_ = 0;  // std::int64_t or, in its first bytes, std::int32_t
  bool is_used_ = true;       // exchange::use_of_gradients(), as of the last step
  prepared_step local_;
  detail::step_results<F...> results_, results_of_others_;
};

}  // namespace weft
