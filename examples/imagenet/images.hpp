// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <weft/data/dataset.hpp>
#include <weft/data/image.hpp>

#include "network.hpp"

namespace imagenet {

/// Where the images are and what training makes of them.
struct image_options {
  std::string image_dir, records;  ///< one of the two is not empty
  std::string augment = "color";   ///< none, crop or color
  double min_crop = 0.08;          ///< the least share of an image's area that a random part has
  int decode_threads = 2;
  std::size_t shuffle_buffer = 10'000;  ///< images of TFRecord files among which a shuffle draws
  std::uint64_t seed = 1;
};

/// The images of a part of a data set, "train" or "val": JPEG files in ImageNet's layout, or the TFRecord shards of
/// TensorFlow's Inception, train-* and validation-*, with the features image/encoded and image/class/label, from 1.
class image_source {
 public:
  using batches = weft::data::dataset<network::image_batch, network::label_batch>;

  /// Lists files, and counts records. Throws weft::error where there is none, or a class that the network does not
  /// have.
  image_source(const image_options& how, const network_kind& kind, const std::string& part);

  std::size_t size() const { return size_; }
  /// Returns the number of images that one of several workers reads. Each file of records belongs to one worker.
  std::size_t size(std::size_t worker, std::size_t workers) const;

  /// Shuffled and augmented images of one worker.
  batches training_batches(std::size_t batch, std::size_t worker, std::size_t workers) const;
  /// All images in order: of each, the middle.
  batches test_batches(std::size_t batch) const;

 private:
  using decoded = weft::data::dataset<weft::data::image<3>, std::int32_t>;

  decoded read_records(const std::vector<std::string>& files) const;
  std::vector<std::string> files_of(std::size_t worker, std::size_t workers) const;

  image_options how_;
  network_kind kind_;
  std::size_t size_ = 0;
  std::vector<std::string> paths_;          // of images, or of files of records
  std::vector<std::int32_t> labels_;        // of images
  std::vector<std::size_t> record_counts_;  // of files of records
};

/// Writes a folder train/CLASS/*.jpg and val/CLASS/*.jpg of colour images of 64 x 64 from Fashion-MNIST: so many of
/// each class to learn from, and a fifth as many to be tested with. Each image has two colours of its own, which say
/// nothing of its class. The folder has its name when it is whole.
void make_image_folder(const std::string& folder, const std::string& fashion_mnist, std::int64_t of_each,
                       std::uint64_t seed);

}  // namespace imagenet
