// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <vector>
#include <weft/graph/random.hpp>
#include <weft/ops/random/augmentation.hpp>
#include <weft/ops/random/sample_logits.hpp>

#include "errors.hpp"
#include "list.hpp"
#include "ops/values_of.hpp"
#include "session_on_cpu.hpp"

using namespace weft;
using test::list;

// Random draws at fixed seeds: chi-squared tests against SciPy's distributions (make_draws_values.py).

namespace {

constexpr int n = 40000;
using many = dims<n>;

const values_of& right() {
  static const values_of all(TEST_DATA "/ops/draws_values.txt");
  return all;
}

/// Compares counts with probabilities. Joins bins until at least ten draws are expected in each.
void check_counts(const std::string& name, const std::vector<double>& counts, const std::vector<double>& p) {
  BOOST_REQUIRE_EQUAL(counts.size(), p.size());
  double total = 0, statistic = 0, count = 0, expected = 0, bins = 0;
  for (const double c : counts) total += c;
  for (std::size_t i = 0; i < p.size(); ++i) {
    count += counts[i], expected += total * p[i];
    if (expected < 10) continue;
    statistic += (count - expected) * (count - expected) / expected;
    count = expected = 0, ++bins;
  }
  BOOST_CHECK_MESSAGE(statistic <= bins - 1 + 4 * std::sqrt(2 * (bins - 1)),
                      name << ": chi-squared is " << statistic << " in " << bins << " bins");
  BOOST_CHECK_MESSAGE(count <= expected + 10, name << ": " << count << " draws remain");
}

/// Of draws of a continuous distribution, by its tenths, or of one of 0, 1, ..., by the probabilities.
template <class T>
void check_draws(const std::string& name, const T& draws) {
  const auto& line = right()[name];
  const bool discrete = name.starts_with("poisson");
  std::vector<double> counts(discrete ? line.size() : line.size() + 1), p(discrete ? line : counts);
  if (!discrete) p.assign(counts.size(), 1.0 / static_cast<double>(counts.size()));
  for (const auto e : draws) {
    const auto x = static_cast<double>(e);
    std::size_t bin = 0;
    if (discrete)
      bin = x < static_cast<double>(counts.size()) - 1 ? static_cast<std::size_t>(x) : counts.size() - 1;
    else
      while (bin < line.size() && x > line[bin]) ++bin;
    BOOST_REQUIRE(!(x < 0) || name == "truncated_normal");
    if (discrete) BOOST_REQUIRE_EQUAL(x, std::floor(x));
    ++counts[bin];
  }
  check_counts(name, counts, p);
}

/// The frequencies of classes.
template <class T>
std::vector<double> frequencies(const T& classes, int count) {
  std::vector<double> found(static_cast<std::size_t>(count));
  for (const auto c : classes) {
    BOOST_REQUIRE(c >= 0 && c < count);
    ++found[static_cast<std::size_t>(c)];
  }
  return found;
}

/// Rows of equal logits.
template <int Rows = n>
tensor<float, dims<Rows, 4>> rows_of(const tensor<float, dims<4>>& x) {
  return eval(broadcast_to<dims<Rows, 4>>(x));
}
const tensor<float, dims<4>> logits{std::log(0.4f), std::log(0.3f), std::log(0.2f), std::log(0.1f)};

}  // namespace

BOOST_AUTO_TEST_CASE(distributions) {
  graph g(3);
  session s{g};
  const auto filled = [&](double x) { return fill<double, many>(g, x); };
  for (const double a : {0.05, 0.5, 1.0, 4.5, 250.0}) {
    const std::string name = "gamma_" + (a == 250 || a == 1 ? std::to_string(static_cast<int>(a))
                                         : a == 0.05        ? "0.05"
                                                            : std::to_string(a).substr(0, 3));
    const auto [wide, narrow] = s.run(fetch(random_gamma(filled(a)), random_gamma(cast<float>(filled(a)))));
    check_draws(name, wide);
    if (a > 0.1) check_draws(name, narrow);
  }
  check_draws("poisson_0.3", s.eval(random_poisson(filled(0.3))));
  check_draws("poisson_9.5", s.eval(random_poisson(filled(9.5))));
  check_draws("poisson_10.5", s.eval(random_poisson(cast<float>(filled(10.5)))));
  check_draws("poisson_400", s.eval(random_poisson(filled(400))));
  check_draws("exponential", eval(s.eval(random_exponential(filled(2.5))) * 2.5));
  check_draws("truncated_normal", s.eval(random_truncated_normal<double, many>(g)));
  const auto narrow = s.eval(random_truncated_normal<float, many>(g, 3, 0.5));
  check_draws("truncated_normal", eval((narrow - 3) * 2));
  for (const float x : narrow) BOOST_CHECK(x >= 2 && x <= 4);
  const auto ones = s.eval(random_bernoulli(filled(0.3)));
  check_counts("bernoulli", frequencies(eval(cast<std::int32_t>(ones)), 2), {0.7, 0.3});
}

