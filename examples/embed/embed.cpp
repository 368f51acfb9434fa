// SPDX-License-Identifier: BSL-1.0
// A model leaves Weft: the program trains a small convolutional network on Fashion-MNIST, freezes it into a header, and
// compiles the header into a program of about 110 kB, without exceptions and without Weft's library. That program
// classifies the test images. The usual run ends with an error unless the accuracy reaches 0.88, the program is smaller
// than 120 kB, and its scores have the bits of the session, or differ by rounding if Weft uses oneDNN or a BLAS.
// `--help` lists the flags.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <weft/data/fashion_mnist.hpp>
#include <weft/nn.hpp>
#include <weft/session/freeze.hpp>
#include <weft/weft.hpp>

#include "../command_line.hpp"
#include "../result_file.hpp"
#include "../test_accuracy.hpp"

using namespace weft;
namespace fs = std::filesystem;

namespace {

constexpr double stated_accuracy = 0.88;
constexpr std::uintmax_t stated_bytes = 120'000;

struct flags {
  std::string data_dir = "/usr/share/datasets/fashion-mnist", compiler = "c++", dir;
  std::int64_t epochs = 4, seed = 1;
};

struct network {
  nn::conv2d<5, 8> conv1{.activation = nn::relu};
  nn::conv2d<5, 32> conv2{.activation = nn::relu};
  nn::dense<10> classes{};

  auto operator()(const auto& images) const {
    const auto halved = max_pool2d<2>(conv1(images)), quartered = max_pool2d<2>(conv2(halved));
    return classes(nn::flatten()(max_pool2d<2>(quartered)));
  }
};

struct classifier {
  graph g;
  node<float, dims<dyn<"batch">, 784>> images = placeholder<float, dims<dyn<"batch">, 784>>(g, "images");
  node<std::int32_t, dims<dyn<"batch">>> labels = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "labels");
  node<float, dims<1, 784>> image = placeholder<float, dims<1, 784>>(g, "image");
  network layers = nn::named(network(), "");
  node<float, dims<dyn<"batch">, 10>> logits;
  node<float, dims<1, 10>> scores;  // of one image
  node<float> loss, accuracy;
  effect train;

  explicit classifier(std::uint64_t seed)
      : g(seed),
        logits(layers(reshape<dims<dyn<"batch">, 28, 28, 1>>(images))),
        scores(let(softmax(layers(reshape<dims<1, 28, 28, 1>>(image))), "scores")),
        loss(mean(softmax_cross_entropy(logits, labels))),
        accuracy(mean(cast<float>(argmax<1>(logits) == labels))),
        train(adam{.learning_rate = 2e-3}.minimize(loss)) {}
};

const fs::path sources = EMBED_SOURCES;  // the folder of Weft's sources

/// Runs a shell's command. Throws with its message if it fails.
void system_call(const std::string& command) {
  std::FILE* const messages = ::popen((command + " 2>&1").c_str(), "r");
  std::string all;
  for (int c; messages && (c = std::fgetc(messages)) != EOF;) all += static_cast<char>(c);
  if (!messages || ::pclose(messages) != 0) refuse("failed: " + command + ": " + all);
  std::fputs(all.c_str(), stdout);
}

/// Compiles the program with the header in a folder, and returns its size.
std::uintmax_t compile(const flags& f, const fs::path& folder) {
  system_call(f.compiler + " -std=c++20 -O2 -s -fno-exceptions -fno-rtti -I\"" + (sources / "include").string() +
              "\" -I\"" + folder.string() + "\" -o \"" + (folder / "classify").string() + "\" \"" +
              (sources / "examples/embed/classify.cc").string() + "\"");
  return fs::file_size(folder / "classify");
}

struct outcome {
  double accuracy = 0;
  std::size_t differing = 0;  // scores with other bits than the session's
  double largest = 0;         // difference of a score
};

/// Runs the program on the images.
outcome run_program(const fs::path& folder, const fs::path& program, const std::vector<float>& expected,
                    const std::vector<std::int32_t>& labels) {
  system_call("\"" + (program / "classify").string() + "\" \"" + (folder / "images").string() + "\" \"" +
              (folder / "scores").string() + "\"");
  std::vector<float> scores(expected.size());
  std::ifstream(folder / "scores", std::ios::binary)
      .read(reinterpret_cast<char*>(scores.data()), static_cast<std::streamsize>(scores.size() * sizeof(float)));
  outcome o;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (std::memcmp(&scores[i], &expected[i], sizeof(float)) != 0) ++o.differing;
    o.largest = std::fmax(o.largest, static_cast<double>(std::fabs(scores[i] - expected[i])));
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const float* const of = scores.data() + 10 * i;
    o.accuracy += std::max_element(of, of + 10) - of == labels[i];
  }
  o.accuracy /= static_cast<double>(labels.size());
  return o;
}

