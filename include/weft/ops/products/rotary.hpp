// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <weft/ops/arrays/counted.hpp>
#include <weft/ops/arrays/expand_dims.hpp>
#include <weft/ops/arrays/roll.hpp>
#include <weft/ops/products/attention.hpp>
#include <weft/ops/products/rotary_pairs.hpp>
#include <weft/tensor/sequence.hpp>

/// Rotary positions of queries and keys. Not part of <weft/weft.hpp>.
namespace weft {

/// Rotary positions need queries or keys [batch, heads, steps, width] of floating point, whose width is an even number.
template <class T, class D>
struct width_is_not_even
    : mistake<D::rank != 4 || !is_floating(dtype_of<T>) || !(D::spec[3] >= 0 && D::spec[3] % 2 == 0)> {};

namespace detail {

template <class T, class D, class... P>
constexpr auto find_rotary_mistake() {
  if constexpr (!correct<width_is_not_even<T, D>>)
    return width_is_not_even<T, D>{};
  else
    return first_mistake<mistake<false>, attention_argument_does_not_fit<T, D, D, P>...>{};
}

template <class P>
concept QueryPosition = AttentionOperand<P> && P::role == attention_role::position;

template <QueryPosition P>
auto position_of(const P& p) {
  if constexpr (dims_t<decltype(p.value)>::rank == 0)
    return p.value;
  else
    return expand_dims<1>(expand_dims<1>(expand_dims<1>(p.value)));
}

}  // namespace detail

/// Turns pairs of features by angles in proportion to the position of their step, so that products of queries and keys
/// depend on their distances (Su et al., RoFormer; apply_rotary_pos_emb of Hugging Face's Llama, GPT-NeoX and GPT-J).
/// x is `[batch, heads, steps, width]`, and so is the result. The first step has position 0 or, with
/// `query_position(p)`, p: a scalar or `[batch]` of std::int32_t.
template <Expression X, detail::QueryPosition... P>
  requires(sizeof...(P) <= 1)
[[nodiscard]] auto rotary(const X& e, const rotary_options& options = {}, const P&... position) {
  using T = value_t<X>;
  using D = dims_t<X>;
  using mistake = decltype(detail::find_rotary_mistake<T, D, P...>());
  static_assert(correct<mistake>,
                "rotary: needs [batch, heads, steps, width] of a floating-point type with a static, even width, and a "
                "position of std::int32_t, a scalar or [batch]");
  if constexpr (!correct<mistake>) {
    return detail::same_after_mistake(e);
  } else if constexpr (is_storage_type<T>) {
    return cast<T>(rotary(cast<float>(e), options, position...));
  } else {
    constexpr int width = static_extent<X, 3>(), half = width / 2;
    const detail::rotary_pairs<T> pairs(options, width);
    const auto as_tensor = []<class Value>(const sequence<Value>& values) {
      tensor<Value, dims<width>> to{};
      for (std::size_t c = 0; c < values.size(); ++c) to.data()[c] = values[c];
      return to;
    };
    const auto rates = as_tensor(pairs.rates), signs = as_tensor(pairs.signs);
    const auto second = as_tensor(pairs.second);
    const auto x = materialize(e);
    const auto others = options.interleaved ? materialize(select(second, roll<3>(x, 1), roll<3>(x, -1)))
                                            : materialize(roll<3>(x, half));
    const auto steps = expand_dims<1>(detail::counted_along<T, 2>(x));
    const auto angles = materialize((steps + ... + cast<T>(detail::position_of(position))) * rates);
    return materialize(x * cos(angles) + others * (sin(angles) * signs));
  }
}
/// Overload without options.
template <Expression X, detail::QueryPosition P>
[[nodiscard]] auto rotary(const X& x, const P& position) {
  return rotary(x, rotary_options(), position);
}

}  // namespace weft
