// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/math.hpp>
#include <weft/device/gpu/arrays.hpp>
#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/warp.hpp>
#include <weft/device/softmax.hpp>

/// Softmax, its logarithm and the cross-entropies, row by row. A block has `rows` x `lanes` threads. The threads of a
/// row pass over it three times, for its largest element, the sum of exponentials, and the results. Shuffles combine
/// their values; a row of up to 128 elements has at most one warp.
namespace weft::gpu {

template <class T>
struct softmax_arguments {
  std::uint32_t rows, columns, lanes_log;
  const T* x;
  const void* labels;  ///< distributions, or classes
  bool wide_labels;
  T* y;       ///< or the losses
  T* second;  ///< softmax - labels, for cross-entropies; for weights, the logarithms, or null
};

/// Returns the binary logarithm of the number of threads that share a row, with about four elements for each.
inline std::uint32_t softmax_lanes_log(std::size_t columns) {
  std::uint32_t log = 2;
  while (log < 8 && (std::size_t{4} << log) < columns) ++log;
  return log;
}

#if WEFT_COMPILES_FOR_GPU

template <softmax_kind Kind, class T>
struct softmax_body : softmax_arguments<T> {
  static constexpr unsigned threads = 256;
  static constexpr int phases = 5;
  static constexpr unsigned emulated_phases = 0b01010;
  static constexpr bool dense = Kind == softmax_kind::cross_entropy;
  struct block_memory {
    T largest[threads], sum[threads], labels[dense ? threads : 1], dot[dense ? threads : 1];
  };
  using thread_memory = nothing;

  template <int Phase>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, block_memory& ours) const {
    const std::uint32_t lanes = 1u << this->lanes_log, lane = at.thread & (lanes - 1);
    const std::uint32_t row = at.block * (threads >> this->lanes_log) + (at.thread >> this->lanes_log);
    const std::uint32_t first = at.thread - lane;  // first slot of the row
    const bool exists = row < this->rows;
    const T* const x = this->x + static_cast<std::size_t>(exists ? row : 0) * this->columns;
    const T* const labels = dense ? static_cast<const T*>(this->labels) + (x - this->x) : nullptr;
    const std::uint32_t columns = exists ? this->columns : 0;
    if constexpr (Phase == 0) {
      T largest = -__builtin_inff();
      for (std::uint32_t c = lane; c < columns; c += lanes) largest = x[c] > largest ? x[c] : largest;
      reduce_in_warp(largest, ours.largest + first, lane, lanes, larger());
    } else if constexpr (Phase == 1) {
      emulate_warps(ours.largest + first, lane, lanes, larger());
    } else if constexpr (Phase == 2) {
      const T largest = reduce_warps(ours.largest + first, lanes, larger());
      T sum = 0, of_labels = 0, dot = 0;
      for (std::uint32_t c = lane; c < columns;) {  // some at a time, to limit rounding in long rows
        T some = 0, some_labels = 0, some_dot = 0;
        for (int i = 0; i < 64 && c < columns; ++i, c += lanes) {
          some += math::exp(x[c] - largest);
          if constexpr (dense) {
            some_labels += labels[c];
            some_dot += labels[c] * (x[c] - largest);
          }
        }
        sum += some, of_labels += some_labels, dot += some_dot;
      }
      reduce_in_warp(sum, ours.sum + first, lane, lanes, added());
      if constexpr (dense) {
        reduce_in_warp(of_labels, ours.labels + first, lane, lanes, added());
        reduce_in_warp(dot, ours.dot + first, lane, lanes, added());
      }
    } else if constexpr (Phase == 3) {
      emulate_warps(ours.sum + first, lane, lanes, added());
      if constexpr (dense) {
        emulate_warps(ours.labels + first, lane, lanes, added());
        emulate_warps(ours.dot + first, lane, lanes, added());
      }
    } else if (exists) {
      write(ours, x, labels, row, first, lane, lanes);
    }
  }

 private:
  struct larger {
    WEFT_HOST_DEVICE T operator()(T a, T b) const { return b > a ? b : a; }
  };
  struct added {
    WEFT_HOST_DEVICE T operator()(T a, T b) const { return a + b; }
  };

  WEFT_HOST_DEVICE void write(const block_memory& ours, const T* x, const T* labels, std::uint32_t row,
                              std::uint32_t first, std::uint32_t lane, std::uint32_t lanes) const {
    const T largest = reduce_warps(ours.largest + first, lanes, larger());
    const T sum = reduce_warps(ours.sum + first, lanes, added());
    const std::size_t start = static_cast<std::size_t>(row) * this->columns;
    if constexpr (Kind == softmax_kind::softmax) {
      const T scale = T(1) / sum;
      for (std::uint32_t c = lane; c < this->columns; c += lanes)
        this->y[start + c] = math::exp(x[c] - largest) * scale;
    } else if constexpr (Kind == softmax_kind::log_softmax) {
      const T shift = math::log(sum);
      for (std::uint32_t c = lane; c < this->columns; c += lanes) this->y[start + c] = (x[c] - largest) - shift;
    } else if constexpr (Kind == softmax_kind::weights) {
      const T infinity = static_cast<T>(__builtin_inff()), scale = T(1) / sum;
      const bool any = largest > -infinity;
      for (std::uint32_t c = lane; c < this->columns; c += lanes)
        this->y[start + c] = any ? math::exp(x[c] - largest) * scale : x[c] == -infinity ? T(0) : x[c];
      if (lane == 0 && this->second) this->second[row] = any ? largest + math::log(sum) : infinity;
    } else if constexpr (Kind == softmax_kind::cross_entropy) {
      const T scale = T(1) / sum;
      if (lane == 0)
        this->y[row] = this->columns ? math::log(sum) * reduce_warps(ours.labels + first, lanes, added()) -
                                           reduce_warps(ours.dot + first, lanes, added())
                                     : T(0);
      for (std::uint32_t c = lane; c < this->columns; c += lanes)
        this->second[start + c] = math::exp(x[c] - largest) * scale - labels[c];
    } else {
      const T scale = T(1) / sum;
      const std::int64_t label = weft::device::index_at(this->labels, this->wide_labels, row);
      const bool valid = label >= 0 && label < static_cast<std::int64_t>(this->columns);
      // A GPU cannot throw: a label out of range yields a loss and gradients of NaN, as in TensorFlow.
      if (lane == 0) this->y[row] = valid ? math::log(sum) - (x[label] - largest) : T(__builtin_nanf(""));
      for (std::uint32_t c = lane; c < this->columns; c += lanes) {
        const T p = math::exp(x[c] - largest) * scale;
        this->second[start + c] = !valid                                   ? T(__builtin_nanf(""))
                                  : c == static_cast<std::uint32_t>(label) ? p - T(1)
                                                                           : p;
      }
    }
  }
};

#endif

}  // namespace weft::gpu
