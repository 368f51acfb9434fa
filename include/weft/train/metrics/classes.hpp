// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <weft/train/metrics/batch.hpp>
#include <weft/train/metrics/mean.hpp>

/// Metrics of multi-class classifiers.
namespace weft::metrics {

/// The fraction of correct predictions (tf.metrics.accuracy); 0 without examples.
///
///     metrics::accuracy accuracy;
///     for (auto [x, y] : test_set.batches(1000)) accuracy.update(y, step(x));  // step fetches the logits
class accuracy : public detail::class_metric<accuracy> {
 public:
  static constexpr const char* name = "metrics::accuracy";

  double value() const { return mean_.value(); }
  void reset() { mean_.reset(); }
  void merge(const accuracy& other) { mean_.merge(other.mean_); }

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive & mean_;
  }

 private:
  friend class detail::class_metric<accuracy>;
  static constexpr std::int64_t classes() { return 0; }
  void add(const detail::metric_batch& b);

  mean mean_;
};

/// The fraction of examples whose label is among the k largest scores (tf.nn.in_top_k); 0 without examples. Ties count
/// as correct: an example is correct if fewer than k scores are greater than its label's.
class top_k_accuracy : public detail::class_metric<top_k_accuracy, false> {
 public:
  static constexpr const char* name = "metrics::top_k_accuracy";

  /// Throws invalid_argument if k is less than 1.
  top_k_accuracy() = delete;  // top_k_accuracy(5): a label among the five largest scores counts as right
  explicit top_k_accuracy(std::int64_t k) : k_(k) {
    if (k < 1) throw error(error_code::invalid_argument, name, {"k must be at least 1, but is ", k});
  }

  double value() const { return mean_.value(); }
  void reset() { mean_.reset(); }
  /// Throws invalid_argument if the other has another k.
  void merge(const top_k_accuracy& other) {
    detail::check_merged(name, "k", static_cast<double>(k_), static_cast<double>(other.k_));
    mean_.merge(other.mean_);
  }

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    detail::serialize_option(archive, name, "k", k_);
    archive & mean_;
  }

 private:
  friend class detail::class_metric<top_k_accuracy, false>;
  static constexpr std::int64_t classes() { return 0; }
  void add(const detail::metric_batch& b);

  std::int64_t k_;
  mean mean_;
};

/// The number of examples for each label and prediction (tf.math.confusion_matrix), or the sum of their weights.
class confusion_matrix : public detail::class_metric<confusion_matrix> {
 public:
  static constexpr const char* name = "metrics::confusion_matrix";
  using matrix = tensor<double, dims<dyn<"classes">, dyn<"classes">>>;

  /// Throws invalid_argument if `classes` is less than 1, and resource_exhausted if the matrix exceeds memory.
  explicit confusion_matrix(std::int64_t classes) : classes_(classes) {
    if (classes < 1) throw error(error_code::invalid_argument, name, {"classes must be at least 1, but is ", classes});
    detail::checked_bytes(name, shape(classes, classes), sizeof(double));
    counts_.resize(static_cast<std::size_t>(classes * classes));
  }

  /// Rows are labels, columns predictions.
  matrix value() const {
    matrix all(shape(classes_, classes_), uninitialized{});
    double* const to = all.data();
    for (std::size_t i = 0; i < counts_.size(); ++i) to[i] = counts_[i];
    return all;
  }
  double operator()(std::int64_t label, std::int64_t prediction) const { return counts_[at(label, prediction)]; }
  std::int64_t classes() const { return classes_; }

  /// The fraction of correct predictions; 0 without examples.
  double accuracy() const;
  /// The fraction of the predictions of a class that are correct; 0 if there are none, as in scikit-learn.
  double precision(std::int64_t of) const { return ratio((*this)(of, of), sum(of, false)); }
  /// The fraction of a class's examples that are predicted correctly; 0 if there are none.
  double recall(std::int64_t of) const { return ratio((*this)(of, of), sum(of, true)); }
  /// The harmonic mean of precision and recall; 0 if both are 0. The mean over all classes is the macro F1.
  double f1(std::int64_t of) const { return ratio(2 * (*this)(of, of), sum(of, true) + sum(of, false)); }
  double macro_f1() const;

