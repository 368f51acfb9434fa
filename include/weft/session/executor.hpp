// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <time.h>

#include <string>

#include <weft/device/cpu/thread_pool.hpp>
#include <weft/plan/binding.hpp>
#include <weft/session/session_resources.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

inline std::uint64_t nanoseconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
}

/// Start and end times of each instruction of a step.
struct step_times {
  struct span {
    std::uint64_t began = 0, ended = 0;
  };
  sequence<span> of;
};

/// Runs programs on CPU devices: the kernels of a lane run in order, and lanes run in parallel. Before a kernel runs,
/// the lane waits until other lanes have finished the kernels on which it depends.
class cpu_executor {
 public:
  explicit cpu_executor(const plan::program& p)
      : p_(p), progress_(p.lanes.size()), position_(p.instructions.size(), 0) {
    for (const auto& lane : p.lanes)
      for (std::uint32_t k = 0; k < lane.size(); ++k) position_[lane[k]] = k + 1;
  }

  /// `times`: receives measurements if it is not null.
  void run(const plan::binding& b, const session_resources& s, step_times* times) {
    if (p_.lanes.size() == 1 || inside_parallel_for)
      return run_in_order(b, *s.pools[0], times, 0, static_cast<std::uint32_t>(b.kernels.size()));
    for (lane_progress& l : progress_) l.done = 0;
    failed_ = false;
    s.lane_threads->parallel_for(p_.lanes.size(), [&](std::size_t lane) {
      // Each device has its own intra-op threads, so a lane can use them although this thread already runs shared work.
      const bool outer = inside_parallel_for;
      inside_parallel_for = false;
      struct restore {
        bool to;
        ~restore() { inside_parallel_for = to; }
      } guard{outer};
      const std::size_t device = lane / p_.lanes_per_device;
      const stay_on_cores here(s.cores[device]);
      run_lane(lane, b, *s.pools[device], times);
    });
  }

  /// Runs only the instructions [first, end) of a program with one lane.
  void run_in_order(const plan::binding& b, thread_pool& threads, step_times* times, std::uint32_t first,
                    std::uint32_t end);

 private:
  struct alignas(64) lane_progress {
    std::uint32_t done = 0;
  };

  void run_lane(std::size_t lane, const plan::binding& b, thread_pool& threads, step_times* times) {
    kernel_context f{b.addresses.data(), &threads};
    std::uint32_t done = 0;
    for (const std::uint32_t i : p_.lanes[lane]) {
      for (const std::uint32_t j : p_.instructions[i].dependencies)
        if (!await(j)) return;
      try {
        run_measured(b, i, f, times);
      } catch (...) {
        __atomic_store_n(&failed_, true, __ATOMIC_RELEASE);
        throw;
      }
      __atomic_store_n(&progress_[lane].done, ++done, __ATOMIC_RELEASE);
    }
  }

  bool await(std::uint32_t i) {
    const lane_progress& other = progress_[p_.instructions[i].lane];
    for (unsigned spins = 0; __atomic_load_n(&other.done, __ATOMIC_ACQUIRE) < position_[i]; ++spins) {
      if (__atomic_load_n(&failed_, __ATOMIC_ACQUIRE)) return false;
      if (spins < 1000)
        cpu_relax();
      else if (spins < 100'000)
        sched_yield();
      else {  // the other lane may be blocked, for example in a queue
        const timespec a_moment{0, 100'000};
        nanosleep(&a_moment, nullptr);
      }
    }
    return true;
  }

  void run_measured(const plan::binding& b, std::uint32_t i, kernel_context& f, step_times* times) const {
    if (times) times->of[i].began = nanoseconds();
    f.workspace = b.workspaces[i];
    try {
      b.kernels[i]->run(f);
    } catch (const error& e) {
      throw error(e.code(), p_.name(p_.instructions[i]), e.sentence());
    }
    if (times) times->of[i].ended = nanoseconds();
  }

  const plan::program& p_;
  sequence<lane_progress> progress_;
  sequence<std::uint32_t> position_;  // 1-based position of each instruction in its lane
  bool failed_ = false;
};

WEFT_COLD_END

// Optimized for speed: small steps spend most of their time here.
inline void cpu_executor::run_in_order(const plan::binding& b, thread_pool& threads, step_times* times,
                                       std::uint32_t first, std::uint32_t end) {
  kernel_context f{b.addresses.data(), &threads};
  if (times) {
    for (std::uint32_t i = first; i < end; ++i) run_measured(b, i, f, times);
    return;
  }
  std::uint32_t i = first;
  try {
    for (; i < end; ++i) {
      f.workspace = b.workspaces[i];
      b.kernels[i]->run(f);
    }
  } catch (const error& e) {
    throw error(e.code(), p_.name(p_.instructions[i]), e.sentence());
  }
}

}  // namespace weft::detail
