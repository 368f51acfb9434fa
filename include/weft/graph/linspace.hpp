// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/graph/leaves.hpp>

/// Evenly spaced numbers. Included by name, not by <weft/weft.hpp>.
namespace weft {

/// Returns `Count` evenly spaced numbers from `start` to `stop`, both included (tf.linspace, numpy.linspace):
/// `linspace<float, 5>(0, 1)`, `[5]`, is 0, 0.25, 0.5, 0.75 and 1. If `Count` is 1, the number is `start`. Float or
/// double.
template <class T, int Count>
[[nodiscard]] tensor<T, dims<Count>> linspace(T start, T stop);

/// The same as a constant in a graph.
template <class T, int Count>
[[nodiscard]] auto linspace(graph& g, T start, T stop);

/// linspace requires a floating-point type and a count of at least 1.
template <class T, int Count>
using linspace_mistake = first_mistake<not_floating<T>, extents_are_not_valid<dims<Count>>>;

template <class T, int Count>
tensor<T, dims<Count>> linspace(T start, T stop) {
  using mistake = linspace_mistake<T, Count>;
  static_assert(correct<mistake>, "linspace<T, count>(start, stop): T must be float or double, and count a number");
  tensor<T, dims<Count>> made;
  if constexpr (correct<mistake>) {
    const double from = static_cast<double>(start), step = (static_cast<double>(stop) - from) / (Count - 1);
    for (int i = 0; i < Count; ++i) made.data()[i] = static_cast<T>(from + i * step);
    if (Count > 1) made.data()[Count - 1] = stop;
    if (Count > 0) made.data()[0] = start;
  }
  return made;
}

template <class T, int Count>
auto linspace(graph& g, T start, T stop) {
  return constant(g, linspace<T, Count>(start, stop));
}

}  // namespace weft
