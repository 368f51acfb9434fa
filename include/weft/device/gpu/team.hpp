// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/body.hpp>

/// How to write a kernel whose threads join in collectives of CUB, possibly in a loop: as a plain structure that
/// contains its arguments and the code of a team of threads. A team is a warp or a block.
///
///     struct body {
///       static constexpr unsigned threads = 256;      // of a block
///       static constexpr unsigned lanes = 32;         // of a team: 32, or all of the block
///       struct team_memory { float x[32]; };          // shared by a team's threads
///       struct thread_memory { float sum; };          // a thread's state between parts
///       template <class Team>
///       WEFT_HOST_DEVICE void run(Team& team) const;
///     };
///
/// `team.each([&](unsigned lane, thread_memory& mine) { ... })` contains the code of each thread; its writes to
/// `team.memory` are visible to all threads when it returns. `team.meet(collective)` runs a collective. Everything else
/// in `run`, in particular its loops, must depend only on the team, so that every thread of the team does the same.
///
/// The emulation runs the same code: `each` is a loop over the threads, and a plain loop over the threads' values
/// replaces CUB's collective. A collective defines both:
///
///     __device__ void device(unsigned lane, thread_memory& mine, team_memory& ours) const;
///     void emulated(thread_memory* threads, team_memory& ours) const;
namespace weft::gpu {

#if WEFT_COMPILES_FOR_GPU

  #if defined(__CUDACC__)

namespace detail {

/// A team, for one of its threads.
template <class Body>
struct device_team {
  unsigned number;  ///< among all teams
  unsigned lane;
  typename Body::team_memory& memory;
  typename Body::thread_memory mine;

  template <class F>
  WEFT_HOST_DEVICE void each(const F& f) {
    f(lane, mine);
    wait();
  }
  template <class Collective>
  WEFT_HOST_DEVICE void meet([[maybe_unused]] const Collective& c) {
    #if defined(__CUDA_ARCH__)
    c.device(lane, mine, memory);
    #endif
    wait();
  }

 private:
  WEFT_HOST_DEVICE static void wait() {
    #if defined(__CUDA_ARCH__)
    if constexpr (Body::lanes == 32)
      __syncwarp();
    else
      __syncthreads();
    #endif
  }
};

template <class Body>
__global__ void __launch_bounds__(Body::threads) run_teams(const WEFT_IN_PLACE Body body) {
  static_assert(Body::lanes == 32 || Body::lanes == Body::threads);
  using memory = typename Body::team_memory;
  alignas(memory) __shared__ unsigned char bytes[Body::threads / Body::lanes * sizeof(memory)];
  const unsigned team = threadIdx.x / Body::lanes;
  device_team<Body> mine{blockIdx.x * (Body::threads / Body::lanes) + team,
                         threadIdx.x % Body::lanes,
                         reinterpret_cast<memory*>(bytes)[team],
                         {}};
  body.run(mine);
}

}  // namespace detail

  #endif

  #if defined(WEFT_GPU_EMULATION)

namespace detail {

template <class Body>
struct emulated_team {
  unsigned number;
  typename Body::team_memory& memory;
  typename Body::thread_memory* threads;

  template <class F>
  void each(const F& f) {
    for (unsigned k = 0; k < Body::lanes; ++k) {
      const unsigned lane = emulate_backwards ? Body::lanes - 1 - k : k;
      f(lane, threads[lane]);
    }
  }
  template <class Collective>
  void meet(const Collective& c) {
    c.emulated(threads, memory);
  }
};

template <class Body>
void emulate_teams(const launch_size& size, void** arguments) {
  const Body& body = *static_cast<const Body*>(arguments[0]);
  const auto ours = std::make_unique<typename Body::team_memory>();
  const auto threads = std::make_unique<typename Body::thread_memory[]>(Body::lanes);
  const unsigned n = size.blocks * (Body::threads / Body::lanes);
  for (unsigned k = 0; k < n; ++k) {
    std::memset(static_cast<void*>(ours.get()), 0xff, sizeof *ours);  // a team's memory starts with arbitrary contents
    emulated_team<Body> team{emulate_backwards ? n - 1 - k : k, *ours, threads.get()};
    body.run(team);
  }
}

}  // namespace detail

  #endif

/// Returns the code of such a body, for the devices for which this file is compiled.
template <class Body>
function function_of_teams(const char* name) {
  static_assert(sizeof(Body) <= 4096, "the arguments of a kernel must fit in 4096 bytes");
  function f;
  f.name = name;
  f.argument_bytes = sizeof(Body);
  #if defined(__CUDACC__)
  f.device = reinterpret_cast<const void*>(&detail::run_teams<Body>);
  #endif
  #if defined(WEFT_GPU_EMULATION)
  f.emulated = detail::emulate_teams<Body>;
  #endif
  return f;
}

/// Returns the number of blocks for this many teams.
template <class Body>
std::size_t blocks_for_teams(std::size_t teams) {
  constexpr std::size_t of_a_block = Body::threads / Body::lanes;
  return (teams + of_a_block - 1) / of_a_block;
}

#endif

}  // namespace weft::gpu
