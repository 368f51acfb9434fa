// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/indexing.hpp>
#include <weft/device/gpu/map.hpp>
#include <weft/device/gpu/program.hpp>
#include <weft/device/gpu/warp.hpp>

/// The reduction kernel: keeps some axes of the iteration space and reduces the others, in one pass over the inputs and
/// in an order that depends only on the extents.
///
/// A block has `results x lanes` threads; `lanes` of them share one result. Adjacent threads read adjacent elements of
/// the innermost axis, kept or reduced, so that loads are coalesced. If that axis is reduced and rows are long enough,
/// a thread reads groups of adjacent elements, each by one load if it is aligned. If it is kept, and expressions are
/// summed, a thread may compute four adjacent results. If there are too few results to fill a GPU, `splits` blocks
/// share each result; the last block to finish combines the partial results in the workspace, always in the same order.
///
/// Sums use the element type, float for float. A thread sums eight terms at a time, 32 of these sums one after another,
/// and then the totals; the threads' sums are added as a tree. If a result's threads are adjacent, a warp combines its
/// values by shuffles; otherwise, all values go through the block's memory.
namespace weft::gpu {

/// The layout of a reduction's threads.
struct reduction_shape {
  std::uint32_t results = 0, length = 0;  ///< kept elements; reduced elements for each result
  std::uint32_t results_log = 0;          ///< results in a block: 2^results_log
  bool across = false;                    ///< adjacent threads compute adjacent results
  std::uint32_t splits = 1, split = 0;    ///< blocks for each result, and elements for each block
  std::uint32_t group = 1;                ///< adjacent elements that a thread reads at once
  std::uint32_t wide = 1;                 ///< adjacent results of a thread; 2^results_log then counts threads
  static constexpr unsigned threads = 256;

