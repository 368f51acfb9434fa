// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <weft/data/csv.hpp>
#include <weft/ops/random/dropout.hpp>
#include <weft/weft.hpp>

// The table and the network that train on it and that predict from it have in common.

inline constexpr std::int64_t measured = 30;
using measurements = weft::tensor<float, weft::dims<measured>>;

/// The columns of the measurements, as the file's first line names them.
inline std::vector<weft::data::csv_column> measurement_columns() {
  std::vector<weft::data::csv_column> names;
  const std::array<const char*, 10> what{"radius",      "texture",   "perimeter",      "area",     "smoothness",
                                         "compactness", "concavity", "concave_points", "symmetry", "fractal_dimension"};
  for (const char* each : what) names.emplace_back("mean_" + std::string(each));
  for (const char* each : what) names.emplace_back(each + std::string("_error"));
  for (const char* each : what) names.emplace_back("worst_" + std::string(each));
  return names;
}

using batch_of_patients = weft::dims<weft::dyn<"batch">, measured>;

/// A layer of N units behind M, its weights and biases.
template <int M, int N>
struct dense {
  weft::variable_node<float, weft::dims<M, N>> weights;
  weft::variable_node<float, weft::dims<N>> bias;

  dense(weft::graph& g, const std::string& name)
      : weights(weft::variable<float, weft::dims<M, N>>(g, name + "/weights", weft::init::he_normal{})),
        bias(weft::variable<float, weft::dims<N>>(g, name + "/bias", weft::init::zeros{})) {}

  auto operator()(const auto& x) const { return matmul(x, weights) + bias; }
};

/// Three layers. The values that normalise the measurements are variables too, though not trained: a file of the
/// weights is all that a prediction needs.
struct diagnosis {
  weft::graph g;
  weft::node<float, batch_of_patients> patients = weft::placeholder<float, batch_of_patients>(g, "patients");
  weft::variable_node<float, weft::dims<measured>> average = weft::variable<float, weft::dims<measured>>(
      g, "measured/average", weft::init::zeros{}, weft::variable_kind::averaged);
  weft::variable_node<float, weft::dims<measured>> deviation = weft::variable<float, weft::dims<measured>>(
      g, "measured/deviation", weft::init::ones{}, weft::variable_kind::averaged);
  dense<measured, 64> first{g, "first"};
  dense<64, 32> second{g, "second"};
  dense<32, 1> last{g, "last"};

  explicit diagnosis(std::uint64_t seed = 1) : g(seed) {}

  /// Log odds that a tumour is malignant; `rate` of each layer's units are dropped.
  weft::node<float, weft::dims<weft::dyn<"batch">>> logits(float rate) const {
    const auto normalised = (patients - average) / deviation;
    const auto flat = [](const auto& column) { return let(weft::reshape<weft::dims<weft::dyn<"batch">>>(column)); };
    if (rate == 0) return flat(last(relu(second(relu(first(normalised))))));
    return flat(last(dropout(relu(second(dropout(relu(first(normalised)), rate))), rate)));
  }
};
