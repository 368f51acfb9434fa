// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/axis_rows.hpp>
#include <weft/device/cpu/chunks.hpp>
#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/cpu/resample_row.hpp>
#include <weft/device/resampling.hpp>
#include <weft/ops/operation.hpp>
#include <weft/tensor/sequence.hpp>

/// CPU kernel that resamples along an axis; see ops/images/resample.hpp.
WEFT_COLD_BEGIN
namespace weft::detail {

/// The band matrix of a resampling, or its transpose: the weights of each of `extent` rows.
template <class T>
struct resample_weights {
  resample_weights(const device::resampling& how, std::size_t extent, bool transposed) {
    bands.resize(extent);
    const auto out = static_cast<std::size_t>(how.out);
    sequence<double> sums(out);
    for (std::size_t q = 0; q < out; ++q) {
      const auto [begin, end] = how.pixels(static_cast<std::int64_t>(q));
      for (std::int64_t i = begin; i < end; ++i) {
        sums[q] += how.is_wide() ? how.weight(static_cast<std::int64_t>(q), i) : 0;
        if (transposed) {
          device::resample_band& b = bands[static_cast<std::size_t>(i)];
          if (b.count++ == 0) b.first = q;
        }
      }
      if (!how.is_wide()) sums[q] = 1;
      if (!transposed) bands[q] = {static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin), 0};
    }
    std::size_t count = 0;
    for (device::resample_band& b : bands) b.weights = count, count += b.count;
    all.resize(count);
    for (std::size_t r = 0; r < extent; ++r)
      for (std::size_t k = 0; k < bands[r].count; ++k) {
        const std::size_t other = bands[r].first + k, q = transposed ? other : r, i = transposed ? r : other;
        all[bands[r].weights + k] =
            static_cast<T>(how.weight(static_cast<std::int64_t>(q), static_cast<std::int64_t>(i)) / sums[q]);
      }
  }

  sequence<device::resample_band> bands;
  sequence<T> all;
};

/// Multiplies rows along an axis by a band matrix, whose elements depend only on the extents, or by its transpose.
template <class T>
class resample_kernel final : public kernel {
 public:
  resample_kernel(const prepare_context& p, std::size_t axis, const device::resampling& how, bool transposed)
      : from_(p.input_slots[0]),
        to_(p.output_slots[0]),
        in_(axis_rows(p.inputs[0].extents, axis).extent),
        rows_(p.outputs[0].extents, axis),
        weights_(how, rows_.extent, transposed),
        chunks_(rows_.outer * rows_.extent, rows_.outer * rows_.extent * rows_.inner * 4) {}

  void run(const kernel_context& f) override {
    const T* const x = reinterpret_cast<const T*>(f.buffers[from_]);
    T* const y = reinterpret_cast<T*>(f.buffers[to_]);
    chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) {
      multiversioned_up_to_avx2([this, x, y, begin, end] {
        const T* const weights = weights_.all.data();
        const std::size_t inner = rows_.inner, image = in_ * inner;
        for (std::size_t r = begin; r < end; ++r)
          device::resample_row(x + r / rows_.extent * image, weights_.bands[r % rows_.extent], weights, inner,
                               y + r * inner);
      });
    });
  }
  std::size_t memory_bytes() const override { return weights_.all.memory_bytes() + weights_.bands.memory_bytes(); }
  std::string describe() const override { return str_cat({"resample ", in_, " to ", rows_.extent}); }

 private:
  std::uint32_t from_, to_;
  std::size_t in_;
  axis_rows rows_;
  resample_weights<T> weights_;
  device::chunks chunks_;
};

}  // namespace weft::detail
WEFT_COLD_END
