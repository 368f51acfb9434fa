// SPDX-License-Identifier: BSL-1.0
#pragma once

// The headers that tests for any device include on a GPU, and on an emulated one (WEFT_GPU_EMULATION).

#include <boost/test/unit_test.hpp>
#if defined(WEFT_GPU_EMULATION)
  #include <weft/ops/gpu/all.hpp>
  #include <weft/ops/gpu/convolution.hpp>
  #include <weft/ops/gpu/matmul.hpp>
  #include <weft/ops/gpu/pooling.hpp>
  #include <weft/session/gpu_session.hpp>
  #include <weft/weft.hpp>
  #include "../gpu/emulated.hpp"
#else
  #include <weft/cuda.hpp>
#endif

#include "../session_on_cpu.hpp"
