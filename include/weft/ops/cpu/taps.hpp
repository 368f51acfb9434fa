// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/chunks.hpp>
#include <weft/device/cpu/dispatch.hpp>
#include <weft/ops/operation.hpp>
#include <weft/tensor/check_extents.hpp>

/// CPU kernels of weighted sums of rows by index; see ops/images/taps.hpp.
WEFT_COLD_BEGIN
namespace weft::detail {

/// The computation of a kernel of taps.
enum class tap_kind : unsigned char { sums, transpose, weights };

/// The extents of a call: `outer` images of `rows` rows, and `points` weighted sums of `taps` rows in each.
struct tap_extents {
  std::size_t outer, rows, inner, points, taps;

  /// Throws invalid_argument if run-time extents do not fit.
  tap_extents(const char* name, const shape& rows_of, const shape& points_of, const shape& taps_of)
      : outer(static_cast<std::size_t>(rows_of[0])),
        rows(static_cast<std::size_t>(rows_of[1])),
        inner(static_cast<std::size_t>(rows_of[2])),
        points(static_cast<std::size_t>(points_of[1])),
        taps(static_cast<std::size_t>(taps_of[2])) {
    if (points_of[0] != rows_of[0] || taps_of[0] != rows_of[0] || taps_of[1] != points_of[1])
      throw error(error_code::invalid_argument, name,
                  {"images of extents ", to_string(rows_of), " and positions of ", to_string(taps_of),
                   " must have the same batch"});
  }
};

template <class T, tap_kind Kind>
class taps_kernel final : public kernel {
 public:
  /// The slots of the rows, of the sums, of the weights and of the indices. One of the first three is written.
  taps_kernel(const prepare_context& p, const tap_extents& e, std::uint32_t rows, std::uint32_t sums,
              std::uint32_t weights, std::uint32_t indices)
      : name_(p.node.op->name),
        e_(e),
        slots_{rows, sums, weights, indices},
        chunks_(e.outer * (Kind == tap_kind::transpose ? e.rows : e.points), e.outer * e.points * e.taps * e.inner) {
    if (Kind == tap_kind::transpose && chunks_.count > 16) chunks_.count = 16;  // each chunk reads all of its indices
  }

  void run(const kernel_context& f) override {
    const work all{e_, at<T>(f, 0), at<T>(f, 1), at<T>(f, 2), at<const std::int32_t>(f, 3)};
    chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) {
      multiversioned_up_to_avx2([&all, begin, end] { all(begin, end); });
    });
  }
  std::string describe() const override {
    return str_cat({name_, ", ", e_.outer * e_.points, " of ", e_.taps, " rows of ", e_.inner});
  }

 private:
  struct work {
    const tap_extents& e;
    T *rows, *sums, *weights;
    const std::int32_t* indices;

    WEFT_INLINE void operator()(std::size_t begin, std::size_t end) const {
      if constexpr (Kind == tap_kind::transpose)
        spread(begin, end);
      else
        for (std::size_t i = begin; i < end; ++i) point(i);
    }

    // A block of channels stays in registers or in the first-level cache while the taps are added.
    static constexpr std::size_t block = 64;

    WEFT_INLINE void point(std::size_t i) const {
      const T* const image = rows + i / e.points * e.rows * e.inner;
      const std::int32_t* const index = indices + i * e.taps;
      T* const w = weights + i * e.taps;
      T* const y = sums + i * e.inner;
      if constexpr (Kind == tap_kind::weights) {
        for (std::size_t k = 0; k < e.taps; ++k) {
          w[k] = 0;
          if (static_cast<std::uint32_t>(index[k]) < e.rows)
            w[k] = dot(y, image + static_cast<std::size_t>(index[k]) * e.inner);
        }
        return;
      }
      switch (e.inner) {  // loops over few channels are unrolled
        case 1:
          return add<1>(image, index, w, y, 1);
        case 2:
          return add<2>(image, index, w, y, 2);
        case 3:
          return add<3>(image, index, w, y, 3);
        case 4:
          return add<4>(image, index, w, y, 4);
        default:
          break;
      }
      for (std::size_t c = 0; c < e.inner; c += block)
        if (e.inner - c >= block)
          add<block>(image + c, index, w, y + c, block);
        else
          add<0>(image + c, index, w, y + c, e.inner - c);
    }

    WEFT_INLINE T dot(const T* x, const T* y) const {
      constexpr std::size_t lanes = 16;
      T sums_of[lanes] = {}, sum = 0;
      std::size_t c = 0;
      for (; c + lanes <= e.inner; c += lanes) {
        WEFT_VECTORIZE
        for (std::size_t i = 0; i < lanes; ++i) sums_of[i] += x[c + i] * y[c + i];
      }
      for (; c < e.inner; ++c) sum += x[c] * y[c];
      for (const T s : sums_of) sum += s;
      return sum;
    }

    template <std::size_t Known>
    WEFT_INLINE void add(const T* image, const std::int32_t* index, const T* w, T* y, std::size_t given) const {
      static constexpr T zeros[block] = {};
      const std::size_t n = Known ? Known : given;
      // Four taps at a time; those out of range read zeros, so that they add nothing to an infinite sum.
      for (std::size_t k = 0; k < e.taps; k += 4) {
        const T* row[4];
        T factor[4];
        for (std::size_t j = 0; j < 4; ++j) {
          const bool there = k + j < e.taps && static_cast<std::uint32_t>(index[k + j]) < e.rows;
          row[j] = there ? image + static_cast<std::size_t>(index[k + j]) * e.inner : zeros;
          factor[j] = there ? w[k + j] : T(0);
        }
        const T *const a = row[0], *const b = row[1], *const c = row[2], *const d = row[3];
        const T fa = factor[0], fb = factor[1], fc = factor[2], fd = factor[3];
        if (k == 0) {
          WEFT_VECTORIZE
          for (std::size_t i = 0; i < n; ++i) y[i] = (fa * a[i] + fb * b[i]) + (fc * c[i] + fd * d[i]);
        } else {
          WEFT_VECTORIZE
          for (std::size_t i = 0; i < n; ++i) y[i] += (fa * a[i] + fb * b[i]) + (fc * c[i] + fd * d[i]);
        }
      }
    }

    /// Computes the rows [begin, end), counted over all images, in the order of the points.
    WEFT_INLINE void spread(std::size_t begin, std::size_t end) const {
      for (std::size_t i = begin * e.inner; i < end * e.inner; ++i) rows[i] = 0;
      for (std::size_t outer = begin / e.rows; outer * e.rows < end; ++outer) {
        const std::size_t first = outer * e.rows;
        const std::size_t low = begin > first ? begin - first : 0, high = end - first < e.rows ? end - first : e.rows;
        for (std::size_t i = outer * e.points * e.taps; i < (outer + 1) * e.points * e.taps; ++i) {
          const auto row = static_cast<std::uint32_t>(indices[i]);
          if (row < low || row >= high) continue;
          T* const to = rows + (first + row) * e.inner;
          const T* const y = sums + i / e.taps * e.inner;
          const T w = weights[i];
          WEFT_VECTORIZE
          for (std::size_t c = 0; c < e.inner; ++c) to[c] += w * y[c];
        }
      }
    }
  };

  template <class U>
  U* at(const kernel_context& f, int i) const {
    return reinterpret_cast<U*>(f.buffers[slots_[i]]);
  }

  const char* name_;
  tap_extents e_;
  std::uint32_t slots_[4];
  device::chunks chunks_;
};

}  // namespace weft::detail
WEFT_COLD_END
