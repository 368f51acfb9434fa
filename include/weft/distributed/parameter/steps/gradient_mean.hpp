// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <weft/device/cpu/vector_loops.hpp>
#include <weft/distributed/parameter/gradient_clipping.hpp>
#include <weft/distributed/parameter/row_lists.hpp>
#include <weft/transport/aligned_bytes.hpp>

namespace weft {

/// The memory of one worker's gradients, or of a copy of the values: each variable is at its offset from `base`.
template <typename Byte>
struct placed_bytes {
  Byte* base = nullptr;
  std::span<const std::size_t> offsets;
};

/// One worker's gradients: whole variables at their offsets, and lists of rows for the other variables. `rows` has one
/// list for each variable of the server, in wire order.
struct placed_gradients : placed_bytes<const std::byte> {
  std::span<const detail::row_list> rows = {};
};

namespace detail {

/// One worker's contribution to a mean, and its weight.
struct weighted_gradients {
  placed_gradients gradients;
  double weight = 1;
};

/// Returns the gradients of one whole variable.
template <typename T>
const T* gradients_of(const placed_gradients& from, std::size_t variable) {
  return reinterpret_cast<const T*>(from.base + from.offsets[variable]);
}

/// Computes the mean of several workers' gradients of whole variables, piece by piece: their weighted sum in the given
/// order, divided by the sum of the weights. The gradients must outlive this object.
class gradient_mean {
 public:
  /// Maximum number of elements in a piece, which then stays in the first-level cache between two passes.
  static constexpr std::size_t max_at_once = 2048;

  explicit gradient_mean(std::span<const weighted_gradients> of) : of_(of) {
    for (const weighted_gradients& each : of) {
      weights_ += each.weight;
      equal_ &= each.weight == 1;
    }
  }

  double weights() const { return weights_; }
  /// Returns true if there is only one worker, whose gradients are the mean.
  bool is_given() const { return of_.size() == 1 && equal_; }

  /// Computes `count` elements of the mean. Returns `room`, or the gradients of the only worker if is_given(). If
  /// elements are written to `room`, `finite` receives whether they are finite.
  template <typename T>
  const T* find(T* room, std::size_t variable, std::size_t first, std::size_t count, bool* finite = nullptr) const {
    const T by = static_cast<T>(weights_);
    if (is_given()) return from<T>(0, variable, first);
    if (of_.size() == 2 && equal_) {
      const bool all_finite = mean_of_two(room, from<T>(0, variable, first), from<T>(1, variable, first), count, by);
      if (finite) *finite = all_finite;
      return room;
    }
    alignas(64) T scaled[max_at_once];
    for (std::size_t worker = 0; worker < of_.size(); ++worker) {
      const T* next = from<T>(worker, variable, first);
      if (of_[worker].weight != 1) {
        scale(scaled, next, count, static_cast<T>(of_[worker].weight));
        next = scaled;
      }
      if (worker == 0)
        std::copy_n(next, count, room);
      else
        accumulate(room, next, count);
    }
    const bool all_finite = divide(room, count, by);
    if (finite) *finite = all_finite;
    return room;
  }
  template <typename T>
  bool is_finite(std::size_t variable, std::size_t first, std::size_t count) const {
    bool moderate = true;
    for (std::size_t worker = 0; worker < of_.size(); ++worker)
      moderate &= all_moderate(from<T>(worker, variable, first), count);
    alignas(64) T room[max_at_once];
    return moderate || all_finite(find(room, variable, first, count), count);
  }

 private:
  template <typename T>
  const T* from(std::size_t worker, std::size_t variable, std::size_t first) const {
    return gradients_of<T>(of_[worker].gradients, variable) + first;
  }

  std::span<const weighted_gradients> of_;
  double weights_ = 0;  // sum of the weights
  bool equal_ = true;   // all weights are 1
};

/// The mean of the rows of one variable that any worker sent, summed in the order of the workers. Owns the result.
class row_mean {
 public:
  /// Computes the mean of the rows of `variable`, of `width` elements each. Returns true if it is finite.
  template <typename T>
  bool find(std::size_t variable, std::size_t width, std::span<const weighted_gradients> of, double weights) {
    numbers_.clear();
    for (const weighted_gradients& worker : of) {
      const row_list& list = worker.gradients.rows[variable];
      for (std::size_t k = 0; k < list.count; ++k) numbers_.push_back(static_cast<std::int64_t>(list.number(k)));
    }
    std::sort(numbers_.begin(), numbers_.end());
    numbers_.erase(std::unique(numbers_.begin(), numbers_.end()), numbers_.end());
    const std::size_t count = numbers_.size(), bytes = count * width * sizeof(T);
    if (values_.size() < bytes) values_ = aligned_bytes(bytes + bytes / 2);
    T* const mean = reinterpret_cast<T*>(values_.data());
    std::fill_n(mean, count * width, T());
    for (const weighted_gradients& worker : of) {
      const row_list& list = worker.gradients.rows[variable];
      const T* const rows = reinterpret_cast<const T*>(list.rows);
      for (std::size_t k = 0, at = 0; k < list.count; ++k, ++at) {
        while (static_cast<std::size_t>(numbers_[at]) != list.number(k)) ++at;
        alignas(64) T scaled[gradient_mean::max_at_once];
        for (std::size_t first = 0; first < width; first += gradient_mean::max_at_once) {
          const std::size_t n = std::min(gradient_mean::max_at_once, width - first);
          const T* next = rows + k * width + first;
          if (worker.weight != 1) {
            scale(scaled, next, n, static_cast<T>(worker.weight));
            next = scaled;
          }
          accumulate(mean + at * width + first, next, n);
        }
      }
    }
    return divide(mean, count * width, static_cast<T>(weights));
  }

  void clip(bool is_double, std::size_t width, const gradient_clip& how, double factor) {
    const auto clip_as = [&]<typename T>(T) {
      T* const all = reinterpret_cast<T*>(values_.data());
      clip_elements(all, all, numbers_.size() * width, how, factor);
    };
    is_double ? clip_as(double{}) : clip_as(float{});
  }

  /// The rows of the mean, valid until the next find().
  row_list list() { return {reinterpret_cast<const std::byte*>(numbers_.data()), numbers_.size(), values_.data()}; }

 private:
  std::vector<std::int64_t> numbers_;
  aligned_bytes values_;
};

}  // namespace detail
}  // namespace weft
