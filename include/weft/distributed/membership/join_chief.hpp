// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/distributed/membership/join_report.hpp>
#include <weft/distributed/membership/membership.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/error.hpp>
#include <weft/train/signals.hpp>

namespace weft::detail {

/// server::join() of a task that is not a parameter server: waits for the end of the chief or, in the chief, of all
/// tasks that it is connected to.
class chief_wait {
 public:
  explicit chief_wait(task_server& here) : here_(here), members_(here.members()), chief_(rank_of_chief(here)) {
    if (!is_chief()) here.connect_to(chief_);
    if (here.options().handle_signals) signals_.emplace();
  }

  join_report run(deadline arrival, deadline until) {
    await_arrival(arrival);
    for (std::size_t rank = 0; rank < members_.size(); ++rank)
      if (is_awaited(rank)) await_end(rank, until);
    return report_;
  }

 private:
  static constexpr std::chrono::milliseconds between_checks{100};

  static std::size_t rank_of_chief(const task_server& here) {
    const task_id chief{here.options().worker_job, 0};
    return here.cluster().has_task(chief) ? here.cluster().rank(chief) : 0;
  }
  bool is_chief() const { return chief_ == members_.self(); }
  bool is_awaited(std::size_t rank) const {
    return is_chief() ? rank != chief_ && members_.connects_to(rank) : rank == chief_;
  }

  /// Returns true if this task must no longer wait. After a signal, the wait continues for stop_patience, because the
  /// chief may need this task for its last steps.
  bool is_stopped() {
    if (here_.stopping()) return true;
    if (const auto why = here_.given_up()) {
      report_.interrupted = *why;
      here_.set_failure(*why);
      return true;
    }
    if (!signals_ || signals_->received() == 0) return false;
    report_.signal = signals_->received();
    if (!stop_at_) stop_at_.emplace(here_.options().stop_patience);
    if (!stop_at_->expired()) return false;
    here_.set_failure(error(error_code::cancelled, "join", {name_of_signal(report_.signal), " has stopped the task"}));
    return true;
  }

  void await_arrival(deadline until) {
    for (;;) try {
        // No step runs before the tasks have connected, so a signal ends this wait at once.
        if (is_stopped() || report_.signal != 0) return;
        const deadline slice(until.remaining(between_checks));
        members_.wait_for(
            slice, [&](const task_id& task) { return is_awaited(here_.cluster().rank(task)); },
            [](const task_id&) { return true; });
        return;
      } catch (const error& late) {
        if (late.code() == error_code::cancelled) return;
        if (late.code() != error_code::deadline_exceeded || until.expired()) throw;
      }
  }

  void await_end(std::size_t rank, deadline until) {
    const std::string name = to_string(members_.task(rank));
    const auto lost = [&](std::uint64_t incarnation) {
      report_.lost.push_back(str_cat({name, " ", members_.reason(rank, incarnation)}));
    };
    std::uint64_t awaited = members_.incarnation(rank);
    while (members_.state(rank) == task_state::alive && !is_stopped()) {
      if (until.expired()) throw error(error_code::deadline_exceeded, "join", {name, " is still running"});
      members_.await_verdict(rank, deadline(between_checks));
      const std::uint64_t now = members_.incarnation(rank);  // another process may have replaced it
      if (now != awaited && members_.state(rank, awaited) == task_state::lost) lost(awaited);
      awaited = now;
    }
    is_stopped();  // the chief may have closed the connection because it has declared this task lost
    if (members_.state(rank, awaited) == task_state::left) report_.finished.push_back(name);
    if (members_.state(rank, awaited) == task_state::lost) lost(awaited);
  }

  task_server& here_;
  membership& members_;
  std::size_t chief_;
  std::optional<stop_signals> signals_;
  std::optional<deadline> stop_at_;  // set by the first signal
  join_report report_;
};

}  // namespace weft::detail
