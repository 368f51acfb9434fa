// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/map.hpp>

/// The programs of operations that write variables or constants, except optimizers (ops/gpu/update.hpp).
namespace weft::gpu {

namespace detail {

WEFT_HOST_DEVICE inline double double_of(std::uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/// A program whose inputs and outputs have one type.
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

/// Inputs: the variable and the summand.
template <class T>
struct add_program : detail::plain_program<T, 2, 1, 0> {
  template <class In, class Out>
  WEFT_HOST_DEVICE static void run(const In& in, const std::uint64_t*, double, Out& out) {
    out.template set<0>(static_cast<T>(in.template get<0>() + in.template get<1>()));
  }
};

/// Inputs: the average, the batch's mean or variance, and the number of elements per channel. Constants: the momentum,
/// and 1 if the second input is a variance.
template <class T>
struct moving_average_program : detail::plain_program<T, 3, 1, 2> {
  template <class In, class Out>
  WEFT_HOST_DEVICE static void run(const In& in, const std::uint64_t* constants, double, Out& out) {
    const double momentum = detail::double_of(constants[0]);
    const T n = in.template get<2>(), keep = static_cast<T>(momentum);
    const T take = static_cast<T>(1 - momentum) * ((constants[1] & 1) != 0 && n > T(1) ? n / (n - T(1)) : T(1));
    const T average = in.template get<0>();
    out.template set<0>(n > T(0) ? keep * average + take * in.template get<1>() : average);
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

}  // namespace weft::gpu
