// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/axis_rows.hpp>
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
kernel* prepare_resample(const prepare_context& p, device&) {
  using w = resample_work<T>;
  const auto a = attributes_of<resample_op<T>>(p.node);
  const axis_rows rows(p.outputs[0].extents, a.axis);
  const w work{weft::detail::resampling_of(p, a),
               a.transposed,
               nullptr,
               nullptr,
               static_cast<std::size_t>(p.inputs[0].extents[a.axis]),
               rows.extent,
               rows.inner};
  return make_each(p, "resample", work, p.outputs[0].extents.elements(), &w::x, &w::y);
}

}  // namespace WEFT_GPU_FILE

template <class T>
struct kernels<resample_op<T>> : installed<resample_op<T>, prepare_resample<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
