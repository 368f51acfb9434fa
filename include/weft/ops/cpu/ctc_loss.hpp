// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/chunks.hpp>
#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/ctc.hpp>
#include <weft/ops/operation.hpp>

/// CPU kernel of ctc_loss.
WEFT_COLD_BEGIN
namespace weft::detail {

/// Returns the extents of a batch. A negative blank counts from the last class. Throws invalid_argument if it is not a
/// class.
inline device::ctc_batch ctc_batch_of(const prepare_context& p, const shape& labels, std::int64_t blank,
                                      bool zero_infinity) {
  const shape& x = p.inputs[0].extents;
  const std::int64_t at = blank < 0 ? blank + x[2] : blank;
  if (x[0] > 0 && x[1] > 0 && (at < 0 || at >= x[2]))
    throw error(error_code::invalid_argument, p.node.op->name,
                {"the blank must be one of the ", x[2], " classes; it is ", blank});
  return {static_cast<std::size_t>(x[1]), static_cast<std::size_t>(x[2]), static_cast<std::size_t>(labels[1]),
          static_cast<std::size_t>(at), zero_infinity};
}

/// Inputs: logits, labels, the lengths of both. Outputs: losses, and the gradients of the logits.
template <class T>
class ctc_loss_kernel final : public kernel {
 public:
  ctc_loss_kernel(const prepare_context& p, std::int64_t blank, bool zero_infinity)
      : batch_(ctc_batch_of(p, p.inputs[1].extents, blank, zero_infinity)),
        chunks_(p.outputs[0].extents.elements(), p.outputs[0].extents.elements() * batch_.memory(), 1024) {
    if (chunks_.count > 64) chunks_.count = 64;  // each needs memory
    for (int i = 0; i < 4; ++i) in_[i] = p.input_slots[i];
    for (int i = 0; i < 2; ++i) out_[i] = p.output_slots[i];
  }

  void run(const kernel_context& f) override {
    const T* const logits = reinterpret_cast<const T*>(f.buffers[in_[0]]);
    const auto integers = [&](int i) { return reinterpret_cast<const std::int32_t*>(f.buffers[in_[i]]); };
    const std::int32_t *labels = integers(1), *frame_counts = integers(2), *label_counts = integers(3);
    T* const losses = reinterpret_cast<T*>(f.buffers[out_[0]]);
    T* const gradients = reinterpret_cast<T*>(f.buffers[out_[1]]);
    for (std::size_t i = 0; i < chunks_.items; ++i)
      if (!batch_.valid(labels + i * batch_.labels, frame_counts[i], label_counts[i]))
        throw error(error_code::out_of_range, "ctc_loss",
                    {"row ", i, " has ", frame_counts[i], " frames of ", batch_.frames, ", and ", label_counts[i],
                     " labels of ", batch_.labels, ", which must be in [0, ", batch_.classes, ")"});
    const std::size_t size = batch_.frames * batch_.classes;
    chunks_.run(f, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
      double* const memory = reinterpret_cast<double*>(f.workspace) + chunk * batch_.memory();
      multiversioned_up_to_avx2([&]() __attribute__((always_inline)) {
        for (std::size_t i = begin; i < end; ++i)
          losses[i] = static_cast<T>(device::ctc_sequence(
              batch_, logits + i * size, labels + i * batch_.labels, static_cast<std::size_t>(frame_counts[i]),
              static_cast<std::size_t>(label_counts[i]), memory, gradients ? gradients + i * size : nullptr));
      });
    });
  }
  std::size_t workspace_bytes() const override { return chunks_.count * batch_.memory() * sizeof(double); }
  std::string describe() const override {
    return str_cat({"ctc_loss ", chunks_.items, "x", batch_.frames, "x", batch_.classes});
  }

 private:
  device::ctc_batch batch_;
  device::chunks chunks_;
  std::uint32_t in_[4], out_[2];
};

}  // namespace weft::detail
WEFT_COLD_END
