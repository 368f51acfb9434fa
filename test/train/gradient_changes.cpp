// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <vector>
#include <weft/checkpoint/weights.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/train/accumulation.hpp>
#include <weft/train/adagrad.hpp>
#include <weft/train/adamw.hpp>
#include <weft/train/clipping.hpp>
#include <weft/train/decay.hpp>
#include <weft/train/ftrl.hpp>
#include <weft/train/lamb.hpp>
#include <weft/train/schedules.hpp>
#include <weft/weft.hpp>

#include "data/files.hpp"
#include "errors.hpp"
#include "train/fed_gradients.hpp"

using namespace weft;
using test::distance, test::first_rows, test::opened, test::row_numbers, test::row_weights;

namespace {

using batch = dims<dyn<"batch">>;
using rows = dims<dyn<"batch">, 3>;
constexpr int steps = 12;

// As make_gradient_change_values.py has them.
template <class T>
void set_gradients(int step, tensor<T, dims<4>>& w, tensor<T, dims<2, 1>>& v) {
  const double sizes[] = {1, 0x1p-10, 0x1p2, 0x1p-20, 1, 1};
  for (int i = 0; i < 6; ++i) {
    const double g =
        (step + i) % 7 == 3 ? 0 : ((step * 7919 + i * 31) % 257 - 128) / 64.0 * std::exp2(1 - step % 4) * sizes[i];
    (i < 4 ? w.data()[i] : v.data()[i - 4]) = static_cast<T>(g);
  }
}
tensor<std::int32_t, batch> numbers_of(int step, bool repeated) {
  return row_numbers<batch>(step, 4, [=](int i) { return repeated ? (i * i + step * 3) % 6 : (i * 3 + step) % 7; });
}

/// `train(loss, w, v)` makes the training step; with `erased` of all variables, as symbols.
template <class T, class Train>
double distance_of(std::istream& in, Train train) {
  graph g;
  const auto w = variable(g, "w", tensor<T, dims<4>>{1, -0.5, 3, 0.25});
  const auto v = variable(g, "v", tensor<T, dims<2, 1>>{-1.5, 0});
  const auto x = placeholder<T, dims<4>>(g, "x");
  const auto y = placeholder<T, dims<2, 1>>(g, "y");
  const auto step_of = train(let(sum(w * x) + sum(v * y)), w, v);
  session s(g, {.threads = 1});
  auto step = s.prepare(fetch(step_of), feed(x, y));
  double most = 0;
  for (int t = 0; t < steps; ++t) {
    tensor<T, dims<4>> a;
    tensor<T, dims<2, 1>> b;
    set_gradients(t, a, b);
    step(a, b);
    most = std::max({most, distance(in, s.get(w).data(), 4), distance(in, s.get(v).data(), 2)});
  }
  return most;
}

template <class Train>
double distance_by_rows(std::istream& in, bool repeated, bool stays_rows, Train train) {
  graph g;
  const auto w = variable<float, dims<7, 3>>(g, "w");
  const auto v = variable<float>(g, "v", 1.0f);
  const auto n = placeholder<std::int32_t, batch>(g, "n");
  const auto x = placeholder<float, rows>(g, "x");
  const auto step_of = train(let(sum(gather(w, n) * x) + v * 0.25f), w, v);
  session s(g, {.threads = 1});
  s.set(w, first_rows());
  auto step = s.prepare(fetch(step_of), feed(n, x));
  double most = 0;
  for (int t = 0; t < steps; ++t) {
    const auto a = numbers_of(t, repeated);
    step(a, row_weights<rows>(t, a.elements()));
    const float beside = s.get(v);
    most = std::max({most, distance(in, s.get(w).data(), 21), distance(in, &beside, 1)});
  }
  BOOST_TEST((step.explain().find("scatter_add") == std::string::npos) == stays_rows);
  return most;
}

template <class Train>
void check(std::istream& in, const std::string& name, Train train) {
  std::string type;
  in >> type;
  const double apart = type == "double" ? distance_of<double>(in, train) : distance_of<float>(in, train);
  BOOST_CHECK_MESSAGE(apart <= (type == "double" ? 1e-14 : 2e-6), name << " " << type << ": " << apart);
}
template <class Train>
void check_rows(std::istream& in, const std::string& name, bool repeated, bool stays_rows, Train train) {
  const double apart = distance_by_rows(in, repeated, stays_rows, train);
  BOOST_CHECK_MESSAGE(apart <= 2e-6, "rows " << name << ": " << apart);
}

// Changes of gradients, typed and as symbols.
constexpr auto by_value = [](const auto& g) { return clip_by_value(g, -0.5, 0.75); };
constexpr auto by_norm = [](const auto& g) { return clip_by_norm(g, 0.75); };
constexpr auto by_global_norm = [](const auto& g) { return clip_by_global_norm(g, 1.5); };
template <class Optimizer, class Change>
auto typed(const Optimizer& o, Change change) {
  return [=](const auto& loss, const auto& w, const auto& v) {
    return apply_gradients(o, change(compute_gradients(loss, w, v)));
  };
}
template <class Optimizer, class Change>
auto erased(const Optimizer& o, Change change) {
  return
      [=](const auto& loss, const auto&, const auto&) { return apply_gradients(o, change(compute_gradients(loss))); };
}

const momentum by_momentum{.learning_rate = 0.25, .momentum = 0.5};
const adam by_adam{.learning_rate = 0.125, .beta1 = 0.5, .beta2 = 0.75, .epsilon = 0x1p-10};

}  // namespace

