// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/axis_rows.hpp>
#include <weft/device/cpu/chunks.hpp>
#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/resampling.hpp>
#include <weft/ops/operation.hpp>
#include <weft/tensor/sequence.hpp>

/// CPU kernel that resamples along an axis; see ops/images/resample.hpp.
WEFT_COLD_BEGIN
namespace weft::detail {

/// Multiplies rows along an axis by a band matrix, whose elements depend only on the extents, or by its transpose.
template <class T>
class resample_kernel final : public kernel {
 public:
  resample_kernel(const prepare_context& p, std::size_t axis, const device::resampling& how, bool transposed)
      : from_(p.input_slots[0]),
        to_(p.output_slots[0]),
        in_(axis_rows(p.inputs[0].extents, axis).extent),
        rows_(p.outputs[0].extents, axis),
        chunks_(rows_.outer * rows_.extent, rows_.outer * rows_.extent * rows_.inner * 4) {
    bands_.resize(rows_.extent);
    const auto out = static_cast<std::size_t>(how.out);
    sequence<double> sums(out);
    for (std::size_t q = 0; q < out; ++q) {
      const auto [begin, end] = how.pixels(static_cast<std::int64_t>(q));
      for (std::int64_t i = begin; i < end; ++i) {
        sums[q] += how.is_wide() ? how.weight(static_cast<std::int64_t>(q), i) : 0;
        if (transposed) {
          band& b = bands_[static_cast<std::size_t>(i)];
          if (b.count++ == 0) b.first = q;
        }
      }
      if (!how.is_wide()) sums[q] = 1;
      if (!transposed) bands_[q] = {static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin), 0};
    }
    std::size_t all = 0;
    for (band& b : bands_) b.weights = all, all += b.count;
    weights_.resize(all);
    for (std::size_t r = 0; r < rows_.extent; ++r)
      for (std::size_t k = 0; k < bands_[r].count; ++k) {
        const std::size_t other = bands_[r].first + k, q = transposed ? other : r, i = transposed ? r : other;
        weights_[bands_[r].weights + k] =
            static_cast<T>(how.weight(static_cast<std::int64_t>(q), static_cast<std::int64_t>(i)) / sums[q]);
      }
  }

  void run(const kernel_context& f) override {
    const T* const x = reinterpret_cast<const T*>(f.buffers[from_]);
    T* const y = reinterpret_cast<T*>(f.buffers[to_]);
    chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) {
      multiversioned_up_to_avx2([this, x, y, begin, end] {
        for (std::size_t r = begin; r < end; ++r)
          row(x + r / rows_.extent * in_ * rows_.inner, r % rows_.extent, y + r * rows_.inner);
      });
    });
  }
  std::size_t memory_bytes() const override { return weights_.memory_bytes() + bands_.memory_bytes(); }
  std::string describe() const override { return str_cat({"resample ", in_, " to ", rows_.extent}); }

 private:
  struct band {
    std::size_t first = 0, count = 0, weights = 0;
  };

  WEFT_INLINE void row(const T* x, std::size_t r, T* y) const {
    constexpr std::size_t block = 512;  // stays in the first-level cache while the rows are added
    const band& b = bands_[r];
    const T* const w = weights_.data() + b.weights;
    const std::size_t inner = rows_.inner;
    x += b.first * inner;
    for (std::size_t begin = 0; begin < inner; begin += block) {
      const std::size_t end = inner - begin < block ? inner : begin + block;
      if (b.count == 0)
        for (std::size_t c = begin; c < end; ++c) y[c] = 0;
      for (std::size_t k = 0; k < b.count; k += 2) {
        const bool two = k + 1 < b.count;
        const T *const first = x + k * inner, *const second = two ? first + inner : first;
        const T u = w[k], v = two ? w[k + 1] : T(0);
        if (k == 0 && two) {
          WEFT_VECTORIZE
          for (std::size_t c = begin; c < end; ++c) y[c] = u * first[c] + v * second[c];
        } else if (k == 0) {
          WEFT_VECTORIZE
          for (std::size_t c = begin; c < end; ++c) y[c] = u * first[c];
        } else if (two) {
          WEFT_VECTORIZE
          for (std::size_t c = begin; c < end; ++c) y[c] += u * first[c] + v * second[c];
        } else {
          WEFT_VECTORIZE
          for (std::size_t c = begin; c < end; ++c) y[c] += u * first[c];
        }
      }
    }
  }

  std::uint32_t from_, to_;
  std::size_t in_;
  axis_rows rows_;
  sequence<band> bands_;
  sequence<T> weights_;
  device::chunks chunks_;
};

}  // namespace weft::detail
WEFT_COLD_END
