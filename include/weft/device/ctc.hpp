// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/cpu/math.hpp>

/// Connectionist temporal classification of one sequence (Graves et al., ICML 2006), in the logarithms of
/// probabilities, in double.
namespace weft::device {

/// Returns log(exp(a) + exp(b)).
WEFT_HOST_DEVICE inline double log_add(double a, double b) {
  const double larger = a > b ? a : b;
  if (!(larger > -__builtin_huge_val())) return a + b;
  return larger + math::log(math::exp(a - larger) + math::exp(b - larger));
}

/// Returns log(sum(exp(x))) of adjacent logits.
template <class T>
WEFT_HOST_DEVICE double log_sum(const T* x, std::size_t n) {
  double largest = -__builtin_huge_val(), sum = 0;
  for (std::size_t i = 0; i < n; ++i) largest = x[i] > largest ? static_cast<double>(x[i]) : largest;
  for (std::size_t i = 0; i < n; ++i) sum += math::exp(static_cast<double>(x[i]) - largest);
  return largest + math::log(sum);
}

/// The extents of a batch, and how to treat its sequences.
struct ctc_batch {
  std::size_t frames, classes, labels, blank;
  bool zero_infinity;

  /// The numbers that one sequence needs as memory.
  WEFT_HOST_DEVICE std::size_t memory() const { return frames + (frames + 1) * (2 * labels + 1); }
  WEFT_HOST_DEVICE bool valid(const std::int32_t* label, std::int32_t frame_count, std::int32_t label_count) const {
    bool fits = frame_count >= 0 && static_cast<std::size_t>(frame_count) <= frames && label_count >= 0 &&
                static_cast<std::size_t>(label_count) <= labels;
    for (std::int32_t i = 0; fits && i < label_count; ++i)
      fits = label[i] >= 0 && static_cast<std::size_t>(label[i]) < classes;
    return fits;
  }
};

/// Returns -log(probability of the labels) for `frame_count` rows of logits. Writes its gradient by the logits to all
/// `batch.frames` rows of `gradient` unless that is null.
///
/// A state is a label or a blank next to one: state s is label s / 2 for odd s. `forward[t][s]` sums all paths that end
/// in state s at frame t, and `backward[s]` all paths from the next frame on that begin in state s.
template <class T>
WEFT_HOST_DEVICE double ctc_sequence(const ctc_batch& batch, const T* logits, const std::int32_t* labels,
                                     std::size_t frame_count, std::size_t label_count, double* memory, T* gradient) {
  constexpr double infinity = __builtin_huge_val();
  const std::size_t states = 2 * label_count + 1, classes = batch.classes;
  double* const norm = memory;
  double* const forward = norm + batch.frames;
  double* const backward = forward + batch.frames * states;
  const auto class_of = [&](std::size_t s) { return s % 2 ? static_cast<std::size_t>(labels[s / 2]) : batch.blank; };
  const auto log_p = [&](std::size_t t, std::size_t s) {
    return static_cast<double>(logits[t * classes + class_of(s)]) - norm[t];
  };
  const auto skips = [&](std::size_t s) { return s % 2 && s > 2 && labels[s / 2] != labels[s / 2 - 1]; };
  for (std::size_t t = 0; t < frame_count; ++t) norm[t] = log_sum(logits + t * classes, classes);
  for (std::size_t t = 0; t < frame_count; ++t) {
    const double* const before = forward + (t ? t - 1 : 0) * states;
    for (std::size_t s = 0; s < states; ++s) {
      double sum = s < 2 ? 0 : -infinity;
      if (t) {
        sum = before[s];
        if (s > 0) sum = log_add(sum, before[s - 1]);
        if (skips(s)) sum = log_add(sum, before[s - 2]);
      }
      forward[t * states + s] = sum + log_p(t, s);
    }
  }
  double log_all = label_count ? -infinity : 0;
  if (frame_count) {
    const double* const last = forward + frame_count * states - 1;
    log_all = label_count ? log_add(last[0], last[-1]) : last[0];
  }
  const bool impossible = log_all == -infinity, zero = impossible && batch.zero_infinity;
  if (gradient) {
    for (std::size_t i = 0; i < batch.frames * classes; ++i)
      gradient[i] = i / classes < frame_count && impossible && !zero ? static_cast<T>(__builtin_nanf("")) : T(0);
    for (std::size_t s = 0; s < states; ++s) backward[s] = s + 2 < states ? -infinity : 0;
    for (std::size_t t = impossible ? 0 : frame_count; t-- > 0;) {
      T* const row = gradient + t * classes;
      for (std::size_t c = 0; c < classes; ++c)
        row[c] = static_cast<T>(math::exp(static_cast<double>(logits[t * classes + c]) - norm[t]));
      for (std::size_t s = 0; s < states; ++s) {
        const double posterior = math::exp(forward[t * states + s] + backward[s] - log_all);
        row[class_of(s)] = static_cast<T>(static_cast<double>(row[class_of(s)]) - posterior);
      }
      for (std::size_t s = 0; s < states; ++s) backward[s] += log_p(t, s);
      for (std::size_t s = 0; s < states; ++s) {
        if (s + 1 < states) backward[s] = log_add(backward[s], backward[s + 1]);
        if (s + 2 < states && skips(s + 2)) backward[s] = log_add(backward[s], backward[s + 2]);
      }
    }
  }
  return zero ? 0 : -log_all;
}

}  // namespace weft::device
