// SPDX-License-Identifier: BSL-1.0
#include "ops/gradient_check.hpp"

using namespace weft;

BOOST_AUTO_TEST_CASE(matmul_in_four_forms) {
  const auto form = []<transpose_of T, class A, class B>(const std::string& name,
                                                         std::integral_constant<transpose_of, T>, A, B) {
    gradient_check check;
    const auto a = check.input<A>();
    check("matmul " + name, matmul<T>(a, check.input<B>()), 3);
  };
  using t = transpose_of;
  form("plain", std::integral_constant<t, t::none>{}, dims<2, 3>{}, dims<3, 4>{});
  form("of the transposed", std::integral_constant<t, t::a>{}, dims<3, 2>{}, dims<3, 4>{});
  form("by the transposed", std::integral_constant<t, t::b>{}, dims<2, 3>{}, dims<4, 3>{});
  form("of both transposed", std::integral_constant<t, t::both>{}, dims<3, 2>{}, dims<4, 3>{});
  gradient_check check;
  const auto x = check.input<dims<3, 3>>();
  check("matmul(x, x)", matmul(x, x), 3);
  check("matmul of expressions", matmul(exp(x), x * x));
}

BOOST_AUTO_TEST_CASE(softmax_and_its_family) {
  gradient_check check;
  const auto x = check.input<dims<2, 4>>();
  check("softmax", softmax(x), 3);
  check("log_softmax", log_softmax(2 * x), 3);
  gradient_check batched;
  const auto y = batched.input<dims<dyn_extent<"batch">{}, 2, 3>>(-2, 2, shape(2, 2, 3));
  batched("softmax of rank 3", softmax(y));
}

BOOST_AUTO_TEST_CASE(cross_entropy_with_classes) {
  gradient_check check;
  const auto x = check.input<dims<3, 4>>();
  const auto classes = check.fixed(tensor<std::int32_t, dims<3>>{1, 0, 3});
  const auto wide = check.fixed(tensor<std::int64_t, dims<3>>{2, 2, 1});
  check("sparse cross-entropy", softmax_cross_entropy(x, classes), 3);
  check("mean of sparse cross-entropy", mean(softmax_cross_entropy(square(x), wide)));
}

BOOST_AUTO_TEST_CASE(cross_entropy_with_distributions) {
  gradient_check check;
  const auto x = check.input<dims<3, 4>>();
  const auto labels = softmax(check.input<dims<3, 4>>());  // rows sum to 1 however the elements move
  check("dense cross-entropy", softmax_cross_entropy(x, labels), 3);
}

BOOST_AUTO_TEST_CASE(other_extents) {
  gradient_check check;
  const auto x = check.input<dims<2, 3, 4>>();
  check("reshape", square(reshape<dims<6, 4>>(x * x)));
  check("reshape of a reshape", sum<0>(square(reshape<dims<24>>(reshape<dims<4, 6>>(x)))));
  check("transpose", exp(transpose(x)) * 2);
  check("transpose to a chosen order", transpose<1, -1, 0>(x * x) * transpose<1, 2, 0>(x));
  check("matrix transpose", matmul(transpose(reshape<dims<6, 4>>(x)), reshape<dims<6, 4>>(x)), 3);
}

BOOST_AUTO_TEST_CASE(stopped_gradients) {
  graph g;
  const auto x = placeholder<double, dims<2>>(g);
  const auto [d] = gradients(sum(x * stop_gradient(square(x))), x);
  session s{g, {.threads = 1}};
  const auto found = s.eval(d, with(x, tensor<double, dims<2>>{3, -2}));
  BOOST_CHECK_EQUAL(found(0), 9);
  BOOST_CHECK_EQUAL(found(1), 4);
}

BOOST_AUTO_TEST_CASE(operands_that_occur_more_than_once) {
  gradient_check check;
  const auto x = check.input<dims<3>>(0.5, 2);
  check("x * x", x * x, 3);
  check("x * x * x / x", x * x * x / x, 3);
  const auto y = let(exp(x));
  check("y * y + x * y", y * y + x * y, 3);
  check("sum(x * x * y)", sum(x * x * y), 3);
  check("mean(x) * x", mean(x) * x, 3);
  check("max(x * x) + x", max(x * x) + x);
  check("prod(x * x)", prod(x * x), 3);
}

