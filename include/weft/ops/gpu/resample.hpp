// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/each.hpp>
#include <weft/device/gpu/indexing.hpp>
#include <weft/ops/gpu/fused.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/images/resample.hpp>

/// GPU kernel that resamples along an axis.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
inline namespace WEFT_GPU_FILE {

/// A thread computes one element of the result, and the weights that it needs.
template <class T>
struct resample_work {
  weft::device::resampling how;
  bool transposed;
  const T* x;
  T* y;
  std::size_t in, out, inner;

  WEFT_HOST_DEVICE void operator()(std::size_t i) const {
    const std::size_t c = i % inner, row = i / inner;
    const auto r = static_cast<std::int64_t>(row % out);
    const T* const from = x + row / out * in * inner + c;
    double sum = 0;
    if (transposed) {
      // The first pixel of the result that uses row r: the ends of the ranges ascend.
      std::int64_t low = 0, high = how.out;
      while (low < high) {
        const std::int64_t middle = low + (high - low) / 2;
        if (how.pixels(middle).end > r)
          high = middle;
        else
          low = middle + 1;
      }
      for (std::int64_t p = low; p < how.out && how.pixels(p).begin <= r; ++p)
        sum += how.weight(p, r) / divisor_of(p) * static_cast<double>(from[static_cast<std::size_t>(p) * inner]);
    } else {
      const auto range = how.pixels(r);
      for (std::int64_t k = range.begin; k < range.end; ++k)
        sum += how.weight(r, k) * static_cast<double>(from[static_cast<std::size_t>(k) * inner]);
      sum /= divisor_of(r);
    }
    y[i] = static_cast<T>(sum);
  }

 private:
  WEFT_HOST_DEVICE double divisor_of(std::int64_t p) const {
    if (!how.is_wide()) return 1;
    const auto range = how.pixels(p);
    double sum = 0;
    for (std::int64_t k = range.begin; k < range.end; ++k) sum += how.weight(p, k);
    return sum;
  }
};

template <class T>
class resample_gpu_kernel final : public kernel {
 public:
  resample_gpu_kernel(const prepare_context& p, const weft::detail::resample_attributes& a)
      : work_{weft::detail::resampling_of(p, a), a.transposed, nullptr, nullptr, 0, 0, 0},
        elements_(p.outputs[0].extents.elements()),
        from_(p.input_slots[0]),
        to_(p.output_slots[0]) {
    const axis_rows rows(p.outputs[0].extents, a.axis);
    work_.in = static_cast<std::size_t>(p.inputs[0].extents[a.axis]);
    work_.out = rows.extent, work_.inner = rows.inner;
  }
  void run(const kernel_context& f) override {
    work_.x = reinterpret_cast<const T*>(f.buffers[from_]), work_.y = reinterpret_cast<T*>(f.buffers[to_]);
    launch_each(*f.queue, "resample", work_, elements_);
  }
  std::string describe() const override { return "resample"; }

 private:
  resample_work<T> work_;
  std::size_t elements_;
  std::uint32_t from_, to_;
};

template <class T>
kernel* prepare_resample(const prepare_context& p, device&) {
  return new resample_gpu_kernel<T>(p, attributes_of<resample_op<T>>(p.node));
}

}  // namespace WEFT_GPU_FILE

template <class T>
struct kernels<resample_op<T>> : installed<resample_op<T>, prepare_resample<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
