// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <weft/nn/dense.hpp>
#include <weft/nn/embedding.hpp>
#include <weft/nn/positions.hpp>
#include <weft/nn/transformer.hpp>
#include <weft/nn/visit.hpp>
#include <weft/ops/arrays/broadcast_to.hpp>
#include <weft/ops/arrays/reshape.hpp>
#include <weft/ops/arrays/slice.hpp>

/// BERT as a model. Not part of <weft/nn.hpp>.
namespace weft::nn {

/// The sizes of a BERT. The defaults are those of bert-base-uncased, of 110 million parameters.
struct bert_options {
  int layers = 12, heads = 12, width = 768, feedforward = 3072, vocabulary = 30522, context = 512, token_types = 2;
};

/// The states of all tokens, [batch, steps, width], and the pooled state of each text, [batch, width].
template <class States, class Pooled>
struct bert_result {
  States states;
  Pooled pooled;
};

/// BERT (Devlin et al., NAACL 2019): token ids [batch, steps] to a bert_result. The pooled state is a dense layer with
/// tanh of the first token's.
///
///     nn::bert<> net;
///     auto [states, pooled] = net(ids, nn::lengths(n));
///     auto [states, pooled] = net(ids, token_types, nn::lengths(n), nn::mode::training);
///
/// Token types are integers [batch, steps]; without them, all are 0. Further arguments are those of
/// transformer_encoder_layer; `nn::lengths` takes the place of the attention mask.
///
/// `nn::load_hugging_face_weights("model.safetensors", net, s)` loads Hugging Face's BertModel, also as a part of
/// models with heads.
template <bert_options Options = bert_options{}, Element T = float>
struct bert {
  using layer = transformer_encoder_layer<Options.heads, Options.feedforward, T>;

  double dropout = 0;  ///< Hugging Face's models have 0.1
  embedding<Options.vocabulary, Options.width, T> words{.table_init = init::normal{.stddev = 0.02}};
  positional_embedding<Options.context, T> positions{};
  embedding<Options.token_types, Options.width, T> types{.table_init = init::normal{.stddev = 0.02}};
  layer_norm<deduced, T> norm{.epsilon = 1e-12};
  transformer_encoder<layer, static_cast<std::size_t>(Options.layers)> encoder{
      {.dropout = dropout,
       .feedforward_dropout = 0,
       .epsilon = 1e-12,
       .activation = gelu,
       .weights_init = init::normal{.stddev = 0.02}}};
  dense<Options.width, deduced, T> pooler{.activation = tanh, .weights_init = init::normal{.stddev = 0.02}};

  template <Expression Ids, Expression Types, detail::AttentionArgument... A>
  auto operator()(const Ids& ids, const Types& token_types, const A&... arguments) const {
    const double rate = detail::arguments_of(arguments...).dropout_rate("bert", dropout);
    const auto x = norm(let(positions(words(ids)) + types(token_types)));
    const auto y = encoder(rate > 0 ? let(weft::dropout(x, rate)) : x, arguments...);
    using first = dims<extent_of<dims_t<decltype(y)>, 0>(), Options.width>;
    const auto pooled = pooler(reshape<first>(slice<1, 0, 1>(y)));
    return bert_result<std::remove_const_t<decltype(y)>, std::remove_const_t<decltype(pooled)>>{y, pooled};
  }
  template <Expression Ids, detail::AttentionArgument... A>
  auto operator()(const Ids& ids, const A&... arguments) const {
    return (*this)(ids, zeros_like(ids), arguments...);
  }

  void visit(const std::string& path, layer_visitor& v) const {
    v(path, "words", words), v(path, "positions", positions), v(path, "types", types), v(path, "norm", norm);
    v(path, "encoder", encoder), v(path, "pooler", pooler);
  }

  /// Hugging Face's names of these tensors, for load_hugging_face_weights.
  struct hugging_face {
    static constexpr std::string_view prefix = "bert.";
    static constexpr bool conv1d = false;
    static constexpr std::pair<std::string_view, std::string_view> names[17] = {
        {"words.", "embeddings.word_embeddings."},
        {"positions.", "embeddings.position_embeddings."},
        {"types.", "embeddings.token_type_embeddings."},
        {"norm.", "embeddings.LayerNorm."},
        {"encoder.layers.", "encoder.layer."},
        {"self_attn.in_proj_weight[0]", "attention.self.query.weight"},
        {"self_attn.in_proj_weight[1]", "attention.self.key.weight"},
        {"self_attn.in_proj_weight[2]", "attention.self.value.weight"},
        {"self_attn.in_proj_bias[0]", "attention.self.query.bias"},
        {"self_attn.in_proj_bias[1]", "attention.self.key.bias"},
        {"self_attn.in_proj_bias[2]", "attention.self.value.bias"},
        {"self_attn.out_proj.", "attention.output.dense."},
        {"norm1.", "attention.output.LayerNorm."},
        {"linear1.", "intermediate.dense."},
        {"linear2.", "output.dense."},
        {"norm2.", "output.LayerNorm."},
        {"pooler.", "pooler.dense."}};
  };
};

}  // namespace weft::nn
