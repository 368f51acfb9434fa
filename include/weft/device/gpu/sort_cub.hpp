// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstring>

#if defined(__CUDACC__)
  #include <cub/block/block_radix_sort.cuh>
  #include <cub/device/device_radix_sort.cuh>
  #include <weft/device/gpu/cuda_error.hpp>
#endif
#if defined(WEFT_GPU_EMULATION)
  #include <algorithm>
  #include <vector>
#endif

#include <weft/device/gpu/each.hpp>
#include <weft/device/gpu/indexing.hpp>
#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/device/gpu/team.hpp>
#include <weft/device/sort.hpp>

/// Sorts along an axis. Short rows are sorted by counting, several in a block; rows that fit into a block by CUB's
/// radix sort of a block; longer rows, all at once, by CUB's radix sort of a device, with keys that begin with the row
/// number. Also gathers and scatters sorted elements. A stable sort has only one result, so all methods yield the same
/// bits.
namespace weft::gpu {

#if WEFT_COMPILES_FOR_GPU

/// Computes the `first` elements in order of each row of `extent`, and their indices in the row.
template <class T>
struct sort_arguments {
  const T* x;
  T* values;
  std::int32_t* indices;
  std::uint32_t rows, extent, first;
  divisor inner;
  direction order;

  /// Returns the start of a row with this many elements.
  WEFT_HOST_DEVICE std::uint32_t start_of(std::uint32_t row, std::uint32_t elements) const {
    const std::uint32_t outer = inner.divide(row);
    return outer * elements * inner.extent + (row - outer * inner.extent);
  }
  WEFT_HOST_DEVICE sort_key<T> key_at(std::uint32_t row, std::uint32_t i) const {
    return key_of(x[start_of(row, extent) + i * inner.extent], order);
  }
  /// Writes element i of a row to position `to` of the result.
  WEFT_HOST_DEVICE void write(std::uint32_t row, std::uint32_t to, std::uint32_t i) const {
    const std::uint32_t at = start_of(row, first) + to * inner.extent;
    values[at] = x[start_of(row, extent) + i * inner.extent];
    indices[at] = static_cast<std::int32_t>(i);
  }
};

/// For rows of at most 64: each thread counts the elements that precede its own.
template <class T>
struct sort_by_counting : sort_arguments<T> {
  static constexpr unsigned threads = 256;
  static constexpr int phases = 2;
  static constexpr std::uint32_t longest = 64;
  struct block_memory {
    sort_key<T> keys[threads];
  };
  using thread_memory = nothing;

  std::uint32_t rows_log;  ///< rows in a block: 2^rows_log, with 256 / 2^rows_log threads each

  template <int Phase>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, block_memory& ours) const {
    // Adjacent threads read adjacent elements, of a row or of adjacent rows.
    const bool across = this->inner.extent > 1;
    const std::uint32_t lanes_log = 8 - rows_log;
    const std::uint32_t column = across ? at.thread & ((1u << rows_log) - 1) : at.thread >> lanes_log;
    const std::uint32_t lane = across ? at.thread >> rows_log : at.thread & ((1u << lanes_log) - 1);
    const std::uint32_t row = (at.block << rows_log) + column;
    const auto slot = [&](std::uint32_t l) { return across ? (l << rows_log) + column : (column << lanes_log) + l; };
    if (row >= this->rows || lane >= this->extent) return;
    if constexpr (Phase == 0) {
      ours.keys[slot(lane)] = this->key_at(row, lane);
    } else {
      const sort_key<T> mine = ours.keys[slot(lane)];
      std::uint32_t before = 0;
      for (std::uint32_t l = 0; l < this->extent; ++l) {
        const sort_key<T> other = ours.keys[slot(l)];
        before += other < mine || (other == mine && l < lane);
      }
      if (before < this->first) this->write(row, before, lane);
    }
  }
};

/// Sorts the elements of a block's threads, `Items` adjacent ones for each, and distributes them: thread t gets
/// elements t, t + `Threads`, ...
template <class Key, unsigned Threads, unsigned Items>
struct block_sort {
  #if defined(__CUDACC__)
  using cub_sort = cub::BlockRadixSort<Key, Threads, Items, std::uint32_t>;
  using storage = typename cub_sort::TempStorage;

  template <class Thread, class Team>
  __device__ void device(unsigned, Thread& mine, Team& ours) const {
    cub_sort(ours.for_sort).SortBlockedToStriped(mine.keys, mine.indices);
  }
  #else
  using storage = nothing;
  #endif

  template <class Thread, class Team>
  void emulated([[maybe_unused]] Thread* threads, Team&) const {
  #if defined(WEFT_GPU_EMULATION)
    std::vector<std::pair<Key, std::uint32_t>> all;
    for (unsigned t = 0; t < Threads; ++t)
      for (unsigned i = 0; i < Items; ++i) all.emplace_back(threads[t].keys[i], threads[t].indices[i]);
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (unsigned k = 0; k < Threads * Items; ++k) {
      threads[k % Threads].keys[k / Threads] = all[k].first;
      threads[k % Threads].indices[k / Threads] = all[k].second;
    }
  #endif
  }
};

