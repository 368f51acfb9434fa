// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include <weft/nn/attention.hpp>
#include <weft/ops/arrays/roll.hpp>
#include <weft/ops/products/attention_op.hpp>
#include <weft/ops/products/rotary_pairs.hpp>
#include <weft/tensor/sequence.hpp>

/// Rotary positions as an option of attention: docs/how-to/sequences.md. Not part of <weft/nn.hpp>.
WEFT_COLD_BEGIN
namespace weft::nn {

/// The option `.rotary` of multi_head_attention and of transformer layers: turns queries and keys as weft::rotary does
/// (Su et al., RoFormer), each by the position of its step. With nn::cached, the caches keep the turned keys.
///
///     nn::transformer_encoder_layer<8> layer{{.norm_first = true, .causal = true, .rotary = nn::rotary{}}};
///
/// The features of a head must be an even number.
struct rotary {
  double base = 10000;       ///< pair i turns by position * base^(-2 i / width)
  bool interleaved = false;  ///< pairs are features 2 i and 2 i + 1 (GPT-J); otherwise i and i + width / 2 (Llama)

  template <Element T>
  static symbol turn(const rotary_option<T>& o, const symbol& x, const symbol& first) {
    using leaf = node<T>;
    gpu::compile_kernels<gpu::moves, T>();
    const shape& e = x.extents();
    const std::int64_t width = e[3];
    if (width % 2 != 0)
      throw error(error_code::invalid_argument, "rotary",
                  {"the features of a head must be an even number; they are ", width});
    const auto constant = [&]<class Value>(const sequence<Value>& values) {
      const value_info info{dtype_of<Value>, shape(width)};
      return x.builder()->record_constant(values.data(), info, info.extents);
    };
    const weft::detail::rotary_pairs<T> pairs({o.base, o.interleaved}, width);
    const auto rolled = [&](std::int64_t by) {
      roll_op::attributes a{};
      a.by[3] = by;
      return weft::record<roll_op>({x}, x.info(), a);
    };
    const symbol others =
        o.interleaved ? record_untyped(select(node<bool>(constant(pairs.second)), leaf(rolled(1)), leaf(rolled(-1))), e)
                      : rolled(width / 2);
    const symbol places = weft::detail::record_places({x, {}, {}, {}, first, {}});
    shape all = places.extents();
    all[all.rank - 1] = width;
    const leaf angles(record_untyped(cast<T>(node<std::int32_t>(places)) * leaf(constant(pairs.rates)), all));
    return record_untyped(leaf(x) * cos(angles) + leaf(others) * (sin(angles) * leaf(constant(pairs.signs))), e);
  }
};

}  // namespace weft::nn
WEFT_COLD_END
