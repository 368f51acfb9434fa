// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <set>
#include <string>
#include <vector>

#include <cudnn.h>

#include "cuda_runtime.hpp"

/// A cuDNN that a test links in NVIDIA's place, beside the stand-in for the runtime: descriptors, filters and images in
/// any strides, convolutions by their definition, in double. Its calls are work of their stream, so that the runtime's
/// stand-in sees who reads and writes what. It refuses what cuDNN refuses: operands that do not fit together, filters
/// in another layout than images, too little workspace, arithmetic of another kind than was agreed.
namespace standin {

class cudnn_library {
 public:
  cudnn_library();
  cudnn_library(const cudnn_library&) = delete;
  cudnn_library& operator=(const cudnn_library&) = delete;
  ~cudnn_library();

  /// Algorithms that say that they are there, and refuse when they are called, as happens.
  std::set<int> refused;
  /// Whether convolutions refuse to take in a bias.
  bool refuses_bias = false;
  /// The milliseconds that an algorithm takes by cudnnFind..., with channels last, and first.
  float channels_last_time = 1, channels_first_time = 2;
  /// The algorithms that were called, with the layout: "1 NHWC".
  std::vector<std::string> convolved;
  std::vector<std::string> mistakes;
  int descriptors = 0, handles = 0;
};

}  // namespace standin