void run(const flags& f, bool usual) {
  const auto trained_on = data::fashion_mnist("train", f.data_dir), tests = data::fashion_mnist("test", f.data_dir);
  const classifier model(static_cast<std::uint64_t>(f.seed));
  session s(model.g);
  auto train = s.prepare(fetch(model.train), feed(model.images, model.labels));
  for (std::int64_t epoch = 0; epoch < f.epochs; ++epoch)
    for (const auto& [x, y] :
         trained_on.shuffled(static_cast<std::uint64_t>(f.seed), static_cast<std::uint64_t>(epoch)).batches(100))
      train(x, y);

  // Two programs: with weights of float, and of 8-bit integers.
  const fs::path folder =
      f.dir.empty() ? fs::temp_directory_path() / ("embed_" + std::to_string(::getpid())) : fs::path(f.dir);
  fs::create_directories(folder / "int8");
  freeze((folder / "model.hpp").string(), s, fetch(model.scores), feed(model.image));
  freeze((folder / "int8" / "model.hpp").string(), s, fetch(model.scores), feed(model.image),
         {.weights = frozen_weights::int8});

  // The session's scores of the test images, one by one.
  auto classify = s.prepare(fetch(model.scores), feed(model.image));
  std::vector<float> expected;
  std::vector<std::int32_t> labels;
  std::ofstream images(folder / "images", std::ios::binary);
  for (const auto& [x, y] : tests.batches(1)) {
    const tensor<float, dims<1, 784>> one(x);
    images.write(reinterpret_cast<const char*>(one.data()), 784 * sizeof(float));
    const auto scores = classify(one);
    expected.insert(expected.end(), scores.data(), scores.data() + 10);
    labels.push_back(y(0));
  }
  images.close();

  const std::uintmax_t bytes = compile(f, folder), bytes_of_int8 = compile(f, folder / "int8");
  const outcome o = run_program(folder, folder, expected, labels);
  std::printf("float: %ju bytes, test accuracy %.4f; %zu of %zu scores differ from the session's, by at most %.2g\n",
              bytes, o.accuracy, o.differing, expected.size(), o.largest);
  const outcome of_int8 = run_program(folder, folder / "int8", expected, labels);
  std::printf("int8:  %ju bytes, test accuracy %.4f; scores differ by at most %.2g\n", bytes_of_int8, of_int8.accuracy,
              of_int8.largest);
  if (f.dir.empty()) fs::remove_all(folder);
  check_output();
#if defined(WEFT_HAS_DNNL) || defined(WEFT_HAS_CBLAS)
  if (!(o.largest <= 1e-5)) refuse("the frozen model's scores must be the session's, but for rounding");
#else
  if (o.differing != 0) refuse("the frozen model's scores must have the bits of the session");
#endif
  if (!usual) return;
  check_accuracy(o.accuracy, stated_accuracy);
  if (o.accuracy - of_int8.accuracy > 0.01) refuse("8-bit weights must not cost more than 0.01 of the accuracy");
  if (bytes > stated_bytes) refuse("the program must be smaller than " + std::to_string(stated_bytes) + " bytes");
}

}  // namespace

int main(int argc, char** argv) try {
  flags f;
  command_line line("Trains a classifier of images, freezes it, and embeds it in a program of 100 kB");
  line.add("data_dir", f.data_dir, "folder with the four IDX files, plain or .gz");
  line.add("compiler", f.compiler, "compiles the program: c++, g++ or clang++");
  line.add("dir", f.dir, "folder that keeps the header and the program; by default they are deleted");
  line.add("epochs", f.epochs, 0, 1000, "epochs of training");
  line.add("seed", f.seed, 0, INT64_MAX, "seed of the weights and the order of the images");
  if (!line.parse(argc, argv)) {
    check_output();
    return 0;
  }
  const flags usual;
  run(f, f.epochs >= usual.epochs);
} catch (...) {
  return tell_failure();
}
