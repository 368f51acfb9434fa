// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>
#include <weft/ops/index/gather.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"
#include "session_on_cpu.hpp"
#include "train/fed_gradients.hpp"

using namespace weft;
using test::gradient_of;

namespace {

/// The values of a variable after each step of a gradient that is fed.
template <class T, class Optimizer, class... Rate>
std::vector<tensor<T, dims<4>>> train(const Optimizer& optimizer, int steps = 50) {
  graph g;
  const auto w = variable(g, "w", tensor<T, dims<4>>{1, -0.5, 3, 0.25});
  const auto x = placeholder<T, dims<4>>(g, "x");
  const auto train = minimize(optimizer, sum(w * x));
  session s(g, {.threads = 1});
  auto step = s.prepare(fetch(train), feed(x));
  std::vector<tensor<T, dims<4>>> values;
  for (int t = 0; t < steps; ++t) {
    step(gradient_of<T>(t));
    values.push_back(s.get(w));
  }
  return values;
}

template <class T>
bool same_bits(const T& a, const T& b) {
  return a.extents() == b.extents() && std::memcmp(a.data(), b.data(), sizeof(*a.data()) * a.extents().elements()) == 0;
}

template <class T>
double ulps(T a, T b) {
  return std::abs(static_cast<double>(a) - static_cast<double>(b)) /
         (std::nextafter(std::abs(static_cast<double>(b)), 1e300) - std::abs(static_cast<double>(b))) /
         (sizeof(T) == 4 ? 0x1p29 : 1);
}

/// How far Weft's Adam is from TensorFlow's, at most, in units in the last place of the larger of 2^-2 and the value.
template <class T>
double distance(std::istream& in, const adam& optimizer) {
  double most = 0;
  for (const auto& values : train<T>(optimizer))
    for (int i = 0; i < 4; ++i) {
      std::string word;
      BOOST_REQUIRE((in >> word));
      const T expected = static_cast<T>(std::strtod(word.c_str(), nullptr));
      most = std::max(most, std::abs(expected) < T(0.25) ? static_cast<double>(std::abs(values(i) - expected)) /
                                                               (sizeof(T) == 4 ? 0x1p-26 : 0x1p-55)
                                                         : ulps(values(i), expected));
    }
  return most;
}

}  // namespace

BOOST_AUTO_TEST_CASE(adam_is_tensorflows_over_50_steps) {
  std::ifstream in(TEST_DATA "/train/adam_values.txt");
  BOOST_REQUIRE_MESSAGE(in, TEST_DATA "/train/adam_values.txt" << " cannot be read");
  std::string word;
  std::getline(in, word);
  int cases = 0;
  while (in >> word) {
    BOOST_REQUIRE_EQUAL(word, "adam");
    std::string type;
    double o[4];
    in >> type >> o[0] >> o[1] >> o[2] >> o[3];
    const adam optimizer{.learning_rate = o[0], .beta1 = o[1], .beta2 = o[2], .epsilon = o[3]};
    const double most = type == "float" ? distance<float>(in, optimizer) : distance<double>(in, optimizer);
    BOOST_TEST_MESSAGE(type << " " << o[0] << ": " << most << " ulp");
    BOOST_CHECK_MESSAGE(most <= 4, type << " " << o[0] << ": " << most << " ulp");
    ++cases;
  }
  BOOST_TEST(cases == 4);
}

namespace {

/// A large variable, so that several threads share it, and what plain arithmetic makes of it.
template <class T>
void check_large() {
  constexpr int n = 150'001;
  using vector = tensor<T, dims<n>>;
  vector start, x;
  for (int i = 0; i < n; ++i) start(i) = static_cast<T>(i % 1013) / 512 - 1, x(i) = static_cast<T>(i % 997) / 256 - 2;
  const adam o{.learning_rate = 0.01};
  std::vector<vector> results;
  for (const int threads : {1, 2}) {
    graph g;
    const auto w = variable<T, dims<n>>(g, "w", init::zeros{});
    const auto gradient = placeholder<T, dims<n>>(g, "gradient");
    const auto train = o.minimize(sum(w * gradient));
    session s(g, {.threads = threads});
    s.set(w, start);
    auto step = s.prepare(fetch(train), feed(gradient));
    for (int t = 0; t < 3; ++t) step(x);
    results.push_back(s.get(w));
  }
  BOOST_TEST(same_bits(results[0], results[1]));
  int wrong = 0;
  for (int i = 0; i < n; ++i) {
    volatile T w = start(i), m = 0, v = 0, power1 = 1, power2 = 1;
    for (int t = 0; t < 3; ++t) {
      power1 = power1 * static_cast<T>(0.9);
      power2 = power2 * static_cast<T>(0.999);
      volatile T rate = std::sqrt(T(1) - power2);
      rate = static_cast<T>(0.01) * rate;
      rate = rate / (T(1) - power1);
      volatile T d = (x(i) - m) * (T(1) - static_cast<T>(0.9));
      m = m + d;
      d = x(i) * x(i);
      d = (d - v) * (T(1) - static_cast<T>(0.999));
      v = v + d;
      volatile T up = m * rate, down = std::sqrt(v) + static_cast<T>(1e-8);
      up = up / down;
      w = w - up;
    }
    wrong += !(w == results[0](i));
  }
  BOOST_TEST(wrong == 0);
}

}  // namespace

