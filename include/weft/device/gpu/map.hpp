// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/indexing.hpp>
#include <weft/device/gpu/program.hpp>

/// The elementwise kernel: processes every element of an iteration space, with broadcast inputs and contiguous outputs.
namespace weft::gpu {

/// The arguments of a map. Null inputs are not read, and null outputs are not written.
template <int Inputs, int Outputs, int Constants>
struct map_arguments {
  std::uint32_t elements;
  double factor;
  const void* in[Inputs + 1];
  void* out[Outputs];
  std::uint64_t constants[Constants + 1];
  walk<Inputs> where;
};

/// The layout of a map's arguments, independent of its template arguments.
struct map_layout {
  std::size_t bytes, in, out;  ///< in, out: offsets of the pointers
  void (*fill)(void* arguments, const iteration&, double factor, const std::uint64_t* constants);
};

/// A compiled map. The vector form processes `lanes` elements at once, which must be aligned and within one row.
struct map_code {
  function plain, vector;
  unsigned lanes = 1, plain_unroll = 1, vector_unroll = 1;  ///< unroll: groups in flight for each thread
  const map_layout* layout = nullptr;
  double factor = 1;  ///< selects the operation of a program with several operations
};

/// The forms in which a program is compiled. Without the vector form, a kernel moves single elements; without the plain
/// form, its buffers must be aligned, and all elements must be in one row.
enum class map_forms : unsigned char { both, plain, vector };

namespace detail {

template <int Inputs, int Outputs, int Constants>
void fill_map(void* to, const iteration& from, double factor, const std::uint64_t* constants) {
  auto& a = *static_cast<map_arguments<Inputs, Outputs, Constants>*>(to);
  a.elements = static_cast<std::uint32_t>(from.space.elements());
  a.factor = factor;
  for (int k = 0; k != Inputs + 1; ++k) a.in[k] = nullptr;
  for (int k = 0; k != Outputs; ++k) a.out[k] = nullptr;
  for (int k = 0; k != Constants; ++k) a.constants[k] = constants[k];
  fill_walk(a.where, from, ~std::uint32_t{0});
}

template <int Inputs, int Outputs, int Constants>
constexpr map_layout make_map_layout() {
  using arguments = map_arguments<Inputs, Outputs, Constants>;
  return {sizeof(arguments), offsetof(arguments, in), offsetof(arguments, out), fill_map<Inputs, Outputs, Constants>};
}

}  // namespace detail

template <int Inputs, int Outputs, int Constants>
inline constexpr map_layout map_layout_of = detail::make_map_layout<Inputs, Outputs, Constants>();

#if WEFT_COMPILES_FOR_GPU

/// Move the elements of a group between memory and registers. `count` of them exist; `step` is 0 if all are the same
/// element.
template <class T, int Count>
WEFT_HOST_DEVICE void load_group(T (&to)[Count], const T* from, std::uint32_t step, std::uint32_t count) {
  if constexpr (Count == 1) {
    to[0] = *from;
  } else if (step == 0) {
    const T one = *from;
    for (int i = 0; i < Count; ++i) to[i] = one;
  } else if (count >= Count) {
    const auto all = *reinterpret_cast<const pack<T, Count>*>(from);
    for (int i = 0; i < Count; ++i) to[i] = all.x[i];
  } else {
    for (int i = 0; i < Count; ++i) to[i] = static_cast<std::uint32_t>(i) < count ? from[i] : T(1);
  }
}

template <class T, int Count>
WEFT_HOST_DEVICE void store_group(const T (&from)[Count], T* to, std::uint32_t count) {
  if constexpr (Count == 1) {
    *to = from[0];
  } else if (count >= Count) {
    pack<T, Count> all;
    for (int i = 0; i < Count; ++i) all.x[i] = from[i];
    *reinterpret_cast<pack<T, Count>*>(to) = all;
  } else {
    for (int i = 0; i < Count; ++i)
      if (static_cast<std::uint32_t>(i) < count) to[i] = from[i];
  }
}

template <class P, int Count>
struct map_body : map_arguments<P::inputs, P::outputs, P::constants>, plain_body {
  // With about 64 bytes in flight for each thread, bandwidth rather than latency limits a full GPU.
  static constexpr int unroll = reads_of<P> >= 3 ? 1 : reads_of<P> == 2 ? 2 : 4;

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    run_groups(at, detail::index_list<P::inputs>{}, detail::index_list<P::outputs>{});
  }