  std::uint32_t blocks() const { return (results / wide + (1u << results_log) - 1) >> results_log; }
};

/// The arguments of a reduction. Offsets are the inputs' and, last, the whole iteration space's.
template <int Inputs, int Outputs, int Constants>
struct reduce_arguments {
  reduction_shape layout;
  std::uint32_t stored, combined;  ///< masks of outputs that are written element by element, and of outputs that are
                                   ///< reduced
  double factor, result_factor;
  const void* in[Inputs + 1];
  void* out[Outputs];
  std::byte* partial;      ///< for `splits` blocks: 8 bytes per output, result and split
  std::uint32_t* tickets;  ///< one for each block of results; 0 between launches
  std::uint64_t constants[Constants + 1];
  walk<Inputs + 1> kept, reduced;
};

struct reduce_layout {
  std::size_t bytes, in, out, partial, tickets;
  void (*fill)(void* arguments, const iteration&, std::uint32_t kept_axes, const reduction_shape&, std::uint32_t stored,
               std::uint32_t combined, double factor, double result_factor, const std::uint64_t* constants);
};

struct reduce_code {
  function body;
  const reduce_layout* layout = nullptr;
  int outputs = 1;
  unsigned group = 1;  ///< elements that it can read at once
  unsigned wide = 1;   ///< results that a thread can compute
};

/// Chooses the threads of a reduction from the extents alone, so that results have the same bits on every GPU and at
/// every address. The maximum number of adjacent elements to read at once is `group` if the innermost axis is reduced,
/// and `wide` if it is kept.
inline reduction_shape plan_reduction(const iteration& over, std::uint32_t kept_axes, std::uint32_t group,
                                      std::uint32_t wide) {
  reduction_shape r;
  r.results = r.length = 1;
  for (std::size_t axis = 0; axis < over.space.rank; ++axis)
    ((kept_axes >> axis) & 1 ? r.results : r.length) *= static_cast<std::uint32_t>(over.space[axis]);
  r.across = over.space.rank > 0 && ((kept_axes >> (over.space.rank - 1)) & 1);
  std::uint32_t lanes_log = 0;
  if (r.across) {
    if (r.results % wide == 0 && r.results >= 16 * wide) r.wide = wide;
    while (r.results_log < 5 && (r.wide << r.results_log) < r.results) ++r.results_log;
    lanes_log = 8 - r.results_log;
  } else {
    if (r.length >= 32 * group) r.group = group;  // otherwise threads of a warp would be idle
    const std::uint32_t wanted = r.group > 1      ? (r.length + r.group - 1) / r.group
                                 : r.length > 128 ? (r.length + 3) / 4
                                 : r.length < 32  ? r.length
                                                  : 32;
    while (lanes_log < 8 && (1u << lanes_log) < wanted) ++lanes_log;
    while (lanes_log < 8 && (1u << (8 - lanes_log)) >= 2 * r.results) ++lanes_log;
    r.results_log = 8 - lanes_log;
  }
  const std::uint32_t enough_blocks = r.wide > 1 ? 512 : 1024;  // wide threads have four times as many bytes in flight
  constexpr std::uint32_t elements_of_a_thread = 16;
  const std::uint32_t per_split = (1u << lanes_log) * elements_of_a_thread;
  const std::uint32_t blocks = r.blocks() ? r.blocks() : 1;
  std::uint32_t splits = (enough_blocks + blocks - 1) / blocks;
  if (splits > (r.length + per_split - 1) / per_split) splits = (r.length + per_split - 1) / per_split;
  if (splits < 1) splits = 1;
  r.split = ((r.length + splits - 1) / splits + r.group - 1) / r.group * r.group;
  r.splits = r.split ? (r.length + r.split - 1) / r.split : 1;
  return r;
}

namespace detail {

template <int Inputs, int Outputs, int Constants>
void fill_reduce(void* to, const iteration& from, std::uint32_t kept_axes, const reduction_shape& layout,
                 std::uint32_t stored, std::uint32_t combined, double factor, double result_factor,
                 const std::uint64_t* constants) {
  auto& a = *static_cast<reduce_arguments<Inputs, Outputs, Constants>*>(to);
  a.layout = layout;
  a.stored = stored;
  a.combined = combined;
  a.factor = factor;
  a.result_factor = result_factor;
  for (int k = 0; k != Inputs + 1; ++k) a.in[k] = nullptr;
  for (int k = 0; k != Outputs; ++k) a.out[k] = nullptr;
  a.partial = nullptr;
  a.tickets = nullptr;
  for (int k = 0; k != Constants; ++k) a.constants[k] = constants[k];
  fill_walk(a.kept, from, kept_axes);
  fill_walk(a.reduced, from, ~kept_axes);
}

template <int Inputs, int Outputs, int Constants>
constexpr reduce_layout make_reduce_layout() {
  using arguments = reduce_arguments<Inputs, Outputs, Constants>;
  return {sizeof(arguments),
          offsetof(arguments, in),
          offsetof(arguments, out),
          offsetof(arguments, partial),
          offsetof(arguments, tickets),
          fill_reduce<Inputs, Outputs, Constants>};
}

}  // namespace detail

template <int Inputs, int Outputs, int Constants>
inline constexpr reduce_layout reduce_layout_of = detail::make_reduce_layout<Inputs, Outputs, Constants>();

#if WEFT_COMPILES_FOR_GPU

namespace detail {

/// Loads a value that other blocks of this launch wrote, from memory shared by all multiprocessors.
template <class T>
WEFT_HOST_DEVICE T load_shared_by_blocks(const T* p) {
  #if defined(__CUDA_ARCH__)
  if constexpr (is_storage_type<T>) {
    T x;
    x.bits = *static_cast<const volatile std::uint16_t*>(&p->bits);
    return x;
  } else {
    return *static_cast<const volatile T*>(p);
  }
  #else
  return *p;
  #endif
}

WEFT_HOST_DEVICE inline void before_ticket() {
  #if defined(__CUDA_ARCH__)
  __threadfence();
  #endif
}

/// Returns the next ticket.
WEFT_HOST_DEVICE inline std::uint32_t take_ticket(std::uint32_t* tickets) {
  #if defined(__CUDA_ARCH__)
  const std::uint32_t mine = atomicAdd(tickets, 1u);
  __threadfence();
  return mine;
  #else
  return (*tickets)++;
  #endif
}

template <class P, int Wide, class Indices>
struct partial_slots;
template <class P, int Wide, std::size_t... O>
struct partial_slots<P, Wide, weft::detail::indices<O...>>
    : slot<static_cast<int>(O), typename P::template output<O>, P::template writes<O> ? 256 * Wide : 1>... {};

}  // namespace detail

template <class P, weft::device::reduce_op How>
struct reduce_body : reduce_arguments<P::inputs, P::outputs, P::constants> {
  static constexpr unsigned threads = reduction_shape::threads;
  static constexpr int phases = 7;
  // Only for expressions that are summed: another traversal costs compile time, and other reductions are rare or also
  // write elements.
  static constexpr int wide = !P::stores && How == weft::device::reduce_op::sum ? 4 : 1;
  struct block_memory {
    detail::partial_slots<P, wide, detail::index_list<P::outputs>> x;
    bool last;
  };
  using thread_memory = nothing;
  static constexpr int unroll = reads_of<P> >= 4 ? 2 : reads_of<P> >= 2 ? 4 : 8;
  static constexpr int lanes = lanes_of<P>(detail::index_list<P::inputs>{}, detail::index_list<P::outputs>{});
  static constexpr int group = lanes < unroll ? lanes : unroll;

