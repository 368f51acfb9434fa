#pragma once

#include <cstdint>
#include <cstring>
#include <memory>

#include <weft/config.hpp>
#include <weft/device/gpu/device.hpp>

/// How a kernel is written: as a plain structure, its arguments, with what one thread does between two barriers.
///
///     struct body {
///       static constexpr unsigned threads = 256;         // of a block
///       static constexpr int phases = 2;                 // a barrier between each two
///       static constexpr unsigned emulated_phases = 0;   // may be left out: phases that a GPU skips, one bit each
///       struct block_memory { float x[threads]; };       // shared by the threads of a block
///       struct thread_memory { float sum; };             // what a thread keeps from phase to phase
///       template <int Phase>
///       WEFT_HOST_DEVICE void run(const gpu::place& at, thread_memory& mine, block_memory& ours) const;
///     };
///
/// A GPU runs it as a `__global__` function; the emulation runs the same code, thread by thread and phase by phase.
namespace weft::gpu {

/// Which thread of which block this is.
struct place {
  unsigned thread, block, blocks, block_y, blocks_y;
};

struct nothing {};

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

    // Whether the parameter is read where it lies. Clang copies it, where it has to.
    #if defined(__NVCC__)
      #define WEFT_IN_PLACE __grid_constant__
    #else
      #define WEFT_IN_PLACE
    #endif

template <class Body>
__global__ void __launch_bounds__(Body::threads) run_body(const WEFT_IN_PLACE Body body) {
  using block_memory = typename Body::block_memory;
  alignas(block_memory) __shared__ unsigned char bytes[sizeof(block_memory)];  // which no constructor touches
  auto& ours = reinterpret_cast<block_memory&>(bytes);
  typename Body::thread_memory mine;
  const place at{threadIdx.x, blockIdx.x, gridDim.x, blockIdx.y, gridDim.y};
  run_phases<0>(body, at, mine, ours);
}

}  // namespace detail

  #endif

  #if defined(WEFT_GPU_EMULATION)

/// The order in which the emulation runs what a GPU runs in any order: forwards, or backwards. Both must give the same.
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
    std::memset(static_cast<void*>(ours.get()), 0xff, sizeof *ours);  // a block begins with what another left there
    emulate_phases<0>(body, place{0, b % size.blocks, size.blocks, b / size.blocks, size.blocks_y}, mine.get(), *ours);
  }
}

}  // namespace detail

  #endif

/// The code of a body, for the devices that this file is compiled for.
template <class Body>
function function_of(const char* name) {
  static_assert(sizeof(Body) <= 4096, "the arguments of a kernel take at most 4096 bytes");
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

/// Puts a body into a queue: `blocks` of them in x, and in y.
template <class Body>
void launch(queue& q, const function& f, Body& body, unsigned blocks, unsigned blocks_y = 1) {
  void* arguments[] = {&body};
  q.launch(f, {blocks, Body::threads, blocks_y, 0}, arguments);
}

#endif

}  // namespace weft::gpu
