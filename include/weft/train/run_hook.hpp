#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <weft/error.hpp>
#include <weft/ops/node.hpp>
#include <weft/tensor/dtype.hpp>

namespace weft {

/// The values that a step of a supervised run has fetched, for its hooks: those that are one number.
class step_report {
 public:
  /// A fetched node and its value.
  struct scalar {
    value of;
    double number;
  };

  step_report(std::int64_t global_step, const std::vector<scalar>& scalars, bool trained)
      : global_step_(global_step), scalars_(scalars), trained_(trained) {}

  /// How many updates have been made, this step's included; on a cluster by all workers together.
  std::int64_t global_step() const { return global_step_; }
  /// Whether the step has made an update. Steps that do not are seen by hooks too.
  bool trained() const { return trained_; }
  /// The value of a node that the step has fetched; null if it has not.
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

/// The part of a supervised run that its hooks may act on.
class run_control {
 public:
  run_control() = default;
  run_control(const run_control&) = delete;
  run_control& operator=(const run_control&) = delete;

  virtual std::int64_t global_step() const = 0;
  /// Whether this process is the one that writes checkpoints and summaries.
  virtual bool is_chief() const = 0;
  /// The run ends before its next step. The first reason is kept.
  virtual void request_stop(const std::string& reason) = 0;
  /// The same, and no further checkpoint is written: the variables are not worth keeping.
  virtual void stop_without_saving(const std::string& reason) = 0;
  /// Writes a checkpoint now. Does nothing where the run keeps none, after stop_without_saving(), and on tasks that are
  /// not the chief.
  virtual void save_checkpoint() = 0;

 protected:
  ~run_control() = default;
};

/// Work that is done beside the steps of a supervised run (tf.train.SessionRunHook). Hooks are called in the order in
/// which they were given; those of before_step and after_step on the thread that makes the steps.
class run_hook {
 public:
  run_hook() = default;
  run_hook(const run_hook&) = delete;
  run_hook& operator=(const run_hook&) = delete;
  virtual ~run_hook() = default;

  /// Variables are initialised or restored; no step has been made.
  virtual void begin(run_control&) {}
  virtual void before_step(run_control&) {}
  virtual void after_step(run_control&, const step_report&) {}
  /// A checkpoint is about to be written (tf.train.CheckpointSaverListener): other files of the run may follow it. An
  /// exception keeps the checkpoint from being written.
  virtual void before_save(run_control&) {}
  /// The run ends without an exception; the last checkpoint has not been written.
  virtual void end(run_control&) {}

  /// Nodes whose values the hook reads in after_step: every step that trains must fetch them.
  virtual std::vector<std::pair<value, std::string>> watched() const { return {}; }
};

}  // namespace weft