BOOST_AUTO_TEST_CASE(gradients_are_clipped_and_variables_decay_as_tensorflows) {
  std::ifstream in = opened("tensorflow_gradient_change_values.txt");
  std::string form, name;
  int cases = 0;
  for (; in >> form >> name; ++cases) {
    if (form == "rows") {
      if (name == "value_momentum")
        check_rows(in, name, false, true,
                   typed(by_momentum, [](const auto& g) { return clip_by_value(g, -0.25, 0.125); }));
      else if (name == "norm_momentum")
        check_rows(in, name, false, true, erased(by_momentum, [](const auto& g) { return clip_by_norm(g, 0.5); }));
      else if (name == "global_norm_momentum")
        check_rows(in, name, false, true,
                   typed(by_momentum, [](const auto& g) { return clip_by_global_norm(g, 0.5); }));
      else if (name == "global_norm_repeated")
        check_rows(in, name, true, true,
                   erased(by_momentum, [](const auto& g) { return clip_by_global_norm(g, 0.5); }));
      else if (name == "global_norm_adam")
        check_rows(in, name, true, false, typed(by_adam, [](const auto& g) { return clip_by_global_norm(g, 0.5); }));
      else
        BOOST_FAIL("a case called " + name);
    } else if (name == "value_momentum") {
      check(in, name, typed(by_momentum, by_value));
    } else if (name == "norm_adam") {
      check(in, name, typed(by_adam, by_norm));
    } else if (name == "global_norm_momentum") {
      check(in, name, erased(by_momentum, by_global_norm));
    } else if (name == "global_norm_adam") {
      check(in, name, typed(by_adam, by_global_norm));
    } else if (name == "l2_momentum") {
      check(in, name, [](const auto& loss, const auto& w, const auto& v) {
        return by_momentum.minimize(loss + 0.125f * l2_penalty(w, v));
      });
    } else if (name == "l1_adam") {
      check(in, name, typed(by_adam, [](const auto& g) { return add_l1(g, 0.0625); }));
    } else if (name == "decoupled_momentum") {
      check(in, name, [](const auto& loss, const auto& w, const auto& v) {
        return decoupled_weight_decay{by_momentum, 0.0625}.minimize(loss, w, v);
      });
    } else if (name == "decoupled_adam") {
      check(in, name, erased(decoupled_weight_decay{by_adam, 0.0625}, [](const auto& g) { return g; }));
    } else if (name == "decoupled_ftrl") {
      const ftrl by_ftrl{.learning_rate = 0.25, .initial_accumulator_value = 0.5, .l1 = 0.125, .l2 = 0.25};
      check(in, name, typed(decoupled_weight_decay{by_ftrl, 0.0625}, [](const auto& g) { return g; }));
    } else {
      BOOST_FAIL("a case called " + name);
    }
  }
  BOOST_TEST(cases == 9 * 2 + 5);
}

