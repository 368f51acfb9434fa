#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <weft/error.hpp>

namespace weft {

/// How a parameter server applies gradients to one variable: a rule by name, and its parameters in the rule's order.
struct update_rule {
  std::string name = "gradient_descent";
  std::vector<double> parameters;

  friend bool operator==(const update_rule&, const update_rule&) = default;
};

/// Code of a rule. It works element by element: it may be called on any piece of a variable, with the same piece of the
/// gradient and of each slot (the state beside the variable, at first zero).
template <typename T>
using update_function = void (*)(std::span<T> variable, std::span<const T> gradient,
                                 std::span<const std::span<T>> slots, std::span<const double> parameters);

/// The same, which also writes the variable's new values to `copy`: in one loop the memory's latencies overlap.
template <typename T>
using copying_update_function = void (*)(std::span<T> variable, std::span<const T> gradient,
                                         std::span<const std::span<T>> slots, std::span<const double> parameters,
                                         T* copy);

struct update_implementation {
  std::size_t parameters = 0;  // how many the rule takes
  std::size_t slots = 0;       // how many values it keeps beside each element; at most max_slots
  update_function<float> for_float = nullptr;
  update_function<double> for_double = nullptr;
  copying_update_function<float> copying_float = nullptr;  // a rule may do without
  copying_update_function<double> copying_double = nullptr;

  static constexpr std::size_t max_slots = 4;
};

namespace detail {

// A plain -O2 build reaches AVX2 here. Contraction to fused multiply-add stays off, so that every machine, and every
// path to the same sum, gives the same bits.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
template <typename Loop>
__attribute__((target("avx2"), optimize("O3", "fp-contract=off"), flatten)) void run_avx2(const Loop& loop) {
  loop();
}
template <typename Loop>
__attribute__((optimize("O3", "fp-contract=off"), flatten)) void run_plain(const Loop& loop) {
  loop();
}
#elif defined(__x86_64__) && defined(__clang__)
template <typename Loop>
__attribute__((target("avx2"), flatten)) void run_avx2(const Loop& loop) {
  loop();
}
#endif

/// Runs a simple loop with the widest vectors that this processor has.
template <typename Loop>
void vectorised(const Loop& loop) {
#if defined(__x86_64__) && defined(__GNUC__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (has_avx2) return run_avx2(loop);
#endif
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  run_plain(loop);
#else
  loop();
#endif
}

template <typename T>
void gradient_descent_update(std::span<T> variable, std::span<const T> gradient, std::span<const std::span<T>>,
                             std::span<const double> parameters) {
  vectorised([w = variable.data(), g = gradient.data(), n = variable.size(), rate = static_cast<T>(parameters[0])] {
    T* __restrict to = w;
    const T* __restrict from = g;
    for (std::size_t i = 0; i < n; ++i) to[i] -= rate * from[i];
  });
}

template <typename T>
void momentum_update(std::span<T> variable, std::span<const T> gradient, std::span<const std::span<T>> slots,
                     std::span<const double> parameters) {
  vectorised([w = variable.data(), g = gradient.data(), s = slots[0].data(), n = variable.size(),
              rate = static_cast<T>(parameters[0]), mu = static_cast<T>(parameters[1])] {
    T* __restrict to = w;
    T* __restrict velocity = s;
    const T* __restrict from = g;
    for (std::size_t i = 0; i < n; ++i) {
      velocity[i] = mu * velocity[i] + from[i];
      to[i] -= rate * velocity[i];
    }
  });
}

template <typename T>
void gradient_descent_copied(std::span<T> variable, std::span<const T> gradient, std::span<const std::span<T>>,
                             std::span<const double> parameters, T* copy) {
  vectorised([=, w = variable.data(), g = gradient.data(), n = variable.size(), rate = static_cast<T>(parameters[0])] {
    T* __restrict to = w;
    T* __restrict also = copy;
    const T* __restrict from = g;
    for (std::size_t i = 0; i < n; ++i) also[i] = to[i] -= rate * from[i];
  });
}

template <typename T>
void momentum_copied(std::span<T> variable, std::span<const T> gradient, std::span<const std::span<T>> slots,
                     std::span<const double> parameters, T* copy) {
  vectorised([=, w = variable.data(), g = gradient.data(), s = slots[0].data(), n = variable.size(),
              rate = static_cast<T>(parameters[0]), mu = static_cast<T>(parameters[1])] {
    T* __restrict to = w;
    T* __restrict also = copy;
    T* __restrict velocity = s;
    const T* __restrict from = g;
    for (std::size_t i = 0; i < n; ++i) {
      velocity[i] = mu * velocity[i] + from[i];
      also[i] = to[i] -= rate * velocity[i];
    }
  });
}

/// to += from
template <typename T>
void accumulate(T* into, const T* values, std::size_t count) {
  vectorised([=] {
    T* __restrict to = into;
    const T* __restrict from = values;
    for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
  });
}

/// to = a + b
template <typename T>
void add(T* into, const T* left, const T* right, std::size_t count) {
  vectorised([=] {
    T* __restrict to = into;
    const T* __restrict a = left;
    const T* __restrict b = right;
    for (std::size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
  });
}

/// to = by * from
template <typename T>
void scale(T* into, const T* values, std::size_t count, T by) {
  vectorised([=] {
    T* __restrict to = into;
    const T* __restrict from = values;
    for (std::size_t i = 0; i < count; ++i) to[i] = by * from[i];
  });
}

/// values *= by
template <typename T>
void scale(T* values, std::size_t count, T by) {
  vectorised([=] {
    for (std::size_t i = 0; i < count; ++i) values[i] *= by;
  });
}

template <typename T>
using bits_of = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

/// The bits of an element to its sign's place, which is set where the element is infinite or not a number.
template <typename T>
constexpr bits_of<T> nonfinite_bit(T value) {
  constexpr bits_of<T> sign = bits_of<T>{1} << (8 * sizeof(T) - 1);
  constexpr bits_of<T> least_exponent = bits_of<T>{1} << (std::numeric_limits<T>::digits - 1);
  return (std::bit_cast<bits_of<T>>(value) & ~sign) + least_exponent;
}

/// Whether all of them are finite.
template <typename T>
bool all_finite(const T* values, std::size_t count) {
  bits_of<T> seen = 0;
  vectorised([=, &seen] {
    const T* __restrict from = values;
    bits_of<T> any = 0;
    for (std::size_t i = 0; i < count; ++i) any |= nonfinite_bit(from[i]);
    seen = any;
  });
  return (seen >> (8 * sizeof(T) - 1)) == 0;
}

/// The first that is not finite; `count` where all are.
template <typename T>
std::size_t first_nonfinite(const T* values, std::size_t count) {
  constexpr std::size_t at_once = 4096;
  for (std::size_t first = 0; first < count; first += at_once) {
    const std::size_t size = count - first < at_once ? count - first : at_once;
    if (all_finite(values + first, size)) continue;
    for (std::size_t i = first; i < first + size; ++i)
      if (nonfinite_bit(values[i]) >> (8 * sizeof(T) - 1)) return i;
  }
  return count;
}

/// to = (a + b) / by; returns whether all of it is finite.
template <typename T>
bool mean_of_two(T* into, const T* left, const T* right, std::size_t count, T by) {
  bits_of<T> seen = 0;
  vectorised([=, &seen] {
    T* __restrict to = into;
    const T* __restrict a = left;
    const T* __restrict b = right;
    bits_of<T> any = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const T mean = (a[i] + b[i]) / by;
      any |= nonfinite_bit(mean);
      to[i] = mean;
    }
    seen = any;
  });
  return (seen >> (8 * sizeof(T) - 1)) == 0;
}

/// values /= by; returns whether all of it is finite.
template <typename T>
bool divide(T* values, std::size_t count, T by) {
  bits_of<T> seen = 0;
  vectorised([=, &seen] {
    bits_of<T> any = 0;
    for (std::size_t i = 0; i < count; ++i) {
      values[i] /= by;
      any |= nonfinite_bit(values[i]);
    }
    seen = any;
  });
  return (seen >> (8 * sizeof(T) - 1)) == 0;
}

}  // namespace detail

/// The update rules of this program, by name. "gradient_descent" {rate}: w -= rate * g. "momentum" {rate, mu}, as
/// TensorFlow's: v = mu * v + g; w -= rate * v. A rule that a program adds must be added in every task before it starts
/// its server; all tasks run the same program, so adding it at the top of main() is enough.
class update_rules {
 public:
  /// Throws weft::error (already_exists) for a name that is taken.
  static void add(const std::string& name, const update_implementation& rule) {
    registry& all = instance();
    std::lock_guard lock(all.mutex);
    if (rule.slots > update_implementation::max_slots || !rule.for_float || !rule.for_double)
      throw error(error_code::invalid_argument, "update_rules",
                  "rule '" + name + "' needs code for float and for double and at most " +
                      std::to_string(update_implementation::max_slots) + " slots");
    if (!all.rules.emplace(name, rule).second)
      throw error(error_code::already_exists, "update_rules", "a rule '" + name + "' exists already");
  }

