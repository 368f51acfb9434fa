// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdlib>
#include <initializer_list>

#include <weft/compiler.hpp>
#if defined(__cpp_exceptions)
  #include <weft/error.hpp>
#else
  #include <cstdio>
#endif

// How a plain -O2 build uses wide vectors.
//
// Loops are written once, as ordinary lambdas over ordinary inline functions. multiversioned(f) instantiates the call
// for each instruction set, and `flatten` inlines the whole loop into the marked function, where it is vectorised
// again. Functions to be inlined must have no target or optimize attribute: g++ does not inline across different ones.
//
// Rounding: if the instruction set has a fused multiply-add, a*b + c is contracted to it, so the last bit may differ
// between instruction sets. It does not differ between a loop's vector body and its tail, so the result does not depend
// on the division of the work. WEFT_ISA=baseline|avx2|avx512 selects an instruction set when different machines must
// agree.

namespace weft {

/// The instruction sets for which loops are compiled.
enum class isa : unsigned char { baseline, avx2, avx512 };

constexpr const char* name(isa set) { return set == isa::avx512 ? "avx512" : set == isa::avx2 ? "avx2" : "baseline"; }

/// An instruction set as a type, passed to a multiversioned function that depends on it.
template <isa set>
struct isa_constant {
  static constexpr isa value = set;

  /// The number of T in one vector register.
  template <class T>
  static constexpr int lanes = static_cast<int>((set == isa::avx512 ? 64
                                                 : set == isa::avx2 ? 32
                                                                    : 16) /
                                                sizeof(T));
};

namespace detail {

inline isa processor_isa() {
#if defined(__x86_64__) && !defined(__CUDA_ARCH__)  // clang also parses host functions when it compiles for a GPU
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return isa::baseline;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw"))
    return isa::avx512;
  return isa::avx2;
#else
  return isa::baseline;
#endif
}

inline isa requested_isa(isa available) {
  const char* request = std::getenv("WEFT_ISA");
  if (request == nullptr) return available;
  for (const isa set : {isa::baseline, isa::avx2, isa::avx512})
    if (__builtin_strcmp(request, name(set)) == 0) return set < available ? set : available;
#if defined(__cpp_exceptions)
  throw error(error_code::invalid_argument, "WEFT_ISA", {"must be baseline, avx2 or avx512; it is ", request});
#else
  std::fprintf(stderr, "WEFT_ISA must be baseline, avx2 or avx512; it is %s\n", request);
  std::abort();
#endif
}

}  // namespace detail

/// Returns the widest instruction set of this processor, or a narrower one named by the environment variable WEFT_ISA.
/// Throws invalid_argument if the variable has another value; ends the program if it is compiled without exceptions.
inline isa detected_isa() {
  static const isa set = detail::requested_isa(detail::processor_isa());
  return set;
}

#if defined(__clang__)
  #pragma clang diagnostic push
  #pragma clang diagnostic ignored "-Wpass-failed"  // loops that call libm stay scalar on purpose
#endif

namespace detail {

// f takes either the constant or no argument.
template <isa set, class F>
WEFT_ALWAYS_INLINE void call(F& f) {
  if constexpr (requires { f(isa_constant<set>{}); })
    f(isa_constant<set>{});
  else
    f();
}

// An f with `written_in_vectors` contains nothing to vectorize, so attempts would only cost compile time. Its functions
// are WEFT_ALWAYS_INLINE.
template <class F>
concept WrittenInVectors = F::written_in_vectors;

template <class F>
WEFT_TARGET_BASELINE WEFT_LOOPS void call_baseline(F& f) {
  call<isa::baseline>(f);
}
template <WrittenInVectors F>
WEFT_TARGET_BASELINE WEFT_VECTORS void call_baseline(F& f) {
  call<isa::baseline>(f);
}

#if defined(__x86_64__)
template <class F>
WEFT_TARGET_AVX2 WEFT_LOOPS void call_avx2(F& f) {
  call<isa::avx2>(f);
}
template <WrittenInVectors F>
WEFT_TARGET_AVX2 WEFT_VECTORS void call_avx2(F& f) {
  call<isa::avx2>(f);
}

template <class F>
WEFT_TARGET_AVX512 WEFT_LOOPS void call_avx512(F& f) {
  call<isa::avx512>(f);
}
template <WrittenInVectors F>
WEFT_TARGET_AVX512 WEFT_VECTORS void call_avx512(F& f) {
  call<isa::avx512>(f);
}
#endif

}  // namespace detail

/// Calls f(), compiled for the instruction set `set`, with its loops vectorised. An f with a parameter receives
/// isa_constant<set>.
template <class F>
void multiversioned([[maybe_unused]] isa set, F f) {
#if defined(__x86_64__)
  if (set == isa::avx512) return detail::call_avx512(f);
  if (set == isa::avx2) return detail::call_avx2(f);
#endif
  detail::call_baseline(f);
}

/// Calls f, compiled for this processor.
template <class F>
void multiversioned(F f) {
  multiversioned(detected_isa(), f);
}

#if defined(__clang__)
  #pragma clang diagnostic pop
#endif

/// Calls f, compiled for AVX2 if an x86-64 processor has AVX2, and for the baseline otherwise. For loops that gain
/// nothing from wider vectors, at a third of the compile time.
template <class F>
void multiversioned_up_to_avx2(F f) {
#if defined(__x86_64__)
  if (detected_isa() != isa::baseline) return detail::call_avx2(f);
  detail::call<isa::baseline>(f);
#else
  detail::call_baseline(f);
#endif
}

}  // namespace weft
