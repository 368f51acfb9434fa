// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include <weft/nn/attention.hpp>
#include <weft/nn/dense.hpp>
#include <weft/nn/layer.hpp>
#include <weft/nn/normalization.hpp>
#include <weft/nn/sequence_arguments.hpp>
#include <weft/nn/visit.hpp>
#include <weft/ops/random/dropout.hpp>

/// Layers of "Attention Is All You Need" (Vaswani et al., NeurIPS 2017): docs/how-to/sequences.md. Not part of
/// <weft/nn.hpp>.
namespace weft::nn {

/// The options of transformer layers, in the inner braces: `transformer_encoder_layer<8> layer{{.norm_first = true}}`.
/// The defaults are torch's, except that nothing is dropped.
template <Element T = float>
struct transformer_options {
  bool norm_first = false;  ///< normalizes the operand of each block instead of its result
  bool causal = false;      ///< step i of a self-attention attends to steps 0 to i
  bool use_bias = true;
  double dropout = 0;                    ///< of the result of each block
  double attention_dropout = dropout;    ///< of the attention weights
  double feedforward_dropout = dropout;  ///< of the activations between the two dense layers
  double epsilon = 1e-5;
  activation_option<T> activation = nn::relu;
  rotary_option<T> rotary{};  ///< of self-attention: nn::rotary{} (nn/rotary.hpp)
  stored_initializer weights_init = init::glorot_uniform{};
};

/// The result of nn::of_memory.
template <detail::AttentionArgument A>
struct memory_argument {
  A value;
};
/// An argument of a decoder that applies to the memory instead of the operand: `decoder(x, memory, nn::lengths(n),
/// nn::of_memory(nn::lengths(m)))` (memory_key_padding_mask, memory_mask).
template <detail::AttentionArgument A>
[[nodiscard]] auto of_memory(const A& a) {
  return memory_argument<A>{a};
}

namespace detail {

template <class A>
inline constexpr bool is_of_memory = false;
template <class A>
inline constexpr bool is_of_memory<memory_argument<A>> = true;

template <class A>
concept TransformerArgument = AttentionArgument<A> || is_of_memory<A>;

/// Returns an argument in a tuple, or an empty tuple if it is for the other attention of a decoder.
template <bool OfMemory, class A>
auto argument_for(const A& a) {
  if constexpr (is_of_memory<A> && OfMemory)
    return std::tuple{a.value};
  else if constexpr (!is_of_memory<A> && (!OfMemory || std::is_same_v<A, mode>))
    return std::tuple{a};
  else
    return std::tuple<>();
}
template <bool OfMemory, class... A>
auto arguments_for(const A&... a) {
  return std::tuple_cat(argument_for<OfMemory>(a)...);
}
template <class... A>
auto sorted_arguments(const std::tuple<A...>& t) {
  return std::apply([](const auto&... a) { return arguments_of(a...); }, t);
}

/// A dense layer whose result has the type of another node: linear(x, like).
template <Element T>
struct dense_like {
  bool use_bias = true;
  stored_initializer weights_init = init::glorot_uniform{};
  stored_initializer bias_init = init::zeros{};
  layer_state state{layer_class::dense};
  mutable parameter weights{}, bias{};

  template <Expression X, Expression Like>
  Like operator()(const X& e, const Like&) const {
    const auto x = let(e);
    constexpr int in = static_extent<X, -1>(), out = static_extent<Like, -1>();
    return Like(call_dense<T>(
        x.erased(), state, {{"weights", shape(in, out), weights_init, weights}, {"bias", shape(out), bias_init, bias}},
        use_bias, {}));
  }
  void visit(const std::string& path, layer_visitor& v) const {
    v.layer(path, state, {{"weights", &weights}, {"bias", &bias}});
  }
};

/// An encoder layer, or a decoder layer, which also attends to a memory.
template <int Heads, int Feedforward, Element T, bool Decodes>
struct transformer_layer {
  using options_type = transformer_options<T>;
  using attention = multi_head_attention<Heads, deduced, T>;
  using norm = layer_norm<deduced, T>;

