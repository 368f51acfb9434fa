// SPDX-License-Identifier: BSL-1.0
// Layers with the weights of PyTorch's modules compute what those compute (make_further_layer_values.py): activations,
// transposed convolutions of sequences, normalized weights, embeddings of bags. Observed results, and mixed precision.
#include <cmath>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <weft/nn.hpp>
#include <weft/nn/activations.hpp>
#include <weft/nn/adaptive_pooling.hpp>
#include <weft/nn/autocast.hpp>
#include <weft/nn/conv1d.hpp>
#include <weft/nn/conv1d_transpose.hpp>
#include <weft/nn/conv2d_transpose.hpp>
#include <weft/nn/conv3d.hpp>
#include <weft/nn/depthwise_conv2d.hpp>
#include <weft/nn/embedding_bag.hpp>
#include <weft/nn/observe.hpp>
#include <weft/nn/pooling1d.hpp>
#include <weft/nn/pooling3d.hpp>
#include <weft/nn/pytorch.hpp>
#include <weft/nn/recurrent.hpp>
#include <weft/nn/reshaping.hpp>
#include <weft/nn/spatial_dropout.hpp>
#include <weft/nn/weight_norm.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"
#include "ops/values_of.hpp"

using namespace weft;
using nn::mode;

namespace {

constexpr auto batch = dyn<"batch">;
const std::string folder = TEST_DATA "/nn/";

const values_of& right() {
  static const values_of all((folder + "further_layer_values.txt").c_str());
  return all;
}

constexpr auto deduced = nn::deduced;

struct pytorch_layers {
  nn::prelu<1, double> slope;
  nn::prelu<3, double> slopes;
  nn::conv1d_transpose<3, 2, conv1d_transpose_options{.stride = 2, .pad = padding::of(1), .output_padding = 1}, deduced,
                       double>
      up;
  nn::weight_norm<nn::dense<3, deduced, double>> normed_dense;
  nn::weight_norm<nn::conv2d<3, 3, conv2d_options{}, 2, double>> normed_conv{{.use_bias = false}};
  nn::weight_norm<
      nn::conv1d_transpose<3, 2, conv1d_transpose_options{.stride = 2, .pad = padding::valid}, deduced, double>>
      normed_up;
  nn::spectral_norm<nn::dense<3, deduced, double>> spectral_dense;
  nn::spectral_norm<nn::conv2d<size2d(3, 2), 3, conv2d_options{.pad = padding::valid}, deduced, double>> spectral_conv{
      {}, 2};
  nn::spectral_norm<
      nn::conv2d_transpose<2, 3, conv2d_transpose_options{.stride = 2, .pad = padding::valid}, deduced, double>>
      spectral_up;
  nn::embedding<6, 3, double, 2> padded;
  nn::embedding_bag<6, 3, nn::bag::sum, nn::no_padding, double> bag_sum;
  nn::embedding_bag<6, 3, nn::bag::mean, 2, double> bag_mean;
  nn::embedding_bag<6, 3, nn::bag::max, 2, double> bag_max;
  nn::conv3d<size3d(2, 3, 1), 3, conv3d_options{.stride = {1, 2, 1}, .pad = padding3d::of(1, 1, 0)}, deduced, double>
      deep;
};

template <class D>
tensor<float, D> numbers(const shape& extents) {
  tensor<float, D> t{extents};
  for (std::size_t i = 0; i < t.elements(); ++i)
    t.data()[i] = static_cast<float>(static_cast<int>(i * 37 % 17) - 8) / 8;
  return t;
}

}  // namespace

