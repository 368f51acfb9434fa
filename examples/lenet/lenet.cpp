// LeNet on Fashion-MNIST: two convolutions with max pooling and two dense layers, TensorFlow's MNIST tutorial network
// in typed C++. Ends with an error where the test accuracy is below 0.91. `--help` lists the flags.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <new>
#include <optional>

#include <weft/data/fashion_mnist.hpp>
#include <weft/train/progress.hpp>
#include <weft/weft.hpp>

#include "../command_line.hpp"
#include "../result_file.hpp"

using namespace weft;

namespace {

constexpr double least_accuracy = 0.91;

/// Reads the command line; nothing where --help was asked for and given.
std::optional<training_flags> parse_flags(int argc, char** argv) {
  training_flags f{.batch_size = 64, .epochs = 4, .learning_rate = 0.02};
  command_line line("Trains LeNet on Fashion-MNIST");
  f.add_to(line, "of the first step; it falls to a tenth");
  if (!line.parse(argc, argv)) return {};
  return f;
}

/// Extents are of images, height and width, and channels; those of every layer follow and are checked when this
/// compiles.
struct lenet {
  graph g;
  node<float, dims<dyn<"batch">, 784>> images = placeholder<float, dims<dyn<"batch">, 784>>(g, "images");
  node<std::int32_t, dims<dyn<"batch">>> labels = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "labels");
  node<float, dims<dyn<"batch">, 10>> logits;
  node<float> loss, accuracy;
  effect train, train_slowly;

  explicit lenet(const training_flags& f)
      : g(static_cast<std::uint64_t>(f.seed)),
        logits(layers()),
        loss(mean(softmax_cross_entropy(logits, labels))),
        accuracy(mean(cast<float>(argmax<1>(logits) == labels))),
        train(momentum{.learning_rate = f.learning_rate, .momentum = 0.9}.minimize(loss)),
        train_slowly(momentum{.learning_rate = f.learning_rate / 10, .momentum = 0.9}.minimize(loss)) {}

 private:
  node<float, dims<dyn<"batch">, 10>> layers() {
    auto w1 = variable<float, dims<5, 5, 1, 32>>(g, "conv1/weights", init::he_normal{});
    auto b1 = variable<float, dims<32>>(g, "conv1/bias", init::zeros{});
    auto w2 = variable<float, dims<5, 5, 32, 64>>(g, "conv2/weights", init::he_normal{});
    auto b2 = variable<float, dims<64>>(g, "conv2/bias", init::zeros{});
    auto w3 = variable<float, dims<3136, 1024>>(g, "dense/weights", init::he_normal{});
    auto b3 = variable<float, dims<1024>>(g, "dense/bias", init::zeros{});
    auto w4 = variable<float, dims<1024, 10>>(g, "softmax/weights", init::glorot_normal{});
    auto b4 = variable<float, dims<10>>(g, "softmax/bias", init::zeros{});

    auto pixels = reshape<dims<dyn<"batch">, 28, 28, 1>>(images);
    auto halved = max_pool2d<2>(relu(conv2d(pixels, w1) + b1));     // [batch, 14, 14, 32]
    auto quartered = max_pool2d<2>(relu(conv2d(halved, w2) + b2));  // [batch, 7, 7, 64]
    auto hidden = relu(matmul(reshape<dims<dyn<"batch">, 3136>>(quartered), w3) + b3);
    return let(matmul(hidden, w4) + b4);
  }
};

struct result {
  double test_accuracy = 0, final_cost = 0, seconds = 0, images_per_s = 0;
};

double test_accuracy(session& s, const lenet& model, const data::labelled_images<784>& images) {
  auto step = s.prepare(fetch(model.accuracy), feed(model.images, model.labels));
  double right = 0;
  for (const auto& [x, y] : images.batches(200)) right += step(x, y) * static_cast<double>(y.elements());
  return right / static_cast<double>(images.size());
}

result run(const training_flags& f) {
  const auto images = data::fashion_mnist("train", f.data_dir);
  const auto test_images = data::fashion_mnist("test", f.data_dir);
  lenet model(f);
  session s{model.g, {.threads = static_cast<int>(f.threads), .device = f.place()}};
  auto quick = s.prepare(fetch(model.loss, model.train), feed(model.images, model.labels));
  auto slow = s.prepare(fetch(model.loss, model.train_slowly), feed(model.images, model.labels));

  const auto batches =
      images.shuffled(static_cast<std::uint64_t>(f.seed)).batches(static_cast<std::size_t>(f.batch_size));
  const auto per_epoch = static_cast<std::int64_t>(batches.size()), steps = f.epochs * per_epoch;
  progress shown({.steps = steps, .steps_per_epoch = per_epoch, .items_per_step = f.batch_size, .mode = f.progress});
  result r;
  const auto start = std::chrono::steady_clock::now();
  std::int64_t made = 0;
  for (std::int64_t epoch = 0; epoch < f.epochs; ++epoch)
    for (const auto& [x, y] : batches.epoch(static_cast<std::uint64_t>(epoch))) {
      // The last third at a tenth of the rate: what is left of the way is short.
      r.final_cost = std::get<0>(3 * made < 2 * steps ? quick(x, y) : slow(x, y));
      shown.update(++made, r.final_cost);
      check_cost(r.final_cost, made, f.learning_rate);
    }
  shown.finish();
  r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  r.images_per_s = static_cast<double>(f.epochs) * static_cast<double>(images.size()) / r.seconds;
  r.test_accuracy = test_accuracy(s, model, test_images);
  return r;
}

}  // namespace

int main(int argc, char** argv) try {
  const auto f = parse_flags(argc, argv);
  if (!f) {
    check_output();
    return 0;
  }
  if (!f->json.empty()) check_writable(f->json);
  const result r = run(*f);
  std::printf("test accuracy %.4f, final cost %.4f\n%.0f images/s, %.1f s of training\n", r.test_accuracy, r.final_cost,
              r.images_per_s, r.seconds);
  if (!f->json.empty())
    write_file(f->json,
               "{\"model\": \"lenet\", \"test_accuracy\": %s, \"final_cost\": %s, \"seconds\": %s, "
               "\"images_per_s\": %s}\n",
               json_number("%.4f", r.test_accuracy).c_str(), json_number("%.6g", r.final_cost).c_str(),
               json_number("%.3f", r.seconds).c_str(), json_number("%.1f", r.images_per_s).c_str());
  check_output();
  if (r.test_accuracy >= least_accuracy) return 0;
  std::fprintf(stderr, "error: the test accuracy is %.4f, below %.2f\n", r.test_accuracy, least_accuracy);
  return 1;
} catch (const std::bad_alloc&) {
  std::fputs("error: there is not enough memory\n", stderr);
  return 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}
