#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/plan/index.hpp>
#include <weft/tensor/sequence.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

/// Chooses which kernels of a step have their images channels first. Kernels that pass images to each other form a
/// group, and have them alike: no copies between them. A group has them first where that saves its kernels more time
/// than it takes to copy what comes from elsewhere, or is needed there, into the other layout, each value once.
class layout_choice {
 public:
  explicit layout_choice(std::size_t values) : seconds_(values, 0) {
    for (std::uint32_t v = 0; v < values; ++v) parent_.push_back(v);
  }

  /// A kernel that takes either, and how many seconds it takes less with channels first; returns its number.
  std::uint32_t add_kernel(double gain) {
    first_value_.push_back(none);
    gain_.push_back(gain);
    return static_cast<std::uint32_t>(gain_.size() - 1);
  }
  /// The kernel reads or writes the value.
  void uses(std::uint32_t kernel, std::uint32_t value) {
    if (first_value_[kernel] == none) first_value_[kernel] = value;
    parent_[root(value)] = root(first_value_[kernel]);
  }
  /// A reader or writer whose images lie channels last in any case uses the value; a copy of it takes so many seconds.
  void used_elsewhere(std::uint32_t value, double seconds) { seconds_[value] = seconds; }

  /// For each kernel.
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

  sequence<std::uint32_t> parent_;  // each value's, in the tree of its group
  sequence<double> seconds_;        // a copy's, where one is needed
  sequence<std::uint32_t> first_value_;
  sequence<double> gain_;
};

}  // namespace weft::plan

WEFT_COLD_END
