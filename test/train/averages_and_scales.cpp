// SPDX-License-Identifier: BSL-1.0
// Moving averages and loss scaling, beside values of TensorFlow and PyTorch (make_average_values.py).
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>
#include <weft/checkpoint/saver.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/train/lars.hpp>
#include <weft/train/loss_scale.hpp>
#include <weft/train/moving_average.hpp>
#include <weft/train/schedules.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"
#include "train/fed_gradients.hpp"

using namespace weft;
using test::gradient_of;

namespace {

std::ifstream values_behind(const std::string& heading) {
  std::ifstream in(TEST_DATA "/train/average_values.txt");
  for (std::string line; std::getline(in, line);)
    if (line == heading) return in;
  BOOST_FAIL("average_values.txt has no " << heading);
  return in;
}

double next_number(std::istream& in) {
  std::string word;
  BOOST_REQUIRE(in >> word);
  return std::strtod(word.c_str(), nullptr);
}

/// The bytes of all variables, by their names.
std::map<std::string, std::string> bytes_of(session& s) {
  std::map<std::string, std::string> all;
  for (std::uint32_t n = 0; n < s.of().size(); ++n) {
    if (!is_operation<variable_op>(s.of()[n].def.op)) continue;
    std::string bytes(s.variable_info(n).bytes(), '\0');
    s.read_variable(n, bytes.data());
    all[s.of()[n].name] = bytes;
  }
  return all;
}

template <class Tensor>
bool same_bits(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.data(), b.data(), a.elements() * sizeof *a.data()) == 0;
}

