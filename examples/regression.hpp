#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include <weft/ops/linear_algebra.hpp>
#include <weft/tensor/random.hpp>
#include <weft/train/schedules.hpp>
#include <weft/weft.hpp>

#include "command_line.hpp"
#include "result_file.hpp"

/// The linear function that examples of five features lie about, by least squares, with a penalty on large coefficients
/// or without one. It is found in four ways: from the normal equations, and by descent on all examples at once, on a
/// few and on one at a time. All come to the same coefficients.
namespace regression {

using namespace weft;

/// The first column of the rows is 1, and its coefficient the bias, which is not penalised.
constexpr std::size_t columns = 6;
using row_tensor = tensor<double, dims<dyn<"examples">, columns>>;
using target_tensor = tensor<double, dims<dyn<"examples">, 1>>;
using coefficients = std::array<double, columns>;

constexpr coefficients true_coefficients{3, 2, -1, 0.5, 0, 1.5};
constexpr const char* names[columns] = {"bias", "w1", "w2", "w3", "w4", "w5"};
constexpr std::size_t few = 25;

struct flags {
  std::int64_t examples = 1000, epochs = 500, seed = 1;
  double penalty = 0;
  std::string data, json;
};

/// Normally distributed features, of which the first two are nearly alike, and targets with noise of 0.1 on them.
struct examples {
  row_tensor rows;
  target_tensor targets;

  explicit examples(const flags& f)
      : rows(shape(static_cast<std::size_t>(f.examples), columns)),
        targets(shape(static_cast<std::size_t>(f.examples), 1)) {
    const random_stream random(static_cast<std::uint64_t>(f.seed), 0);
    std::uint64_t drawn = 0;
    for (std::size_t i = 0; i < size(); ++i) {
      double* row = rows.data() + i * columns;
      row[0] = 1;
      for (std::size_t k = 1; k < columns; ++k) row[k] = random.normal(drawn++);
      row[2] = 0.9 * row[1] + std::sqrt(1 - 0.9 * 0.9) * row[2];
      double y = 0.1 * random.normal(drawn++);
      for (std::size_t k = 0; k < columns; ++k) y += row[k] * true_coefficients[k];
      targets.data()[i] = y;
    }
  }
  std::size_t size() const { return static_cast<std::size_t>(rows.extents()[0]); }
  std::string as_csv() const {
    std::string text = "w1,w2,w3,w4,w5,target\n";
    char number[32];
    for (std::size_t i = 0; i < size(); ++i)
      for (std::size_t k = 1; k <= columns; ++k) {
        std::snprintf(number, sizeof number, "%.17g", k < columns ? rows.data()[i * columns + k] : targets.data()[i]);
        text += number;
        text += k < columns ? ',' : '\n';
      }
    return text;
  }
};

/// The mean of the squared errors, and the penalty times the squares of all coefficients but the bias.
struct model {
  graph g;
  node<double, dims<dyn<"examples">, columns>> rows = placeholder<double, dims<dyn<"examples">, columns>>(g, "rows");
  node<double, dims<dyn<"examples">, 1>> targets = placeholder<double, dims<dyn<"examples">, 1>>(g, "targets");
  variable_node<double, dims<columns, 1>> w = variable<double, dims<columns, 1>>(g, "w", init::zeros{});
  node<double> loss;
  std::uint64_t seed;

  explicit model(const flags& f)
      : loss(let(mean(square(matmul(rows, w) - targets)) + sum(square(w) * penalties(f.penalty)))),
        seed(static_cast<std::uint64_t>(f.seed)) {}

  /// The coefficients where the gradient is zero: X'X w + n P w = X'y.
  node<double, dims<columns, 1>> solution(const flags& f) {
    auto products = matmul<transpose_of::a>(rows, rows) +
                    static_cast<double>(f.examples) * penalties(f.penalty) * constant(g, identity());
    return let(solve(products, matmul<transpose_of::a>(rows, targets)));
  }

 private:
  node<double, dims<columns, 1>> penalties(double penalty) {
    tensor<double, dims<columns, 1>> each;
    for (std::size_t k = 0; k < columns; ++k) each.data()[k] = k == 0 ? 0 : penalty;
    return constant(g, each);
  }
  static tensor<double, dims<columns, columns>> identity() {
    tensor<double, dims<columns, columns>> one;
    for (std::size_t k = 0; k < columns; ++k) one.data()[k * columns + k] = 1;
    return one;
  }
};

template <class Tensor>
coefficients read(const Tensor& t) {
  coefficients all;
  std::copy(t.data(), t.data() + columns, all.begin());
  return all;
}

/// One way to the coefficients, and how far from the closed form it may end.
struct way {
  const char* name;
  std::size_t batch;  ///< 0: all examples
  double rate;
  bool falls;  ///< the rate, as one over the steps: else what is left is the noise of the last batches
  double tolerance;
};
constexpr way ways[] = {{"batch descent", 0, 0.25, false, 1e-6},
                        {"mini-batch descent", few, 0.1, true, 0.01},
                        {"stochastic descent", 1, 0.02, true, 0.01}};

struct found {
  std::string name;
  coefficients w;
  double loss = 0, away = 0, tolerance = 0;
  std::int64_t steps = 0;
};

/// What the loss of the whole data is at these coefficients.
inline double loss_at(const flags& f, const examples& all, const coefficients& w) {
  double sum = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    double error = -all.targets.data()[i];
    for (std::size_t k = 0; k < columns; ++k) error += w[k] * all.rows.data()[i * columns + k];
    sum += error * error;
  }
  double loss = sum / static_cast<double>(all.size());
  for (std::size_t k = 1; k < columns; ++k) loss += f.penalty * w[k] * w[k];
  return loss;
}