BOOST_AUTO_TEST_CASE(adam_has_the_same_bits_with_any_number_of_threads) {
  check_large<float>();
  check_large<double>();
}

// Nothing is stored between the gradient and the update, and all of the update is one kernel.
BOOST_AUTO_TEST_CASE(adam_is_one_pass) {
  graph g;
  const auto w = variable<float, dims<1000>>(g, "w", init::ones{});
  const auto train = adam{}.minimize(sum(square(w)));
  session s(g);
  auto step = s.prepare(fetch(train));
  step();
  const std::string plan = step.explain();
  std::size_t kernels = 0;
  for (std::size_t at = 0; (at = plan.find("adam float", at)) != std::string::npos; ++at) ++kernels;
  BOOST_CHECK_MESSAGE(kernels == 1, plan);
}

namespace {

template <class Result>
void check_computed(const Result& plain, const Result& computed) {
  BOOST_REQUIRE(plain.size() == computed.size());
  for (std::size_t t = 0; t < plain.size(); ++t) BOOST_CHECK_MESSAGE(same_bits(plain[t], computed[t]), "step " << t);
}

/// The same, with a learning rate that is fed.
template <class Make>
std::vector<tensor<float, dims<4>>> train_fed(const Make& make, const std::vector<double>& rates) {
  graph g;
  const auto w = variable(g, "w", tensor<float, dims<4>>{1, -0.5, 3, 0.25});
  const auto x = placeholder<float, dims<4>>(g, "x");
  const auto rate = placeholder<double>(g, "rate");
  const auto train = make(hyperparameter(rate)).minimize(sum(w * x));
  session s(g, {.threads = 1});
  auto step = s.prepare(fetch(train), feed(x, rate));
  std::vector<tensor<float, dims<4>>> values;
  for (std::size_t t = 0; t < rates.size(); ++t) {
    step(gradient_of<float>(static_cast<int>(t)), rates[t]);
    values.push_back(s.get(w));
  }
  return values;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_hyperparameter_may_be_a_value_of_the_graph) {
  const std::vector<double> rates(10, 0.1);
  check_computed(train<float>(gradient_descent{.learning_rate = 0.1}, 10),
                 train_fed([](hyperparameter rate) { return gradient_descent{.learning_rate = rate}; }, rates));
  check_computed(train<float>(momentum{.learning_rate = 0.3, .momentum = 0.1}, 10),
                 train_fed([](hyperparameter mu) { return momentum{.learning_rate = 0.3, .momentum = mu}; }, rates));
  check_computed(train<float>(adam{.learning_rate = 0.01, .beta1 = 0.1}, 10),
                 train_fed([](hyperparameter beta) { return adam{.learning_rate = 0.01, .beta1 = beta}; }, rates));

  // A schedule.
  graph g;
  const auto w = variable(g, "w", 8.0f);
  const auto steps = variable<std::int32_t>(g, "steps", init::zeros{});
  const auto count = assign_add(steps, 1);
  const auto train = gradient_descent{.learning_rate = 1.0 / (1.0 + cast<double>(steps))}.minimize(w * 1.0f);
  session s(g);
  auto step = s.prepare(fetch(train, count));
  float expected = 8;
  for (int t = 1; t <= 5; ++t) {
    step();
    expected -= static_cast<float>(1.0 / t);
    BOOST_TEST(s.get(w) == expected);
  }
  // Such a rate cannot be the factor of a product.
  const auto m = variable<float, dims<3, 4>>(g, "m", init::ones{});
  const auto a = placeholder<float, dims<5, 3>>(g, "a");
  const auto rate = placeholder<float>(g, "rate");
  const auto by_number = gradient_descent{.learning_rate = 0.25}.minimize(sum(matmul(a, m)), m);
  const auto by_value = gradient_descent{.learning_rate = rate}.minimize(sum(matmul(a, m)), m);
  session both(g);
  tensor<float, dims<5, 3>> fed;
  for (int i = 0; i < 15; ++i) fed.data()[i] = static_cast<float>(i);
  both.run(fetch(by_number), with(a, fed));
  const auto first = both.get(m);
  both.set(m, tensor<float, dims<3, 4>>{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  both.run(fetch(by_value), with(a, fed), with(rate, 0.25f));
  BOOST_TEST(same_bits(first, both.get(m)));
}

// A program that keeps all variables goes on as if nothing had been.
BOOST_AUTO_TEST_CASE(training_goes_on_from_its_variables) {
  const auto run = [](session& s, const graph& g, const auto& train, const auto& x, int from, int to) {
    for (int t = from; t < to; ++t) s.run(fetch(train), with(x, gradient_of<float>(t)));
    std::vector<std::vector<float>> values;
    for (std::uint32_t n = 0; n < g.size(); ++n) {
      if (!is_operation<variable_op>(g[n].def.op)) continue;
      values.emplace_back(s.variable_info(n).extents.elements());
      s.read_variable(n, values.back().data());
    }
    return values;
  };
  graph g;
  const auto w = variable<float, dims<4>>(g, "w", init::ones{});
  const auto x = placeholder<float, dims<4>>(g, "x");
  const auto train = adam{}.minimize(sum(w * x));
  session whole(g), before(g), after(g);
  const auto expected = run(whole, g, train, x, 0, 20), kept = run(before, g, train, x, 0, 7);
  BOOST_TEST(kept.size() == 5u);
  std::size_t next = 0;
  for (std::uint32_t n = 0; n < g.size(); ++n)
    if (is_operation<variable_op>(g[n].def.op)) after.write_variable(n, kept[next++].data());
  BOOST_TEST((run(after, g, train, x, 7, 20) == expected));
}

namespace {

/// tf.train.AdagradOptimizer (Duchi et al. 2011): a slot whose first value is a hyperparameter.
struct adagrad {
  hyperparameter learning_rate = 0.01, initial_accumulator_value = 0.1;

  static constexpr const char* name = "adagrad";
  static constexpr bool by_rows = true;
  constexpr auto slots() const { return slot_list{slot("accumulator", initial_accumulator_value)}; }

  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V& accumulator, V gradient) const {
    accumulator += gradient * gradient;
    variable -= V(learning_rate) * gradient / sqrt(accumulator);
  }
};

/// The same with numbers and hyperparameters as they are, which become elements where they meet some.
struct plainly_written {
  hyperparameter learning_rate = 0.01, decay = 0.1;

  static constexpr const char* name = "plainly_written";
  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V gradient) const {
    const V rate = learning_rate;
    variable *= 1 - 0.3 * V(decay) * (gradient > 0 ? V(1) : V(2));
    variable -= rate * gradient / (decay + max(abs(gradient), 0.1));
  }
};
struct written_out {
  hyperparameter learning_rate = 0.01, decay = 0.1;

  static constexpr const char* name = "written_out";
  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V gradient) const {
    variable *= V(1) - V(0.3) * V(decay) * (gradient > V(0) ? V(1) : V(2));
    variable -= V(learning_rate) * gradient / (V(decay) + max(abs(gradient), V(0.1)));
  }
};

template <class T>
void check_plainly_written() {
  const auto plain = train<T>(plainly_written{.learning_rate = 0.7}, 3);
  const auto explicitly = train<T>(written_out{.learning_rate = 0.7}, 3);
  for (std::size_t t = 0; t < 3; ++t)
    for (int i = 0; i < 4; ++i) BOOST_TEST(plain[t](i) == explicitly[t](i));
}

}  // namespace

