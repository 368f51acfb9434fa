// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <weft/train/metrics/batch.hpp>
#include <weft/train/metrics/binary.hpp>

/// The area under a classifier's ROC or precision-recall curve.
namespace weft::metrics {

/// The curve under which an AUC is measured.
enum class curve : unsigned char {
  roc = 1,  ///< the true positive rate over the false positive rate
  pr,       ///< precision over recall
};

/// The area under a curve, from counts at evenly spaced thresholds (tf.metrics.auc): trapezoids under the ROC curve,
/// TensorFlow's careful_interpolation under the precision-recall curve (Davis and Goadrich, 2006). Memory depends only
/// on the number of thresholds. If many predictions are close together, use more thresholds or `exact_auc`. 0 without
/// examples.
///
/// Labels must be 0 or 1 and predictions in [0, 1]; update() throws out_of_range otherwise.
class auc : public detail::pair_metric<auc> {
 public:
  static constexpr const char* name = "metrics::auc";

  /// Throws invalid_argument unless there are 2 to a million thresholds.
  explicit auc(curve of = curve::roc, std::int64_t thresholds = 200) : curve_(of) {
    if (thresholds < 2 || thresholds > 1'000'000)
      throw error(error_code::invalid_argument, name, {"thresholds must be 2 to 1000000, but is ", thresholds});
    weights_.resize(2 * (static_cast<std::size_t>(thresholds) + 1));
  }

  double value() const { return curve_ == curve::roc ? roc() : precision_recall(); }
  void reset() { weights_.assign(weights_.size(), 0); }
  /// Throws invalid_argument if the other has another curve or number of thresholds.
  void merge(const auc& other) {
    detail::check_merged(name, "curve", static_cast<double>(curve_), static_cast<double>(other.curve_));
    detail::check_merged(name, "number of thresholds", static_cast<double>(thresholds()),
                         static_cast<double>(other.thresholds()));
    for (std::size_t i = 0; i < weights_.size(); ++i) weights_[i] += other.weights_[i];
  }

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    detail::serialize_option(archive, name, "curve", static_cast<int>(curve_));
    detail::serialize_option(archive, name, "number of thresholds", thresholds());
    for (double& weight : weights_) archive & weight;
  }

 private:
  friend class detail::pair_metric<auc>;

  std::size_t thresholds() const { return weights_.size() / 2 - 1; }

  /// Rounded to float, as in TensorFlow, so that an equal prediction is not above it. The first threshold is below 0
  /// and the last above 1.
  double threshold(std::size_t i) const {
    if (i == 0) return -1e-7;
    if (i + 1 == thresholds()) return 1 + 1e-7;
    return static_cast<float>(static_cast<double>(i) / static_cast<double>(thresholds() - 1));
  }

  /// Returns the number of thresholds that are less than the prediction.
  std::size_t passed(double prediction) const {
    auto count = static_cast<std::size_t>(prediction * static_cast<double>(thresholds() - 1));
    while (count < thresholds() && prediction > threshold(count)) ++count;
    while (count > 0 && !(prediction > threshold(count - 1))) --count;
    return count;
  }

  double& weight(std::size_t passed, bool label) { return weights_[2 * passed + label]; }

  void add(const detail::metric_batch& b) {
    detail::check_binary_labels(name, b.labels);
    std::size_t at;
    if (!detail::all_elements(b.predictions, [](double e) { return e >= 0 && e <= 1; }, at))
      detail::refuse_element(error_code::out_of_range, name, b.predictions, at,
                             "predictions must be probabilities from 0 to 1, such as sigmoid(logits)");
    for (std::size_t i = 0, size = b.size(); i < size; ++i)
      weight(passed(b.predictions[i]), b.labels[i] == 1) += b.weight(i);
  }

  /// Calls f(previous true positives, previous false positives, true positives, false positives) for each threshold,
  /// beginning with the highest.
  template <class F>
  void for_each_threshold(F f) const {
    double true_positives = 0, false_positives = 0;
    for (std::size_t t = thresholds(); t > 0; --t) {
      const double more_true = weights_[2 * t + 1], more_false = weights_[2 * t];
      f(true_positives, false_positives, true_positives + more_true, false_positives + more_false);
      true_positives += more_true;
      false_positives += more_false;
    }
  }
  double sum(bool label) const {
    double all = 0;
    for (std::size_t i = label; i < weights_.size(); i += 2) all += weights_[i];
    return all;
  }

