// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <weft/ops/linear_algebra/lu.hpp>
#include <weft/train/schedules.hpp>
#include <weft/weft.hpp>

#include "command_line.hpp"
#include "result_file.hpp"

/// Coefficients of a linear model of least squares, with a penalty on their squares or without: by the normal equations
/// and by descent, which must agree.
namespace regression {

inline constexpr std::int64_t features = 8;  // the last one is 1: its coefficient is the intercept
using feature_rows = weft::tensor<double, weft::dims<weft::dyn<"batch">, features>>;
using target_rows = weft::tensor<double, weft::dims<weft::dyn<"batch">, 1>>;
using coefficients = weft::tensor<double, weft::dims<features, 1>>;

/// Examples whose targets are a linear function of their features and noise.
struct problem {
  double noise;
  feature_rows x;
  target_rows y;
};

inline problem make_problem(std::int64_t examples, double noise, std::uint64_t seed) {
  problem p{noise, feature_rows(weft::shape(examples, features)), target_rows(weft::shape(examples, 1))};
  const weft::random_stream random(seed, 0);
  std::uint64_t drawn = 0;
  double truth[features];
  for (double& w : truth) w = 4 * random.uniform(drawn++) - 2;
  for (std::int64_t i = 0; i < examples; ++i) {
    double target = noise * random.normal(drawn++);
    for (std::int64_t k = 0; k < features; ++k) {
      p.x(i, k) = k == features - 1 ? 1 : random.normal(drawn++);
      target += truth[k] * p.x(i, k);
    }
    p.y(i, 0) = target;
  }
  return p;
}

/// The least mean of squares plus `penalty` times the squares of all coefficients but the intercept: where the gradient
/// is 0, (x'x / n + penalty) w = x'y / n.
inline coefficients by_normal_equations(const problem& p, double penalty) {
  using namespace weft;
  const double n = static_cast<double>(p.x.extents()[0]);
  tensor<double, dims<features, features>> a = matmul<transpose_of::a>(p.x, p.x) / n;
  for (std::int64_t k = 0; k < features - 1; ++k) a(k, k) += penalty;
  const coefficients b = matmul<transpose_of::a>(p.x, p.y) / n;
  return solve(a, b);
}

/// How descent goes over the examples.
struct descent {
  const char* name;
  std::int64_t batch_size;  // 0: all
  std::int64_t epochs;
  double rate, half_after;  // the rate is half of this after so many steps, a third after twice as many; 0: it stays
  double tolerance;         // how far each coefficient may be from the normal equations', in multiples of the noise
};

inline coefficients by_descent(const problem& p, double penalty, const descent& how, std::uint64_t seed) {
  using namespace weft;
  graph g(seed);
  auto x = placeholder<double, dims<dyn<"batch">, features>>(g, "x");
  auto y = placeholder<double, dims<dyn<"batch">, 1>>(g, "y");
  auto w = variable<double, dims<features, 1>>(g, "w", init::zeros{});
  auto penalised = slice<0, 0, features - 1>(w);
  auto loss = mean(square(matmul(x, w) - y)) + penalty * sum(square(penalised));
  auto step_number = global_step(g);
  hyperparameter rate = how.rate;
  if (how.half_after > 0) rate = inverse_time_decay(how.rate, step_number, how.half_after, 1.0);
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(minimize(gradient_descent{.learning_rate = rate}, loss, w, step_number)), feed(x, y));

  const std::int64_t examples = p.x.extents()[0], batch = how.batch_size > 0 ? how.batch_size : examples;
  std::vector<std::int64_t> order(static_cast<std::size_t>(examples));
  for (std::int64_t i = 0; i < examples; ++i) order[static_cast<std::size_t>(i)] = i;
  for (std::int64_t epoch = 0; epoch < how.epochs; ++epoch) {
    const random_stream random(seed + 1, static_cast<std::uint64_t>(epoch));
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[static_cast<std::size_t>(random.uniform(i) * static_cast<double>(i))]);
    for (std::int64_t from = 0; from < examples; from += batch) {
      const std::int64_t count = std::min(batch, examples - from);
      feature_rows some_x(shape(count, features));
      target_rows some_y(shape(count, 1));
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t row = order[static_cast<std::size_t>(from + i)];
        for (std::int64_t k = 0; k < features; ++k) some_x(i, k) = p.x(row, k);
        some_y(i, 0) = p.y(row, 0);
      }
      step(some_x, some_y);
    }
  }
  return s.get(w);
}

inline double largest_difference(const coefficients& a, const coefficients& b) {
  double largest = 0;
  for (std::int64_t k = 0; k < features; ++k) largest = std::fmax(largest, std::fabs(a(k, 0) - b(k, 0)));
  return largest;
}

inline void print(const char* name, const coefficients& w) {
  std::printf("%-18s", name);
  for (std::int64_t k = 0; k < features; ++k) std::printf(" %8.4f", w(k, 0));
}

/// Prints the coefficients that each way finds. Throws where descent has not reached those of the normal equations.
inline void compare(const problem& p, double penalty, std::uint64_t seed) {
  const coefficients exact = by_normal_equations(p, penalty);
  print("normal equations", exact);
  std::puts("   largest difference");
  std::string missed;
  for (const descent& how :
       {descent{"batch", 0, 300, 0.2, 0, 1e-6}, descent{"mini-batch of 20", 20, 500, 0.1, 200, 0.001},
        descent{"stochastic", 1, 500, 0.02, 1000, 0.001}}) {
    const coefficients found = by_descent(p, penalty, how, seed);
    const double difference = largest_difference(exact, found);
    print(how.name, found);
    const double most = how.tolerance * p.noise;
    std::printf("   %.1e, at most %.1e\n", difference, most);
    if (!(difference <= most)) missed += (missed.empty() ? "" : ", ") + std::string(how.name);
  }
  check_output();
  if (!missed.empty()) refuse("gradient descent did not reach the coefficients of the normal equations: " + missed);
}

/// The command line of both programs, and how they end.
template <class Run>
int main(int argc, char** argv, const char* purpose, double penalty, bool takes_penalty, Run run) try {
  std::int64_t examples = 1000, seed = 1;
  double noise = 0.5;
  command_line line(purpose);
  line.add("examples", examples, 100, 1'000'000, "number of random examples");
  line.add("noise", noise, "standard deviation of the noise added to the targets");
  if (takes_penalty) line.add("penalty", penalty, "penalty on the squares of the coefficients");
  line.add("seed", seed, 0, INT64_MAX, "seed of the examples and their order");
  if (!line.parse(argc, argv)) {
    check_output();
    return 0;
  }
  run(make_problem(examples, noise, static_cast<std::uint64_t>(seed)), penalty, static_cast<std::uint64_t>(seed));
  return 0;
} catch (...) {
  return tell_failure();
}

}  // namespace regression
