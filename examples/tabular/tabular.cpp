// SPDX-License-Identifier: BSL-1.0
// A network that learns from a table: is a tumour malignant, by 30 measurements of its cells? The file is split into
// parts to train, validate and test on; training ends early when the validation's loss gets no better, and the best
// weights are kept for `tabular_predict`. The usual run reaches a test accuracy of 0.95, or ends with an error.
// `--help` lists the flags.
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <string>
#include <system_error>

#include <weft/checkpoint/weights.hpp>
#include <weft/train/metrics.hpp>
#include <weft/train/progress.hpp>
#include <weft/train/schedules.hpp>
#include <weft/train/supervised_session.hpp>

#include "../command_line.hpp"
#include "../result_file.hpp"
#include "patients.hpp"

using namespace weft;

namespace {

constexpr double stated_accuracy = 0.95;

struct flags {
  std::string data = carried_table(), weights = "tabular.safetensors", test_part = "";
  std::int64_t epochs = 60, patience = 8, batch_size = 32, seed = 1;
  double learning_rate = 0.003, dropout = 0.3;
  progress_mode progress = progress_mode::automatic;

  /// Beside the program, where CMake has copied it.
  static std::string carried_table() {
    std::error_code ignored;
    return (std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / "breast_cancer.csv").string();
  }
};

using patients = data::dataset<measurements, float>;

/// Measurements, and 1 for a malignant tumour.
patients read_table(const std::string& path) {
  auto columns = measurement_columns();
  columns.emplace_back("diagnosis");
  return data::csv<measurements, std::string>(path, {.columns = columns})
      .map([](const measurements& values, const std::string& diagnosis) {
        if (diagnosis != "malignant" && diagnosis != "benign")
          refuse("a diagnosis is \"" + diagnosis + "\"; it must be malignant or benign");
        return std::pair(values, diagnosis == "malignant" ? 1.0f : 0.0f);
      })
      .cache();
}

/// Writes a table like the one that was read, every number with all of its digits.
void write_table(const std::string& path, const patients& rows) {
  std::string text;
  for (const auto& column : measurement_columns()) text += column.name + ",";
  text += "diagnosis\n";
  for (const auto& [values, label] : rows) {
    for (const float x : values) {
      char number[32];
      text.append(number, std::to_chars(number, number + sizeof number, x).ptr) += ',';
    }
    text += label > 0 ? "malignant\n" : "benign\n";
  }
  write_file(path, "%s", text.c_str());
}

/// Gives the model mean and standard deviation of the measurements, those of the patients that it learns from alone.
void normalise(session& s, const diagnosis& model, const patients& training) {
  std::array<double, measured> sum{}, squares{};
  for (const auto& [values, label] : training)
    for (std::size_t i = 0; i < measured; ++i) {
      const double x = values(static_cast<std::int64_t>(i));
      sum[i] += x, squares[i] += x * x;
    }
  measurements average, deviation;
  const auto n = static_cast<double>(training.size());
  for (std::size_t i = 0; i < measured; ++i) {
    const double mean = sum[i] / n, variance = squares[i] / n - mean * mean;
    average(static_cast<std::int64_t>(i)) = static_cast<float>(mean);
    deviation(static_cast<std::int64_t>(i)) = variance > 0 ? static_cast<float>(std::sqrt(variance)) : 1.0f;
  }
  s.set(model.average, average);
  s.set(model.deviation, deviation);
}

void run(const flags& f, bool usual) {
  const auto seed = static_cast<std::uint64_t>(f.seed);
  const patients all = read_table(f.data).shuffled(seed).cache();
  if (all.size() < 50) refuse(f.data + " has " + std::to_string(all.size()) + " rows, but needs at least 50");
  const auto [known, tests] = all.split(0.8);
  const auto [training, validation] = known.split(0.85);
  const auto batches = training.shuffled(seed + 1).batches(static_cast<std::size_t>(f.batch_size)).prefetch(2);
  const auto steps = f.epochs * static_cast<std::int64_t>(batches.size());

  diagnosis model(seed);
  auto labels = placeholder<float, dims<dyn<"batch">>>(model.g, "labels");
  const auto logits = model.logits(0);
  const auto cost = [&](const auto& odds) { return let(mean(softplus(odds) - odds * labels)); };  // logistic loss
  const auto loss = cost(model.logits(static_cast<float>(f.dropout))), loss_of_evaluation = cost(logits);
  const auto rate = cosine_decay(f.learning_rate, global_step(model.g), static_cast<double>(steps));
  const auto train = adam{.learning_rate = rate}.minimize(loss);

  session s(model.g, {.threads = 1});
  normalise(s, model, training);
  auto evaluate = s.prepare(fetch(loss_of_evaluation, logits), feed(model.patients, labels));
  const auto loss_of = [&](const patients& these) {
    metrics::mean mean;
    for (const auto& [x, y] : these.batches(500)) {
      const auto [value, ignored] = evaluate(x, y);
      mean.update(value, static_cast<double>(y.elements()));
    }
    return mean.value();
  };

  double best = std::numeric_limits<double>::infinity();
  const std::int64_t an_epoch = static_cast<std::int64_t>(batches.size());
  const auto validate = [&, &validation = validation] {
    const double now = loss_of(validation);
    if (now < best) {
      best = now;
      save_weights(f.weights, s, {{"columns", "as in examples/tabular"}});
    }
    return now;
  };
  supervised_session run(
      s, {},
      {stop_at_step(steps), nan_guard(loss), early_stop({.steps = an_epoch}, validate, {.patience = f.patience})});
  auto step = run.prepare(fetch(loss, train), feed(model.patients, labels));
  progress shown({.steps = steps, .mode = f.progress});
  std::int64_t made = 0;
  for (std::uint64_t epoch = 0; !run.should_stop(); ++epoch)
    for (const auto& [x, y] : batches.epoch(epoch)) {
      if (run.should_stop()) break;
      const auto [value, trained] = step(x, y);
      shown.update(++made, static_cast<double>(value));
    }
  shown.finish();
  run.close();

  // The weights that count are those of the best epoch.
  load_weights(f.weights, s);
  metrics::accuracy accuracy;
  metrics::auc auc;
  for (const auto& [x, y] : tests.batches(500)) {
    const auto [ignored, odds] = evaluate(x, y);
    accuracy.update(cast<std::int32_t>(y), cast<std::int32_t>(odds > 0.0f));
    auc.update(y, sigmoid(odds));
  }
  std::printf("%zu patients for training, %zu for validation, %zu for the test\n", training.size(), validation.size(),
              tests.size());
  std::printf("%lld epochs, validation loss %.4f\n", static_cast<long long>(made / an_epoch), best);
  std::printf("test accuracy %.4f, area under the curve %.4f; the weights are in %s\n", accuracy.value(), auc.value(),
              f.weights.c_str());
  if (!f.test_part.empty()) write_table(f.test_part, tests);
  check_output();
  if (usual) check_accuracy(accuracy.value(), stated_accuracy);
}

}  // namespace

