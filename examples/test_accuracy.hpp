// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <weft/weft.hpp>

/// Which share of the images a model, with what the session has learnt, takes for what they are; so many at a time.
template <class Model, class Images>
double test_accuracy(weft::session& s, const Model& model, const Images& images, std::size_t at_once) {
  auto step = s.prepare(weft::fetch(model.accuracy), weft::feed(model.images, model.labels));
  double right = 0;
  for (const auto& [x, y] : images.batches(at_once)) right += step(x, y) * static_cast<double>(y.elements());
  return right / static_cast<double>(images.size());
}
