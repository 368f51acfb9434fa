// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>

#include <weft/config.hpp>
#include <weft/device/gpu/device.hpp>

/// How to write a kernel: as a plain structure that contains its arguments and the code of a thread between two
/// barriers.
///
///     struct body {
///       static constexpr unsigned threads = 256;         // of a block
///       static constexpr int phases = 2;                 // separated by barriers
///       static constexpr unsigned emulated_phases = 0;   // optional: phases that a GPU skips, one bit each
///       struct block_memory { float x[threads]; };       // shared by the threads of a block
///       struct thread_memory { float sum; };             // a thread's state between phases
///       template <int Phase>
///       WEFT_HOST_DEVICE void run(const gpu::place& at, thread_memory& mine, block_memory& ours) const;
///     };
///
/// A GPU runs it as a `__global__` function; the emulation runs the same code, thread by thread and phase by phase.
namespace weft::gpu {

/// The indices of a thread and its block.
struct place {
  unsigned thread, block, blocks, block_y, blocks_y;
};

struct nothing {};

/// A body of blocks of 256 threads, without barriers.
struct plain_body {
  static constexpr unsigned threads = 256;
  static constexpr int phases = 1;
  using block_memory = nothing;
  using thread_memory = nothing;
};

#if WEFT_COMPILES_FOR_GPU

  #if defined(__CUDACC__)

namespace detail {

template <class Body>
inline constexpr unsigned emulated_phases_of = 0;
template <class Body>
  requires requires { Body::emulated_phases; }
inline constexpr unsigned emulated_phases_of<Body> = Body::emulated_phases;

template <int Phase, class Body>
__device__ __forceinline__ void run_phases(const Body& body, const place& at, typename Body::thread_memory& mine,
                                           typename Body::block_memory& ours) {
  constexpr unsigned left_out = emulated_phases_of<Body>;
  if constexpr ((left_out >> Phase) & 1) {
    run_phases<Phase + 1>(body, at, mine, ours);
  } else {
    body.template run<Phase>(at, mine, ours);
    if constexpr (Phase + 1 < Body::phases) {
      __syncthreads();
      run_phases<Phase + 1>(body, at, mine, ours);
    }
  }
}

    // Lets nvcc read the parameter in place; clang copies it if necessary.
    #if defined(__NVCC__)
      #define WEFT_IN_PLACE __grid_constant__
    #else
      #define WEFT_IN_PLACE
    #endif

template <class Body>
__global__ void __launch_bounds__(Body::threads) run_body(const WEFT_IN_PLACE Body body) {
  using block_memory = typename Body::block_memory;
  alignas(block_memory) __shared__ unsigned char bytes[sizeof(block_memory)];  // untouched by constructors
  auto& ours = reinterpret_cast<block_memory&>(bytes);
  typename Body::thread_memory mine;
  const place at{threadIdx.x, blockIdx.x, gridDim.x, blockIdx.y, gridDim.y};
  run_phases<0>(body, at, mine, ours);
}

}  // namespace detail

  #endif

  #if defined(WEFT_GPU_EMULATION)

/// The order in which the emulation runs concurrent work: forwards, or backwards. Both must yield the same result.
inline bool emulate_backwards = false;

namespace detail {

template <int Phase, class Body>
void emulate_phases(const Body& body, place at, typename Body::thread_memory* mine, typename Body::block_memory& ours) {
  for (unsigned k = 0; k < Body::threads; ++k) {
    at.thread = emulate_backwards ? Body::threads - 1 - k : k;
    body.template run<Phase>(at, mine[at.thread], ours);
  }
  if constexpr (Phase + 1 < Body::phases) emulate_phases<Phase + 1>(body, at, mine, ours);
}

template <class Body>
void emulate(const launch_size& size, void** arguments) {
  const Body& body = *static_cast<const Body*>(arguments[0]);
  const auto ours = std::make_unique<typename Body::block_memory>();
  const auto mine = std::make_unique<typename Body::thread_memory[]>(Body::threads);
  const unsigned n = size.blocks * size.blocks_y;
  for (unsigned k = 0; k < n; ++k) {
    const unsigned b = emulate_backwards ? n - 1 - k : k;
    std::memset(static_cast<void*>(ours.get()), 0xff, sizeof *ours);  // a block's memory starts with arbitrary contents
    emulate_phases<0>(body, place{0, b % size.blocks, size.blocks, b / size.blocks, size.blocks_y}, mine.get(), *ours);
  }
}

}  // namespace detail

  #endif

/// Returns the code of a body, for the devices for which this file is compiled.
template <class Body>
function function_of(const char* name) {
  static_assert(sizeof(Body) <= 4096, "the arguments of a kernel must fit in 4096 bytes");
  function f;
  f.name = name;
  f.argument_bytes = sizeof(Body);
  #if defined(__CUDACC__)
  f.device = reinterpret_cast<const void*>(&detail::run_body<Body>);
  #endif
  #if defined(WEFT_GPU_EMULATION)
  f.emulated = detail::emulate<Body>;
  #endif
  return f;
}

/// Adds a launch of a body to a queue, with `blocks` blocks in x and `blocks_y` in y.
template <class Body>
void launch(queue& q, const function& f, Body& body, unsigned blocks, unsigned blocks_y = 1) {
  void* arguments[] = {&body};
  q.launch(f, {blocks, Body::threads, blocks_y, 0}, arguments);
}

#endif

}  // namespace weft::gpu