  /// Throws weft::error: not_found with the names that there are, invalid_argument for a wrong number of parameters.
  static update_implementation find(const update_rule& rule) {
    registry& all = instance();
    std::lock_guard lock(all.mutex);
    const auto found = all.rules.find(rule.name);
    if (found == all.rules.end()) {
      std::string known;
      for (const auto& [name, implementation] : all.rules) known += (known.empty() ? "" : ", ") + name;
      throw error(
          error_code::not_found, "update_rules",
          "no update rule '" + rule.name + "' in this program (it has " + known + "); add it before the server starts");
    }
    if (found->second.parameters != rule.parameters.size())
      throw error(error_code::invalid_argument, "update_rules",
                  "rule '" + rule.name + "' takes " + std::to_string(found->second.parameters) + " parameters, " +
                      std::to_string(rule.parameters.size()) + " are given");
    return found->second;
  }

 private:
  struct registry {
    std::mutex mutex;
    std::map<std::string, update_implementation> rules{
        {"gradient_descent",
         {1, 0, detail::gradient_descent_update<float>, detail::gradient_descent_update<double>,
          detail::gradient_descent_copied<float>, detail::gradient_descent_copied<double>}},
        {"momentum",
         {2, 1, detail::momentum_update<float>, detail::momentum_update<double>, detail::momentum_copied<float>,
          detail::momentum_copied<double>}},
    };
  };

  static registry& instance() {
    static registry all;
    return all;
  }
};

}  // namespace weft
