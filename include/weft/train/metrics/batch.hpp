#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/error.hpp>
#include <weft/tensor/read_elements.hpp>
#include <weft/train/metrics/mistakes.hpp>

/// The common part of all metrics: a batch as they see it, and how it is checked before any of it is counted.
namespace weft::detail {

/// Elements of any type, as doubles. Refers to them.
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

/// The operand itself, or, of an expression or a number, a tensor that has the value.
template <class X>
decltype(auto) materialized(const X& x) {
  if constexpr (std::is_arithmetic_v<X> || (Expression<X> && !requires { x.data(); }))
    return tensor<metric_value_t<X>, metric_dims_t<X>>(x);
  else
    return static_cast<const X&>(x);
}

/// `x` must live on: call it in the expression that uses the result.
template <class X>
metric_values values_of(const char* role, const X& x) {
  using T = metric_value_t<X>;
  return {role, x.data(), read_elements<T>, x.extents(), dtype_of<T>};
}

/// Labels, predictions and weights, one for each example. `classes`: how many scores an example has; 0 where the
/// predictions are one for each example.
struct metric_batch {
  metric_values labels, predictions, weights;
  std::int64_t classes = 0;

  std::size_t size() const { return labels.size(); }
  double weight(std::size_t i) const { return weights[weights.extents.rank == 0 ? 0 : i]; }
};

/// Calls `use` with a batch of these operands, which live as long as the call.
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
               "; nothing of this batch is counted"});
}

/// Whether `accepts` takes all elements, a block at a time; else `at` is the first that it does not.
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
                   "there is no measure of NaN; nan_guard(loss) ends a run "
                   "that diverges");
}

inline void check_weights(const char* metric, const metric_values& weights, const shape& values) {
  if (weights.extents.rank > 0 && weights.extents != values)
    throw error(error_code::invalid_argument, metric,
                {"weights have the extents ", to_string(weights.extents), ", and what they weight ", to_string(values),
                 ": give one weight for each, or one number for all"});
  std::size_t at;
  if (!all_elements(weights, [](double e) { return e >= 0 && std::isfinite(e); }, at))
    refuse_element(error_code::invalid_argument, metric, weights, at, "a weight is a finite number of at least 0");
}

/// Classes are whole numbers from 0 on; below `classes`, where it is more than 0.
inline void check_classes(const char* metric, const metric_values& x, std::int64_t classes) {
  constexpr double exact = 9007199254740992;  // from there on doubles leave integers out
  const double end = classes > 0 ? static_cast<double>(classes) : exact;
  std::size_t at;
  if (!all_elements(x, [&](double e) { return e >= 0 && e < end; }, at))
    refuse_element(error_code::out_of_range, metric, x, at,
                   classes > 0 ? str_cat({"classes are 0 to ", classes - 1}).c_str() : "classes are 0 to 2^53");
}

/// Labels and predictions of equal extents.
inline void check_pairs(const char* metric, const metric_batch& b) {
  if (b.labels.extents != b.predictions.extents)
    throw error(error_code::invalid_argument, metric,
                {"labels have the extents ", to_string(b.labels.extents), ", and predictions ",
                 to_string(b.predictions.extents), ": give one prediction for each label"});
  check_weights(metric, b.weights, b.labels.extents);
  check_numbers(metric, b.labels);
  check_numbers(metric, b.predictions);
}

