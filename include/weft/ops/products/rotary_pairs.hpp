// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cmath>
#include <cstdint>

#include <weft/tensor/sequence.hpp>

/// The pairs of features that rotary positions turn.
namespace weft {

/// The options of rotary.
struct rotary_options {
  double base = 10000;       ///< pair i turns by position * base^(-2 i / width)
  bool interleaved = false;  ///< pairs are features 2 i and 2 i + 1 (GPT-J); otherwise i and i + width / 2 (Llama)
};

namespace detail {

/// For each feature: the angle per step, the sign of the other feature of its pair, and true if it is the second one.
template <class T>
struct rotary_pairs {
  sequence<T> rates, signs;
  sequence<bool> second;

  rotary_pairs(const rotary_options& o, std::int64_t width) {
    const std::int64_t half = width / 2;
    for (std::int64_t c = 0; c < width; ++c) {
      const std::int64_t pair = o.interleaved ? c / 2 : c % half;
      rates.push_back(static_cast<T>(std::pow(o.base, -static_cast<double>(pair) / static_cast<double>(half))));
      second.push_back(o.interleaved ? c % 2 == 1 : c >= half);
      signs.push_back(second.back() ? T(1) : T(-1));
    }
  }
};

}  // namespace detail
}  // namespace weft
