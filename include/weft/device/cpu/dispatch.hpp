#pragma once

#include <cstdlib>

#include <weft/config.hpp>
#include <weft/error.hpp>

// How a plain -O2 build reaches wide vectors.
//
// Loops are written once, as ordinary lambdas over ordinary inline functions; multiversioned(f) instantiates the call
// for each instruction set, and `flatten` pulls the whole loop into the marked function, where it is vectorised anew.
// Functions that are to be inlined must carry no target or optimize attribute of their own: g++ refuses to mix them.
//
// Rounding: where the instruction set has a fused multiply-add, a*b + c is contracted to it, so the last bit may differ
// between instruction sets. It does not differ between a loop's vector body and its tail, hence not with where the
// work was cut. WEFT_ISA=baseline|avx2|avx512 pins the choice when machines of different age must agree.

namespace weft {

/// The instruction sets that loops are compiled for.
enum class isa : unsigned char { baseline, avx2, avx512 };

constexpr const char* name(isa set) { return set == isa::avx512 ? "avx512" : set == isa::avx2 ? "avx2" : "baseline"; }

/// An instruction set as a type: what a multiversioned function may ask for, to know what it is compiled for.
template <isa set>
struct isa_constant {
  static constexpr isa value = set;

  /// How many T fit into one vector register.
  template <class T>
  static constexpr int lanes = static_cast<int>((set == isa::avx512 ? 64
                                                 : set == isa::avx2 ? 32
                                                                    : 16) /
                                                sizeof(T));
};

namespace detail {

inline isa processor_isa() {
#if defined(__x86_64__) && !defined(__CUDA_ARCH__)  // clang reads the host's functions when it compiles for a GPU, too
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
  throw error(error_code::invalid_argument, "WEFT_ISA", {"is ", request, ": say baseline, avx2 or avx512"});
}

}  // namespace detail

/// The widest instruction set of this processor, or a narrower one that the environment variable WEFT_ISA names. Throws
/// invalid_argument if that names none.
inline isa detected_isa() {
  static const isa set = detail::requested_isa(detail::processor_isa());
  return set;
}

#if defined(__clang__)
  #pragma clang diagnostic push
  #pragma clang diagnostic ignored "-Wpass-failed"  // a loop that calls into libm stays scalar; that is no mistake
#endif

namespace detail {

// f takes the constant or no argument at all.
template <isa set, class F>
WEFT_ALWAYS_INLINE void call(F& f) {
  if constexpr (requires { f(isa_constant<set>{}); })
    f(isa_constant<set>{});
  else
    f();
}

// An f with `written_in_vectors` leaves the compiler nothing to vectorize, so trying would only cost compile time. Its
// functions are WEFT_ALWAYS_INLINE.
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

/// Calls f(), compiled for the instruction set `set`; the loops in f are vectorised for it. An f with a parameter is
/// given isa_constant<set>.
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

/// Calls f, compiled for AVX2 where the processor has it or more, and plainly elsewhere: for loops that gain nothing
/// from wider vectors, at a third of the compile time.
template <class F>
void multiversioned_up_to_avx2(F f) {
#if defined(__x86_64__)
  if (detected_isa() != isa::baseline) return detail::call_avx2(f);
#endif
  detail::call<isa::baseline>(f);
}

}  // namespace weft
