// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <weft/weft.hpp>

using namespace weft;

namespace {

template <class X>
std::string streamed(const X& x) {
  std::ostringstream out;
  out << x;
  return out.str();
}

}  // namespace

BOOST_AUTO_TEST_CASE(handles_of_a_graph) {
  graph g;
  auto images = placeholder<float, dims<dyn<"batch">, 784>>(g, "images");
  auto w = variable<float, dims<784, 10>>(g, "weights", init::zeros{});
  auto logits = let(matmul(images, w), "logits");
  BOOST_CHECK_EQUAL(streamed(images), "placeholder<float, [batch, 784]> \"images\"");
  BOOST_CHECK_EQUAL(streamed(w), "variable<float, [784, 10]> \"weights\"");
  const node<float, dims<784, 10>> read = w;
  BOOST_CHECK_EQUAL(to_string(read), "variable<float, [784, 10]> \"weights\"");
  BOOST_CHECK_EQUAL(to_string(logits), "node<float, [batch, 10]> \"logits\"");
  BOOST_CHECK_EQUAL(streamed(relu(logits) > 0.5f), "expression<bool, [batch, 10]>");
  BOOST_CHECK_EQUAL((streamed(node<std::int32_t, dims<3>>())), "node<int32, [3]>, empty");
  const auto [first, second] = split<1, 2>(logits);
  BOOST_CHECK_EQUAL(streamed(second).substr(0, 24), "node<float, [batch, 5]> ");
  BOOST_CHECK_NE(streamed(first), streamed(second));
  BOOST_CHECK_EQUAL(streamed(effect()), "effect, empty");
  BOOST_CHECK_EQUAL(streamed(gradient_descent{}.minimize(mean(logits))).substr(0, 8), "effect \"");
}

BOOST_AUTO_TEST_CASE(handles_outlive_their_graph) {
  node<float, dims<3>> x;
  effect e;
  {
    graph g;
    auto w = variable<float, dims<3>>(g, "w", init::zeros{});
    x = w;
    e = gradient_descent{}.minimize(mean(w));
  }
  BOOST_CHECK_EQUAL(streamed(x), "node<float, [3]>, its graph no longer exists");
  BOOST_CHECK_EQUAL(streamed(e), "effect, its graph no longer exists");
}

BOOST_AUTO_TEST_CASE(steps) {
  graph g;
  auto x = placeholder<float, dims<dyn<"batch">, 2>>(g, "x");
  auto w = variable<float, dims<2, 3>>(g, "w", init::zeros{});
  auto y = let(matmul(x, w), "y");
  auto loss = let(mean(y), "loss");
  auto train = gradient_descent{}.minimize(loss);
  session s{g};
  auto step = s.prepare(fetch(loss, y, train), feed(x));
  const std::string name = to_string(train).substr(7);
  BOOST_CHECK_EQUAL(streamed(step), "step: fetches float [] \"loss\", float [batch, 3] \"y\"; runs " + name +
                                        "; is given float [batch, 2] \"x\"");
  step(tensor<float, dims<dyn<"batch">, 2>>(shape(4, 2)));
  BOOST_CHECK_EQUAL(to_string(step).substr(0, 13), "step: fetches");
  BOOST_CHECK_EQUAL(streamed(s.prepare(fetch(w))), "step: fetches float [2, 3] \"w\"");
  const auto moved = std::move(step);
  BOOST_CHECK_EQUAL(streamed(step), "step, moved from");
  weft::step<tensor<float, dims<2, 3>>()> typed;
  BOOST_CHECK_EQUAL(streamed(typed), "step, empty");
  typed = s.prepare(fetch(w));
  BOOST_CHECK_EQUAL(streamed(typed), "step: fetches float [2, 3] \"w\"");
}