BOOST_AUTO_TEST_CASE(layers_compute_what_modules_of_pytorch_compute) {
  graph g;
  const auto rows = placeholder<double, dims<batch, 4>>(g, "rows");
  const auto sequences = placeholder<double, dims<batch, dyn<"length">, 3>>(g, "sequences");
  const auto images = placeholder<double, dims<batch, 4, 3, 2>>(g, "images");
  const auto ids = placeholder<std::int64_t, dims<batch, 4>>(g, "ids");
  const auto weights = placeholder<double, dims<batch, 4>>(g, "weights");
  const auto net = nn::named(pytorch_layers(), "net");
  session s{g};
  const auto of_rows = right().tensor<double, dims<2, 4>>("rows");
  const auto of_sequences = right().tensor<double, dims<2, 4, 3>>("sequences");
  const auto of_images = right().tensor<double, dims<2, 4, 3, 2>>("images");
  const auto of_weights = right().tensor<double, dims<3, 4>>("weights");
  const tensor<std::int64_t, dims<3, 4>> of_ids{1, 2, 5, 1, 2, 2, 2, 2, 0, 3, 2, 4};
  // All variables exist before the file is loaded.
  const auto slope = net.slope(sequences), slopes = net.slopes(sequences);
  const auto up = net.up(sequences);
  static_assert(std::is_same_v<dims_t<decltype(up)>, dims<batch, dyn<"length"> * extent<2>, 2>>);
  const auto dense = net.normed_dense(rows);
  const auto conv = net.normed_conv(images);
  const auto normed_up = net.normed_up(sequences);
  const auto trained_dense = net.spectral_dense(rows, mode::training),
             inferred_dense = net.spectral_dense(rows, mode::inference);
  const auto trained_conv = net.spectral_conv(images, mode::training),
             inferred_conv = net.spectral_conv(images, mode::inference);
  const auto trained_up = net.spectral_up(images, mode::training),
             inferred_up = net.spectral_up(images, mode::inference);
  const auto padded = net.padded(ids);
  const auto bag_sum = net.bag_sum(ids, weights), bag_mean = net.bag_mean(ids), bag_max = net.bag_max(ids);
  static_assert(std::is_same_v<decltype(bag_sum), const node<double, dims<batch, 3>>>);
  const auto volumes = placeholder<double, dims<batch, 3, 3, 2, 2>>(g, "volumes");
  const auto deep = net.deep(volumes);
  static_assert(std::is_same_v<decltype(deep), const node<double, dims<batch, 4, 2, 2, 3>>>);
  const restore_report report = nn::load_pytorch_weights(folder + "further_layers.safetensors", net, s);
  BOOST_CHECK_EQUAL(report.restored.size(), 30u);
  BOOST_CHECK_EQUAL(report.missing.size() + report.different.size(), 0u);

  const auto check = [&](const std::string& name, const auto& y, const auto& fed, const auto& value, const auto& w) {
    const auto [dw] = gradients(sum(square(y)), w);
    const auto [result, gradient] = s.run(fetch(y, dw), with(fed, value));
    right().check(name, result);
    right().check(name + ".dw", gradient);
  };
  check("slope", slope, sequences, of_sequences, net.slope.slopes);
  check("slopes", slopes, sequences, of_sequences, net.slopes.slopes);
  right().check("up", s.eval(up, with(sequences, of_sequences)));
  check("deep", deep, volumes, right().tensor<double, dims<2, 3, 3, 2, 2>>("volumes"),
        net.deep.weights.as<dims<2, 3, 1, 2, 3>, double>());
  check("normed_dense", dense, rows, of_rows, net.normed_dense.layer.weights.as<dims<4, 3>, double>());
  check("normed_conv", conv, images, of_images, net.normed_conv.layer.weights);
  check("normed_up", normed_up, sequences, of_sequences, net.normed_up.layer.weights.as<dims<3, 2, 3>, double>());
  const auto [dg] = gradients(sum(square(normed_up)), net.normed_up.scale.as<dims<3>, double>());
  right().check("normed_up.dg", s.eval(dg, with(sequences, of_sequences)));

  check("spectral_dense", trained_dense, rows, of_rows, net.spectral_dense.layer.weights.as<dims<4, 3>, double>());
  check("spectral_conv", trained_conv, images, of_images,
        net.spectral_conv.layer.weights.as<dims<3, 2, 2, 3>, double>());
  check("spectral_up", trained_up, images, of_images, net.spectral_up.layer.weights.as<dims<2, 2, 3, 2>, double>());
  const auto loss = sum(trained_dense) + sum(trained_conv) + sum(trained_up);
  s.run(fetch(gradient_descent{.learning_rate = 0.0}.minimize(loss)), with(rows, of_rows), with(images, of_images));
  right().check("spectral_dense.u", s.get(net.spectral_dense.u.as<dims<3>, double>()));
  right().check("spectral_conv.u", s.get(net.spectral_conv.u.as<dims<3>, double>()));
  right().check("spectral_up.u", s.get(net.spectral_up.u.as<dims<3>, double>()));
  right().check("spectral_dense.inferred", s.eval(inferred_dense, with(rows, of_rows)));
  right().check("spectral_conv.inferred", s.eval(inferred_conv, with(images, of_images)));
  right().check("spectral_up.inferred", s.eval(inferred_up, with(images, of_images)));

  right().check("bag_sum", s.eval(bag_sum, with(ids, of_ids), with(weights, of_weights)));
  const auto values = placeholder<std::int32_t, dims<8>>(g, "values");
  const tensor<std::int32_t, dims<8>> of_values{1, 2, 5, 2, 2, 0, 3, 2};
  const auto splits = constant(g, tensor<std::int64_t, dims<5>>{0, 3, 3, 5, 8});
  const auto check_ragged = [&](const std::string& name, const auto& layer) {
    const auto y = layer(values, splits);
    const auto [dw] = gradients(sum(square(y + 1.0)), layer.table);
    const auto [result, gradient] = s.run(fetch(y, dw), with(values, of_values));
    right().check(name, result);
    right().check(name + ".dw", gradient);
  };
  check_ragged("bag_sum_ragged", net.bag_sum);
  check_ragged("bag_mean_ragged", net.bag_mean);
  check_ragged("bag_max_ragged", net.bag_max);
  check("padded", let(padded + 1.0), ids, of_ids, net.padded.table);
  check("bag_mean", let(bag_mean + 1.0), ids, of_ids, net.bag_mean.table);
  check("bag_max", let(bag_max + 1.0), ids, of_ids, net.bag_max.table);
}

