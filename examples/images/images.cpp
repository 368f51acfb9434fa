// SPDX-License-Identifier: BSL-1.0
// A convolutional network on a folder of JPEG files in ImageNet's layout, train/CLASS/*.jpg and val/CLASS/*.jpg: they
// are decoded and augmented in parallel while the network learns. Unless there is such a folder the program makes it
// from Fashion-MNIST first. The usual run reaches an accuracy of 0.86 on val/, or ends with an error. `--help` lists
// the flags.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include <weft/data/augment.hpp>
#include <weft/data/fashion_mnist.hpp>
#include <weft/data/image_folder.hpp>
#include <weft/train/progress.hpp>
#include <weft/weft.hpp>

#include "../command_line.hpp"
#include "../result_file.hpp"
#include "model.hpp"

using namespace weft;

namespace {

constexpr double stated_accuracy = 0.86;

struct flags {
  std::string image_dir = "fashion-images", data_dir = "/usr/share/datasets/fashion-mnist";
  std::int64_t images_per_class = 1000, batch_size = 64, epochs = 4, decode_threads = 2, threads = 0, seed = 1;
  double learning_rate = 2e-3;
  bool skip_damaged = false;
  std::optional<double> least_accuracy;
  progress_mode progress = progress_mode::automatic;
};

/// Writes the first so many images of each class into a folder of its own.
void write_images(const std::filesystem::path& folder, const data::labelled_images<784>& images, std::int64_t of_each) {
  static constexpr const char* names[] = {"t-shirt", "trouser", "pullover", "dress", "coat",
                                          "sandal",  "shirt",   "sneaker",  "bag",   "ankle-boot"};
  for (const char* name : names) std::filesystem::create_directories(folder / name);
  std::int64_t written[10] = {};
  data::image<1> picture(shape(28, 28, 1));
  for (const auto& [x, label] : images) {
    const std::int64_t number = written[label]++;
    if (number >= of_each) continue;
    for (std::size_t i = 0; i < x.elements(); ++i)
      picture.data()[i] = static_cast<std::uint8_t>(x.data()[i] * 255 + 0.5f);
    char file[32];
    std::snprintf(file, sizeof file, "%05lld.jpg", static_cast<long long>(number));
    const std::string path = (folder / names[label] / file).string(), bytes = data::encode_jpeg(picture, 90);
    std::FILE* const out = std::fopen(path.c_str(), "wb");
    if (!out) refuse_to_write(path, errno);
    const bool whole = std::fwrite(bytes.data(), 1, bytes.size(), out) == bytes.size();
    if (std::fclose(out) != 0 || !whole) refuse_to_write(path, errno);
  }
}

/// Under another name until it is whole: a run that ends on the way leaves nothing that the next one would take.
void make_folder(const flags& f) {
  const std::filesystem::path whole(f.image_dir), part(f.image_dir + ".part");
  std::filesystem::remove_all(part);
  write_images(part / "train", data::fashion_mnist("train", f.data_dir), f.images_per_class);
  write_images(part / "val", data::fashion_mnist("test", f.data_dir),
               std::max<std::int64_t>(f.images_per_class / 5, 1));
  std::filesystem::rename(part, whole);
}

constexpr int side = image_classifier::side;
const std::array<float, 1> mean = {0.286f}, deviation = {0.353f};

auto training_batches(const data::image_folder& folder, const flags& f) {
  const auto seed = static_cast<std::uint64_t>(f.seed);
  const int threads = static_cast<int>(f.decode_threads);
  const data::image_options how{.threads = threads, .skip_damaged = f.skip_damaged};
  return folder.images<1>(folder.files().shuffled(seed), how)
      .map(
          [seed](const data::position& at, const data::image<1>& x, std::int32_t label) {
            data::element_random random(seed, at);
            const data::random_part part{.min_scale = 0.8, .min_ratio = 0.9, .max_ratio = 1.1};
            auto cut = data::random_flip_left_right(data::random_resized_crop<side, side>(x, random, part), random);
            cut = data::color_jitter{.brightness = 0.1, .contrast = 0.1}(std::move(cut), random);
            return std::pair(data::normalize(cut, mean, deviation), label);
          },
          threads)
      .batches(static_cast<std::size_t>(f.batch_size))
      .prefetch(4);
}

double accuracy_on(session& s, const image_classifier& model, const data::image_folder& folder, const flags& f) {
  auto step = s.prepare(fetch(model.accuracy), feed(model.images, model.labels));
  const auto batches = folder.images<1>({.skip_damaged = f.skip_damaged})
                           .map([](const data::image<1>& x, std::int32_t label) {
                             return std::pair(data::normalize(data::resize<side, side>(x), mean, deviation), label);
                           })
                           .batches(200)
                           .prefetch(2);
  double right = 0, count = 0;
  for (const auto& [x, y] : batches) {
    right += step(x, y) * static_cast<double>(y.elements());
    count += static_cast<double>(y.elements());
  }
  return count > 0 ? right / count : 0;
}

void run(const flags& f) {
  if (!std::filesystem::exists(f.image_dir)) {
    std::printf("writing %s from Fashion-MNIST\n", f.image_dir.c_str());
    make_folder(f);
  }
  const data::image_folder train(f.image_dir + "/train"), val(f.image_dir + "/val");
  if (train.classes().size() > image_classifier::classes || train.classes() != val.classes())
    refuse(f.image_dir + " must have the same classes in train and val, at most " +
           std::to_string(image_classifier::classes));
  std::printf("%zu training images of %zu classes, %zu test images\n", train.size(), train.classes().size(),
              val.size());

  const image_classifier model(static_cast<std::uint64_t>(f.seed), f.learning_rate);
  session s(model.g, {.threads = static_cast<int>(f.threads)});
  auto step = s.prepare(fetch(model.loss, model.train), feed(model.images, model.labels));
  const auto batches = training_batches(train, f);
  const auto size = static_cast<std::int64_t>(train.size());
  const std::int64_t per_epoch = (size + f.batch_size - 1) / f.batch_size;
  progress shown({.steps = f.epochs * per_epoch,
                  .steps_per_epoch = per_epoch,
                  .items_per_step = f.batch_size,
                  .mode = f.progress});
  const auto start = std::chrono::steady_clock::now();
  std::int64_t done = 0, seen = 0;
  for (std::int64_t epoch = 0; epoch < f.epochs; ++epoch)
    for (const auto& [x, y] : batches.epoch(static_cast<std::uint64_t>(epoch))) {
      const double cost = std::get<0>(step(x, y));
      check_cost(cost, ++done, f.learning_rate);
      seen += y.extent(0);
      shown.update(done, cost);
    }
  shown.finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double accuracy = accuracy_on(s, model, val, f);
  if (f.skip_damaged)
    std::printf("%llu damaged files were skipped\n", static_cast<unsigned long long>(train.damaged() + val.damaged()));
  std::printf("test accuracy %.4f\n%.0f images/s, %.1f s of training\n", accuracy, static_cast<double>(seen) / seconds,
              seconds);
  check_output();
  const flags usual;
  const bool as_usual = f.image_dir == usual.image_dir && f.images_per_class == usual.images_per_class &&
                        f.epochs == usual.epochs && f.batch_size == usual.batch_size &&
                        f.learning_rate == usual.learning_rate;
  check_accuracy(accuracy, f.least_accuracy ? *f.least_accuracy : as_usual ? stated_accuracy : 0);
}

}  // namespace

