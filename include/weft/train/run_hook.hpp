// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <weft/error.hpp>
#include <weft/ops/node.hpp>
#include <weft/tensor/dtype.hpp>

namespace weft {

/// The scalar values that a step of a supervised run has fetched, for hooks.
class step_report {
 public:
  /// A fetched node and its value.
  struct scalar {
    value of;
    double number;
  };

  step_report(std::int64_t global_step, const std::vector<scalar>& scalars, bool trained)
      : global_step_(global_step), scalars_(scalars), trained_(trained) {}

  /// The number of updates, including this step's; on a cluster, of all workers.
  std::int64_t global_step() const { return global_step_; }
  /// True if the step has made an update. Hooks also receive steps that have not.
  bool trained() const { return trained_; }
  /// Returns the value of a fetched node, or null if the step has not fetched it as a scalar.
  const double* find(value of) const {
    for (const scalar& s : scalars_)
      if (s.of == of) return &s.number;
    return nullptr;
  }

 private:
  std::int64_t global_step_;
  const std::vector<scalar>& scalars_;
  bool trained_;
};

/// The functions of a supervised run that hooks can call.
class run_control {
 public:
  run_control() = default;
  run_control(const run_control&) = delete;
  run_control& operator=(const run_control&) = delete;

  virtual std::int64_t global_step() const = 0;
  /// True if this process writes checkpoints and summaries.
  virtual bool is_chief() const = 0;
  /// Ends the run before its next step. The first reason is kept.
  virtual void request_stop(const std::string& reason) = 0;
  /// Ends the run and writes no further checkpoint, because the variables are unusable.
  virtual void stop_without_saving(const std::string& reason) = 0;
  /// Writes a checkpoint now. Does nothing if the run has no checkpoints, after stop_without_saving(), or on tasks
  /// other than the chief.
  virtual void save_checkpoint() = 0;

 protected:
  ~run_control() = default;
};

/// Work around the steps of a supervised run (tf.train.SessionRunHook). Hooks are called in the order in which they
/// were given, before_step and after_step on the thread that runs the steps.
class run_hook {
 public:
  run_hook() = default;
  run_hook(const run_hook&) = delete;
  run_hook& operator=(const run_hook&) = delete;
  virtual ~run_hook() = default;

  /// Called when variables are initialized or restored, before the first step.
  virtual void begin(run_control&) {}
  virtual void before_step(run_control&) {}
  virtual void after_step(run_control&, const step_report&) {}
  /// Called before a checkpoint is written, to write related files (tf.train.CheckpointSaverListener). If it throws,
  /// the checkpoint is not written.
  virtual void before_save(run_control&) {}
  /// Called when the run ends without an exception, before the last checkpoint is written.
  virtual void end(run_control&) {}

  /// Returns nodes that the hook reads in after_step: every training step must fetch them.
  virtual std::vector<std::pair<value, std::string>> watched() const { return {}; }
};

}  // namespace weft