BOOST_AUTO_TEST_CASE(normalized_weights_start_as_those_of_the_layer) {
  graph g;
  const auto x = placeholder<float, dims<batch, 6, 5, 4>>(g, "x");
  const nn::weight_norm channels{nn::depthwise_conv2d<3, 2>{.activation = nn::relu}};
  const nn::weight_norm<nn::dense<3>> rows;
  const auto net = nn::named(
      nn::sequential(nn::spectral_norm<nn::conv2d<3, 8>>(), nn::flatten(), nn::spectral_norm<nn::dense<5>>()), "net");
  const auto y = channels(x);
  const auto z = rows(nn::flatten()(x));
  const auto out = net(x, mode::inference);
  BOOST_CHECK(channels(x).id() == y.id());  // the same nodes
  const auto w = channels.layer.weights.as<dims<3, 3, 4, 2>>();
  session s{g};
  const auto in = numbers<dims<2, 6, 5, 4>>(shape(2, 6, 5, 4));
  const auto alone = eval(relu(depthwise_conv2d(in, s.get(w))));
  const auto found = s.eval(y, with(x, in));
  for (std::size_t i = 0; i < found.elements(); ++i) BOOST_CHECK_SMALL(found.data()[i] - alone.data()[i], 1e-5f);
  BOOST_CHECK_EQUAL(nn::parameters(channels).size(), 3u);
  BOOST_CHECK_EQUAL(nn::parameter_count(rows), 120 * 3 + 3 + 3);
  BOOST_CHECK_EQUAL(nn::parameter_count(net), (36 + 1) * 8 + (240 + 1) * 5);  // without the singular vectors
  BOOST_CHECK_EQUAL(nn::parameters(net.get<0>()).size(), 4u);
  static_assert(dims_t<decltype(z)>::rank == 2 && dims_t<decltype(out)>::rank == 2);

  // u and v start near the singular vectors: the product u W v is near the norm, which no other vectors exceed.
  const auto& last = net.get<2>();
  const auto matrix = s.get(last.layer.weights.as<dims<240, 5>>());
  const auto u = s.get(last.u.as<dims<5>>());
  const auto v = s.get(last.v.as<dims<240>>());
  const auto sigma = [&](const tensor<float, dims<5>>& a, const tensor<float, dims<240>>& b) {
    return eval(sum(reshape<dims<240, 1>>(b) * matmul(matrix, reshape<dims<5, 1>>(a))))();
  };
  BOOST_CHECK_CLOSE(eval(sum(u * u))(), 1.0f, 1e-3f);
  const auto next = eval(reshape<dims<240>>(matmul(matrix, reshape<dims<5, 1>>(u))));
  BOOST_CHECK_CLOSE(sigma(u, v), std::sqrt(eval(sum(next * next))()), 1.0f);
  BOOST_CHECK_GT(sigma(u, v), std::sqrt(eval(sum(matrix * matrix))() / 5));
}

