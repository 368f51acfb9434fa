// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/ops/operation.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/train/schedule.hpp>

/// Computes a schedule's value for the global step, on a CPU.
WEFT_COLD_BEGIN
namespace weft::detail {

class schedule_kernel final : public kernel {
 public:
  explicit schedule_kernel(const prepare_context& p)
      : numbers_(p.node.literals), step_(p.input_slots[0]), to_(p.output_slots[0]) {}
  void run(const kernel_context& f) override {
    double numbers[max_schedule_numbers];
    for (std::size_t i = 0; i < numbers_.size(); ++i) numbers[i] = literal_value<double>(numbers_[i]);
    const std::int64_t step = *reinterpret_cast<const std::int64_t*>(f.buffers[step_]);
    *reinterpret_cast<double*>(f.buffers[to_]) = schedule_at(numbers, numbers_.size(), step);
  }
  std::string describe() const override { return "schedule"; }

 private:
  sequence<std::uint64_t> numbers_;
  std::uint32_t step_, to_;
};

}  // namespace weft::detail
WEFT_COLD_END