 private:
  template <std::size_t... Index, std::size_t... O>
  WEFT_HOST_DEVICE void run_groups(const place& at, weft::detail::indices<Index...>,
                                   weft::detail::indices<O...>) const {
    const std::uint32_t groups = (this->elements + Count - 1) / Count;
    const bool one_each = groups <= at.blocks * threads;  // keeps as many threads busy as possible if there are few
                                                          // groups
    const std::uint32_t of_a_block = one_each ? threads : threads * unroll, apart = one_each ? groups : threads;
    for (std::uint32_t base = at.block * of_a_block + at.thread; base < groups; base += at.blocks * of_a_block) {
      inputs_of<P, Count> x[unroll];
  #if defined(__CUDA_ARCH__)
    #pragma unroll
  #endif
      for (int u = 0; u < unroll; ++u) {
        const std::uint32_t first = (base + static_cast<std::uint32_t>(u) * apart) * Count;
        if (first >= this->elements) break;
        std::uint32_t offsets[P::inputs + 1] = {};
        this->where.add_offsets(first, offsets);
        (load<static_cast<int>(Index)>(x[u], offsets[Index], this->elements - first), ...);
      }
  #if defined(__CUDA_ARCH__)
    #pragma unroll
  #endif
      for (int u = 0; u < unroll; ++u) {
        const std::uint32_t first = (base + static_cast<std::uint32_t>(u) * apart) * Count;
        if (first >= this->elements) break;
        outputs_of<P, Count> y;
        for (int lane = 0; lane < Count; ++lane) {
          const element_inputs<P, Count> in{x[u], lane};
          element_outputs<P, Count> out{y, lane};
          P::run(in, this->constants, this->factor, out);
        }
        (store<static_cast<int>(O)>(y, first, this->elements - first), ...);
      }
    }
  }

  template <int Index>
  WEFT_HOST_DEVICE void load(inputs_of<P, Count>& x, std::uint32_t offset, std::uint32_t count) const {
    using T = typename P::template input<Index>;
    if (P::reads_all || this->in[Index])
      load_group(x.template at<Index>(), static_cast<const T*>(this->in[Index]) + offset,
                 static_cast<std::uint32_t>(this->where.strides[0][Index]), count);
    else
      for (int i = 0; i < Count; ++i) x.template at<Index>()[i] = T(1);
  }
  template <int O>
  WEFT_HOST_DEVICE void store(outputs_of<P, Count>& y, std::uint32_t offset, std::uint32_t count) const {
    using T = typename P::template output<O>;
    if constexpr (P::template writes<O>)
      if (this->out[O]) store_group(y.template at<O>(), static_cast<T*>(this->out[O]) + offset, count);
  }
};

/// Compiles a program as a map. One form compiles in half the time of two.
template <class P, map_forms Forms = map_forms::both>
map_code compile_map(const char* name) {
  constexpr int lanes = lanes_of<P>(detail::index_list<P::inputs>{}, detail::index_list<P::outputs>{});
  map_code code;
  if constexpr (Forms != map_forms::vector) {
    code.plain = function_of<map_body<P, 1>>(name);
    code.plain_unroll = map_body<P, 1>::unroll;
  }
  if constexpr (Forms != map_forms::plain) {
    code.vector = function_of<map_body<P, lanes>>(name);
    code.lanes = lanes;
    code.vector_unroll = map_body<P, lanes>::unroll;
  }
  code.layout = &map_layout_of<P::inputs, P::outputs, P::constants>;
  return code;
}

#endif

}  // namespace weft::gpu
