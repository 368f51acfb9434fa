// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <weft/data/dataset.hpp>
#include <weft/data/idx.hpp>
#include <weft/error.hpp>

namespace weft::data {

/// A dataset of images with `Pixels` grey values from 0 to 1, and their labels.
template <int Pixels>
using labelled_images = dataset<tensor<float, dims<Pixels>>, std::int32_t>;

/// Reads 28 x 28 grey images and labels below 10 from `<prefix>-images-idx3-ubyte` and `<prefix>-labels-idx1-ubyte`,
/// each with or without `.gz`: the format of MNIST, Fashion-MNIST and their kin.
labelled_images<784> mnist_files(const std::string& prefix);

/// Fashion-MNIST, `"train"` (60,000 images) or `"test"` (10,000), as installed by Debian's package
/// dataset-fashion-mnist, or from another folder with files named as MNIST's.
labelled_images<784> fashion_mnist(std::string_view split,
                                   const std::string& dir = "/usr/share/datasets/fashion-mnist");

}  // namespace weft::data

#if WEFT_DEFINITIONS

  #include <sys/stat.h>

WEFT_COLD_BEGIN
namespace weft::data {

namespace detail {

/// Returns `path` if it exists, else `path` without the suffix of compressed files.
inline std::string present(const std::string& path) {
  struct stat status{};
  const std::string unpacked = path.substr(0, path.size() - 3);
  return ::stat(path.c_str(), &status) != 0 && ::stat(unpacked.c_str(), &status) == 0 ? unpacked : path;
}

}  // namespace detail

WEFT_DECL labelled_images<784> mnist_files(const std::string& prefix) {
  detail::idx_file images(detail::present(prefix + "-images-idx3-ubyte.gz"), 0x08, 1);
  detail::idx_file labels(detail::present(prefix + "-labels-idx1-ubyte.gz"), 0x08, 1);
  const std::string &images_path = images.file.path(), &labels_path = labels.file.path();
  if (images.extents.size() != 3 || images.extents[1] != 28 || images.extents[2] != 28)
    throw error(error_code::invalid_argument, "mnist", {images_path, " must contain images of 28 x 28"});
  const std::size_t count = images.extents[0];
  if (count == 0) throw error(error_code::invalid_argument, "mnist", {images_path, " contains no images"});
  if (labels.extents.size() != 1 || labels.extents[0] != count)
    throw error(
        error_code::invalid_argument, "mnist",
        {labels_path, " contains ", labels.bytes, " labels, but ", images_path, " contains ", count, " images"});

  const storage pixels(images.bytes), classes(count * sizeof(std::int32_t));
  images.read(pixels.data());
  auto* const numbers = reinterpret_cast<std::int32_t*>(classes.data());
  auto* const digits = reinterpret_cast<const unsigned char*>(numbers + count) - count;  // widened in place
  labels.read(classes.data() + count * sizeof(std::int32_t) - count);
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned char label = digits[i];
    if (label >= 10)
      throw error(error_code::out_of_range, "mnist",
                  {labels_path, " has the label ", label, " at ", i, ", but labels must be 0 to 9"});
    numbers[i] = label;
  }

  sequence<detail::column> columns(2);
  columns[0] = detail::column_in(pixels);
  columns[0].extents = shape(784);
  columns[0].row_bytes = 784;
  columns[0].scaled = true;
  columns[1] = detail::column_in(classes);
  columns[1].row_bytes = sizeof(std::int32_t);
  const std::size_t rows[] = {count, count};
  return labelled_images<784>(detail::new_memory_stage(labelled_images<784>::features(), std::move(columns), rows));
}

WEFT_DECL labelled_images<784> fashion_mnist(std::string_view split, const std::string& dir) {
  if (split != "train" && split != "test")
    throw error(error_code::invalid_argument, "fashion_mnist",
                {"the split must be \"train\" or \"test\", but is \"", std::string(split), "\""});
  try {
    return mnist_files(dir + (split == "train" ? "/train" : "/t10k"));
  } catch (const error& e) {
    if (e.code() != error_code::not_found) throw;
    throw error(error_code::not_found, "fashion_mnist",
                {e.what(), " (on Debian and Ubuntu, install the package dataset-fashion-mnist)"});
  }
}

}  // namespace weft::data
WEFT_COLD_END
#endif
