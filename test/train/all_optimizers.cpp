// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>
#include <weft/ops/index/gather.hpp>
#include <weft/train/all_optimizers.hpp>
#include <weft/train/decay.hpp>
#include <weft/weft.hpp>

#include "train/fed_gradients.hpp"

using namespace weft;
using test::distance, test::first_rows, test::gradient_of, test::opened, test::row_numbers, test::row_weights;

namespace {

// Tables as make_optimizer_values.py has them.
using table = dims<7, 3>;
using batch = dims<dyn<"batch">>;
using rows = dims<dyn<"batch">, 3>;
tensor<std::int32_t, batch> numbers_of(int step) {
  return row_numbers<batch>(step, 6, [=](int i) { return (i * i + step * 3) % 6; });
}

template <class T, class Optimizer>
double distance_of(std::istream& in, const Optimizer& optimizer, int steps = 50) {
  graph g;
  const auto w = variable(g, "w", tensor<T, dims<4>>{1, -0.5, 3, 0.25});
  const auto x = placeholder<T, dims<4>>(g, "x");
  const auto train = optimizer.minimize(sum(w * x));
  session s(g, {.threads = 1});
  auto step = s.prepare(fetch(train), feed(x));
  double most = 0;
  for (int t = 0; t < steps; ++t) {
    step(gradient_of<T>(t));
    most = std::max(most, distance(in, s.get(w).data(), 4));
  }
  return most;
}

template <class Optimizer>
double distance_by_rows(std::istream& in, const Optimizer& optimizer) {
  graph g;
  const auto w = variable<float, table>(g, "w");
  const auto n = placeholder<std::int32_t, batch>(g, "n");
  const auto x = placeholder<float, rows>(g, "x");
  const auto train = optimizer.minimize(sum(gather(w, n) * x));
  session s(g, {.threads = 2});
  s.set(w, first_rows());
  auto step = s.prepare(fetch(train), feed(n, x));
  double most = 0;
  for (int t = 0; t < 50; ++t) {
    const auto a = numbers_of(t);
    step(a, row_weights<rows>(t, a.elements()));
    if (t % 5 == 4) most = std::max(most, distance(in, s.get(w).data(), 21));
  }
  BOOST_TEST(step.explain().find("scatter_add") == std::string::npos);  // by rows, indeed
  return most;
}

template <class Optimizer>
void check(std::istream& in, const std::string& form, const std::string& name, const Optimizer& optimizer) {
  std::string type;
  if (form == "dense") in >> type;
  const double apart = form == "rows"     ? distance_by_rows(in, optimizer)
                       : type == "double" ? distance_of<double>(in, optimizer)
                                          : distance_of<float>(in, optimizer);
  BOOST_TEST_MESSAGE(form << " " << name << " " << type << ": " << apart);
  BOOST_CHECK_MESSAGE(apart <= (type == "double" ? 1e-13 : 4e-6), form << " " << name << " " << type << ": " << apart);
}

}  // namespace

BOOST_AUTO_TEST_CASE(optimizers_are_tensorflows_over_50_steps_dense_and_by_rows) {
  std::ifstream in = opened("tensorflow_optimizer_values.txt");
  std::string form, name;
  int cases = 0;
  for (; in >> form >> name; ++cases) {
    if (name == "rmsprop")
      check(in, form, name, rmsprop{0.0625, 0.75, 0.5, 0x1p-10});
    else if (name == "centered_rmsprop")
      check(in, form, name, centered_rmsprop{0.0625, 0.75, 0.5, 0x1p-10});
    else if (name == "adagrad")
      check(in, form, name, adagrad{0.25, 0.5});
    else if (name == "adadelta")
      check(in, form, name, adadelta{0.75, 0.875, 0x1p-10});
    else if (name == "nesterov_momentum")
      check(in, form, name, nesterov_momentum{0x1p-6, 0.75});
    else if (name == "ftrl")
      check(in, form, name, ftrl{.learning_rate = 0.25, .initial_accumulator_value = 0.5, .l1 = 0.125, .l2 = 0.25});
    else if (name == "ftrl_shrinkage")
      check(in, form, name, ftrl{0.25, 0.5, 0.125, 0.25, 0.0625});
    else if (name == "proximal_gradient_descent")
      check(in, form, name, proximal_gradient_descent{.learning_rate = 0.0625, .l1 = 0.125, .l2 = 0.25});
    else if (name == "proximal_adagrad")
      check(in, form, name, proximal_adagrad{0.25, 0.5, 0.125, 0.25});
    else
      BOOST_FAIL("an optimizer called " + name);
  }
  BOOST_TEST(cases == 9 * 3 - 2);
}

