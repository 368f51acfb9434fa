// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/error.hpp>
#include <weft/tensor/read_elements.hpp>
#include <weft/train/metrics/mistakes.hpp>

/// The common part of all metrics: access to a batch, and checks before any element is counted.
namespace weft::detail {

/// Elements of any type, read as doubles. Refers to the elements.
struct metric_values {
  const char* role;  ///< for errors: "labels"
  const void* data;
  void (*read)(const void* data, std::size_t first, std::size_t count, double* to);
  shape extents;
  dtype type;

  std::size_t size() const { return extents.elements(); }
  double operator[](std::size_t i) const {
    double x;
    read(data, i, 1, &x);
    return x;
  }
};

/// Returns the operand itself, or a tensor with the value of an expression or a number.
template <class X>
decltype(auto) materialized(const X& x) {
  if constexpr (std::is_arithmetic_v<X> || (Expression<X> && !requires { x.data(); }))
    return tensor<metric_value_t<X>, metric_dims_t<X>>(x);
  else
    return static_cast<const X&>(x);
}

/// The result refers to `x`: use it in the same full expression.
template <class X>
metric_values values_of(const char* role, const X& x) {
  using T = metric_value_t<X>;
  return {role, x.data(), read_elements<T>, x.extents(), dtype_of<T>};
}

/// Labels, predictions and weights. `classes`: the number of scores of each example; 0 if the predictions are not
/// scores.
struct metric_batch {
  metric_values labels, predictions, weights;
  std::int64_t classes = 0;

  std::size_t size() const { return labels.size(); }
  double weight(std::size_t i) const { return weights[weights.extents.rank == 0 ? 0 : i]; }
};

/// Calls `use` with a batch that is valid during the call.
template <class Labels, class Predictions, class Weights, class Use>
void with_batch(const Labels& labels, const Predictions& predictions, const Weights& weights, Use use) {
  const auto& l = materialized(labels);
  const auto& p = materialized(predictions);
  const auto& w = materialized(weights);
  metric_batch batch{values_of("labels", l), values_of("predictions", p), values_of("weights", w)};
  use(batch);
}

inline std::string number_text(double x) { return format_number("%.*g", 9, x); }

[[noreturn]] inline void refuse_element(error_code code, const char* metric, const metric_values& of, std::size_t i,
                                        const char* why) {
  throw error(code, metric,
              {of.role, ": element ", i, " of ", to_string(of.extents), " is ", number_text(of[i]), ": ", why,
               "; this batch was not counted"});
}

/// Returns true if `accepts` is true for all elements; else sets `at` to the first one for which it is not.
template <class Accepts>
bool all_elements(const metric_values& x, Accepts accepts, std::size_t& at) {
  double block[256];
  constexpr std::size_t most = sizeof block / sizeof *block;
  for (std::size_t first = 0, size = x.size(); first < size; first += most) {
    const std::size_t count = size - first < most ? size - first : most;
    x.read(x.data, first, count, block);
    for (std::size_t i = 0; i < count; ++i)
      if (!accepts(block[i])) return at = first + i, false;
  }
  return true;
}

inline void check_numbers(const char* metric, const metric_values& x) {
  std::size_t at;
  if (!all_elements(x, [](double e) { return !std::isnan(e); }, at))
    refuse_element(error_code::invalid_argument, metric, x, at,
                   "values must not be NaN; nan_guard(loss) ends a run that diverges");
}

inline void check_weights(const char* metric, const metric_values& weights, const shape& values) {
  if (weights.extents.rank > 0 && weights.extents != values)
    throw error(error_code::invalid_argument, metric,
                {"weights have extents ", to_string(weights.extents), ", but the weighted values have ",
                 to_string(values), ": give one weight for each value, or one number for all"});
  std::size_t at;
  if (!all_elements(weights, [](double e) { return e >= 0 && std::isfinite(e); }, at))
    refuse_element(error_code::invalid_argument, metric, weights, at, "weights must be finite and at least 0");
}

/// Throws unless all elements are at least 0 and, if `classes` is positive, below it. Elements are integers.
inline void check_classes(const char* metric, const metric_values& x, std::int64_t classes) {
  constexpr double exact = 9007199254740992;  // above it, doubles cannot represent all integers
  const double end = classes > 0 ? static_cast<double>(classes) : exact;
  std::size_t at;
  if (!all_elements(x, [&](double e) { return e >= 0 && e < end; }, at))
    refuse_element(error_code::out_of_range, metric, x, at,
                   classes > 0 ? str_cat({"classes must be 0 to ", classes - 1}).c_str() : "classes must be 0 to 2^53");
}

/// Throws unless labels and predictions have equal extents and no NaN, and the weights fit.
inline void check_pairs(const char* metric, const metric_batch& b) {
  if (b.labels.extents != b.predictions.extents)
    throw error(error_code::invalid_argument, metric,
                {"labels have extents ", to_string(b.labels.extents), ", but predictions have ",
                 to_string(b.predictions.extents), ": give one prediction for each label"});
  check_weights(metric, b.weights, b.labels.extents);
  check_numbers(metric, b.labels);
  check_numbers(metric, b.predictions);
}

/// Throws unless labels are classes, and predictions are classes or scores [..., classes].
inline void check_class_batch(const char* metric, metric_batch& b, std::int64_t classes) {
  shape rows = b.predictions.extents;
  const bool scores = rows.rank == b.labels.extents.rank + 1;
  if (scores) b.classes = rows[--rows.rank];
  if (rows != b.labels.extents)
    throw error(error_code::invalid_argument, metric,
                {"labels have extents ", to_string(b.labels.extents), ", but predictions have ",
                 to_string(b.predictions.extents), ": give one prediction, or one row of scores, for each label"});
  if (scores && classes > 0 && b.classes != classes)
    throw error(error_code::invalid_argument, metric,
                {"predictions have scores of ", b.classes, " classes, but the metric has ", classes});
  if (scores && b.classes == 0 && b.size() > 0)
    throw error(error_code::invalid_argument, metric, "predictions must have scores of at least one class");
  check_weights(metric, b.weights, b.labels.extents);
  check_classes(metric, b.labels, scores ? b.classes : classes);
  scores ? check_numbers(metric, b.predictions) : check_classes(metric, b.predictions, classes);
}

/// Archives contain a metric's options, because counts restored into an object with other options would be wrong.
/// Throws failed_precondition if an option differs.
template <class Archive, class T>
void serialize_option(Archive& archive, const char* metric, const char* option, const T& own) {
  T there = own;
  archive & there;
  if (there != own)
    throw error(error_code::failed_precondition, metric,
                {"the saved object's ", option, " is ", number_text(static_cast<double>(there)), ", but this one's is ",
                 number_text(static_cast<double>(own)), ": create it with the saved object's options"});
}

inline void check_merged(const char* metric, const char* option, double mine, double other) {
  if (mine == other) return;
  throw error(error_code::invalid_argument, metric,
              {"merge: this one's ", option, " is ", number_text(mine), ", but the other's is ", number_text(other)});
}

/// A compensated sum (Neumaier): small terms are not lost in a large sum.
class compensated_sum {
 public:
  void add(double x) {
    const double next = sum_ + x;
    if (std::isfinite(next)) lost_ += std::abs(sum_) >= std::abs(x) ? (sum_ - next) + x : (x - next) + sum_;
    sum_ = next;
  }
  void merge(const compensated_sum& other) {
    add(other.sum_);
    lost_ += other.lost_;
  }
  double value() const { return sum_ + lost_; }

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive & sum_ & lost_;
  }