BOOST_AUTO_TEST_CASE(numbers_in_a_formula_become_elements) {
  check_plainly_written<float>();
  check_plainly_written<double>();
}

BOOST_AUTO_TEST_CASE(an_optimizer_of_a_program) {
  const auto values = train<double>(adagrad{.learning_rate = 0.5, .initial_accumulator_value = 0.25}, 5);
  for (int i = 0; i < 4; ++i) {
    double w = std::vector<double>{1, -0.5, 3, 0.25}[static_cast<std::size_t>(i)], sum = 0.25;
    for (int t = 0; t < 5; ++t) {
      const double x = gradient_of<double>(t)(i);
      sum += x * x;
      w -= 0.5 * x / std::sqrt(sum);
      BOOST_CHECK_SMALL(values[static_cast<std::size_t>(t)](i) - w, 1e-14);
    }
  }
  graph g, other;
  const auto w = variable<float>(g, "w", init::ones{});
  const auto rate = placeholder<float>(g, "rate"), of_other = placeholder<float>(other, "rate");
  CHECK_SAYS(test::failure(error_code::invalid_argument,
                           [&] { (void)minimize(adagrad{.initial_accumulator_value = rate}, w * w); }),
             "the initial value of a slot must be a number");
  CHECK_SAYS(
      test::failure(error_code::invalid_argument, [&] { (void)adam{.learning_rate = of_other}.minimize(w * w); }),
      "another graph");
}

