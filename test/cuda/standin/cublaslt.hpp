// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <vector>

#include <cublasLt.h>

#include "cuda_runtime.hpp"

/// A cuBLASLt that a test links in NVIDIA's place, beside the stand-in for the runtime: products by their definition,
/// of matrices by columns, in double. It refuses what cuBLASLt refuses, and notes what would only be found on a card:
/// addresses less aligned than was said, too little workspace.
namespace standin {

class cublaslt_library {
 public:
  cublaslt_library();
  cublaslt_library(const cublaslt_library&) = delete;
  cublaslt_library& operator=(const cublaslt_library&) = delete;
  ~cublaslt_library();

  /// How many algorithms it offers, and the milliseconds of each.
  std::vector<float> times = {3, 2, 1};
  /// The workspace that algorithm i needs is i times this.
  std::size_t workspace = 5000;
  std::vector<int> multiplied;            ///< the algorithms that were called
  std::vector<std::uint32_t> alignments;  ///< and what each was offered for
  std::vector<std::string> mistakes;
  int handles = 0;
};

}  // namespace standin