int main(int argc, char** argv) try {
  flags f;
  command_line line("Trains a network that predicts from cell measurements whether a tumour is malignant");
  line.add("data", f.data, "CSV file of the measurements");
  line.add("weights", f.weights, "safetensors file for the best weights");
  line.add("test_part", f.test_part, "CSV file for the patients in the test part; default: not written");
  line.add("epochs", f.epochs, 1, 1'000'000, "maximum number of passes over all patients");
  line.add("patience", f.patience, 1, 1'000'000, "epochs without a better validation loss before training stops");
  line.add("batch_size", f.batch_size, 1, 100'000, "patients per step");
  line.add("learning_rate", f.learning_rate, "initial learning rate of Adam; decays by a cosine");
  line.add("seed", f.seed, 0, INT64_MAX, "seed of the split, the weights and the order of the patients");
  line.add("progress", f.progress, "auto, bar, lines or none");
  if (!line.parse(argc, argv)) {
    check_output();
    return 0;
  }
  check_writable(f.weights);
  if (!f.test_part.empty()) check_writable(f.test_part);
  const flags usual;
  run(f, f.data == usual.data && f.epochs == usual.epochs && f.patience == usual.patience &&
             f.batch_size == usual.batch_size && f.learning_rate == usual.learning_rate);
} catch (...) {
  return tell_failure();
}