BOOST_AUTO_TEST_CASE(optimizers_are_pytorchs_over_50_steps) {
  std::ifstream in = opened("torch_optimizer_values.txt");
  std::string form, name;
  int cases = 0;
  for (; in >> form >> name; ++cases) {
    if (name == "adamw")
      check(in, form, name, adamw{0.0625, 0.75, 0.875, 1e-3, 0.125});
    else if (name == "amsgrad")
      check(in, form, name, amsgrad{0.0625, 0.75, 0.875, 1e-3});
    else if (name == "adamax")
      check(in, form, name, adamax{0.0625, 0.75, 0.875, 1e-3});
    else if (name == "nadam")
      check(in, form, name, nadam{0.0625, 0.75, 0.875, 1e-3});
    else
      BOOST_FAIL("an optimizer called " + name);
  }
  BOOST_TEST(cases == 4 * 2);
}

namespace {

template <class T>
void check_norms(double within) {
  std::ifstream in = opened("norm_values.txt");
  std::string name;
  BOOST_REQUIRE((in >> name && name == "lars"));
  BOOST_CHECK_LE(distance_of<T>(in, lars{0.5, 0.75, 0.125, 0.25}), within);
  BOOST_REQUIRE((in >> name && name == "lamb"));
  BOOST_CHECK_LE(distance_of<T>(in, lamb{0.125, 0.75, 0.875, 1e-3, 0.125}), within);
}

template <class T, class Optimizer>
T first_step_of_zero(const Optimizer& optimizer) {
  graph g;
  const auto w = variable<T, dims<2>>(g, "w", init::zeros{});
  const auto train = optimizer.minimize(sum(w) * T(2));
  session s(g);
  s.run(fetch(train));
  return s.get(w)(1);
}

}  // namespace

BOOST_AUTO_TEST_CASE(rates_in_proportion_to_norms) {
  check_norms<double>(1e-13);
  check_norms<float>(1e-5);
  // A variable that is 0 moves.
  BOOST_TEST(first_step_of_zero<double>(lars{.learning_rate = 0.5}) == -1);
  BOOST_CHECK_SMALL(first_step_of_zero<double>(lamb{.learning_rate = 0.5}) + 0.5, 1e-5);
}

// An element that l1 makes 0 is 0 exactly, and a gradient that is not a number is not made one.
BOOST_AUTO_TEST_CASE(the_pull_of_l1) {
  graph g;
  const auto w = variable(g, "w", tensor<float, dims<4>>{0.25, -0.25, 2, -2});
  const auto x = placeholder<float, dims<4>>(g, "x");
  const auto of_descent = proximal_gradient_descent{.learning_rate = 1, .l1 = 0.5}.minimize(sum(w * x));
  const auto of_adagrad = proximal_adagrad{1, 1, 0.5}.minimize(sum(w * x));
  const auto of_ftrl = ftrl{.learning_rate = 1, .l1 = 0.5}.minimize(sum(w * x));
  for (const auto& train : {of_descent, of_adagrad, of_ftrl}) {
    session s(g);
    s.run(fetch(train), with(x, tensor<float, dims<4>>{0, 0, 0, std::nanf("")}));
    const auto values = s.get(w);
    BOOST_TEST(values(0) == 0);
    BOOST_TEST(values(1) == 0);
    BOOST_TEST(std::isnan(values(3)));
  }
}