BOOST_AUTO_TEST_CASE(activations_have_parameters) {
  graph g;
  const auto x = placeholder<float, dims<batch, 4>>(g, "x");
  const auto in = numbers<dims<3, 4>>(shape(3, 4));
  session s{g};
  const auto check = [&](const auto& activation, const auto& function) {
    const nn::dense<5> with_bias{.activation = activation, .bias_init = init::constant{0.25}};
    const nn::dense<5> without{.use_bias = false, .activation = activation};
    const nn::sequential chain(nn::dense<5>(), activation);
    const auto a = with_bias(x), b = without(x), c = chain(x);
    const auto [dx] = gradients(sum(square(a)), x);
    const auto w = s.get(with_bias.weights.template as<dims<4, 5>>());
    s.set(without.weights.template as<dims<4, 5>>(), w);
    s.set(chain.template get<0>().weights.template as<dims<4, 5>>(), w);
    const auto [found_a, found_b, found_c, found_dx] = s.run(fetch(a, b, c, dx), with(x, in));
    const auto of_x = let(function(matmul(x, constant(g, w)) + 0.25f));
    const auto [right_dx] = gradients(sum(square(of_x)), x);
    const auto [right_a, of_dx] = s.run(fetch(of_x, right_dx), with(x, in));
    const auto right_b = eval(function(matmul(in, w)));
    for (std::size_t i = 0; i < right_a.elements(); ++i) {
      BOOST_CHECK_SMALL(found_a.data()[i] - right_a.data()[i], 1e-5f);
      BOOST_CHECK_SMALL(found_b.data()[i] - right_b.data()[i], 1e-5f);
      BOOST_CHECK_SMALL(found_c.data()[i] - right_b.data()[i], 1e-5f);
    }
    for (std::size_t i = 0; i < of_dx.elements(); ++i) BOOST_CHECK_SMALL(found_dx.data()[i] - of_dx.data()[i], 1e-4f);
  };
  check(nn::leaky_relu, [](const auto& v) { return leaky_relu(v); });
  check(nn::leaky_relu(0.01), [](const auto& v) { return leaky_relu(v, 0.01f); });
  check(nn::elu(0.5), [](const auto& v) { return elu(v, 0.5f); });
  check(nn::celu(2), [](const auto& v) { return celu(v, 2.0f); });
  check(nn::hard_tanh(0.5), [](const auto& v) { return hard_tanh(v, -0.5f, 0.5f); });
  check(nn::hard_shrink, [](const auto& v) { return hard_shrink(v); });
  check(nn::soft_shrink(0.125), [](const auto& v) { return soft_shrink(v, 0.125f); });
  check(nn::mish, [](const auto& v) { return mish(v); });
  check(nn::log_sigmoid, [](const auto& v) { return log_sigmoid(v); });
  check(nn::softmax, [](const auto& v) { return softmax(v); });
  check(nn::log_softmax, [](const auto& v) { return log_softmax(v); });
  // An activation with a parameter runs in the pass of the bias.
  auto step = s.prepare(fetch(nn::dense<5>{.activation = nn::leaky_relu(0.1)}(x)), feed(x));
  step(in);
  BOOST_CHECK_MESSAGE(test::contains(step.explain(), "1 kernels"), step.explain());
}

