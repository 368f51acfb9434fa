// SPDX-License-Identifier: BSL-1.0
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <vector>
#include <weft/train/metrics.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"

using namespace weft;
using test::says;

namespace {

using vector = tensor<float, dims<dyn<"batch">>>;
using class_vector = tensor<std::int32_t, dims<dyn<"batch">>>;
using score_matrix = tensor<float, dims<dyn<"batch">, dyn<"classes">>>;

/// A case of metric_values.txt.
struct example_batch {
  vector labels, weights;
  score_matrix predictions;  ///< one column where they are not scores
};
struct expectation {
  std::string from, metric, value;
  bool weighted = false;
};
struct test_case {
  std::string kind, name;
  std::int64_t classes = 0;
  std::vector<example_batch> batches;
  std::vector<expectation> values;
};

std::vector<test_case> read_cases() {
  std::ifstream in(TEST_DATA "/train/metric_values.txt");
  BOOST_REQUIRE_MESSAGE(in, "metric_values.txt cannot be read");
  const auto read = [&](auto& to) {
    for (std::size_t i = 0; i < to.elements(); ++i) BOOST_REQUIRE(in >> to.data()[i]);
  };
  std::vector<test_case> cases;
  std::string word;
  std::getline(in, word);
  while (in >> word) {
    if (word == "case") {
      test_case& c = cases.emplace_back();
      in >> c.kind >> c.name >> c.classes;
    } else if (word == "batch") {
      std::int64_t count = 0;
      in >> count;
      const std::int64_t columns = cases.back().kind == "classes" ? cases.back().classes : 1;
      example_batch b{vector(shape(count)), vector(shape(count)), score_matrix(shape(count, columns))};
      read(b.labels), read(b.predictions), read(b.weights);
      cases.back().batches.push_back(b);
    } else {
      BOOST_REQUIRE_EQUAL(word, "value");
      expectation e;
      in >> e.from >> e.weighted >> e.metric >> e.value;
      cases.back().values.push_back(e);
    }
  }
  return cases;
}

/// The value of a metric after all batches; each second one is counted by another worker, and merged.
template <class Metric>
double measured(Metric metric, const test_case& c, bool weighted) {
  Metric other = metric;
  std::size_t number = 0;
  for (const example_batch& b : c.batches) {
    Metric& worker = number++ % 2 ? other : metric;
    const vector predictions(c.kind == "classes" ? b.labels : vector(b.labels.extents(), b.predictions));
    const auto update = [&](const auto&... weights) {
      if constexpr (std::is_same_v<Metric, metrics::accuracy> || std::is_same_v<Metric, metrics::top_k_accuracy>)
        worker.update(class_vector(cast<std::int32_t>(b.labels)), b.predictions, weights...);
      else if constexpr (std::is_same_v<Metric, metrics::mean>)
        worker.update(predictions, weights...);
      else
        worker.update(b.labels, predictions, weights...);
    };
    weighted ? update(b.weights) : update();
  }
  metric.merge(other);
  return metric.value();
}

metrics::confusion_matrix matrix_of(const test_case& c, bool weighted) {
  metrics::confusion_matrix all(c.classes);
  for (const example_batch& b : c.batches) {
    const class_vector labels(cast<std::int32_t>(b.labels)), predicted(argmax<1>(b.predictions));
    weighted ? all.update(labels, predicted, b.weights) : all.update(labels, predicted);
  }
  return all;
}

double value_of(const std::string& metric, const test_case& c, bool weighted) {
  using namespace metrics;
  if (metric == "binary_accuracy") {
    binary_counts counts;
    for (const example_batch& b : c.batches) {
      const vector predictions(b.labels.extents(), b.predictions);
      weighted ? counts.update(b.labels, predictions, b.weights) : counts.update(b.labels, predictions);
    }
    return counts.accuracy();
  }
  if (metric == "macro_f1") return matrix_of(c, weighted).macro_f1();
  if (metric.starts_with("matrix_")) return matrix_of(c, weighted)(metric[7] - '0', metric[9] - '0');
  if (metric.starts_with("precision_")) return matrix_of(c, weighted).precision(metric[10] - '0');
  if (metric.starts_with("recall_")) return matrix_of(c, weighted).recall(metric[7] - '0');
  if (metric == "precision") return measured(precision(), c, weighted);
  if (metric == "recall") return measured(recall(), c, weighted);
  if (metric == "f1") return measured(f1_score(), c, weighted);
  if (metric == "auc_roc") return measured(auc(), c, weighted);
  if (metric == "auc_pr") return measured(auc(curve::pr), c, weighted);
  if (metric == "auc_roc_20") return measured(auc(curve::roc, 20), c, weighted);
  if (metric == "exact_roc") return measured(exact_auc(), c, weighted);
  if (metric == "exact_pr") return measured(exact_auc(curve::pr), c, weighted);
  if (metric == "accuracy") return measured(accuracy(), c, weighted);
  if (metric == "top_2") return measured(top_k_accuracy(2), c, weighted);
  if (metric == "top_3") return measured(top_k_accuracy(3), c, weighted);
  if (metric == "mean") return measured(metrics::mean(), c, weighted);
  if (metric == "mse") return measured(mean_squared_error(), c, weighted);
  if (metric == "rmse") return measured(root_mean_squared_error(), c, weighted);
  if (metric == "mae") return measured(mean_absolute_error(), c, weighted);
  if (metric == "r2") return measured(r2_score(), c, weighted);
  BOOST_FAIL("there is no metric " << metric);
  return 0;
}

}  // namespace

