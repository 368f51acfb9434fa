// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/cpu/math.hpp>

// Loops that CPUs vectorise.
#if defined(__CUDA_ARCH__)
  #define WEFT_CTC_LOOP
#else
  #define WEFT_CTC_LOOP WEFT_VECTORIZE
#endif

/// Connectionist temporal classification of one sequence (Graves et al., ICML 2006), in the logarithms of
/// probabilities, in double.
namespace weft::device {

/// Returns log(exp(a) + exp(b)).
WEFT_HOST_DEVICE inline double log_add(double a, double b) {
  const double larger = a > b ? a : b;
  if (!(larger > -__builtin_huge_val())) return a + b;
  return larger + math::log(math::exp(a - larger) + math::exp(b - larger));
}

/// Returns log(exp(a) + exp(b) + exp(c)) without branches.
WEFT_HOST_DEVICE WEFT_INLINE double log_add(double a, double b, double c) {
  double larger = a > b ? a : b;
  larger = larger > c ? larger : c;
  larger = larger > -1e300 ? larger : -1e300;  // -inf - -inf would be NaN
  return larger + math::log(math::exp(a - larger) + math::exp(b - larger) + math::exp(c - larger));
}

/// Returns log(sum(exp(x))) of adjacent logits.
template <class T>
WEFT_HOST_DEVICE WEFT_INLINE double log_sum(const T* x, std::size_t n) {
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
  WEFT_HOST_DEVICE std::size_t memory() const { return frames + (frames + 3) * (2 * labels + 3); }
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
/// A state is a label or a blank next to one: state s is label s / 2 for odd s. It follows state s, s - 1 or, if this
/// skips a blank between different labels, s - 2. `forward[t][s]` sums all paths that end in state s at frame t, and
/// `backward[s]` all paths from the next frame on that begin behind state s. Rows have two impossible states around.
template <class T>
WEFT_HOST_DEVICE WEFT_INLINE double ctc_sequence(const ctc_batch& batch, const T* logits, const std::int32_t* labels,
                                                 std::size_t frame_count, std::size_t label_count, double* memory,
                                                 T* gradient) {
  constexpr double infinity = __builtin_huge_val();
  const std::size_t states = 2 * label_count + 1, stride = states + 2, classes = batch.classes;
  double* const norm = memory;
  double* const forward = norm + batch.frames + 2;
  double* const backward = forward - 2 + batch.frames * stride;
  double* const emitted = backward + stride;
  double* const skipped = emitted + stride;  // 0 if a state follows the one two before it
  const auto class_of = [&](std::size_t s) { return s % 2 ? static_cast<std::size_t>(labels[s / 2]) : batch.blank; };
  const auto emit_frame = [&](std::size_t t) {
    for (std::size_t s = 0; s < states; ++s)
      emitted[s] = static_cast<double>(logits[t * classes + class_of(s)]) - norm[t];
  };
  for (std::size_t s = 0; s < stride; ++s)
    skipped[s] = s % 2 && s > 2 && s < states && labels[s / 2] != labels[s / 2 - 1] ? 0 : -infinity;
  for (std::size_t t = 0; t < frame_count; ++t) {
    norm[t] = log_sum(logits + t * classes, classes);
    emit_frame(t);
    double* const to = forward + t * stride;
    to[-1] = to[-2] = -infinity;
    if (t == 0) {
      for (std::size_t s = 0; s < states; ++s) to[s] = s < 2 ? emitted[s] : -infinity;
      continue;
    }
    const double *const from = to - stride, *const one_before = from - 1, *const two_before = from - 2;
    WEFT_CTC_LOOP
    for (std::size_t s = 0; s < states; ++s)
      to[s] = log_add(from[s], one_before[s], two_before[s] + skipped[s]) + emitted[s];
  }
  double log_all = label_count ? -infinity : 0;
  if (frame_count) {
    const double* const last = forward + (frame_count - 1) * stride + states - 1;
    log_all = log_add(last[0], label_count ? last[-1] : -infinity);
  }
  const bool impossible = log_all == -infinity, zero = impossible && batch.zero_infinity;
  if (gradient) {
    for (std::size_t i = 0; i < batch.frames * classes; ++i)
      gradient[i] = i / classes < frame_count && impossible && !zero ? static_cast<T>(__builtin_nanf("")) : T(0);
    for (std::size_t s = 0; s < stride; ++s) backward[s] = s + 2 < states || s >= states ? -infinity : 0;
    for (std::size_t t = impossible ? 0 : frame_count; t-- > 0;) {
      T* const row = gradient + t * classes;
      const T* const from = logits + t * classes;
      const double* const before = forward + t * stride;
      WEFT_CTC_LOOP
      for (std::size_t c = 0; c < classes; ++c)
        row[c] = static_cast<T>(math::exp(static_cast<double>(from[c]) - norm[t]));
      WEFT_CTC_LOOP
      for (std::size_t s = 0; s < states; ++s) emitted[s] = math::exp(before[s] + backward[s] - log_all);
      double blanks = 0;
      for (std::size_t s = 0; s < states; s += 2) blanks += emitted[s];
      row[batch.blank] = static_cast<T>(static_cast<double>(row[batch.blank]) - blanks);
      for (std::size_t s = 1; s < states; s += 2)
        row[class_of(s)] = static_cast<T>(static_cast<double>(row[class_of(s)]) - emitted[s]);
      emit_frame(t);
      for (std::size_t s = 0; s < states; ++s) backward[s] += emitted[s];
      WEFT_CTC_LOOP
      for (std::size_t s = 0; s < states; ++s)
        emitted[s] = log_add(backward[s], backward[s + 1], backward[s + 2] + skipped[s + 2]);
      for (std::size_t s = 0; s < states; ++s) backward[s] = emitted[s];
    }
  }
  return zero ? 0 : -log_all;
}

}  // namespace weft::device

#undef WEFT_CTC_LOOP