struct encoder {
  nn::dense<6> hidden{.activation = nn::tanh};
  nn::identity scaled;
  auto operator()(const auto& x) const { return scaled(hidden(x) * 2.0f); }
};
struct classifier {
  nn::conv2d<3, 4> conv{.activation = nn::relu};
  encoder inner;
  nn::dense<2> head;
  auto operator()(const auto& x) const { return head(inner(mean<1, 2>(conv(x)))); }
};

BOOST_AUTO_TEST_CASE(results_of_inner_layers_are_observed) {
  graph g;
  const auto x = placeholder<float, dims<batch, 4, 4, 1>>(g, "x"), z = placeholder<float, dims<batch, 4, 4, 1>>(g, "z");
  const auto net = nn::named(classifier(), "net");
  net(z);
  const auto plain = net(x);
  net(z);
  const auto size = g.size();
  const auto [y, seen] = nn::with_activations(net, x);
  BOOST_CHECK_EQUAL(g.size(), size);  // the nodes of the earlier call
  BOOST_CHECK(y.id() == plain.id());
  std::string names;
  for (const auto& each : seen) names += each.path + " ";
  BOOST_CHECK_EQUAL(names, "conv inner/hidden inner/scaled head ");
  BOOST_CHECK(seen["head"].id() == y.id());

  const auto maps = seen["conv"].as<dims<batch, 4, 4, 4>>();
  const auto scaled = seen["inner/scaled"].as<dims<batch, 6>>();
  // Grad-CAM (Selvaraju et al., ICCV 2017): maps weighted by the means of their gradients.
  const auto [slopes] = gradients(sum(slice<1, 0, 1>(y)), maps);
  const auto cam = relu(sum<-1>(maps * mean<1, 2, keep_dims>(slopes)));
  const auto [of_scaled] = gradients(sum(slice<1, 0, 1>(y)), scaled);
  session s{g};
  const auto in = numbers<dims<2, 4, 4, 1>>(shape(2, 4, 4, 1));
  const auto [found, hidden, heat, dscaled] =
      s.run(fetch(scaled, seen["inner/hidden"].as<dims<batch, 6>>(), cam, of_scaled), with(x, in));
  const auto w = s.get(net.head.weights.as<dims<6, 2>>());
  for (int i = 0; i < 2; ++i)
    for (int k = 0; k < 6; ++k) {
      BOOST_CHECK_EQUAL(found(i, k), 2 * hidden(i, k));
      BOOST_CHECK_CLOSE(dscaled(i, k), w(k, 0), 1e-4f);
    }
  BOOST_CHECK(heat.extents() == shape(2, 4, 4));

  CHECK_SAYS(test::failure(error_code::not_found, [&, &all = seen] { (void)all["hidden"]; }),
             "it called conv, inner/hidden, inner/scaled, head");
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&, &all = seen] { (void)all["head"].as<dims<batch, 3>>(); }),
             "the result is float [batch, 2], but is requested as float [batch, 3]");
}

struct network {
  nn::conv1d<3, 8> conv{.activation = nn::relu};
  nn::multi_head_attention<2> attention;
  nn::lstm<8> recurrent;
  nn::dense<4> out;
  auto operator()(const auto& v) const {
    const auto [states, h, c] = recurrent(attention(conv(v)));
    return out(states);
  }
};

