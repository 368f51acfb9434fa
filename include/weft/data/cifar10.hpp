// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weft/data/dataset.hpp>
#include <weft/data/file_reader.hpp>
#include <weft/error.hpp>

namespace weft::data {

/// CIFAR-10 images, 32 x 32 in colour, [height, width, channels], from 0 to 1, and labels below 10, from files of the
/// binary version: each image is a byte with the label and a plane of 1,024 bytes for each of red, green and blue. All
/// images are stored in memory as bytes. Throws the errors of file_reader; data_loss, with the file and the offset, if
/// a file ends within an image; and out_of_range for an invalid label.
dataset<tensor<float, dims<32, 32, 3>>, std::int32_t> cifar10_files(const std::vector<std::string>& paths);

/// The CIFAR-10 split `"train"` (50,000 images) or `"test"` (10,000), from the folder to which cifar-10-binary.tar.gz
/// of www.cs.toronto.edu/~kriz/cifar.html was unpacked.
dataset<tensor<float, dims<32, 32, 3>>, std::int32_t> cifar10(std::string_view split,
                                                              const std::string& dir = "cifar-10-batches-bin");

#if WEFT_DEFINITIONS

WEFT_DECL dataset<tensor<float, dims<32, 32, 3>>, std::int32_t> cifar10_files(const std::vector<std::string>& paths) {
  constexpr std::size_t plane = 32 * 32, record = 1 + 3 * plane;
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;
  std::vector<std::uint8_t> bytes(record);
  for (const std::string& path : paths) {
    file_reader file(path);
    for (std::uint64_t offset = 0;; offset += record) {
      const std::size_t got = file.read(bytes.data(), record);
      if (got == 0) break;
      if (got != record)
        throw error(error_code::data_loss, "cifar10",
                    {path, ": the image at offset ", offset, " has ", got, " bytes, but must have ", record});
      if (bytes[0] >= 10)
        throw error(error_code::out_of_range, "cifar10",
                    {path, ": the image at offset ", offset, " has the label ", bytes[0],
                     ", but labels are 0 to 9: use a file of CIFAR-10's binary version"});
      labels.push_back(bytes[0]);
      const std::size_t at = pixels.size();
      pixels.resize(at + 3 * plane);
      for (std::size_t i = 0; i < plane; ++i)
        for (std::size_t channel = 0; channel < 3; ++channel)
          pixels[at + 3 * i + channel] = bytes[1 + channel * plane + i];
    }
  }
  return from_tensors(scaled<dims<32, 32, 3>>(std::move(pixels)), std::move(labels));
}

WEFT_DECL dataset<tensor<float, dims<32, 32, 3>>, std::int32_t> cifar10(std::string_view split,
                                                                        const std::string& dir) {
  if (split == "test") return cifar10_files({dir + "/test_batch.bin"});
  if (split != "train")
    throw error(error_code::invalid_argument, "cifar10",
                {"the split must be \"train\" or \"test\", but is \"", std::string(split), "\""});
  std::vector<std::string> paths;
  for (const char* number : {"1", "2", "3", "4", "5"}) paths.push_back(dir + "/data_batch_" + number + ".bin");
  return cifar10_files(paths);
}

#endif

}  // namespace weft::data