/// One row for each block.
template <class T, unsigned Items>
struct sort_by_blocks : sort_arguments<T> {
  static constexpr unsigned threads = 256, lanes = threads;
  static constexpr std::uint32_t longest = threads * Items;
  using collective = block_sort<sort_key<T>, threads, Items>;
  struct team_memory {
    typename collective::storage for_sort;
  };
  struct thread_memory {
    sort_key<T> keys[Items];
    std::uint32_t indices[Items];
  };

  template <class Team>
  WEFT_HOST_DEVICE void run(Team& team) const {
    const std::uint32_t row = team.number;
    // Pads the row with the largest key; the row's own elements with that key come first.
    team.each([&](unsigned lane, thread_memory& mine) {
      for (unsigned k = 0; k < Items; ++k) {
        const std::uint32_t i = lane * Items + k;
        mine.keys[k] = i < this->extent ? this->key_at(row, i) : static_cast<sort_key<T>>(~sort_key<T>{0});
        mine.indices[k] = i;
      }
    });
    team.meet(collective{});
    team.each([&](unsigned lane, thread_memory& mine) {
      for (unsigned k = 0; k < Items; ++k) {
        const std::uint32_t to = k * threads + lane;
        if (to < this->first) this->write(row, to, mine.indices[k]);
      }
    });
  }
};

inline namespace WEFT_GPU_FILE {

/// Pairs of a key and the index of its element, in memory of a queue.
struct sort_pairs {
  std::uint64_t *keys, *other_keys;
  std::uint32_t *elements, *other_elements;
  std::uint32_t count;

  void swap_keys() {
    std::uint64_t* const k = keys;
    keys = other_keys;
    other_keys = k;
  }
  void swap_elements() {
    std::uint32_t* const e = elements;
    elements = other_elements;
    other_elements = e;
  }
};

  #if defined(WEFT_GPU_EMULATION)
/// Emulates CUB's radix sort of a device with one thread.
struct emulated_sort {
  sort_pairs pairs;
  int bits;
  WEFT_HOST_DEVICE void operator()(std::size_t) const {
    #if !defined(__CUDA_ARCH__)
    const std::uint64_t mask = bits < 64 ? (std::uint64_t{1} << bits) - 1 : ~std::uint64_t{0};
    std::vector<std::pair<std::uint64_t, std::uint32_t>> all;
    for (std::uint32_t i = 0; i < pairs.count; ++i) all.emplace_back(pairs.keys[i], pairs.elements[i]);
    std::stable_sort(all.begin(), all.end(),
                     [&](const auto& a, const auto& b) { return (a.first & mask) < (b.first & mask); });
    for (std::uint32_t i = 0; i < pairs.count; ++i) {
      // CUB may leave its result in either memory. Using the other one tests the caller.
      pairs.other_keys[i] = all[i].first;
      pairs.other_elements[i] = all[i].second;
    }
    #endif
  }
};
  #endif

/// Returns the bytes that `sort_by_key` needs in addition to the pairs.
inline std::size_t sort_room([[maybe_unused]] device& d, [[maybe_unused]] std::uint32_t count,
                             [[maybe_unused]] int bits) {
  std::size_t bytes = 0;
  #if defined(__CUDACC__)
  if (d.library()) {  // not an emulated device
    cub::DoubleBuffer<std::uint64_t> keys;
    cub::DoubleBuffer<std::uint32_t> elements;
    check(cudaSetDevice(d.ordinal()), "sort", "use the device");
    check(cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys, elements, count, 0, bits), "sort",
          "query CUB's workspace");
  }
  #endif
  return bytes;
}

/// Sorts pairs by the lowest `bits` of their keys; `keys` and `elements` then refer to the result. Requires that the
/// device is current, which it is after a launch.
inline void sort_by_key(queue& q, sort_pairs& pairs, int bits, [[maybe_unused]] std::byte* room,
                        [[maybe_unused]] std::size_t bytes) {
  #if defined(__CUDACC__)
  if (q.native()) {
    cub::DoubleBuffer<std::uint64_t> keys(pairs.keys, pairs.other_keys);
    cub::DoubleBuffer<std::uint32_t> elements(pairs.elements, pairs.other_elements);
    check(cub::DeviceRadixSort::SortPairs(room, bytes, keys, elements, pairs.count, 0, bits,
                                          static_cast<cudaStream_t>(q.native())),
          "sort", "sort with CUB");
    if (keys.selector) pairs.swap_keys();
    if (elements.selector) pairs.swap_elements();
    return;
  }
  #endif
  #if defined(WEFT_GPU_EMULATION)
  launch_each(q, "radix sort", emulated_sort{pairs, bits}, 1);
  pairs.swap_keys();
  pairs.swap_elements();
  #else
  throw error(error_code::internal, "sort", "the queue is not a CUDA queue");
  #endif
}