BOOST_AUTO_TEST_CASE(gradients_are_clipped_and_variables_decay_as_pytorchs) {
  std::ifstream in = opened("torch_gradient_change_values.txt");
  std::string form, name;
  int cases = 0;
  const adam plain{.learning_rate = 0.125, .beta1 = 0.5, .beta2 = 0.75, .epsilon = 1e-30};
  for (; in >> form >> name; ++cases) {
    if (name == "clip_grad_norm")  // which divides by the norm and a little
      check(in, name,
            typed(by_momentum, [](const auto& g) { return clip_by_global_norm(g, 1.5, global_norm(g) + 1e-6f); }));
    else if (name == "clip_grad_value")
      check(in, name, erased(by_momentum, [](const auto& g) { return clip_by_value(g, -0.5, 0.5); }));
    else if (name == "weight_decay")
      check(in, name, typed(by_momentum, [](const auto& g) { return add_l2(g, 0.125); }));
    else if (name == "adam_weight_decay")
      check(in, name, erased(plain, [](const auto& g) { return add_l2(g, 0.125); }));
    else if (name == "adamw")  // decay times the learning rate
      check(in, name, typed(decoupled_weight_decay{plain, 0.125 * 0.25}, [](const auto& g) { return g; }));
    else
      BOOST_FAIL("a case called " + name);
  }
  BOOST_TEST(cases == 5 * 2);
}

BOOST_AUTO_TEST_CASE(norms_that_are_not_finite_and_zero) {
  graph g;
  const auto w = variable<float, dims<2>>(g, "w");
  const auto v = variable<float>(g, "v", 1.0f);
  const auto x = placeholder<float, dims<2>>(g, "x");
  const auto pairs = compute_gradients(sum(w * x) + v, w, v);
  const auto [of_w, of_v] = clip_by_global_norm(pairs, 2);
  const auto [alone, beside] = clip_by_norm(pairs, 2);
  const auto norm = global_norm(pairs);
  static_assert(std::is_same_v<decltype(norm), const node<float>>);
  session s(g);
  auto step = s.prepare(fetch(of_w.gradient, of_v.gradient, alone.gradient, beside.gradient, norm), feed(x));
  const auto run = [&](float a, float b) { return step(tensor<float, dims<2>>{a, b}); };
  const float infinity = std::numeric_limits<float>::infinity();
  {  // tf.clip_by_global_norm makes all of them NaN, clip_by_norm those that are infinite
    const auto [a, b, c, d, n] = run(infinity, 1);
    BOOST_TEST((std::isnan(a(0)) && std::isnan(a(1)) && std::isnan(b)));
    BOOST_TEST((std::isnan(c(0)) && c(1) == 0 && d == 1));
    BOOST_TEST(n == infinity);
  }
  {
    const auto [a, b, c, d, n] = run(std::nanf(""), 1);
    BOOST_TEST((std::isnan(a(0)) && std::isnan(a(1)) && std::isnan(b) && std::isnan(n)));
  }
  {
    const auto [a, b, c, d, n] = run(0, 0);
    BOOST_TEST((a(0) == 0 && b == 1 && c(0) == 0 && d == 1 && n == 1));
  }
  {
    const auto [a, b, c, d, n] = run(3, 4);  // the norm is the root of 26
    BOOST_TEST(std::abs(n - std::sqrt(26.0f)) < 1e-6f);
    BOOST_TEST((std::abs(a(1) - 8 / std::sqrt(26.0f)) < 1e-6f && std::abs(c(1) - 1.6f) < 1e-6f && d == 1));
  }
}

