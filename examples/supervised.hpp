// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <weft/data/dataset.hpp>
#include <weft/train/progress.hpp>
#include <weft/train/supervised_session.hpp>

#include "checkpoints.hpp"
#include "event_log.hpp"
#include "result_file.hpp"
#include "training_flags.hpp"

/// After each step its cost is checked and shown, and the position in the data goes on: before a checkpoint is written.
class follow_hook final : public weft::run_hook {
 public:
  follow_hook(weft::value cost, run_position& at, std::int64_t batches, double rate, weft::progress_options shown)
      : cost_(cost), at_(at), batches_(batches), rate_(rate), options_(shown) {}

  // A run handles signals before its progress is shown.
  void begin(weft::run_control&) override { shown_.emplace(options_); }
  void after_step(weft::run_control& run, const weft::step_report& step) override {
    if (!step.trained()) return;
    at_.cost = *step.find(cost_);
    if (++at_.batch == batches_) ++at_.epoch, at_.batch = 0;
    shown_->update(std::min(step.global_step(), options_.steps), at_.cost);
    check_cost(at_.cost, run.global_step(), rate_);
  }
  void end(weft::run_control&) override { shown_->finish(); }
  std::vector<std::pair<weft::value, std::string>> watched() const override { return {{cost_, "the cost"}}; }

 private:
  weft::value cost_;
  run_position& at_;
  std::int64_t batches_;
  double rate_;
  weft::progress_options options_;
  std::optional<weft::progress> shown_;
};

/// The hook that logs a run: its cost and rate, and each epoch `accuracy(step)` and the weights.
template <class Accuracy>
weft::hook log_hook(event_log& log, weft::session& s, const training& train, double rate, weft::value cost,
                    std::int64_t steps_per_epoch, Accuracy accuracy) {
  const std::int64_t each = steps_per_epoch < 100 ? 1 : steps_per_epoch / 100;
  return weft::call_every({.steps = each}, [=, &log, &s](weft::run_control& run, const weft::step_report& step) {
    const std::int64_t made = run.global_step();
    log.scalar("cost", *step.find(cost), made);
    log.scalar("learning_rate", train.rate ? s.eval(*train.rate) : rate, made);
    if (made % steps_per_epoch >= each) return;
    log.scalar("test/accuracy", accuracy(made), made);
    log.weights(s, made);
  });
}

/// Refuses to go on from a position that these data do not have: `batches` of them make an epoch.
inline void check_position(const run_position& at, std::int64_t batches) {
  if (at.batch >= 0 && at.batch < batches && at.epoch >= 0) return;
  refuse("the checkpoint continues from batch " + std::to_string(at.batch) + " of epoch " + std::to_string(at.epoch) +
         ", but an epoch has " + std::to_string(batches) +
         " batches, counted from 0: use the images that the run began with, or another --checkpoint_dir");
}

/// Logs some of the images of 28 x 28 that a run learns from.
template <class Images>
void log_images(event_log& log, const Images& images, std::int64_t step) {
  const auto some = std::get<0>(*images.batches(3).begin());
  log.images("images", some.data(), weft::shape(some.extent(0), 28, 28, 1), step);
}

/// Makes a run's steps until it is to end, a shuffled epoch after the other, from `at` on: `step(x, y)` makes one.
/// `batches` are those of this process.
template <class Run, class Batches, class Step>
void make_steps(Run& run, const run_position& at, const Batches& batches, Step&& step) {
  while (!run.should_stop()) {
    const auto epoch = static_cast<std::uint64_t>(at.epoch), batch = static_cast<std::uint64_t>(at.batch);
    for (const auto& [x, y] : batches.from({epoch, batch})) {
      if (run.should_stop()) break;
      step(x, y);
    }
  }
}

/// Says from where a run goes on, or that --resume has found nothing to go on from.
template <class Run>
void tell_resumed(const Run& run, const training_flags& f) {
  if (run.restored_step() >= 0)
    std::fprintf(stderr, "continues from step %lld, in %s\n", static_cast<long long>(run.restored_step()),
                 f.checkpoint_dir.c_str());
  else if (f.resume)
    std::fprintf(stderr, "--resume: %s has no checkpoint, so training begins at step 0\n", f.checkpoint_dir.c_str());
}

/// Says what a later run goes on from, in the process that has saved it.
template <class Run>
void tell_saved(const Run& run, const training_flags& f) {
  if (run.saved_step() >= 0)
    std::fprintf(stderr, "stopped at step %lld; --resume continues from it, in %s\n",
                 static_cast<long long>(run.saved_step()), f.checkpoint_dir.c_str());
}

/// Ends the program after a run that a signal has ended, which is closed.
template <class Run>
void end_by_signal(const Run& run, const training_flags& f, event_log& log) {
  if (run.signal() == 0) return;
  log.close();
  tell_saved(run, f);
  end_by_signal(run.signal());
}
