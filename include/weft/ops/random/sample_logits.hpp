// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <weft/ops/arrays/counted.hpp>
#include <weft/ops/arrays/stop_gradient.hpp>
#include <weft/ops/elementwise/predicates.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/ops/index/sort.hpp>
#include <weft/ops/random/categorical.hpp>
#include <weft/ops/random/distributions.hpp>
#include <weft/ops/reduce/scan.hpp>
#include <weft/ops/reduce/softmax.hpp>

/// Classes drawn by logits: for the next word of a text, without replacement, and with a gradient. Not part of
/// <weft/weft.hpp>.
namespace weft {

/// The options of sample_logits.
struct sampling_options {
  double temperature = 1;  ///< divides the logits; 0 takes the largest logit
  std::int64_t top_k = 0;  ///< draws one of the k most probable classes; 0 admits all
  double top_p = 1;        ///< then one of the most probable classes whose probabilities reach p (nucleus sampling)
};

/// The options of gumbel_softmax.
struct gumbel_options {
  double temperature = 1;
  bool hard = false;  ///< returns a one and zeros, with the gradient of the soft result (straight-through)
};

/// The first mistake in logits to draw from, if any.
template <class Expr>
using sampling_mistake =
    first_mistake<value_not_in_a_graph<Expr>, axis_out_of_range<dims_t<Expr>, -1>, not_floating<value_t<Expr>>>;

namespace detail {

inline void check_temperature(const char* name, double temperature, bool zero) {
  if (!(temperature > 0 || (zero && temperature == 0)))
    throw error(error_code::invalid_argument, name,
                {"the temperature must be positive; it is ", format_number("%.*g", 6, temperature)});
}

/// Draws one of the First most probable classes.
template <auto First, class X>
auto sample_first(const X& x, const sampling_options& how, const random_options& options) {
  using T = value_t<X>;
  constexpr std::size_t last = dims_t<X>::rank - 1;
  constexpr auto never = -std::numeric_limits<T>::infinity();
  std::int64_t first = -1;
  if constexpr (std::is_integral_v<decltype(First)>) first = First;
  const auto ordered = sorted<with_extent<dims_t<X>, last, First>>(x, last, first, direction::descending);
  auto kept = let(ordered.values / how.temperature);
  if (how.top_k > 0) kept = let(weft::select(counted_along<std::int64_t, last>(kept) < how.top_k, kept, never));
  if (how.top_p < 1) kept = let(weft::select(cumsum<-1>(softmax(kept), {.exclusive = true}) < how.top_p, kept, never));
  const auto place = categorical(kept, options);
  const auto valid = let(maximum(place, 0));
  if constexpr (last == 0)
    return let(weft::select(place < 0, place, gather(ordered.indices, valid)));
  else
    return let(weft::select(place < 0, place, batch_gather<static_cast<int>(last)>(ordered.indices, valid)));
}

}  // namespace detail

/// Draws one class for each row of logits `[..., classes]`, std::int32_t `[...]`, as language models do (Holtzman et
/// al., The Curious Case of Neural Text Degeneration, 2020): `sample_logits(logits, {.temperature = 0.8, .top_k = 50,
/// .top_p = 0.95})`. At least one class remains. Draws as `categorical`, also for NaN and infinities. Throws
/// invalid_argument unless the temperature and top_k are at least 0 and top_p is positive.
template <Expression Expr>
[[nodiscard]] auto sample_logits(const Expr& logits, sampling_options how = {}, random_options options = {}) {
  static_assert(correct<sampling_mistake<Expr>>,
                "sample_logits: needs logits [..., classes] of float or double in a graph");
  if constexpr (correct<sampling_mistake<Expr>>) {
    detail::check_temperature("sample_logits", how.temperature, true);
    if (how.top_k < 0 || !(how.top_p > 0))
      throw error(error_code::invalid_argument, "sample_logits", "top_k must not be negative, and top_p positive");
    constexpr std::size_t last = dims_t<Expr>::rank - 1;
    const auto x = let(logits);
    if (how.temperature == 0)
      return let(select(max<-1>(cast<std::int32_t>(is_nan(x))) > 0, std::int32_t{-1}, argmax<-1>(x)));
    if (how.top_k == 0 && how.top_p >= 1) return categorical(let(x / how.temperature), options);
    // The largest few are selected without sorting all.
    constexpr std::int64_t classes = dims_t<Expr>::spec[last];
    if constexpr (classes > 64)
      if (how.top_k > 0 && how.top_k <= 64) return detail::sample_first<64>(x, how, options);
    if constexpr (classes > 1024)
      if (how.top_k > 0 && how.top_k <= 1024) return detail::sample_first<1024>(x, how, options);
    return detail::sample_first<detail::extent_at<dims_t<Expr>, last>::value>(x, how, options);
  } else {
    return detail::after_mistake<std::int32_t, dims<>>(logits);
  }
}

/// Draws K different classes for each row of logits `[..., classes]`, std::int32_t `[..., K]`, in the order of the
/// draws: each with the probabilities `softmax(logits)` of the classes that are left (torch.multinomial without
/// replacement; the Gumbel top-k trick, Kool et al., 2019).
template <int K, Expression Expr>
[[nodiscard]] auto sample_without_replacement(const Expr& logits, random_options options = {}) {
  static_assert(correct<sampling_mistake<Expr>>,
                "sample_without_replacement: needs logits [..., classes] of float or double in a graph");
  if constexpr (correct<sampling_mistake<Expr>>) {
    const auto x = let(logits);
    return top_k<K>(x + detail::drawn_gumbel(x, options)).indices;
  } else {
    return detail::after_mistake<std::int32_t, dims<>>(logits);
  }
}

/// Returns a sample of each row of logits `[..., classes]` as a distribution that has a gradient: softmax((logits + g)
/// / temperature) for Gumbel numbers g (Jang, Gu and Poole, 2017; torch.nn.functional.gumbel_softmax).
template <Expression Expr>
[[nodiscard]] auto gumbel_softmax(const Expr& logits, gumbel_options how = {}, random_options options = {}) {
  static_assert(correct<sampling_mistake<Expr>>,
                "gumbel_softmax: needs logits [..., classes] of float or double in a graph");
  if constexpr (correct<sampling_mistake<Expr>>) {
    detail::check_temperature("gumbel_softmax", how.temperature, false);
    const auto x = let(logits);
    const auto soft = softmax((x + detail::drawn_gumbel(x, options)) / how.temperature);
    if (!how.hard) return soft;
    const auto chosen =
        detail::counted_along<std::int32_t, dims_t<Expr>::rank - 1>(x) == expand_dims<-1>(argmax<-1>(soft));
    return let(cast<value_t<Expr>>(chosen) + (soft - stop_gradient(soft)));
  } else {
    return detail::same_after_mistake(logits);
  }
}

WEFT_OTHER_CALLS(sample_logits);  // logits and options: sample_logits(x, {.temperature = 0.8, .top_p = 0.9})
WEFT_OTHER_CALLS(sample_without_replacement);  // draws are a template argument: sample_without_replacement<3>(x)
WEFT_OTHER_CALLS(gumbel_softmax);  // logits and options: gumbel_softmax(x, {.temperature = 0.5, .hard = true})

}  // namespace weft
