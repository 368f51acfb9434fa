// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>
#include <weft/train/schedules.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"

using namespace weft;

namespace {

void check_values(const std::string& file, const std::map<std::string, node<double>>& schedules,
                  const variable_node<std::int64_t>& step, session& s, const std::set<std::string>& in_float = {}) {
  std::ifstream in(TEST_DATA "/train/" + file);
  BOOST_REQUIRE_MESSAGE(in, file << " cannot be read");
  std::string word, name;
  std::getline(in, word);
  std::size_t cases = 0;
  while (in >> word) {
    if (word == "schedule") {
      in >> name;
      BOOST_REQUIRE_MESSAGE(schedules.count(name), name);
      ++cases;
      continue;
    }
    double expected = 0;
    BOOST_REQUIRE((in >> expected));
    s.set(step, static_cast<std::int64_t>(std::stoll(word)));
    const double value = s.run(fetch(schedules.at(name)));
    const double within = in_float.count(name) ? 1e-6 : 4e-15;
    BOOST_CHECK_MESSAGE(
        std::abs(value - expected) <= within * std::abs(expected) + 1e-17,
        name << " at " << word << ": " << value << ", not " << expected << ", apart " << value - expected);
  }
  BOOST_TEST(cases == schedules.size());
}

}  // namespace

BOOST_AUTO_TEST_CASE(schedules_are_tensorflows) {
  graph g;
  const auto step = global_step(g);
  const std::map<std::string, node<double>> schedules{
      {"exponential", exponential_decay(0.3, step, 10, 0.7)},
      {"exponential_staircase", exponential_decay(0.3, step, 10, 0.7, true)},
      {"natural_exp", natural_exp_decay(0.3, step, 10, 0.35)},
      {"natural_exp_staircase", natural_exp_decay(0.3, step, 10, 0.35, true)},
      {"inverse_time", inverse_time_decay(0.3, step, 10, 0.5)},
      {"inverse_time_staircase", inverse_time_decay(0.3, step, 10, 0.5, true)},
      {"piecewise", piecewise_constant(step, {10, 20, 70}, {0.5, 0.25, 0.1, 0.01})},
      {"polynomial", polynomial_decay(0.3, step, 30, 0.01, 1.5)},
      {"polynomial_cycle", polynomial_decay(0.3, step, 32, 0.01, 0.5, true)},
      {"cosine", cosine_decay(0.3, step, 70, 0.1)},
      {"cosine_restarts", cosine_decay_restarts(0.3, step, 10, 2, 0.75, 0.1)},
      {"cosine_restarts_even", cosine_decay_restarts(0.3, step, 10, 1, 0.5, 0.1)},
  };
  session s(g);
  check_values("tensorflow_schedule_values.txt", schedules, step, s,
               {"polynomial_cycle", "cosine", "cosine_restarts", "cosine_restarts_even"});
}

BOOST_AUTO_TEST_CASE(one_cycle_and_restarts_are_pytorchs) {
  graph g;
  const auto step = global_step(g);
  const std::map<std::string, node<double>> schedules{
      {"cosine_restarts", cosine_decay_restarts(0.3, step, 10, 2, 1, 0.1)},
      {"one_cycle", one_cycle(0.3, step, 151)},
      {"one_cycle_linear", one_cycle(0.3, step, 151, {.linear = true})},
      {"one_cycle_three",
       one_cycle(0.3, step, 151, {.rising = 0.4, .div_factor = 10, .final_div_factor = 100, .three_phase = true})},
  };
  session s(g);
  check_values("torch_schedule_values.txt", schedules, step, s);
  // Behind its steps it stays.
  s.set(step, std::int64_t{150});
  const double last = s.run(fetch(schedules.at("one_cycle")));
  s.set(step, std::int64_t{5000});
  BOOST_TEST(s.run(fetch(schedules.at("one_cycle"))) == last);
}