  options_type options{};
  attention self_attn = attention_with(options, options.causal, options.rotary);
  attention multihead_attn = attention_with(options, false, {});
  dense<Feedforward, deduced, T> linear1{
      .use_bias = options.use_bias, .activation = options.activation, .weights_init = options.weights_init};
  dense_like<T> linear2{.use_bias = options.use_bias, .weights_init = options.weights_init};
  norm norm1{.epsilon = options.epsilon, .use_bias = options.use_bias};
  norm norm2{.epsilon = options.epsilon, .use_bias = options.use_bias};
  norm norm3{.epsilon = options.epsilon, .use_bias = options.use_bias};

  template <Expression X, AttentionArgument... A>
    requires(!Decodes)
  auto operator()(const X& x, const A&... arguments) const {
    using mistaken = attention_mistake<X, X, X, attention, arguments_type<A...>>;
    static_assert(correct<mistaken>,
                  "transformer_encoder_layer: needs a node [batch, steps, features] of the layer's element type, with "
                  "features that the heads divide, lengths [batch], and a mask that fits");
    if constexpr (correct<mistaken>)
      return run(let(x), arguments_of(arguments...), std::tuple{arguments...});
    else
      return weft::detail::after_mistake<T, dims_t<X>>(x);
  }
  template <Expression X, Expression Memory, TransformerArgument... A>
    requires(Decodes)
  auto operator()(const X& x, const Memory& memory, const A&... arguments) const {
    const auto own = arguments_for<false>(arguments...);
    const auto of_memory = std::tuple_cat(std::tuple(let(memory)), arguments_for<true>(arguments...));
    using given = decltype(sorted_arguments(own));
    using mistaken = first_mistake<
        attention_mistake<X, X, X, attention, given>,
        attention_mistake<X, Memory, Memory, attention, decltype(sorted_arguments(arguments_for<true>(arguments...)))>>;
    static_assert(correct<mistaken>,
                  "transformer_decoder_layer: needs nodes x [batch, steps, features], with features that the heads "
                  "divide, and memory [batch, keys, ...] of the layer's element type, lengths [batch], and masks that "
                  "fit; arguments about the memory are in nn::of_memory(...)");
    if constexpr (correct<mistaken>)
      return run(let(x), sorted_arguments(own), own, of_memory);
    else
      return weft::detail::after_mistake<T, dims_t<X>>(x);
  }
  auto operator()(...) const WEFT_DELETED;  // encoder(x, nn::lengths(n)), decoder(x, memory, nn::mode::training)

  void visit(const std::string& path, layer_visitor& v) const {
    v(path, "self_attn", self_attn);
    if (Decodes) v(path, "multihead_attn", multihead_attn);
    v(path, "linear1", linear1), v(path, "linear2", linear2);
    v(path, "norm1", norm1), v(path, "norm2", norm2);
    if (Decodes) v(path, "norm3", norm3);
  }

