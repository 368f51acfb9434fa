// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/body.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

/// A reduction over adjacent threads of a block: over the threads of a warp by shuffles, then over the warps in order.
/// It takes three phases of a body: one calls `reduce_in_warp`, the next `emulate_warps`, which a GPU skips, and any
/// later one `reduce_warps`. The order depends only on the number of threads, and is the same in the emulation.
///
/// `lanes` threads take part. They are a power of two that divides the block, and begin at a multiple of it. `slots` is
/// block memory with one element for each thread.
#if WEFT_COMPILES_FOR_GPU
namespace weft::gpu {

inline constexpr unsigned warp_lanes = 32;

  #if defined(__CUDA_ARCH__)
namespace detail {

/// T has 1, 2, 4 or 8 bytes. All threads of the warp must call it.
template <class T>
__device__ T shuffle_down(T x, unsigned by, unsigned width) {
  if constexpr (sizeof(T) == 8) {
    unsigned long long bits;
    memcpy(&bits, &x, sizeof x);
    bits = __shfl_down_sync(0xffffffffu, bits, by, static_cast<int>(width));
    memcpy(&x, &bits, sizeof x);
  } else {
    unsigned bits = 0;
    memcpy(&bits, &x, sizeof x);
    bits = __shfl_down_sync(0xffffffffu, bits, by, static_cast<int>(width));
    memcpy(&x, &bits, sizeof x);
  }
  return x;
}

}  // namespace detail
  #endif

/// All threads of a warp must call it.
template <class T, class Merge>
WEFT_HOST_DEVICE void reduce_in_warp(T x, T* slots, unsigned lane, [[maybe_unused]] unsigned lanes,
                                     [[maybe_unused]] const Merge& merge) {
  #if defined(__CUDA_ARCH__)
  const unsigned width = lanes < warp_lanes ? lanes : warp_lanes;
  for (unsigned by = width / 2; by > 0; by /= 2) x = merge(x, detail::shuffle_down(x, by, width));
  if (lane % warp_lanes == 0) slots[lane] = x;
  #else
  slots[lane] = x;
  #endif
}

/// Emulates the shuffles of a GPU, which skips this phase.
template <class T, class Merge>
WEFT_HOST_DEVICE void emulate_warps([[maybe_unused]] T* slots, [[maybe_unused]] unsigned lane,
                                    [[maybe_unused]] unsigned lanes, [[maybe_unused]] const Merge& merge) {
  #if !defined(__CUDA_ARCH__)
  if (lane % warp_lanes != 0) return;
  for (unsigned by = (lanes < warp_lanes ? lanes : warp_lanes) / 2; by > 0; by /= 2)
    for (unsigned l = lane; l < lane + by; ++l) slots[l] = merge(slots[l], slots[l + by]);
  #endif
}

template <class T, class Merge>
WEFT_HOST_DEVICE T reduce_warps(const T* slots, unsigned lanes, const Merge& merge) {
  T x = slots[0];
  for (unsigned l = warp_lanes; l < lanes; l += warp_lanes) x = merge(x, slots[l]);
  return x;
}

}  // namespace weft::gpu
#endif

#pragma pop_macro("slots")
