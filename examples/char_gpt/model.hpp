// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <weft/weft.hpp>

/// Characters are numbers below 128, and a model reads this many at once.
constexpr int characters = 128, window = 128;

using text_dims = weft::dims<weft::dyn<"batch">, window>;

/// Continues a text by half a window of characters, or until the function returns false for a new one.
using text_writer = std::function<void(const std::vector<std::int32_t>&, const std::function<bool(std::int32_t)>&)>;

/// A model of text: a GPT-2, or a recurrent network for comparison.
struct text_model {
  weft::graph g;
  weft::node<std::int32_t, text_dims> text = weft::placeholder<std::int32_t, text_dims>(g, "text");
  weft::node<std::int32_t, text_dims> next = weft::placeholder<std::int32_t, text_dims>(g, "next");
  weft::node<float, weft::dims<weft::dyn<"batch">, window, characters>> logits;
  weft::node<float> loss;  ///< the mean of -log p(next character)
  weft::effect train;
  std::string description;
  /// Returns a writer by a temperature and a seed, which reads each character once. Empty for a recurrent network.
  std::function<text_writer(weft::session&, double, std::uint64_t)> writer;

  text_model(const std::string& cell, double learning_rate, std::int64_t steps, std::uint64_t seed);

 private:
  template <class Model>
  void record(const Model& model, double learning_rate, std::int64_t steps);
};
