// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/argmax.hpp>
#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/indexing.hpp>
#include <weft/device/index_at.hpp>

/// Kernels that search an element, or write at the positions of elements.
namespace weft::gpu {

#if WEFT_COMPILES_FOR_GPU

/// Finds the index of the largest element along an axis, or of the first if several are equal; skips NaNs
/// (device/argmax.hpp). If there are few results of long rows, `splits` blocks share each row, and a second launch
/// combines their results.
template <class T>
struct argmax_body {
  static constexpr unsigned threads = 256;
  static constexpr int phases = 3;
  struct block_memory {
    T value[threads];
    std::int32_t index[threads];  // -1: no element found
  };
  using thread_memory = nothing;

  const T* x;
  std::int32_t* to;
  std::uint32_t results, extent, results_log;  ///< results of a block: 2^results_log
  divisor inner;                               ///< distance between adjacent elements along the axis
  std::uint32_t split;                         ///< elements of each row that a block examines
  T* found;                                    ///< with splits: the values found, and
  std::int32_t* found_at;                      ///< their indices

  template <int Phase>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, block_memory& ours) const {
    const std::uint32_t lanes_log = 8 - results_log, lanes = 1u << lanes_log;
    // Adjacent threads read adjacent elements: along the axis if it is the innermost, otherwise of different results.
    const bool across = inner.extent > 1;
    const std::uint32_t column = across ? at.thread & ((1u << results_log) - 1) : at.thread >> lanes_log;
    const std::uint32_t lane = across ? at.thread >> results_log : at.thread & (lanes - 1);
    const std::uint32_t result = (at.block << results_log) + column;
    const auto slot = [&](std::uint32_t l) { return (l << results_log) + column; };
    if (result >= results) return;
    const std::uint32_t outer = inner.divide(result);
    const T* const first = x + outer * extent * inner.extent + (result - outer * inner.extent);
    if constexpr (Phase == 0) {
      T best = weft::device::below_all<T>();
      std::int32_t index = -1;
      const std::uint32_t begin = at.block_y * split, end = extent - begin < split ? extent : begin + split;
      for (std::uint32_t k = begin + lane; k < end; k += lanes) {
        const T value = first[k * inner.extent];
        if (value > best) best = value, index = static_cast<std::int32_t>(k);
      }
      ours.value[slot(lane)] = best;
      ours.index[slot(lane)] = index;
    } else if constexpr (Phase == 1) {
      if (lane < 16) look(ours, slot, lane, lane + 16, lanes, 16);
    } else if (lane == 0) {
      look(ours, slot, 0, 1, lanes < 16 ? lanes : 16, 1);
      if (found) {
        found[at.block_y * results + result] = ours.value[slot(0)];
        found_at[at.block_y * results + result] = ours.index[slot(0)];
      } else {
        to[result] = ours.index[slot(0)] < 0 ? 0 : ours.index[slot(0)];
      }
    }
  }

 private:
  template <class Slot>
  WEFT_HOST_DEVICE static void look(block_memory& ours, const Slot& slot, std::uint32_t mine, std::uint32_t begin,
                                    std::uint32_t end, std::uint32_t step) {
    T best = ours.value[slot(mine)];
    std::int32_t index = ours.index[slot(mine)];
    for (std::uint32_t l = begin; l < end; l += step) {
      const T value = ours.value[slot(l)];
      const std::int32_t other = ours.index[slot(l)];
      if (other >= 0 && (index < 0 || value > best || (value == best && other < index))) best = value, index = other;
    }
    ours.value[slot(mine)] = best;
    ours.index[slot(mine)] = index;
  }
};

/// Combines the results of splits in order; the first has the smallest indices.
template <class T>
struct argmax_of_found {
  const T* found;
  const std::int32_t* found_at;
  std::int32_t* to;
  std::size_t results, splits;

  WEFT_HOST_DEVICE void operator()(std::size_t result) const {
    T best = weft::device::below_all<T>();
    std::int32_t index = -1;
    for (std::size_t s = 0; s < splits; ++s) {
      const T value = found[s * results + result];
      const std::int32_t other = found_at[s * results + result];
      if (other >= 0 && (index < 0 || value > best)) best = value, index = other;
    }
    to[result] = index < 0 ? 0 : index;
  }
};

/// Writes rows of zeros with a one at each label.
template <class T>
struct one_hot_work {
  const void* labels;
  T* to;
  bool wide_labels;
  divisor depth;

  WEFT_HOST_DEVICE void operator()(std::size_t at) const {
    const auto i = static_cast<std::uint32_t>(at), row = depth.divide(i);
    to[i] = T(weft::device::index_at(labels, wide_labels, row) == static_cast<std::int64_t>(i - row * depth.extent));
  }
};

/// Writes a few numbers that are known when the step is prepared.
struct numbers_work {
  std::int64_t* to;
  std::int64_t numbers[max_rank];

  WEFT_HOST_DEVICE void operator()(std::size_t i) const { to[i] = numbers[i]; }
};

#endif

}  // namespace weft::gpu
