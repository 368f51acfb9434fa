// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <weft/error.hpp>
#include <weft/train/average_rules.hpp>
#include <weft/train/loss_scale_rule.hpp>
#include <weft/train/optimizers.hpp>
#include <weft/train/schedule.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

namespace weft {

/// A hyperparameter that follows a schedule (train/schedule.hpp). Before each update, a parameter server evaluates the
/// schedule at `first` plus the number of updates that it has applied.
struct scheduled_parameter {
  std::size_t parameter = 0;  // index of the hyperparameter
  std::int64_t first = 0;
  std::vector<double> numbers;  // the schedule

  friend bool operator==(const scheduled_parameter&, const scheduled_parameter&) = default;
};

/// The rule by which a parameter server updates one variable: the name of an optimizer and its hyperparameters in
/// order. The value of a scheduled hyperparameter is not used.
struct update_rule {
  std::string name = "gradient_descent";
  std::vector<double> parameters;
  std::vector<scheduled_parameter> schedules = {};

  friend bool operator==(const update_rule&, const update_rule&) = default;
};

/// An optimizer (train/optimizers.hpp) as a parameter server runs it.
struct update_implementation {
  /// The loops for one element type (ops/cpu/update_loop.hpp). They update any piece of a variable and of its slots.
  /// `copying` also writes the new values to a second place: in one loop the memory latencies overlap.
  struct loops {
    device::block_function plain = nullptr, copying = nullptr;
    detail::advance_function advance = nullptr;
  };

  const update_layout* layout = nullptr;
  loops of_float, of_double;
  /// Writes the first values of the slots for these hyperparameters.
  void (*first_values)(const std::vector<double>& parameters, double* values) = nullptr;
};

namespace detail {

template <class Optimizer>
void first_values_of(const std::vector<double>& parameters, double* values) {
  member_value members[max_hyperparameters] = {};
  for (std::size_t k = 0; k < members_of<Optimizer>; ++k) members[k] = {parameters[k]};
  const Optimizer optimizer = optimizer_of<Optimizer>(members, parameter_indices<Optimizer>());
  if constexpr (slots_of<Optimizer> != 0) {
    const auto list = optimizer.slots();
    for (const slot& s : list.all) *values++ = s.first.number();
  }
}

template <class Optimizer, class T>
update_implementation::loops server_loops() {
  return {unfused<update_block<Optimizer, T, false>>(), unfused<update_block<Optimizer, T, true>>(),
          advance_numbers<Optimizer, T>};
}

template <class Optimizer>
update_implementation implementation_of() {
  return {
      &layout_of<Optimizer>, server_loops<Optimizer, float>(), server_loops<Optimizer, double>(),
      [](const std::vector<double>& parameters, double* values) { first_values_of<Optimizer>(parameters, values); }};
}

}  // namespace detail

/// The optimizers that parameter servers of this program can run, by name: gradient_descent, momentum, adam, moving
/// averages, loss scales, and the optimizers that the program adds. Every task must add them before it starts its
/// server, for example at the top of main(): `update_rules::add<my_optimizer>()`.
class WEFT_API update_rules {
 public:
  /// Throws weft::error (already_exists) if the name is taken.
  template <class Optimizer>
  static auto add() {
    static_assert(correct<optimizer_mistake<Optimizer>>,
                  "an optimizer must have a name, at most 16 members, which are hyperparameters and numbers, and at "
                  "most 8 slots; update() must take the variable, its slots in order and the gradient, and advance() "
                  "the scalar slots; see docs/how-to/optimizers.md");
    if constexpr (correct<optimizer_mistake<Optimizer>>) {
      if (false)
        detail::use_formula<Optimizer, exact<float>>({}, nullptr, detail::slot_indices<Optimizer>(),
                                                     detail::scalar_indices<Optimizer>(),
                                                     detail::norm_indices<Optimizer>());
      add(detail::implementation_of<Optimizer>());
    }
  }

  /// Throws weft::error: not_found with the registered names, unimplemented for an optimizer that takes norms,
  /// invalid_argument for a wrong number of parameters or an invalid schedule.
  static update_implementation find(const update_rule& rule) {
    registry& all = instance();
    std::lock_guard lock(all.mutex);
    const auto found = all.rules.find(rule.name);
    if (found == all.rules.end()) {
      std::string known;
      for (const auto& [name, implementation] : all.rules) append(known, {known.empty() ? "" : ", ", name});
      throw error(error_code::not_found, "update_rules",
                  {"this program has no update rule '", rule.name, "'; it has ", known,
                   "; call update_rules::add<its optimizer>() before the server starts"});
    }
    if (found->second.layout->norms != 0)
      throw error(error_code::unimplemented, "update_rules",
                  "rule '" + rule.name + "' uses norms, which parameter servers do not compute; use collective");
    const std::size_t taken = found->second.layout->hyperparameters;
    if (taken != rule.parameters.size())
      throw error(
          error_code::invalid_argument, "update_rules",
          {"update rule '", rule.name, "' takes ", taken, " parameters, but was given ", rule.parameters.size()});
    for (const scheduled_parameter& each : rule.schedules) {
      if (each.parameter >= taken)
        throw error(error_code::invalid_argument, "update_rules",
                    {"update rule '", rule.name, "' has a schedule for parameter ", each.parameter, " of ", taken});
      if (const char* problem = detail::problem_of_schedule(each.numbers.data(), each.numbers.size()))
        throw error(error_code::invalid_argument, "update_rules",
                    {"a schedule of update rule '", rule.name, "' ", problem});
    }
    return found->second;
  }

 private:
  struct registry {
    std::mutex mutex;
    std::map<std::string, update_implementation> rules{
        {gradient_descent::name, detail::implementation_of<gradient_descent>()},
        {momentum::name, detail::implementation_of<momentum>()},
        {adam::name, detail::implementation_of<adam>()},
        {detail::moving_average_rule::name, detail::implementation_of<detail::moving_average_rule>()},
        {detail::debiased_average_rule::name, detail::implementation_of<detail::debiased_average_rule>()},
        {detail::loss_scale_rule::name, detail::implementation_of<detail::loss_scale_rule>()},
    };
  };

  static void add(const update_implementation& rule) {
    registry& all = instance();
    std::lock_guard lock(all.mutex);
    if (!all.rules.emplace(rule.layout->name, rule).second)
      throw error(error_code::already_exists, "update_rules",
                  {"update rule '", rule.layout->name, "' exists already; give this one another name"});
  }
  static registry& instance() {
    static registry all;
    return all;
  }
};

}  // namespace weft

#pragma pop_macro("slots")