  double roc() const {
    constexpr double epsilon = 1e-6;  // TensorFlow's; makes the area 0 without examples
    const double positives = sum(true), negatives = sum(false);
    const auto rate = [&](double t) { return (t + epsilon) / (positives + epsilon); };
    double area = 0, last_t = 0, last_f = 0;
    for_each_threshold([&](double, double, double t, double f) {
      area += (f - last_f) / (negatives + epsilon) * (rate(t) + rate(last_t)) / 2;
      last_t = t, last_f = f;
    });
    return area;
  }

  double precision_recall() const {
    const double positives = sum(true);
    double area = 0;
    for_each_threshold([&](double t0, double f0, double t, double f) {
      const double p = t + f, p0 = t0 + f0;
      if (p == p0 || positives == 0) return;
      const double slope = (t - t0) / (p - p0), intercept = t0 - slope * p0;
      area += slope * ((t - t0) + (p > 0 && p0 > 0 ? intercept * std::log(p / p0) : 0)) / positives;
    });
    return area;
  }

  curve curve_;
  std::vector<double> weights_;  ///< summed for each number of passed thresholds and each label
};

/// The exact area: stores all predictions (24 bytes each) and sorts them to compute a value. Under the ROC curve,
/// equals sklearn.metrics.roc_auc_score, NaN if only one label occurs; under the precision-recall curve,
/// average_precision_score, 0 without positives. Predictions are any numbers, including logits.
class exact_auc : public detail::pair_metric<exact_auc> {
 public:
  static constexpr const char* name = "metrics::exact_auc";

  explicit exact_auc(curve of = curve::roc) : curve_(of) {}

  double value() const;
  std::size_t count() const { return examples_.size(); }
  void reset() { examples_.clear(); }
  /// Throws invalid_argument if the other has another curve.
  void merge(const exact_auc& other) {
    detail::check_merged(name, "curve", static_cast<double>(curve_), static_cast<double>(other.curve_));
    const std::size_t count = other.examples_.size();  // `other` can be this object
    examples_.reserve(examples_.size() + count);
    for (std::size_t i = 0; i < count; ++i) examples_.push_back(other.examples_[i]);
  }

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    detail::serialize_option(archive, name, "curve", static_cast<int>(curve_));
    std::uint64_t count = examples_.size();
    archive & count;
    if constexpr (Archive::is_loading::value) examples_.clear();
    for (std::uint64_t i = 0; i < count; ++i) {  // no reserve(): the count is not trusted
      if constexpr (Archive::is_loading::value) examples_.emplace_back();
      example& e = examples_[i];
      archive & e.prediction & e.weight & e.label;
    }
  }

 private:
  friend class detail::pair_metric<exact_auc>;

  struct example {
    double prediction = 0, weight = 0;
    bool label = false;
  };

  void add(const detail::metric_batch& b) {
    detail::check_binary_labels(name, b.labels);
    for (std::size_t i = 0, size = b.size(); i < size; ++i)
      examples_.push_back({b.predictions[i], b.weight(i), b.labels[i] == 1});
  }

  curve curve_;
  std::vector<example> examples_;
};

inline double exact_auc::value() const {
  std::vector<example> sorted = examples_;
  std::sort(sorted.begin(), sorted.end(),
            [](const example& a, const example& b) { return a.prediction > b.prediction; });
  double positives = 0, negatives = 0, area = 0;
  for (std::size_t i = 0; i < sorted.size();) {
    double more_positives = 0, more_negatives = 0;  // equal predictions are one point of the curve
    for (const double here = sorted[i].prediction; i < sorted.size() && sorted[i].prediction == here; ++i)
      (sorted[i].label ? more_positives : more_negatives) += sorted[i].weight;
    positives += more_positives;
    negatives += more_negatives;
    if (curve_ == curve::roc)
      area += more_negatives * (positives - more_positives / 2);
    else if (positives > 0)
      area += more_positives * (positives / (positives + negatives));
  }
  if (curve_ == curve::roc) return positives > 0 && negatives > 0 ? area / positives / negatives : std::nan("");
  return positives > 0 ? area / positives : 0;
}

}  // namespace weft::metrics