/// Without a hyperparameter, and with members that are none.
struct unit_descent {
  static constexpr const char* name = "unit_descent";
  template <class V>
  void update(V& variable, V gradient) const {
    variable -= gradient;
  }
};
struct descent_or_ascent {
  hyperparameter rate = 0.5;
  bool ascends = false;
  static constexpr const char* name = "descent_or_ascent";
  template <class V>
  void update(V& variable, V gradient) const {
    variable += ascends ? rate * gradient : -(rate * gradient);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(averages_are_tensorflows) {
  for (const bool counted : {false, true})
    for (const bool debiased : {false, true}) {
      if (counted && debiased) continue;
      std::ifstream in = values_behind(str_cat({"average ", int{counted}, " ", int{debiased}}));
      graph g;
      const auto w = variable(g, "w", tensor<float, dims<4>>{1, -0.5, 3, 0.25});
      const auto x = placeholder<float, dims<4>>(g, "x");
      const auto step = global_step(g);
      const auto train = gradient_descent{.learning_rate = 0.25}.minimize(sum(w * x), step);
      const auto averages =
          exponential_moving_average{
              .decay = 0.9, .num_updates = counted ? update_count(step) : update_count(), .zero_debias = debiased}
              .apply(train);
      session s(g, {.threads = 1});
      auto run = s.prepare(fetch(averages), feed(x));
      double most = 0;
      for (int t = 0; t < 30; ++t) {
        run(gradient_of<float>(t));
        const auto average = s.get(averages.average(w));
        for (int i = 0; i < 4; ++i) {
          const double expected = next_number(in);
          const double apart = std::abs(double{average(i)} - expected) / std::max(1.0, std::abs(expected));
          most = apart <= most ? most : apart;  // also where one is not a number
        }
      }
      // TensorFlow subtracts 0.9 and its powers from 1 in float.
      BOOST_TEST(most <= 2e-6, "counted " << counted << ", debiased " << debiased << ": " << most);
      BOOST_TEST(s.get(step) == 30);
    }
}

BOOST_AUTO_TEST_CASE(an_average_of_counted_updates_without_bias_is_that_of_its_weights) {
  graph g;
  const auto w = variable<double>(g, "w", 4.0);
  const auto x = placeholder<double>(g, "x");
  const auto step = global_step(g);
  const auto train = gradient_descent{.learning_rate = 1}.minimize(w * x, step);
  const auto averages =
      exponential_moving_average{.decay = 0.3, .num_updates = step, .zero_debias = true}.apply(train, w);
  session s(g, {.threads = 1});
  double value = 4, sum = 0, weights = 0;
  for (int n = 1; n <= 12; ++n) {
    const double change = (n * 5) % 7 - 3, decay = std::min(0.3, (1.0 + n) / (10.0 + n));
    s.run(fetch(averages), with(x, change));
    value -= change;
    sum = decay * sum + (1 - decay) * value;
    weights = decay * weights + (1 - decay);
    BOOST_TEST(s.get(averages.average(w)) == sum / weights, boost::test_tools::tolerance(1e-13));
  }
}

BOOST_AUTO_TEST_CASE(averages_are_over_all_rows_and_begin_as_their_variables_do) {
  graph g(3);
  const auto table = variable<float, dims<9, 2>>(g, "table", init::normal{});
  const auto other = variable<float, dims<3>>(g, "other", init::normal{});
  const auto n = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "n");
  const auto train = momentum{.learning_rate = 0.5}.minimize(sum(square(gather(table, n))));
  const auto averages = exponential_moving_average{.decay = 0.75}.apply(train);
  session s(g);
  BOOST_TEST(same_bits(s.get(averages.average(table)), s.get(table)));
  BOOST_TEST(s.get(table)(0, 0) != 0);
  BOOST_CHECK(test::code_of([&] { static_cast<void>(averages.average(other)); }) == error_code::not_found);
  tensor<float, dims<9, 2>> expected = s.get(table);
  for (int t = 0; t < 5; ++t) {
    s.run(fetch(averages), with(n, tensor<std::int32_t, dims<dyn<"batch">>>(shape(2), {t, (3 * t) % 9})));
    const auto now = s.get(table);
    for (std::size_t i = 0; i < 18; ++i)
      expected.data()[i] -= (expected.data()[i] - now.data()[i]) * 0.25f;  // exact but for one rounding
  }
  BOOST_TEST(same_bits(s.get(averages.average(table)), expected));
  // To read an average trains nothing.
  const auto before = bytes_of(s);
  BOOST_TEST(same_bits(s.eval(averages.average(table) * 1.0f), expected));
  BOOST_TEST((bytes_of(s) == before));
}

BOOST_AUTO_TEST_CASE(averages_are_swapped_in_and_back) {
  graph g;
  const auto w = variable<float, dims<4>>(g, "w", init::ones{});
  const auto b = variable<double>(g, "b", 2.0);
  const auto train = gradient_descent{.learning_rate = 0.1}.minimize(sum(square(w)));
  const auto train_b = gradient_descent{.learning_rate = 0.1}.minimize(square(b));
  const auto averages = exponential_moving_average{.decay = 0.5}.apply(group(train, train_b));
  session s(g), other(g);
  auto loss = s.prepare(fetch(sum(square(w)), let(b * 1.0)));
  for (int t = 0; t < 3; ++t) s.run(fetch(averages));
  const auto before = bytes_of(s);
  const auto [trained, trained_b] = loss();
  const float average = s.get(averages.average(w))(0);
  {
    auto guard = averages.swapped_in(s);
    const auto [evaluated, evaluated_b] = loss();  // prepared before
    BOOST_TEST(evaluated == 4 * average * average, boost::test_tools::tolerance(1e-6f));
    BOOST_TEST(evaluated_b == s.get(b));
    BOOST_TEST(evaluated_b > trained_b);
    BOOST_TEST(s.get(averages.average(b)) == trained_b);
    BOOST_CHECK(test::code_of([&] { static_cast<void>(averages.swapped_in(s)); }) == error_code::failed_precondition);
    const auto elsewhere = averages.swapped_in(other);
    {
      session clone = s.clone_for_inference();  // reads the averages until it ends
      BOOST_CHECK(test::code_of([&] { static_cast<void>(averages.swapped_in(clone)); }) ==
                  error_code::failed_precondition);
    }
    guard.put_back();
    {
      const session clone = s.clone_for_inference();
      BOOST_CHECK(test::code_of([&] { static_cast<void>(averages.swapped_in(s)); }) == error_code::failed_precondition);
    }
    BOOST_TEST((bytes_of(s) == before));
  }
  BOOST_TEST((bytes_of(s) == before));
  BOOST_TEST(averages.evaluate(s, [&] { return std::get<0>(loss()); }) > trained);
  BOOST_CHECK_THROW(averages.evaluate(s, [] { throw std::runtime_error("evaluation"); }), std::runtime_error);
  BOOST_TEST((bytes_of(s) == before));
  averages.restart(s);
  BOOST_TEST(same_bits(s.get(averages.average(w)), s.get(w)));
  BOOST_TEST((bytes_of(s)["w"] == before.at("w")));
}

// The moving averages of a model's layers have no types that apply_to_present_values(v...) could take.
BOOST_AUTO_TEST_CASE(variables_of_a_list_are_averaged) {
  graph g;
  const auto w = variable<float, dims<2>>(g, "net/w", 1.0f);
  const auto mean = variable<double>(g, "net/mean", 4.0, variable_kind::averaged);
  const auto count = variable<std::int32_t>(g, "net/count", 7), other = variable<std::int32_t>(g, "other", 1);
  const exponential_moving_average how{.decay = 0.75};
  const auto averages = how.apply_to_present_values(variables_in(g, "net"));
  session s(g);
  s.set(w, tensor<float, dims<2>>{5, -3});
  s.set(mean, 8.0);
  s.run(fetch(averages));
  const auto of_w = s.get(averages.average(w));
  BOOST_TEST((of_w(0) == 2 && of_w(1) == 0 && s.get(averages.average(mean)) == 5));
  BOOST_CHECK(test::code_of([&] { static_cast<void>(how.apply_to_present_values(variables_in(g, "other"))); }) ==
              error_code::invalid_argument);
  static_cast<void>(count), static_cast<void>(other);
}

BOOST_AUTO_TEST_CASE(what_is_no_average_is_said) {
  graph g;
  const auto w = variable<float>(g, "w", 1.0f), never = variable(g, "never", 1.0f);
  const auto unset = variable<float, dims<2>>(g, "unset", init::none{});
  const auto train = gradient_descent{}.minimize(w * w), counts = group(let(w + 1));
  const exponential_moving_average how;
  BOOST_CHECK(test::code_of([&] { static_cast<void>((exponential_moving_average{.decay = 1}.apply(train))); }) ==
              error_code::invalid_argument);
  BOOST_CHECK(test::code_of([&] { static_cast<void>(how.apply(counts)); }) == error_code::invalid_argument);
  BOOST_CHECK(test::code_of([&] { static_cast<void>(how.apply(train, w, w)); }) == error_code::invalid_argument);
  const auto averages = how.apply_to_present_values(unset, never);
  session s(g);
  BOOST_CHECK(test::code_of([&] { static_cast<void>(averages.swapped_in(s)); }) == error_code::failed_precondition);
  s.set(unset, tensor<float, dims<2>>{1, 2});
  averages.restart(s);
  s.run(fetch(averages));
  BOOST_TEST(same_bits(s.get(averages.average(unset)), s.get(unset)));
}

BOOST_AUTO_TEST_CASE(scales_are_tensorflows_and_pytorchs) {
  for (const bool torch : {false, true})
    for (const int interval : {1, 3}) {
      std::ifstream in = values_behind(str_cat({"scale ", torch ? "torch" : "tensorflow", " ", interval}));
      graph g;
      const auto w = variable<float, dims<2>>(g, "w", init::ones{});
      const auto x = placeholder<float, dims<2>>(g, "x");
      loss_scale scale(
          g, dynamic_loss_scale{.initial_scale = torch ? 1024.0 : 8.0, .growth_interval = interval, .max_scale = 1e38});
      const auto train = scale.minimize(gradient_descent{.learning_rate = 0.125}, sum(w * x));
      session s(g, {.threads = 1});
      auto run = s.prepare(fetch(train, scale.value(), scale.good_steps()), feed(x));
      auto state = s.prepare(fetch(scale.value(), scale.good_steps()));
      float value = 1;
      for (int t = 0; t < 40; ++t) {
        const bool finite = next_number(in) != 0;
        run(tensor<float, dims<2>>{1, finite ? 1 : std::numeric_limits<float>::infinity()});
        const auto [now, good] = state();
        BOOST_TEST(double{now} == next_number(in));
        BOOST_TEST(static_cast<double>(good) == next_number(in));
        value -= finite ? 0.125f : 0.0f;
        BOOST_TEST(s.get(w)(0) == value);
      }
    }
  graph g;
  const auto w = variable<float>(g, "w", 1.0f);
  loss_scale scale(g, {.initial_scale = 4, .growth_interval = 1, .min_scale = 2, .max_scale = 16});
  const auto x = placeholder<float>(g, "x");
  const auto train = scale.minimize(gradient_descent{}, w * x);
  session s(g);
  const float bad = std::numeric_limits<float>::quiet_NaN(), fed[] = {1, 1, 1, bad, bad, bad, bad, 1};
  const float expected[] = {8, 16, 16, 8, 4, 2, 2, 4};
  for (int t = 0; t < 8; ++t) {
    s.run(fetch(train), with(x, fed[t]));
    BOOST_TEST(s.eval(scale.value()) == expected[t]);
  }
}

namespace {

/// A loss of two variables, one whole and one of rows, beside the same without scaling.
template <class Optimizer>
void compare_with_unscaled(const Optimizer& optimizer) {
  const auto build = [&](graph& g, auto&& minimize) {
    const auto w = variable(g, "w", tensor<float, dims<4>>{1, -0.5, 3, 0.25});
    const auto table = variable<float, dims<5, 4>>(g, "table", init::normal{.stddev = 1});
    const auto x = placeholder<float, dims<4>>(g, "x");
    const auto n = placeholder<std::int32_t, dims<3>>(g, "n");
    const auto loss = sum(w * x) + sum(gather(table, n) * (w * 0 + x));
    return std::tuple{minimize(loss, global_step(g)), x, n};
  };
  graph plain(5), g(5);
  const auto [train, x, n] = build(plain, [&](auto loss, auto step) { return minimize(optimizer, loss, step); });
  loss_scale scale(g, dynamic_loss_scale{.initial_scale = 64, .growth_interval = 3});
  const auto [scaled, scaled_x, scaled_n] =
      build(g, [&](auto loss, auto step) { return scale.minimize(optimizer, loss, step); });
  session s(plain, {.threads = 1}), with_scale(g, {.threads = 2});
  auto step = s.prepare(fetch(train), feed(x, n));
  auto scaled_step = with_scale.prepare(fetch(scaled), feed(scaled_x, scaled_n));
  for (int t = 0; t < 12; ++t) {
    const tensor<std::int32_t, dims<3>> rows{t % 5, t % 3, t % 2};
    const tensor<float, dims<4>> upstream = gradient_of<float>(t);
    if (t % 4 == 2) {  // one that comes to nothing
      const auto before = bytes_of(with_scale);
      tensor<float, dims<4>> bad = upstream;
      bad(t % 3) = t % 8 == 2 ? std::numeric_limits<float>::quiet_NaN() : -std::numeric_limits<float>::infinity();
      scaled_step(bad, rows);
      auto after = bytes_of(with_scale);
      BOOST_TEST(after.at("loss_scale/scale") != before.at("loss_scale/scale"));
      for (const char* const name : {"loss_scale/scale", "loss_scale/good_steps"}) after[name] = before.at(name);
      BOOST_TEST((after == before), Optimizer::name << " changed something in step " << t);
    }
    step(upstream, rows);
    scaled_step(upstream, rows);
    auto expected = bytes_of(s), got = bytes_of(with_scale);
    got.erase("loss_scale/scale"), got.erase("loss_scale/good_steps");
    BOOST_TEST((got == expected), Optimizer::name << " in step " << t);
  }
}

std::size_t updates_by_rows(const graph& g) {
  std::size_t count = 0;
  for (std::uint32_t n = 0; n < g.size(); ++n)
    if (g[n].def.op->update) count += update_view(g[n].def).row_lists() > 0 && !update_view(g[n].def).is_summed();
  return count;
}

}  // namespace

BOOST_AUTO_TEST_CASE(scaled_training_has_the_bits_of_training_and_a_skipped_step_keeps_all) {
  compare_with_unscaled(gradient_descent{.learning_rate = 0.25});
  compare_with_unscaled(momentum{.learning_rate = 0.25});
  compare_with_unscaled(adam{});
  compare_with_unscaled(lars{.trust = 0.01});
  compare_with_unscaled(unit_descent{});
  compare_with_unscaled(descent_or_ascent{.ascends = true});
}

BOOST_AUTO_TEST_CASE(rows_stay_rows_and_changed_gradients_are_whole) {
  for (const bool changed : {false, true}) {
    graph g;
    const auto table = variable<float, dims<6, 2>>(g, "table", init::ones{});
    const auto b = variable<float, dims<2>>(g, "b", init::ones{});
    const auto n = placeholder<std::int32_t, dims<2>>(g, "n");
    const auto step = global_step(g);
    loss_scale scale(g, fixed_loss_scale{256});
    auto [of_table, of_b] = scale.compute_gradients(sum(gather(table, n) * 3.0f) + sum(b) * 8.0f, table, b);
    if (changed) of_table.gradient = min(of_table.gradient, 1.0f);
    const auto train = scale.apply_gradients(gradient_descent{.learning_rate = 0.5}, of_table, of_b, step);
    BOOST_TEST(updates_by_rows(g) == (changed ? 0u : 1u));
    session s(g);
    s.run(fetch(train), with(n, tensor<std::int32_t, dims<2>>{4, 1}));
    const float row = changed ? 0.5f : -0.5f;
    BOOST_TEST(same_bits(s.get(table), tensor<float, dims<6, 2>>{1, 1, row, row, 1, 1, 1, 1, row, row, 1, 1}));
    BOOST_TEST(same_bits(s.get(b), tensor<float, dims<2>>{-3, -3}));
    BOOST_TEST(s.get(step) == 1);
  }
}

BOOST_AUTO_TEST_CASE(an_infinity_that_is_clipped_skips_the_step_too) {
  graph g;
  const auto w = variable<double, dims<4>>(g, "w", init::ones{});
  const auto x = placeholder<double, dims<4>>(g, "x");
  loss_scale scale(g, dynamic_loss_scale{});
  auto all = scale.compute_gradients(sum(w * x));
  for (auto& pair : all) pair.gradient = pair.gradient * x.erased();
  auto [of_w] = scale.compute_gradients(sum(w * x), w);
  of_w.gradient = max(min(of_w.gradient, 1.0), -1.0);
  const auto train = scale.apply_gradients(gradient_descent{.learning_rate = 1}, of_w);
  const auto by_list = scale.apply_gradients(gradient_descent{.learning_rate = 1}, all);
  session s(g);
  s.run(fetch(train), with(x, tensor<double, dims<4>>{1, std::numeric_limits<double>::infinity(), 2, 3}));
  BOOST_TEST(same_bits(s.get(w), tensor<double, dims<4>>{1, 1, 1, 1}));
  s.run(fetch(train), with(x, tensor<double, dims<4>>{0.5, 2, -2, 0}));
  BOOST_TEST(same_bits(s.get(w), tensor<double, dims<4>>{0.5, 0, 2, 1}));
  s.run(fetch(by_list), with(x, tensor<double, dims<4>>{1, 2, 3, 0}));
  BOOST_TEST(same_bits(s.get(w), tensor<double, dims<4>>{-0.5, -4, -7, 1}));
}

BOOST_AUTO_TEST_CASE(what_is_no_scale_is_said) {
  graph g;
  const auto w = variable<float>(g, "w", 1.0f);
  loss_scale scale(g, fixed_loss_scale{});
  BOOST_CHECK(test::code_of([&] { static_cast<void>(scale.apply_gradients(adam{}, compute_gradients(w * w))); }) ==
              error_code::invalid_argument);
  for (const dynamic_loss_scale& wrong :
       {dynamic_loss_scale{.initial_scale = 0.5}, dynamic_loss_scale{.growth_interval = 0},
        dynamic_loss_scale{.growth_factor = 1}, dynamic_loss_scale{.backoff_factor = 1},
        dynamic_loss_scale{.min_scale = 0}, dynamic_loss_scale{.max_scale = 1e39},
        dynamic_loss_scale{.initial_scale = std::nan("")}})
    BOOST_CHECK(test::code_of([&] { static_cast<void>(loss_scale(g, wrong)); }) == error_code::invalid_argument);
}

BOOST_AUTO_TEST_CASE(a_model_of_half_trains_with_a_scale_and_not_without) {
  using batch = dims<1024, 8>;
  using targets = dims<1024, 16>;
  for (const bool scaled : {false, true}) {
    graph g(11);
    const auto x = placeholder<float, batch>(g, "x");
    const auto y = placeholder<float, targets>(g, "y");
    const auto w = variable<float, dims<8, 16>>(g, "w");
    const auto loss = mean(square(cast<float>(matmul(cast<half>(x), cast<half>(w))) - y));
    loss_scale scale(g, dynamic_loss_scale{.growth_interval = 100});
    const adam optimizer{.learning_rate = 1e-5};
    const auto train = scaled ? scale.minimize(optimizer, loss) : optimizer.minimize(loss);
    session s(g, {.threads = 1});
    auto step = s.prepare(fetch(loss, train), feed(x, y));
    tensor<float, batch> images;
    for (int i = 0; i < 1024 * 8; ++i) images.data()[i] = static_cast<float>((i * 7919 + i / 8 * 31) % 257 - 128) / 128;
    tensor<float, targets> labels;
    for (int i = 0; i < 1024; ++i)
      for (int j = 0; j < 16; ++j) labels(i, j) = 1e-4f * (images(i, j % 8) - images(i, (j + 3) % 8));
    float first = 0, last = 0;
    for (int t = 0; t < 30; ++t) {
      last = std::get<0>(step(images, labels));
      if (t == 0) first = last;
    }
    const auto weights = s.get(w);
    std::size_t changed = 0;
    for (std::size_t i = 0; i < weights.elements(); ++i) changed += weights.data()[i] != 0;
    if (scaled) {
      BOOST_TEST(last < first / 20);
      BOOST_TEST(changed > 100u);
    } else {
      BOOST_TEST(last == first);
      BOOST_TEST(changed == 0u);
    }
  }
}

namespace {

/// A training with everything.
struct averaged_training {
  graph g{9};
  variable_node<float, dims<4>> w = variable<float, dims<4>>(g, "w", init::normal{});
  node<float, dims<4>> x = placeholder<float, dims<4>>(g, "x");
  loss_scale scale{g, dynamic_loss_scale{.initial_scale = 16, .growth_interval = 2}};
  moving_averages averages = exponential_moving_average{.decay = 0.75, .num_updates = global_step(g)}.apply(
      scale.minimize(adam{.learning_rate = 0.1}, sum(w* x), global_step(g)));
  session s{g, {.threads = 1}};

