// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cmath>
#include <cstddef>

#include <weft/train/metrics/batch.hpp>

/// Means of fetched values, and of prediction errors (tf.metrics.mean, mean_squared_error and their kin).
namespace weft::metrics {

/// The mean or the weighted mean of values (tf.metrics.mean):
///
///     metrics::mean cost;
///     for (auto [x, y] : batches) cost.update(step(x, y), x.extent(0));  // a batch's mean has its examples' weight
class mean {
 public:
  static constexpr const char* name = "metrics::mean";

  /// Adds a number or the elements of a tensor. Each has weight 1, one common weight, or its own of `weights`, which
  /// have the same extents. Throws like pair_metric::update.
  template <class Values, class Weights = double>
  void update(const Values& values, const Weights& weights = 1) {
    using mistake = decltype(detail::find_mean_mistake<Values, Weights>());
    static_assert(correct<mistake>,
                  "update: pass a tensor, a number or a fetched value; then, optionally, weights of the "
                  "same extents or one number");
    if constexpr (correct<mistake>) {
      const auto& v = detail::materialized(values);
      const auto& w = detail::materialized(weights);
      add(detail::values_of("values", v), detail::values_of("weights", w));
    }
  }

  /// 0 without values, or if all weights are 0, as in TensorFlow.
  double value() const { return count() == 0 ? 0 : sum_.value() / count(); }
  /// The sum of the weights; without weights, the number of values.
  double count() const { return count_.value(); }

  void reset() { *this = {}; }
  void merge(const mean& other) {
    sum_.merge(other.sum_);
    count_.merge(other.count_);
  }

  void add(double value, double weight) {
    sum_.add(weight == 0 ? 0 : weight * value);  // an infinity with weight 0 does not count
    count_.add(weight);
  }

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive & sum_ & count_;
  }

 private:
  void add(const detail::metric_values& values, const detail::metric_values& weights) {
    detail::check_weights(name, weights, values.extents);
    detail::check_numbers(name, values);
    for (std::size_t i = 0, size = values.size(); i < size; ++i)
      add(values[i], weights[weights.extents.rank == 0 ? 0 : i]);
  }

  detail::compensated_sum sum_, count_;
};

/// exp(mean of cross-entropies), natural logarithms as computed by softmax_cross_entropy. Add the loss of each word, or
/// a batch's mean with its number of words as the weight.
class perplexity {
 public:
  template <class Losses, class Weights = double>
  void update(const Losses& losses, const Weights& weights = 1) {
    loss_.update(losses, weights);
  }
  /// NaN without losses. TensorFlow has no such metric, and no model has a perplexity of 0.
  double value() const { return loss_.count() == 0 ? std::nan("") : std::exp(loss_.value()); }

  void reset() { loss_.reset(); }
  void merge(const perplexity& other) { loss_.merge(other.loss_); }

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive & loss_;
  }

 private:
  mean loss_;
};

/// The mean of (label - prediction)^2 (tf.metrics.mean_squared_error); 0 without examples.
class mean_squared_error : public detail::pair_metric<mean_squared_error> {
 public:
  static constexpr const char* name = "metrics::mean_squared_error";

  double value() const { return mean_.value(); }
  void reset() { mean_.reset(); }
  void merge(const mean_squared_error& other) { mean_.merge(other.mean_); }

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive & mean_;
  }

 private:
  friend class detail::pair_metric<mean_squared_error>;
  void add(const detail::metric_batch& b) {
    for (std::size_t i = 0, size = b.size(); i < size; ++i) {
      const double e = b.labels[i] - b.predictions[i];
      mean_.add(e * e, b.weight(i));
    }
  }

  mean mean_;
};

/// The square root of mean_squared_error (tf.metrics.root_mean_squared_error).
class root_mean_squared_error : public mean_squared_error {
 public:
  double value() const { return std::sqrt(mean_squared_error::value()); }
};

/// The mean of |label - prediction| (tf.metrics.mean_absolute_error); 0 without examples.
class mean_absolute_error : public detail::pair_metric<mean_absolute_error> {
 public:
  static constexpr const char* name = "metrics::mean_absolute_error";

  double value() const { return mean_.value(); }
  void reset() { mean_.reset(); }
  void merge(const mean_absolute_error& other) { mean_.merge(other.mean_); }

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive & mean_;
  }

 private:
  friend class detail::pair_metric<mean_absolute_error>;
  void add(const detail::metric_batch& b) {
    for (std::size_t i = 0, size = b.size(); i < size; ++i)
      mean_.add(std::abs(b.labels[i] - b.predictions[i]), b.weight(i));
  }

  mean mean_;
};

/// The coefficient of determination, 1 - sum (label - prediction)^2 / sum (label - mean label)^2, over all elements
/// (sklearn.metrics.r2_score). NaN with fewer than two labels. If all labels are equal, 1 if all predictions are
/// correct, else 0, as in scikit-learn.
class r2_score : public detail::pair_metric<r2_score> {
 public:
  static constexpr const char* name = "metrics::r2_score";

  double value() const {
    if (labels_ < 2) return std::nan("");
    const double by = sum_.value();
    const double spread = by == 0 ? squares_.value() : squares_.value() - by * (by / weight_.value());
    if (!(spread > 0)) return residual_.value() == 0 ? 1 : 0;
    return 1 - residual_.value() / spread;
  }
  void reset() { *this = {}; }
  void merge(const r2_score& other) {
    residual_.merge(other.residual_);
    labels_ += other.labels_;
    const double weight = other.weight_.value();
    if (weight == 0) return;
    if (weight_.value() == 0) origin_ = other.origin_;
    const double by = other.origin_ - origin_;
    weight_.merge(other.weight_);
    sum_.merge(other.sum_);
    sum_.add(weight * by);
    squares_.merge(other.squares_);
    squares_.add(by * (2 * other.sum_.value() + weight * by));
  }

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive & residual_ & weight_ & sum_ & squares_ & labels_ & origin_;
  }

 private:
  friend class detail::pair_metric<r2_score>;
  void add(const detail::metric_batch& b) {
    for (std::size_t i = 0, size = b.size(); i < size; ++i) {
      ++labels_;
      const double weight = b.weight(i), label = b.labels[i], e = label - b.predictions[i];
      if (weight == 0) continue;
      if (weight_.value() == 0) origin_ = label;
      residual_.add(weight * e * e);
      weight_.add(weight);
      sum_.add(weight * (label - origin_));
      squares_.add(weight * (label - origin_) * (label - origin_));
    }
  }

  // Labels are summed relative to the first one: squares of large labels with a small spread would lose it.
  detail::compensated_sum residual_, weight_, sum_, squares_;
  double labels_ = 0, origin_ = 0;
};

}  // namespace weft::metrics
