// SPDX-License-Identifier: BSL-1.0
#include <limits>
#include <weft/ops/losses/losses.hpp>

#include "errors.hpp"
#include "gradient_check.hpp"
#include "ops/values_of.hpp"
#include "session_on_cpu.hpp"

using namespace weft;

// The losses of ops/losses, against PyTorch (make_torch_losses_values.py).

namespace {

using known = dims<4, 5>;
using named = dims<dyn<"n">, 5>;

const values_of& right() {
  static const values_of all(TEST_DATA "/ops/torch_losses_values.txt");
  return all;
}
template <class D = known>
tensor<double, D> values(const char* name) {
  return right().tensor<double, D>(name);
}
const auto classes = [] { return right().tensor<std::int64_t, dims<4>>("classes"); };
const auto valid = [] { return right().tensor<std::int32_t, dims<4>>("valid"); };

template <class T, class Y>
void check_gradients(const std::string& name, session& s, const Y& y, const T& gradients) {
  right().check(name, s.eval(y));
  std::size_t i = 0;
  std::apply([&](const auto&... d) { (right().check(name + ".d" + std::to_string(i++), s.eval(d)), ...); }, gradients);
}

/// Over tensors, and in a graph with gradients. The operands are variables.
template <class F, class... D>
void check(const std::string& name, F f, const tensor<double, D>&... operands) {
  right().check(name, f(operands...));
  graph g;
  std::size_t i = 0;
  const auto in_graph = [&](const auto&... x) {
    const auto y = let(f(x...));
    session s{g, {.threads = 1}};
    check_gradients(name, s, y, gradients(sum(square(y + 1)), x...));
  };
  const auto next = [&] { return "x" + std::to_string(i++); };
  in_graph(variable<double, D>(g, next(), operands)...);
}

}  // namespace

BOOST_AUTO_TEST_CASE(cross_entropies_with_weights_and_ignored_labels) {
  const auto x = values("x"), soft = values("soft"), p = values("p");
  const auto w = values<dims<5>>("w");
  for (const double smoothing : {0.0, 0.2}) {
    const std::string end = smoothing == 0 ? "_0.0" : "_0.2";
    const cross_entropy_options o{.label_smoothing = smoothing, .ignore_index = -1, .class_weights = w};
    check("weighted" + end, [&](const auto& u) { return softmax_cross_entropy(u, classes(), o); }, x);
    check("weighted_mean" + end, [&](const auto& u) { return mean_softmax_cross_entropy(u, classes(), o); }, x);
    check(
        "weighted_soft" + end,
        [&](const auto& u, const auto& v) {
          return softmax_cross_entropy(u, v, {.label_smoothing = smoothing, .class_weights = w});
        },
        x, soft);
  }
  check(
      "ignored_mean", [](const auto& u) { return mean_softmax_cross_entropy(u, classes(), {.ignore_index = -1}); }, x);
  check("soft_mean", [](const auto& u, const auto& v) { return mean_softmax_cross_entropy(u, v); }, x, soft);
  check(
      "nll",
      [](const auto& u) { return nll_loss(u, classes(), {.ignore_index = -1, .class_weights = {1, 2, 0.5, 0, 3}}); },
      x);
  check("categorical", [](const auto& u, const auto& v) { return categorical_cross_entropy(u, v); }, p, soft);
  check("categorical_classes", [](const auto& u) { return categorical_cross_entropy(u, valid()); }, p);
}

BOOST_AUTO_TEST_CASE(classification) {
  const auto x = values("x"), p = values("p"), z = values("z"), soft = values("soft");
  const auto w = values<dims<5>>("w");
  check("positive_weight", [&](const auto& u, const auto& v) { return sigmoid_cross_entropy(u, v, w); }, x, z);
  check("binary", [](const auto& u, const auto& v) { return binary_cross_entropy(u, v); }, p, soft);
  check("multilabel", [&](const auto& u) { return multilabel_soft_margin_loss(u, z); }, x);
  for (const int q : {1, 2})
    check(
        "multi_margin_" + std::to_string(q),
        [&](const auto& u) { return multi_margin_loss(u, valid(), {.margin = 1.5, .p = q, .class_weights = w}); }, x);
  check("focal", [&](const auto& u) { return focal_loss(u, z); }, x);
  check("focal_bare", [&](const auto& u) { return focal_loss(u, z, {.alpha = -1, .gamma = 1.5}); }, x);
  right().check("positive_weight", eval(focal_loss(x, z, {.alpha = -1, .gamma = 0}) * (1 + (w - 1) * z)));
  check("dice", [](const auto& u, const auto& v) { return dice_loss<1>(u, v); }, p, z);
}

