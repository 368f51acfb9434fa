#pragma once

#include <weft/device/gpu/map.hpp>

/// Programs of the operations that write variables or constants. Products and sums are rounded one by one, never fused:
/// an update has the same bits on a GPU, on a CPU and on a parameter server.
namespace weft::gpu {

namespace detail {

template <class T>
WEFT_HOST_DEVICE T exact_product(T a, T b) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == 4)
    return __fmul_rn(a, b);
  else
    return __dmul_rn(a, b);
#else
  return a * b;
#endif
}
template <class T>
WEFT_HOST_DEVICE T exact_sum(T a, T b) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == 4)
    return __fadd_rn(a, b);
  else
    return __dadd_rn(a, b);
#else
  return a + b;
#endif
}

WEFT_HOST_DEVICE inline double double_of(std::uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/// Inputs and outputs of one type.
template <class T, int Inputs, int Outputs, int Constants>
struct plain_program {
  static constexpr int inputs = Inputs, outputs = Outputs, constants = Constants;
  static constexpr bool reads_all = true;
  template <int>
  using input = T;
  template <int>
  using output = T;
  template <int>
  static constexpr bool writes = true;
};

}  // namespace detail

/// Inputs: variable, gradient. Constants: rate.
template <class T>
struct descend_program : detail::plain_program<T, 2, 1, 1> {
  template <class In, class Out>
  WEFT_HOST_DEVICE static void run(const In& in, const std::uint64_t* constants, double, Out& out) {
    const T rate = static_cast<T>(detail::double_of(constants[0]));
    out.template set<0>(detail::exact_sum(in.template get<0>(), -detail::exact_product(rate, in.template get<1>())));
  }
};

/// Inputs: variable, velocity, gradient. Constants: rate, mu. Outputs: variable, velocity.
template <class T>
struct momentum_program : detail::plain_program<T, 3, 2, 2> {
  template <class In, class Out>
  WEFT_HOST_DEVICE static void run(const In& in, const std::uint64_t* constants, double, Out& out) {
    const T rate = static_cast<T>(detail::double_of(constants[0])),
            mu = static_cast<T>(detail::double_of(constants[1]));
    const T velocity = detail::exact_sum(detail::exact_product(mu, in.template get<1>()), in.template get<2>());
    out.template set<1>(velocity);
    out.template set<0>(detail::exact_sum(in.template get<0>(), -detail::exact_product(rate, velocity)));
  }
};

/// Inputs: variable, what is added to it.
template <class T>
struct add_program : detail::plain_program<T, 2, 1, 0> {
  template <class In, class Out>
  WEFT_HOST_DEVICE static void run(const In& in, const std::uint64_t*, double, Out& out) {
    out.template set<0>(static_cast<T>(in.template get<0>() + in.template get<1>()));
  }
};

/// Constants: the number.
template <class T>
struct fill_program : detail::plain_program<T, 0, 1, 1> {
  template <class In, class Out>
  WEFT_HOST_DEVICE static void run(const In&, const std::uint64_t* constants, double, Out& out) {
    out.template set<0>(static_cast<T>(detail::double_of(constants[0])));
  }
};

/// Elements as they are, of any type of this size: axes in another order, or a value given to a variable.
template <class T>
struct copy_program : detail::plain_program<T, 1, 1, 0> {
  template <class In, class Out>
  WEFT_HOST_DEVICE static void run(const In& in, const std::uint64_t*, double, Out& out) {
    out.template set<0>(in.template get<0>());
  }
};

}  // namespace weft::gpu
