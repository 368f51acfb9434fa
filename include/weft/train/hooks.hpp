// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <weft/session/trace.hpp>
#include <weft/train/run_hook.hpp>

/// Hooks of a supervised run (tf.train.StopAtStepHook and its kin). Each function returns a hook.
namespace weft {

/// An interval in steps, in time, or both. Steps count from the first step of training, not from the restored one: an
/// interval of 100 acts at 100, 200 and so on, so a run that restarts at 150 acts at 200, as without the restart.
struct every {
  std::int64_t steps = 0;            ///< 0: no interval in steps
  std::chrono::milliseconds time{};  ///< 0: no interval in time

  bool is_never() const { return steps <= 0 && time.count() <= 0; }
};

namespace detail {

/// Tracks whether `every` has passed since begin(): a multiple of its steps, or its time (tf.train.SecondOrStepTimer).
class interval {
 public:
  explicit interval(every each) : each_(each) {}

  void begin(std::int64_t step) {
    step_ = step;
    time_ = clock::now();
  }
  bool is_over(std::int64_t step) const {
    return (each_.steps > 0 && step / each_.steps > step_ / each_.steps) ||
           (each_.time.count() > 0 && clock::now() - time_ >= each_.time);
  }
  double steps_per_second(std::int64_t step) const {
    return static_cast<double>(step - step_) / std::chrono::duration<double>(clock::now() - time_).count();
  }

 private:
  using clock = std::chrono::steady_clock;

  every each_;
  std::int64_t step_ = 0;
  clock::time_point time_ = clock::now();
};

/// A hook that acts at intervals, after a training step.
class periodic_hook : public run_hook {
 public:
  explicit periodic_hook(every each) : interval_(each) {}
  void begin(run_control& run) final { interval_.begin(run.global_step()); }
  void after_step(run_control& run, const step_report& report) final {
    after_any_step(run);
    if (!report.trained() || !interval_.is_over(run.global_step())) return;
    speed_ = interval_.steps_per_second(run.global_step());
    interval_.begin(run.global_step());
    act(run, report);
  }

 protected:
  virtual void act(run_control&, const step_report&) = 0;
  virtual void after_any_step(run_control&) {}
  /// Steps per second since the hook last acted.
  double speed() const { return speed_; }

 private:
  interval interval_;
  double speed_ = 0;
};

/// The best measurement, and the number of measurements since it that were not better.
class best_measurement {
 public:
  best_measurement(double least_change, bool higher_is_better)
      : least_change_(least_change), sign_(higher_is_better ? 1 : -1) {}

  /// NaN and the worst infinity are never better.
  void note(double measured) {
    if (!(sign_ * measured > best_ + least_change_)) return static_cast<void>(++without_);
    best_ = sign_ * measured;
    without_ = 0;
  }
  double value() const { return sign_ * best_; }
  std::int64_t without() const { return without_; }
  void forgive() { without_ = 0; }

 private:
  double least_change_, sign_, best_ = -std::numeric_limits<double>::infinity();
  std::int64_t without_ = 0;
};

class stop_hook final : public run_hook {
 public:
  explicit stop_hook(std::int64_t last) : last_(last) {}
  void begin(run_control& run) override { check(run); }
  void after_step(run_control& run, const step_report&) override { check(run); }

 private:
  void check(run_control& run) const {
    if (run.global_step() >= last_) run.request_stop("step " + std::to_string(last_) + " is reached");
  }
  std::int64_t last_;
};

class call_hook final : public periodic_hook {
 public:
  call_hook(every each, std::function<void(run_control&, const step_report&)> what, bool at_end)
      : periodic_hook(each), what_(std::move(what)), at_end_(at_end) {}
  void end(run_control& run) override {
    if (!at_end_ || called_at_ == run.global_step()) return;
    const std::vector<step_report::scalar> none;
    what_(run, step_report(run.global_step(), none, false));
  }

 private:
  void act(run_control& run, const step_report& report) override {
    what_(run, report);
    called_at_ = run.global_step();
  }

  std::function<void(run_control&, const step_report&)> what_;
  bool at_end_;
  std::int64_t called_at_ = -1;
};

class save_hook final : public run_hook {
 public:
  explicit save_hook(std::function<void(run_control&)> what) : what_(std::move(what)) {}
  void before_save(run_control& run) override { what_(run); }

