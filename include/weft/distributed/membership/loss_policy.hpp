// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <weft/config.hpp>
#include <weft/error.hpp>

namespace weft {

/// The action after the wait for a lost worker has ended.
enum class loss_action : unsigned char {
  stop,       ///< training ends, with an error that names the worker
  shrink,     ///< the others continue without its gradients, so values differ from that step on
  take_over,  ///< the others compute its gradients: the same values, but slower
};

/// The reaction of the other workers to the loss of a worker. By default, training ends at once.
struct loss_policy {
  std::chrono::milliseconds wait{0};  ///< time to wait for a process that replaces the lost worker
  loss_action then = loss_action::stop;

  friend bool operator==(const loss_policy&, const loss_policy&) = default;
};

/// Waits for a process that replaces a lost worker: `wait_for{30s}`, `wait_for{30s}.then(loss_action::shrink)`. Without
/// then(), training stops after the wait.
struct wait_for {
  std::chrono::milliseconds time{0};

  constexpr loss_policy then(loss_action action) const { return {time, action}; }
  constexpr operator loss_policy() const { return {time, loss_action::stop}; }
};

namespace detail {

/// About 35 years, so that sums of such times do not overflow a count of nanoseconds.
inline constexpr std::chrono::milliseconds longest_loss_wait{std::int64_t{1} << 40};

inline bool is_valid_wait(std::chrono::milliseconds wait) { return wait.count() >= 0 && wait <= longest_loss_wait; }

/// Throws weft::error (invalid_argument) if the wait is out of range.
inline void check_loss_policy(const loss_policy& policy, const char* operation) {
  if (is_valid_wait(policy.wait)) return;
  throw error(error_code::invalid_argument, operation,
              {"the wait for a lost worker (on_loss) must be from 0 to ", std::int64_t{longest_loss_wait.count()},
               " ms; it is ", std::int64_t{policy.wait.count()}});
}

/// "waits 30000 ms for a lost worker, then shrinks"
inline std::string policy_words(const loss_policy& policy) {
  if (policy == loss_policy{}) return "stops when a worker is lost";
  return str_cat({"waits ", std::int64_t{policy.wait.count()}, " ms for a lost worker, then ",
                  policy.then == loss_action::shrink      ? "shrinks"
                  : policy.then == loss_action::take_over ? "takes over its part"
                                                          : "stops"});
}

}  // namespace detail

}  // namespace weft