  template <int Phase>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, block_memory& ours) const {
    run_phase<Phase>(at, ours, detail::index_list<P::inputs>{}, detail::index_list<P::outputs>{});
  }

 private:
  template <int O>
  using output = typename P::template output<O>;

  /// The position of a thread: its result, and its index among the `lanes` that share the result.
  struct position {
    std::uint32_t column, lane, lanes, result, results_log;
    bool exists, across;
    std::uint32_t first_slot = 0;
    WEFT_HOST_DEVICE std::uint32_t slot_of(std::uint32_t l) const {
      return first_slot + (across ? (l << results_log) + column : column * lanes + l);
    }
    /// Returns the position for the w-th adjacent result.
    WEFT_HOST_DEVICE position neighbour(std::uint32_t w) const {
      position p = *this;
      p.result += w;
      p.first_slot = 256 * w;
      return p;
    }
  };

  WEFT_HOST_DEVICE position position_of(const place& at) const {
    const std::uint32_t results_log = this->layout.results_log, lanes_log = 8 - results_log;
    position p;
    p.results_log = results_log;
    p.across = this->layout.across;
    p.column = this->layout.across ? at.thread & ((1u << results_log) - 1) : at.thread >> lanes_log;
    p.lane = this->layout.across ? at.thread >> results_log : at.thread & ((1u << lanes_log) - 1);
    p.lanes = 1u << lanes_log;
    p.result = ((at.block << results_log) + p.column) * this->layout.wide;
    p.exists = p.result < this->layout.results;
    return p;
  }

  template <int Phase, std::size_t... Index, std::size_t... O>
  WEFT_HOST_DEVICE void run_phase(const place& at, block_memory& ours, weft::detail::indices<Index...> inputs,
                                  weft::detail::indices<O...> outputs) const {
    const position p = position_of(at);
    const bool shared = this->layout.splits > 1 && (!P::stores || this->combined != 0);
    const auto each_result = [&](const auto& f) {
      if constexpr (wide == 1)
        f(p);
      else
        for (std::uint32_t w = 0; w < this->layout.wide; ++w) f(p.neighbour(w));
    };
    if constexpr (Phase == 0) {
      if constexpr (wide > 1)
        if (this->layout.wide > 1) return accumulate_wide(at, p, ours, inputs, outputs);
      accumulate(at, p, ours, inputs, outputs);
    } else if constexpr (Phase == 1) {
      each_result([&](const position& r) { (fold<static_cast<int>(O)>(r, ours), ...); });
    } else if constexpr (Phase == 2) {
      if (p.lane == 0 && p.exists) {
        each_result([&](const position& r) {
          if (shared)
            (leave<static_cast<int>(O)>(at, r, ours), ...);
          else
            (finish<static_cast<int>(O)>(r, ours), ...);
        });
      }
      if (shared) detail::before_ticket();
    } else if constexpr (Phase == 3) {
      // The block with the last ticket combines the results of all blocks, and resets the tickets for the next launch.
      if (at.thread == 0) {
        ours.last = shared && detail::take_ticket(this->tickets + at.block) == this->layout.splits - 1;
        if (ours.last) this->tickets[at.block] = 0;
      }
    } else if (ours.last) {
      if constexpr (Phase == 4) {
        each_result([&](const position& r) { (collect<static_cast<int>(O)>(r, ours), ...); });
      } else if constexpr (Phase == 5) {
        each_result([&](const position& r) { (fold<static_cast<int>(O)>(r, ours), ...); });
      } else {
        if (p.lane == 0 && p.exists)
          each_result([&](const position& r) { (finish<static_cast<int>(O)>(r, ours), ...); });
      }
    }
  }

