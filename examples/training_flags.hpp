// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include <weft/graph/device_spec.hpp>
#include <weft/train/progress.hpp>

#include "checkpoints.hpp"
#include "command_line.hpp"
#include "optimizers.hpp"

/// The flags of every example that learns from images.
struct training_flags {
  std::string device = "cpu", data_dir = "/usr/share/datasets/fashion-mnist", json = "";
  std::string optimizer = "adam", schedule = "constant", checkpoint_dir = "", log_dir = "";
  std::int64_t batch_size = 100, epochs = 10, train_steps = 0, threads = 0, seed = 1, checkpoint_steps = 0;
  std::optional<double> learning_rate, least_accuracy;
  double adam_rate = 0;  // adam's default rate in this program; 0: usual_rate
  bool resume = false;
  weft::progress_mode progress = weft::progress_mode::automatic;

  void add_to(command_line& line);

  weft::device_spec place() const { return device == "cuda" ? weft::device_spec(weft::cuda{0}) : weft::cpu{0}; }
  double rate() const {
    if (learning_rate) return *learning_rate;
    return optimizer == "adam" && adam_rate > 0 ? adam_rate : usual_rate(optimizer);
  }
  training_recipe recipe(std::int64_t steps, std::int64_t steps_per_epoch) const {
    return {.optimizer = optimizer,
            .rate = rate(),
            .schedule = schedule,
            .steps = steps,
            .steps_per_epoch = steps_per_epoch};
  }
  weft::every checkpoints_every() const {
    return checkpoint_steps > 0 ? weft::every{.steps = checkpoint_steps} : weft::every{.time = std::chrono::minutes(1)};
  }

  /// The required test accuracy: the given one, or the stated one if these flags are those of the usual run, or 0.
  double accuracy_to_reach(const training_flags& usual, double stated) const {
    const auto recipe = [](const training_flags& f) {
      return std::tuple(f.data_dir, f.optimizer, f.schedule, f.rate(), f.batch_size, f.epochs, f.train_steps);
    };
    return least_accuracy ? *least_accuracy : recipe(*this) == recipe(usual) ? stated : 0;
  }

  /// A run resumes only from checkpoints with equal settings.
  run_settings settings(const char* program) const {
    return {{"program", program},
            {"optimizer", optimizer},
            {"schedule", schedule},
            {"batch_size", std::to_string(batch_size)},
            {"seed", std::to_string(seed)}};
  }
};
