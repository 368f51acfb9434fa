#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <vector>
#include <weft/checkpoint/weights.hpp>
#include <weft/ops/gather.hpp>
#include <weft/train/accumulation.hpp>
#include <weft/train/adagrad.hpp>
#include <weft/train/adamw.hpp>
#include <weft/train/clipping.hpp>
#include <weft/train/decay.hpp>
#include <weft/train/ftrl.hpp>
#include <weft/train/lamb.hpp>
#include <weft/train/schedules.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"

using namespace weft;

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
  const int counts[] = {5, 1, 0, 4};
  tensor<std::int32_t, batch> n(shape{counts[step % 4]});
  for (int i = 0; i < static_cast<int>(n.elements()); ++i)
    n.data()[i] = repeated ? (i * i + step * 3) % 6 : (i * 3 + step) % 7;
  return n;
}
tensor<float, rows> weights_of(int step, std::size_t count) {
  tensor<float, rows> x(shape(static_cast<std::int64_t>(count), 3));
  for (int i = 0; i < static_cast<int>(x.elements()); ++i)
    x.data()[i] = static_cast<float>((step * 31 + i / 3 * 7 + i % 3 * 13) % 17 - 8) / 16;
  return x;
}

/// Reads as many numbers as there are values: how far the two are apart at most, in proportion to 1 and the number.
template <class T>
double distance(std::istream& in, const T* values, std::size_t count) {
  double most = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::string word;
    BOOST_REQUIRE((in >> word));
    const double expected = std::strtod(word.c_str(), nullptr);
    const double apart = std::abs(static_cast<double>(values[i]) - expected) / std::max(1.0, std::abs(expected));
    most = apart <= most ? most : apart;  // also where one is not a number
  }
  return most;
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
  tensor<float, dims<7, 3>> first;
  for (int i = 0; i < 21; ++i) first.data()[i] = static_cast<float>(i - 10) / 4;
  s.set(w, first);
  auto step = s.prepare(fetch(step_of), feed(n, x));
  double most = 0;
  for (int t = 0; t < steps; ++t) {
    const auto a = numbers_of(t, repeated);
    step(a, weights_of(t, a.elements()));
    const float beside = s.get(v);
    most = std::max({most, distance(in, s.get(w).data(), 21), distance(in, &beside, 1)});
  }
  BOOST_TEST((step.explain().find("scatter_add") == std::string::npos) == stays_rows);
  return most;
}

std::ifstream opened(const std::string& file) {
  std::ifstream in(TEST_DATA "/train/" + file);
  BOOST_REQUIRE_MESSAGE(in, file << " cannot be read");
  std::string line;
  std::getline(in, line);
  return in;
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

// What is done to gradients, typed and as symbols.
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