namespace {

// As make_row_values.py has them.
template <class Batch>
tensor<std::int32_t, Batch> numbers_of(int step, int which) {
  return test::row_numbers<Batch>(step + which, 6, [=](int i) { return (i * i + step * 3 + which * 2) % 5 + which; });
}

using table = dims<7, 3>;
using here = dims<dyn<"here">>;
using rows_here = dims<dyn<"here">, 3>;
using there = dims<dyn<"there">>;
using rows_there = dims<dyn<"there">, 3>;

/// Reads what TensorFlow makes of it, and compares each element of each step: how far they are apart at most, and
/// whether Weft sums the gradient into a tensor of the variable's extents.
template <class Optimizer>
double distance_by_rows(std::istream& in, const Optimizer& optimizer, int gathers, bool dense, bool& sums) {
  graph g;
  const auto w = variable<float, table>(g, "w");
  const auto n = placeholder<std::int32_t, here>(g, "n");
  const auto m = placeholder<std::int32_t, there>(g, "m");
  const auto x = placeholder<float, rows_here>(g, "x");
  const auto y = placeholder<float, rows_there>(g, "y");
  auto loss = let(sum(gather(w, n) * x));
  if (gathers > 1) loss = let(loss + sum(gather(w, m) * y));
  if (dense) loss = let(loss + sum(w) * 0.125f);
  const auto train = minimize(optimizer, loss);
  session s(g, {.threads = 2});
  s.set(w, test::first_rows());
  auto step = s.prepare(fetch(train), feed(n, x, m, y));
  double most = 0;
  for (int t = 0; t < 8; ++t) {
    const auto a = numbers_of<here>(t, 0);
    const auto b = numbers_of<there>(t, 1);
    step(a, test::row_weights<rows_here>(t, a.elements()), b, test::row_weights<rows_there>(t, b.elements(), 5));
    const auto values = s.get(w);
    for (int i = 0; i < 21; ++i) {
      std::string word;
      BOOST_REQUIRE((in >> word));
      most = std::max(most, std::abs(std::strtod(word.c_str(), nullptr) - static_cast<double>(values.data()[i])));
    }
  }
  sums = step.explain().find("scatter_add") != std::string::npos;
  return most;
}

}  // namespace

// Gradients are rows here: all optimizers but Adam leave a row that a step does not take alone, with its slots.
BOOST_AUTO_TEST_CASE(rows_are_trained_as_tensorflow_does) {
  std::ifstream in(TEST_DATA "/train/row_values.txt");
  BOOST_REQUIRE_MESSAGE(in, TEST_DATA "/train/row_values.txt" << " cannot be read");
  std::string line, rows, name;
  std::getline(in, line);
  int gathers = 0, dense = 0, cases = 0;
  for (; in >> rows >> name >> gathers >> dense; ++cases) {
    BOOST_REQUIRE_EQUAL(rows, "rows");
    bool sums = false;
    const double apart = name == "adam" ? distance_by_rows(in, adam{0.25, 0.5, 0.75, 0.125}, gathers, dense != 0, sums)
                         : name == "adagrad"  ? distance_by_rows(in, adagrad{0.25, 0.5}, gathers, dense != 0, sums)
                         : name == "momentum" ? distance_by_rows(in, momentum{0.25, 0.5}, gathers, dense != 0, sums)
                                              : distance_by_rows(in, gradient_descent{0.25}, gathers, dense != 0, sums);
    // Nothing is rounded but by roots and quotients.
    BOOST_TEST_CONTEXT(name << " " << gathers << " " << dense) {
      BOOST_CHECK_LE(apart, name == "adam" || name == "adagrad" ? 1e-6 : 0.0);
      BOOST_CHECK_EQUAL(sums, dense != 0 || name == "adam");
    }
  }
  BOOST_CHECK_EQUAL(cases, 12);
}

namespace {

/// A formula that is the same, and does not say that rows may be left alone.
struct descent_of_all {
  hyperparameter learning_rate = 0.01;
  static constexpr const char* name = "descent_of_all";
  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V gradient) const {
    variable -= V(learning_rate) * gradient;
  }
};

/// With a slot of one number for all rows: the step's.
struct slowing_descent {
  hyperparameter learning_rate = 0.01;
  static constexpr const char* name = "slowing_descent";
  static constexpr bool by_rows = true;
  constexpr auto slots() const { return slot_list{scalar_slot("step"), slot("taken")}; }
  template <class V>
  WEFT_HOST_DEVICE void advance(V& step) const {
    step += V(1);
  }
  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V step, V& taken, V gradient) const {
    taken += V(1);
    variable -= V(learning_rate) / step * gradient;
  }
};