int main(int argc, char** argv) try {
  flags f;
  command_line line("Trains a network on a folder of JPEG files");
  line.add("image_dir", f.image_dir, "folder with train/CLASS/*.jpg and val/CLASS/*.jpg; created if it does not exist");
  line.add("data_dir", f.data_dir, "folder with Fashion-MNIST's four IDX files, to create --image_dir from");
  line.add("images_per_class", f.images_per_class, 1, 6000, "training images of each class in a created folder");
  line.add("batch_size", f.batch_size, 1, 10'000, "images per step");
  line.add("epochs", f.epochs, 1, 100'000, "passes over all images");
  line.add("learning_rate", f.learning_rate, "learning rate of adam");
  line.add("decode_threads", f.decode_threads, 1, max_threads(), "threads that decode and augment images");
  line.add("threads", f.threads, 0, max_threads(), "threads for computation; 0: one per core");
  line.add("seed", f.seed, 0, INT64_MAX, "seed of the initial weights, the order of the images and their augmentation");
  line.add("skip_damaged", f.skip_damaged, "skip and count files that cannot be decoded");
  line.add("least_accuracy", f.least_accuracy, 1, "fail if the test accuracy is below this");
  line.add("progress", f.progress, "auto, bar, lines or none");
  if (!line.parse(argc, argv)) {
    check_output();
    return 0;
  }
  run(f);
} catch (...) {
  return tell_failure();
}