BOOST_AUTO_TEST_CASE(two_layers) {
  gradient_check check;
  const auto x = check.input<dims<dyn<"batch">, 3>>(-1, 1, shape(2, 3));
  const auto labels = check.fixed(tensor<std::int32_t, dims<dyn<"batch">>>(shape(2), {1, 0}));
  const auto w1 = check.input<dims<3, 4>>(-1, 1);
  const auto b1 = check.input<dims<4>>(-1, 1);
  const auto w2 = check.input<dims<4, 2>>(-1, 1);
  const auto b2 = check.input<dims<2>>(-1, 1);
  const auto hidden = tanh(matmul(x, w1) + b1);
  check("two layers", mean(softmax_cross_entropy(matmul(hidden, w2) + b2, labels)), 2);
}

BOOST_AUTO_TEST_CASE(layer_norm_by_hand) {
  gradient_check check;
  check.tolerance = 1e-5;
  const auto x = check.input<dims<2, 4>>();
  const auto gain = check.input<dims<4>>(0.5, 2);
  const auto bias = check.input<dims<4>>();
  const auto centred = let(x - reshape<dims<2, 1>>(mean<1>(x)));
  const auto variance = reshape<dims<2, 1>>(mean<1>(square(centred)));
  check("layer norm", centred / sqrt(variance + 1e-3) * gain + bias);
}

BOOST_AUTO_TEST_CASE(chains_past_the_limit_of_one_expression) {
  gradient_check check;
  const auto x = check.input<dims<3>>(0.2, 0.9);
  auto y = x + 0.5;
  auto once = y * y - x;
  auto twice = once * once * 0.3 - once + x * once * y;
  auto thrice = twice * twice + once * twice - y * twice + twice / y;
  auto fourth = thrice * sigmoid(thrice) + twice * thrice;
  check("a long chain", fourth, 2);
}

// x = x * x, forty times: each the square of the one before, so the gradient of the last is a product of forty.
BOOST_AUTO_TEST_CASE(forty_squares) {
  graph g;
  const auto x = placeholder<double, dims<2>>(g);
  const auto twice = [](auto v) { return v * v * 0.5; };
  const auto four = [&](auto v) { return twice(twice(twice(twice(v)))); };
  const auto y = four(four(four(four(four(x * 2.0)))));
  const auto [d] = gradients(sum(y), x);
  session s{g, {.threads = 1}};
  const auto [value, slope] = s.run(fetch(y, d), with(x, tensor<double, dims<2>>{1, 1}));
  BOOST_CHECK_CLOSE(value(0), 2.0, 1e-9);
  BOOST_CHECK_CLOSE(slope(1), 2.0 * 1048576, 1e-9);
}

BOOST_AUTO_TEST_CASE(gradients_of_what_has_no_influence_are_zeros) {
  graph g;
  const auto x = placeholder<double, dims<2, 3>>(g);
  const auto z = placeholder<double, dims<dyn_extent<"n">{}>>(g);
  const auto unused = variable<double, dims<2>>(g, "unused");
  const auto y = sum(square(x)) + sum(z);
  const auto [dx, dz, none] = gradients(y, x, z, unused);
  const auto [of_condition] = gradients(sum(select(x > 0.0, 1.0 + 0.0 * x, 2.0)), x);
  static_assert(std::is_same_v<dims_t<decltype(none)>, dims<2>>);
  session s{g, {.threads = 1}};
  const auto [a, b, c, e] =
      s.run(fetch(dx, dz, none, of_condition), with(x, tensor<double, dims<2, 3>>{1, 2, 3, 4, 5, 6}),
            with(z, tensor<double, dims<dyn_extent<"n">{}>>(shape(2), {7, 8})));
  BOOST_CHECK_EQUAL(a(1, 2), 12);
  BOOST_CHECK_EQUAL(b(1), 1);
  for (const double zero : c) BOOST_CHECK_EQUAL(zero, 0);
  for (const double zero : e) BOOST_CHECK_EQUAL(zero, 0);
}
