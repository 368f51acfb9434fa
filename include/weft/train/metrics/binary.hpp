// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <weft/train/metrics/batch.hpp>

/// Metrics of binary classifiers.
namespace weft::detail {

/// Throws unless all labels are 0 or 1.
inline void check_binary_labels(const char* metric, const metric_values& labels) {
  std::size_t at;
  if (!all_elements(labels, [](double e) { return e == 0 || e == 1; }, at))
    refuse_element(error_code::out_of_range, metric, labels, at, "labels must be 0 or 1");
}

}  // namespace weft::detail

namespace weft::metrics {

/// Counts true and false positives and negatives (tf.metrics.true_positives and so on), or sums their weights. A
/// prediction is positive if it exceeds the threshold: 0.5 for a probability, 0 for a logit. Labels must be 0 or 1;
/// update() throws out_of_range otherwise.
class binary_counts : public detail::pair_metric<binary_counts> {
 public:
  static constexpr const char* name = "metrics::binary_counts";

  /// Throws invalid_argument if the threshold is NaN.
  explicit binary_counts(double threshold = 0.5) : threshold_(threshold) {
    if (std::isnan(threshold)) throw error(error_code::invalid_argument, name, "the threshold is NaN");
  }

  double true_positives() const { return counts_[1][1]; }
  double false_positives() const { return counts_[0][1]; }
  double true_negatives() const { return counts_[0][0]; }
  double false_negatives() const { return counts_[1][0]; }

  /// True positives / predicted positives (tf.metrics.precision); 0 if there are none.
  double precision() const { return ratio(true_positives(), true_positives() + false_positives()); }
  /// True positives / actual positives (tf.metrics.recall); 0 if there are none.
  double recall() const { return ratio(true_positives(), true_positives() + false_negatives()); }
  /// The harmonic mean of precision and recall; 0 if both are 0.
  double f1() const {
    return ratio(2 * true_positives(), 2 * true_positives() + false_positives() + false_negatives());
  }
  /// The fraction of correct predictions; 0 without examples.
  double accuracy() const {
    const double right = true_positives() + true_negatives();
    return ratio(right, right + false_positives() + false_negatives());
  }

  void reset() { *this = binary_counts(threshold_); }
  /// Throws invalid_argument if the other has another threshold.
  void merge(const binary_counts& other) {
    detail::check_merged(name, "threshold", threshold_, other.threshold_);
    for (std::size_t i = 0; i < 4; ++i) counts_[i / 2][i % 2] += other.counts_[i / 2][i % 2];
  }

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    detail::serialize_option(archive, name, "threshold", threshold_);
    archive& counts_[0][0] & counts_[0][1] & counts_[1][0] & counts_[1][1];
  }

 private:
  friend class detail::pair_metric<binary_counts>;
  void add(const detail::metric_batch& b) {
    detail::check_binary_labels(name, b.labels);
    for (std::size_t i = 0, size = b.size(); i < size; ++i)
      counts_[b.labels[i] == 1][b.predictions[i] > threshold_] += b.weight(i);
  }
  static double ratio(double part, double all) { return all == 0 ? 0 : part / all; }

  double threshold_;
  double counts_[2][2] = {};  ///< label, prediction
};

/// binary_counts with the precision as its value.
class precision : public binary_counts {
 public:
  using binary_counts::binary_counts;
  double value() const { return binary_counts::precision(); }
};

/// binary_counts with the recall as its value.
class recall : public binary_counts {
 public:
  using binary_counts::binary_counts;
  double value() const { return binary_counts::recall(); }
};

/// binary_counts with the F1 score as its value.
class f1_score : public binary_counts {
 public:
  using binary_counts::binary_counts;
  double value() const { return f1(); }
};

}  // namespace weft::metrics
