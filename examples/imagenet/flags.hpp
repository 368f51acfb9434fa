// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../cluster_flags.hpp"
#include "../result_file.hpp"
#include "images.hpp"
#include "network.hpp"

namespace imagenet {

struct flags : cluster_flags {
  std::string model = "small_resnet18";
  std::string weights, save_weights, npy_in, npy_out, records, augment = "color";
  std::string image_dir = "tinted-images";
  bool describe = false, evaluate = false, make_images = false;
  std::int64_t images_per_class = 1200, decode_threads = 2, shuffle_buffer = 10'000;
  double label_smoothing = 0.1, auxiliary_weight = 0.4, weight_decay = 4e-5, average_decay = 0.9999;
  std::optional<double> momentum, decay, epsilon, min_crop;

  image_options images() const {
    const bool small = find_network(model).side < 200;
    return {.image_dir = image_dir,
            .records = records,
            .augment = augment,
            .min_crop = min_crop.value_or(small ? 0.5 : 0.08),
            .decode_threads = static_cast<int>(decode_threads),
            .shuffle_buffer = static_cast<std::size_t>(shuffle_buffer),
            .seed = static_cast<std::uint64_t>(seed)};
  }
  training_recipe recipe(std::int64_t steps, std::int64_t steps_per_epoch) const {
    training_recipe made = training_flags::recipe(steps, steps_per_epoch);
    made.momentum = momentum, made.decay = decay, made.epsilon = epsilon;
    made.weight_decay = weight_decay;
    made.counts_steps = true;
    return made;
  }
  run_settings settings() const {
    run_settings all = training_flags::settings("imagenet");
    const auto add = [&](const char* flag, const auto& value) { all.emplace_back(flag, json_number("%.9g", value)); };
    all.emplace_back("model", model);
    all.emplace_back("augment", augment);
    add("weight_decay", weight_decay), add("label_smoothing", label_smoothing), add("average_decay", average_decay);
    return all;
  }
};

/// The flags of the usual run.
inline flags usual_flags() {
  flags f;
  f.epochs = 8, f.batch_size = 50, f.optimizer = "adam", f.adam_rate = 0.015, f.schedule = "cosine";
  return f;
}

/// Reads the command line; nothing where --help was asked for and given. Throws weft::error for a wrong flag.
inline std::optional<flags> parse_flags(int argc, char** argv) {
  flags f = usual_flags();
  command_line line("Trains ResNet or Inception v3 in one process or on a cluster, and classifies images");
  line.heading("Network");
  line.add("model", f.model, network_names(),
           "resnet18, resnet50 or inception_v3 with 1000 classes; the others are for tests");
  line.add("weights", f.weights, "safetensors file of initial weights, with Weft's or PyTorch's names");
  line.add("save_weights", f.save_weights, "file for the final weights");
  line.add("describe", f.describe, "print the layers and the numbers of parameters and multiply-adds, and exit");
  line.heading("Inference");
  line.add("npy_in", f.npy_in, "file of normalized images [batch, height, width, 3]; compute their logits and exit");
  line.add("npy_out", f.npy_out, "file for the logits [batch, classes]");
  line.add("evaluate", f.evaluate, "measure the accuracy of --weights on val/ or validation-*, and exit");
  f.add_to(line);
  line.heading("Training");
  line.add("momentum", f.momentum, 1, "momentum; default: the optimizer's own");
  line.add("decay", f.decay, 1, "decay of the optimizer's mean of squares, as for rmsprop");
  line.add("epsilon", f.epsilon, 1e6, "epsilon of the optimizer");
  line.add_from_0("weight_decay", f.weight_decay, 1, "factor of the kernels that are added to their gradients");
  line.add_from_0("label_smoothing", f.label_smoothing, 1, "share of a label that is spread evenly over all classes");
  line.add_from_0("auxiliary_weight", f.auxiliary_weight, 1e6,
                  "weight of the loss of Inception's auxiliary classifier");
  line.add_from_0("average_decay", f.average_decay, 1,
                  "decay of the variables' moving averages, used to measure accuracy; 0: no averages");
  line.heading("Data");
  line.add("image_dir", f.image_dir, "folder with train/CLASS/*.jpg and val/CLASS/*.jpg");
  line.add("records", f.records, "folder with TFRecord files train-* and validation-*, instead of --image_dir");
  line.add("augment", f.augment, {"none", "crop", "color"},
           "none; crop: random parts and flips; color: also brightness, contrast, saturation and hue");
  line.add("min_crop", f.min_crop, 1,
           "smallest share of an image for a random crop; default: 0.08, or 0.5 for small images");
  line.add("decode_threads", f.decode_threads, 1, max_threads(), "threads that decode and augment images");
  line.add("shuffle_buffer", f.shuffle_buffer, 1, 100'000'000, "size of the shuffle buffer of --records, in images");
  line.add("make_images", f.make_images, "write the folder --image_dir from Fashion-MNIST, and exit");
  line.add("images_per_class", f.images_per_class, 1, 6000, "training images of each class in a created folder");
  if (!line.parse(argc, argv)) return {};
  if (f.npy_in.empty() != f.npy_out.empty()) refuse("--npy_in and --npy_out require each other");
  if (f.weights.empty() && !f.npy_in.empty()) refuse("--npy_in needs --weights");
  if (f.weights.empty() && f.evaluate) refuse("--evaluate needs --weights");
  if (!f.describe && f.npy_in.empty() && !f.evaluate && !f.make_images) {
    // The other tasks would not get these values.
    if (!f.weights.empty() && f.chosen_strategy.value_or("local") != "local")
      refuse("--weights requires --strategy local for training: use it, or leave out --weights");
    f.resolve();
  }
  return f;
}

}  // namespace imagenet
