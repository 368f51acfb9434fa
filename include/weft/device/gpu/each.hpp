// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <weft/device/gpu/body.hpp>

/// A program may contain files that are compiled for GPUs and files that are not, and both include the headers of GPU
/// operations. Code that differs between the two, because only one has kernels, is in an inline namespace named after
/// the kind of file, so that the linker does not merge the versions.
#if defined(WEFT_GPU_EMULATION)
  #define WEFT_GPU_FILE for_emulated_gpus
#elif WEFT_COMPILES_FOR_GPU
  #define WEFT_GPU_FILE for_gpus
#else
  #define WEFT_GPU_FILE for_libraries_alone
#endif

#if WEFT_COMPILES_FOR_GPU
namespace weft::gpu {
inline namespace WEFT_GPU_FILE {

/// A kernel with independent threads: runs `work(0)` ... `work(n - 1)` in any order.
template <class Work, unsigned Threads = 256>
struct each {
  static constexpr unsigned threads = Threads;
  static constexpr int phases = 1;
  using block_memory = nothing;
  using thread_memory = nothing;

  Work work;
  std::size_t n;

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    const std::size_t step = std::size_t{at.blocks} * threads;
    for (std::size_t i = std::size_t{at.block} * threads + at.thread; i < n; i += step) work(i);
  }
  unsigned blocks() const {
    constexpr std::size_t most = std::size_t{1} << 20;
    const std::size_t all = (n + threads - 1) / threads;
    return static_cast<unsigned>(all < most ? all : most);
  }
};

/// Adds `work` to the queue: a struct of pointers and numbers whose call operator is WEFT_HOST_DEVICE.
template <class Work>
void launch_each(queue& q, const char* name, const Work& work, std::size_t n) {
  if (n == 0) return;
  each<Work> body{work, n};
  launch(q, function_of<each<Work>>(name), body, body.blocks());
}

}  // namespace WEFT_GPU_FILE
}  // namespace weft::gpu
#endif
