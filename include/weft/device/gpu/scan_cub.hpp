#pragma once

#if defined(__CUDACC__)
  #include <cub/block/block_scan.cuh>
  #include <cub/warp/warp_scan.cuh>
#endif

#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/indexing.hpp>
#include <weft/device/gpu/team.hpp>
#include <weft/device/scan.hpp>

/// Running sums along an axis. A thread, a warp or a block sums a row, tile by tile, and carries the sum from each tile
/// to the next. Where rows are few and long they are cut into parts: a first launch sums each, a second one the sums of
/// those before, a third one begins with these. No block waits for another, as in CUB's scans of a whole device, where
/// the order of a sum depends on which block came first: here it depends on the extents alone.
namespace weft::gpu {

#if WEFT_COMPILES_FOR_GPU

template <class T>
struct scan_arguments : row_places {
  const T* x;
  T* y;
  bool exclusive, reverse;
  // By blocks, of rows in parts: how long these are and how many of a row. With `sums` they are only summed; with
  // `sums_before` they begin with these.
  std::uint32_t part;
  divisor parts;
  scan_sum<T>* sums;
  const scan_sum<T>* sums_before;

  /// Where the element lies that is summed as number p of a row.
  WEFT_HOST_DEVICE std::uint32_t offset_of(std::uint32_t p) const {
    return (reverse ? extent - 1 - p : p) * inner.extent;
  }
};

/// A row for each thread: where neighbouring rows lie side by side, or are short.
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

/// The sums of what `Lanes` threads have: for each over those before it, and over all.
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

/// A row for each team: a warp, or a block. Its threads read a tile side by side and sum `Items` neighbours each.
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

  /// Neighbours that a thread takes lie in the banks that other threads' neighbours leave free.
  WEFT_HOST_DEVICE static constexpr unsigned slot(unsigned i) { return i + i / 32; }

  template <class Team>
  WEFT_HOST_DEVICE void run(Team& team) const {
    const std::uint32_t row = this->parts.divide(team.number);
    if (row >= this->rows) return;
    const std::uint32_t start = this->start_of(row), begin = (team.number - row * this->parts.extent) * this->part;
    const std::uint32_t end = this->extent - begin < this->part ? this->extent : begin + this->part;
    sum_type sum_before = this->sums_before ? this->sums_before[team.number] : sum_type{};  // of the tiles before
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
        team.each([](unsigned, thread_memory&) {});  // all have read it
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
