#pragma once

#include <chrono>

#include <weft/config.hpp>

namespace weft {

/// How training goes on once it has waited long enough for a worker that is lost.
enum class loss_action : unsigned char {
  stop,       ///< training ends, with an error that names the worker
  shrink,     ///< the others continue without its gradients: other values from that step on
  take_over,  ///< the others compute its gradients: the same values, more slowly
};

/// What the others do when a worker is lost. The default ends training at once.
struct loss_policy {
  std::chrono::milliseconds wait{0};  ///< for a process that takes the lost worker's place
  loss_action then = loss_action::stop;

  friend bool operator==(const loss_policy&, const loss_policy&) = default;
};

/// Waits for a process that takes a lost worker's place: `wait_for{30s}`, `wait_for{30s}.then(loss_action::shrink)`.
/// Without then(), training stops after the wait.
struct wait_for {
  std::chrono::milliseconds time{0};

  constexpr loss_policy then(loss_action action) const { return {time, action}; }
  constexpr operator loss_policy() const { return {time, loss_action::stop}; }
};

}  // namespace weft
