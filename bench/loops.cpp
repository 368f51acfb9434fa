// SPDX-License-Identifier: BSL-1.0
// Times loops in a step: training steps of recurrent networks as peers/model_step.py times PyTorch's, one step of a
// small LSTM beside a loop written by hand, and reading row t of an array in a loop with that array's gradient, by scan
// and by gather. Prints one JSON object for each: median and minimum of a step.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>
#include <weft/control_flow.hpp>
#include <weft/nn.hpp>
#include <weft/nn/recurrent.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/weft.hpp>

#include "timing.hpp"

using namespace weft;

namespace {

constexpr const char* usage =
    "bench_loops [lstm|gru|tagger|lstm_step|scan|gather] [--batch N] [--threads N] [--explain] [--seconds S]";

struct asked {
  int batch, threads;
  bool explain;
  double seconds;
};

void print(const char* model, const asked& a, const bench::timing& t, const char* peer = "weft") {
  const bool train = std::string(model) != "lstm_step";
  std::printf(
      "{\"peer\": \"%s\", \"model\": \"%s\", \"mode\": \"%s\", \"batch\": %d, \"threads\": %d, \"ms_median\": %.5f, "
      "\"ms_min\": %.5f, \"items_per_s\": %.2f}\n",
      peer, model, train ? "train" : "infer", a.batch, a.threads, t.median * 1e3, t.least * 1e3, a.batch / t.median);
  std::fflush(stdout);
}

template <class Step, class... X>
void time_step(const char* model, const asked& a, Step& step, const X&... x) {
  print(model, a, bench::time({.seconds = a.seconds, .warm_up = 3, .at_most = 1'000'000}, [&] { return step(x...); }));
  if (a.explain) std::fputs(step.explain().c_str(), stdout);
}

/// One layer of 128 steps, from 128 to 256, and a dense layer of its last state. The products of the inputs are one, of
/// all steps, as in PyTorch.
void lstm(asked a) {
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
  time_step("lstm", a, step, in, right, zeros);
}

/// nn::gru with the sizes of `lstm`.
void gru(asked a) {
  constexpr int steps = 128, inputs = 128, hidden = 256, classes = 10;
  constexpr auto batch = dyn<"batch">;
  graph g(1);
  const auto x = placeholder<float, dims<batch, steps, inputs>>(g, "x");
  const auto labels = placeholder<std::int32_t, dims<batch>>(g, "labels");
  const nn::gru<hidden> cell;
  const nn::dense<classes> head;
  const auto loss = mean(softmax_cross_entropy(head(nn::last_state(cell(x))), labels));
  const auto train = momentum{.learning_rate = 1e-3, .momentum = 0.9}.minimize(loss);
  session s{g, {.threads = a.threads}};
  auto step = s.prepare(fetch(loss, train), feed(x, labels));
  tensor<float, dims<batch, steps, inputs>> in{shape(a.batch, steps, inputs)};
  bench::fill(in.data(), in.elements(), 0, 1);
  tensor<std::int32_t, dims<batch>> right{shape(a.batch)};
  for (int k = 0; k < a.batch; ++k) right(k) = k * 7 % classes;
  time_step("gru", a, step, in, right);
}

/// Two bidirectional layers of 64 over up to 64 vectors of 64, and one of 16 classes for each; the lengths are 8, 16,
/// 24, ..., 64. The loss is the mean over the valid steps.
void tagger(asked a) {
  constexpr int steps = 64, inputs = 64, hidden = 64, classes = 16;
  constexpr auto batch = dyn<"batch">;
  graph g(1);
  const auto x = placeholder<float, dims<batch, steps, inputs>>(g, "x");
  const auto labels = placeholder<std::int32_t, dims<batch, steps>>(g, "labels");
  const auto valid = placeholder<float, dims<batch, steps>>(g, "valid");
  const auto lengths = placeholder<std::int32_t, dims<batch>>(g, "lengths");
  const nn::bidirectional<nn::lstm<hidden>> first, second;
  const nn::dense<classes> head;
  const auto states = second(first(x, nn::lengths(lengths)).states, nn::lengths(lengths)).states;
  const auto loss = sum(softmax_cross_entropy(head(states), labels) * valid) / sum(valid);
  const auto train = momentum{.learning_rate = 1e-3, .momentum = 0.9}.minimize(loss);
  session s{g, {.threads = a.threads}};
  auto step = s.prepare(fetch(loss, train), feed(x, labels, valid, lengths));
  tensor<float, dims<batch, steps, inputs>> in{shape(a.batch, steps, inputs)};
  bench::fill(in.data(), in.elements(), 0, 1);
  tensor<std::int32_t, dims<batch, steps>> right{shape(a.batch, steps)};
  tensor<float, dims<batch, steps>> is_valid{shape(a.batch, steps)};
  tensor<std::int32_t, dims<batch>> length{shape(a.batch)};
  for (int k = 0; k < a.batch; ++k) {
    length(k) = 8 * (k % 8 + 1);
    for (int t = 0; t < steps; ++t) right(k, t) = (k + t) * 7 % classes, is_valid(k, t) = t < length(k) ? 1.f : 0.f;
  }
  time_step("tagger", a, step, in, right, is_valid, length);
}

/// An LSTM as a loop over arrays.
template <int In, int Units>
struct lstm_by_hand {
  std::vector<float> w, u, b;  // [In, 4 * Units], [Units, 4 * Units], [4 * Units]

