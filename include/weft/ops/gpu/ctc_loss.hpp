// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/losses/ctc_loss.hpp>

/// GPU kernel of ctc_loss, with one thread for each sequence.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class T>
struct ctc_loss_body {
  static constexpr unsigned threads = 32;
  static constexpr int phases = 1;
  using block_memory = nothing;
  using thread_memory = nothing;

  weft::device::ctc_batch batch;
  const T* logits;
  const std::int32_t *labels, *frame_counts, *label_counts;
  double* memory;
  T *losses, *gradients;
  std::uint32_t rows;

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    const std::size_t i = at.block * threads + at.thread, size = batch.frames * batch.classes;
    if (i >= rows) return;
    const std::int32_t* const label = labels + i * batch.labels;
    T* const gradient = gradients ? gradients + i * size : nullptr;
    if (batch.valid(label, frame_counts[i], label_counts[i])) {
      losses[i] = static_cast<T>(
          weft::device::ctc_sequence(batch, logits + i * size, label, static_cast<std::size_t>(frame_counts[i]),
                                     static_cast<std::size_t>(label_counts[i]), memory + i * batch.memory(), gradient));
    } else {
      losses[i] = static_cast<T>(__builtin_nanf(""));
      for (std::size_t k = 0; gradient && k < size; ++k) gradient[k] = losses[i];
    }
  }
};

template <class T>
kernel* prepare_ctc_loss(const prepare_context& p, device& d) {
  using body = ctc_loss_body<T>;
  static const function code = function_of<body>("ctc_loss");
  const auto a = attributes_of<ctc_loss_op<T>>(p.node);
  body b{};
  b.batch = weft::detail::ctc_batch_of(p, p.inputs[1].extents, a.blank, a.zero_infinity);
  b.rows = static_cast<std::uint32_t>(p.outputs[0].extents.elements());
  auto* k = new launch_kernel("ctc_loss");
  if (b.rows == 0) return k;
  device_memory room(p.memory ? *p.memory : d, b.rows * (b.batch.memory() + 1) * sizeof(double),
                     "workspace of ctc_loss");
  b.memory = reinterpret_cast<double*>(room.data());
  auto& l = add_body(*k, b, code, (b.rows + body::threads - 1) / body::threads);
  l.point(offset_in(b, b.logits), p.input_slots[0]);
  l.point(offset_in(b, b.labels), p.input_slots[1]);
  l.point(offset_in(b, b.frame_counts), p.input_slots[2]);
  l.point(offset_in(b, b.label_counts), p.input_slots[3]);
  l.point(offset_in(b, b.losses), p.output_slots[0]);
  l.point(offset_in(b, b.gradients), p.output_slots[1]);
  k->keep(static_cast<device_memory&&>(room));
  return k;
}

}  // namespace detail

template <class T>
struct kernels<ctc_loss_op<T>> : installed<ctc_loss_op<T>, detail::prepare_ctc_loss<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
