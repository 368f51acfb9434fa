// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/config.hpp>

namespace weft::detail {

/// A value that travels between two tasks in one run of a step.
struct transfer_key {
  std::uint32_t number = 0;  ///< number of the transfer in the step
  std::uint32_t from = 0, to = 0;
};

/// Carries values between the tasks of a step, for one task and one run at a time.
class task_links {
 public:
  virtual ~task_links() = default;
  /// Sends a value without waiting for a step of the other task.
  virtual void send(const transfer_key&, const std::byte* value, std::size_t bytes) = 0;
  /// Receives a value of this size. Throws deadline_exceeded, the error that ended the step elsewhere, unavailable with
  /// the name of a task that is gone, and data_loss for a value of another size.
  virtual void receive(const transfer_key&, std::byte* to, std::size_t bytes) = 0;
  /// Runs an operation that may never end by itself, and ends it when the step is over. `waits`: it waits for other
  /// steps.
  virtual void watch(void* of, void (*operation)(void* of), bool /*waits*/) { operation(of); }
};

}  // namespace weft::detail