  /// Reduces the rows of adjacent results, a few at a time.
  template <std::size_t... Index, std::size_t... O>
  WEFT_HOST_DEVICE void accumulate_wide(const place& at, const position& p, block_memory& ours,
                                        weft::detail::indices<Index...>, weft::detail::indices<O...>) const {
    constexpr int rows = unroll / 2;
    outputs_of<P, wide> total, some;
    (reset_all<static_cast<int>(O)>(total), ...);
    (reset_all<static_cast<int>(O)>(some), ...);
    if (p.exists) {
      unsigned parts = 0;
      std::uint32_t base[P::inputs + 1] = {};
      this->kept.add_offsets(p.result, base);
      const std::uint32_t begin = at.block_y * this->layout.split;
      const std::uint32_t end =
          this->layout.length - begin < this->layout.split ? this->layout.length : begin + this->layout.split;
      for (std::uint32_t j = begin + p.lane; j < end; j += p.lanes * rows) {
        inputs_of<P, wide> x[rows];
  #if defined(__CUDA_ARCH__)
    #pragma unroll
  #endif
        for (int u = 0; u < rows; ++u) {
          const std::uint32_t k = j + static_cast<std::uint32_t>(u) * p.lanes;
          if (k >= end) break;
          std::uint32_t offsets[P::inputs + 1];
          for (int i = 0; i <= P::inputs; ++i) offsets[i] = base[i];
          this->reduced.add_offsets(k, offsets);
          (load_results<static_cast<int>(Index)>(x[u], offsets[Index]), ...);
        }
        outputs_of<P, wide> part;
        (reset_all<static_cast<int>(O)>(part), ...);
  #if defined(__CUDA_ARCH__)
    #pragma unroll
  #endif
        for (int u = 0; u < rows; ++u) {
          if (j + static_cast<std::uint32_t>(u) * p.lanes >= end) break;
          outputs_of<P, wide> y;
          for (int w = 0; w < wide; ++w) {
            const element_inputs<P, wide> in{x[u], w};
            element_outputs<P, wide> out{y, w};
            P::run(in, this->constants, this->factor, out);
          }
          (merge_all<static_cast<int>(O)>(part, y), ...);
        }
        (merge_all<static_cast<int>(O)>(some, part), ...);
        if (++parts % 32 == 0) {
          (merge_all<static_cast<int>(O)>(total, some), ...);
          (reset_all<static_cast<int>(O)>(some), ...);
        }
      }
      (merge_all<static_cast<int>(O)>(total, some), ...);
    }
    for (int w = 0; w < wide; ++w) (share_one<static_cast<int>(O)>(total, w, ours, p), ...);
  }

