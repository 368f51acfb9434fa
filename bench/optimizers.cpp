// SPDX-License-Identifier: BSL-1.0
// Times the updates of optimizers: of 25 million parameters in 100 variables whose gradients are there, beside a copy,
// as peers' programs do it, and a step of a deep chain of small layers. Prints one JSON object for each.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>
#include <weft/weft.hpp>

#include "timing.hpp"

using namespace weft;

namespace {

constexpr const char* usage =
    "bench_optimizers [copy | sgd | momentum | adam | chain [--layers N] [--optimizer 0|1|2]] [--threads N] "
    "[--seconds S]";

constexpr std::int64_t each = 250'000;
constexpr int tensors = 100;
constexpr double parameters = 1.0 * each * tensors;

void copy(int threads, double seconds) {
  const auto n = static_cast<std::size_t>(4 * parameters);
  std::vector<float> x(n, 1), y(n, 2);
  thread_pool pool(threads);
  const bench::timing t = bench::time({.seconds = seconds, .warm_up = 3}, [&] {
    const auto parts = static_cast<std::size_t>(threads);
    pool.parallel_for(parts, [&](std::size_t i) {
      const std::size_t from = n * i / parts, to = n * (i + 1) / parts;
      std::memcpy(&y[from], &x[from], (to - from) * sizeof(float));
    });
    bench::clobber();
  });
  std::printf(
      "{\"peer\": \"memcpy\", \"optimizer\": \"copy\", \"threads\": %d, \"ms_median\": %.3f, \"ms_min\": %.3f, "
      "\"GBs\": "
      "%.2f}\n",
      threads, t.median * 1e3, t.least * 1e3, 32 * parameters / t.median / 1e9);
  std::fflush(stdout);
}

/// `arrays` are read or written in an update, as the peers count.
template <class Optimizer>
void update(const char* name, const Optimizer& optimizer, int arrays, int threads, double seconds) {
  graph g(1);
  variable_gradients<float> pairs;
  for (int i = 0; i < tensors; ++i) {
    auto w = variable<float, dims<each>>(g, "w" + std::to_string(i), init::uniform{0, 1});
    auto of_w = variable<float, dims<each>>(g, "gradient" + std::to_string(i), init::uniform{0, 1});
    pairs.pairs.push_back({of_w.erased(), w.erased()});
  }
  session s{g, {.threads = threads}};
  auto step = s.prepare(fetch(apply_gradients(optimizer, pairs)));
  const bench::timing t = bench::time({.seconds = seconds, .warm_up = 3}, [&] { step(); });
  std::printf(
      "{\"peer\": \"weft\", \"optimizer\": \"%s\", \"parameters\": %.0f, \"threads\": %d, \"ms_median\": %.3f, "
      "\"ms_min\": %.3f, \"GBs\": %.2f}\n",
      name, parameters, threads, t.median * 1e3, t.least * 1e3, 4 * parameters * arrays / t.median / 1e9);
  std::fflush(stdout);
}

/// A step of N layers of 8 by 8, batch 1.
template <class Optimizer>
void chain(const char* name, const Optimizer& optimizer, int layers, int threads, double seconds) {
  using inputs = dims<dyn<"batch">, 8>;
  graph g(1);
  auto x = placeholder<float, inputs>(g, "inputs");
  node<float, inputs> value = x;
  for (int i = 0; i < layers; ++i) {
    const name_scope within(g, "layer" + std::to_string(i));
    auto w = variable<float, dims<8, 8>>(g, "weights", init::uniform{-0.5, 0.5});
    auto b = variable<float, dims<8>>(g, "bias", init::zeros{});
    value = let(tanh(matmul(value, w) + b) * 0.01f + value);  // so that gradients do not vanish
  }
  auto train = minimize(optimizer, mean(square(value)));
  session s{g, {.threads = threads}};
  auto step = s.prepare(fetch(train), feed(x));
  tensor<float, inputs> one{shape(1, 8)};
  bench::fill(one.data(), one.elements(), 0, 1);
  const bench::timing t = bench::time({.seconds = seconds}, [&] { step(one); });
  const std::string text = step.explain();
  const std::size_t end = text.rfind(" kernels; "), begin = text.rfind('\n', end) + 1;
  std::printf(
      "{\"peer\": \"weft\", \"optimizer\": \"%s\", \"layers\": %d, \"threads\": %d, \"ms_median\": %.3f, \"ms_min\": "
      "%.3f, \"memory\": \"%s\"}\n",
      name, layers, threads, t.median * 1e3, t.least * 1e3, text.substr(begin, text.find('\n', begin) - begin).c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  bench::arguments a(argc, argv);
  const int threads = a.take("--threads", 2), layers = a.take("--layers", 2000), which = a.take("--optimizer", -1);
  const double seconds = a.take("--seconds", 4.0);
  bool all = a.empty();
  const auto wanted = [&](const char* word) { return a.take(word) || all; };
  if (wanted("copy")) copy(threads, seconds);
  if (wanted("sgd")) update("sgd", gradient_descent{.learning_rate = 1e-3}, 3, threads, seconds);
  if (wanted("momentum")) update("momentum", momentum{.learning_rate = 1e-3}, 5, threads, seconds);
  if (wanted("adam")) update("adam", adam{}, 7, threads, seconds);
  if (wanted("chain")) {
    if (which < 0 || which == 0) chain("sgd", gradient_descent{.learning_rate = 1e-6}, layers, threads, seconds);
    if (which < 0 || which == 1) chain("momentum", momentum{.learning_rate = 1e-6}, layers, threads, seconds);
    if (which < 0 || which == 2) chain("adam", adam{.learning_rate = 1e-6}, layers, threads, seconds);
  }
  a.finish(usage);
}
