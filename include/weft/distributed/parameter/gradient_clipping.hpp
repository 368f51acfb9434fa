// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <weft/graph/gradient_clip.hpp>

namespace weft {

/// How a parameter server clips the mean of the workers' gradients of a variable before it updates the variable.
struct gradient_clipping : detail::gradient_clip {
  std::uint32_t group = 0;  // with a global norm: variables with equal numbers share the norm

  bool uses_norm() const { return kind == detail::clip_kind::by_norm || kind == detail::clip_kind::by_global_norm; }

  friend bool operator==(const gradient_clipping&, const gradient_clipping&) = default;
};

namespace detail {

inline constexpr std::uint32_t max_clip_groups = 1 << 16;

/// Returns the factor that clips gradients whose sum of squares is `squares`, by the formulas of train/clipping.hpp.
/// NaN if a global norm is not finite.
inline double clip_factor(const gradient_clip& how, double squares) {
  const double norm = std::sqrt(squares), most = how.highest;
  switch (how.kind) {
    case clip_kind::by_norm:
      return most / std::max(norm, most);
    case clip_kind::by_global_norm:
      return most * std::min(1 / norm, 1 / most) + (norm - norm);
    case clip_kind::by_value:
    case clip_kind::none:
      break;
  }
  return 1;
}

/// Writes the clipped elements of a gradient to `to`, which may equal `from`.
template <typename T>
void clip_elements(T* to, const T* from, std::size_t count, const gradient_clip& how, double factor) {
  if (how.kind == clip_kind::by_value) {
    // As in the graph: NaN stays NaN.
    const T lowest = static_cast<T>(how.lowest), highest = static_cast<T>(how.highest);
    for (std::size_t i = 0; i < count; ++i) {
      const T below = from[i] > highest ? highest : from[i];
      to[i] = below < lowest ? lowest : below;
    }
  } else {
    const T by = static_cast<T>(factor);
    for (std::size_t i = 0; i < count; ++i) to[i] = from[i] * by;
  }
}

/// Returns the sum of the elements' squares, always added in the same order.
template <typename T>
double sum_of_squares(const T* x, std::size_t count) {
  constexpr std::size_t lanes = 8;
  double sums[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (std::size_t k = 0; k < lanes; ++k) sums[k] += static_cast<double>(x[i + k]) * static_cast<double>(x[i + k]);
  for (std::size_t k = 0; i < count; ++i, ++k) sums[k] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  double total = 0;
  for (const double each : sums) total += each;
  return total;
}

/// The sums of squares that clipping requires, and whether the mean of the workers' gradients is finite.
struct mean_squares {
  bool is_finite = true;
  std::vector<double> of_variables;  // sum of each gradient's squares, in the order of the server's variables
};

}  // namespace detail
}  // namespace weft
