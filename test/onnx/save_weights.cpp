// SPDX-License-Identifier: BSL-1.0
// Weights as integers and as halves in exported files. ONNX Runtime computes what a session computes with the weights
// that the file stands for.
#include "onnx/exported.hpp"

#include <cstring>
#include <vector>
#include <weft/nn.hpp>
#include <weft/nn/conv2d_transpose.hpp>
#include <weft/nn/depthwise_conv2d.hpp>
#include <weft/nn/recurrent.hpp>
#include <weft/onnx/save_onnx.hpp>
#include <weft/ops/images/conv1d.hpp>
#include <weft/ops/index/gather.hpp>

#include "errors.hpp"

using namespace weft;
using test::some;

namespace {

const onnx::tensor_value* find(const onnx::model& m, const std::string& name) {
  for (const onnx::tensor_value& t : m.main.initializers)
    if (t.name == name) return &t;
  return nullptr;
}

}  // namespace

BOOST_AUTO_TEST_CASE(weights_of_other_types) {
  test::exported_models models;
  graph g;
  using images = dims<dyn<"batch">, 8, 8, 4>;
  auto x = placeholder<float, images>(g, "x");
  auto ids = placeholder<std::int32_t, dims<dyn<"batch">, dyn<"time">>>(g, "ids");
  const auto net = nn::named(nn::sequential<nn::conv2d<3, 5>, nn::depthwise_conv2d<3>, nn::conv2d_transpose<3, 6>,
                                            nn::flatten, nn::dense<7>>(),
                             "net");
  auto table = variable<float, dims<6, 4>>(g, "table", init::normal{});
  auto y = net(x);
  const auto [states, h, c] = nn::named(nn::lstm<4>(), "lstm")(gather(table, ids));
  auto logits = matmul(states, transpose(table));
  session s(g);
  const auto a = some<tensor<float, images>>(1, shape(2, 8, 8, 4));
  const tensor<std::int32_t, dims<dyn<"batch">, dyn<"time">>> b(shape(2, 3), {0, 5, 2, 1, 1, 3});
  for (const dtype type : {dtype::float16, dtype::int8}) {
    const bool is_int8 = type == dtype::int8;
    models.options.weights = type;
    models.tolerance = is_int8 ? 0.02 : 0.001;
    models.add(is_int8 ? "int8" : "half", s, fetch(y, logits), feed(x, ids), "", a, b);
  }
}

// Each output channel has a scale, by which its largest weight is 127.
BOOST_AUTO_TEST_CASE(channels_have_scales) {
  graph g;
  auto x = placeholder<float, dims<1, 2, 3>>(g, "x");
  auto w = variable<float, dims<3, 2>>(g, "w", tensor<float, dims<3, 2>>{1.27f, -4, 0.2f, 2, -0.634f, 0});
  auto f = variable<float, dims<1, 3, 2>>(g, "f", tensor<float, dims<1, 3, 2>>{1, 0, -2, 0, 0.5f, 0});
  auto v = variable<float, dims<2, 3>>(g, "v", tensor<float, dims<2, 3>>{127, 3, -7, 0, 254, 2});
  session s(g);
  folder folder;
  const std::string path = (folder.path / "model.onnx").string();
  save_onnx(path, s, fetch(matmul(x, w), conv1d(x, f), matmul(x, transpose(v))), feed(x), {.weights = dtype::int8});
  const onnx::model m = onnx::read_model(path);
  const auto check = [&](const char* name, const std::vector<int>& integers, const std::vector<float>& scales) {
    const onnx::tensor_value *q = find(m, name), *r = find(m, std::string(name) + "_scales");
    BOOST_REQUIRE((q && r && q->bytes.size() == integers.size() && r->bytes.size() == 4 * scales.size()));
    BOOST_TEST(q->type == onnx::type_of(dtype::int8));
    for (std::size_t i = 0; i < integers.size(); ++i)
      BOOST_TEST(int(static_cast<std::int8_t>(q->bytes[i])) == integers[i]);
    BOOST_TEST(std::memcmp(r->bytes.data(), scales.data(), r->bytes.size()) == 0);
  };
  check("w", {127, -127, 20, 64, -63, 0}, {1.27f / 127, 4.0f / 127});
  check("f", {64, -127, 32, 0, 0, 0}, {2.0f / 127, 1});
  check("v", {127, 0, 3, 127, -7, 1}, {1, 2});
}

