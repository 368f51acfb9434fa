// SPDX-License-Identifier: BSL-1.0
// ResNet and Inception v3: inference with PyTorch's weights, and training on ImageNet as TensorFlow's distributed
// Inception did it, in one process or on a cluster. Without a data set a narrow ResNet-18 learns from colour images
// that the program makes of Fashion-MNIST, and reaches a test accuracy of 0.85, or ends with an error. `--help` lists
// the flags.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>

#include <weft/checkpoint/npy.hpp>
#include <weft/weft.hpp>

#include "../result_file.hpp"
#include "evaluation.hpp"
#include "flags.hpp"
#include "images.hpp"
#include "network.hpp"
#include "training.hpp"

using namespace weft;
using namespace imagenet;

namespace {

std::unique_ptr<network> network_for_inference(const flags& f) {
  return find_network(f.model).make(
      {.seed = static_cast<std::uint64_t>(f.seed), .place = [&](const placement_query&) { return f.place(); }});
}

/// Writes the logits of the images in a file.
void infer(const flags& f) {
  const network_kind& kind = find_network(f.model);
  const auto images = read_npy<network::image_batch>(f.npy_in);
  if (images.extent(1) != kind.side || images.extent(2) != kind.side)
    refuse(f.npy_in + " has images of " + std::to_string(images.extent(1)) + " x " + std::to_string(images.extent(2)) +
           ", but " + f.model + " requires " + std::to_string(kind.side) + " x " + std::to_string(kind.side));
  const auto net = network_for_inference(f);
  session s(net->g, {.threads = static_cast<int>(f.threads), .device = f.place()});
  net->load(f.weights, s);
  auto step = s.prepare(fetch(net->logits), feed(net->images));
  const std::int64_t count = images.extent(0);
  const auto each = static_cast<std::size_t>(kind.side) * static_cast<std::size_t>(kind.side) * 3;
  tensor<float, dims<dyn<"batch">, dyn<"classes">>> logits{shape(count, kind.classes)};
  float* to = logits.data();
  for (std::int64_t at = 0, taken; at < count; at += taken) {
    taken = std::min(f.batch_size, count - at);
    network::image_batch some{shape(taken, kind.side, kind.side, 3)};
    const float* const from = images.data() + static_cast<std::size_t>(at) * each;
    std::copy(from, from + some.elements(), some.data());
    const auto y = step(some);
    to = std::copy(y.data(), y.data() + y.elements(), to);
  }
  write_npy(f.npy_out, logits);
}

void evaluate(const flags& f) {
  const auto net = network_for_inference(f);
  session s(net->g, {.threads = static_cast<int>(f.threads), .device = f.place()});
  net->load(f.weights, s);
  const image_source images(f.images(), find_network(f.model), "val");
  const accuracies reached = measure(s, *net, images, static_cast<std::size_t>(f.batch_size));
  std::printf("test accuracy %.4f, top-5 %.4f, %zu images\n", reached.top_1, reached.top_5, images.size());
  check_output();
  check_accuracy(reached.top_1, f.least_accuracy.value_or(0));
}

void make_images(const flags& f) {
  if (std::filesystem::exists(f.image_dir)) return;
  make_image_folder(f.image_dir, f.data_dir, f.images_per_class, static_cast<std::uint64_t>(f.seed));
}

}  // namespace

int main(int argc, char** argv) try {
  const auto f = parse_flags(argc, argv);
  if (!f) {
    check_output();
    return 0;
  }
  if (f->describe)
    std::fputs(network_for_inference(*f)->describe().c_str(), stdout);
  else if (!f->npy_in.empty())
    infer(*f);
  else if (f->evaluate)
    evaluate(*f);
  else if (f->make_images)
    make_images(*f);
  else
    train(*f);
  check_output();
} catch (...) {
  return tell_failure();
}
