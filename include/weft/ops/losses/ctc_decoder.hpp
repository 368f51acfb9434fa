// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/cpu/ctc_decoder.hpp>
#include <weft/ops/losses/ctc_loss.hpp>

/// Decoders of what is trained with ctc_loss. Not part of <weft/weft.hpp>. They run on the CPU, even in a step on a
/// GPU, and have no gradients.
namespace weft {

/// Label sequences, std::int32_t and padded with -1; their lengths, std::int32_t; and logarithms of probabilities.
template <class Labels, class Lengths, class LogProbabilities>
struct decoded_labels {
  Labels labels;
  Lengths lengths;
  LogProbabilities log_probabilities;
};

/// Options of ctc_greedy_decoder.
struct ctc_greedy_options {
  std::int64_t blank = 0;      ///< the class of a blank; -1 is the last class
  bool merge_repeated = true;  ///< merges equal labels without a blank in between
};

/// Options of ctc_beam_search_decoder.
struct ctc_beam_options {
  std::int64_t blank = 0;
  std::size_t beam_width = 100;  ///< the prefixes that are kept after each frame
};

template <class T>
struct ctc_decoder_op {
  static constexpr const char* name = "ctc_decoder";
  struct attributes {
    attribute<std::int64_t> blank;
    attribute<std::size_t> beam_width;
    attribute<bool> merge_repeated;
  };
  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::ctc_decoder_kernel<T>(p, a.blank, a.beam_width, a.merge_repeated);
  }
  static void gradient(gradient_context&, const attributes&) {
    throw error(error_code::unimplemented, name, "has no gradient: use stop_gradient(log_probabilities)");
  }
};

namespace detail {

template <class Labels, class Lengths, class X, class Counts>
auto decode_ctc(const X& logits, const Counts& logit_lengths, std::int64_t paths, std::int64_t blank, std::size_t width,
                bool merges) {
  using T = value_t<X>;
  const auto x = materialize(logits);
  const shape& s = extents_of(x);
  const bool one = Lengths::rank == 1;
  auto [labels, lengths, scores] = call_operation<ctc_decoder_op<T>>(
      std::tuple{typed_result<std::int32_t, Labels>{one ? shape(s[0], s[1]) : shape(s[0], paths, s[1])},
                 typed_result<std::int32_t, Lengths>{one ? shape(s[0]) : shape(s[0], paths)},
                 typed_result<T, Lengths>{one ? shape(s[0]) : shape(s[0], paths)}},
      {blank, width, merges}, x, materialize(cast<std::int32_t>(logit_lengths)));
  return decoded_labels<decltype(labels), decltype(lengths), decltype(scores)>{labels, lengths, scores};
}

template <class X, class Counts>
using decoder_mistake =
    first_mistake<sequences_do_not_fit<dims_t<X>, dims_t<Counts>, value_t<Counts>, 1>, not_floating<value_t<X>>>;

}  // namespace detail

/// Takes the most probable class of each frame, merges repeated classes and removes blanks (tf.nn.ctc_greedy_decoder).
/// For logits `[batch, time, classes]` and their lengths `[batch]`, labels are `[batch, time]`, lengths `[batch]`, and
/// log-probabilities, `[batch]`, those of the path: `auto [labels, lengths, log_p] = ctc_greedy_decoder(x, n)`. Throws
/// out_of_range if a length is invalid.
template <Expression X, Expression Counts>
[[nodiscard]] auto ctc_greedy_decoder(const X& logits, const Counts& logit_lengths, ctc_greedy_options options = {}) {
  static_assert(correct<detail::decoder_mistake<X, Counts>>,
                "ctc_greedy_decoder: needs float or double logits [batch, time, classes] and integer lengths [batch]");
  using D = dims_t<X>;
  using rows = dims<detail::extent_at<D, 0>::value>;
  using labels = dims<detail::extent_at<D, 0>::value, detail::extent_at<D, 1>::value>;
  return detail::decode_ctc<labels, rows>(logits, logit_lengths, 1, options.blank, 0, options.merge_repeated);
}

/// Finds the `Paths` most probable label sequences of each row by a beam search over prefixes
/// (tf.nn.ctc_beam_search_decoder): `auto [labels, lengths, log_p] = ctc_beam_search_decoder<3>(x, n)`. For logits
/// `[batch, time, classes]` and their lengths `[batch]`, labels are `[batch, Paths, time]`, and lengths and
/// log-probabilities `[batch, Paths]`, the most probable first. A missing path has length -1 and log-probability -inf.
/// Throws out_of_range if a length is invalid, and invalid_argument unless the beam is at least as wide as `Paths`.
template <int Paths = 1, Expression X, Expression Counts>
[[nodiscard]] auto ctc_beam_search_decoder(const X& logits, const Counts& logit_lengths,
                                           ctc_beam_options options = {}) {
  static_assert(correct<detail::decoder_mistake<X, Counts>>,
                "ctc_beam_search_decoder: needs float or double logits [batch, time, classes] and integer lengths "
                "[batch]");
  static_assert(Paths > 0, "ctc_beam_search_decoder: needs at least one path");
  using D = dims_t<X>;
  using rows = dims<detail::extent_at<D, 0>::value, Paths>;
  using labels = dims<detail::extent_at<D, 0>::value, Paths, detail::extent_at<D, 1>::value>;
  if (options.beam_width < std::size_t{Paths})
    throw error(error_code::invalid_argument, "ctc_beam_search_decoder",
                {"a beam of width ", options.beam_width, " has no ", Paths, " paths"});
  return detail::decode_ctc<labels, rows>(logits, logit_lengths, Paths, options.blank, options.beam_width, true);
}

template <auto...>
auto ctc_greedy_decoder(...) WEFT_DELETED;  // logits, lengths and options: ctc_greedy_decoder(x, n, {.blank = -1})
template <auto...>
auto ctc_beam_search_decoder(...) WEFT_DELETED;  // the paths are a template argument: ctc_beam_search_decoder<3>(x, n)

}  // namespace weft