BOOST_AUTO_TEST_CASE(bounds_are_numbers_or_nodes_and_wrong_ones_are_refused) {
  graph g;
  const auto w = variable<float, dims<3>>(g, "w");
  const auto v = variable<double, dims<3>>(g, "v");
  const auto bound = placeholder<float>(g, "bound");
  const auto x = constant(g, tensor<float, dims<3>>{3, -4, 0});
  const auto of_w = compute_gradients(sum(w * x), w);
  const auto of_both = std::tuple{std::get<0>(of_w), std::get<0>(compute_gradients(sum(v * 12.0), v))};
  const auto clipped = clip_by_value(std::get<0>(of_w), -bound, bound);  // one alone
  const auto [scaled] = clip_by_norm(of_w, bound);
  const auto [narrow, wide] = clip_by_global_norm(of_both, bound);
  static_assert(std::is_same_v<decltype(global_norm(of_both)), node<double>>);
  session s(g);
  const auto [a, b, c, d] =
      s.run(fetch(clipped.gradient, scaled.gradient, narrow.gradient, wide.gradient), with(bound, 1.0f));
  BOOST_TEST((a(0) == 1 && a(1) == -1 && a(2) == 0));
  BOOST_TEST((std::abs(b(0) - 0.6f) < 1e-6f && std::abs(b(1) + 0.8f) < 1e-6f && b(2) == 0));
  const double norm = std::sqrt(25 + 3 * 144);
  BOOST_TEST((std::abs(c(1) + 4 / norm) < 1e-7 && std::abs(d(2) - 12 / norm) < 1e-15));

  const auto value = eval(clip_by_value(tensor<float, dims<3>>{3, -4, 0.5f}, -1.0f, 2.0f));
  BOOST_TEST((value(0) == 2 && value(1) == -1 && value(2) == 0.5f));
  const auto unit = s.eval(clip_by_norm(x * 2.0f, 1.0f));
  BOOST_TEST((std::abs(unit(0) - 0.6f) < 1e-6f && unit(2) == 0));
  const auto rows = eval(clip_by_norm<1>(tensor<float, dims<3, 2>>{3, 4, 0, 0.5f, 0, 0}, 1.0f));
  BOOST_TEST((std::abs(rows(0, 1) - 0.8f) < 1e-6f && rows(1, 1) == 0.5f && rows(2, 0) == 0));

  const auto says = [](auto make, const char* text) {
    CHECK_SAYS(test::failure(error_code::invalid_argument, make), text);
  };
  says([&] { (void)clip_by_value(of_w, 1, -1); }, "the lowest value must not exceed the highest");
  says([&] { (void)clip_by_norm(of_w, 0); }, "must be above 0");
  says([&] { (void)clip_by_global_norm(of_w, std::nan("")); }, "must be above 0");
  says([&] { (void)add_l2(of_w, -0.5); }, "the rate must be finite and at least 0");
  says([&] { (void)global_norm(variable_gradients<float>{}); }, "there are no gradients");
  graph other;
  const auto u = variable<float, dims<3>>(other, "u");
  says([&] { (void)global_norm(std::tuple_cat(of_w, compute_gradients(sum(u), u))); }, "different graphs");
  auto list = compute_gradients(sum(w * x));
  (*list.begin()).gradient = list.begin()->gradient * 2.0 + sum(list.begin()->gradient);
  (void)clip_by_norm(list, 1);
  (*list.begin()).gradient = sum(list.begin()->gradient);
  says([&] { (void)clip_by_norm(list, 1); },
       "the gradient of w is float of extents [], but must match the variable, float of [3]");
}

// The same norm is one node, however often it is asked for.
BOOST_AUTO_TEST_CASE(the_norm_is_computed_once) {
  graph g;
  const auto w = variable<float, dims<3>>(g, "w");
  const auto pairs = compute_gradients(sum(square(w - 1.0f)), w);
  const auto norm = global_norm(pairs);
  const std::size_t nodes = g.size();
  BOOST_TEST(global_norm(pairs).id().node == norm.id().node);
  BOOST_TEST(g.size() == nodes);
}