BOOST_AUTO_TEST_CASE(parameters_at_the_edge) {
  graph g;
  session s{g};
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const auto x = constant(g, tensor<double, dims<5>>{0, -1, inf, nan, 1e6});
  const auto gamma = s.eval(random_gamma(x)), poisson = s.eval(random_poisson(x));
  for (const int i : {0, 1, 2, 3}) BOOST_CHECK(std::isnan(gamma(i)) && (i == 0 || std::isnan(poisson(i))));
  BOOST_CHECK_EQUAL(poisson(0), 0);
  BOOST_CHECK_SMALL(gamma(4) - 1e6, 5e3);
  BOOST_CHECK_SMALL(poisson(4) - 1e6, 5e3);
  const auto ones = s.eval(random_bernoulli(constant(g, tensor<float, dims<2>>{0, 1})));
  BOOST_CHECK(ones(0) == 0 && ones(1) == 1);
  const auto e = random_exponential(x);
  BOOST_CHECK_EQUAL(s.eval(random_gamma(fill<float, dims<0>>(g, 1))).elements(), 0u);
  CHECK_SAYS(
      test::failure(error_code::unimplemented, [&] { static_cast<void>(gradients(sum(random_gamma(x) + e), x)); }),
      "has no gradient by its parameter");
}

BOOST_AUTO_TEST_CASE(numbers_depend_on_seed_step_and_element_only) {
  const auto draw = [](session_options o) {
    graph g(5);
    const auto x = random_uniform<float, dims<3000, 4>>(g, 0.5, 20);
    const auto all = fetch(random_gamma(x), random_poisson(x), random_exponential(x), random_bernoulli(x / 20),
                           gumbel_softmax(x), sample_without_replacement<2>(x), categorical<3>(x),
                           sample_logits(x, {.top_p = 0.9}), alpha_dropout(x, 0.2));
    session_on_cpu s{g, o};
    std::vector<std::vector<double>> found;
    for (int step = 0; step < 2; ++step)
      std::apply(
          [&](const auto&... t) {
            (found.push_back([&] {
              std::vector<double> v;
              for (const auto e : t) v.push_back(static_cast<double>(e));
              return v;
            }()),
             ...);
          },
          s.run(all));
    return found;
  };
  const auto one = draw({.threads = 1});
  BOOST_CHECK(one == draw({.threads = 2}));
  BOOST_CHECK(one == draw({.threads = 5}));
  for (std::size_t i = 0; i < 9; ++i) BOOST_CHECK(one[i] != one[i + 9]);
  graph g;
  session s{g};
  const auto x = fill<float, dims<100>>(g, 3);
  BOOST_CHECK(random_gamma(x, {.seed = 1}).id() == random_gamma(x, {.seed = 1}).id());
  BOOST_CHECK(list(s.eval(random_gamma(x))) != list(s.eval(random_gamma(x))));
}

BOOST_AUTO_TEST_CASE(draws_of_classes) {
  graph g(9);
  session s{g};
  const auto x = placeholder<float, dims<dyn<"batch">, 4>>(g, "x");
  const std::vector<double> p{0.4, 0.3, 0.2, 0.1};
  check_counts("categorical", frequencies(s.eval(categorical<50>(x), with(x, rows_of<800>(logits))), 4), p);
  const auto pairs = s.eval(sample_without_replacement<2>(x), with(x, rows_of(logits)));
  std::vector<double> found(16), expected;
  for (std::int64_t i = 0; i < n; ++i) ++found[static_cast<std::size_t>(pairs(i, 0) * 4 + pairs(i, 1))];
  for (int a = 0; a < 4; ++a)
    for (int b = 0; b < 4; ++b) {
      const auto i = static_cast<std::size_t>(a), k = static_cast<std::size_t>(b);
      expected.push_back(a == b ? 0 : p[i] * p[k] / (1 - p[i]));
      if (a == b) BOOST_CHECK_EQUAL(found[i * 4 + k], 0);
    }
  check_counts("sample_without_replacement", found, expected);
  check_counts("gumbel_softmax", frequencies(s.eval(argmax<1>(gumbel_softmax(x)), with(x, rows_of(logits))), 4), p);
}