BOOST_AUTO_TEST_CASE(products_are_cast_in_a_scope) {
  graph g;
  const auto x = placeholder<float, dims<batch, 5, 8>>(g, "x");
  const auto net = nn::named(network(), "net");
  const auto wide = net(x);
  const auto of_conv = net.conv(x);
  const auto narrow = [&] {
    const nn::autocast<bfloat16> mixed(g);
    return net(x);
  }();
  BOOST_CHECK(net.conv(x).id() == of_conv.id());  // the scope has ended
  static_assert(std::is_same_v<decltype(narrow), const node<float, dims<batch, 5, 4>>>);
  const auto w = net.out.weights.as<dims<8, 4>>();
  const auto [dw] = gradients(mean(square(wide)), w);
  const auto [dn] = gradients(mean(square(narrow)), w);
  session s{g};
  const auto in = numbers<dims<batch, 5, 8>>(shape(3, 5, 8));
  auto step = s.prepare(fetch(wide, narrow, dw, dn), feed(x));
  const auto [a, b, da, db] = step(in);
  float largest = 0, difference = 0;
  for (std::size_t i = 0; i < a.elements(); ++i) {
    largest = std::max(largest, std::abs(a.data()[i]));
    difference = std::max(difference, std::abs(a.data()[i] - b.data()[i]));
  }
  BOOST_CHECK_GT(difference, 0.0f);
  BOOST_CHECK_LT(difference, 0.03f * largest);
  for (std::size_t i = 0; i < da.elements(); ++i) BOOST_CHECK_SMALL(da.data()[i] - db.data()[i], 0.02f);

  // A dense layer multiplies operands that are rounded to bfloat16.
  const nn::dense<3> layer{.use_bias = false};
  const auto y = [&] {
    const nn::autocast<bfloat16> mixed(g);
    return layer(x);
  }();
  const auto rounded = [](const auto& v) { return eval(cast<bfloat16>(v)); };
  const auto weights = s.get(layer.weights.as<dims<8, 3>>());
  const auto right_y = eval(matmul(rounded(in), rounded(weights)));
  const auto found = s.eval(y, with(x, in));
  for (std::size_t i = 0; i < found.elements(); ++i)
    BOOST_CHECK_EQUAL(found.data()[i], static_cast<float>(right_y.data()[i]));
}

BOOST_AUTO_TEST_CASE(layers_change_extents) {
  graph g;
  const auto x = placeholder<float, dims<batch, 12>>(g, "x");
  const auto images = placeholder<float, dims<batch, dyn<"height">, 3, 4>>(g, "images");
  const nn::sequential net(nn::reshape_to<3, 2, -1>{}, nn::zero_pad2d<1, 0>{}, nn::upsample2d<2, 3>{});
  const auto y = net(x);
  static_assert(std::is_same_v<dims_t<decltype(y)>, dims<batch, 8, 12, 2>>);
  const auto mirrored = nn::pad2d<pad_mode::reflect, 1>()(images);
  const nn::sequential shuffling(nn::pixel_shuffle<2>{}, nn::pixel_unshuffle<2>{});
  const auto shuffled = shuffling(images);
  const auto enlarged = nn::upsample2d<2>()(images);
  session s{g};
  const auto in = numbers<dims<2, 12>>(shape(2, 12));
  const auto found = s.eval(y, with(x, in));
  for (int i = 0; i < 2; ++i)
    for (int r = 0; r < 8; ++r)
      for (int c = 0; c < 12; ++c)
        for (int k = 0; k < 2; ++k) {
          const bool is_padding = r < 2 || c < 3 || c >= 9;
          BOOST_REQUIRE_EQUAL(found(i, r, c, k), is_padding ? 0 : in(i, ((r / 2 - 1) * 2 + c / 3 - 1) * 2 + k));
        }
  const auto pixels = numbers<dims<2, 4, 3, 4>>(shape(2, 4, 3, 4));
  const auto [a, b, c] = s.run(fetch(mirrored, shuffled, enlarged), with(images, pixels));
  BOOST_CHECK(a.extents() == shape(2, 6, 5, 4));
  BOOST_CHECK_EQUAL(a(1, 0, 0, 2), pixels(1, 1, 1, 2));
  BOOST_CHECK(b == pixels);
  BOOST_CHECK_EQUAL(c(0, 7, 5, 3), pixels(0, 3, 2, 3));
}

