// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdio>
#include <string>
#include <utility>

#include <weft/plan/bind.hpp>
#include <weft/plan/binding_cache.hpp>
#include <weft/plan/report.hpp>
#include <weft/session/executor.hpp>
#include <weft/session/fetch_watcher.hpp>
#include <weft/session/session_resources.hpp>
#include <weft/tensor/owned.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// A prepared step: the compiled program, and a binding for each set of extents. Running a bound step allocates no
/// memory.
class step_plan {
 public:
  step_plan(const session_resources& s, const graph& g, plan::step_request request)
      : s_(s), step_(s, g, std::move(request)) {
    if (g.find_untrained_copies()) report_untrained_copies();
  }
  step_plan(const step_plan&) = delete;
  step_plan& operator=(const step_plan&) = delete;

  /// Returns the binding for the fed values; creates it if necessary.
  plan::binding& bind(const plan::fed_value* fed);

  void run(plan::binding& b, step_times* times, fetch_watcher* watcher) {
    check_initialized();
    const change_report at_end{step_};
    const run_end after_all{*this, b};
    if (step_.tasks)
      run_task(b, times);
    else if (step_.gpus)
      step_.gpus->run(*step_.made, b, *s_.pools[0], times);
    else if (watcher && step_.made->lanes.size() == 1)
      run_watched(b, times, *watcher);
    else
      executor_->run(b, s_, times);
    if (has_effects_) note_effects();
    kernels_alone_ = !step_.gpus && !step_.tasks && !has_effects_;
  }
  /// Returns true if running the step means nothing more than running kernels on CPUs.
  bool runs_kernels_alone() const;
  void run_kernels(const plan::binding& b);

  void report(const step_times& times, step_observer& to) const {
    const plan::program& p = *step_.made;
    for (std::size_t i = 0; i < times.of.size(); ++i)
      if (times.of[i].ended) {
        const plan::instruction& in = p.instructions[i];
        to.kernel_ran(p.lane_name(in), p.name(in), current_->kernels[i]->describe(), times.of[i].began,
                      times.of[i].ended);
      }
    to.step_ended();
  }

  const plan::step_request& request() const { return step_.made->request; }
  /// Returns true if the step writes variables that sessions can share: all except local ones.
  bool writes_shared() const noexcept;
  const weft::graph& graph() const { return step_.made->g; }

  // ---- for tests and `explain` ----

  std::size_t kernels() const { return step_.made->instructions.size(); }
  std::size_t bindings() const { return bindings_.size(); }
  std::size_t arena_bytes() const { return plan::arena_bytes(*current_); }
  const plan::binding* current() const { return current_; }
  std::string describe() const {
    return plan::describe(step_, current_, bindings_.size()) + find_untrained_copies(false);
  }
  std::string placement_log() const { return plan::placement_log(*step_.made, s_.place); }

 private:
  /// Reports the variables that a step has written, even if the step throws.
  struct change_report {
    const plan::compiled_step& of;
    ~change_report() { of.report_changes(); }
  };
  /// Notifies the kernels of `ordered` operations at the end of a run, even if the step throws.
  struct run_end {
    const step_plan& of;
    const plan::binding& b;
    ~run_end() {
      for (const std::uint32_t i : of.ordered_) b.kernels[i]->end_run();
    }
  };

  plan::binding& choose_binding(const plan::fed_value* fed);
  void check_initialized();
  void note_effects();
  void run_watched(const plan::binding& b, step_times* times, fetch_watcher& watcher);
  void run_task(plan::binding& b, step_times* times);
  void find_last_uses();
  std::string find_untrained_copies(bool only_new) const;
  void report_untrained_copies() const;

  const session_resources& s_;
  plan::compiled_step step_;
  owned<cpu_executor> executor_;
  bool checked_ = false, kernels_alone_ = false;
  bool has_effects_ = true;  // on session state: initialized variables, random position
  /// The last instruction that accesses a fetched value in the caller's memory, in execution order.
  struct last_use {
    std::uint32_t instruction;
    std::size_t fetch;
  };
  static constexpr std::size_t none_fetched = ~std::size_t{0};
  sequence<last_use> last_uses_;
  sequence<std::uint32_t> ordered_;  // instructions
  plan::binding_cache bindings_;     // declared after step_: must be destroyed before it
  plan::binding* current_ = nullptr;
};

WEFT_COLD_END

// Optimized for speed: every step runs this code.
inline plan::binding& step_plan::bind(const plan::fed_value* fed) {
  return current_ && current_->is_for(fed) ? *current_ : choose_binding(fed);
}
inline bool step_plan::runs_kernels_alone() const { return kernels_alone_; }
inline void step_plan::run_kernels(const plan::binding& b) {
  const change_report at_end{step_};
  const run_end after_all{*this, b};
  executor_->run(b, s_, nullptr);
}

WEFT_COLD_BEGIN

#if WEFT_DEFINITIONS

WEFT_DECL plan::binding& step_plan::choose_binding(const plan::fed_value* fed) {
  const std::uint64_t hash = plan::binding_cache::hash_of(fed, request().feeds.size());
  const plan::binding* const before = std::exchange(current_, nullptr);  // stays null if bind throws
  plan::binding* b = bindings_.find(fed, hash);
  if (!b) {
    auto made = plan::bind(step_, fed, s_.extents, before ? before : bindings_.newest());
    if (!executor_) {
      executor_ = owned(new cpu_executor(*step_.made));
      const plan::program& p = *step_.made;
      for (std::uint32_t i = 0; i < p.instructions.size(); ++i)
        if (p.instructions[i].kind == plan::instruction_kind::compute && p.op(p.instructions[i].node).ordered)
          ordered_.push_back(i);
    }
    made->hash = hash;
    b = made.get();
    bindings_.add(static_cast<owned<plan::binding>&&>(made));
  }
  step_.arenas.refresh(*step_.made, s_, step_.gpus.get(), *b);
  current_ = b;
  return *b;
}

