// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include <weft/weft.hpp>

#include "optimizers.hpp"

/// A graph that tells ten classes of images of 28 x 28 apart, and what trains it; a program's own model has the layers.
struct classifier {
  weft::graph g;
  weft::node<float, weft::dims<weft::dyn<"batch">, 784>> images;
  weft::node<std::int32_t, weft::dims<weft::dyn<"batch">>> labels;
  weft::node<float, weft::dims<weft::dyn<"batch">, 10>> logits;
  weft::node<float> loss, accuracy;
  training train;

 protected:
  explicit classifier(std::int64_t seed)
      : g(static_cast<std::uint64_t>(seed)),
        images(weft::placeholder<float, weft::dims<weft::dyn<"batch">, 784>>(g, "images")),
        labels(weft::placeholder<std::int32_t, weft::dims<weft::dyn<"batch">>>(g, "labels")) {}
};
