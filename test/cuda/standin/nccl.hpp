// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <nccl.h>

#include "cuda_runtime.hpp"

/// An NCCL that a test links in NVIDIA's place, beside the stand-in for the runtime: groups of GPUs of one process, and
/// of a process alone. A wait of NCCL that would not end is a mistake here.
namespace standin {

class nccl_library {
 public:
  nccl_library();
  nccl_library(const nccl_library&) = delete;
  nccl_library& operator=(const nccl_library&) = delete;
  ~nccl_library();

  std::vector<std::string> mistakes;
  int communicators = 0;
};

}  // namespace standin
