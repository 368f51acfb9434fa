// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/gpu/install.hpp>
#include <weft/ops/losses/ctc_loss.hpp>

/// GPU kernel of ctc_loss, with one thread for each sequence.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class T>
struct ctc_loss_work {
  weft::device::ctc_batch batch;
  const T* logits;
  const std::int32_t *labels, *frame_counts, *label_counts;
  double* memory;
  T *losses, *gradients;

  WEFT_HOST_DEVICE void operator()(std::size_t i) const {
    const std::size_t size = batch.frames * batch.classes;
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
  using w = ctc_loss_work<T>;
  const auto a = attributes_of<ctc_loss_op<T>>(p.node);
  const std::size_t rows = p.outputs[0].extents.elements();
  w work{};
  work.batch = weft::detail::ctc_batch_of(p, p.inputs[1].extents, a.blank, a.zero_infinity);
  device_memory room(p.memory ? *p.memory : d, (rows * (work.batch.memory() + 1) + 1) * sizeof(double),
                     "workspace of ctc_loss");
  work.memory = reinterpret_cast<double*>(room.data());
  launch_kernel* const k = make_each<32>(p, "ctc_loss", work, rows, &w::logits, &w::labels, &w::frame_counts,
                                         &w::label_counts, &w::losses, &w::gradients);
  k->keep(static_cast<device_memory&&>(room));
  return k;
}

}  // namespace detail

template <class T>
struct kernels<ctc_loss_op<T>> : installed<ctc_loss_op<T>, detail::prepare_ctc_loss<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