WEFT_DECL std::string step_plan::find_untrained_copies(bool only_new) const {
  const plan::program& p = *step_.made;
  if (!p.g.find_untrained_copies()) return {};
  sequence<std::uint32_t> read;
  for (std::uint32_t n = 0; n < p.nodes.size(); ++n)
    if (is_operation<variable_op>(p.def(n).op)) read.push_back(p.nodes[n].number);
  return p.g.find_untrained_copies()(p.g, read, only_new);
}
WEFT_DECL void step_plan::report_untrained_copies() const {
  const std::string found = find_untrained_copies(true);
  if (!found.empty()) std::fprintf(stderr, "weft: %s", found.c_str());
}

WEFT_DECL bool step_plan::writes_shared() const noexcept {
  const plan::program& p = *step_.made;
  for (std::uint32_t n = 0; n < p.running; ++n)
    if (p.def(n).op->writes) {
      value to = p.def(n).inputs[0];
      while (p.g[to.node].def.op->alias) to = p.g[to.node].def.inputs[0];
      if (kind_of(p.g[to.node].def) != variable_kind::local) return true;
    }
  return false;
}

/// Throws failed_precondition, with a list, if the step reads variables that have no value.
WEFT_DECL void step_plan::check_initialized() {
  if (checked_) return;
  const plan::program& p = *step_.made;
  sequence<std::uint32_t> missing;
  const auto check = [&](value v) {
    const std::uint32_t n = p.variable_behind(v);
    if (n == plan::none || p.nodes[n].on.task != p.self || s_.variables[p.nodes[n].number].initialized) return;
    for (const std::uint32_t known : missing)
      if (known == n) return;
    missing.push_back(n);
  };
  for (std::uint32_t n = 0; n < p.running; ++n)
    for (std::size_t i = 0; i < p.def(n).inputs.size(); ++i)
      if (plan::program::reads(p.def(n), i)) check(p.def(n).inputs[i]);
  for (const value& v : p.request.fetches) check(v);
  checked_ = missing.empty();
  if (checked_) return;
  constexpr std::size_t most = 100;
  std::string others;
  for (std::size_t k = 1; k < missing.size() && k < most; ++k) append(others, {k == 1 ? "" : ", ", p.name(missing[k])});
  if (missing.size() > most) append(others, {" and ", missing.size() - most, " more"});
  throw error(error_code::failed_precondition, p.name(missing[0]),
              {"the variable is read but has no value", others.empty() ? "" : ", and neither have ", others,
               ": give it an initializer, assign it first, or call initialize()"});
}

WEFT_DECL void step_plan::run_watched(const plan::binding& b, step_times* times, fetch_watcher& watcher) {
  if (last_uses_.empty()) find_last_uses();
  std::uint32_t next = 0;
  for (const last_use& each : last_uses_) {
    if (each.instruction >= next) {
      executor_->run_in_order(b, *s_.pools[0], times, next, each.instruction + 1);
      next = each.instruction + 1;
    }
    watcher.ready(each.fetch);
  }
  executor_->run_in_order(b, *s_.pools[0], times, next, static_cast<std::uint32_t>(b.kernels.size()));
}

/// Runs this task's part of a step that involves other tasks.
WEFT_DECL void step_plan::run_task(plan::binding& b, step_times* times) {
  struct part {
    step_plan& of;
    plan::binding& b;
    step_times* times;
  } own{*this, b, times};
  step_.tasks->run(*step_.made, b, s_.random.position, &own, [](void* p) {
    const part& to_run = *static_cast<part*>(p);
    step_plan& of = to_run.of;
    if (of.step_.gpus)
      of.step_.gpus->run(*of.step_.made, to_run.b, *of.s_.pools[0], to_run.times);
    else
      of.executor_->run(to_run.b, of.s_, to_run.times);
  });
}

WEFT_DECL void step_plan::find_last_uses() {
  const plan::program& p = *step_.made;
  sequence<std::size_t> fetched_as(p.buffers.size(), none_fetched);
  for (std::size_t f = 0; f < p.fetch_buffers.size(); ++f)
    if (p.buffers[p.fetch_buffers[f]].kind == plan::buffer_kind::caller) fetched_as[p.fetch_buffers[f]] = f;
  const auto look = [&](std::uint32_t i, const sequence<std::uint32_t>& used) {
    for (const std::uint32_t b : used) {
      if (fetched_as[b] == none_fetched) continue;
      last_uses_.push_back({i, fetched_as[b]});
      fetched_as[b] = none_fetched;
    }
  };
  for (auto i = static_cast<std::uint32_t>(p.instructions.size()); i-- > 0;) {
    look(i, p.instructions[i].reads);
    look(i, p.instructions[i].writes);
  }
  for (std::size_t k = 0; k < last_uses_.size() / 2; ++k)
    std::swap(last_uses_[k], last_uses_[last_uses_.size() - 1 - k]);
}

/// After a completed step: marks written variables as initialized and advances the random position.
WEFT_DECL void step_plan::note_effects() {
  plan::program& p = *step_.made;
  for (const std::uint32_t v : p.written_variables) s_.variables[v].initialized = true;
  p.written_variables.clear();
  has_effects_ = !p.positions.empty();
  if (has_effects_) ++s_.random.position;
}

#endif

}  // namespace weft::detail

WEFT_COLD_END
