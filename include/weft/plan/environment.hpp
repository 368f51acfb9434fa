// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/graph/extent_bindings.hpp>
#include <weft/plan/device_number.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/tensor/storage.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

class placement;
class gpu_support;
class task_support;

/// Write access to the values of a variable on the host. The destructor reports that the values have changed.
class variable_writer {
 public:
  explicit variable_writer(storage to) : to_(static_cast<storage&&>(to)) {}
  variable_writer(const variable_writer&) = delete;
  variable_writer& operator=(const variable_writer&) = delete;
  ~variable_writer() {
    if (content_version* const v = to_.version()) v->change();
  }
  std::byte* data() const noexcept { return to_.data(); }

 private:
  storage to_;
};

/// A variable's storage in a session: on the host, or on the GPU on which it is placed. Kernels cache data derived from
/// variables on the host until the version changes, so every access that can write must change the version.
class variable_state {
 public:
  std::byte* on_gpu = nullptr;
  device_number where;
  bool initialized = false;

  /// The values on the host; null on a GPU.
  const std::byte* data() const noexcept { return values_.data(); }
  std::size_t bytes() const noexcept { return values_.bytes(); }
  const content_version* version() const noexcept { return values_.version(); }

  variable_writer write() const { return variable_writer(values_); }
  /// Memory for a writer that reports nothing: from now on, kernels cache nothing derived from the variable.
  std::byte* write_unreported() const {
    values_.version()->lose_track();
    return values_.data();
  }
  /// The address for a step's kernels. A step that writes to it changes the version at its end.
  std::byte* address_in_steps() const noexcept { return where.gpu ? on_gpu : values_.data(); }
  content_version* version_to_change() const noexcept { return values_.version(); }

  /// Replaces the variable's memory. Only allowed before any step has its address.
  void lie_in(storage values) { values_ = static_cast<storage&&>(values); }
  /// Gives the variable its own memory, with a copy of the values.
  void copy_values(const memory_resource& from) {
    storage own(values_.bytes(), from);
    __builtin_memcpy(own.data(), values_.data(), values_.bytes());
    lie_in(static_cast<storage&&>(own));
  }

 private:
  storage values_;
};

/// A session's position in its random numbers, in the format of random_position_op. A step that draws random numbers
/// reads the position and, if it completes, advances it.
struct random_state {
  static constexpr std::int64_t steps = std::int64_t{1} << 48, streams = std::int64_t{1} << 15;

  std::int64_t position = 0;

  std::int64_t step() const { return position % steps; }
  std::int64_t stream() const { return position / steps; }
};

/// The parts of a session that planning a step needs.
struct environment {
  const placement& place;
  sequence<variable_state>& variables;
  const extent_bindings& extents;  ///< set by the graph
  const memory_resource& memory;
  gpu_support* gpus;    ///< null in programs without GPUs
  task_support* tasks;  ///< null if steps run in one task
  std::size_t cpus, lanes_per_device;
  random_state& random;
};

}  // namespace weft::plan

WEFT_COLD_END