BOOST_AUTO_TEST_CASE(penalties_have_the_gradients_that_differences_say) {
  graph g;
  const auto w = variable(g, "w", tensor<double, dims<2, 2>>{0.5, -1.5, 2, -0.25});
  const auto b = variable(g, "b", tensor<double, dims<2>>{-3, 0.125});
  const auto penalty = let(0.3 * l2_penalty(w, b) + 0.7 * l1_penalty(w, b));
  const auto [dw, db] = gradients(penalty, w, b);
  const auto zero = compute_gradients(sum(w) * 0.0 + sum(b) * 0.0, w, b);
  const auto [of_w, of_b] = add_l1(add_l2(zero, 0.3), 0.7);
  session s(g);
  const auto [a, c, d, e] = s.run(fetch(dw, db, of_w.gradient, of_b.gradient));
  for (int i = 0; i < 6; ++i) {
    const auto at = [&](double h) {
      auto x = s.get(w);
      auto y = s.get(b);
      const auto kept_x = x;
      const auto kept_y = y;
      (i < 4 ? x.data()[i] : y.data()[i - 4]) += h;
      s.set(w, x);
      s.set(b, y);
      const double p = s.eval(penalty);
      s.set(w, kept_x);
      s.set(b, kept_y);
      return p;
    };
    const double slope = (at(1e-5) - at(-1e-5)) / 2e-5;
    BOOST_TEST(std::abs((i < 4 ? a.data()[i] : c.data()[i - 4]) - slope) < 1e-9);
    BOOST_TEST(std::abs((i < 4 ? d.data()[i] : e.data()[i - 4]) - slope) < 1e-9);
  }
}

namespace {

/// A small regression, of rows of a table too.
struct model {
  graph g;
  variable_node<double, dims<3, 2>> w = variable(g, "w", tensor<double, dims<3, 2>>{0.5, -1, 0.25, 2, -0.5, 1});
  variable_node<double, dims<2>> b = variable<double, dims<2>>(g, "b", init::zeros{});
  variable_node<double, dims<6, 2>> table = variable<double, dims<6, 2>>(g, "table", 0.5);
  variable_node<double> seen = variable<double>(g, "seen", 0.0, variable_kind::averaged);
  variable_node<std::int64_t> step = global_step(g);
  node<double, rows> x = placeholder<double, rows>(g, "x");
  node<double, dims<dyn<"batch">, 2>> y = placeholder<double, dims<dyn<"batch">, 2>>(g, "y");
  node<std::int32_t, batch> n = placeholder<std::int32_t, batch>(g, "n");
  node<double> loss;

