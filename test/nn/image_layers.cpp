// SPDX-License-Identifier: BSL-1.0
// Layers of transposed convolutions and of convolutions of sequences: their results, variables and weights from
// PyTorch.
#include <cstdio>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <weft/nn.hpp>
#include <weft/nn/conv1d.hpp>
#include <weft/nn/conv2d_transpose.hpp>
#include <weft/nn/pytorch.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"

using namespace weft;

namespace {

constexpr auto batch = dyn<"batch">;

struct decoder {
  nn::conv2d_transpose<size2d(3, 2), 4, conv2d_transpose_options{.stride = 2}> larger{.activation = nn::relu};
  nn::conv1d<3, 5, conv1d_options{.stride = 2}> rows{.activation = nn::tanh};
};

template <class D>
tensor<float, D> numbers(const shape& extents, int which) {
  tensor<float, D> t{extents};
  for (std::size_t i = 0; i < t.elements(); ++i)
    t.data()[i] = static_cast<float>(static_cast<int>(i * 37 + static_cast<std::size_t>(which) * 11) % 17 - 8) / 8;
  return t;
}
template <class D>
tensor<float, D> numbers(int which) {
  return numbers<D>(D::spec, which);
}

}  // namespace

BOOST_AUTO_TEST_CASE(layers_compute_activation_of_operation_and_bias) {
  graph g;
  const auto images = placeholder<float, dims<batch, 3, dyn<"width">, 2>>(g, "images");
  const auto sequences = placeholder<float, dims<batch, dyn<"length">, 2>>(g, "sequences");
  const auto net = nn::named(decoder(), "net");
  const auto y = net.larger(images);
  static_assert(std::is_same_v<dims_t<decltype(y)>, dims<batch, 6, dyn<"width"> * extent<2>, 4>>);
  const auto z = net.rows(sequences);
  const auto w = net.larger.weights.as<dims<3, 2, 4, 2>>();
  const auto taps = net.rows.weights.as<dims<3, 2, 5>>();
  const auto b = net.larger.bias.as<dims<4>>();
  const auto c = net.rows.bias.as<dims<5>>();
  session s{g};
  s.set(w, numbers<dims<3, 2, 4, 2>>(1));
  s.set(b, numbers<dims<4>>(2));
  s.set(taps, numbers<dims<3, 2, 5>>(3));
  s.set(c, numbers<dims<5>>(4));
  const auto x = numbers<dims<2, 3, 4, 2>>(5);
  const auto right = eval(relu(conv2d_transpose<conv2d_transpose_options{.stride = 2}>(x, s.get(w)) + s.get(b)));
  const auto found = s.eval(y, with(images, x));
  BOOST_REQUIRE_EQUAL(found.elements(), right.elements());
  for (std::size_t i = 0; i < found.elements(); ++i) BOOST_CHECK_SMALL(found.data()[i] - right.data()[i], 1e-5f);
  const auto steps = numbers<dims<2, 7, 2>>(6);
  const auto right_rows = eval(tanh(conv1d<conv1d_options{.stride = 2}>(steps, s.get(taps)) + s.get(c)));
  const auto found_rows = s.eval(z, with(sequences, steps));
  BOOST_CHECK(found_rows.extents() == shape(2, 4, 5));
  for (std::size_t i = 0; i < right_rows.elements(); ++i)
    BOOST_CHECK_SMALL(found_rows.data()[i] - right_rows.data()[i], 1e-5f);
}

BOOST_AUTO_TEST_CASE(bias_and_activation_run_with_the_convolution_of_sequences) {
  graph g;
  const auto x = placeholder<float, dims<batch, 16, 3>>(g);
  const nn::conv1d<3, 8> layer{.activation = nn::relu};
  session s{g};
  const auto w = variable<float, dims<3, 3, 8>>(g, "w");
  const auto b = variable<float, dims<8>>(g, "b");
  for (const auto& y : {layer(x), let(relu(conv1d(x, w) + b))}) {
    auto step = s.prepare(fetch(y), feed(x));
    step(tensor<float, dims<8, 16, 3>>());
    const std::string plan = step.explain();
    BOOST_CHECK_MESSAGE(plan.find("1 kernels") != std::string::npos, plan);
  }
  CHECK_SAYS(nn::describe(layer, x), " 1,152 ");  // 16 * 8 results of 3 * 3 products
}

BOOST_AUTO_TEST_CASE(weights_of_pytorch_are_reordered) {
  // As torch.nn.ModuleDict(larger=ConvTranspose2d(2, 4, (3, 2)), rows=Conv1d(2, 5, 3)) saves them.
  graph g;
  const auto net = nn::named(decoder(), "net");
  net.larger(placeholder<float, dims<batch, 3, 3, 2>>(g));
  net.rows(placeholder<float, dims<batch, 7, 2>>(g));
  std::vector<float> count(48);
  for (std::size_t i = 0; i < count.size(); ++i) count[i] = static_cast<float>(i);
  const std::string path = "nn_image_layers.safetensors";
  write_safetensors(path, {{"larger.weight", dtype::float32, shape(2, 4, 3, 2), count.data()},
                           {"larger.bias", dtype::float32, shape(4), count.data()},
                           {"rows.weight", dtype::float32, shape(5, 2, 3), count.data()},
                           {"rows.bias", dtype::float32, shape(5), count.data()}});
  session s{g};
  BOOST_CHECK_EQUAL(nn::load_pytorch_weights(path, net, s).restored.size(), 4u);
  const auto w = s.get(net.larger.weights.as<dims<3, 2, 4, 2>>());
  const auto taps = s.get(net.rows.weights.as<dims<3, 2, 5>>());
  for (int y = 0; y < 3; ++y)
    for (int i = 0; i < 2; ++i) {
      for (int x = 0; x < 2; ++x)
        for (int o = 0; o < 4; ++o) BOOST_CHECK_EQUAL(w(y, x, o, i), static_cast<float>(((i * 4 + o) * 3 + y) * 2 + x));
      for (int o = 0; o < 5; ++o) BOOST_CHECK_EQUAL(taps(y, i, o), static_cast<float>((o * 2 + i) * 3 + y));
    }
  std::remove(path.c_str());
}