BOOST_AUTO_TEST_CASE(regression) {
  const auto x = values("x"), t = values("t"), p = values("p"), soft = values("soft"), counts = values("counts");
  const auto variance = values("variance");
  check("mse", [](const auto& u, const auto& v) { return mse_loss(u, v); }, x, t);
  check("l1", [](const auto& u, const auto& v) { return l1_loss(u, v); }, x, t);
  check("smooth_l1", [](const auto& u, const auto& v) { return smooth_l1_loss(u, v, 0.7); }, x, t);
  check("smooth_l1_0", [](const auto& u, const auto& v) { return smooth_l1_loss(u, v, 0); }, x, t);
  check("log_cosh", [](const auto& u, const auto& v) { return log_cosh_loss(u, v); }, x, t);
  check("kl_div", [&](const auto& u) { return kl_div(u, soft); }, x);
  check("kl_div_log", [](const auto& u, const auto& v) { return kl_div(u, v, {.log_targets = true}); }, x, t);
  check("poisson", [&](const auto& u) { return poisson_nll_loss(u, counts); }, x);
  check("poisson_full", [&](const auto& u) { return poisson_nll_loss(u, counts, {.full = true}); }, x);
  check(
      "poisson_rate", [&](const auto& u) { return poisson_nll_loss(u, counts, {.log_input = false, .full = true}); },
      p);
  for (const bool full : {false, true})
    check(
        full ? "gaussian_full" : "gaussian",
        [&](const auto& u, const auto& v, const auto& s) {
          return gaussian_nll_loss(u, v, s, {.full = full, .epsilon = 0.5});
        },
        x, t, variance);
}

BOOST_AUTO_TEST_CASE(metric_learning) {
  const auto x = values("x"), t = values("t"), p = values("p"), a = values("a");
  const auto sign = values("sign");
  const tensor<double, dims<4>> labels = eval(reshape<dims<4>>(slice<1, 0, 1>(sign)));
  check("cosine", [](const auto& u, const auto& v) { return cosine_similarity(u, v); }, a, t);
  check("cosine_0", [](const auto& u, const auto& v) { return cosine_similarity<0>(u, v); }, a, t);
  check(
      "cosine_embedding", [&](const auto& u, const auto& v) { return cosine_embedding_loss(u, v, labels, 0.1); }, x, t);
  const auto points = values<dims<3, 5>>("points");
  for (const double q : {1.0, 1.5, 2.0, 3.0, std::numeric_limits<double>::infinity()}) {
    const std::string end = q == 1.5 ? "_1.5" : q < 4 ? "_" + std::to_string(static_cast<int>(q)) : "_inf";
    check("pairwise" + end, [&](const auto& u, const auto& v) { return pairwise_distance(u, v, {.p = q}); }, a, t);
    for (const bool exact : {false, true})
      if (q < 4) check("cdist" + end, [&](const auto& u, const auto& v) { return cdist(u, v, {q, exact}); }, t, points);
  }
  check("triplet", [](const auto&... u) { return triplet_margin_loss(u..., {.margin = 2.5}); }, x, t, p);
  check(
      "triplet_swap", [](const auto&... u) { return triplet_margin_loss(u..., {.margin = 2.5, .p = 1, .swap = true}); },
      x, t, p);
  check("ranking", [&](const auto& u, const auto& v) { return margin_ranking_loss(u, v, sign, 0.3); }, x, t);
  check("hinge_embedding", [&](const auto& u) { return hinge_embedding_loss(u, sign, 1.2); }, x);
  check("info_nce", [](const auto& u, const auto& v) { return info_nce_loss(u, v, 0.2); }, x, p);
  const tensor<double, dims<2>> d{0.5, 3};
  BOOST_CHECK((contrastive_loss(d, tensor<double, dims<2>>{1, 0}, 2) == tensor<double, dims<2>>{0.25, 0}));
  BOOST_CHECK((contrastive_loss(d, tensor<double, dims<2>>{0, 1}, 2) == tensor<double, dims<2>>{2.25, 9}));
}

BOOST_AUTO_TEST_CASE(points_that_are_equal_have_distance_0_and_gradient_0) {
  using many = dims<7, 64>;
  tensor<float, many> x;
  const random_stream random(3, 4);
  for (std::size_t i = 0; i < x.elements(); ++i) x.data()[i] = 100 + static_cast<float>(random.normal(i));
  graph g;
  const auto a = placeholder<float, dims<dyn<"n">, 64>>(g, "a");
  const auto b = placeholder<float, dims<dyn<"m">, 64>>(g, "b");
  const auto d = cdist(a, b);
  const auto [da] = gradients(sum(select(d == 0, d, 0)), a);
  session s{g, {.threads = 1}};
  const auto [found, of_a] = s.run(fetch(d, da), with(a, x), with(b, x));
  for (std::int64_t i = 0; i < 7; ++i) BOOST_CHECK_EQUAL(found(i, i), 0);
  for (const float e : of_a) BOOST_CHECK_EQUAL(e, 0);
  const auto exact = cdist(x, x, {.exact = true});
  for (std::int64_t i = 0; i < 7; ++i)
    for (std::int64_t k = 0; k < 7; ++k) BOOST_CHECK_SMALL(exact(i, k) - found(i, k), 0.05f);
}