  void reset() { counts_.assign(counts_.size(), 0); }
  /// Throws invalid_argument if the number of classes differs.
  void merge(const confusion_matrix& other) {
    detail::check_merged(name, "number of classes", static_cast<double>(classes_), static_cast<double>(other.classes_));
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  }

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    detail::serialize_option(archive, name, "number of classes", classes_);
    for (double& count : counts_) archive & count;
  }

 private:
  friend class detail::class_metric<confusion_matrix>;
  void add(const detail::metric_batch& b);

  std::size_t at(std::int64_t label, std::int64_t prediction) const {
    if (label < 0 || label >= classes_ || prediction < 0 || prediction >= classes_)
      throw error(error_code::out_of_range, name,
                  {"there is no element (", label, ", ", prediction, "): classes are 0 to ", classes_ - 1});
    return static_cast<std::size_t>(label * classes_ + prediction);
  }
  double sum(std::int64_t of, bool row) const {
    double all = 0;
    for (std::int64_t i = 0; i < classes_; ++i) all += row ? (*this)(of, i) : (*this)(i, of);
    return all;
  }
  static double ratio(double part, double all) { return all == 0 ? 0 : part / all; }

  std::int64_t classes_;
  std::vector<double> counts_;
};

}  // namespace weft::metrics

namespace weft::detail {

/// Calls f(i, predicted class) for each example.
template <class F>
void for_each_class(const metric_batch& b, F f) {
  if (b.classes == 0) {
    for (std::size_t i = 0, size = b.size(); i < size; ++i) f(i, static_cast<std::int64_t>(b.predictions[i]));
    return;
  }
  const auto classes = static_cast<std::size_t>(b.classes);
  std::vector<double> row(classes);
  for (std::size_t i = 0, size = b.size(); i < size; ++i) {
    b.predictions.read(b.predictions.data, i * classes, classes, row.data());
    std::size_t largest = 0;
    for (std::size_t c = 1; c < classes; ++c)
      if (row[c] > row[largest]) largest = c;
    f(i, static_cast<std::int64_t>(largest));
  }
}

}  // namespace weft::detail

namespace weft::metrics {

inline void accuracy::add(const detail::metric_batch& b) {
  detail::for_each_class(b, [&](std::size_t i, std::int64_t predicted) {
    mean_.add(static_cast<std::int64_t>(b.labels[i]) == predicted, b.weight(i));
  });
}

inline void top_k_accuracy::add(const detail::metric_batch& b) {
  const auto classes = static_cast<std::size_t>(b.classes);
  std::vector<double> row(classes);
  for (std::size_t i = 0, size = b.size(); i < size; ++i) {
    b.predictions.read(b.predictions.data, i * classes, classes, row.data());
    const double own = row[static_cast<std::size_t>(b.labels[i])];
    std::int64_t larger = 0;
    for (const double score : row) larger += score > own;
    mean_.add(larger < k_, b.weight(i));
  }
}

inline void confusion_matrix::add(const detail::metric_batch& b) {
  detail::for_each_class(b, [&](std::size_t i, std::int64_t predicted) {
    counts_[at(static_cast<std::int64_t>(b.labels[i]), predicted)] += b.weight(i);
  });
}

inline double confusion_matrix::accuracy() const {
  double right = 0, all = 0;
  for (std::int64_t c = 0; c < classes_; ++c) {
    right += (*this)(c, c);
    all += sum(c, true);
  }
  return ratio(right, all);
}

inline double confusion_matrix::macro_f1() const {
  double all = 0;
  for (std::int64_t c = 0; c < classes_; ++c) all += f1(c);
  return all / static_cast<double>(classes_);
}

}  // namespace weft::metrics