 private:
  std::function<void(run_control&)> what_;
};

class log_hook final : public periodic_hook {
 public:
  log_hook(every each, std::vector<std::pair<value, std::string>> watched, std::FILE* out)
      : periodic_hook(each), watched_(std::move(watched)), out_(out) {}
  std::vector<std::pair<value, std::string>> watched() const override { return watched_; }

 private:
  void act(run_control& run, const step_report& report) override {
    std::string line = "step " + std::to_string(run.global_step());
    for (const auto& [of, name] : watched_)
      if (const double* x = report.find(of)) line += ", " + name + " = " + format_number("%.*g", 6, *x);
    line += " (" + format_number("%.*f", 1, speed()) + " steps/s)";
    std::fprintf(out_, "%s\n", line.c_str());
    std::fflush(out_);
  }

  std::vector<std::pair<value, std::string>> watched_;
  std::FILE* out_;
};

class nan_hook final : public run_hook {
 public:
  nan_hook(value of, std::string name, bool throws) : of_(of), name_(std::move(name)), throws_(throws) {}
  std::vector<std::pair<value, std::string>> watched() const override { return {{of_, name_}}; }
  void after_step(run_control& run, const step_report& report) override {
    const double* const x = report.find(of_);
    if (!x || std::isfinite(*x)) return;
    const std::string what =
        name_ + " is " + (std::isnan(*x) ? "NaN" : "infinite") + " at step " + std::to_string(run.global_step());
    if (throws_)
      throw error(error_code::out_of_range, "nan_guard",
                  {what, ": lower the learning rate, clip the gradients, or check for log(0) and division by zero"});
    run.stop_without_saving(what);
  }

 private:
  value of_;
  std::string name_;
  bool throws_;
};

class early_stop_hook final : public periodic_hook {
 public:
  early_stop_hook(every each, std::function<double()> measure, std::int64_t patience, best_measurement best)
      : periodic_hook(each), measure_(std::move(measure)), patience_(patience), best_(best) {}

 private:
  void act(run_control& run, const step_report&) override {
    best_.note(measure_());
    if (best_.without() == 0 || best_.without() < patience_) return;
    run.request_stop("no improvement over " + format_number("%.*g", 6, best_.value()) + " in the last " +
                     std::to_string(best_.without()) + " measurements");
  }

  std::function<double()> measure_;
  std::int64_t patience_;
  best_measurement best_;
};

class plateau_hook final : public periodic_hook {
 public:
  plateau_hook(every each, std::function<double()> measure, std::function<bool()> reduce, std::int64_t patience,
               best_measurement best)
      : periodic_hook(each),
        measure_(std::move(measure)),
        reduce_(std::move(reduce)),
        patience_(patience),
        best_(best) {}

 private:
  void act(run_control&, const step_report&) override {
    best_.note(measure_());
    if (best_.without() > 0 && best_.without() > patience_ && reduce_()) best_.forgive();
  }

  std::function<double()> measure_;
  std::function<bool()> reduce_;
  std::int64_t patience_;
  best_measurement best_;
};

class profile_hook final : public periodic_hook {
 public:
  profile_hook(session& s, every each, std::string prefix)
      : periodic_hook(each), session_(s), prefix_(std::move(prefix)) {}
  void before_step(run_control&) override {
    if (due_) trace_.emplace(session_);
  }

 private:
  void after_any_step(run_control& run) override {
    if (!trace_) return;
    trace_->write(prefix_ + "-" + std::to_string(run.global_step()) + ".json");
    trace_.reset();
    due_ = false;
  }
  void act(run_control&, const step_report&) override { due_ = true; }