  template <int O>
  WEFT_HOST_DEVICE void reset_all(outputs_of<P, wide>& x) const {
    for (int w = 0; w < wide; ++w) x.template at<O>()[w] = weft::device::detail::identity<output<O>>(How);
  }
  template <int O>
  WEFT_HOST_DEVICE void merge_all(outputs_of<P, wide>& a, outputs_of<P, wide>& b) const {
    for (int w = 0; w < wide; ++w) a.template at<O>()[w] = merging<O>()(a.template at<O>()[w], b.template at<O>()[w]);
  }
  template <int O>
  WEFT_HOST_DEVICE void share_one(outputs_of<P, wide>& total, int w, block_memory& ours, const position& p) const {
    put<O>(total.template at<O>()[w], ours, p.neighbour(static_cast<std::uint32_t>(w)));
  }
  /// Loads the same values whether they are aligned or not.
  template <int Index>
  WEFT_HOST_DEVICE void load_results(inputs_of<P, wide>& x, std::uint32_t offset) const {
    using T = typename P::template input<Index>;
    const T* const from = static_cast<const T*>(this->in[Index]) + offset;
    const auto step = static_cast<std::uint32_t>(this->kept.strides[0][Index]);
    if (step == 0 || reinterpret_cast<std::uintptr_t>(from) % sizeof(pack<T, wide>) == 0)
      load_group(x.template at<Index>(), from, step, wide);
    else
      for (int w = 0; w < wide; ++w) x.template at<Index>()[w] = from[w];
  }

  template <std::size_t... Index, std::size_t... O>
  WEFT_HOST_DEVICE void accumulate(const place& at, const position& p, block_memory& ours,
                                   weft::detail::indices<Index...>, weft::detail::indices<O...>) const {
    outputs_of<P, 1> total, some;
    (reset<static_cast<int>(O)>(total), ...);
    (reset<static_cast<int>(O)>(some), ...);
    if (p.exists) {
      unsigned parts = 0;
      std::uint32_t base[P::inputs + 1] = {};
      this->kept.add_offsets(p.result, base);
      const std::uint32_t begin = at.block_y * this->layout.split;
      const std::uint32_t end =
          this->layout.length - begin < this->layout.split ? this->layout.length : begin + this->layout.split;
      const std::uint32_t together = this->layout.group;
      for (std::uint32_t j = begin + p.lane * together; j < end; j += p.lanes * unroll) {
        inputs_of<P, 1> x[unroll];
        std::uint32_t whole[unroll];
        std::uint32_t exist = 0;  // which of `unroll` elements exist
        if (together > 1) {
  #if defined(__CUDA_ARCH__)
    #pragma unroll
  #endif
          for (int u = 0; u < unroll; u += group) {
            const std::uint32_t k = j + static_cast<std::uint32_t>(u) * p.lanes;
            if (k >= end) break;
            std::uint32_t offsets[P::inputs + 1];
            for (int i = 0; i <= P::inputs; ++i) offsets[i] = base[i];
            this->reduced.add_offsets(k, offsets);
            (load_neighbours<static_cast<int>(Index)>(x + u, offsets[Index], end - k), ...);
            for (int i = 0; i < group; ++i) whole[u + i] = offsets[P::inputs] + static_cast<std::uint32_t>(i);
            exist += end - k < together ? end - k : together;
          }
        } else {
  #if defined(__CUDA_ARCH__)
    #pragma unroll
  #endif
          for (int u = 0; u < unroll; ++u) {
            const std::uint32_t k = j + static_cast<std::uint32_t>(u) * p.lanes;
            if (k >= end) break;
            std::uint32_t offsets[P::inputs + 1];
            for (int i = 0; i <= P::inputs; ++i) offsets[i] = base[i];
            this->reduced.add_offsets(k, offsets);
            (load<static_cast<int>(Index)>(x[u], offsets[Index]), ...);
            whole[u] = offsets[P::inputs];
            ++exist;
          }
        }
        outputs_of<P, 1> part;
        (reset<static_cast<int>(O)>(part), ...);
  #if defined(__CUDA_ARCH__)
    #pragma unroll
  #endif
        for (int u = 0; u < unroll; ++u) {
          if (static_cast<std::uint32_t>(u) >= exist) break;
          outputs_of<P, 1> y;
          const element_inputs<P, 1> in{x[u], 0};
          element_outputs<P, 1> out{y, 0};
          P::run(in, this->constants, this->factor, out);
          (take<static_cast<int>(O)>(part, y, whole[u]), ...);
        }
        (merge_into<static_cast<int>(O)>(some, part), ...);
        if (++parts % 32 == 0) {
          (merge_into<static_cast<int>(O)>(total, some), ...);
          (reset<static_cast<int>(O)>(some), ...);
        }
      }
      (merge_into<static_cast<int>(O)>(total, some), ...);
    }
    (share<static_cast<int>(O)>(total, ours, p), ...);
  }