/// Creates the keys of all rows. Narrow keys follow the row number, so that one sort sorts all rows.
template <class T>
struct fill_sort_pairs {
  sort_arguments<T> s;
  sort_pairs pairs;
  divisor extent;
  static constexpr bool with_row = sizeof(T) <= 4;

  WEFT_HOST_DEVICE void operator()(std::size_t n) const {
    const auto e = static_cast<std::uint32_t>(n);
    const std::uint32_t row = extent.divide(e);
    const std::uint64_t key = s.key_at(row, e - row * extent.extent);
    pairs.keys[e] = with_row ? std::uint64_t{row} << (8 * sizeof(T) % 64) | key : key;
    pairs.elements[e] = e;
  }
};

/// Creates keys from row numbers, for a second sort.
struct rows_as_keys {
  sort_pairs pairs;
  divisor extent;
  WEFT_HOST_DEVICE void operator()(std::size_t n) const { pairs.keys[n] = extent.divide(pairs.elements[n]); }
};

template <class T>
struct write_sorted {
  sort_arguments<T> s;
  sort_pairs pairs;
  divisor first;
  WEFT_HOST_DEVICE void operator()(std::size_t n) const {
    const auto e = static_cast<std::uint32_t>(n);
    const std::uint32_t row = first.divide(e), to = e - row * first.extent;
    s.write(row, to, pairs.elements[row * s.extent + to] - row * s.extent);
  }
};

/// Sorts rows of any length: creates keys, sorts them, and moves the elements. Uses memory of the queue.
template <class T>
class long_sort_kernel final : public kernel {
 public:
  long_sort_kernel(std::string description, const sort_arguments<T>& s, device& d, std::uint32_t in,
                   std::uint32_t values, std::uint32_t indices)
      : description_(static_cast<std::string&&>(description)), s_(s), in_(in), values_(values), indices_(indices) {
    while ((std::size_t{1} << row_bits_) < s.rows) ++row_bits_;
    bits_ = static_cast<int>(8 * sizeof(T)) + (with_row ? row_bits_ : 0);
    room_ = sort_room(d, s.rows * s.extent, bits_ > row_bits_ ? bits_ : row_bits_);
  }

  void run(const kernel_context& f) override {
    queue& q = *f.queue;
    sort_arguments<T> s = s_;
    s.x = reinterpret_cast<const T*>(f.buffers[in_]);
    s.values = reinterpret_cast<T*>(f.buffers[values_]);
    s.indices = reinterpret_cast<std::int32_t*>(f.buffers[indices_]);
    const std::size_t n = count(), keys = aligned(8 * n), elements = aligned(4 * n);
    sort_pairs pairs{nullptr, nullptr, nullptr, nullptr, static_cast<std::uint32_t>(n)};
    std::byte* const at = q.workspace(workspace_bytes());
    pairs.keys = reinterpret_cast<std::uint64_t*>(at);
    pairs.other_keys = reinterpret_cast<std::uint64_t*>(at + keys);
    pairs.elements = reinterpret_cast<std::uint32_t*>(at + 2 * keys);
    pairs.other_elements = reinterpret_cast<std::uint32_t*>(at + 2 * keys + elements);
    std::byte* const room = at + 2 * keys + 2 * elements;

    launch_each(q, "keys of a sort", fill_sort_pairs<T>{s, pairs, divisor(s.extent)}, n);
    sort_by_key(q, pairs, bits_, room, room_);
    if (!with_row && row_bits_) {
      launch_each(q, "rows of a sort", rows_as_keys{pairs, divisor(s.extent)}, n);
      sort_by_key(q, pairs, row_bits_, room, room_);
    }
    launch_each(q, "results of a sort", write_sorted<T>{s, pairs, divisor(s.first)}, std::size_t{s.rows} * s.first);
  }
  std::size_t workspace_bytes() const override { return 2 * aligned(8 * count()) + 2 * aligned(4 * count()) + room_; }
  std::string describe() const override { return description_; }

 private:
  static constexpr bool with_row = fill_sort_pairs<T>::with_row;
  std::size_t count() const { return std::size_t{s_.rows} * s_.extent; }
  static std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

  std::string description_;
  sort_arguments<T> s_;
  std::uint32_t in_, values_, indices_;
  int row_bits_ = 0, bits_;
  std::size_t room_;
};

}  // namespace WEFT_GPU_FILE

/// Moves elements along an axis to their original positions (`Back`), or from there: `count` of `extent` in each row.
template <class T, bool Back>
struct along_work {
  const T* x;
  const std::int32_t* indices;
  T* y;
  std::uint32_t extent;
  divisor inner, count;

  WEFT_HOST_DEVICE void operator()(std::size_t at) const {
    const auto i = static_cast<std::uint32_t>(at), above = inner.divide(i), outer = count.divide(above);
    const std::uint32_t far =
        (outer * extent + static_cast<std::uint32_t>(indices[i])) * inner.extent + (i - above * inner.extent);
    if constexpr (Back)
      y[far] = x[i];
    else
      y[i] = x[far];
  }
};

#endif

}  // namespace weft::gpu