constexpr std::int64_t many = 9000, width = 33;

template <class Optimizer>
std::vector<float> train_many(const Optimizer& optimizer, int threads) {
  graph g(5);
  const auto w = variable<float, dims<many, width>>(g, "w", init::uniform{-1, 1});
  const auto n = placeholder<std::int64_t, dims<dyn<"n">, 2>>(g, "n");
  const auto train = minimize(optimizer, sum(square(gather(w, n))));
  session s(g, {.threads = threads});
  auto step = s.prepare(fetch(train), feed(n));
  for (const std::int64_t count : {1500, 0, 1, 400, 1500}) {
    tensor<std::int64_t, dims<dyn<"n">, 2>> numbers(shape(count, 2));
    for (std::int64_t i = 0; i < 2 * count; ++i) numbers.data()[i] = i % 3 == 0 ? 17 : i * 7919 % (i % 2 ? 50 : many);
    step(numbers);
  }
  const auto values = s.get(w);
  return {values.data(), values.data() + values.elements()};
}

}  // namespace

// Many of one row, many rows, and chunks of them that threads share.
BOOST_AUTO_TEST_CASE(rows_have_the_bits_of_the_whole_with_any_number_of_threads) {
  const auto whole = train_many(descent_of_all{0.001}, 2);
  for (const int threads : {1, 2, 3}) BOOST_TEST((train_many(gradient_descent{0.001}, threads) == whole));
  const auto alone = train_many(momentum{0.001, 0.9}, 1);
  BOOST_TEST((alone != whole));
  for (const int threads : {2, 3}) BOOST_TEST((train_many(momentum{0.001, 0.9}, threads) == alone));
}

BOOST_AUTO_TEST_CASE(rows_of_many_gathers_of_columns_and_with_scalar_slots) {
  graph g;
  const tensor<float, dims<4, 2>> ones{1, 1, 1, 1, 1, 1, 1, 1};
  const auto w = variable(g, "w", ones), v = variable(g, "v", ones), u = variable(g, "u", ones);
  const auto n = placeholder<std::int32_t, dims<>>(g, "n");
  const auto rate = placeholder<float>(g, "rate");
  auto loss = let(sum(gather(w, n)));
  for (int i = 1; i < 12; ++i) loss = let(loss + sum(gather(w, n * 0 + i % 4)));  // 13 lists at most: too many
  const auto far = minimize(gradient_descent{.learning_rate = rate}, loss);
  const auto columns = minimize(gradient_descent{.learning_rate = rate}, sum(gather<1>(v, n)));
  const auto slow = minimize(slowing_descent{.learning_rate = rate}, sum(gather(u, n)));
  session s(g);
  const auto [taken] = [&] {
    for (std::uint32_t i = 0; i < g.size(); ++i)
      if (g[i].name == "u/taken") return std::tuple{i};
    return std::tuple{0u};
  }();
  s.run(fetch(columns, slow), with(n, 1), with(rate, 0.5f));
  s.run(fetch(columns, slow), with(n, 1), with(rate, 0.5f));
  s.run(fetch(slow, far), with(n, 2), with(rate, 0.75f));
  BOOST_TEST((s.get(v)(2, 0) == 1 && s.get(v)(2, 1) == 0));
  const auto slowed = s.get(u);
  BOOST_TEST((slowed(0, 1) == 1 && slowed(1, 0) == 0.25f && slowed(2, 1) == 0.75f && slowed(3, 0) == 1));
  float times[8];
  s.read_variable(taken, times);
  BOOST_TEST((times[0] == 0 && times[3] == 2 && times[4] == 1));
  const auto w_now = s.get(w);
  BOOST_TEST((w_now(0, 0) == 1 - 2 * 0.75f && w_now(1, 1) == 1 - 3 * 0.75f && w_now(2, 0) == 1 - 4 * 0.75f));
}

