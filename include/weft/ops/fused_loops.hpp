// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/cpu/tile.hpp>
#include <weft/ops/literals.hpp>
#include <weft/ops/skeleton.hpp>

#if defined(__clang__)
  #define WEFT_LOADS_ANY_BYTES __attribute__((no_sanitize("bool")))
#else
  #define WEFT_LOADS_ANY_BYTES
#endif

/// The loops of fused expressions, for each instruction set.
namespace weft::detail {

/// Evaluates a formula in a kernel's loop: a value is the element of the current iteration.
template <std::size_t Arguments, std::size_t Constants>
struct element_context {
  template <class T>
  using value = T;
  const void* arguments[Arguments + 1];
  std::uint64_t constants[Constants + 1];
  std::size_t i;

  element_context(const void* const* in, const std::uint64_t* literals)
      : element_context(in, literals, std::make_index_sequence<Arguments>()) {}
  // g++ would copy the addresses in vectors, which have to wait for the stores of the single addresses.
  template <std::size_t... Index>
  element_context(const void* const* in, const std::uint64_t* literals, std::index_sequence<Index...>)
      : arguments{in[Index]...} {
    for (std::size_t k = 0; k != Constants; ++k) constants[k] = literals[k];
  }
  // A gradient's loop loads arguments that its gradient does not use, from memory of another type
  // (elementwise_gradient_op::prepare). Compilers remove these loads; in unoptimised code, a bool would load invalid
  // bytes.
  template <int Index, class T>
  WEFT_HOST_DEVICE WEFT_LOADS_ANY_BYTES T argument() const {
    return static_cast<const T*>(arguments[Index])[i];
  }
  template <int Index, class T>
  WEFT_HOST_DEVICE T constant() const {
    return literal_value<T>(constants[Index]);
  }
};

template <class S>
inline constexpr skeleton::signature signature_of = [] {
  skeleton::signature s;
  for (dtype& t : s.types) t = dtype::uint8;  // an argument that does not occur may have bytes of any type
  describe(static_cast<S*>(nullptr), s);
  s.reached = reached(static_cast<S*>(nullptr));
  s.refused = refused(static_cast<S*>(nullptr), false);
  return s;
}();

template <class S>
using element_context_of = element_context<signature_of<S>.arguments, signature_of<S>.constants>;

// Clang warns about loops that have no vector form for the baseline instruction set.
#if defined(__clang__)
  #pragma clang diagnostic push
  #pragma clang diagnostic ignored "-Wpass-failed"
#endif

// `Count`: the number of elements, if it is known; otherwise 0.
template <class S, std::size_t Count = 0>
void map_loop(const void* const* in, void* const* out, std::size_t n, const std::uint64_t* literals) {
  using T = typename S::value_type;
  element_context_of<S> c(in, literals);
  T* to = static_cast<T*>(out[0]);
  if constexpr (Count != 0) n = Count;
  WEFT_VECTORIZE
  for (std::size_t i = 0; i < n; ++i) {
    c.i = i;
    to[i] = S::eval(c);
  }
}

/// Reduces the skeleton's values over a run by sum, product, maximum or minimum, in `lanes` partial results. Each lane
/// adds a few elements, then a few of these sums, and so on; finally the lanes are added pairwise. Small elements
/// therefore do not vanish in a large sum. The two halves of the lanes read the two halves of the run, so memory is
/// fetched from two places at a time.
template <class S, device::reduce_op How>
void reduce_loop(const void* const* in, void* const* out, std::size_t n, const std::uint64_t* literals) {
  using T = typename S::value_type;
  constexpr std::size_t lanes = 256 / sizeof(T), half = lanes / 2, few = How == device::reduce_op::sum ? 32 : 512,
                        many = 32 * few;
  const T identity = device::detail::identity<T>(How);
  element_context_of<S> c(in, literals);
  T lane[lanes], some[lanes], total[lanes];
  const std::size_t rounds = n / lanes, second = rounds * half;
  for (std::size_t l = 0; rounds == 0 && l < lanes; ++l) total[l] = identity;
  for (std::size_t begin = 0, end; begin < rounds; begin = end) {
    end = rounds - begin < many ? rounds : begin + many;
    for (std::size_t from = begin, to; from < end; from = to) {
      to = end - from < few ? end : from + few;
      for (std::size_t l = 0; l < lanes; ++l) lane[l] = identity;
      std::size_t r = from;
      do {
        WEFT_VECTORIZE
        for (std::size_t l = 0; l < half; ++l) {
          c.i = r * half + l;
          lane[l] = device::detail::merge<T>(How, lane[l], S::eval(c));
        }
        WEFT_VECTORIZE
        for (std::size_t l = 0; l < half; ++l) {
          c.i = second + r * half + l;
          lane[half + l] = device::detail::merge<T>(How, lane[half + l], S::eval(c));
        }
      } while (++r < to);
      for (std::size_t l = 0; l < lanes; ++l)
        some[l] = from == begin ? lane[l] : device::detail::merge<T>(How, some[l], lane[l]);
    }
    for (std::size_t l = 0; l < lanes; ++l)
      total[l] = begin == 0 ? some[l] : device::detail::merge<T>(How, total[l], some[l]);
  }
  for (std::size_t l = 0; rounds * lanes + l < n; ++l) {
    c.i = rounds * lanes + l;
    total[l] = device::detail::merge<T>(How, total[l], S::eval(c));
  }
  device::detail::fold<How, half>(total);
  T* to = static_cast<T*>(out[0]);
  *to = device::detail::merge<T>(How, *to, total[0]);
}

using loop_arguments = void(const void* const*, void* const*, std::size_t, const std::uint64_t*);

#if defined(__x86_64__)
template <loop_arguments* Loop>
WEFT_TARGET_AVX2 WEFT_LOOPS void loop_avx2(const void* const* in, void* const* out, std::size_t n,
                                           const std::uint64_t* l) {
  Loop(in, out, n, l);
}
template <loop_arguments* Loop>
WEFT_TARGET_AVX512 WEFT_LOOPS void loop_avx512(const void* const* in, void* const* out, std::size_t n,
                                               const std::uint64_t* l) {
  Loop(in, out, n, l);
}
  // Processors without AVX2 are rare, so the baseline keeps the code that plain -O2 generates.
  #define WEFT_LOOP_VERSIONS(...) \
    {&__VA_ARGS__, weft::detail::loop_avx2<&__VA_ARGS__>, weft::detail::loop_avx512<&__VA_ARGS__>}
#else
template <loop_arguments* Loop>
WEFT_TARGET_BASELINE WEFT_LOOPS void loop_baseline(const void* const* in, void* const* out, std::size_t n,
                                                   const std::uint64_t* l) {
  Loop(in, out, n, l);
}
  #define WEFT_LOOP_VERSIONS(...)                                                          \
    {weft::detail::loop_baseline<&__VA_ARGS__>, weft::detail::loop_baseline<&__VA_ARGS__>, \
     weft::detail::loop_baseline<&__VA_ARGS__>}
#endif

/// Loops that run rarely share one version for all processors with AVX2.
#if defined(__x86_64__)
  #define WEFT_RARE_LOOP_VERSIONS(...) \
    {&__VA_ARGS__, weft::detail::loop_avx2<&__VA_ARGS__>, weft::detail::loop_avx2<&__VA_ARGS__>}
#else
  #define WEFT_RARE_LOOP_VERSIONS(...) WEFT_LOOP_VERSIONS(__VA_ARGS__)
#endif

#if defined(__clang__)
  #pragma clang diagnostic pop
#endif

}  // namespace weft::detail
