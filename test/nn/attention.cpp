// SPDX-License-Identifier: BSL-1.0
// Multi-head attention: values and gradients against PyTorch and finite differences, masks and lengths.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include <boost/test/unit_test.hpp>
#include <weft/nn.hpp>
#include <weft/nn/attention.hpp>
#include <weft/nn/rotary.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"
#include "nn/sequence_values.hpp"

using namespace weft;
using nn::mode;
using sequence_values::close;
using sequence_values::numbers;

namespace {

constexpr auto batch = dyn<"batch">;
constexpr auto queries = dyn<"queries">;
constexpr auto keys = dyn<"keys">;
constexpr int width = 6;
using per_sequence = dims<batch>;
using query_dims = dims<batch, queries, width>;
using mask_dims = dims<queries, keys>;

template <class T>
using attention = nn::multi_head_attention<2, nn::deduced, T>;

template <class T>
struct operands {
  graph g;
  node<T, query_dims> query = placeholder<T, query_dims>(g, "query");
  node<T, dims<batch, keys, 3>> key = placeholder<T, dims<batch, keys, 3>>(g, "key");
  node<T, dims<batch, keys, 5>> value = placeholder<T, dims<batch, keys, 5>>(g, "value");
  node<std::int32_t, per_sequence> n = placeholder<std::int32_t, per_sequence>(g, "n");
  node<bool, mask_dims> mask = placeholder<bool, mask_dims>(g, "mask");
};

const bool mask_values[] = {true,  true,  false, false, true, false, true,  true, false, true,
                            false, false, true,  true,  true, true,  false, true, true,  false};

template <class T>
auto fed(const operands<T>& o, std::int32_t first, std::int32_t second, bool nan_behind_lengths = false) {
  tensor<std::int32_t, per_sequence> n(shape(2));
  n(0) = first, n(1) = second;
  tensor<bool, mask_dims> m(shape(5, 4));
  std::copy(std::begin(mask_values), std::end(mask_values), m.data());
  auto key = numbers<T, dims<batch, keys, 3>>(16, shape(2, 4, 3), 64);
  auto value = numbers<T, dims<batch, keys, 5>>(17, shape(2, 4, 5), 64);
  if (nan_behind_lengths)
    for (int b = 0; b < 2; ++b)
      for (int k = n(b); k < 4; ++k) {
        for (int f = 0; f < 3; ++f) key(b, k, f) = T(NAN);
        for (int f = 0; f < 5; ++f) value(b, k, f) = std::numeric_limits<T>::infinity();
      }
  return std::tuple{with(o.query, numbers<T, query_dims>(15, shape(2, 5, width), 64)), with(o.key, key),
                    with(o.value, value), with(o.n, n), with(o.mask, m)};
}

/// Compares a call, and the gradients of the script's loss, with the numbers under a name.
template <int KeyWidth, int ValueWidth, class T, class Layer>
void check(const std::string& name, operands<T>& o, const Layer& layer, const node<T, query_dims>& y,
           std::int32_t first = 0, std::int32_t second = 0) {
  BOOST_TEST_CONTEXT(name) {
    const auto values = fed(o, first, second, name == "cross_lengths");
    auto loss = sum(y * constant(o.g, numbers<T, query_dims>(40, shape(2, 5, width))));
    session s{o.g};
    const auto wq = layer.query_weights.template as<dims<width, width>, T>();
    const auto wk = layer.key_weights.template as<dims<KeyWidth, width>, T>();
    const auto wv = layer.value_weights.template as<dims<ValueWidth, width>, T>();
    const auto wo = layer.output_weights.template as<dims<width, width>, T>();
    const nn::parameter biases[] = {layer.query_bias, layer.key_bias, layer.value_bias, layer.output_bias};
    s.set(wq, numbers<T, dims<width, width>>(20, shape(width, width)));
    s.set(wk, numbers<T, dims<KeyWidth, width>>(21, shape(KeyWidth, width)));
    s.set(wv, numbers<T, dims<ValueWidth, width>>(22, shape(ValueWidth, width)));
    s.set(wo, numbers<T, dims<width, width>>(23, shape(width, width)));
    for (int i = 0; i < 4; ++i)
      s.set(biases[i].template as<dims<width>, T>(), numbers<T, dims<width>>(30 + i, shape(width)));
    const auto compute = [&](const auto& v) {
      return std::apply([&](const auto&... w) { return s.eval(v, w...); }, values);
    };
    close(name + "_y", compute(y));
    const auto gradient = [&](const auto& v, const std::string& what) {
      auto [d] = gradients(loss, v);
      close(name + "_d_" + what, compute(d));
    };
    gradient(o.query, "query");
    if constexpr (KeyWidth != width) gradient(o.key, "key"), gradient(o.value, "value");
    gradient(wq, "weights_0"), gradient(wk, "weights_1"), gradient(wv, "weights_2"), gradient(wo, "weights_3");
    for (int i = 0; i < 4; ++i) {
      if (i == 1) continue;  // added to all scores of a query: its gradient is 0 but for rounding
      gradient(biases[i].template as<dims<width>, T>(), "bias_" + std::to_string(i));
    }
  }
}

template <class T>
void check_all() {
  {
    operands<T> o;
    const attention<T> layer;
    check<width, width, T>("self", o, layer, layer(o.query));
  }
  {
    operands<T> o;
    const attention<T> layer{.causal = true};
    check<width, width, T>("causal", o, layer, layer(o.query));
  }
  {
    operands<T> o;
    const attention<T> layer{.causal = true};
    check<width, width, T>("causal_lengths", o, layer, layer(o.query, nn::lengths(o.n)), 3, 5);
  }
  {
    operands<T> o;
    const attention<T> layer;
    check<3, 5, T>("cross", o, layer, layer(o.query, o.key, o.value));
  }
  {
    operands<T> o;
    const attention<T> layer;
    check<3, 5, T>("cross_lengths", o, layer, layer(o.query, o.key, o.value, nn::lengths(o.n)), 4, 2);
  }
  {
    operands<T> o;
    const attention<T> layer;
    check<3, 5, T>("cross_mask", o, layer, layer(o.query, o.key, o.value, nn::mask(o.mask)));
  }
  using one_head = nn::multi_head_attention<1, nn::deduced, T>;
  {
    operands<T> o;
    const one_head layer{.causal = true, .rotary = nn::rotary{}};
    check<width, width, T>("rotary", o, layer, layer(o.query));
  }
  {
    operands<T> o;
    const one_head layer{.causal = true, .rotary = nn::rotary{.base = 100, .interleaved = true}};
    check<width, width, T>("rotary_pairs", o, layer, layer(o.query));
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(attention_is_that_of_pytorch) {
  check_all<double>();
  check_all<float>();
}

BOOST_AUTO_TEST_CASE(rotary_positions_need_pairs_of_features) {
  operands<float> o;
  const attention<float> layer{.rotary = nn::rotary{}};
  test::failure(error_code::invalid_argument, [&] { layer(o.query); });
}

BOOST_AUTO_TEST_CASE(gradients_are_those_of_finite_differences) {
  using T = double;
  operands<T> o;
  const attention<T> self{.causal = true}, cross;
  auto y = cross(self(o.query), o.key, o.value, nn::lengths(o.n), nn::mask(o.mask));
  auto loss = mean(square(y));
  auto [dx, dk] = gradients(loss, o.query, o.key);
  session s{o.g};
  auto values = fed(o, 3, 0);
  auto x = numbers<T, query_dims>(15, shape(2, 5, width), 64);
  const auto compute = [&](const auto& v) {
    return std::apply([&](const auto&, const auto&... w) { return s.eval(v, with(o.query, x), w...); }, values);
  };
  const auto analytic = compute(dx);
  const auto of_keys = compute(dk);
  for (std::size_t i = 0; i < of_keys.elements() / 2; ++i) BOOST_CHECK_EQUAL(of_keys.data()[12 + i], 0);
  for (std::size_t i = 0; i < x.elements(); ++i) {
    const double before = x.data()[i], h = 1e-5;
    x.data()[i] = before + h;
    const double more = compute(loss);
    x.data()[i] = before - h;
    const double less = compute(loss);
    x.data()[i] = before;
    BOOST_CHECK_SMALL((more - less) / (2 * h) - analytic.data()[i], 1e-9);
  }
}

BOOST_AUTO_TEST_CASE(a_query_without_keys_has_attention_zero) {
  operands<float> o;
  const attention<float> layer{.bias_init = init::constant{0.25}};
  auto y = layer(o.query, o.key, o.value, nn::lengths(o.n));
  auto [dv, dq] = gradients(sum(y), o.value, o.query);
  session s{o.g};
  const auto [a, b, c] =
      std::apply([&, dv = dv, dq = dq](const auto&... w) { return s.run(fetch(y, dv, dq), w...); }, fed(o, 4, 0));
  for (int q = 0; q < 5; ++q)
    for (int f = 0; f < width; ++f) {
      BOOST_CHECK_EQUAL(a(1, q, f), 0.25f);  // the bias of the output
      BOOST_CHECK_EQUAL(c(1, q, f), 0);
      BOOST_CHECK(std::isfinite(a(0, q, f)));
    }
  for (int k = 0; k < 4; ++k)
    for (int f = 0; f < 5; ++f) BOOST_CHECK_EQUAL(b(1, k, f), 0);
}

BOOST_AUTO_TEST_CASE(masks_of_any_rank_agree) {
  operands<float> o;
  auto per_batch = placeholder<bool, dims<batch, queries, keys>>(o.g, "per_batch");
  auto per_head = placeholder<bool, dims<batch, 1, 1, keys>>(o.g, "per_head");
  const attention<float> layer;
  auto by_lengths = layer(o.query, o.key, o.value, nn::lengths(o.n));
  auto by_batch = layer(o.query, o.key, o.value, nn::mask(per_batch));
  auto by_head = layer(o.query, o.key, o.value, nn::mask(per_head));
  auto by_two = layer(o.query, o.key, o.value, nn::mask(o.mask), nn::lengths(o.n));
  auto by_both = layer(o.query, o.key, o.value, nn::mask(per_batch), nn::mask(o.mask));
  tensor<bool, dims<batch, queries, keys>> m(shape(2, 5, 4));
  tensor<bool, dims<batch, 1, 1, keys>> h(shape(2, 1, 1, 4));
  for (int b = 0; b < 2; ++b)
    for (int k = 0; k < 4; ++k) {
      h(b, 0, 0, k) = k < (b == 0 ? 3 : 1);
      for (int q = 0; q < 5; ++q) m(b, q, k) = h(b, 0, 0, k);
    }
  session s{o.g};
  const auto [l, x, y, two, both] = std::apply(
      [&](const auto&... w) {
        return s.run(fetch(by_lengths, by_batch, by_head, by_two, by_both), w..., with(per_batch, m),
                     with(per_head, h));
      },
      fed(o, 3, 1));
  BOOST_CHECK(l == x);
  BOOST_CHECK(l == y);
  BOOST_CHECK(two == both);
  BOOST_CHECK(!(two == l));
}

BOOST_AUTO_TEST_CASE(keys_may_be_the_values_and_training_drops_weights) {
  operands<float> o;
  const attention<float> layer, dropped{.dropout = 0.5};
  auto y = layer(o.query, o.key), z = layer(o.query, o.key, o.key);
  auto inferred = dropped(o.query, mode::inference), trained = dropped(o.query, mode::training);
  BOOST_CHECK(y.id() == z.id());
  std::vector<std::string> names;
  for (const variable_description& v : variables(o.g)) names.push_back(v.name);
  BOOST_CHECK_EQUAL(names.size(), 16u);
  BOOST_CHECK_EQUAL(names[0], "attention/query_weights");
  BOOST_CHECK_EQUAL(names[15], "attention_1/output_bias");
  session s{o.g};
  const auto [a, b] = std::apply([&](const auto&... w) { return s.run(fetch(inferred, trained), w...); }, fed(o, 1, 1));
  BOOST_CHECK(!(a == b));
}