namespace {

/// Momentum by hand, of a gradient that is clipped to [-1/4, 1/4] and halved.
template <class T>
void check_changed_gradients() {
  graph g;
  const tensor<T, dims<4>> start{1, -0.5, 3, 0.25};
  const auto w = variable(g, "w", start), u = variable(g, "u", start);
  const auto b = variable<T>(g, "b", T(2));
  const auto x = placeholder<T, dims<4>>(g, "x");
  const auto loss = let(sum(w * x) + b * T(0.75) + sum(u * u));
  auto [of_w, of_b] = compute_gradients(loss, w, b);
  of_w.gradient = min(max(of_w.gradient, T(-0.25)), T(0.25)) * T(0.5);
  const auto train = momentum{.learning_rate = 0.5, .momentum = 0.5}.apply_gradients(of_w, of_b);
  session s(g, {.threads = 1});
  auto step = s.prepare(fetch(train), feed(x));
  T expected[5] = {1, T(-0.5), 3, T(0.25), 2}, velocity[5] = {};
  for (int t = 0; t < 10; ++t) {
    const auto fed = gradient_of<T>(t);
    step(fed);
    for (int i = 0; i < 5; ++i) {
      const T gradient = i == 4 ? T(0.75) : std::min(std::max(fed(i), T(-0.25)), T(0.25)) * T(0.5);
      volatile T kept = velocity[i] * T(0.5);
      velocity[i] = kept + gradient;
      kept = velocity[i] * T(0.5);
      expected[i] -= kept;
      BOOST_TEST((i == 4 ? s.get(b) : s.get(w)(i)) == expected[i]);
    }
  }
  BOOST_TEST(same_bits(s.get(u), start));  // it is not named
}

}  // namespace

BOOST_AUTO_TEST_CASE(changed_gradients_are_applied) {
  check_changed_gradients<float>();
  check_changed_gradients<double>();
}

// As it is, minimize() is the two functions: with rows, and with what is noted beside the loss.
BOOST_AUTO_TEST_CASE(minimize_is_its_two_halves) {
  const auto run = [](auto make) {
    graph g;
    const auto w = variable<float, dims<5, 2>>(g, "w", init::ones{});
    const auto v = variable<float>(g, "v", 3.0f);
    const auto seen = variable<float>(g, "seen", 0.0f, variable_kind::averaged);
    const auto n = placeholder<std::int32_t, dims<2>>(g, "n");
    const auto h = let(square(gather(w, n)));
    add_update(assign(seen, mean(h)));
    const auto train = make(let(sum(h) * v), w, v);
    session s(g, {.threads = 1});
    auto step = s.prepare(fetch(train), feed(n));
    step(tensor<std::int32_t, dims<2>>{1, 3});
    step(tensor<std::int32_t, dims<2>>{3, 3});
    BOOST_TEST(step.explain().find("scatter_add") == std::string::npos);
    const auto values = s.get(w);
    std::vector<float> all(values.data(), values.data() + 10);
    all.push_back(s.get(v));
    all.push_back(s.get(seen));
    return all;
  };
  const momentum o{.learning_rate = 0.125};
  const auto whole = run([&](auto loss, auto...) { return o.minimize(loss); });
  BOOST_TEST(
      (run([&](auto loss, auto w, auto v) { return apply_gradients(o, compute_gradients(loss, w, v)); }) == whole));
  BOOST_TEST((run([&](auto loss, auto...) { return apply_gradients(o, compute_gradients(loss)); }) == whole));
  BOOST_TEST(whole.back() != 0);
}

BOOST_AUTO_TEST_CASE(gradients_of_variables_without_names_are_changed) {
  graph g;
  const auto w = variable<float, dims<2>>(g, "w", init::ones{});
  const auto v = variable<float>(g, "v", 3.0f);
  const auto scale = placeholder<float>(g, "scale");
  auto all = compute_gradients(let(sum(w) * v));
  BOOST_TEST(all.size() == 2u);
  for (auto& each : all) each.gradient = each.gradient * scale.erased() * 2;
  const auto train = gradient_descent{.learning_rate = 0.5}.apply_gradients(all);
  session s(g);
  s.run(fetch(train), with(scale, 0.25f));
  BOOST_TEST(s.get(w)(0) == 1 - 0.5f * 3 * 0.5f);
  BOOST_TEST(s.get(v) == 3 - 0.5f * 2 * 0.5f);
}

BOOST_AUTO_TEST_CASE(gradients_that_cannot_be_applied) {
  graph g;
  const auto w = variable<float, dims<2>>(g, "w", init::ones{});
  const auto other = variable<float>(g, "other", 1.0f);
  const auto kept = variable<float, dims<2>>(g, "kept", 1.0f, variable_kind::averaged);
  const auto loss = let(sum(w));
  const auto of_w = std::get<0>(compute_gradients(loss, w));
  auto all = compute_gradients(loss);
  const auto refused = [](auto&& make) { return test::failure(error_code::invalid_argument, make); };
  CHECK_SAYS(refused([&] { (void)apply_gradients(adam{}, of_w, of_w); }), "the variable w is listed twice");
  CHECK_SAYS(refused([&] { (void)compute_gradients(loss, other); }), "the loss does not depend on the variable other");
  CHECK_SAYS(refused([&] { (void)apply_gradients(adam{}, variable_gradient{of_w.gradient, kept}); }),
             "the variable kept is averaged: minimize() updates only trained variables");
  for (auto& each : all) each.gradient = 0.5;
  CHECK_SAYS(refused([&] { (void)apply_gradients(adam{}, all); }),
             "the gradient of w must have the variable's extents, but is a number");
  for (auto& each : all) each.gradient = other.erased();
  CHECK_SAYS(refused([&] { (void)apply_gradients(adam{}, all); }), "the gradient of w is float of extents");
  all.pairs.clear();
  CHECK_SAYS(refused([&] { (void)apply_gradients(adam{}, all); }), "no gradients");
}

