// SPDX-License-Identifier: BSL-1.0
// Times loops in a step: a training step of an LSTM as peers/model_step.py times PyTorch's, and reading row t of an
// array in a loop with that array's gradient, by scan and by gather. Prints one JSON object for each: median and
// minimum of a step.
#include <cstdint>
#include <cstdio>
#include <weft/control_flow.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/weft.hpp>

#include "timing.hpp"

using namespace weft;

namespace {

constexpr const char* usage = "bench_loops [lstm|scan|gather] [--batch N] [--threads N] [--explain] [--seconds S]";

struct asked {
  int batch, threads;
  bool explain;
  double seconds;
};

void print(const char* model, const asked& a, const bench::timing& t) {
  std::printf(
      "{\"peer\": \"weft\", \"model\": \"%s\", \"mode\": \"train\", \"batch\": %d, \"threads\": %d, \"ms_median\": "
      "%.4f, "
      "\"ms_min\": %.4f, \"items_per_s\": %.2f}\n",
      model, a.batch, a.threads, t.median * 1e3, t.least * 1e3, a.batch / t.median);
  std::fflush(stdout);
}

/// One layer of 128 steps, from 128 to 256, and a dense layer of its last state. The products of the inputs are one, of
/// all steps, as in PyTorch.
void lstm(const asked& a) {
  constexpr int steps = 128, inputs = 128, hidden = 256, classes = 10;
  constexpr auto batch = dyn<"batch">;
  graph g(1);
  const auto x = placeholder<float, dims<batch, steps, inputs>>(g, "x");
  const auto labels = placeholder<std::int32_t, dims<batch>>(g, "labels");
  const init::uniform first{-1. / 16, 1. / 16};
  const auto w = variable<float, dims<inputs, 4 * hidden>>(g, "lstm/inputs", first);
  const auto u = variable<float, dims<hidden, 4 * hidden>>(g, "lstm/states", first);
  const auto b = variable<float, dims<4 * hidden>>(g, "lstm/bias", first);
  const auto w2 = variable<float, dims<hidden, classes>>(g, "dense/weights", first);
  const auto b2 = variable<float, dims<classes>>(g, "dense/bias", first);
  const auto start = placeholder<float, dims<batch, hidden>>(g, "start");
  const auto [h, c] = scan(
      [](auto h, auto c, auto z, auto u) {
        const auto [i, f, k, o] = split<1, 4>(let(z + matmul(h, u)));
        const auto next = let(sigmoid(f) * c + sigmoid(i) * tanh(k));
        return std::tuple{sigmoid(o) * tanh(next), next};
      },
      start, start, rows(matmul(transpose<1, 0, 2>(x), w) + b), invariant(u));
  const auto loss = mean(softmax_cross_entropy(matmul(h, w2) + b2, labels));
  const auto train = momentum{.learning_rate = 1e-3, .momentum = 0.9}.minimize(loss);

  session s{g, {.threads = a.threads}};
  auto step = s.prepare(fetch(loss, train), feed(x, labels, start));
  tensor<float, dims<batch, steps, inputs>> in{shape(a.batch, steps, inputs)};
  bench::fill(in.data(), in.elements(), 0, 1);
  tensor<std::int32_t, dims<batch>> right{shape(a.batch)};
  for (int k = 0; k < a.batch; ++k) right(k) = k * 7 % classes;
  const tensor<float, dims<batch, hidden>> zeros{shape(a.batch, hidden)};
  print("lstm", a, bench::time({.seconds = a.seconds, .warm_up = 3, .at_most = 1'000'000}, [&] {
          return step(in, right, zeros);
        }));
  if (a.explain) std::fputs(step.explain().c_str(), stdout);
}

constexpr int count = 1024, width = 512;

template <class X, class H, class Y>
void read_rows(const char* name, const asked& a, graph& g, const X& x, const H& h, const Y& y) {
  const auto [dx] = gradients(sum(y), x);
  session s{g, {.threads = a.threads}};
  auto step = s.prepare(fetch(dx), feed(x, h));
  tensor<float, dims<count, width>> in;
  bench::fill(in.data(), in.elements(), -1, 1);
  const tensor<float, dims<width>> zeros;
  print(name, a,
        bench::time({.seconds = a.seconds, .warm_up = 3, .at_most = 1'000'000}, [&] { return step(in, zeros); }));
  if (a.explain) std::fputs(step.explain().c_str(), stdout);
}

/// 1,024 rows of 512, each read in an iteration.
void rows_by_scan(asked a) {
  a.batch = 1;
  graph g(1);
  const auto x = placeholder<float, dims<count, width>>(g, "x");
  const auto h = placeholder<float, dims<width>>(g, "h");
  read_rows("rows by scan", a, g, x, h, scan([](auto h, auto x) { return tanh(h + x); }, h, rows(x)));
}
void rows_by_gather(asked a) {
  a.batch = 1;
  graph g(1);
  const auto x = placeholder<float, dims<count, width>>(g, "x");
  const auto h = placeholder<float, dims<width>>(g, "h");
  const auto [i, y] = while_loop([](auto i) { return i < count; },
                                 [](auto i, auto h, auto x) { return std::tuple{i + 1, tanh(h + gather(x, i))}; },
                                 {.max_iterations = count}, tensor<std::int32_t>(0), h, invariant(x));
  read_rows("rows by gather", a, g, x, h, y);
}

}  // namespace

int main(int argc, char** argv) {
  bench::arguments a(argc, argv);
  const bool one = a.take("lstm"), two = a.take("scan"), three = a.take("gather"), all = !(one || two || three);
  const asked what{a.take("--batch", 32), a.take("--threads", 2), a.take("--explain"), a.take("--seconds", 15.0)};
  a.finish(usage);
  if (one || all) lstm(what);
  if (two || all) rows_by_scan(what);
  if (three || all) rows_by_gather(what);
}