  void operator()(const float* x, float* h, float* c) const {
    float gates[4 * Units];
    for (int j = 0; j < 4 * Units; ++j) gates[j] = b[static_cast<std::size_t>(j)];
    const auto multiply = [&](const float* a, const std::vector<float>& by, int rows) {
      for (int i = 0; i < rows; ++i) {
        const float* const row = by.data() + i * 4 * Units;
        for (int j = 0; j < 4 * Units; ++j) gates[j] += a[i] * row[j];
      }
    };
    multiply(x, w, In), multiply(h, u, Units);
    const auto sigmoid = [](float v) { return 1 / (1 + std::exp(-v)); };
    for (int j = 0; j < Units; ++j) {
      c[j] = sigmoid(gates[Units + j]) * c[j] + sigmoid(gates[j]) * std::tanh(gates[2 * Units + j]);
      h[j] = sigmoid(gates[3 * Units + j]) * std::tanh(c[j]);
    }
  }
};

/// One step of an LSTM of 64 units for one sequence: the states are arguments and results. Alternates with the loop.
void lstm_step(asked a) {
  constexpr int n = 64;
  a.batch = a.threads = 1;
  graph g(1);
  const auto x = placeholder<float, dims<1, n>>(g, "x"), h = placeholder<float, dims<1, n>>(g, "h"),
             c = placeholder<float, dims<1, n>>(g, "c");
  const init::uniform first{-1. / 8, 1. / 8};
  const auto w = variable<float, dims<n, 4 * n>>(g, "inputs", first),
             u = variable<float, dims<n, 4 * n>>(g, "states", first);
  const auto b = variable<float, dims<4 * n>>(g, "bias", first);
  const auto [i, f, k, o] = split<1, 4>(let(matmul(x, w) + matmul(h, u) + b));
  const auto next = let(sigmoid(f) * c + sigmoid(i) * tanh(k));
  session s{g, {.threads = 1}};
  auto step = s.prepare(fetch(let(sigmoid(o) * tanh(next)), next), feed(x, h, c));
  const auto all = [](const auto& t) { return std::vector<float>(t.data(), t.data() + t.elements()); };
  const lstm_by_hand<n, n> by_hand{all(s.run(fetch(w))), all(s.run(fetch(u))), all(s.run(fetch(b)))};
  tensor<float, dims<1, n>> in, h1, c1, h2, c2;
  bench::fill(in.data(), n, -1, 1);
  const auto weft_once = [&] { std::tie(h1, c1) = step(in, h1, c1); };
  const auto hand_once = [&] { by_hand(in.data(), h2.data(), c2.data()); };
  for (int t = 0; t < 100; ++t) weft_once(), hand_once();
  for (int j = 0; j < n; ++j)
    if (!(std::abs(h1.data()[j] - h2.data()[j]) < 1e-4f))
      std::fputs("lstm_step: the states differ\n", stderr), std::exit(1);
  const bench::window w1{.seconds = a.seconds / 4, .warm_up = 3, .at_most = 1'000'000, .calls = 100};
  for (int round = 0; round < 2; ++round) {
    print("lstm_step", a, bench::time(w1, weft_once));
    print("lstm_step", a, bench::time(w1, hand_once), "loop by hand");
  }
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
  time_step(name, a, step, in, zeros);
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
  const std::pair<const char*, void (*)(asked)> known[] = {{"lstm", lstm},         {"gru", gru},
                                                           {"tagger", tagger},     {"lstm_step", lstm_step},
                                                           {"scan", rows_by_scan}, {"gather", rows_by_gather}};
  std::vector<void (*)(asked)> chosen;
  for (const auto& [name, run] : known)
    if (a.take(name)) chosen.push_back(run);
  if (chosen.empty())
    for (const auto& [name, run] : known) chosen.push_back(run);
  const asked what{a.take("--batch", 32), a.take("--threads", 2), a.take("--explain"), a.take("--seconds", 15.0)};
  a.finish(usage);
  for (const auto run : chosen) run(what);
}