namespace {

enum class form { plain, twice };

struct nesterov {
  hyperparameter learning_rate = 0.01, momentum = 0.9;
  bool use_nesterov = false;
  form of = form::plain;

  static constexpr const char* name = "nesterov";
  constexpr auto slots() const { return slot_list{slot("momentum")}; }
  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V& velocity, V gradient) const {
    if (of == form::twice) gradient *= V(2);
    velocity = momentum * velocity + gradient;
    if (use_nesterov)
      variable -= learning_rate * (gradient + momentum * velocity);
    else
      variable -= learning_rate * velocity;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_formula_branches_on_plain_members) {
  const auto same = [](const auto& a, const auto& b) {
    for (std::size_t t = 0; t < 8; ++t) BOOST_TEST(same_bits(a[t], b[t]));
  };
  same(train<float>(nesterov{0.5, 0.75}, 8), train<float>(momentum{0.5, 0.75}, 8));
  const auto ahead = train<double>(nesterov{.learning_rate = 0.5, .momentum = 0.75, .use_nesterov = true}, 8);
  const auto twice = train<double>(nesterov{.learning_rate = 0.5, .of = form::twice}, 1);
  double w = 1, velocity = 0;
  BOOST_TEST(twice[0](0) == 1 - 0.5 * 2 * gradient_of<double>(0)(0));
  for (int t = 0; t < 8; ++t) {
    const double x = gradient_of<double>(t)(0);
    velocity = 0.75 * velocity + x;
    w -= 0.5 * (x + 0.75 * velocity);
    BOOST_CHECK_SMALL(ahead[static_cast<std::size_t>(t)](0) - w, 1e-14);
  }
}

namespace {

// An optimizer of a program's own, with a step count and a rate that is a value of the graph.
struct decayed {
  hyperparameter learning_rate = 0.1, decay = 0.01;

  static constexpr const char* name = "decayed";
  constexpr auto slots() const { return slot_list{scalar_slot("step"), slot("mean")}; }
  template <class V>
  WEFT_HOST_DEVICE void advance(V& step) const {
    step += V(1);
  }
  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V step, V& mean, V gradient) const {
    mean += (gradient - mean) / step;
    variable -= V(learning_rate) * (mean + V(decay) * variable);
  }
};

// As LARS, of the norms of each variable.
struct by_norms {
  hyperparameter learning_rate = 0.1;

