// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <cstring>

#include <weft/graph/graph_of.hpp>
#include <weft/graph/scopes.hpp>
#include <weft/ops/operation.hpp>
#include <weft/ops/sequence_steps.hpp>

/// Checks the lengths of sequences when a step runs.
WEFT_COLD_BEGIN
namespace weft {
namespace detail {

class check_lengths_kernel final : public kernel {
 public:
  explicit check_lengths_kernel(const prepare_context& p)
      : in_(p.input_slots[0]),
        out_(p.output_slots[0]),
        count_(p.inputs[0].extents.elements()),
        steps_(static_cast<std::int64_t>(p.inputs[1].extents.elements())) {}
  void run(const kernel_context& f) override {
    const auto* const lengths = reinterpret_cast<const std::int32_t*>(f.buffers[in_]);
    for (std::size_t i = 0; i < count_; ++i)
      if (lengths[i] < 0 || lengths[i] > steps_)
        throw error(
            error_code::out_of_range, "lengths",
            {"the length of sequence ", i, " must be 0 to ", steps_, ", the number of steps; it is ", lengths[i]});
    if (count_) std::memcpy(f.buffers[out_], lengths, count_ * sizeof *lengths);
  }
  std::string describe() const override { return str_cat({"check of ", count_, " lengths"}); }

 private:
  std::uint32_t in_, out_;
  std::size_t count_;
  std::int64_t steps_;
};

}  // namespace detail

/// Inputs: lengths [batch], and the step indices, of which only the extents are read. Output: the lengths.
struct check_lengths_op {
  static constexpr const char* name = "check_lengths";
  static constexpr const char* onnx = "a";
  static kernel* prepare(const prepare_context& p) { return new detail::check_lengths_kernel(p); }
};

namespace nn::detail {

/// Returns the lengths, checked: a step throws out_of_range if one is negative or exceeds `steps`.
inline symbol checked_lengths(const symbol& lengths, std::int64_t steps) {
  graph& g = graph_of(lengths);
  const graph::device_scope there(g, cpu{});  // the check has no GPU kernel
  return weft::detail::record_call(operation_of<check_lengths_op>,
                                   {lengths, weft::detail::record_steps(lengths, steps)}, lengths.info());
}

}  // namespace nn::detail
}  // namespace weft
WEFT_COLD_END