  model() {
    const auto h = let(tanh(matmul(x, w) + b) * gather(table, n));
    add_update(assign_add(seen, mean(h)));
    loss = let(mean(square(h - y)));
  }
};
struct data {
  tensor<double, rows> x;
  tensor<double, dims<dyn<"batch">, 2>> y;
  tensor<std::int32_t, batch> n;
  /// Examples [begin, end) of a step. Row 5 is never taken, row 4 in one step alone.
  data(int step, int begin, int end) : x(shape(end - begin, 3)), y(shape(end - begin, 2)), n(shape{end - begin}) {
    for (int e = begin; e < end; ++e) {
      const int at = e - begin;
      for (int i = 0; i < 3; ++i) x.data()[at * 3 + i] = ((step * 37 + e * 11 + i * 5) % 23 - 11) / 8.0;
      for (int i = 0; i < 2; ++i) y.data()[at * 2 + i] = ((step * 13 + e * 7 + i * 3) % 19 - 9) / 8.0;
      n.data()[at] = step == 1 && e == 7 ? 4 : (step + e * e) % 4;
    }
  }
};

/// Five steps of the large batch, and of micro-batches of these sizes each: the same variables, slots and count of
/// steps.
template <class Optimizer, class Change>
double distance_from_large_batch(const Optimizer& o, Change change, bool typed_gradients,
                                 const std::vector<int>& sizes = {3, 3, 3, 3}) {
  constexpr int examples = 12;
  model large, small;
  const auto train = apply_gradients(o, change(compute_gradients(large.loss)), large.step);
  effect add, train_small;
  if (typed_gradients) {
    const auto sums = accumulate_gradients(compute_gradients(small.loss, small.w, small.b, small.table));
    add = sums.add, train_small = apply_gradients(o, change(sums.mean), small.step);
  } else {
    const auto sums = accumulate_gradients(compute_gradients(small.loss));
    add = sums.add, train_small = apply_gradients(o, change(sums.mean), small.step);
  }
  session a(large.g, {.threads = 1}), b(small.g, {.threads = 1});
  auto run_large = a.prepare(fetch(train), feed(large.x, large.y, large.n));
  auto run_add = b.prepare(fetch(add), feed(small.x, small.y, small.n));
  double most = 0;
  for (int t = 0; t < 5; ++t) {
    const data all(t, 0, examples);
    run_large(all.x, all.y, all.n);
    const auto before = b.get(small.w);
    int e = 0;
    for (const int size : sizes) {
      const data part(t, e, e + size);
      e += size;
      run_add(part.x, part.y, part.n);
      BOOST_TEST(b.eval(small.step) == t);
      BOOST_TEST(b.get(small.w)(0, 0) == before(0, 0));
    }
    BOOST_TEST(e == examples);
    b.run(fetch(train_small));
    BOOST_TEST(b.eval(small.step) == t + 1);
    // Variables and slots by their names: those of the sums are the small one's alone.
    for (const variable_description& v : variables(large.g)) {
      if (v.type != dtype::float64) continue;
      const auto read = [&](auto& g, session& s) {
        std::vector<double> values(v.extents.elements());
        for (std::uint32_t n = 0; n < g.size(); ++n)
          if (is_operation<variable_op>(g[n].def.op) && g[n].name == v.name) s.read_variable(n, values.data());
        return values;
      };
      const auto x = read(large.g, a), y = read(small.g, b);
      const bool noted = v.name == "seen";  // four means in place of one
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (noted && (sizes.size() == 1 || sizes[0] != sizes[1])) continue;
        const double apart = std::abs(x[i] - (noted ? y[i] / 4 : y[i])) / std::max(1.0, std::abs(x[i]));
        most = apart <= most ? most : apart;
      }
    }
  }
  return most;
}

}  // namespace

BOOST_AUTO_TEST_CASE(accumulated_gradients_train_as_the_large_batch) {
  const auto as_it_is = [](const auto& g) { return g; };
  const auto check = [](const char* name, double apart) { BOOST_CHECK_MESSAGE(apart <= 1e-12, name << ": " << apart); };
  check("descent", distance_from_large_batch(gradient_descent{.learning_rate = 0.1}, as_it_is, true));
  check("momentum", distance_from_large_batch(momentum{.learning_rate = 0.1}, as_it_is, true));
  check("momentum of all", distance_from_large_batch(momentum{.learning_rate = 0.1}, as_it_is, false));
  check("adam", distance_from_large_batch(adam{.learning_rate = 0.1}, as_it_is, true));
  check("adagrad, clipped",
        distance_from_large_batch(
            adagrad{.learning_rate = 0.1}, [](const auto& g) { return clip_by_global_norm(g, 0.25); }, false));
  check("lamb", distance_from_large_batch(lamb{.learning_rate = 0.1}, as_it_is, false));
  // The mean of all examples, and not of the micro-batches' means.
  for (const auto& sizes : {std::vector<int>{5, 4, 3}, {1, 10, 1}, {11, 1}, {12}})
    for (const bool typed : {false, true}) {
      check("adam, sizes that differ", distance_from_large_batch(adam{.learning_rate = 0.1}, as_it_is, typed, sizes));
      check("descent, sizes that differ",
            distance_from_large_batch(gradient_descent{.learning_rate = 0.1}, as_it_is, typed, sizes));
    }
}

