// Times a training step, or inference, of convolutional networks as peers/model_step.py times PyTorch's: the same
// layers, numbers in memory, momentum 0.9. Prints one JSON object for each: median and minimum of a step.
#include <cstdint>
#include <cstdio>
#include <weft/weft.hpp>

#include "timing.hpp"

using namespace weft;

namespace {

constexpr const char* usage = "bench_models [lenet [--batch N] [--threads N] [--infer] [--explain]] [--seconds S]";

struct asked {
  int batch, threads;
  bool infer, explain;
  double seconds;
};

/// The network of TensorFlow's MNIST tutorial.
void lenet(const asked& a) {
  graph g(1);
  auto images = placeholder<float, dims<dyn<"batch">, 28, 28, 1>>(g, "images");
  auto labels = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "labels");
  auto w1 = variable<float, dims<5, 5, 1, 32>>(g, "conv1/weights", init::he_normal{});
  auto b1 = variable<float, dims<32>>(g, "conv1/bias", init::zeros{});
  auto w2 = variable<float, dims<5, 5, 32, 64>>(g, "conv2/weights", init::he_normal{});
  auto b2 = variable<float, dims<64>>(g, "conv2/bias", init::zeros{});
  auto w3 = variable<float, dims<3136, 1024>>(g, "dense/weights", init::he_normal{});
  auto b3 = variable<float, dims<1024>>(g, "dense/bias", init::zeros{});
  auto w4 = variable<float, dims<1024, 10>>(g, "softmax/weights", init::glorot_normal{});
  auto b4 = variable<float, dims<10>>(g, "softmax/bias", init::zeros{});
  auto pool1 = max_pool2d<2>(relu(conv2d(images, w1) + b1));
  auto pool2 = max_pool2d<2>(relu(conv2d(pool1, w2) + b2));
  auto hidden = relu(matmul(reshape<dims<dyn<"batch">, 3136>>(pool2), w3) + b3);
  auto logits = let(matmul(hidden, w4) + b4);
  auto loss = mean(softmax_cross_entropy(logits, labels));
  auto train = momentum{.learning_rate = 1e-3, .momentum = 0.9}.minimize(loss);

  session s{g, {.threads = a.threads}};
  tensor<float, dims<dyn<"batch">, 28, 28, 1>> x(shape(a.batch, 28, 28, 1));
  tensor<std::int32_t, dims<dyn<"batch">>> y{shape(a.batch)};
  bench::fill(x.data(), x.elements(), 0, 1);
  for (int i = 0; i < a.batch; ++i) y(i) = i % 10;
  bench::timing t;
  const bench::window window{.seconds = a.seconds, .warm_up = 3, .at_most = 1'000'000};
  if (a.infer) {
    auto step = s.prepare(fetch(logits), feed(images));
    t = bench::time(window, [&] { return step(x); });
    if (a.explain) std::fputs(step.explain().c_str(), stdout);
  } else {
    auto step = s.prepare(fetch(loss, train), feed(images, labels));
    t = bench::time(window, [&] { return step(x, y); });
    if (a.explain) std::fputs(step.explain().c_str(), stdout);
  }
  std::printf(
      "{\"peer\": \"weft\", \"model\": \"lenet\", \"mode\": \"%s\", \"batch\": %d, \"threads\": %d, \"ms_median\": "
      "%.4f, \"ms_min\": %.4f, \"items_per_s\": %.2f}\n",
      a.infer ? "infer" : "train", a.batch, a.threads, t.median * 1e3, t.least * 1e3, a.batch / t.median);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  bench::arguments a(argc, argv);
  const double seconds = a.take("--seconds", 15.0);
  if (a.empty()) {
    lenet({64, 2, false, false, seconds});
    lenet({1, 2, true, false, seconds});
    return 0;
  }
  a.take("lenet");
  const bool infer = a.take("--infer"), explain = a.take("--explain");
  const int batch = a.take("--batch", infer ? 1 : 64), threads = a.take("--threads", 2);
  a.finish(usage);
  lenet({batch, threads, infer, explain, seconds});
}