// A sum that broadcasts the only channel of a convolution is not its bias, however its filter is stored.
BOOST_AUTO_TEST_CASE(one_filter) {
  test::exported_models models;
  graph g;
  using images = dims<1, 5, 5, 4>;
  auto x = placeholder<float, images>(g, "x");
  auto f = variable<float, dims<3, 3, 4, 1>>(g, "f", init::normal{});
  auto five = variable<float, dims<5>>(g, "five", init::normal{});
  auto one = variable<float, dims<1>>(g, "one", init::normal{});
  session s(g);
  const auto a = some<tensor<float, images>>();
  for (const dtype type : {dtype::float32, dtype::float16, dtype::int8}) {
    models.options.weights = type;
    models.tolerance = 0.02;
    const bool is_float = type == dtype::float32, is_half = type == dtype::float16;
    models.add(str_cat({"five_", name(type)}), s, fetch(conv2d(x, f) + five), feed(x),
               is_float  ? "Add Conv Transpose 2"
               : is_half ? "Add Cast Conv Transpose 2"
                         : "Add Conv DequantizeLinear Transpose 2",
               a);
    models.add(str_cat({"one_", name(type)}), s, fetch(conv2d(x, f) + one), feed(x),
               is_float  ? "Conv Transpose 2"
               : is_half ? "Cast Conv Transpose 2"
                         : "Conv DequantizeLinear Transpose 2",
               a);
    models.add(str_cat({"computed_", name(type)}), s, fetch(conv2d(x, f * 2) + five), feed(x), "", a);
  }
}

// Weights that the type cannot express remain float.
BOOST_AUTO_TEST_CASE(large_weights) {
  test::exported_models models;
  graph g;
  auto x = placeholder<float, dims<2, 3>>(g, "x");
  auto w = variable<float, dims<3, 1>>(g, "w", tensor<float, dims<3, 1>>{1e5f, 2, -0.5f});
  auto v = variable<float, dims<3, 1>>(g, "v", tensor<float, dims<3, 1>>{__builtin_inff(), 2, -0.5f});
  auto u = variable<float, dims<3, 1>>(g, "u", tensor<float, dims<3, 1>>{2e-43f, 0, 1e-45f});
  session s(g);
  const tensor<float, dims<2, 3>> a{1, 2, 3, -1, 0, 1};
  models.options.weights = dtype::float16;
  models.add("half", s, fetch(matmul(x, w)), feed(x), "MatMul", a);
  models.options.weights = dtype::int8;
  models.add("int8", s, fetch(matmul(x, v), matmul(x, u)), feed(x), "DequantizeLinear MatMul 2", a);
}

// Products of a matrix that is computed from variables only.
BOOST_AUTO_TEST_CASE(computed_weights) {
  graph g;
  auto x = placeholder<float, dims<2, 3>>(g, "x");
  auto w = variable<float, dims<3, 4>>(g, "w", init::normal{});
  auto b = variable<float, dims<3, 4>>(g, "b", init::normal{});
  session s(g);
  folder folder;
  const std::string path = (folder.path / "model.onnx").string();
  save_onnx(path, s, fetch(matmul(x, reshape<dims<3, 8>>(concat<0>(w, b * 2)))), feed(x), {.weights = dtype::int8});
  int integers = 0;
  for (const onnx::tensor_value& t : onnx::read_model(path).main.initializers) {
    integers += t.type == onnx::type_of(dtype::int8) && t.bytes.size() == 24;
    BOOST_TEST((t.type != onnx::type_of(dtype::float32) || t.bytes.size() == 32));  // scales
  }
  BOOST_TEST(integers == 1);
}

BOOST_AUTO_TEST_CASE(mistakes) {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  session s(g);
  CHECK_SAYS(test::failure(error_code::invalid_argument,
                           [&] { save_onnx("model.onnx", s, fetch(x + 1), feed(x), {.weights = dtype::int32}); }),
             "weights must be dtype::float32, float16 or int8; they are int32");
}
