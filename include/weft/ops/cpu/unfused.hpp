// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/cpu/loop.hpp>

/// Loops that round each product and each sum separately.
namespace weft::detail {

// An update yields the same bits on every machine, on a worker and on a parameter server. It is memory-bound, so
// vectors wider than AVX2's would not help.
template <device::block_function Loop>
#if defined(__x86_64__)
WEFT_UNFUSED()
#else
WEFT_UNFUSED("O3,")  // the only version
#endif
void unfused_plain(const void* const* in, void* const* out, std::size_t n, const std::uint64_t* literals) {
  Loop(in, out, n, literals);
}
#if defined(__x86_64__)
template <device::block_function Loop>
__attribute__((target("avx2"))) WEFT_UNFUSED("O3,") void unfused_avx2(const void* const* in, void* const* out,
                                                                      std::size_t n, const std::uint64_t* literals) {
  Loop(in, out, n, literals);
}
#endif

template <device::block_function Loop>
device::block_function unfused() {
#if defined(__x86_64__)
  if (detected_isa() != isa::baseline) return unfused_avx2<Loop>;
#endif
  return unfused_plain<Loop>;
}

}  // namespace weft::detail
