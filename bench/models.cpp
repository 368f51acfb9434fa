// SPDX-License-Identifier: BSL-1.0
// Times a training step, or inference, of convolutional networks as peers/model_step.py times PyTorch's: the same
// layers, numbers in memory, momentum 0.9. Prints one JSON object for each: median and minimum of a step.
#include <cstdint>
#include <cstdio>
#include <weft/weft.hpp>

#include "networks.hpp"
#include "timing.hpp"

using namespace weft;

namespace {

constexpr const char* usage = "bench_models [lenet [--batch N] [--threads N] [--infer] [--explain]] [--seconds S]";

struct asked {
  int batch, threads;
  bool infer, explain;
  double seconds;
};

void lenet(const asked& a) {
  graph g(1);
  auto images = placeholder<float, bench::lenet_images>(g, "images");
  auto labels = placeholder<std::int32_t, bench::label_dims>(g, "labels");
  const bench::network n = bench::lenet(g, images, labels);

  session s{g, {.threads = a.threads}};
  const auto x = bench::random_images<bench::lenet_images>(shape(a.batch, 28, 28, 1));
  const auto y = bench::some_labels(a.batch);
  bench::timing t;
  const bench::window window{.seconds = a.seconds, .warm_up = 3, .at_most = 1'000'000};
  if (a.infer) {
    auto step = s.prepare(fetch(n.logits), feed(images));
    t = bench::time(window, [&] { return step(x); });
    if (a.explain) std::fputs(step.explain().c_str(), stdout);
  } else {
    auto step = s.prepare(fetch(n.loss, n.train), feed(images, labels));
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