/// Draws among the most probable of many classes.
template <int Classes>
void check_top_k_of(std::int64_t top_k) {
  constexpr int rows = 50, steps = 30, one = Classes / 3, other = Classes - 1;
  graph g(9);
  session s{g};
  const auto x = placeholder<float, dims<rows, Classes>>(g, "x");
  tensor<float, dims<rows, Classes>> in;
  for (std::size_t i = 0; i < in.elements(); ++i) {
    const auto c = static_cast<int>(i % Classes);
    in.data()[i] = c == one ? 3.0f : c == other ? 2.0f : 1 - 0.001f * static_cast<float>(c % 977);
  }
  const auto some = sample_logits(x, {.top_k = top_k}), two = sample_logits(x, {.top_k = top_k, .top_p = 1e-9});
  double found = 0, all = 0, sum = 0;
  std::vector<float> sorted(in.data(), in.data() + Classes);
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  for (std::int64_t k = 0; k < top_k; ++k) sum += std::exp(static_cast<double>(sorted[static_cast<std::size_t>(k)]));
  for (int i = 0; i < steps; ++i) {
    const auto [drawn, most] = s.run(fetch(some, two), with(x, in));
    for (const std::int32_t c : drawn) {
      BOOST_REQUIRE(in.data()[c] >= sorted[static_cast<std::size_t>(top_k - 1)]);
      found += c == one, ++all;
    }
    for (const std::int32_t c : most) BOOST_REQUIRE_EQUAL(c, one);
  }
  check_counts("one class", {found, all - found}, {std::exp(3.0) / sum, 1 - std::exp(3.0) / sum});
}

BOOST_AUTO_TEST_CASE(the_most_probable_of_many_classes) {
  check_top_k_of<100>(3);
  check_top_k_of<2000>(64);
  check_top_k_of<2000>(65);
  check_top_k_of<1025>(1024);
}

BOOST_AUTO_TEST_CASE(samples_for_language_models) {
  graph g(9);
  session s{g};
  const auto x = placeholder<float, dims<dyn<"batch">, 4>>(g, "x");
  const tensor<float, dims<4>> mixed{std::log(0.2f), std::log(0.4f), std::log(0.1f), std::log(0.3f)};
  const auto check = [&](const char* name, sampling_options o, const std::vector<double>& p) {
    const auto found = frequencies(s.eval(sample_logits(x, o), with(x, rows_of(mixed))), 4);
    for (std::size_t i = 0; i < 4; ++i)
      if (p[i] == 0) BOOST_CHECK_EQUAL(found[i], 0);
    check_counts(name, found, p);
  };
  check("all", {}, {0.2, 0.4, 0.1, 0.3});
  const double hot = std::sqrt(0.2) + std::sqrt(0.4) + std::sqrt(0.1) + std::sqrt(0.3);
  check("temperature", {.temperature = 2},
        {std::sqrt(0.2) / hot, std::sqrt(0.4) / hot, std::sqrt(0.1) / hot, std::sqrt(0.3) / hot});
  check("top_k", {.top_k = 2}, {0, 4.0 / 7, 0, 3.0 / 7});
  check("top_p", {.top_p = 0.75}, {0.2 / 0.9, 0.4 / 0.9, 0, 0.3 / 0.9});
  check("small top_p", {.top_p = 1e-9}, {0, 1, 0, 0});
  check("both", {.top_k = 3, .top_p = 0.7}, {0, 4.0 / 7, 0, 3.0 / 7});  // 0.4 and 0.3 of 0.9 reach 0.7
  check("greedy", {.temperature = 0}, {0, 1, 0, 0});
  const tensor<float, dims<1, 4>> ties{-2, 3, 3, 3};
  BOOST_CHECK_EQUAL(s.eval(sample_logits(x, {.temperature = 0}), with(x, ties))(0), 1);
  const float inf = std::numeric_limits<float>::infinity();
  const tensor<float, dims<3, 4>> odd{-inf, 5, -inf, -inf, 0, std::nanf(""), 0, 0, -inf, -inf, -inf, -inf};
  const auto drawn = s.eval(sample_logits(x, {.top_k = 3}), with(x, odd));
  BOOST_CHECK(drawn(0) == 1 && drawn(1) == -1 && drawn(2) == -1);
  const auto one = s.eval(sample_logits(constant(g, tensor<double, dims<3>>{0, 900, 0}), {.top_p = 0.5}));
  BOOST_CHECK_EQUAL(one, 1);
  const auto refused = [&](auto f, const char* words) {
    CHECK_SAYS(test::failure(error_code::invalid_argument, f), words);
  };
  refused([&] { static_cast<void>(sample_logits(x, {.temperature = -1})); },
          "the temperature must be positive; it is -1");
  refused([&] { static_cast<void>(sample_logits(x, {.top_p = 0})); }, "top_p");
  refused([&] { static_cast<void>(gumbel_softmax(x, {.temperature = 0})); },
          "the temperature must be positive; it is 0");
}

