// SPDX-License-Identifier: BSL-1.0
// Predicts with the weights that `tabular` has kept: reads a table of measurements, which needs no diagnosis, and
// prints a table of one row each. `--help` lists the flags.
#include <cstdio>
#include <string>

#include <weft/checkpoint/weights.hpp>

#include "../command_line.hpp"
#include "../result_file.hpp"
#include "../tabular/patients.hpp"

using namespace weft;

int main(int argc, char** argv) try {
  std::string data, weights = "tabular.safetensors";
  command_line line("Predicts from cell measurements whether a tumour is malignant");
  line.add("data", data, "CSV file of the measurements");
  line.add("weights", weights, "safetensors file of the weights");
  if (!line.parse(argc, argv)) {
    check_output();
    return 0;
  }
  if (data.empty()) refuse("--data is required: give the CSV file to predict from");
  const diagnosis model;
  const auto malignant = sigmoid(model.logits(0));
  session s(model.g, {.threads = 1});
  load_weights(weights, s);
  auto predict = s.prepare(fetch(malignant), feed(model.patients));
  std::puts("malignant,diagnosis");
  for (const auto& [x] : data::csv<measurements>(data, {.columns = measurement_columns()}).batches(1000)) {
    const auto probabilities = predict(x);
    for (const float p : probabilities)
      std::printf("%.6f,%s\n", static_cast<double>(p), p > 0.5f ? "malignant" : "benign");
  }
  check_output();
} catch (...) {
  return tell_failure();
}
