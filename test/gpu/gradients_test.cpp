// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>
#include <gpu/compare.hpp>

#include "functions.hpp"

using namespace weft;
using compare::input;
using compare::recorded;

namespace {

/// A user's formula, which is not said to be a constant expression.
struct cube {
  template <class V>
  static V apply(V x) {
    return x * x * x;
  }
  template <class V>
  static V gradient(V g, V x, V) {
    return V(3) * g * x * x;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(gradients_stored_summed_and_dropped) {
  graph g;
  auto x = variable<float, dims<12, 20>>(g, "x"), y = variable<float, dims<12, 20>>(g, "y");
  auto row = variable<float, dims<20>>(g, "row");
  auto column = variable<float, dims<12, 1>>(g, "column");
  auto one = variable<float, dims<>>(g, "one");
  auto c = input<float, 12, 20>(g, "c");
  // No argument broadcast; one dropped.
  recorded(gradients(sum(square(let(tanh(x * y) + c))), x, y));
  recorded(gradients(sum(square(let(tanh(x * c)))), x));
  // Bias.
  recorded(gradients(sum(square(let(sigmoid(x + row)))), x, row));
  recorded(gradients(sum(square(let(sigmoid(x * column)))), x, column));
  recorded(gradients(sum(square(let(x * one))), x, one));
  recorded(gradients(sum(square(let(c * row))), row));
  recorded(gradients(sum(square(let(row * column))), row, column));
  recorded(gradients(sum(square(let(x * row + column * one))), x, row, column, one));
  // Gradients of reductions.
  recorded(gradients(mean(square(x + row)), x, row));
  recorded(gradients(sum(square(mean<0>(x * row))), x, row));
  recorded(gradients(sum(square(mean<1>(x * column))), x, column));
  recorded(gradients(sum(square(max<1>(x))), x));
  recorded(gradients(sum(square(prod<0>(x))), x));
  compare::run(g);
  compare::options o;
  o.offset = 4;
  compare::run(g, o);
}

// A kernel does not wait for inputs that it does not read: a thread may have more of the rest on its way.
BOOST_AUTO_TEST_CASE(a_gradient_s_kernel_is_made_for_the_inputs_that_it_reads) {
  using skeleton::apply, skeleton::argument;
  using x = argument<0, float>;
  using y = argument<1, float>;
  const auto read = []<class S>(S*) { return gpu::reads_of<gpu::gradient_program<S, true>>; };
  BOOST_TEST(read(static_cast<apply<formula::add, float, x, y>*>(nullptr)) == 1);
  BOOST_TEST(read(static_cast<apply<formula::multiply, float, x, y>*>(nullptr)) == 3);
  BOOST_TEST(read(static_cast<apply<formula::relu, float, apply<formula::add, float, x, y>>*>(nullptr)) == 2);
  BOOST_TEST(read(static_cast<apply<formula::tanh, float, x>*>(nullptr)) == 2);
  BOOST_TEST(read(static_cast<apply<formula::pow, float, x, y>*>(nullptr)) == 4);
  BOOST_TEST(read(static_cast<apply<cube, float, x>*>(nullptr)) == 3);
}

BOOST_AUTO_TEST_CASE(a_bias_takes_one_launch) {
  graph g;
  auto x = variable<float, dims<100, 10>>(g, "x");
  auto b = variable<float, dims<10>>(g, "b");
  auto y = let(sigmoid(x + b));
  recorded(gradients(sum(y), x, b));
  // map, sum, gradient of the sum, of the map
  BOOST_TEST(compare::run(g) <= 4u);
}

BOOST_AUTO_TEST_CASE(large_gradients) {
  graph g;
  auto x = variable<float, dims<3001, 65>>(g, "x");
  auto row = variable<float, dims<65>>(g, "row");
  auto one = variable<float, dims<>>(g, "one");
  recorded(gradients(mean(square(let(sigmoid(x + row)))), x, row));
  recorded(gradients(mean(square(let(x * one))), x, one));
  compare::options o;
  o.tolerance = 1e-4;
  compare::run(g, o);
}

BOOST_AUTO_TEST_CASE(gradients_of_gradients_find_their_kernels) {
  graph g;
  auto x = variable<double, dims<7, 5>>(g, "x");
  auto b = variable<double, dims<5>>(g, "b");
  auto i = input<std::int32_t, 7, 5>(g, "i");
  auto y = sum(tanh(x * b) * exp(x) + select(i < 1, x, square(b) + x) + pow(abs(x) + 1.0, b) + maximum(x, b));
  auto dx = std::get<0>(gradients(y, x));
  recorded(gradients(sum(square(dx)), x, b));
  compare::run(g);
}

BOOST_AUTO_TEST_CASE(gradients_of_gradients_of_the_list) {
  graph g;
  auto x = variable<float, dims<5>>(g, "x");
  functions::each([&]<class F>(F, const functions::row& of) {
    if (of.order < 2) return;
    const auto [dx] = gradients(elementwise<F>(square(x)), x);
    recorded(gradients(sum(square(dx)), x));
  });
  compare::run(g);
}

// Infinite derivatives behind zeros, zeros before infinite gradients (oracle/edge_gradients.cpp has their values).
BOOST_AUTO_TEST_CASE(gradients_at_the_edges_of_domains) {
  const auto compare_in = []<class T>(T) {
    graph g;
    const auto x = variable<T, dims<8>>(g, "x"), up = variable<T, dims<8>>(g, "up"), v = variable<T, dims<8>>(g, "v");
    const auto all = [&](auto y) {
      const auto [dx] = gradients(sum(y * up), x);
      recorded(gradients(sum(dx * v), x, up));
    };
    all(sqrt(x));
    all(rsqrt(x));
    all(log(x));
    all(erf(x));
    compare::options o;
    o.values = {{"x", {0, 0, 0, 0, 4, 4, -1, 3}}, {"up", {0, 0, 1, 1, 0, 2, 0, -1}}, {"v", {0, 1, 0, 1, 1, 1, 0, 1}}};
    compare::run(g, o);
  };
  compare_in(float());
  compare_in(double());
}