BOOST_AUTO_TEST_CASE(cross_entropies_of_tensors) {
  const tensor<float, dims<2, 3>> x{1, 2, 3, 0, 0, 0};
  graph g;
  session_on_cpu s{g};
  const tensor<std::int32_t, dims<2>> y{2, 0};
  const auto node = constant(g, x);
  BOOST_CHECK(bool(softmax_cross_entropy(x, y) == s.eval(softmax_cross_entropy(node, y))));
  BOOST_CHECK(bool(softmax_cross_entropy(x, softmax(x)) == s.eval(softmax_cross_entropy(node, softmax(x)))));
  BOOST_CHECK_CLOSE(softmax_cross_entropy(tensor<double, dims<4>>{0, 0, 0, 0}, tensor<std::int64_t>(3))(),
                    std::log(4.0), 1e-10);
  BOOST_CHECK_EQUAL(softmax_cross_entropy(tensor<float, dims<0, 3>>{}, tensor<int, dims<0>>{}).elements(), 0u);
  CHECK_SAYS(test::failure(error_code::out_of_range,
                           [&] { static_cast<void>(softmax_cross_entropy(x, tensor<int, dims<2>>{2, 3})); }),
             "label 3 of row 1");
  // All rows ignored.
  BOOST_CHECK(std::isnan(mean_softmax_cross_entropy(x, y - y - 1, {.ignore_index = -1})()));
}

BOOST_AUTO_TEST_CASE(losses_that_are_refused) {
  const tensor<float, dims<2, 3>> x{};
  const tensor<std::int32_t, dims<2>> y{};
  const auto refused = [](auto f, const char* words) {
    CHECK_SAYS(test::failure(error_code::invalid_argument, f), words);
  };
  refused([&] { static_cast<void>(nll_loss(x, y, {.class_weights = {1, 2}})); }, "2 class weights for 3 classes");
  refused([&] { static_cast<void>(softmax_cross_entropy(x, x, {.ignore_index = 0})); },
          "ignore_index requires classes");
  refused([&] { static_cast<void>(nll_loss(x, y, {.label_smoothing = 2})); }, "label smoothing");
  refused([&] { static_cast<void>(multi_margin_loss(x, y, {.p = 3})); }, "p must be 1 or 2; it is 3");
  refused([&] { static_cast<void>(cdist(x, x, {.p = -1})); }, "must be positive; it is -1");
  graph g;
  const auto p = placeholder<float, dims<dyn<"n">, dyn<"classes">>>(g, "p");
  const auto l = placeholder<std::int32_t, dims<dyn<"n">>>(g, "l");
  session s{g};
  const auto loss = softmax_cross_entropy(p, l, {.ignore_index = -1, .class_weights = {1, 2}});
  static_cast<void>(s.eval(loss, with(p, tensor<float, dims<2, 2>>{}), with(l, y)));
  refused([&] { static_cast<void>(s.eval(loss, with(p, x), with(l, y))); }, "classes");
}

BOOST_AUTO_TEST_CASE(gradients_of_higher_order) {
  gradient_check check;
  const auto x = check.input<named>(-2, 2, shape(3, 5));
  const auto z = check.input<named>(0.1, 0.9, shape(3, 5));
  const auto y = check.fixed(tensor<std::int64_t, dims<dyn<"n">>>(shape(3), {1, -1, 4}));
  check("softmax_cross_entropy", softmax_cross_entropy(x, y, {0.2, -1, {1, 2, 3, 4, 5}}));
  check("sigmoid_cross_entropy", sigmoid_cross_entropy(x, z, 3));
  check("focal", focal_loss(x, z, {.gamma = 1.5}));
  check("dice", dice_loss(z, sigmoid(x)));
  check("log_cosh", log_cosh_loss(x * x, z));
  check("gaussian", gaussian_nll_loss(x, z, z));
  check("kl_div", kl_div(x, z));
  check("cosine", cosine_similarity(x, z));
  check("cdist", cdist(x, z));
  check("cdist_3", cdist(x, z, {.p = 3}));
  check("info_nce", info_nce_loss(x, z, 0.5));
}
