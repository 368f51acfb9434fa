// SPDX-License-Identifier: BSL-1.0
#pragma once

#if defined(__CUDACC__)
  #include <cub/block/block_scan.cuh>
  #include <cub/warp/warp_scan.cuh>
#endif

#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/indexing.hpp>
#include <weft/device/gpu/team.hpp>
#include <weft/device/scans.hpp>

/// Scans along an axis. A thread, a warp or a block scans a row, tile by tile, and carries its state from each tile to
/// the next. If rows are few and long, they are divided into parts: a first launch scans each part for its last state,
/// a second one scans the states of the preceding parts, and a third one starts with these. No block waits for another.
/// In CUB's device-wide scans, the order of a sum depends on which block arrived first; here it depends only on the
/// extents.
namespace weft::gpu {

#if WEFT_COMPILES_FOR_GPU

/// `Scan` is a structure as in device/scan.hpp.
template <class Scan>
struct scan_arguments : row_places {
  using state = typename Scan::state;

  Scan scan;
  bool exclusive, reverse;
  // For blocks, the length of a part of a row, and the number of parts. With `lasts`, only the last state of each part
  // is stored; with `firsts`, parts start with these states.
  std::uint32_t part;
  divisor parts;
  state* lasts;
  const state* firsts;

  /// Returns the number in its row of the p-th element of a scan.
  WEFT_HOST_DEVICE std::uint32_t number_of(std::uint32_t p) const { return reverse ? extent - 1 - p : p; }
  WEFT_HOST_DEVICE state load(std::uint32_t start, std::uint32_t p) const {
    const std::uint32_t k = number_of(p), before = number_of(p == 0 ? 0 : p - 1);
    return scan.load(start + k * inner.extent, start + before * inner.extent, k);
  }
  WEFT_HOST_DEVICE void store(std::uint32_t start, std::uint32_t p, state s) const {
    scan.store(start + number_of(p) * inner.extent, s);
  }
};

/// Scans the states of parts.
template <class Scan>
struct state_scan {
  using state = typename Scan::state;
  static constexpr bool adds = Scan::adds;

  state* x;

  WEFT_HOST_DEVICE static state identity() { return Scan::identity(); }
  WEFT_HOST_DEVICE static state combine(state a, state b) { return Scan::combine(a, b); }
  WEFT_HOST_DEVICE state load(std::uint32_t i, std::uint32_t, std::uint32_t) const { return x[i]; }
  WEFT_HOST_DEVICE void store(std::uint32_t i, state s) const { x[i] = s; }
};

/// One row for each thread, for rows that are interleaved in memory, or short.
template <class Scan>
struct scan_by_threads : scan_arguments<Scan>, plain_body {
  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    const std::uint32_t row = at.block * threads + at.thread;
    if (row >= this->rows) return;
    const std::uint32_t start = this->start_of(row);
    typename Scan::state carried = Scan::identity();
    for (std::uint32_t p = 0; p < this->extent; ++p) {
      const typename Scan::state before = carried;
      carried = Scan::combine(carried, this->load(start, p));
      this->store(start, p, this->exclusive ? before : carried);
    }
  }
};

/// Computes, for each of `Lanes` threads, the state after the preceding threads, and the state after all threads.
template <class Scan, unsigned Lanes>
struct exclusive_states {
  using state = typename Scan::state;
  #if defined(__CUDACC__)
  using cub_scan = std::conditional_t<Lanes == 32, cub::WarpScan<state>, cub::BlockScan<state, Lanes>>;
  using storage = typename cub_scan::TempStorage;
  struct combine {
    __device__ state operator()(const state& a, const state& b) const { return Scan::combine(a, b); }
  };

  template <class Thread, class Team>
  __device__ void device(unsigned lane, Thread& mine, Team& ours) const {
    state total;
    if constexpr (Scan::adds)
      cub_scan(ours.for_states).ExclusiveSum(mine.carried, mine.before, total);
    else
      cub_scan(ours.for_states).ExclusiveScan(mine.carried, mine.before, Scan::identity(), combine{}, total);
    if (lane == 0) ours.total = total;
  }
  #else
  using storage = nothing;
  #endif

  template <class Thread, class Team>
  void emulated(Thread* threads, Team& ours) const {
    state carried = Scan::identity();
    for (unsigned lane = 0; lane < Lanes; ++lane) {
      threads[lane].before = carried;
      carried = Scan::combine(carried, threads[lane].carried);
    }
    ours.total = carried;
  }
};

/// One row for each team, a warp or a block. The threads of a team read a tile coalesced, and each scans `Items`
/// adjacent elements.
template <class Scan, unsigned Lanes, unsigned Items>
struct scan_by_teams : scan_arguments<Scan> {
  static constexpr unsigned threads = 256, lanes = Lanes, tile = Lanes * Items;
  using state = typename Scan::state;
  using collective = exclusive_states<Scan, Lanes>;
  struct team_memory {
    state x[tile + tile / 32];
    state total;
    typename collective::storage for_states;
  };
  struct thread_memory {
    state carried, before;
  };

  /// Avoids bank conflicts between the adjacent elements of different threads.
  WEFT_HOST_DEVICE static constexpr unsigned slot(unsigned i) { return i + i / 32; }

  template <class Team>
  WEFT_HOST_DEVICE void run(Team& team) const {
    const std::uint32_t row = this->parts.divide(team.number);
    if (row >= this->rows) return;
    const std::uint32_t start = this->start_of(row), begin = (team.number - row * this->parts.extent) * this->part;
    const std::uint32_t end = this->extent - begin < this->part ? this->extent : begin + this->part;
    state before_tile = this->firsts ? this->firsts[team.number] : Scan::identity();
    for (std::uint32_t first = begin; first < end; first += tile) {
      team.each([&](unsigned lane, thread_memory&) {
        for (unsigned i = lane; i < tile; i += Lanes)
          team.memory.x[slot(i)] = first + i < end ? this->load(start, first + i) : Scan::identity();
      });
      team.each([&](unsigned lane, thread_memory& mine) {
        mine.carried = Scan::identity();
        for (unsigned i = 0; i < Items; ++i)
          mine.carried = Scan::combine(mine.carried, team.memory.x[slot(lane * Items + i)]);
      });
      team.meet(collective{});
      if (this->lasts) {
        before_tile = Scan::combine(before_tile, team.memory.total);
        team.each([](unsigned, thread_memory&) {});  // all threads have read it
        continue;
      }
      team.each([&](unsigned lane, thread_memory& mine) {
        state carried = Scan::combine(before_tile, mine.before);
        for (unsigned i = 0; i < Items; ++i) {
          state& x = team.memory.x[slot(lane * Items + i)];
          const state before = carried;
          carried = Scan::combine(carried, x);
          x = this->exclusive ? before : carried;
        }
      });
      before_tile = Scan::combine(before_tile, team.memory.total);
      team.each([&](unsigned lane, thread_memory&) {
        for (unsigned i = lane; i < tile; i += Lanes)
          if (first + i < end) this->store(start, first + i, team.memory.x[slot(i)]);
      });
    }
    if (this->lasts)
      team.each([&](unsigned lane, thread_memory&) {
        if (lane == 0) this->lasts[team.number] = before_tile;
      });
  }
};

#endif

}  // namespace weft::gpu
