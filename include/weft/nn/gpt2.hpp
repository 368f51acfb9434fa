// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <weft/nn/dropout.hpp>
#include <weft/nn/embedding.hpp>
#include <weft/nn/positions.hpp>
#include <weft/nn/transformer.hpp>
#include <weft/nn/visit.hpp>
#include <weft/ops/products/matmul.hpp>

/// GPT-2 as a model. Not part of <weft/nn.hpp>.
namespace weft::nn {

/// The sizes of a GPT-2. The defaults are the smallest published model's, of 124 million parameters.
struct gpt2_options {
  int layers = 12, heads = 12, width = 768, vocabulary = 50257, context = 1024;
};

/// GPT-2 (Radford et al., 2019): token ids [batch, steps] to logits [batch, steps, vocabulary] of the token after each
/// step. The last projection is the transposed table of tokens. Further arguments: `nn::lengths(n)`, `nn::mask(m)` and
/// a mode, as in transformer_encoder_layer, and `nn::cached(caches, positions)` for a generator: the steps continue
/// texts at these positions, with one cache for each layer.
///
///     nn::gpt2<nn::gpt2_options{.layers = 4, .heads = 4, .width = 128, .vocabulary = 256, .context = 128}> net;
///     auto logits = net(ids);
///
/// `nn::load_hugging_face_weights("model.safetensors", net, s)` loads Hugging Face's GPT2Model and GPT2LMHeadModel.
template <gpt2_options Options = gpt2_options{}, Element T = float>
struct gpt2 {
  using layer = transformer_encoder_layer<Options.heads, 4 * Options.width, T>;

  double dropout = 0;    ///< Hugging Face's models have 0.1
  double stddev = 0.02;  ///< of the first weights; a narrow model learns faster with about 1 / sqrt(width)
  embedding<Options.vocabulary, Options.width, T> wte{.table_init = init::normal{.stddev = stddev}};
  positional_embedding<Options.context, T> wpe{.table_init = init::normal{.stddev = stddev}};
  transformer_encoder<layer, static_cast<std::size_t>(Options.layers)> h{
      {.norm_first = true,
       .causal = true,
       .dropout = dropout,
       .feedforward_dropout = 0,
       .activation = gelu_tanh,
       .weights_init = init::normal{.stddev = stddev}},
      true};

  template <Expression Ids, detail::AttentionArgument... A>
  auto operator()(const Ids& ids, const A&... arguments) const {
    return let(matmul<transpose_of::b>(states(ids, arguments...), wte.table));
  }
  /// Returns the states before the last projection, [batch, steps, width].
  template <Expression Ids, detail::AttentionArgument... A>
  auto states(const Ids& ids, const A&... arguments) const {
    using first_steps = node<std::int32_t, dims_t<dims<weft::detail::extent_at<dims_t<Ids>, 0>::value>>>;
    const auto given = detail::arguments_of(arguments...);
    const double rate = given.dropout_rate("gpt2", dropout);
    const auto words = wte(ids);
    const auto x = given.caches ? wpe(words, step_positions(first_steps(given.caches->positions), ids)) : wpe(words);
    return h(rate > 0 ? let(weft::dropout(x, rate)) : x, arguments...);
  }

  void visit(const std::string& path, layer_visitor& v) const {
    v(path, "wte", wte), v(path, "wpe", wpe), v(path, "h", h);
  }

  /// Hugging Face's names of these tensors, for load_hugging_face_weights.
  struct hugging_face {
    static constexpr std::string_view prefix = "transformer.", tied[2] = {"wte.weight", "lm_head.weight"};
    static constexpr bool conv1d = true;  ///< weights are [in, out]
    static constexpr std::pair<std::string_view, std::string_view> names[8] = {{"h.norm.", "ln_f."},
                                                                               {".layers.", "."},
                                                                               {"norm1.", "ln_1."},
                                                                               {"norm2.", "ln_2."},
                                                                               {"self_attn.in_proj_", "attn.c_attn."},
                                                                               {"self_attn.out_proj.", "attn.c_proj."},
                                                                               {"linear1.", "mlp.c_fc."},
                                                                               {"linear2.", "mlp.c_proj."}};
  };
};

}  // namespace weft::nn
