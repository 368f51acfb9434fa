// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <weft/config.hpp>
#include <weft/device/cpu/dispatch.hpp>

/// A schedule as numbers: its kind and parameters and, with a warm-up, the warm-up's kind, steps and first value. A
/// session's kernel and a parameter server evaluate it with the same function.
namespace weft::detail {

/// The values are part of the parameter servers' protocol.
enum class schedule_kind : unsigned char {
  constant = 1,         ///< the rate
  exponential,          ///< the rate, steps, the decay, staircase
  natural_exponential,  ///< as exponential
  inverse_time,         ///< as exponential
  piecewise,            ///< the number of boundaries, the boundaries, the values
  polynomial,           ///< the rate, steps, the end, the power, cycle
  cosine,               ///< the rate, steps, the final fraction of the rate
  cosine_restarts,      ///< the rate, first period, factors of period and rate, final fraction of the rate
  one_cycle,            ///< the rate, steps, rising fraction, divisors of first and last rate, linear, three phases
  warmup,               ///< steps, the first value
  average_weight,       ///< weight of the newest value in a moving average after this many updates: the decay
};

inline constexpr std::size_t max_schedule_numbers = 64, warmup_numbers = 3;

/// Returns the length of the schedule at `numbers`, without its warm-up; 0 if its kind is invalid.
WEFT_HOST_DEVICE constexpr std::size_t size_of_schedule(const double* numbers, std::size_t count) {
  constexpr std::size_t sizes[] = {0, 2, 5, 5, 5, 0, 6, 4, 6, 8, 0, 2};
  if (count < 2 || !(numbers[0] >= 1 && numbers[0] <= 11)) return 0;
  const auto kind = static_cast<std::size_t>(numbers[0]);
  if (static_cast<double>(kind) != numbers[0]) return 0;
  if (kind != static_cast<std::size_t>(schedule_kind::piecewise)) return sizes[kind];
  const double boundaries = numbers[1];
  if (!(boundaries >= 0 && boundaries <= 30) || std::floor(boundaries) != boundaries) return 0;
  return 3 + 2 * static_cast<std::size_t>(boundaries);
}

/// Returns a description of an invalid schedule's problem, or nullptr. Schedules can come from untrusted peers.
inline const char* problem_of_schedule(const double* n, std::size_t count) {
  if (count > max_schedule_numbers) return "has more than 64 numbers";
  for (std::size_t i = 0; i < count; ++i)
    if (!std::isfinite(n[i])) return "has a number that is not finite";
  const std::size_t size = size_of_schedule(n, count);
  if (size == 0 || (count != size && count != size + warmup_numbers)) return "is of an unknown kind";
  const auto kind = static_cast<schedule_kind>(n[0]);
  if (kind == schedule_kind::piecewise) {
    for (std::size_t i = 3; i < 2 + static_cast<std::size_t>(n[1]); ++i)
      if (!(n[i - 1] < n[i])) return "has boundaries that are not increasing";
  } else if (kind == schedule_kind::average_weight) {
    if (!(n[1] >= 0 && n[1] < 1)) return "has a decay that is not in [0, 1)";
  } else if (kind != schedule_kind::constant && !(n[2] > 0)) {
    return "must last at least one step";
  }
  if (kind == schedule_kind::cosine_restarts && !(n[3] >= 1)) return "has a period factor below 1";
  if (kind == schedule_kind::one_cycle) {
    if (!(n[3] > 0 && n[3] < 1)) return "has a rising fraction that is not between 0 and 1";
    if (!(n[4] > 0 && n[5] > 0)) return "has a divisor that is not positive";
  }
  if (count == size) return nullptr;
  if (n[size] != static_cast<double>(schedule_kind::warmup)) return "is of an unknown kind";
  return n[size + 1] >= 1 && std::floor(n[size + 1]) == n[size + 1]
             ? nullptr
             : "must have a whole number of warm-up steps, at least 1";
}

WEFT_HOST_DEVICE inline double cosine_restarts_at(const double* n, double step) {
  const double rate = n[1], growth = n[3];
  const double at = step / n[2];  // in units of the first period
  double restarts = std::floor(at), begin = restarts, length = 1;
  if (growth > 1) {
    restarts = std::floor(std::log(1 + at * (growth - 1)) / std::log(growth));
    // At the end of a period, the logarithms can be off by one.
    length = std::pow(growth, restarts), begin = (length - 1) / (growth - 1);
    if (at < begin) {
      restarts -= 1;
      length = std::pow(growth, restarts), begin = (length - 1) / (growth - 1);
    } else if (at >= begin + length) {
      restarts += 1;
      begin += length, length *= growth;
    }
  }
  const double cosine =
      0.5 * std::pow(n[4], restarts) * (1 + std::cos(3.14159265358979323846 * ((at - begin) / length)));
  return rate * ((1 - n[5]) * cosine + n[5]);
}

WEFT_HOST_DEVICE inline double one_cycle_at(const double* n, double step) {
  const double high = n[1], total = n[2], rising = n[3] * total, low = high / n[4];
  const bool linear = n[6] != 0, three = n[7] != 0;
  const double ends[] = {rising - 1, three ? 2 * rising - 2 : total - 1, total - 1};
  const double rates[] = {low, high, three ? low : low / n[5], low / n[5]};
  const int last = three ? 2 : 1;
  int phase = 0;
  while (phase < last && step > ends[phase]) ++phase;
  const double begin = phase == 0 ? 0 : ends[phase - 1];
  double part = (step - begin) / (ends[phase] - begin);
  part = part < 1 ? part : 1;
  const double from = rates[phase], to = rates[phase + 1];
  if (linear) return (to - from) * part + from;
  return to + (from - to) / 2 * (std::cos(3.14159265358979323846 * part) + 1);
}

/// Returns the value of a valid schedule (see `problem_of_schedule`) at a step.
WEFT_HOST_DEVICE inline double value_of_schedule(const double* n, std::size_t count, double step) {
  const std::size_t size = size_of_schedule(n, count);
  if (count > size && step < n[size + 1]) {  // linear up to the schedule's value at the end of the warm-up
    const double end = value_of_schedule(n, size, n[size + 1]);
    return n[size + 2] + (end - n[size + 2]) * (step / n[size + 1]);
  }
  const double rate = n[1];
  const auto decayed = [&] { return n[4] != 0 ? std::floor(step / n[2]) : step / n[2]; };
  switch (static_cast<schedule_kind>(n[0])) {
    case schedule_kind::constant:
      return rate;
    case schedule_kind::exponential:
      return rate * std::pow(n[3], decayed());
    case schedule_kind::natural_exponential:
      return rate * std::exp(-n[3] * decayed());
    case schedule_kind::inverse_time:
      return rate / (1 + n[3] * decayed());
    case schedule_kind::piecewise: {
      const auto boundaries = static_cast<std::size_t>(n[1]);
      std::size_t i = 0;
      while (i < boundaries && step > n[2 + i]) ++i;
      return n[2 + boundaries + i];
    }
    case schedule_kind::polynomial: {
      double steps = n[2];
      if (n[5] != 0)
        steps *= step > 0 ? std::ceil(step / steps) : 1;
      else
        step = step < steps ? step : steps;
      return (rate - n[3]) * std::pow(1 - step / steps, n[4]) + n[3];
    }
    case schedule_kind::cosine: {
      const double part = step < n[2] ? step / n[2] : 1;
      return rate * ((1 - n[3]) * (0.5 * (1 + std::cos(3.14159265358979323846 * part))) + n[3]);
    }
    case schedule_kind::cosine_restarts:
      return cosine_restarts_at(n, step);
    case schedule_kind::one_cycle:
      return one_cycle_at(n, step);
    case schedule_kind::average_weight: {  // TensorFlow's formula: the average changes faster at the beginning
      const double decay = (1 + step) / (10 + step);
      return 1 - (decay < n[1] ? decay : n[1]);
    }
    case schedule_kind::warmup:
      break;
  }
  return rate;
}

/// Evaluated on a CPU, with the same bits in a session and on a parameter server. A negative step counts as 0.
WEFT_UNFUSED()
inline double schedule_at(const double* numbers, std::size_t count, std::int64_t step) {
  return value_of_schedule(numbers, count, step > 0 ? static_cast<double>(step) : 0.0);
}

}  // namespace weft::detail