inline found in_closed_form(const flags& f, const examples& all) {
  model m(f);
  const auto solution = m.solution(f);
  session s(m.g);
  return {"closed form", read(s.eval(solution, with(m.rows, all.rows), with(m.targets, all.targets)))};
}

inline found by_descent(const flags& f, const examples& all, const way& how) {
  model m(f);
  const std::size_t n = all.size(), batch = how.batch == 0 ? n : std::min(how.batch, n);
  const std::size_t batches = (n + batch - 1) / batch;
  auto step = global_step(m.g);
  const auto train = how.falls ? gradient_descent{.learning_rate = inverse_time_decay(
                                                      how.rate, step, 10.0 * static_cast<double>(batches), 1)}
                                     .minimize(m.loss, step)
                               : gradient_descent{.learning_rate = how.rate}.minimize(m.loss, step);
  session s(m.g, {.threads = 1});
  auto run = s.prepare(fetch(train), feed(m.rows, m.targets));

  std::vector<std::size_t> order(n);
  for (std::size_t i = 0; i < n; ++i) order[i] = i;
  const random_stream random(m.seed, 1);
  std::uint64_t drawn = 0;
  for (std::int64_t epoch = 0; epoch < f.epochs; ++epoch) {
    if (batch < n)
      for (std::size_t i = n; i > 1; --i)
        std::swap(order[i - 1], order[static_cast<std::size_t>(random.uniform(drawn++) * static_cast<double>(i))]);
    for (std::size_t first = 0; first < n; first += batch) {
      const std::size_t count = std::min(batch, n - first);
      row_tensor rows(shape(count, columns));
      target_tensor targets(shape(count, 1));
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t from = order[first + i];
        std::copy_n(all.rows.data() + from * columns, columns, rows.data() + i * columns);
        targets.data()[i] = all.targets.data()[from];
      }
      run(rows, targets);
    }
  }
  return {how.name, read(s.get(m.w)), 0, 0, how.tolerance, f.epochs * static_cast<std::int64_t>(batches)};
}

inline void print(const flags& f, const std::vector<found>& all) {
  std::printf("%lld examples, seed %lld, penalty %g\n%-20s", static_cast<long long>(f.examples),
              static_cast<long long>(f.seed), f.penalty, "");
  for (const char* name : names) std::printf(" %9s", name);
  std::printf(" %10s %9s %9s\n", "loss", "steps", "away");
  for (const found& each : all) {
    std::printf("%-20s", each.name.c_str());
    for (const double w : each.w) std::printf(" %9.5f", w);
    std::printf(" %10.7f", each.loss);
    each.steps > 0 ? std::printf(" %9lld %9.1e\n", static_cast<long long>(each.steps), each.away) : std::printf("\n");
  }
}

inline void write_json(const flags& f, const std::vector<found>& all) {
  std::string text;
  for (const found& each : all) {
    std::string w;
    for (const double x : each.w) w += (w.empty() ? "" : ", ") + json_number("%.17g", x);
    text += (text.empty() ? "" : ", ") + ("\"" + each.name) + "\": {\"coefficients\": [" + w +
            "], \"loss\": " + json_number("%.17g", each.loss) + ", \"steps\": " + std::to_string(each.steps) + "}";
  }
  write_file(f.json, "{%s}\n", text.c_str());
}

/// The whole program: prints a table, and throws where one of the ways has not come to the closed form.
inline void run(const flags& f) {
  if (!f.json.empty()) check_writable(f.json);
  const examples all(f);
  if (!f.data.empty()) write_file(f.data, "%s", all.as_csv().c_str());
  std::vector<found> results{{"true", true_coefficients}, in_closed_form(f, all)};
  for (const way& how : ways) results.push_back(by_descent(f, all, how));
  const coefficients exact = results[1].w;
  for (found& each : results) {
    each.loss = loss_at(f, all, each.w);
    for (std::size_t k = 0; k < columns; ++k) each.away = std::max(each.away, std::abs(each.w[k] - exact[k]));
  }
  print(f, results);
  if (!f.json.empty()) write_json(f, results);
  check_output();
  for (const found& each : results)
    if (each.steps > 0 && !(each.away <= each.tolerance)) {
      char why[160];
      std::snprintf(why, sizeof why, "%s is %.1e away from the closed form, more than %g; give it more --epochs",
                    each.name.c_str(), each.away, each.tolerance);
      refuse(why);
    }
}

/// `penalty`: of the program's flag; 0 for one without.
inline int main(int argc, char** argv, const char* purpose, double penalty) try {
  flags f;
  f.penalty = penalty;
  command_line line(purpose);
  line.add("examples", f.examples, 100, 1'000'000, "how many are drawn");
  line.add("epochs", f.epochs, 1, 1'000'000, "times that each kind of descent sees all examples");
  line.add("seed", f.seed, 0, INT64_MAX, "of the examples, and the order in which they are taken");
  if (penalty > 0) line.add("penalty", f.penalty, "on the sum of the squared coefficients");
  line.add("data", f.data, "file for the examples, as CSV");
  line.add("json", f.json, "file for the result, as one JSON object");
  if (line.parse(argc, argv)) run(f);
  check_output();
  return 0;
} catch (const std::bad_alloc&) {
  std::fputs("error: there is not enough memory\n", stderr);
  return 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}

}  // namespace regression