BOOST_AUTO_TEST_CASE(sums_begin_anew_and_are_of_what_is_trained) {
  graph g;
  const auto w = variable(g, "w", tensor<float, dims<2>>{1, 2});
  const auto x = placeholder<float, dims<2>>(g, "x");
  const auto sums = accumulate_gradients(compute_gradients(sum(w * x), w));
  const auto train = apply_gradients(gradient_descent{.learning_rate = 1}, sums.mean);
  session s(g);
  s.run(fetch(train));  // the mean of none: nothing moves
  BOOST_TEST((s.get(w)(0) == 1 && s.get(w)(1) == 2));
  const auto add = [&](float a, float b) { s.run(fetch(sums.add), with(x, tensor<float, dims<2>>{a, b})); };
  add(1, 0), add(2, 8), add(3, 1);
  s.run(fetch(train));
  BOOST_TEST((s.get(w)(0) == -1 && s.get(w)(1) == -1));
  add(-4, 1);  // the mean of one
  s.run(fetch(train));
  BOOST_TEST((s.get(w)(0) == 3 && s.get(w)(1) == -2));
  for (const auto& v : variables(g))
    BOOST_CHECK_MESSAGE(v.kind == (v.name == "w" ? variable_kind::trained : variable_kind::local), v.name);

  const auto kept = variable<float>(g, "kept", 1.0f, variable_kind::averaged);
  const auto of_w = std::get<0>(compute_gradients(sum(w * x), w));
  CHECK_SAYS(test::failure(error_code::invalid_argument,
                           [&] { (void)accumulate_gradients(variable_gradient{sum(of_w.gradient), kept}); }),
             "the variable kept is averaged: minimize() updates only trained variables");
}

BOOST_AUTO_TEST_CASE(frozen_variables_are_saved_and_never_trained) {
  graph g;
  const auto in_scope = [&](const char* scope) {
    const variable_scope here(g, scope);
    return variable<double, dims<2>>(g, "w", init::ones{});
  };
  const auto w = in_scope("encoder"), v = in_scope("encoder_2"), u = in_scope("head");
  const auto fixed = variable<double>(g, "fixed", 2.0, variable_kind::frozen);
  const auto kept = variable<double>(g, "encoder/kept", 0.5, variable_kind::averaged);
  BOOST_TEST(freeze(g, "encoder") == 1u);  // neither what is averaged nor encoder_2
  BOOST_TEST(freeze(g, "encoder/w") == 0u);
  freeze(v);
  BOOST_TEST(variables(g, variable_kind::frozen).size() == 3u);
  BOOST_TEST(to_string(g).find("variable, frozen") != std::string::npos);
  const auto loss = let(sum(square(w + v + u)) * fixed * kept);
  const auto train = gradient_descent{.learning_rate = 0.125}.minimize(loss);
  session s(g);
  s.run(fetch(train));
  BOOST_TEST((s.get(w)(0) == 1 && s.get(v)(0) == 1 && s.eval(fixed) == 2));
  BOOST_TEST(s.get(u)(0) == 1 - 0.125 * 2 * 3);

  const auto [of_w] = gradients(loss, w);  // which says nothing of training
  BOOST_TEST(s.eval(of_w)(0) != 0);
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { (void)compute_gradients(loss, w); }),
             "the variable encoder/w is frozen: minimize() updates only trained variables");
  CHECK_SAYS(test::failure(error_code::failed_precondition, [&] { freeze(g, "head"); }),
             "the variable head/w is updated by gradient_descent: freeze it before minimize() or apply_gradients()");
  CHECK_SAYS(test::failure(error_code::not_found, [&] { freeze(g, "decoder"); }), "there is no trained variable");
  CHECK_SAYS(test::failure(error_code::invalid_argument, [&] { freeze(kept); }),
             "the variable encoder/kept is averaged, so it is never trained");
  {  // used again as if it were trained
    const variable_scope again(g, "encoder", reuse::yes);
    BOOST_TEST((variable<double, dims<2>>(g, "w", init::ones{}).id() == w.id()));
  }
  // Files of weights have it, and it is restored.
  s.set(w, tensor<double, dims<2>>{7, 8});
  const folder f;
  const std::string path = f.path / "frozen.safetensors";
  save_weights(path, s);
  session other(g);
  load_weights(path, other);
  BOOST_TEST((other.get(w)(1) == 8 && other.eval(fixed) == 2));

  BOOST_TEST(unfreeze(g, "") == 3u);
  session again(g);
  again.run(fetch(gradient_descent{.learning_rate = 0.125}.minimize(loss, w)));
  BOOST_TEST(again.get(w)(0) == 1 - 0.125 * 2 * 3);
}