  template <int Index>
  WEFT_HOST_DEVICE void load(inputs_of<P, 1>& x, std::uint32_t offset) const {
    using T = typename P::template input<Index>;
    x.template at<Index>()[0] = P::reads_all || this->in[Index] ? static_cast<const T*>(this->in[Index])[offset] : T(1);
  }
  /// Loads adjacent elements, `count` of which exist. Loads the same values whether they are aligned or not.
  template <int Index>
  WEFT_HOST_DEVICE void load_neighbours(inputs_of<P, 1>* x, std::uint32_t offset, std::uint32_t count) const {
    using T = typename P::template input<Index>;
    T all[group];
    const T* const from = static_cast<const T*>(this->in[Index]) + offset;
    const auto step = static_cast<std::uint32_t>(this->reduced.strides[0][Index]);
    if (P::reads_all || this->in[Index]) {
      if (step == 0 || reinterpret_cast<std::uintptr_t>(from) % sizeof(pack<T, group>) == 0)
        load_group(all, from, step, count);
      else
        for (int i = 0; i < group; ++i) all[i] = static_cast<std::uint32_t>(i) < count ? from[i] : T(1);
    } else {
      for (int i = 0; i < group; ++i) all[i] = T(1);
    }
    for (int i = 0; i < group; ++i) x[i].template at<Index>()[0] = all[i];
  }
  template <int O>
  WEFT_HOST_DEVICE void reset(outputs_of<P, 1>& x) const {
    if constexpr (P::template writes<O>) x.template at<O>()[0] = weft::device::detail::identity<output<O>>(How);
  }
  template <int O>
  WEFT_HOST_DEVICE void merge_into(outputs_of<P, 1>& a, outputs_of<P, 1>& b) const {
    if constexpr (P::template writes<O>) {
      auto& to = a.template at<O>()[0];
      to = weft::device::detail::merge<output<O>>(How, to, b.template at<O>()[0]);
    }
  }
  template <int O>
  WEFT_HOST_DEVICE void take(outputs_of<P, 1>& part, outputs_of<P, 1>& y, std::uint32_t whole) const {
    if constexpr (P::template writes<O>) {
      if constexpr (P::stores)
        if ((this->stored >> O) & 1) static_cast<output<O>*>(this->out[O])[whole] = y.template at<O>()[0];
      merge_into<O>(part, y);
    }
  }
  template <int O>
  WEFT_HOST_DEVICE bool combines() const {
    return P::template writes<O> && (!P::stores || ((this->combined >> O) & 1));
  }
  template <int O>
  WEFT_HOST_DEVICE void share(outputs_of<P, 1>& total, block_memory& ours, const position& p) const {
    if constexpr (P::template writes<O>)
      if (combines<O>()) put<O>(total.template at<O>()[0], ours, p);
  }
  template <int O>
  WEFT_HOST_DEVICE void put(output<O> x, block_memory& ours, const position& p) const {
    if (p.across)
      at<O>(ours)[p.slot_of(p.lane)] = x;
    else
      reduce_in_warp(x, at<O>(ours) + p.slot_of(0), p.lane, p.lanes, merging<O>());
  }
  template <int O>
  struct merging {
    WEFT_HOST_DEVICE output<O> operator()(output<O> a, output<O> b) const {
      return weft::device::detail::merge<output<O>>(How, a, b);
    }
  };
  template <int O>
  WEFT_HOST_DEVICE static auto& at(block_memory& ours) {
    auto& x = static_cast<detail::slot<O, output<O>, P::template writes<O> ? 256 * wide : 1>&>(ours.x).x;
  #if defined(__CUDA_ARCH__) && defined(__NVCC__)
    __builtin_assume(__isShared(&x));  // nvcc does not deduce this if there are two outputs
  #endif
    return x;
  }