BOOST_AUTO_TEST_CASE(pools_are_layers) {
  graph g;
  const auto x = placeholder<float, dims<batch, 8, 3>>(g, "x");
  const auto images = placeholder<float, dims<batch, 6, 6, 3>>(g, "images");
  const auto volumes = placeholder<float, dims<batch, 4, 6, 4, 3>>(g, "volumes");
  const nn::sequential sequences(nn::max_pool1d<2>{}, nn::avg_pool1d<2>{}, nn::adaptive_max_pool1d<2>{},
                                 nn::adaptive_avg_pool1d<1>{}, nn::global_max_pool1d{});
  const nn::sequential planes(nn::adaptive_avg_pool2d<4>{}, nn::adaptive_max_pool2d<size2d(2, 1)>{});
  const nn::sequential solids(nn::max_pool3d<2>{}, nn::adaptive_avg_pool3d<2>{}, nn::avg_pool3d<2, 1>{},
                              nn::adaptive_max_pool3d<1>{});
  const auto y = sequences(x);
  const auto z = planes(images);
  const auto v = solids(volumes);
  const auto means = nn::global_avg_pool1d()(x);
  static_assert(std::is_same_v<dims_t<decltype(y)>, dims<batch, 3>>);
  static_assert(std::is_same_v<dims_t<decltype(z)>, dims<batch, 2, 1, 3>>);
  static_assert(std::is_same_v<dims_t<decltype(v)>, dims<batch, 1, 1, 1, 3>>);
  session s{g};
  const auto in = numbers<dims<2, 8, 3>>(shape(2, 8, 3));
  const auto flat = numbers<dims<2, 6, 6, 3>>(shape(2, 6, 6, 3));
  const auto right_y = eval(mean<1>(avg_pool1d<2>(max_pool1d<2>(in))));
  const auto right_z = eval(adaptive_max_pool2d<size2d(2, 1)>(adaptive_avg_pool2d<4>(flat)));
  BOOST_CHECK(s.eval(y, with(x, in)) == right_y);
  BOOST_CHECK(s.eval(z, with(images, flat)) == right_z);
  BOOST_CHECK(s.eval(means, with(x, in)) == eval(mean<1>(in)));
}

BOOST_AUTO_TEST_CASE(dropout_of_channels_and_of_selu) {
  graph g;
  const auto x = placeholder<float, dims<batch, dyn<"length">, 50>>(g, "x");
  const nn::spatial_dropout channels{.rate = 0.25};
  const nn::alpha_dropout alpha{.rate = 0.25};
  const auto y = channels(x, mode::training);
  const auto z = alpha(x, mode::training);
  BOOST_CHECK(channels(x, mode::inference).id() == x.id() && alpha(x, mode::inference).id() == x.id());
  const auto [dx] = gradients(sum(y), x);
  session s{g};
  tensor<float, dims<batch, dyn<"length">, 50>> in(shape(40, 6, 50));
  for (std::size_t i = 0; i < in.elements(); ++i) in.data()[i] = std::sin(static_cast<float>(i * i)) * 1.41421356f;
  const auto [a, d, b] = s.run(fetch(y, dx, z), with(x, in));
  int dropped = 0;
  for (int i = 0; i < 40; ++i)
    for (int c = 0; c < 50; ++c) {
      dropped += d(i, 0, c) == 0;
      for (int t = 0; t < 6; ++t) {
        BOOST_REQUIRE_EQUAL(d(i, t, c), d(i, 0, c) == 0 ? 0.0f : 1 / 0.75f);
        BOOST_REQUIRE_CLOSE(a(i, t, c), in(i, t, c) * d(i, t, c), 1e-4f);
      }
    }
  BOOST_CHECK(dropped > 420 && dropped < 580);
  const auto moments = [](const auto& t) {
    double sum = 0, squares = 0;
    for (const float v : t) sum += v, squares += static_cast<double>(v) * v;
    const double n = static_cast<double>(t.elements());
    return std::pair(sum / n, squares / n - sum / n * (sum / n));
  };
  BOOST_CHECK_SMALL(moments(b).first - moments(in).first, 0.05);
  BOOST_CHECK_SMALL(moments(b).second - moments(in).second, 0.05);
}