  static constexpr const char* name = "by_norms";
  template <class V>
  constexpr auto norms(V variable, V gradient) const {
    return norm_list{variable, gradient};
  }
  template <class V>
  WEFT_HOST_DEVICE void update(V& variable, V gradient, V length, V slope) const {
    variable -= V(learning_rate) * (length / (slope + V(1))) * gradient;
  }
};

constexpr int kernels_apart = 0, kernel_of_all = 1;

/// The values of variables of many sizes after three steps, from one kernel for each or from one for all.
template <class T, class Session, class MakeOptimizer>
std::vector<T> trained(const MakeOptimizer& make, int how, int threads) {
  graph g;
  const auto pair = [&](auto extents, const std::string& name) {
    using D = decltype(extents);
    const auto w = variable<T, D>(g, name);
    return variable_gradient{variable<T, D>(g, name + "_gradient"), w};
  };
  const auto w0 = pair(dims<1>(), "w0");
  const auto w1 = pair(dims<7>(), "w1");
  const auto w2 = pair(dims<100'003>(), "w2");
  const auto w3 = pair(dims<64>(), "w3");
  const auto w4 = pair(dims<0>(), "w4");
  const auto w5 = pair(dims<41, 999>(), "w5");
  const auto w6 = pair(dims<3>(), "w6");
  const auto rate = placeholder<T>(g, "rate");
  const auto optimizer = make(rate);
  const auto applied = [&](const auto&... pairs) { return apply_gradients(optimizer, pairs...); };
  Session s(g, {.threads = threads});
  const auto start = [&](const auto& p, int k) {
    auto values = s.get(p.variable);
    const auto n = static_cast<int>(values.extents().elements());
    for (int i = 0; i < n; ++i) values.data()[i] = static_cast<T>((i * 7 + k) % 61) / 32 - 1;
    s.set(p.variable, values);
    for (int i = 0; i < n; ++i) values.data()[i] = static_cast<T>((i * 11 + k) % 97) / 64 - 1;
    s.set(p.gradient, values);
  };
  start(w0, 0), start(w1, 1), start(w2, 2), start(w3, 3), start(w4, 4), start(w5, 5), start(w6, 6);
  const auto run = [&](const auto&... effects) {
    auto step = s.prepare(fetch(effects...), feed(rate));
    for (int t = 0; t < 3; ++t) step(T(0.0625) / T(t + 1));
    return step.explain();
  };
  if (how == kernel_of_all) {
    const std::string text = run(applied(w0, w1, w2, w3, w4, w5, w6));
    BOOST_TEST(text.find(", 7 variables") != std::string::npos);
  } else {
    run(applied(w0)), run(applied(w1)), run(applied(w2)), run(applied(w3)), run(applied(w4)), run(applied(w5)),
        run(applied(w6));
  }
  std::vector<T> all;
  const auto append = [&](const auto& p) {
    const auto values = s.get(p.variable);
    all.insert(all.end(), values.data(), values.data() + values.extents().elements());
  };
  append(w0), append(w1), append(w2), append(w3), append(w4), append(w5), append(w6);
  return all;
}

template <class T, class Session = session, class MakeOptimizer>
void check_together(const MakeOptimizer& make) {
  const std::vector<T> expected = trained<T, Session>(make, kernels_apart, 1);
  for (const int threads : {1, 2}) {
    const std::vector<T> values = trained<T, Session>(make, kernel_of_all, threads);
    BOOST_REQUIRE_EQUAL(values.size(), expected.size());
    BOOST_TEST(std::memcmp(values.data(), expected.data(), sizeof(T) * values.size()) == 0);
    BOOST_TEST(values[50] != T((50 - 8) * 7 + 2) / 32);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(updates_of_all_variables_are_one_kernel_with_the_bits_of_one_for_each) {
  check_together<float>([](const auto& rate) { return gradient_descent{.learning_rate = rate}; });
  check_together<float>([](const auto&) { return momentum{.learning_rate = 0.05}; });
  check_together<float>([](const auto& rate) { return adam{.learning_rate = rate}; });
  check_together<double>([](const auto&) { return adam{.learning_rate = 0.01}; });
  check_together<float>([](const auto& rate) { return decayed{.learning_rate = rate}; });
  // On a GPU each variable has norms of its own.
  check_together<float, session_on_cpu>([](const auto&) { return by_norms{}; });
}

namespace {

/// The bytes of a step's memory, by its own account.
std::size_t memory_of(const std::string& text) {
  const std::size_t at = text.find(" kernels; ");
  BOOST_REQUIRE(at != std::string::npos);
  return static_cast<std::size_t>(std::atol(text.c_str() + at + 10));
}

template <class Optimizer>
std::string explain_deep(const Optimizer& optimizer, int layers, int lanes = 1) {
  using values = dims<4, 64>;
  graph g;
  node<float, values> x = placeholder<float, values>(g, "x");
  const auto fed = x;
  for (int i = 0; i < layers; ++i) {
    const name_scope within(g, "layer" + std::to_string(i));
    const auto w = variable<float, dims<64, 64>>(g, "w", init::uniform{-0.1, 0.1});
    const auto b = variable<float, dims<64>>(g, "b");
    x = let(tanh(matmul(x, w) + b));
  }
  const auto train = minimize(optimizer, mean(square(x)));
  session_on_cpu s(g, {.threads = 1, .inter_op_threads = lanes});
  auto step = s.prepare(fetch(train), feed(fed));
  step(tensor<float, values>{});
  return step.explain();
}

}  // namespace

// A gradient is 16 KiB, and all are 1.6 MiB; descent follows the products and keeps none.
BOOST_AUTO_TEST_CASE(updates_that_wait_for_each_other_take_little_memory) {
  const std::size_t least = memory_of(explain_deep(gradient_descent{}, 100));
  const std::string text = explain_deep(adam{}, 100);
  BOOST_TEST(memory_of(text) <= least + (std::size_t{96} << 10));
  std::size_t kernels = 0;
  for (std::size_t at = 0; (at = text.find("adam float", at)) != std::string::npos; ++at) ++kernels;
  BOOST_TEST(kernels > 1);  // not all gradients wait
  BOOST_TEST(kernels <= 40);
}

BOOST_AUTO_TEST_CASE(updates_stay_alone_where_a_device_has_lanes) {
  BOOST_TEST(explain_deep(adam{}, 10, 2).find(" variables\n") == std::string::npos);
}