// The limits of PyTorch 2 ("Invalid learning rate", "Invalid beta parameter at index 0", ...) and, for what it does not
// check, of Keras 3 (momentum) and TensorFlow 1 (Ftrl).
BOOST_AUTO_TEST_CASE(hyperparameters_beyond_their_limits_are_refused) {
  const double nan = std::nan(""), infinity = HUGE_VAL;
  const auto refused = [](const auto& optimizer, const char* why) {
    graph g;
    const auto w = variable<float, dims<2>>(g, "w", init::ones{});
    const auto loss = let(sum(w * w));
    for (const bool whole : {true, false}) try {
        static_cast<void>(whole ? optimizer.minimize(loss) : optimizer.apply_gradients(compute_gradients(loss)));
        BOOST_ERROR(str_cat({"accepted; expected: ", why}));
      } catch (const error& e) {
        BOOST_TEST(int(e.code()) == int(error_code::invalid_argument));
        BOOST_CHECK_MESSAGE(std::string(e.what()).find(why) != std::string::npos, e.what());
      }
    BOOST_TEST(g.size() < 20u);
  };
  const char* const rate = "learning_rate must be a finite number of at least 0; it is ";
  refused(gradient_descent{-0.1}, "gradient_descent: learning_rate must be a finite number of at least 0; it is -0.1");
  refused(gradient_descent{nan}, rate);
  refused(gradient_descent{infinity}, rate);
  refused(adam{.learning_rate = nan}, rate);
  refused(adam{.beta1 = 1.5}, "adam: beta1 must be at least 0 and less than 1; it is 1.5");
  refused(adam{.beta2 = 1}, "adam: beta2 must be at least 0 and less than 1; it is 1");
  refused(adam{.epsilon = -1e-8}, "adam: epsilon must be a finite number of at least 0; it is -1e-08");
  refused(momentum{.momentum = 1.5}, "momentum: momentum must be from 0 to 1; it is 1.5");
  refused(nesterov_momentum{.momentum = -0.5}, "momentum must be from 0 to 1");
  refused(adadelta{.rho = 1.1}, "adadelta: rho must be from 0 to 1");
  refused(adagrad{.initial_accumulator_value = -1}, "initial_accumulator_value must be");
  refused(adamax{.beta2 = -0.1}, "adamax: beta2 must be");
  refused(adamw{.weight_decay = -1}, "adamw: weight_decay must be");
  refused(amsgrad{.beta1 = nan}, "amsgrad: beta1 must be");
  refused(ftrl{.l2_shrinkage = -1}, "ftrl: l2_shrinkage must be");
  refused(lamb{.beta1 = 1}, "lamb: beta1 must be");
  refused(lars{.trust = -1}, "lars: trust must be");
  refused(nadam{.momentum_decay = 2}, "nadam: momentum_decay must be");
  refused(proximal_adagrad{.l1 = -1}, "proximal_adagrad: l1 must be");
  refused(proximal_gradient_descent{.l2 = -1}, "proximal_gradient_descent: l2 must be");
  refused(rmsprop{.decay = 1.5}, "rmsprop: decay must be");
  refused(centered_rmsprop{.momentum = 2}, "centered_rmsprop: momentum must be");
  refused(decoupled_weight_decay{momentum{.momentum = 2}, 0.1}, "momentum must be from 0 to 1");
  refused(decoupled_weight_decay{momentum{}, -0.1}, "weight_decay must be a finite number of at least 0; it is -0.1");

  graph g;  // the ends of the ranges are accepted, and a value of the graph is not checked
  const auto w = variable<float, dims<2>>(g, "w", init::ones{});
  const auto loss = let(sum(w * w));
  static_cast<void>(adam{.learning_rate = 0, .beta1 = 0, .beta2 = 0, .epsilon = 0}.minimize(loss));
  static_cast<void>(momentum{.momentum = 1}.minimize(loss));
  static_cast<void>(gradient_descent{.learning_rate = let(sum(w) * -1.f)}.minimize(loss));
}
