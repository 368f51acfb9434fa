#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weft/data/dataset.hpp>
#include <weft/data/idx.hpp>
#include <weft/error.hpp>

namespace weft::data {

/// Images of `Pixels` grey values from 0 to 1, and their labels.
template <int Pixels>
using labelled_images = dataset<tensor<float, dims<Pixels>>, std::int32_t>;

namespace detail {

/// `path` if it is there, else `path` without the compressed file's ending.
inline std::string present(const std::string& path) {
  struct stat status {};
  const std::string unpacked = path.substr(0, path.size() - 3);
  return ::stat(path.c_str(), &status) != 0 && ::stat(unpacked.c_str(), &status) == 0 ? unpacked : path;
}

}  // namespace detail

/// Images of 28 x 28 grey values and labels below 10 from `<prefix>-images-idx3-ubyte` and
/// `<prefix>-labels-idx1-ubyte`, each with or without `.gz`: the form of MNIST, Fashion-MNIST and their kin.
inline labelled_images<784> mnist_files(const std::string& prefix) {
  const std::string images_path = detail::present(prefix + "-images-idx3-ubyte.gz");
  const std::string labels_path = detail::present(prefix + "-labels-idx1-ubyte.gz");
  auto images = read_idx<std::uint8_t>(images_path);
  auto labels = read_idx<std::uint8_t>(labels_path);
  if (images.extents.size() != 3 || images.extents[1] != 28 || images.extents[2] != 28)
    throw error(error_code::invalid_argument, "mnist", images_path + " does not hold images of 28 x 28");
  if (images.extents[0] == 0) throw error(error_code::invalid_argument, "mnist", images_path + " holds no images");
  if (labels.extents.size() != 1 || labels.extents[0] != images.extents[0])
    throw error(error_code::invalid_argument, "mnist",
                labels_path + " holds " + std::to_string(labels.values.size()) + " labels for the " +
                    std::to_string(images.extents[0]) + " images of " + images_path);
  for (std::size_t i = 0; i < labels.values.size(); ++i)
    if (labels.values[i] >= 10)
      throw error(error_code::out_of_range, "mnist",
                  labels_path + " has the label " + std::to_string(labels.values[i]) + " at " + std::to_string(i) +
                      ", where 0 to 9 are expected");
  return from_tensors(scaled<dims<784>>(std::move(images.values)),
                      std::vector<std::int32_t>(labels.values.begin(), labels.values.end()));
}

/// Fashion-MNIST, `"train"` (60,000 images) or `"test"` (10,000), from where Debian's package dataset-fashion-mnist has
/// put it, or from another folder with files of MNIST's names.
inline labelled_images<784> fashion_mnist(std::string_view split,
                                          const std::string& dir = "/usr/share/datasets/fashion-mnist") {
  if (split != "train" && split != "test")
    throw error(error_code::invalid_argument, "fashion_mnist",
                "there is no split \"" + std::string(split) + "\", only \"train\" and \"test\"");
  try {
    return mnist_files(dir + (split == "train" ? "/train" : "/t10k"));
  } catch (const error& e) {
    if (e.code() != error_code::not_found) throw;
    throw error(error_code::not_found, "fashion_mnist",
                std::string(e.what()) + " (Debian and Ubuntu have the files in the package dataset-fashion-mnist)");
  }
}

}  // namespace weft::data