/// Labels that are classes, and predictions that are classes too or scores [..., classes].
inline void check_class_batch(const char* metric, metric_batch& b, std::int64_t classes) {
  shape rows = b.predictions.extents;
  const bool scores = rows.rank == b.labels.extents.rank + 1;
  if (scores) b.classes = rows[--rows.rank];
  if (rows != b.labels.extents)
    throw error(error_code::invalid_argument, metric,
                {"labels have the extents ", to_string(b.labels.extents), ", and predictions ",
                 to_string(b.predictions.extents), ": give one prediction, or one row of scores, for each label"});
  if (scores && classes > 0 && b.classes != classes)
    throw error(error_code::invalid_argument, metric,
                {"predictions have scores of ", b.classes, " classes, and the metric was made for ", classes});
  if (scores && b.classes == 0 && b.size() > 0)
    throw error(error_code::invalid_argument, metric, "predictions have scores of no classes");
  check_weights(metric, b.weights, b.labels.extents);
  check_classes(metric, b.labels, scores ? b.classes : classes);
  scores ? check_numbers(metric, b.predictions) : check_classes(metric, b.predictions, classes);
}

/// A metric's options are in its archive to be compared: an object of others would go on with numbers that mean
/// something else.
template <class Archive, class T>
void serialize_option(Archive& archive, const char* metric, const char* option, const T& own) {
  T there = own;
  archive & there;
  if (there != own)
    throw error(
        error_code::failed_precondition, metric,
        {"what is restored has another ", option, ", ", number_text(static_cast<double>(there)), " in place of ",
         number_text(static_cast<double>(own)), ": make the object as it was when it was saved"});
}

inline void check_merged(const char* metric, const char* option, double mine, double other) {
  if (mine == other) return;
  throw error(error_code::invalid_argument, metric,
              {"merge: this one's ", option, " is ", number_text(mine), ", and the other's ", number_text(other)});
}

/// A sum that keeps what its terms lose (Neumaier): of an epoch's small terms none is lost on a large sum.
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

/// update(labels, predictions) of metrics that compare numbers one by one.
template <class Metric>
class pair_metric {
 public:
  /// Adds a batch: labels and predictions of equal extents, each pair of the weight 1, of a number for all, or of one
  /// of `weights` with the same extents. All are tensors, views of tensors, expressions over tensors, or numbers.
  ///
  /// Throws invalid_argument where extents differ, an element is NaN, or a weight is negative or not finite. Nothing of
  /// a batch is counted then.
  template <class Labels, class Predictions, class Weights = double>
  void update(const Labels& labels, const Predictions& predictions, const Weights& weights = 1) {
    using mistake = decltype(find_pair_mistake<Labels, Predictions, Weights>());
    static_assert(correct<mistake>,
                  "update: takes labels and predictions of equal extents, tensors or what a step has "
                  "fetched; then, if any, weights of these extents or one number");
    if constexpr (correct<mistake>) {
      with_batch(labels, predictions, weights, [this](const metric_batch& batch) {
        check_pairs(Metric::name, batch);
        static_cast<Metric*>(this)->add(batch);
      });
    }
  }
};

/// update(labels, predictions) of metrics that compare classes.
template <class Metric, bool TakesClasses = true>
class class_metric {
 public:
  /// Adds a batch: labels [...] of integers, and predictions that are classes of the same extents, integers, or scores
  /// [..., classes], logits or probabilities, of which the largest is the class, of equals the first. Each example has
  /// the weight 1, a number for all, or one of `weights` with the labels' extents. All are tensors, views of tensors,
  /// expressions over tensors, or numbers.
  ///
  /// Throws out_of_range for a class that there is not, and invalid_argument where extents differ, a score is NaN, or a
  /// weight is negative or not finite. Nothing of a batch is counted then.
  template <class Labels, class Predictions, class Weights = double>
  void update(const Labels& labels, const Predictions& predictions, const Weights& weights = 1) {
    using mistake = decltype(find_class_mistake<Labels, Predictions, Weights, TakesClasses>());
    if constexpr (TakesClasses)
      static_assert(correct<mistake>,
                    "update: takes labels [...] of integers; predictions are integers [...] or scores "
                    "[..., classes]; then, if any, weights [...] or one number");
    else
      static_assert(correct<mistake>,
                    "update: takes labels [...] of integers; predictions are scores [..., classes]; "
                    "then, if any, weights [...] or one number");
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
