// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/data/element.hpp>
#include <weft/tensor/random.hpp>

namespace weft::data {

/// Consecutive random numbers for one element of a dataset. They depend only on the seed and the element's position,
/// not on the thread.
///
///     images.map([](const data::position& at, const auto& x, auto y) { data::element_random random(1, at); ... }, 4)
class element_random {
 public:
  element_random(std::uint64_t seed, const position& at) : numbers_(key(seed, at.epoch), at.element) {}

  /// Uniform in (0, 1).
  double uniform() { return numbers_.uniform(next_++); }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// Returns an integer in [0, limit); limit must not be 0.
  std::size_t below(std::size_t limit) {
    const auto number = static_cast<std::size_t>(uniform() * static_cast<double>(limit));
    return number < limit ? number : limit - 1;
  }

 private:
  static std::uint64_t key(std::uint64_t seed, std::uint64_t epoch) {
    const philox mixed(seed, 0, epoch);
    return static_cast<std::uint64_t>(mixed.word[0]) << 32 | mixed.word[1];
  }

  random_stream numbers_;
  std::uint64_t next_ = 0;
};

}  // namespace weft::data
