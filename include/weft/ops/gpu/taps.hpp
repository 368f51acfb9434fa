// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/gpu/install.hpp>
#include <weft/ops/images/taps.hpp>

/// GPU kernels of weighted sums of rows by index.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
inline namespace WEFT_GPU_FILE {

/// Sums and weights have a thread for each element of the result. The gradient of rows has a thread for each image and
/// channel, which visits the taps in order, so that the bits are the same in every run.
template <class T, weft::detail::tap_kind Kind>
struct taps_work {
  using kind = weft::detail::tap_kind;
  weft::detail::tap_extents e;
  T *rows, *sums, *weights;
  const std::int32_t* indices;

  std::size_t threads() const {
    return e.outer * (Kind == kind::transpose ? e.inner : e.points * (Kind == kind::sums ? e.inner : e.taps));
  }

  WEFT_HOST_DEVICE void operator()(std::size_t i) const {
    if constexpr (Kind == kind::sums) {
      const std::size_t point = i / e.inner, c = i % e.inner;
      T sum = 0;
      for (std::size_t k = point * e.taps; k < (point + 1) * e.taps; ++k)
        if (is_row(indices[k])) sum += weights[k] * rows[place(point / e.points, indices[k], c)];
      sums[i] = sum;
    } else if constexpr (Kind == kind::weights) {
      const std::size_t point = i / e.taps;
      T sum = 0;
      if (is_row(indices[i]))
        for (std::size_t c = 0; c < e.inner; ++c)
          sum += sums[point * e.inner + c] * rows[place(point / e.points, indices[i], c)];
      weights[i] = sum;
    } else {
      const std::size_t outer = i / e.inner, c = i % e.inner;
      for (std::size_t r = 0; r < e.rows; ++r) rows[(outer * e.rows + r) * e.inner + c] = 0;
      for (std::size_t k = outer * e.points * e.taps; k < (outer + 1) * e.points * e.taps; ++k)
        if (is_row(indices[k])) rows[place(outer, indices[k], c)] += weights[k] * sums[k / e.taps * e.inner + c];
    }
  }

 private:
  WEFT_HOST_DEVICE bool is_row(std::int32_t index) const { return static_cast<std::uint32_t>(index) < e.rows; }
  WEFT_HOST_DEVICE std::size_t place(std::size_t outer, std::int32_t index, std::size_t c) const {
    return (outer * e.rows + static_cast<std::size_t>(index)) * e.inner + c;
  }
};

template <class T, weft::detail::tap_kind Kind>
kernel* prepare_taps(const prepare_context& p, device&) {
  using kind = weft::detail::tap_kind;
  using w = taps_work<T, Kind>;
  const shape &a = p.inputs[0].extents, &b = p.inputs[1].extents, &out = p.outputs[0].extents;
  const auto make = [&](const weft::detail::tap_extents& e, auto... pointers) {
    const w work{e, nullptr, nullptr, nullptr, nullptr};
    return make_each(p, p.node.op->name, work, work.threads(), pointers...);
  };
  const char* const name = p.node.op->name;
  if constexpr (Kind == kind::sums) return make({name, a, out, b}, &w::rows, &w::weights, &w::indices, &w::sums);
  if constexpr (Kind == kind::transpose) return make({name, out, a, b}, &w::sums, &w::weights, &w::indices, &w::rows);
  return make({name, a, b, out}, &w::rows, &w::sums, &w::indices, &w::weights);
}

}  // namespace WEFT_GPU_FILE

template <class T>
struct kernels<taps_op<T>> {
  kernels() {
    using kind = weft::detail::tap_kind;
    install<taps_op<T>>({.prepare = prepare_taps<T, kind::sums>});
    install<taps_transpose_op<T>>({.prepare = prepare_taps<T, kind::transpose>});
    install<taps_weights_op<T>>({.prepare = prepare_taps<T, kind::weights>});
  }
};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
