// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/distributed/cluster/server_options.hpp>
#include <weft/text.hpp>

namespace weft::detail {

/// The missing tasks of a wait. The names identify the wait: the reason for a missing task can change during the wait,
/// for example when another task reports the same loss.
struct awaited_tasks {
  std::string names;  ///< "/job:worker/task:1, /job:worker/task:2"
  std::string text;   ///< with reasons, for the report: "/job:worker/task:1 (it has closed its connection),
                      ///< /job:worker/task:2"

  bool empty() const { return names.empty(); }
  /// `why`: the reason that the task is missing; empty if unknown.
  void add(const task_id& task, const std::string& why) {
    const char* const separator = empty() ? "" : ", ";
    append(names, {separator, to_string(task)});
    append(text, {separator, to_string(task)});
    if (!why.empty()) append(text, {" (", why, ")"});
  }
  /// `how`: continues the name of a lost task, like membership::reason().
  void add_lost(const task_id& task, const std::string& how) { add(task, how.empty() ? how : str_cat({"it ", how})); }
};

/// Reports the waits of one task to server_options::on_wait or, if that is not set, to stderr: when a wait begins, when
/// the awaited tasks change, and when the wait ends. Thread-safe.
class wait_log {
 public:
  /// `name`: the task's name, for stderr.
  void set(std::string name, std::function<void(const wait_change&)> to) {
    name_ = std::move(name);
    to_ = std::move(to);
  }

  /// Reports that the task waits for `tasks`, unless the list is empty or equal to the last reported one.
  void begin(const awaited_tasks& tasks, std::chrono::milliseconds longest, bool trains);
  /// Ends the wait. `step`: the next step, or -1 before training. `with`: the tasks that continue training. Reports the
  /// end if the wait was reported or `always` is set.
  void end(std::int64_t step, const std::string& with = {}, bool always = false);
  bool has_begun() const {
    std::lock_guard lock(mutex_);
    return !tasks_.empty();
  }

 private:
  void report(const wait_change& change) const;

  mutable std::mutex mutex_;
  std::string name_;
  awaited_tasks tasks_;  // the tasks of the last report; empty if no wait is reported
  std::function<void(const wait_change&)> to_;
};

#if WEFT_DISTRIBUTED_DEFINITIONS
WEFT_DISTRIBUTED_DECL void wait_log::begin(const awaited_tasks& tasks, std::chrono::milliseconds longest, bool trains) {
  {
    std::lock_guard lock(mutex_);
    if (tasks.empty() || tasks_.names == tasks.names) return;
    tasks_ = tasks;
  }
  report({false, trains, tasks.text, longest, -1});
}

WEFT_DISTRIBUTED_DECL void wait_log::end(std::int64_t step, const std::string& with, bool always) {
  awaited_tasks tasks;
  {
    std::lock_guard lock(mutex_);
    if (tasks_.empty() && !always) return;
    std::swap(tasks, tasks_);
  }
  report({true, step >= 0, step >= 0 ? with : tasks.text, {}, step});
}

WEFT_DISTRIBUTED_DECL void wait_log::report(const wait_change& change) const {
  if (to_)
    to_(change);
  else
    std::fprintf(stderr, "weft: %s: %s\n", name_.c_str(), to_string(change).c_str());
}
#endif

/// Reports one wait, and its end, if the wait is longer than the usual differences between start times.
class start_report {
 public:
  static constexpr std::chrono::seconds quiet_time{3};

  /// `who`: the waiting task; `until`: the deadline of the wait.
  start_report(std::string who, std::function<void(const wait_change&)> to, deadline until)
      : longest_(std::chrono::ceil<std::chrono::seconds>(until.remaining(no_limit))) {
    log_.set(std::move(who), std::move(to));
  }
  start_report(const start_report&) = delete;
  start_report& operator=(const start_report&) = delete;

  /// `whom()`: returns the names of the missing tasks.
  template <class Whom>
  void look(Whom whom) {
    if (is_told_ || !quiet_.expired()) return;
    is_told_ = true;
    const std::string tasks = whom();
    log_.begin({tasks, tasks}, longest_ < no_limit ? longest_ : std::chrono::seconds(0), false);
  }
  void end() { log_.end(-1); }

 private:
  static constexpr std::chrono::hours no_limit{24};

  wait_log log_;
  std::chrono::seconds longest_;
  deadline quiet_ = quiet_time;
  bool is_told_ = false;
};

}  // namespace weft::detail
