#pragma once

#include <cstdint>

#include <weft/weft.hpp>

#include "../classifier.hpp"
#include "../command_line.hpp"

/// Extents are of images, height and width, and channels; those of every layer follow and are checked when model.cpp
/// compiles. For GPUs that alone is nvcc's: it has the expressions that become kernels.
struct lenet : classifier {
  /// `steps`: of the whole run.
  lenet(const training_flags& f, std::int64_t steps, std::int64_t steps_per_epoch);

 private:
  weft::node<float, weft::dims<weft::dyn<"batch">, 10>> layers();
};
