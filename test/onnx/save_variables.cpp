// SPDX-License-Identifier: BSL-1.0
// Variables in exported files: their names and shapes, and the operands that they become.
#include "onnx/exported.hpp"

#include <set>

#include <weft/control_flow.hpp>
#include <weft/nn.hpp>
#include <weft/nn/conv2d_transpose.hpp>
#include <weft/nn/depthwise_conv2d.hpp>
#include <weft/onnx/save_onnx.hpp>
#include <weft/ops/arrays/strided_slice.hpp>
#include <weft/ops/images/pooling.hpp>
#include <weft/ops/index/gather.hpp>

#include "data/files.hpp"

using namespace weft;
using test::some;

namespace {

using images = dims<dyn<"batch">, 8, 8, 4>;

struct block {
  nn::conv2d<3, 4> conv;
  nn::batch_norm<> norm{.momentum = 0.97};
  auto operator()(const auto& x, nn::mode m) const { return norm(conv(x), m); }
};

/// Exports a value, and returns the model, whose bytes are gone.
template <class V, class P>
onnx::model exported(session& s, const V& v, const P& x) {
  folder f;
  const std::string path = (f.path / "model.onnx").string();
  save_onnx(path, s, fetch(v), feed(x));
  return onnx::read_model(path);
}
/// The names and shapes of initializers, sorted.
std::set<std::string> initializers_of(const onnx::model& m) {
  std::set<std::string> all;
  for (const onnx::tensor_value& t : m.main.initializers) {
    std::string text = t.name;
    for (const std::int64_t n : t.extents) append(text, {" ", n});
    all.insert(text);
  }
  return all;
}
/// The attribute of the first node of an operator, or -1.
double attribute_of(const onnx::model& m, const char* operation, const char* name) {
  for (const onnx::node& n : m.main.nodes)
    for (const onnx::attribute& a : n.attributes)
      if (n.op_type == operation && a.name == name) return static_cast<double>(a.f);
  return -1;
}

}  // namespace

BOOST_AUTO_TEST_CASE(initializers_have_names_of_variables) {
  test::exported_models models;
  graph g;
  auto x = placeholder<float, images>(g, "x");
  const auto net = nn::named(block(), "net");
  auto y = relu(net(x, nn::mode::inference));
  session s(g);
  const onnx::model m = exported(s, y, x);
  const std::set<std::string> names{"net/conv/bias 4",   "net/conv/weights 4 4 3 3",   "net/norm/scale 4",
                                    "net/norm/offset 4", "net/norm/moving_variance 4", "net/norm/moving_mean 4"};
  BOOST_TEST(initializers_of(m) == names, boost::test_tools::per_element());
  models.add("block", s, fetch(y), feed(x), "BatchNormalization Conv Relu Transpose 2",
             some<tensor<float, images>>(1, shape(2, 8, 8, 4)));

  // Operators have other names than variables.
  auto add = variable<float, dims<4>>(g, "Add", init::normal{});
  session named(g);
  BOOST_TEST(initializers_of(exported(named, relu(x + 1) * add, x)).count("Add 4") == 1);

  // A table that is gathered from and multiplied by is one initializer.
  auto ids = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "ids");
  auto table = variable<float, dims<6, 4>>(g, "table", init::normal{});
  auto rows = gather(table, ids);  // first: the initializer has the order of axes of the first use
  auto logits = matmul(rows, transpose(table));
  session t(g);
  BOOST_TEST(initializers_of(exported(t, logits, ids)).count("table 6 4") == 1);
  models.add("tied", t, fetch(logits, transpose(table) * 2, transpose(table), table + 1), feed(ids), "",
             tensor<std::int32_t, dims<dyn<"batch">>>(shape(3), {0, 5, 2}));
  // A bias for each channel of images is also read as a row.
  auto b = variable<float, dims<4>>(g, "b", init::normal{});
  auto sum = relu(x) + b;
  auto part = slice<0, 1, 2>(b);
  auto turned = transpose<0, 3, 1, 2>(x);
  session u(g);
  models.add("row", u, fetch(max_pool2d<2>(sum), max_pool2d<2>(sum + b), part, b), feed(x), "",
             some<tensor<float, images>>(1, shape(2, 8, 8, 4)));
  models.add("whole", u, fetch(strided_slice<bounds{}>(turned), turned, relu(turned)), feed(x), "",
             some<tensor<float, images>>(1, shape(2, 8, 8, 4)));
}

BOOST_AUTO_TEST_CASE(biases_belong_to_convolutions) {
  test::exported_models models;
  graph g;
  auto x = placeholder<float, images>(g, "x");
  auto w = variable<float, dims<3, 3, 4, 4>>(g, "w", init::normal{});
  auto narrow = variable<float, dims<3, 3, 4, 1>>(g, "narrow", init::normal{});
  auto b = variable<float, dims<4>>(g, "b", init::normal{});
  auto one = variable<float, dims<1>>(g, "one", init::normal{});
  auto pixels = variable<float, dims<8, 8, 1>>(g, "pixels", init::normal{});
  const auto depthwise = nn::named(nn::depthwise_conv2d<3>(), "depthwise");
  const auto up = nn::named(nn::conv2d_transpose<3, 5>(), "up");
  auto plain = conv2d(x, w);
  auto deep = depthwise(x);
  auto raised = up(x);
  session s(g);
  const auto a = some<tensor<float, images>>(1, shape(2, 8, 8, 4));
  models.add("bias", s, fetch(conv2d(x, w) + b), feed(x), "Conv Transpose 2", a);
  models.add("left", s, fetch(b + conv2d(x, w)), feed(x), "Conv Transpose 2", a);
  models.add("twice", s, fetch(conv2d(relu(conv2d(x, w) + b), w) + b), feed(x), "Conv 2 Relu Transpose 2", a);
  models.add("narrow", s, fetch(conv2d(x, narrow) + one), feed(x), "Conv Transpose 2", a);
  models.add("depthwise", s, fetch(deep), feed(x), "Conv Transpose 2", a);
  models.add("transposed", s, fetch(raised), feed(x), "ConvTranspose Transpose 2", a);
  // Other sums stay: of a product that is read elsewhere, of one number or numbers for each pixel, of biases that are
  // also read otherwise.
  models.add("read", s, fetch(plain + b, plain), feed(x), "Add Conv Transpose 3", a);
  models.add("number", s, fetch(conv2d(x, w) + one, conv2d(x, w) + pixels), feed(x), "Add 2 Conv Transpose 3", a);
  models.add("shared", s, fetch((conv2d(x, w) + b) * b), feed(x), "Add Conv Mul Transpose 2", a);
  models.add("body", s, fetch(cond(sum(x) > 0, [&] { return conv2d(x, w) + b; }, [&] { return x; })), feed(x), "", a);
}

BOOST_AUTO_TEST_CASE(momentum_is_that_of_training) {
  graph g;
  auto x = placeholder<float, images>(g, "x");
  const auto net = nn::named(block(), "net");
  auto inferred = net(x, nn::mode::inference);
  {
    session s(g);
    BOOST_TEST(attribute_of(exported(s, inferred, x), "BatchNormalization", "momentum") == -1);
  }
  static_cast<void>(net(x, nn::mode::training));
  session s(g);
  BOOST_TEST(attribute_of(exported(s, inferred, x), "BatchNormalization", "momentum") == 0.97,
             boost::test_tools::tolerance(1e-6));
}