 private:
  static attention attention_with(const options_type& o, bool causal, const rotary_option<T>& rotary) {
    return {.use_bias = o.use_bias,
            .causal = causal,
            .dropout = o.attention_dropout,
            .rotary = rotary,
            .weights_init = o.weights_init};
  }
  /// x + block(normalize(x)) if the norm is first, else normalize(x + block(x)).
  template <class X, class Block>
  X add(const X& x, const norm& normalize, double rate, const Block& block) const {
    const X operand = options.norm_first ? normalize(x) : x, y = block(operand);
    const X both = let(x + (rate > 0 ? let(weft::dropout(y, rate)) : y));
    return options.norm_first ? both : normalize(both);
  }
  template <class X, class Arguments, class Own, class... Memory>
  X run(const X& operand, const Arguments& a, const Own& own, const Memory&... memory) const {
    constexpr const char* name = Decodes ? "transformer_decoder_layer" : "transformer_encoder_layer";
    const double rate = a.dropout_rate(name, options.dropout);
    const auto call = [](const attention& layer, const X& x, const auto& arguments) {
      return std::apply([&](const auto&... each) { return layer(x, each...); }, arguments);
    };
    X x = add(operand, norm1, rate, [&](const X& h) { return call(self_attn, h, own); });
    ((x = add(x, norm2, rate, [&](const X& h) { return call(multihead_attn, h, memory); })), ...);
    return add(x, Decodes ? norm3 : norm2, rate, [&](const X& h) {
      const auto inner = linear1(h);
      const double inner_rate = a.dropout_rate(name, options.feedforward_dropout);
      return linear2(inner_rate > 0 ? let(weft::dropout(inner, inner_rate)) : inner, h);
    });
  }
};

template <class Layer, std::size_t Count, class Options>
std::array<Layer, Count> layers_with(const Options& options) {
  return [&]<std::size_t... Index>(std::index_sequence<Index...>) {
    return std::array<Layer, Count>{(static_cast<void>(Index), Layer{options})...};
  }(std::make_index_sequence<Count>());
}

}  // namespace detail

/// Self-attention and a feed-forward network, each in a residual block with layer normalization: x [batch, steps,
/// features], the result of the same extents (torch.nn.TransformerEncoderLayer with batch_first). `Feedforward` is the
/// width between the two dense layers. Heads must divide the features.
///
///     transformer_encoder_layer<8, 2048> layer{{.norm_first = true, .dropout = 0.1}};
///     auto y = layer(x, nn::lengths(n), nn::mode::training);
///
/// Further arguments: `nn::lengths(n)`, `nn::mask(m)` and a mode, as in multi_head_attention; with dropout, a call
/// without a mode throws invalid_argument. Variables have torch's names: self_attn, linear1, linear2, norm1, norm2.
template <int Heads, int Feedforward = 2048, Element T = float>
using transformer_encoder_layer = detail::transformer_layer<Heads, Feedforward, T, false>;

/// An encoder layer that also attends to a memory [batch, keys, ...], the result of an encoder
/// (torch.nn.TransformerDecoderLayer with batch_first): `layer(x, memory, nn::lengths(n),
/// nn::of_memory(nn::lengths(m)), nn::mode::training)`. Arguments outside nn::of_memory apply to x. Set `.causal` for
/// generation. The attention to the memory is multihead_attn.
template <int Heads, int Feedforward = 2048, Element T = float>
using transformer_decoder_layer = detail::transformer_layer<Heads, Feedforward, T, true>;

/// `Count` transformer layers, one after the other, that get the same options and arguments, and a last normalization
/// if `.final_norm` is set, as it should be with `.norm_first` (torch.nn.TransformerEncoder, TransformerDecoder):
///
///     transformer_encoder<transformer_encoder_layer<8>, 6> encoder{{.dropout = 0.1}};
///     auto y = encoder(x, nn::lengths(n), nn::mode::training);
///
/// Variables have torch's names: "encoder/layers/0/linear1/weights", "encoder/norm/scale".
template <class Layer, std::size_t Count>
struct transformer_encoder {
  typename Layer::options_type options{};
  bool final_norm = false;
  std::array<Layer, Count> layers = detail::layers_with<Layer, Count>(options);
  typename Layer::norm norm{.epsilon = options.epsilon, .use_bias = options.use_bias};

  template <Expression X, class... A>
  auto operator()(const X& x, const A&... arguments) const {
    auto y = let(x);
    for (const Layer& layer : layers) y = layer(y, arguments...);
    return final_norm ? norm(y) : y;
  }

  void visit(const std::string& path, layer_visitor& v) const {
    v(path, "layers", layers);
    v(path, "norm", norm);
  }
};

/// `Count` decoder layers: `decoder(x, memory, nn::mode::training)`; see transformer_encoder.
template <class Layer, std::size_t Count>
using transformer_decoder = transformer_encoder<Layer, Count>;

}  // namespace weft::nn
