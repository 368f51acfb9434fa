// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/plan/index.hpp>
#include <weft/tensor/sequence.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

/// Chooses the kernels that store images channels first. Kernels that exchange images form a group with one layout, so
/// that they need no copies. A group uses channels first if this saves its kernels more time than it takes to copy the
/// values that are shared with other kernels, each once.
class layout_choice {
 public:
  explicit layout_choice(std::size_t values) : seconds_(values, 0) {
    for (std::uint32_t v = 0; v < values; ++v) parent_.push_back(v);
  }

  /// Adds a kernel that supports both layouts, and returns its number. `gain`: the seconds that channels first saves.
  std::uint32_t add_kernel(double gain) {
    first_value_.push_back(none);
    gain_.push_back(gain);
    return static_cast<std::uint32_t>(gain_.size() - 1);
  }
  /// Declares that the kernel reads or writes the value.
  void uses(std::uint32_t kernel, std::uint32_t value) {
    if (first_value_[kernel] == none) first_value_[kernel] = value;
    parent_[root(value)] = root(first_value_[kernel]);
  }
  /// Declares that the value also has a reader or writer that requires channels last. `seconds`: the time to copy it.
  void used_elsewhere(std::uint32_t value, double seconds) { seconds_[value] = seconds; }

  /// Returns the choice for each kernel.
  sequence<bool> channels_first() const {
    sequence<double> balance(parent_.size(), 0);
    for (std::uint32_t v = 0; v < parent_.size(); ++v) balance[root(v)] -= seconds_[v];
    for (std::size_t k = 0; k < gain_.size(); ++k)
      if (first_value_[k] != none) balance[root(first_value_[k])] += gain_[k];
    sequence<bool> first(gain_.size(), false);
    for (std::size_t k = 0; k < gain_.size(); ++k)
      first[k] = first_value_[k] != none && balance[root(first_value_[k])] > 0;
    return first;
  }

 private:
  std::uint32_t root(std::uint32_t v) const {
    while (parent_[v] != v) v = parent_[v];
    return v;
  }

  sequence<std::uint32_t> parent_;  // for each value: its parent in the union-find forest of groups
  sequence<double> seconds_;        // for each value: the time of a copy, 0 if none is required
  sequence<std::uint32_t> first_value_;
  sequence<double> gain_;
};

}  // namespace weft::plan

WEFT_COLD_END