// Periods end where they should, however many there are and whatever logarithms round to.
BOOST_AUTO_TEST_CASE(restarts_come_at_the_step) {
  graph g;
  const auto step = global_step(g);
  const auto rate = cosine_decay_restarts(1, step, 5, 3), even = cosine_decay_restarts(1, step, 5, 1);
  session s(g);
  std::int64_t begin = 0, length = 5;
  for (int restart = 0; restart < 25; ++restart) {
    s.set(step, begin);
    BOOST_TEST(s.run(fetch(rate)) == 1);
    s.set(step, begin + length - 1);
    BOOST_TEST(s.run(fetch(rate)) < 0.1);
    begin += length, length *= 3;
  }
  s.set(step, std::int64_t{5'000'000'000});
  BOOST_TEST(s.run(fetch(even)) == 1);
}

BOOST_AUTO_TEST_CASE(any_schedule_is_warmed_up) {
  graph g;
  const auto step = global_step(g);
  const auto rate = exponential_decay(0.5, step, 10, 0.5), warm = linear_warmup(rate, 10, 0.05);
  const auto flat = linear_warmup(0.5, step, 4);
  session s(g);
  for (std::int64_t t = 0; t < 20; ++t) {
    s.set(step, t);
    const auto [a, b, c] = s.run(fetch(rate, warm, flat));
    const auto part = static_cast<double>(t);
    BOOST_TEST(b == (t < 10 ? 0.05 + (0.25 - 0.05) * (part / 10) : a));
    BOOST_TEST(c == (t < 4 ? 0.5 * (part / 4) : 0.5));
  }
}

// The rate of a step is that of the count before it, and each step is counted once.
BOOST_AUTO_TEST_CASE(a_training_step_counts) {
  graph g;
  const auto step = global_step(g);
  BOOST_TEST(global_step(g).id().node == step.id().node);
  const auto w = variable<double>(g, "w", 8.0), b = variable<double>(g, "b", 1.0);
  const auto loss = let(w + b);
  const auto rate = inverse_time_decay(1, step, 1, 1);
  const auto train = gradient_descent{.learning_rate = rate}.minimize(loss, w, step);
  const auto of_all = gradient_descent{.learning_rate = rate}.minimize(loss, step);
  auto pairs = compute_gradients(loss, w, b);
  const auto applied = momentum{.learning_rate = rate}.apply_gradients(pairs, step);
  session s(g);
  double expected = 8;
  for (int t = 0; t < 5; ++t) {
    s.run(fetch(train));
    expected -= 1.0 / (1 + t);
    BOOST_TEST(s.get(w) == expected);
    BOOST_TEST(s.get(step) == t + 1);
  }
  BOOST_TEST(s.get(b) == 1);
  s.run(fetch(of_all));
  BOOST_TEST(s.get(b) == 1 - 1.0 / 6);
  s.run(fetch(applied));
  BOOST_TEST(s.get(step) == 7);
}

BOOST_AUTO_TEST_CASE(schedules_that_are_refused) {
  graph g;
  const auto step = global_step(g);
  const auto refused = [](auto&& make) { return test::failure(error_code::invalid_argument, make); };
  CHECK_SAYS(refused([&] { (void)exponential_decay(0.1, step, 0, 0.5); }), "must last at least one step");
  CHECK_SAYS(refused([&] { (void)cosine_decay(NAN, step, 5); }), "not finite");
  CHECK_SAYS(refused([&] { (void)cosine_decay_restarts(1, step, 5, 0.5); }), "has a period factor below 1");
  CHECK_SAYS(refused([&] { (void)piecewise_constant(step, {5, 5}, {1, 2, 3}); }), "boundaries that are not increasing");
  CHECK_SAYS(refused([&] { (void)piecewise_constant(step, {5}, {1}); }), "1 boundaries and 1 values");
  CHECK_SAYS(refused([&] { (void)one_cycle(1, step, 10, {.rising = 1}); }), "not between 0 and 1");
  CHECK_SAYS(refused([&] { (void)linear_warmup(1, step, 0); }), "must have a whole number of warm-up steps");
  const auto warm = linear_warmup(1, step, 5);
  CHECK_SAYS(refused([&] { (void)linear_warmup(warm, 5); }), "already has a warm-up");
  CHECK_SAYS(refused([&] { (void)linear_warmup(let(warm * 2.0), 5); }), "not a value computed from one");
  const auto w = variable<float>(g, "w", 1.0f);
  const auto other = variable<std::int64_t>(g, "other", std::int64_t{0});
  CHECK_SAYS(refused([&] { (void)adam{}.minimize(w * w, other); }),
             "a step counter must be one made by global_step(g)");
}
