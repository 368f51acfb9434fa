// SPDX-License-Identifier: BSL-1.0
// A recurrent network reads an image of Fashion-MNIST as a sequence of 28 rows of 28 pixels, and its last state tells
// the class. The usual run reaches a test accuracy of 0.88, or ends with an error. `--help` lists the flags.
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include <weft/data/fashion_mnist.hpp>
#include <weft/nn.hpp>
#include <weft/nn/recurrent.hpp>
#include <weft/train/schedules.hpp>
#include <weft/weft.hpp>

#include "../command_line.hpp"
#include "../result_file.hpp"
#include "../test_accuracy.hpp"

using namespace weft;

namespace {

constexpr double stated_accuracy = 0.88;
constexpr int classes = 10;

struct flags {
  std::string cell = "lstm", data_dir = "/usr/share/datasets/fashion-mnist";
  std::int64_t epochs = 4, batch_size = 100, threads = 0, seed = 1;
  double learning_rate = 0.004;
};

/// A layer that reads rows, and a dense layer over its last state.
template <class Cell>
struct reader {
  Cell rows;
  nn::dense<classes> logits;

  auto operator()(const auto& images) const {
    return logits(nn::last_state(rows(reshape<dims<dyn<"batch">, 28, 28>>(images))));
  }
};

struct classifier {
  graph g;
  node<float, dims<dyn<"batch">, 784>> images = placeholder<float, dims<dyn<"batch">, 784>>(g, "images");
  node<std::int32_t, dims<dyn<"batch">>> labels = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "labels");
  node<float> loss, accuracy;
  effect train;
  std::string description;

  classifier(const flags& f, std::int64_t steps) : g(static_cast<std::uint64_t>(f.seed)) {
    if (f.cell == "gru")
      record(nn::named(reader<nn::gru<128>>(), "reader"), f, steps);
    else
      record(nn::named(reader<nn::lstm<128>>(), "reader"), f, steps);
  }

 private:
  template <class Model>
  void record(const Model& model, const flags& f, std::int64_t steps) {
    const auto logits = model(images);
    loss = mean(softmax_cross_entropy(logits, labels));
    accuracy = mean(cast<float>(argmax<1>(logits) == labels));
    auto step = global_step(g);
    auto rate = cosine_decay(f.learning_rate, step, static_cast<double>(steps));
    train = adam{.learning_rate = rate}.minimize(loss, nn::parameters(model), step);
    description = nn::describe(model, images);
  }
};

double run(const flags& f) {
  const auto images = data::fashion_mnist("train", f.data_dir);
  const auto tests = data::fashion_mnist("test", f.data_dir);
  const auto seed = static_cast<std::uint64_t>(f.seed);
  const auto batch_size = static_cast<std::size_t>(f.batch_size);
  const auto per_epoch = static_cast<std::int64_t>(images.batches(batch_size).size());
  const classifier model(f, f.epochs * per_epoch);
  std::fputs(model.description.c_str(), stdout);
  session s{model.g, {.threads = static_cast<int>(f.threads)}};
  auto step = s.prepare(fetch(model.loss, model.train), feed(model.images, model.labels));
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t epoch = 0; epoch < f.epochs; ++epoch) {
    double cost = 0;
    for (const auto& [x, y] : images.shuffled(seed, static_cast<std::uint64_t>(epoch)).batches(batch_size))
      cost += std::get<0>(step(x, y)) / static_cast<double>(per_epoch);
    if (!std::isfinite(cost)) refuse("the cost is " + std::to_string(cost) + ": lower --learning_rate");
    std::printf("epoch %lld: cost %.4f\n", static_cast<long long>(epoch + 1), cost);
    std::fflush(stdout);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double reached = test_accuracy(s, model, tests, 500);
  std::printf("test accuracy %.4f\n%.0f images/s, %.1f s of training\n", reached,
              static_cast<double>(f.epochs * static_cast<std::int64_t>(images.size())) / seconds, seconds);
  return reached;
}

}  // namespace

int main(int argc, char** argv) try {
  flags f;
  std::optional<double> least_accuracy;
  command_line line("Trains a recurrent network that reads the rows of Fashion-MNIST's images");
  line.add("cell", f.cell, {"lstm", "gru"}, "recurrent cell that reads the rows");
  line.add("learning_rate", f.learning_rate, "initial learning rate of adam; decays to 0 by a cosine");
  line.add("epochs", f.epochs, 1, 1'000'000, "passes over all images");
  line.add("batch_size", f.batch_size, 1, 60'000, "images per step");
  line.add("threads", f.threads, 0, max_threads(), "threads for computation; 0: one per core");
  line.add("seed", f.seed, 0, INT64_MAX, "seed of the initial weights and the order of the images");
  line.add("data_dir", f.data_dir, "folder with the four IDX files, plain or .gz");
  line.add("least_accuracy", least_accuracy, 1, "fail if the test accuracy is below this; 0.88 for the default flags");
  if (!line.parse(argc, argv)) {
    check_output();
    return 0;
  }
  const flags usual;
  const bool is_usual = f.epochs == usual.epochs && f.batch_size == usual.batch_size &&
                        f.learning_rate == usual.learning_rate && f.data_dir == usual.data_dir;
  const double reached = run(f);
  check_output();
  check_accuracy(reached, least_accuracy ? *least_accuracy : is_usual ? stated_accuracy : 0);
} catch (...) {
  return tell_failure();
}
