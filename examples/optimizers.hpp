// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <weft/weft.hpp>

/// Training by --optimizer, --learning_rate and --schedule. A program that chooses at run time compiles all that may be
/// chosen: optimizers.cpp does, once for all examples.

/// The seventeen, as their headers name them.
std::vector<std::string> optimizer_names();

/// The learning rate that an optimizer has unless it is given another one: TensorFlow's or PyTorch's.
double usual_rate(const std::string& optimizer);

/// So that parameter servers know them all: in every task, before its server starts.
void add_update_rules();

/// How a rate goes over the steps of a run, in multiples of the learning rate:
///
///     constant                       stays
///     exponential:0.96/1000          is multiplied by 0.96 in each 1000 steps
///     staircase:0.94/2epochs         the same at the end of each 2 epochs
///     natural_exp:0.5/1000           falls by exp(-0.5) in each 1000 steps
///     inverse_time:0.5/1000          divided by 1 + 0.5 * step / 1000
///     piecewise:1000=0.5,2000=0.1    half the rate after step 1000, a tenth after 2000
///     polynomial:5000/2              to 0 in 5000 steps, by the second power of what is left; /1 unless given
///     cosine:5000                    to 0 in 5000 steps, along half a cosine; without :5000 in all of the run
///     cosine_restarts:1000           the same again and again, each time for twice as long
///     one_cycle:5000                 up from a 25th in three tenths of 5000 steps, and down to nothing; or in all of
///                                    the run
///     warmup:500+cosine              from 0 on a line to any of these in 500 steps; alone, to the rate
///
/// Steps may be given as epochs: warmup:5epochs+cosine. Throws invalid_argument, with this list, for another schedule.
void check_schedule(const std::string& spec);

/// An optimizer with its rate and schedule, and what else a training step has.
struct training_recipe {
  std::string optimizer;
  double rate = 0;
  std::string schedule = "constant";
  std::int64_t steps = 0;                                ///< of the whole run, for schedules that are as long
  std::int64_t steps_per_epoch = 1;                      ///< for schedules that count epochs
  std::optional<double> momentum{}, decay{}, epsilon{};  ///< hyperparameters in place of the optimizer's own
  /// Is added, times the variable, to the gradients of variables of two axes or more: the kernels of layers, and
  /// neither biases nor batch normalization.
  double weight_decay = 0;
  bool counts_steps = false;  ///< by the graph's global_step, as schedules that are not constant do
};

/// A training step, and the rate that it takes where that is not a number.
struct training {
  weft::effect step;
  std::optional<weft::node<double>> rate;
};

/// Updates all variables that the loss depends on. Throws invalid_argument for an unknown optimizer or schedule, and
/// for a hyperparameter that the optimizer does not have.
training minimize(const training_recipe& recipe, const weft::node<float>& loss);