BOOST_AUTO_TEST_CASE(values_are_those_of_tensorflow_and_scikit_learn) {
  std::size_t compared = 0;
  for (const test_case& c : read_cases())
    for (const expectation& e : c.values) {
      const double value = value_of(e.metric, c, e.weighted);
      ++compared;
      if (e.value == "nan") {
        BOOST_CHECK_MESSAGE(std::isnan(value),
                            c.kind << ' ' << c.name << ' ' << e.metric << ": " << value << ", not NaN");
        continue;
      }
      const double expected = std::stod(e.value);
      // TensorFlow's means of large numbers are float's.
      const double within = e.from == "tensorflow" ? 2e-6 * std::max(1.0, std::abs(expected)) : 1e-12;
      BOOST_CHECK_MESSAGE(std::abs(value - expected) <= within,
                          c.kind << ' ' << c.name << (e.weighted ? " weighted " : " ") << e.metric << ": " << value
                                 << ", not " << expected << " of " << e.from);
    }
  BOOST_TEST(compared > 400u);
}

BOOST_AUTO_TEST_CASE(a_model_is_evaluated_batch_by_batch) {
  graph g;
  const auto x = placeholder<float, dims<dyn<"batch">, 2>>(g, "x");
  const auto y = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "y");
  const auto logits = let(x * 2.0f);
  const auto losses = softmax_cross_entropy(logits, y);
  session s(g);
  auto step = s.prepare(fetch(logits, losses, mean(losses)), feed(x, y));
  metrics::accuracy accuracy;
  metrics::top_k_accuracy top(2);
  metrics::confusion_matrix matrix(2);
  metrics::perplexity words, batches;
  metrics::mean cost;
  const tensor<std::int64_t, dims<3>> labels{1, 0, 0};
  for (const std::int64_t count : {3, 1}) {
    tensor<float, dims<dyn<"batch">, 2>> values(shape(count, 2), uninitialized{});
    tensor<std::int32_t, dims<dyn<"batch">>> classes(shape(count), uninitialized{});
    for (std::int64_t i = 0; i < count; ++i) {
      values(i, 0) = static_cast<float>(i), values(i, 1) = 1;
      classes(i) = static_cast<std::int32_t>(labels(i));
    }
    const auto [scores, each, batch_cost] = step(values, classes);
    accuracy.update(classes, scores);
    top.update(tensor_view<const std::int32_t, dims<dyn<"n">>>(classes.data(), classes.extents()), scores);
    matrix.update(classes, argmax<1>(scores));  // an expression over tensors
    words.update(each);
    batches.update(batch_cost, count);
    cost.update(batch_cost, count);
  }
  BOOST_TEST(accuracy.value() == 1);
  BOOST_TEST(top.value() == 1);
  const auto counted = matrix.value();
  BOOST_TEST((counted(0, 0) == 2 && counted(1, 1) == 2 && counted(0, 1) == 0 && counted(1, 0) == 0));
  BOOST_TEST(cost.count() == 4);
  BOOST_TEST(words.value() == std::exp(cost.value()), boost::test_tools::tolerance(1e-6));
  BOOST_TEST(batches.value() == std::exp(cost.value()), boost::test_tools::tolerance(1e-12));
  BOOST_TEST(accuracy.value() == 1);
  accuracy.reset();
  BOOST_TEST(accuracy.value() == 0);
}

BOOST_AUTO_TEST_CASE(predictions_of_any_kind_and_extents) {
  metrics::accuracy accuracy;
  accuracy.update(tensor<bool, dims<2, 2>>{true, false, true, true}, tensor<std::uint8_t, dims<2, 2>>{1, 0, 0, 1});
  BOOST_TEST(accuracy.value() == 0.75);
  accuracy.reset();
  // The first of equals is the class; the weights are [batch, time], as a sequence's mask is.
  const tensor<half, dims<1, 2, 2>> scores{half(1.f), half(1.f), half(-1.f), half(2.f)};
  accuracy.update(tensor<std::int32_t, dims<1, 2>>{0, 0}, scores, tensor<bool, dims<1, 2>>{true, false});
  BOOST_TEST(accuracy.value() == 1);
  accuracy.update(1, 1, 0.5);  // numbers
  BOOST_TEST(accuracy.value() == 1);
  metrics::recall of_logits(0);
  of_logits.update(tensor<float, dims<3>>{1, 1, 0}, tensor<float, dims<3>>{0.25f, -1, 3});
  BOOST_TEST(of_logits.value() == 0.5);
  BOOST_TEST(of_logits.false_positives() == 1);
  metrics::top_k_accuracy top(1);  // none of equal scores is before another
  top.update(tensor<std::int32_t, dims<1>>{1}, tensor<float, dims<1, 3>>{5, 5, 5});
  BOOST_TEST(top.value() == 1);
}

