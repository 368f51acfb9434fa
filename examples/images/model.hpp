// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include <weft/weft.hpp>

/// A small convolutional network for grey images of 28 x 28; its expressions are in model.cpp, which knows no dataset.
struct image_classifier {
  static constexpr int side = 28, classes = 10;

  weft::graph g;
  weft::node<float, weft::dims<weft::dyn<"batch">, side, side, 1>> images;
  weft::node<std::int32_t, weft::dims<weft::dyn<"batch">>> labels;
  weft::node<float, weft::dims<weft::dyn<"batch">, classes>> logits;
  weft::node<float> loss, accuracy;
  weft::effect train;

  image_classifier(std::uint64_t seed, double learning_rate);
};
