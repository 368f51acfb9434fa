// SPDX-License-Identifier: BSL-1.0
#include <weft/ops/losses/losses.hpp>

#include "errors.hpp"
#include "gradient_check.hpp"
#include "ops/values_of.hpp"

using namespace weft;

// The losses of ops/losses/losses.hpp, against TensorFlow (make_losses_values.py).

namespace {

using known = dims<4, 5>;
using named = dims<dyn<"n">, 5>;

const values_of& right() {
  static const values_of all(TEST_DATA "/ops/losses_values.txt");
  return all;
}

/// In a graph, with gradients; `at_once` is whether it computes with tensors too.
template <bool AtOnce = true, class F>
void check(const std::string& name, const char* operand, const char* labels, F f) {
  const auto x = right().tensor<double, known>(operand);
  const auto z = right().tensor<double, known>(labels);
  if constexpr (AtOnce) {
    right().check(name, f(x, z));
    right().check(name, f(cast<float>(x), cast<float>(z)), 1e-6);
  }
  graph g;
  const auto p = placeholder<double, named>(g, "p"), l = placeholder<double, named>(g, "l");
  const auto y = let(f(p, l));
  const auto [dp, dl] = gradients(sum(square(y + 1)), p, l);
  session s{g, {.threads = 1}};
  const auto [found, of_p, of_l] = s.run(fetch(y, dp, dl), with(p, x), with(l, z));
  right().check(name, found);
  right().check(name + ".gradient", of_p);
  if (name != "l2" && name != "hinge") right().check(name + ".gradient_labels", of_l);
}

}  // namespace

BOOST_AUTO_TEST_CASE(elementwise_losses) {
  check("sigmoid", "x", "probabilities", [](const auto& x, const auto& z) { return sigmoid_cross_entropy(x, z); });
  check("huber_0.5", "logits", "probabilities", [](const auto& x, const auto& z) { return huber_loss(x, z, 0.5); });
  check("huber_1.0", "logits", "probabilities", [](const auto& x, const auto& z) { return huber_loss(x, z); });
  check("huber_2.0", "logits", "probabilities", [](const auto& x, const auto& z) { return huber_loss(x, z, 2); });
  check("hinge", "logits", "binary", [](const auto& x, const auto& z) { return hinge_loss(x, z); });
  check("l2", "logits", "logits", [](const auto& x, const auto& z) { return l2_loss(x) + 0 * sum(z); });
  const tensor<float, dims<3>> x{0, 20, -20};
  const auto of_ones = eval(sigmoid_cross_entropy(x, 1));
  BOOST_CHECK_CLOSE(of_ones(1), 2.0611536e-09f, 1e-4);  // log1p(exp(-20)): softplus(20) - 20 is 0
  BOOST_CHECK_CLOSE(of_ones(2), 20.f, 1e-4);
}

BOOST_AUTO_TEST_CASE(smoothed_labels) {
  for (const double smoothing : {0.0, 0.1, 1.0}) {
    const std::string end = smoothing == 0 ? "0.0" : smoothing == 1 ? "1.0" : "0.1";
    check<false>("smoothed_" + end, "logits", "distributions", [&](const auto& x, const auto& z) {
      return softmax_cross_entropy(x, z, {.label_smoothing = smoothing});
    });
    graph g;
    const auto p = placeholder<double, named>(g, "p");
    const auto l = placeholder<std::int32_t, dims<dyn<"n">>>(g, "l");
    const auto y = softmax_cross_entropy(p, l, {.label_smoothing = smoothing});
    const auto [d] = gradients(sum(square(y + 1)), p);
    session s{g, {.threads = 1}};
    const auto x = right().tensor<double, known>("logits");
    const auto z = right().tensor<std::int32_t, dims<4>>("classes");
    right().check("smoothed_classes_" + end, s.eval(y, with(p, x), with(l, z)));
    right().check("smoothed_classes_" + end + ".gradient", s.eval(d, with(p, x), with(l, z)));
  }
  graph g;
  const auto p = placeholder<float, dims<2, 3>>(g, "p");
  for (const double smoothing : {-0.1, 1.5, std::nan("")})
    BOOST_CHECK(test::contains(test::failure(error_code::invalid_argument,
                                             [&] {
                                               static_cast<void>(
                                                   softmax_cross_entropy(p, tensor<std::int32_t, dims<2>>{0, 1},
                                                                         {.label_smoothing = smoothing}));
                                             }),
                               "label smoothing"));
}

BOOST_AUTO_TEST_CASE(labels_among_the_largest) {
  const auto x = right().tensor<float, dims<11, 4>>("predictions");
  const auto z = right().tensor<std::int64_t, dims<11>>("targets");
  graph g;
  const auto p = placeholder<float, dims<dyn<"n">, dyn<"classes">>>(g, "p");
  const auto l = placeholder<std::int32_t, dims<dyn<"n">>>(g, "l");
  session s{g, {.threads = 1}};
  for (const int k : {0, 1, 2, 3, 4, 9}) {
    const std::string name = "in_top_" + std::to_string(k);
    right().check(name, in_top_k(x, z, k));
    right().check(name, s.eval(in_top_k(p, l, k), with(p, x), with(l, eval(cast<std::int32_t>(z)))));
  }
  BOOST_CHECK(in_top_k(tensor<double, dims<3>>{1, 2, 3}, tensor<std::int32_t>(1), 2)());
}

BOOST_AUTO_TEST_CASE(gradients_of_higher_order) {
  gradient_check check;
  const auto x = check.input<dims<2, 3>>();
  const auto z = check.input<dims<2, 3>>(0.1, 0.9);
  check("sigmoid_cross_entropy", sigmoid_cross_entropy(x, z), 3);
  check("huber_loss", huber_loss(x * x, z, 0.8));
  check("hinge_loss", hinge_loss(x * x, z));
  check("smoothed", softmax_cross_entropy(x, softmax(z), {.label_smoothing = 0.2}), 3);
}