  session& session_;
  std::string prefix_;
  bool due_ = false;
  std::optional<trace> trace_;
};

}  // namespace detail

/// A hook, shared with the run.
using hook = std::shared_ptr<run_hook>;

/// Ends the run after `last` updates, including those before a restored checkpoint (tf.train.StopAtStepHook).
inline hook stop_at_step(std::int64_t last) { return std::make_shared<detail::stop_hook>(last); }

/// Calls `what` at intervals after a training step, for example to evaluate. With `at_end`, also calls it at the end of
/// the run, unless it was called after the last step.
inline hook call_every(every each, std::function<void(run_control&, const step_report&)> what, bool at_end = false) {
  return std::make_shared<detail::call_hook>(each, std::move(what), at_end);
}

/// Calls `what` before each checkpoint is written. Flushing event files there keeps them consistent with checkpoints: a
/// run that is killed and restored has all events up to its checkpoint.
///
///     before_each_save([&](run_control&) { log.flush(); })
inline hook before_each_save(std::function<void(run_control&)> what) {
  return std::make_shared<detail::save_hook>(std::move(what));
}

/// Prints a line at intervals: the step, the watched values with their names, and the speed since the last line
/// (tf.train.LoggingTensorHook and StepCounterHook).
///
///     log_every({.steps = 100}, {{loss.id(), "cost"}, {accuracy.id(), "accuracy"}})
inline hook log_every(every each, std::vector<std::pair<value, std::string>> watched, std::FILE* out = stderr) {
  return std::make_shared<detail::log_hook>(each, std::move(watched), out);
}

/// The action of nan_guard.
enum class on_nan : unsigned char { throws, stops };

/// Throws out_of_range or ends the run as soon as the node's value is not finite (tf.train.NanTensorHook). The run
/// writes no further checkpoint, so the latest one precedes that step.
template <class T>
hook nan_guard(const node<T>& watched, std::string name = "the loss", on_nan then = on_nan::throws) {
  return std::make_shared<detail::nan_hook>(watched.id(), std::move(name), then == on_nan::throws);
}

template <class...>
auto nan_guard(...) WEFT_DELETED;  // a scalar node, a name and what it does: nan_guard(loss, "cost", on_nan::stops)

/// Options of early_stop.
struct early_stop_options {
  std::int64_t patience = 5;  ///< measurements in a row without an improvement
  double least_change = 0;    ///< an improvement must exceed this change
  bool higher_is_better = false;
};

/// Ends the run when `measure`, for example a validation loss, has not improved for `patience` measurements
/// (tf.contrib.estimator.stop_if_no_decrease_hook). Calls `measure` at intervals. NaN is not an improvement.
inline hook early_stop(every each, std::function<double()> measure, early_stop_options options = {}) {
  return std::make_shared<detail::early_stop_hook>(
      each, std::move(measure), options.patience,
      detail::best_measurement(options.least_change, options.higher_is_better));
}

/// Options of reduce_on_plateau.
struct plateau_options {
  double factor = 0.1;         ///< factor of each reduction
  std::int64_t patience = 10;  ///< measurements in a row without an improvement that are tolerated
  double least_change = 0;     ///< an improvement must exceed this change
  double least_rate = 0;       ///< lower bound of the rate
  bool higher_is_better = false;
};

/// Lowers a learning rate when `measure` has not improved for more than `patience` measurements in a row
/// (torch.optim.lr_scheduler.ReduceLROnPlateau with an absolute threshold). The rate is an untrained variable, so
/// checkpoints contain it.
///
///     auto rate = variable<float>(g, "learning_rate", 0.1f, variable_kind::local);
///     auto train = adam{.learning_rate = rate}.minimize(loss);
///     ... {reduce_on_plateau({.steps = 100}, [&] { return validation_loss(); }, s, rate)}
template <class T, class Dev>
hook reduce_on_plateau(every each, std::function<double()> measure, session& s,
                       const variable_node<T, dims<>, Dev>& rate, plateau_options options = {}) {
  const auto reduce = [&s, rate, options] {
    const double now = static_cast<double>(s.get(rate)), next = std::max(now * options.factor, options.least_rate);
    if (next >= now) return false;
    s.set(rate, static_cast<T>(next));
    return true;
  };
  return std::make_shared<detail::plateau_hook>(
      each, std::move(measure), reduce, options.patience,
      detail::best_measurement(options.least_change, options.higher_is_better));
}

/// Records one step's kernels at intervals, and writes them to `prefix-<step>.json` for chrome://tracing
/// (tf.train.ProfilerHook). For a replicated session, pass its local().
inline hook profile_every(session& s, every each, std::string prefix) {
  return std::make_shared<detail::profile_hook>(s, each, std::move(prefix));
}

}  // namespace weft
