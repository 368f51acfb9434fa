// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <gpu/compare.hpp>
#include <weft/graph/random.hpp>
#include <weft/ops/arrays/transpose.hpp>
#include <weft/ops/random/dropout.hpp>

using namespace weft;
using compare::input;
using compare::recorded;

namespace {

template <class T, int Rows, int Columns>
void softmax_of() {
  BOOST_TEST_CONTEXT(Rows << "x" << Columns) {
    graph g;
    auto x = input<T, Rows, Columns>(g, "x");
    recorded(softmax(x), log_softmax(x), softmax_cross_entropy(x, input<T, Rows, Columns>(g, "distribution")),
             softmax_cross_entropy(x, input<std::int32_t, Rows>(g, "labels")),
             softmax_cross_entropy(x, input<std::int64_t, Rows>(g, "labels")));
    compare::options o;
    o.low = -30;
    o.high = 30;
    o.tolerance = 1e-5;
    o.values["labels"] = {0};
    if (Columns > 1) o.values["labels"] = {0, Columns - 1.0, Columns / 2, 1};
    o.values["distribution"] = {0.25, 0.5, 0, 0.125};
    compare::run(g, o);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(softmax_and_cross_entropies) {
  softmax_of<float, 1, 1>();
  softmax_of<float, 100, 10>();
  softmax_of<float, 33, 31>();
  softmax_of<float, 3, 257>();
  softmax_of<float, 2, 5000>();
  softmax_of<float, 0, 10>();
  softmax_of<double, 17, 100>();
}

BOOST_AUTO_TEST_CASE(a_label_that_is_no_class_has_a_loss_of_nan) {
  graph g;
  auto x = input<float, 4, 3>(g, "x");
  auto labels = input<std::int32_t, 4>(g, "labels");
  recorded(softmax_cross_entropy(x, labels));
  gpu::emulated_platform gpus;
  auto& d = gpus.device(0);
  const auto q = d.make_queue();
  const node_def& c = g[static_cast<std::uint32_t>(g.size() - 1)].def;
  const value_info in[] = {{dtype::float32, shape(4, 3)}, {dtype::int32, shape(4)}};
  const std::uint32_t slots[] = {0, 1, 2, 3};
  const std::unique_ptr<kernel> k(c.op->gpu->prepare({c, in, c.outputs.data(), slots, slots + 2}, d));
  std::byte* buffers[4];
  for (auto& b : buffers) b = d.allocate(64);
  const float logits[12] = {1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3};
  const std::int32_t classes[4] = {2, -1, 3, 0};
  q->copy(buffers[0], logits, sizeof logits);
  q->copy(buffers[1], classes, sizeof classes);
  k->run({buffers, nullptr, q.get()});
  float losses[4], backprop[12];
  q->copy(losses, buffers[2], sizeof losses);
  q->copy(backprop, buffers[3], sizeof backprop);
  for (int r = 0; r < 4; ++r) {
    BOOST_TEST(std::isnan(losses[r]) == (r == 1 || r == 2));
    for (int i = 0; i < 3; ++i) BOOST_TEST(std::isnan(backprop[3 * r + i]) == (r == 1 || r == 2));
  }
}

namespace {

template <class T>
void transposed() {
  graph g;
  auto m = input<T, 70, 33>(g, "m");
  recorded(transpose(m));
  auto t = input<T, 5, 33, 40>(g, "t");
  recorded(transpose<0, 2, 1>(t), transpose<2, 1, 0>(t), transpose<1, 0, 2>(t), transpose<1, 2, 0>(t),
           transpose<2, 0, 1>(t));
  auto u = input<T, 3, 4, 5, 6>(g, "u");
  recorded(transpose<3, 1, 2, 0>(u), transpose<0, 2, 3, 1>(u), transpose<0, 3, 1, 2>(u), transpose<1, 3, 0, 2>(u));
  recorded(transpose(input<T, 1, 7>(g, "row")), transpose(input<T, 7, 1>(g, "column")),
           transpose(input<T, 0, 4>(g, "no")));
  compare::options o;
  o.low = -100;
  o.high = 100;
  compare::run(g, o);
}

}  // namespace

BOOST_AUTO_TEST_CASE(transposes) {
  transposed<float>();
  transposed<double>();
  transposed<std::int8_t>();
  transposed<half>();
}

BOOST_AUTO_TEST_CASE(argmax_one_hot_and_extents) {
  graph g;
  auto x = input<float, 6, 70, 9>(g, "x");
  recorded(argmax<0>(x), argmax<1>(x), argmax<2>(x));
  auto i = input<std::int32_t, 40, 1000>(g, "i");
  recorded(argmax<0>(i), argmax<1>(i));
  auto nan = input<float, 13, 3>(g, "nan");
  recorded(argmax<1>(nan), argmax<0>(nan));
  recorded(argmax<0>(input<double, 300>(g, "d")), argmax<1>(input<std::int64_t, 100, 10>(g, "l")));
  recorded(argmax<0>(input<float, 50000>(g, "long")), argmax<1>(input<half, 3, 9000, 5>(g, "equals")),
           argmax<0>(input<float, 70000, 2>(g, "nans")), argmax<1>(input<std::int32_t, 2, 30001>(g, "sorted")));
  auto labels = input<std::int32_t, 33>(g, "labels");
  recorded(one_hot<10>(labels), one_hot<1>(labels), one_hot<257, double>(input<std::int64_t, 5>(g, "labels")));
  recorded(shape_of(x), weft::size(x));
  compare::options o;
  o.values["i"] = {3, 3, 1, -5, 2, 3, 0};
  o.values["nan"] = {1, std::numeric_limits<double>::quiet_NaN(), 3, 3,
                     2, std::numeric_limits<double>::quiet_NaN(), 0, 1};
  o.values["labels"] = {0, 9, 3, -1, 10, 256};
  o.values["equals"] = {1, 2, 0.5};
  o.values["nans"] = {std::numeric_limits<double>::quiet_NaN()};
  for (int n = 0; n < 30001; ++n) o.values["sorted"].push_back(n / 2);
  compare::run(g, o);
}

namespace {

template <class T, int N>
void updates() {
  BOOST_TEST_CONTEXT("size " << N) {
    graph g;
    auto v = variable<T, dims<N>>(g, "v");
    auto w = variable<T, dims<N>>(g, "w");
    auto x = input<T, N>(g, "x");
    assign(v, x);
    assign_add(v, x);
    recorded(gradient_descent{.learning_rate = 0.37f}.minimize(sum(square(w) * x), w));
    recorded(momentum{.learning_rate = 0.37f, .momentum = 0.9f}.minimize(sum(square(v) * x), v));
    recorded(adam{.learning_rate = 0.37f}.minimize(sum(square(w) * x), w));
    // Hyperparameters that are computed, too.
    recorded(adam{.learning_rate = input<double>(g, "rate"), .beta2 = input<float>(g, "beta2")}.minimize(
        sum(square(w) * x), w));
    compare::options o;
    o.exact = {"assign", "assign_add", "gradient_descent", "momentum", "adam", "fill"};
    o.values["w/v"] = o.values["w/v_1"] = {0.5, 0, 3, 0.0625};
    o.values["w/beta1_power"] = o.values["w/beta1_power_1"] = {0.729};
    o.values["w/beta2_power"] = o.values["w/beta2_power_1"] = {0.997};
    o.values["rate"] = {0.03};
    o.values["beta2"] = {0.98};
    o.tolerance = 1e-5;
    compare::run(g, o);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(updates_have_the_cpus_bits) {
  updates<float, 1>();
  updates<float, 1027>();
  updates<double, 258>();
}

BOOST_AUTO_TEST_CASE(integers_are_counted) {
  graph g;
  auto v = variable<std::int64_t, dims<>>(g, "steps", init::zeros{});
  assign_add(v, v * 2);
  compare::run(g);
}

BOOST_AUTO_TEST_CASE(random_numbers_have_the_cpus_bits) {
  graph g;
  const auto rate = input<float>(g, "rate");
  const auto of = [&]<class T>(T) {
    recorded(dropout(input<T, 1>(g, "one"), 0.5), dropout(input<T, 3, 43>(g, "two groups"), 0.25),
             dropout(input<T, 5001>(g, "many"), rate), dropout(input<T, 0>(g, "none"), 0.5));
    recorded(random_uniform<T, dims<63>>(g, -3, 2), random_uniform<T, dims<1000>>(g),
             random_normal<T, dims<700>>(g, 1, 2));
  };
  of(float{}), of(double{}), of(weft::half{}), of(bfloat16{});
  compare::options o;
  o.exact = {"dropout", "random_uniform", "random_normal"};
  o.values["rate"] = {0.1f};
  o.values["random_position"] = {1234567};
  compare::run(g, o);
  o.offset = 8;
  compare::run(g, o);
}
