// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include <weft/weft.hpp>

#include "../classifier.hpp"
#include "../training_flags.hpp"

/// model.cpp has the layers and the loss, whose kernels nvcc compiles for GPUs; no other file needs nvcc.
struct lenet : classifier {
  /// `steps`: of the whole run.
  lenet(const training_flags& f, std::int64_t steps, std::int64_t steps_per_epoch);
};
