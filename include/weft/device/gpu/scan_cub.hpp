// SPDX-License-Identifier: BSL-1.0
#pragma once

#if defined(__CUDACC__)
  #include <cub/block/block_scan.cuh>
  #include <cub/warp/warp_scan.cuh>
#endif

#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/indexing.hpp>
#include <weft/device/gpu/team.hpp>
#include <weft/device/scan.hpp>

/// Cumulative sums along an axis. A thread, a warp or a block sums a row, tile by tile, and carries the sum from each
/// tile to the next. If rows are few and long, they are divided into parts: a first launch sums each part, a second one
/// sums the preceding parts, and a third one starts with these sums. No block waits for another. In CUB's device-wide
/// scans, the order of a sum depends on which block arrived first; here it depends only on the extents.
namespace weft::gpu {

#if WEFT_COMPILES_FOR_GPU

template <class T>
struct scan_arguments : row_places {
  const T* x;
  T* y;
  bool exclusive, reverse;
  // For blocks, the length of a part of a row, and the number of parts. With `sums`, parts are only summed; with
  // `sums_before`, they start with these sums.
  std::uint32_t part;
  divisor parts;
  scan_sum<T>* sums;
  const scan_sum<T>* sums_before;

  /// Returns the offset of the p-th summand of a row.
  WEFT_HOST_DEVICE std::uint32_t offset_of(std::uint32_t p) const {
    return (reverse ? extent - 1 - p : p) * inner.extent;
  }
};

/// One row for each thread, for rows that are interleaved in memory, or short.
template <class T>
struct scan_by_threads : scan_arguments<T> {
  static constexpr unsigned threads = 256;
  static constexpr int phases = 1;
  using block_memory = nothing;
  using thread_memory = nothing;

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    const std::uint32_t row = at.block * threads + at.thread;
    if (row >= this->rows) return;
    const std::uint32_t start = this->start_of(row);
    scan_sum<T> sum{};
    for (std::uint32_t p = 0; p < this->extent; ++p) {
      const std::uint32_t i = start + this->offset_of(p);
      const scan_sum<T> before = sum;
      sum += static_cast<scan_sum<T>>(this->x[i]);
      this->y[i] = static_cast<T>(this->exclusive ? before : sum);
    }
  }
};

/// Computes, for each of `Lanes` threads, the sum over the preceding threads, and the sum over all threads.
template <class T, unsigned Lanes>
struct exclusive_sums {
  #if defined(__CUDACC__)
  using cub_scan = std::conditional_t<Lanes == 32, cub::WarpScan<T>, cub::BlockScan<T, Lanes>>;
  using storage = typename cub_scan::TempStorage;

  template <class Thread, class Team>
  __device__ void device(unsigned lane, Thread& mine, Team& ours) const {
    T total;
    cub_scan(ours.for_sums).ExclusiveSum(mine.sum, mine.before, total);
    if (lane == 0) ours.total = total;
  }
  #else
  using storage = nothing;
  #endif

  template <class Thread, class Team>
  void emulated(Thread* threads, Team& ours) const {
    T sum{};
    for (unsigned lane = 0; lane < Lanes; ++lane) {
      threads[lane].before = sum;
      sum += threads[lane].sum;
    }
    ours.total = sum;
  }
};

/// One row for each team, a warp or a block. The threads of a team read a tile coalesced, and each sums `Items`
/// adjacent elements.
template <class T, unsigned Lanes, unsigned Items>
struct scan_by_teams : scan_arguments<T> {
  static constexpr unsigned threads = 256, lanes = Lanes, tile = Lanes * Items;
  using sum_type = scan_sum<T>;
  using collective = exclusive_sums<sum_type, Lanes>;
  struct team_memory {
    sum_type x[tile + tile / 32];
    sum_type total;
    typename collective::storage for_sums;
  };
  struct thread_memory {
    sum_type sum, before;
  };

  /// Avoids bank conflicts between the adjacent elements of different threads.
  WEFT_HOST_DEVICE static constexpr unsigned slot(unsigned i) { return i + i / 32; }

  template <class Team>
  WEFT_HOST_DEVICE void run(Team& team) const {
    const std::uint32_t row = this->parts.divide(team.number);
    if (row >= this->rows) return;
    const std::uint32_t start = this->start_of(row), begin = (team.number - row * this->parts.extent) * this->part;
    const std::uint32_t end = this->extent - begin < this->part ? this->extent : begin + this->part;
    sum_type sum_before = this->sums_before ? this->sums_before[team.number] : sum_type{};  // the sum of the preceding
                                                                                            // tiles
    for (std::uint32_t first = begin; first < end; first += tile) {
      team.each([&](unsigned lane, thread_memory&) {
        for (unsigned i = lane; i < tile; i += Lanes)
          team.memory.x[slot(i)] =
              first + i < end ? static_cast<sum_type>(this->x[start + this->offset_of(first + i)]) : sum_type{};
      });
      team.each([&](unsigned lane, thread_memory& mine) {
        mine.sum = sum_type{};
        for (unsigned i = 0; i < Items; ++i) mine.sum += team.memory.x[slot(lane * Items + i)];
      });
      team.meet(collective{});
      if (this->sums) {
        sum_before += team.memory.total;
        team.each([](unsigned, thread_memory&) {});  // all threads have read it
        continue;
      }
      team.each([&](unsigned lane, thread_memory& mine) {
        sum_type sum = sum_before + mine.before;
        for (unsigned i = 0; i < Items; ++i) {
          sum_type& x = team.memory.x[slot(lane * Items + i)];
          const sum_type before = sum;
          sum += x;
          x = this->exclusive ? before : sum;
        }
      });
      sum_before += team.memory.total;
      team.each([&](unsigned lane, thread_memory&) {
        for (unsigned i = lane; i < tile; i += Lanes)
          if (first + i < end) this->y[start + this->offset_of(first + i)] = static_cast<T>(team.memory.x[slot(i)]);
      });
    }
    if (this->sums)
      team.each([&](unsigned lane, thread_memory&) {
        if (lane == 0) this->sums[team.number] = sum_before;
      });
  }
};

#endif

}  // namespace weft::gpu
