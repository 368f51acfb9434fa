// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <span>
#include <thread>
#include <utility>

#include <weft/deadline.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/transport.hpp>

namespace weft {

/// A thread's wait for bytes: polls for a while, then sleeps. Call moved() after bytes have moved, and pause() if none
/// have.
class waiter {
 public:
  waiter(any_transport network, wait_policy policy) : network_(std::move(network)), policy_(policy) {}

  void moved() { idle_ = false; }

  /// Polls or sleeps, at most until `until` and for at most 50 milliseconds, so that the caller can check other
  /// conditions. Returns true if the thread slept.
  bool pause(std::span<const any_transport::wait_item> items, const deadline& until) {
    if (policy_.spin.count() > 0) {
      const auto now = detail::now();
      if (!idle_) {
        idle_ = true;
        since_ = now;
      }
      if (now - since_ < policy_.spin) {
        if (policy_.yield) std::this_thread::yield();
        return false;
      }
    }
    network_.wait(items, until.remaining(std::chrono::milliseconds(50)));
    idle_ = false;
    return true;
  }

 private:
  any_transport network_;
  wait_policy policy_;
  bool idle_ = false;
  deadline::time_point since_{};
};

}  // namespace weft
