// SPDX-License-Identifier: BSL-1.0
#pragma once

// Before a test that is written for any device: its sessions run on the first GPU, and without one it is skipped. With
// WEFT_GPU_EMULATION the GPU is an emulated one, and the test runs anywhere.

#include <cstdio>
#include <utility>

#include <weft/plan/subgraphs.hpp>  // it has a member that is called session, which is a macro below

#include "device_headers.hpp"

#if !defined(STANDIN_LEAVES_OUT)
  #define STANDIN_LEAVES_OUT ""
#endif

namespace weft {

/// The class that `session` means in such a test.
class session_on_gpu : public session {
 public:
  explicit session_on_gpu(const graph& g, session_options options = {}) : session(g, on_gpu(std::move(options))) {}

 private:
  static session_options on_gpu(session_options o) {
    o.device = cuda{0};
    o.allow_soft_placement = true;
    return o;
  }
};

}  // namespace weft

int main(int count, char** arguments) {
#if defined(WEFT_GPU_EMULATION)
  const weft::gpu::emulated_platform gpu;
#else
  auto& gpus = *weft::gpu::installed_platform;
  if (gpus.count() == 0) {
    std::printf("skipped: %s\n", gpus.reason().c_str());
    return 77;
  }
#endif
  return standin::run(count, arguments, STANDIN_LEAVES_OUT);
}

#define session session_on_gpu