  /// Combines up to 256 lanes into 16, then into one; or combines the results of warps.
  template <int O>
  WEFT_HOST_DEVICE void fold(const position& p, block_memory& ours) const {
    if constexpr (P::template writes<O>) {
      if (!combines<O>()) return;
      auto& x = at<O>(ours);
      if (!p.across) return emulate_warps(x + p.slot_of(0), p.lane, p.lanes, merging<O>());
      if (p.lane >= 16) return;
      output<O> sum = x[p.slot_of(p.lane)];
      for (std::uint32_t l = p.lane + 16; l < p.lanes; l += 16)
        sum = weft::device::detail::merge<output<O>>(How, sum, x[p.slot_of(l)]);
      x[p.slot_of(p.lane)] = sum;
    }
  }
  template <int O>
  WEFT_HOST_DEVICE output<O> folded(const position& p, block_memory& ours) const {
    auto& x = at<O>(ours);
    if (!p.across) return reduce_warps(x + p.slot_of(0), p.lanes, merging<O>());
    output<O> sum = x[p.slot_of(0)];
    for (std::uint32_t l = 1; l < 16 && l < p.lanes; ++l)
      sum = weft::device::detail::merge<output<O>>(How, sum, x[p.slot_of(l)]);
    return sum;
  }
  template <int O>
  WEFT_HOST_DEVICE output<O>* partial_of(std::uint32_t split, std::uint32_t result) const {
    const std::size_t k = (std::size_t{O} * this->layout.splits + split) * this->layout.results + result;
    return reinterpret_cast<output<O>*>(this->partial + 8 * k);
  }
  template <int O>
  WEFT_HOST_DEVICE void leave(const place& at, const position& p, block_memory& ours) const {
    if constexpr (P::template writes<O>)
      if (combines<O>()) *partial_of<O>(at.block_y, p.result) = folded<O>(p, ours);
  }
  template <int O>
  WEFT_HOST_DEVICE void collect(const position& p, block_memory& ours) const {
    if constexpr (P::template writes<O>) {
      if (!combines<O>()) return;
      output<O> sum = weft::device::detail::identity<output<O>>(How);
      constexpr std::uint32_t together = 8;  // loads in flight
      for (std::uint32_t s = p.lane; p.exists && s < this->layout.splits; s += p.lanes * together) {
        output<O> x[together];
  #if defined(__CUDA_ARCH__)
    #pragma unroll
  #endif
        for (std::uint32_t u = 0; u < together; ++u) {
          if (s + u * p.lanes >= this->layout.splits) break;
          x[u] = detail::load_shared_by_blocks(partial_of<O>(s + u * p.lanes, p.result));
        }
  #if defined(__CUDA_ARCH__)
    #pragma unroll
  #endif
        for (std::uint32_t u = 0; u < together; ++u) {
          if (s + u * p.lanes >= this->layout.splits) break;
          sum = weft::device::detail::merge<output<O>>(How, sum, x[u]);
        }
      }
      put<O>(sum, ours, p);
    }
  }
  template <int O>
  WEFT_HOST_DEVICE void finish(const position& p, block_memory& ours) const {
    if constexpr (P::template writes<O>) {
      if (!combines<O>()) return;
      output<O> sum = folded<O>(p, ours);
      if (this->result_factor != 1) sum = static_cast<output<O>>(static_cast<double>(sum) * this->result_factor);
      static_cast<output<O>*>(this->out[O])[p.result] = sum;
    }
  }
};

template <class P, weft::device::reduce_op How>
reduce_code compile_reduce(const char* name) {
  using body = reduce_body<P, How>;
  return {function_of<body>(name), &reduce_layout_of<P::inputs, P::outputs, P::constants>, P::outputs, body::group,
          body::wide};
}

#endif

}  // namespace weft::gpu
