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
  command_line line("Classifies images with ResNet or Inception v3, and trains them in one process or on a cluster");
  line.heading("Network");
  line.add("model", f.model, network_names(), "resnet18, resnet50, inception_v3 of 1000 classes; others are for tests");
  line.add("weights", f.weights, "safetensors file of Weft's or of PyTorch's names: what the network begins with");
  line.add("save_weights", f.save_weights, "file for the weights at the end");
  line.add("describe", f.describe, "prints the layers and the sums of parameters and multiply-adds, and ends");
  line.heading("Inference");
  line.add("npy_in", f.npy_in, "file of normalized images [batch, height, width, 3]; computes their logits and ends");
  line.add("npy_out", f.npy_out, "file for the logits [batch, classes]");
  line.add("evaluate", f.evaluate, "measures the accuracy of --weights on val/ or validation-*, and ends");
  f.add_to(line);
  line.heading("Training");
  line.add("momentum", f.momentum, 1, "of the optimizer; its usual one unless given");
  line.add("decay", f.decay, 1, "of the optimizer's running mean of squares, as for rmsprop");
  line.add("epsilon", f.epsilon, 1e6, "of the optimizer");
  line.add_from_0("weight_decay", f.weight_decay, 1, "times each kernel, is added to its gradient");
  line.add_from_0("label_smoothing", f.label_smoothing, 1, "share of a label that all classes have in equal parts");
  line.add_from_0("auxiliary_weight", f.auxiliary_weight, 1e6, "of the loss of Inception's auxiliary classifier");
  line.add_from_0("average_decay", f.average_decay, 1,
                  "of the moving averages of variables, by which accuracy is measured; 0: without averages");
  line.heading("Data");
  line.add("image_dir", f.image_dir, "folder with train/CLASS/*.jpg and val/CLASS/*.jpg");
  line.add("records", f.records, "folder with TFRecord files train-* and validation-*, in place of --image_dir");
  line.add("augment", f.augment, {"none", "crop", "color"},
           "none; crop: random parts and flips; color: also brightness, contrast, saturation and hue");
  line.add("min_crop", f.min_crop, 1, "least share of an image that a random part has; 0.08, or 0.5 of small images");
  line.add("decode_threads", f.decode_threads, 1, max_threads(), "threads that decode and augment images");
  line.add("shuffle_buffer", f.shuffle_buffer, 1, 100'000'000, "images of --records among which a shuffle draws");
  line.add("make_images", f.make_images, "writes the folder --image_dir from Fashion-MNIST, and ends");
  line.add("images_per_class", f.images_per_class, 1, 6000, "to learn from, in a folder that is made");
  if (!line.parse(argc, argv)) return {};
  if (f.npy_in.empty() != f.npy_out.empty()) refuse("--npy_in and --npy_out go together");
  if (f.weights.empty() && !f.npy_in.empty()) refuse("--npy_in needs --weights");
  if (f.weights.empty() && f.evaluate) refuse("--evaluate needs --weights");
  if (!f.describe && f.npy_in.empty() && !f.evaluate && !f.make_images) {
    // The other tasks would not get these values.
    if (!f.weights.empty() && f.chosen_strategy.value_or("local") != "local")
      refuse("--weights starts training in one process only: use --strategy local, or leave out --weights");
    f.resolve();
  }
  return f;
}

}  // namespace imagenet
