// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <weft/weft.hpp>

#include "errors.hpp"

using namespace weft;

// Nothing here calls gradients(), so that this program has only the kernels that minimize() and the operations bring.

namespace {

using matrix = tensor<double, dims<3, 4>>;

const matrix start = {0.3, -0.7, 1.1, 0.4, -0.2, 0.9, 0.5, -1.3, 0.8, 0.1, -0.6, 1.7};

/// One step of rate 1 changes a variable by the gradient, which differences of the loss confirm, whether the loss is
/// fetched beside it or not.
template <class Loss>
void check(const char* what, const Loss& loss) {
  graph g;
  const auto w = variable<double, dims<3, 4>>(g, "w", init::zeros{});
  const auto trained_loss = let(loss(g, w));
  const auto train = gradient_descent{.learning_rate = 1}.minimize(trained_loss);
  const auto x = placeholder<double, dims<3, 4>>(g, "x");
  const auto cost = let(loss(g, x));
  session s{g};
  const auto set = assign(w, x);
  s.run(fetch(set), with(x, start));
  s.run(fetch(train));
  const matrix trained = s.eval(w);
  s.run(fetch(set), with(x, start));
  const auto [before, nothing_] = s.run(fetch(trained_loss, train));
  BOOST_CHECK_CLOSE(before, s.eval(cost, with(x, start)), 1e-10);
  const matrix again = s.eval(w);
  for (int i = 0; i < 12; ++i) BOOST_CHECK_EQUAL(again.data()[i], trained.data()[i]);
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j) {
      constexpr double h = 1e-5;
      matrix up = start, down = start;
      up(i, j) += h;
      down(i, j) -= h;
      const double slope = (s.eval(cost, with(x, up)) - s.eval(cost, with(x, down))) / (2 * h);
      BOOST_CHECK_MESSAGE(
          std::abs(start(i, j) - trained(i, j) - slope) < 1e-7 * (1 + std::abs(slope)),
          what << " (" << i << ", " << j << "): " << start(i, j) - trained(i, j) << " is not " << slope);
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(reductions) {
  check("sum", [](graph&, const auto& w) { return sum(sigmoid(w) * w); });
  check("mean of rows", [](graph&, const auto& w) { return sum(square(mean<1>(tanh(w) + w))); });
  check("max", [](graph&, const auto& w) { return sum(square(weft::max<1>(exp(w) * 2.0))); });
  check("min", [](graph&, const auto& w) { return sum(square(weft::min<0>(tanh(w) - w))); });
  check("product", [](graph&, const auto& w) { return sum(square(prod<1>(w + 2.0))); });
}

// The gradient that arrives at the product is one number, and its own gradient does not read the product itself.
BOOST_AUTO_TEST_CASE(sums_of_products) {
  const tensor<double, dims<4, 2>> right = {0.5, -1.5, 2.0, 0.25, -0.75, 1.0, 0.125, -2.0};
  const tensor<double, dims<2, 2, 1, 3>> filters = {0.5, -1.5, 2.0, 0.25, -0.75, 1.0, 0.125, -2.0, 0.1, 0.7, 0.3, 1.1};
  const auto image = [](const auto& w) { return reshape<dims<1, 3, 4, 1>>(w); };
  check("mean of a product", [&](graph&, const auto& w) { return mean(matmul(w, right)); });
  check("sum of a product", [&](graph&, const auto& w) { return sum(matmul(w, right)); });
  check("sum of a product by itself", [&](graph&, const auto& w) { return sum(matmul<transpose_of::a>(w, w)); });
  check("mean of columns", [&](graph&, const auto& w) { return sum(mean<0>(matmul(w, right))); });
  check("mean of a convolution", [&](graph&, const auto& w) { return mean(conv2d(image(w), filters)); });
  check("sum of a pool", [&](graph&, const auto& w) { return sum(avg_pool2d<2>(image(w))); });
  check("mean of a softmax", [&](graph&, const auto& w) { return mean(softmax(w) * w); });
  check("sum of a transposed matrix", [&](graph&, const auto& w) { return sum(transpose(w)); });
  check("largest element of a product", [&](graph&, const auto& w) { return weft::max(matmul(w, right)); });
}

BOOST_AUTO_TEST_CASE(softmaxes) {
  check("softmax", [](graph&, const auto& w) { return sum(square(softmax(w * 2.0))); });
  check("log_softmax", [](graph&, const auto& w) { return sum(square(log_softmax(w))); });
  check("sparse cross-entropy", [](graph& g, const auto& w) {
    return mean(softmax_cross_entropy(w, constant(g, tensor<std::int32_t, dims<3>>{1, 0, 3})));
  });
  check("cross-entropy, its labels trained too",
        [](graph&, const auto& w) { return mean(softmax_cross_entropy(w, softmax(w + 1.0))); });
}

BOOST_AUTO_TEST_CASE(gradients_meet) {
  check("products", [](graph&, const auto& w) {
    return mean(square(matmul<transpose_of::b>(w, w) - matmul(w, transpose<1, 0>(w)) * 0.5));
  });
  check("broadcast",
        [](graph&, const auto& w) { return sum(w * reshape<dims<3, 1>>(mean<1>(w)) / (square(w) + 1.0)); });
  check("nodes that are used twice", [](graph&, const auto& w) {
    const auto h = let(tanh(w));
    return sum(h * h) + sum(exp(h)) - sum(h);
  });
}

BOOST_AUTO_TEST_CASE(only_what_is_trained_is_updated) {
  graph g;
  const auto w = variable<double>(g, "w", 3.0);
  const auto seen = variable<double>(g, "seen", 5.0, variable_kind::averaged);
  const auto own = variable<double, dims<2>>(g, "own", 1.0, variable_kind::local);
  const auto loss = let(w * seen * sum(own));
  const auto train = gradient_descent{.learning_rate = 0.5}.minimize(loss);
  session s(g);
  s.run(fetch(train));
  BOOST_CHECK_EQUAL(s.eval(w), 3 - 0.5 * 10);
  BOOST_CHECK_EQUAL(s.eval(seen), 5);
  BOOST_CHECK_EQUAL(s.eval(own)(1), 1);
  CHECK_SAYS(test::failure(error_code::invalid_argument,
                           [&] { static_cast<void>(gradient_descent{}.minimize(loss, w, seen)); }),
             "the variable seen is averaged: minimize() updates only trained variables");
  const auto [dseen] = gradients(loss, seen);  // which says nothing of training
  BOOST_CHECK_EQUAL(s.eval(dseen), s.eval(w) * 2);
  BOOST_CHECK(to_string(g).find("variable, averaged") != std::string::npos);

  const variable_scope again(g, reuse::yes);
  BOOST_CHECK(variable<double>(g, "seen", 0.0, variable_kind::averaged).id() == seen.id());
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { static_cast<void>(variable<double>(g, "seen", 0.0)); }),
             "has the kind averaged, but this use declares the kind trained");
}
