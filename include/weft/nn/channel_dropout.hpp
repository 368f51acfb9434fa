// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include <weft/nn/dropout.hpp>
#include <weft/ops/arrays/broadcast_to.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/reduce/reduce.hpp>

/// Dropout of whole channels, and dropout that preserves moments. Not part of `<weft/nn.hpp>`.
namespace weft::nn {

/// Dropout of channels needs [batch, ..., channels].
template <class X>
struct operand_has_no_channels : mistake<(X::rank < 2)> {};

namespace detail {

/// D with extent 1 along all axes but the first and the last.
template <class D>
using one_for_each_channel = typename weft::detail::ones_at<D, ((std::uint32_t{1} << (D::rank - 1)) - 1) & ~1u,
                                                            typename weft::detail::make_indices<D::rank>::type>::type;

/// Ones of the extents D, of which dropout sets some to 0 and the others to 1 / (1 - rate).
template <class D, class X>
auto drop_ones(const X& x, double rate, const random_options& options) {
  return weft::dropout(weft::detail::filled<value_t<X>, D>(*x.erased().builder(), value_t<X>(1)), rate, options);
}

}  // namespace detail

/// In training, sets whole channels of [batch, ..., channels] to zero with probability `rate` and divides the others by
/// 1 - rate (tf.keras.layers.SpatialDropout2D, torch.nn.Dropout2d). In inference, returns the operand.
struct channel_dropout {
  double rate = 0.5;
  random_options options{};

  template <Expression X>
  auto operator()(const X& e, mode how) const {
    using D = dims_t<X>;
    using mistaken = first_mistake<value_not_in_a_graph<X>, operand_has_no_channels<D>, not_floating<value_t<X>>>;
    static_assert(correct<mistaken>, "channel_dropout: needs float or double [batch, ..., channels] in a graph");
    if constexpr (correct<mistaken>) {
      const auto x = let(e);
      return how == mode::training && rate > 0
                 ? let(x * detail::drop_ones<detail::one_for_each_channel<D>>(x, rate, options))
                 : x;
    } else {
      return weft::detail::after_mistake<value_t<X>, D>(e);
    }
  }
  template <Expression X>
  auto operator()(const X& x) const {
    static_assert(correct<mode_is_missing<X>>,
                  "channel_dropout: needs a mode, nn::mode::training or nn::mode::inference: drop(x, how)");
    return (*this)(x, mode::inference);
  }
  static constexpr bool needs_mode = true;
};

/// Dropout that preserves mean 0 and variance 1, for nn::selu: in training, sets random elements to selu's lower limit
/// and rescales all (Klambauer et al., NeurIPS 2017; torch.nn.AlphaDropout). In inference, returns the operand.
struct alpha_dropout {
  double rate = 0.5;
  random_options options{};

  template <Expression X>
  auto operator()(const X& e, mode how) const {
    using T = value_t<X>;
    using mistaken = first_mistake<value_not_in_a_graph<X>, not_floating<T>>;
    static_assert(correct<mistaken>, "alpha_dropout: needs float or double in a graph");
    if constexpr (correct<mistaken>) {
      const auto x = let(e);
      if (how != mode::training || rate == 0) return x;
      constexpr double lowest = -1.7580993408473766;
      const double scale = 1 / __builtin_sqrt((1 - rate) * (1 + rate * lowest * lowest));
      const auto kept = detail::drop_ones<dims_t<X>>(x, rate, options);
      return let(select(kept > 0, x, static_cast<T>(lowest)) * static_cast<T>(scale) -
                 static_cast<T>(scale * rate * lowest));
    } else {
      return weft::detail::after_mistake<T, dims_t<X>>(e);
    }
  }
  template <Expression X>
  auto operator()(const X& x) const {
    static_assert(correct<mode_is_missing<X>>,
                  "alpha_dropout: needs a mode, nn::mode::training or nn::mode::inference: drop(x, how)");
    return (*this)(x, mode::inference);
  }
  static constexpr bool needs_mode = true;
};

}  // namespace weft::nn