  void train(int first, int last) {
    auto step = s.prepare(fetch(averages), feed(x));
    for (int t = first; t < last; ++t) {
      auto gradient = gradient_of<float>(t);
      if (t == 4) gradient(0) = std::numeric_limits<float>::infinity();
      step(gradient);
    }
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_saver_keeps_averages_and_scales_and_restores_averages_in_place) {
  const std::string folder = std::filesystem::temp_directory_path() / ("weft_averages_" + std::to_string(::getpid()));
  averaged_training whole, first, second;
  whole.train(0, 9);
  first.train(0, 5);
  std::string path;
  {
    saver keeper({.background = false});
    path = keeper.save(first.s, folder, 5);
    keeper.restore(second.s, path);
  }
  second.train(5, 9);
  BOOST_TEST((bytes_of(second.s) == bytes_of(whole.s)));
  BOOST_TEST(whole.s.get(global_step(whole.g)) == 8);

  saver keeper({.background = false});
  averaged_training again;
  const auto report =
      keeper.restore(again.s, path, {.partial = true, .rename = renaming(again.averages.variables_to_restore())});
  BOOST_TEST(same_bits(again.s.get(again.w), first.s.get(first.averages.average(first.w))));
  BOOST_TEST(!same_bits(again.s.get(again.w), first.s.get(first.w)));

  graph evaluation;
  const auto w = variable<float, dims<4>>(evaluation, "w");
  session s(evaluation);
  keeper.restore(s, path, {.partial = true, .rename = renaming(variables_to_restore(evaluation))});
  BOOST_TEST(same_bits(s.get(w), again.s.get(again.w)));
  std::filesystem::remove_all(folder);
}