BOOST_AUTO_TEST_CASE(small_terms_are_not_lost) {
  metrics::mean m, other;
  m.update(1e16, 1);
  for (int i = 0; i < 1000; ++i) m.update(1.0), other.update(1.0);
  m.update(-1e16);
  m.merge(other);
  BOOST_TEST(m.value() == 2000.0 / 2002);
}

BOOST_AUTO_TEST_CASE(nothing_of_a_batch_that_is_refused_is_counted) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const tensor<std::int32_t, dims<3>> labels{0, 2, 1};
  const vector two(shape(2));
  metrics::accuracy accuracy;
  const auto refuses = [](error_code code, const char* words, auto update) {
    BOOST_CHECK_EXCEPTION(update(), error, says(code, words));
  };
  const auto invalid = error_code::invalid_argument, range = error_code::out_of_range;
  refuses(range, "labels: element 1 of [3] is 2: classes must be 0 to 1; this batch was not counted",
          [&] { accuracy.update(labels, tensor<float, dims<3, 2>>()); });
  refuses(range, "is -1: classes must be 0 to", [&] { accuracy.update(labels, tensor<int, dims<3>>{0, -1, 2}); });
  refuses(invalid, "predictions: element 5 of [3, 3] is nan",
          [&] { accuracy.update(labels, tensor<float, dims<3, 3>>{0, 0, 0, 0, 0, nan, 0, 0, 0}); });
  refuses(invalid, "labels have extents [3], but predictions have [2, 4]: give one prediction, or one row of scores",
          [&] { accuracy.update(class_vector(labels), score_matrix(shape(2, 4))); });
  refuses(invalid, "scores of at least one class",
          [&] { accuracy.update(class_vector(labels), score_matrix(shape(3, 0))); });
  refuses(invalid, "weights: element 2 of [3] is -1: weights must be finite and at least 0",
          [&] { accuracy.update(labels, labels, tensor<float, dims<3>>{1, 1, -1}); });
  refuses(invalid, "weights have extents [2], but the weighted values have [3]",
          [&] { accuracy.update(labels, labels, two); });
  accuracy.update(labels, labels);
  BOOST_TEST(accuracy.value() == 1);

  metrics::confusion_matrix matrix(2);
  refuses(range, "is 2: classes must be 0 to 1", [&] { matrix.update(labels, labels); });
  refuses(invalid, "scores of 3 classes, but the metric has 2",
          [&] { matrix.update(labels, tensor<float, dims<3, 3>>()); });
  refuses(range, "no element (2, 0): classes are 0 to 1", [&] { matrix(2, 0); });
  BOOST_TEST(matrix.accuracy() == 0);
  refuses(invalid, "classes must be at least 1", [] { metrics::confusion_matrix none(0); });
  refuses(error_code::resource_exhausted, "", [] { metrics::confusion_matrix none(std::int64_t{1} << 40); });
  refuses(invalid, "k must be at least 1, but is 0", [] { metrics::top_k_accuracy none(0); });

  metrics::mean_squared_error mse;
  refuses(invalid, "give one prediction for each label", [&] { mse.update(two, vector(shape(3))); });
  refuses(invalid, "predictions: element 1 of [2] is nan", [&] { mse.update(two, tensor<float, dims<2>>{0, nan}); });
  refuses(invalid, "values: element 0 of [] is nan", [&] { metrics::mean().update(nan); });
  BOOST_TEST(mse.value() == 0);

  metrics::auc auc;
  refuses(range, "labels must be 0 or 1", [&] { auc.update(labels, tensor<float, dims<3>>()); });
  refuses(range, "probabilities from 0 to 1, such as sigmoid(logits)",
          [&] { auc.update(two, tensor<float, dims<2>>{0, 1.5f}); });
  refuses(invalid, "thresholds must be 2 to 1000000, but is 1", [] { metrics::auc none(metrics::curve::pr, 1); });
  refuses(invalid, "merge: this one's curve is 1, but the other's is 2",
          [&] { auc.merge(metrics::auc(metrics::curve::pr)); });
  refuses(invalid, "number of thresholds is 200, but the other's is 20",
          [&] { auc.merge(metrics::auc(metrics::curve::roc, 20)); });
  refuses(invalid, "threshold is 0.5, but the other's is 0", [] { metrics::recall().merge(metrics::recall(0)); });
  refuses(invalid, "the threshold is NaN", [&] { metrics::recall none(nan); });
  BOOST_TEST(std::isnan(metrics::perplexity().value()));
  BOOST_TEST(std::isnan(metrics::exact_auc().value()));
}