BOOST_AUTO_TEST_CASE(a_hard_sample_has_the_gradient_of_the_soft_one) {
  graph g;
  const auto x = variable<double, dims<5, 3>>(g, "x", init::normal{});
  const auto w = random_uniform<double, dims<5, 3>>(g, 1, 2, {.seed = 2});
  const auto soft = gumbel_softmax(x, {.temperature = 0.7}, {.seed = 1});
  const auto hard = gumbel_softmax(x, {.temperature = 0.7, .hard = true}, {.seed = 1});
  const auto [ds] = gradients(sum(soft * w), x);
  const auto [dh] = gradients(sum(hard * w), x);
  session s{g};
  const auto [y, one, a, b] = s.run(fetch(soft, hard, ds, dh));
  BOOST_CHECK(list(a) == list(b));
  for (int i = 0; i < 5; ++i) {
    double sum = 0, largest = 0;
    for (int k = 0; k < 3; ++k) sum += y(i, k), largest = std::max(largest, y(i, k));
    BOOST_CHECK_CLOSE(sum, 1.0, 1e-10);
    for (int k = 0; k < 3; ++k) BOOST_CHECK_EQUAL(one(i, k), y(i, k) == largest ? 1 : 0);
  }
}

BOOST_AUTO_TEST_CASE(crops_and_flips) {
  constexpr int batch = 600;
  graph g(2);
  const auto x = placeholder<float, dims<dyn<"batch">, 4, 5, 2>>(g, "x");
  tensor<float, dims<batch, 4, 5, 2>> images;
  for (std::size_t i = 0; i < images.elements(); ++i) images.data()[i] = static_cast<float>(i % 40);
  const auto crop = random_crop<2, 3>(x, {.seed = 3});
  const auto flip = random_flip<2>(x, 0.25);
  const auto [d] = gradients(sum(square(crop)), x);
  session s{g};
  const auto [crops, flips, gradient] = s.run(fetch(crop, flip, d), with(x, images));
  std::vector<double> corners(9);
  double flipped = 0;
  for (int i = 0; i < batch; ++i) {
    const auto corner = static_cast<int>(crops(i, 0, 0, 0)), row = corner / 10, column = corner % 10 / 2;
    ++corners[static_cast<std::size_t>(row * 3 + column)];
    for (int a = 0; a < 4; ++a)
      for (int b = 0; b < 5; ++b)
        for (int c = 0; c < 2; ++c) {
          const bool inside = a >= row && a < row + 2 && b >= column && b < column + 3;
          if (inside) BOOST_CHECK_EQUAL(crops(i, a - row, b - column, c), images(i, a, b, c));
          BOOST_CHECK_EQUAL(gradient(i, a, b, c), inside ? 2 * images(i, a, b, c) : 0);
          BOOST_CHECK_EQUAL(flips(i, a, b, c), images(i, a, flips(i, 0, 0, 0) > 0 ? 4 - b : b, c));
        }
    flipped += flips(i, 0, 0, 0) > 0;
  }
  check_counts("corners", corners, std::vector<double>(9, 1.0 / 9));
  check_counts("flips", {flipped, batch - flipped}, {0.25, 0.75});
}

BOOST_AUTO_TEST_CASE(variants_of_dropout) {
  graph g(2);
  const auto x = fill<float, dims<500, 3, 3, 8>>(g, 2);
  session s{g};
  const auto y = s.eval(spatial_dropout(x, 0.2));
  double zeros = 0;
  for (int i = 0; i < 500; ++i)
    for (int c = 0; c < 8; ++c) {
      zeros += y(i, 0, 0, c) == 0;
      for (int a = 0; a < 3; ++a)
        for (int b = 0; b < 3; ++b) BOOST_CHECK_EQUAL(y(i, a, b, c), y(i, 0, 0, c) == 0 ? 0 : 2.5f);
    }
  check_counts("spatial_dropout", {zeros, 4000 - zeros}, {0.2, 0.8});
  const auto z = s.eval(alpha_dropout(random_normal<double, many>(g), 0.3));
  double sum = 0, squares = 0;
  for (const double e : z) sum += e, squares += e * e;
  BOOST_CHECK_SMALL(sum / n, 0.02);
  BOOST_CHECK_SMALL(squares / n - 1, 0.03);
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { static_cast<void>(alpha_dropout(x, 1)); }),
             "the rate must");
}
