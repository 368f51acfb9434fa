// SPDX-License-Identifier: BSL-1.0
// Times one step of the 784-100-10 sigmoid classifier and of an MLP of 64 layers of 64, as peers/mnist_step.py and
// peers/model_step.py time the peers': the same numbers fed, as many steps before, as long a time.
// Prints one JSON object for each: median and minimum of a step.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>
#include <weft/weft.hpp>

#include "networks.hpp"
#include "timing.hpp"

using namespace weft;

namespace {

constexpr const char* usage =
    "bench_step [mlp [--batch N] [--threads N] [--infer] | deep_mlp [--batch N] [--threads N] [--inter-op]] [--seconds "
    "S]";

tensor<std::int32_t, bench::label_dims> random_labels(int batch) {
  tensor<std::int32_t, bench::label_dims> y{shape(batch)};
  const random_stream random(1, 1);
  for (int i = 0; i < batch; ++i) y(i) = static_cast<std::int32_t>(10 * random.uniform(static_cast<std::uint64_t>(i)));
  return y;
}

void mlp(int batch, int threads, bool infer, double seconds) {
  graph g(1);
  auto images = placeholder<float, bench::mlp_images>(g, "images");
  auto labels = placeholder<std::int32_t, bench::label_dims>(g, "labels");
  const bench::network n = bench::mlp(g, images, labels);

  session s{g, {.threads = threads}};
  const auto x = bench::random_images<bench::mlp_images>(shape(batch, 784));
  const auto y = random_labels(batch);
  bench::timing t;
  if (infer) {
    auto step = s.prepare(fetch(n.logits), feed(images));
    t = bench::time({.seconds = seconds}, [&] { return step(x); });
  } else {
    auto step = s.prepare(fetch(n.loss, n.train), feed(images, labels));
    t = bench::time({.seconds = seconds}, [&] { return step(x, y); });
  }
  std::printf(
      "{\"peer\": \"weft\", \"workload\": \"%s\", \"batch\": %d, \"threads\": %d, \"us_median\": %.2f, \"us_min\": "
      "%.2f}\n",
      infer ? "mlp_infer" : "mlp_train", batch, threads, t.median * 1e6, t.least * 1e6);
  std::fflush(stdout);
}

/// With `inter_op` the threads do not share each kernel but run independent ones: what updates a layer beside what goes
/// on to the next.
void deep_mlp(int batch, int threads, bool inter_op, double seconds) {
  graph g(1);
  auto inputs = placeholder<float, dims<dyn<"batch">, 64>>(g, "inputs");
  auto labels = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "labels");
  // Every layer has the type of the one before it, so that a loop makes them.
  std::vector<node<float, dims<dyn<"batch">, 64>>> layers{inputs};
  for (int i = 0; i < 64; ++i) {
    const graph::name_scope within(g, "layer" + std::to_string(i));
    auto w = variable<float, dims<64, 64>>(g, "weights", init::uniform{-0.125, 0.125});
    auto b = variable<float, dims<64>>(g, "bias", init::uniform{-0.125, 0.125});
    layers.push_back(let(tanh(matmul(layers.back(), w) + b)));
  }
  auto loss = mean(softmax_cross_entropy(layers.back(), labels));
  auto train = momentum{.learning_rate = 1e-3, .momentum = 0.9}.minimize(loss);

  session s{g, {.threads = inter_op ? 1 : threads, .inter_op_threads = inter_op ? threads : 1}};
  auto step = s.prepare(fetch(loss, train), feed(inputs, labels));
  const auto x = bench::random_images<dims<dyn<"batch">, 64>>(shape(batch, 64));
  const auto y = random_labels(batch);
  const bench::timing t =
      bench::time({.seconds = seconds, .warm_up = 3, .at_most = 1'000'000}, [&] { return step(x, y); });
  std::printf(
      "{\"peer\": \"weft%s\", \"model\": \"deep_mlp\", \"mode\": \"train\", \"batch\": %d, \"threads\": %d, "
      "\"ms_median\": %.4f, \"ms_min\": %.4f, \"items_per_s\": %.2f}\n",
      inter_op ? " inter-op" : "", batch, threads, t.median * 1e3, t.least * 1e3, batch / t.median);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  bench::arguments a(argc, argv);
  const double seconds = a.take("--seconds", 0.0);
  const auto or_else = [&](double otherwise) { return seconds > 0 ? seconds : otherwise; };
  if (a.empty()) {
    for (const int batch : {1, 10, 100}) mlp(batch, 1, false, or_else(4));
    mlp(100, 2, false, or_else(4));
    for (const int batch : {1, 100}) mlp(batch, 1, true, or_else(4));
    for (const bool inter_op : {false, true}) deep_mlp(16, 2, inter_op, or_else(15));
    return 0;
  }
  const bool deep = a.take("deep_mlp");
  if (!deep) a.take("mlp");
  const bool infer = !deep && a.take("--infer"), inter_op = deep && a.take("--inter-op");
  const int batch = a.take("--batch", deep ? 16 : 100), threads = a.take("--threads", 2);
  a.finish(usage);
  deep ? deep_mlp(batch, threads, inter_op, or_else(15)) : mlp(batch, threads, infer, or_else(4));
}
