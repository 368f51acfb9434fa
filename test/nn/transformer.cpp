// SPDX-License-Identifier: BSL-1.0
// Transformer layers, GPT-2 and BERT with weights of PyTorch and Hugging Face compute what those compute
// (make_transformer_values.py).
#include <cmath>
#include <string>

#include <boost/test/unit_test.hpp>
#include <weft/nn.hpp>
#include <weft/nn/bert.hpp>
#include <weft/nn/gpt2.hpp>
#include <weft/nn/hugging_face.hpp>
#include <weft/nn/positions.hpp>
#include <weft/nn/pytorch.hpp>
#include <weft/nn/transformer.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"
#include "ops/gradient_check.hpp"
#include "ops/values_of.hpp"

using namespace weft;
using nn::mode;

namespace {

constexpr auto batch = dyn<"batch">;
constexpr auto steps = dyn<"steps">;
constexpr auto keys = dyn<"keys">;
constexpr int width = 8;
using x_dims = dims<batch, steps, width>;
using memory_dims = dims<batch, keys, width>;
using id_dims = dims<batch, steps>;
const std::string folder = TEST_DATA "/nn/";
const std::string file = folder + "transformers.safetensors";

const values_of& right() {
  static const values_of all((folder + "transformer_values.txt").c_str());
  return all;
}

template <class T>
struct layers {
  using encoder = nn::transformer_encoder_layer<2, 12, T>;
  using decoder_layer = nn::transformer_decoder_layer<2, 12, T>;
  encoder plain;
  encoder pre{{.norm_first = true, .causal = true, .use_bias = false, .epsilon = 1e-3, .activation = nn::gelu}};
  decoder_layer decoder{{.causal = true}};
  decoder_layer pre_decoder{{.norm_first = true}};
  nn::transformer_encoder<encoder, 2> stack{{.norm_first = true}, true};
};

template <class T>
void check_layers(double tolerance) {
  graph g;
  const auto x = placeholder<T, x_dims>(g, "x");
  const auto memory = placeholder<T, memory_dims>(g, "memory");
  const auto n = placeholder<std::int32_t, dims<batch>>(g, "n");
  const auto m = placeholder<std::int32_t, dims<batch>>(g, "m");
  const auto net = nn::named(layers<T>(), "net");
  const auto plain = net.plain(x, nn::lengths(n));
  const auto pre = net.pre(x);
  const auto decoded = net.decoder(x, memory, nn::of_memory(nn::lengths(m)));
  const auto pre_decoded = net.pre_decoder(x, memory, nn::lengths(n));
  const auto stacked = net.stack(x, nn::lengths(n));
  static_assert(std::is_same_v<dims_t<decltype(stacked)>, dims_t<x_dims>>);
  session s{g};
  const restore_report report = nn::load_pytorch_weights(file, net, s, {.partial = true});  // other models' tensors
  BOOST_CHECK_EQUAL(to_string(report).find("missing"), std::string::npos);
  BOOST_CHECK(report.different.empty());
  const auto check = [&](const std::string& name, const auto& y) {
    const auto [dx, dm] = gradients(sum(square(y)), x, memory);
    tensor<std::int32_t, dims<2>> lengths{5, 3}, of_memory{2, 4};
    const auto eval = [&](const auto& v) {
      return s.eval(v, with(x, right().tensor<T, x_dims>("x", shape(2, 5, width))),
                    with(memory, right().tensor<T, memory_dims>("memory", shape(2, 4, width))), with(n, lengths),
                    with(m, of_memory));
    };
    right().check(name, eval(y), tolerance);
    right().check(name + ".dx", eval(dx), 10 * tolerance);
    if (name.ends_with("decoder")) right().check(name + ".dmemory", eval(dm), 10 * tolerance);
  };
  check("plain", plain), check("pre", pre), check("decoder", decoded), check("pre_decoder", pre_decoded);
  check("stack", stacked);
}

template <class T>
tensor<T, id_dims> text() {
  return {shape(2, 5), {4, 1, 7, 10, 0, 3, 3, 9, 2, 5}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(layers_are_those_of_pytorch) {
  check_layers<double>(1e-11);
  check_layers<float>(1e-5);
}

BOOST_AUTO_TEST_CASE(gradients_are_those_of_finite_differences) {
  gradient_check check;
  check.tolerance = 1e-5;
  const auto x = check.input<dims<2, 3, 4>>();
  const auto memory = check.input<dims<2, 2, 4>>();
  using layer = nn::transformer_decoder_layer<2, 5, double>;
  const nn::transformer_decoder<layer, 2> decoder{{.norm_first = true, .causal = true, .activation = nn::gelu}, true};
  check("decoder", decoder(nn::positional_embedding<3, double>()(x), nn::sinusoidal_embedding()(memory)), 1);
}

BOOST_AUTO_TEST_CASE(gpt2_is_that_of_hugging_face) {
  graph g;
  const auto ids = placeholder<std::int32_t, id_dims>(g, "ids");
  const auto net = nn::named(
      nn::gpt2<nn::gpt2_options{.layers = 2, .heads = 2, .width = width, .vocabulary = 11, .context = 6}>(), "gpt2");
  const auto logits = net(ids);
  static_assert(std::is_same_v<dims_t<decltype(logits)>, dims_t<dims<batch, steps, 11>>>);
  const auto& attention = net.h.layers[0].self_attn;
  const auto [dwte, dwpe, dq, dv] =
      gradients(sum(square(logits)), net.wte.table, net.wpe.table.as<dims<6, width>>(),
                attention.query_bias.as<dims<width>>(), attention.value_bias.as<dims<width>>());
  session s{g};
  BOOST_CHECK_EQUAL(nn::load_hugging_face_weights(file, net, s).restored.size(), 2u + 2 * 16 + 2);
  right().check("gpt2", s.eval(logits, with(ids, text<std::int32_t>())), 1e-5);
  right().check("gpt2.dwte", s.eval(dwte, with(ids, text<std::int32_t>())), 1e-4);  // looked up, and the last layer
  right().check("gpt2.dwpe", s.eval(dwpe, with(ids, text<std::int32_t>())), 1e-4);
  const auto of_query = s.eval(dq, with(ids, text<std::int32_t>())),
             of_value = s.eval(dv, with(ids, text<std::int32_t>()));
  for (std::size_t i = 0; i < width; ++i) {
    BOOST_CHECK_SMALL(of_query.data()[i] - right()["gpt2.dc_attn"][i], 1e-3);
    BOOST_CHECK_SMALL(of_value.data()[i] - right()["gpt2.dc_attn"][2 * width + i], 1e-3);
  }

  BOOST_CHECK_EXCEPTION(s.eval(logits, with(ids, tensor<std::int32_t, id_dims>(shape(1, 7)))), weft::error,
                        test::says(error_code::out_of_range));  // longer than the context
}

BOOST_AUTO_TEST_CASE(bert_is_that_of_hugging_face) {
  graph g;
  const auto ids = placeholder<std::int64_t, id_dims>(g, "ids"), types = placeholder<std::int64_t, id_dims>(g, "types");
  const auto n = placeholder<std::int32_t, dims<batch>>(g, "n");
  constexpr nn::bert_options sizes{
      .layers = 2, .heads = 2, .width = width, .feedforward = 12, .vocabulary = 11, .context = 6};
  const auto net = nn::named(nn::bert<sizes>(), "bert");
  const auto [states, pooled] = net(ids, types, nn::lengths(n));
  const auto without = net(ids);
  session s{g};
  BOOST_CHECK_EQUAL(nn::load_hugging_face_weights(file, net, s).restored.size(), 3u + 2 + 2 * 16 + 2);
  const tensor<std::int64_t, id_dims> second{shape(2, 5), {0, 0, 1, 1, 1, 0, 1, 1, 1, 0}};
  const auto feeds = [&](const auto& y) {
    return s.eval(y, with(ids, text<std::int64_t>()), with(types, second),
                  with(n, tensor<std::int32_t, dims<2>>{5, 3}));
  };
  right().check("bert", feeds(states), 1e-5);
  right().check("bert.pooled", feeds(pooled), 1e-5);
  right().check("bert.without_types", s.eval(without.states, with(ids, text<std::int64_t>())), 1e-5);
}

BOOST_AUTO_TEST_CASE(dropout_needs_a_mode_and_changes_training_alone) {
  graph g;
  const auto x = placeholder<float, dims<2, 3, width>>(g, "x");
  const auto net = nn::named(nn::transformer_encoder<nn::transformer_encoder_layer<2, 12>, 2>{{.dropout = 0.5}}, "net");
  const auto plain = net(x, mode::inference), dropped = net(x, mode::training);
  BOOST_CHECK_EXCEPTION(net(x), weft::error, test::says(error_code::invalid_argument, "needs a mode"));
  session s{g};
  tensor<float, dims<2, 3, width>> t;
  for (std::size_t i = 0; i < t.elements(); ++i) t.data()[i] = static_cast<float>(i % 7);
  BOOST_CHECK(s.eval(plain, with(x, t)) == s.eval(plain, with(x, t)));
  BOOST_CHECK(s.eval(plain, with(x, t)) != s.eval(dropped, with(x, t)));
}

BOOST_AUTO_TEST_CASE(waves_are_those_of_the_paper) {
  graph g;
  const auto x = placeholder<double, dims<3, 6>>(g, "x");
  const auto at = placeholder<std::int32_t, dims<3>>(g, "at");
  session s{g};
  const auto y = s.eval(nn::sinusoidal_embedding()(x, at), with(x, tensor<double, dims<3, 6>>()),
                        with(at, tensor<std::int32_t, dims<3>>{0, 2, 4999}));
  for (int r = 0; r < 3; ++r)
    for (int i = 0; i < 6; ++i) {
      const double angle = (r == 0 ? 0 : r == 1 ? 2 : 4999) / std::pow(10000.0, (i - i % 2) / 6.0);
      BOOST_CHECK_SMALL(y(r, i) - (i % 2 ? std::cos(angle) : std::sin(angle)), 1e-12);
    }
}

BOOST_AUTO_TEST_CASE(positions_begin_where_the_caller_says) {
  graph g;
  const auto x = placeholder<float, dims<batch, 2, 3>>(g, "x");
  const auto at = placeholder<std::int32_t, dims<batch, 2>>(g, "at");
  const nn::positional_embedding<9> layer;
  const auto y = layer(x, at);
  session s{g};
  const auto table = s.get(layer.table.as<dims<9, 3>>());
  const auto given =
      s.eval(y, with(x, tensor<float, dims<2, 2, 3>>()), with(at, tensor<std::int32_t, dims<2, 2>>{4, 5, 0, 8}));
  for (int i = 0; i < 3; ++i) {
    BOOST_CHECK_EQUAL(given(0, 1, i), table(5, i));
    BOOST_CHECK_EQUAL(given(1, 1, i), table(8, i));
  }
}