 private:
  double sum_ = 0, lost_ = 0;
};

/// Implements update(labels, predictions) for metrics of pairs of numbers.
template <class Metric>
class pair_metric {
 public:
  /// Adds a batch: labels and predictions of equal extents. Each pair has weight 1, one common weight, or its own of
  /// `weights`, which have the same extents. Operands are tensors, views of tensors, expressions over tensors, or
  /// numbers.
  ///
  /// Throws invalid_argument if extents differ, an element is NaN, or a weight is negative or not finite, and counts
  /// nothing of the batch then.
  template <class Labels, class Predictions, class Weights = double>
  void update(const Labels& labels, const Predictions& predictions, const Weights& weights = 1) {
    using mistake = decltype(find_pair_mistake<Labels, Predictions, Weights>());
    static_assert(correct<mistake>,
                  "update: pass labels and predictions of equal extents, tensors or fetched values; then, "
                  "optionally, weights of these extents or one number");
    if constexpr (correct<mistake>) {
      with_batch(labels, predictions, weights, [this](const metric_batch& batch) {
        check_pairs(Metric::name, batch);
        static_cast<Metric*>(this)->add(batch);
      });
    }
  }
};

/// Implements update(labels, predictions) for metrics of classes.
template <class Metric, bool TakesClasses = true>
class class_metric {
 public:
  /// Adds a batch: integer labels [...], and predictions that are either classes, integers of the same extents, or
  /// scores [..., classes], logits or probabilities, where the largest (of equal ones, the first) determines the class.
  /// Each example has weight 1, one common weight, or its own of `weights`, which have the labels' extents. Operands
  /// are tensors, views of tensors, expressions over tensors, or numbers.
  ///
  /// Throws out_of_range if a class is out of range, and invalid_argument if extents differ, a score is NaN, or a
  /// weight is negative or not finite. Counts nothing of the batch then.
  template <class Labels, class Predictions, class Weights = double>
  void update(const Labels& labels, const Predictions& predictions, const Weights& weights = 1) {
    using mistake = decltype(find_class_mistake<Labels, Predictions, Weights, TakesClasses>());
    if constexpr (TakesClasses)
      static_assert(correct<mistake>,
                    "update: pass integer labels [...]; then predictions, integers [...] or scores "
                    "[..., classes]; then, optionally, weights [...] or one number");
    else
      static_assert(correct<mistake>,
                    "update: pass integer labels [...]; then predictions, scores [..., classes]; "
                    "then, optionally, weights [...] or one number");
    if constexpr (correct<mistake>) {
      with_batch(labels, predictions, weights, [this](metric_batch& batch) {
        Metric& self = static_cast<Metric&>(*this);
        check_class_batch(Metric::name, batch, self.classes());
        self.add(batch);
      });
    }
  }
};

}  // namespace weft::detail
