// SPDX-License-Identifier: BSL-1.0
// Fine-tuning: a LeNet that PyTorch has trained on five classes of clothes learns all ten from 20 images of each. Its
// weights come from PyTorch's layout; a new last layer is trained with the others frozen, then all of them at a lower
// rate. The usual run reaches a test accuracy of 0.79, and more than the same network from random weights, or ends with
// an error. `--help` lists the flags.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <weft/data/fashion_mnist.hpp>
#include <weft/nn.hpp>
#include <weft/nn/pytorch.hpp>
#include <weft/weft.hpp>

#include "../command_line.hpp"
#include "../result_file.hpp"
#include "../test_accuracy.hpp"

using namespace weft;

namespace {

constexpr double stated_accuracy = 0.79;

/// Beside the program, where CMake has copied it.
std::string carried_weights() {
  std::error_code ignored;
  return (std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / "lenet_of_five.safetensors")
      .string();
}

struct flags {
  std::string weights = carried_weights(), data_dir = "/usr/share/datasets/fashion-mnist";
  std::int64_t images_per_class = 20, head_epochs = 20, epochs = 20, seed = 1;
};

constexpr std::int32_t classes = 10;

/// The first so many images of each class.
data::labelled_images<784> some_of_each(const data::labelled_images<784>& images, std::int64_t of_each) {
  std::vector<std::int64_t> taken(classes, 0);
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;
  for (const auto& [x, y] : images.batches(1000))
    for (std::int64_t i = 0; i < y.extents()[0]; ++i) {
      if (taken[static_cast<std::size_t>(y(i))]++ >= of_each) continue;
      labels.push_back(y(i));
      for (std::int64_t k = 0; k < 784; ++k) pixels.push_back(static_cast<std::uint8_t>(x(i, k) * 255 + 0.5f));
    }
  return data::from_tensors(data::scaled<dims<784>>(std::move(pixels)), std::move(labels));
}

struct network {
  nn::conv2d<5, 8> conv1{.activation = nn::relu};
  nn::conv2d<5, 16> conv2{.activation = nn::relu};
  nn::dense<64> fc1{.activation = nn::relu};

  auto operator()(const auto& images) const {
    auto halved = max_pool2d<2>(conv1(images));
    auto quartered = max_pool2d<2>(conv2(halved));
    return fc1(nn::flatten()(quartered));
  }
};

/// The features come from PyTorch, where the members have the same names; the last layer is new.
struct lenet {
  graph g;
  node<float, dims<dyn<"batch">, 784>> images = placeholder<float, dims<dyn<"batch">, 784>>(g, "images");
  node<std::int32_t, dims<dyn<"batch">>> labels = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "labels");
  network features = nn::named(network(), "features");
  nn::dense<classes> softmax{.weights_init = init::glorot_normal{}};
  node<float, dims<dyn<"batch">, classes>> logits;
  node<float> loss, accuracy;
  effect train_head, train_all;

  explicit lenet(std::uint64_t seed)
      : g(seed),
        logits(softmax(features(reshape<dims<dyn<"batch">, 28, 28, 1>>(images)))),
        loss(mean(softmax_cross_entropy(logits, labels))),
        accuracy(mean(cast<float>(argmax<1>(logits) == labels))),
        train_head(adam{.learning_rate = 2e-3}.minimize(loss, nn::parameters(softmax))),
        train_all(adam{.learning_rate = 5e-4}.minimize(loss)) {}
};

void train(session& s, const lenet& model, const effect& by, const data::labelled_images<784>& images,
           std::int64_t epochs, std::uint64_t seed) {
  auto step = s.prepare(fetch(by), feed(model.images, model.labels));
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch)
    for (const auto& [x, y] : images.shuffled(seed, static_cast<std::uint64_t>(epoch)).batches(25)) step(x, y);
}

void run(const flags& f, bool usual) {
  const auto few = some_of_each(data::fashion_mnist("train", f.data_dir), f.images_per_class);
  const auto tests = data::fashion_mnist("test", f.data_dir);
  const auto seed = static_cast<std::uint64_t>(f.seed);

  const lenet model(seed);
  session tuned(model.g), fresh(model.g);
  weight_table from_pytorch = nn::pytorch_table(model.features);
  from_pytorch["fc1.weight"].layout = pytorch::linear_after_flatten(16, 7, 7);
  const restore_report taken = load_weights(f.weights, tuned, from_pytorch, {.partial = true});
  if (taken.restored.size() != 6)
    refuse(f.weights + " must contain the network's conv1, conv2 and fc1, 6 tensors, but only " +
           std::to_string(taken.restored.size()) + " match its extents");
  std::printf("%zu tensors of %s, a new last layer; %zu training images\n", taken.restored.size(), f.weights.c_str(),
              few.size());
  train(tuned, model, model.train_head, few, f.head_epochs, seed);
  const double with_head = test_accuracy(tuned, model, tests, 500);
  std::printf("the last layer alone:  test accuracy %.4f\n", with_head);
  train(tuned, model, model.train_all, few, f.epochs, seed + 1);
  const double with_all = test_accuracy(tuned, model, tests, 500);
  std::printf("then all of them:      test accuracy %.4f\n", with_all);
  train(fresh, model, model.train_all, few, f.head_epochs + f.epochs, seed);
  const double from_nothing = test_accuracy(fresh, model, tests, 500);
  std::printf("from random weights:   test accuracy %.4f\n", from_nothing);
  check_output();
  if (!usual) return;
  if (!(with_all > from_nothing))
    refuse("PyTorch's weights must give a higher test accuracy than random weights, but do not");
  check_accuracy(with_all, stated_accuracy);
}

}  // namespace

int main(int argc, char** argv) try {
  flags f;
  command_line line("Fine-tunes a LeNet, trained with PyTorch on five classes, to all ten of Fashion-MNIST");
  line.add("weights", f.weights, "safetensors file of the network's state dict");
  line.add("data_dir", f.data_dir, "folder with the four IDX files, plain or .gz");
  line.add("images_per_class", f.images_per_class, 1, 6000, "training images of each class");
  line.add("head_epochs", f.head_epochs, 0, 100'000, "epochs of the last layer only");
  line.add("epochs", f.epochs, 0, 100'000, "epochs of all layers");
  line.add("seed", f.seed, 0, INT64_MAX, "seed of the new weights and the order of the images");
  if (!line.parse(argc, argv)) {
    check_output();
    return 0;
  }
  const flags usual;
  run(f,
      f.images_per_class == usual.images_per_class && f.head_epochs == usual.head_epochs && f.epochs == usual.epochs);
} catch (...) {
  return tell_failure();
}
