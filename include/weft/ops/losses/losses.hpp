// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/index/gather.hpp>
#include <weft/ops/reduce/reductions.hpp>
#include <weft/ops/reduce/softmax.hpp>

/// Losses other than softmax_cross_entropy. Not part of <weft/weft.hpp>. Losses of two operands are elementwise:
/// `mean(huber_loss(predictions, targets))`. Their operands have equal extents or are numbers. They do not broadcast,
/// because `[batch]` against `[batch, 1]` would yield `[batch, batch]`.
namespace weft {

/// Returns the cross-entropy of independent labels: -z log(sigmoid(x)) - (1 - z) log(1 - sigmoid(x)) for a logit x and
/// a probability z, without overflow (tf.nn.sigmoid_cross_entropy_with_logits).
template <Expression L, Operand Y>
[[nodiscard]] auto sigmoid_cross_entropy(const L& logits, const Y& labels);

/// Returns half the sum of all squares, a scalar (tf.nn.l2_loss).
template <Expression Expr>
[[nodiscard]] auto l2_loss(const Expr& e);

/// Returns half the square of the error if it is at most `delta`, and delta (|error| - delta / 2) otherwise
/// (tf.keras.losses.Huber, torch.nn.functional.huber_loss). `delta` must be positive.
template <Expression P, Operand Y>
[[nodiscard]] auto huber_loss(const P& predictions, const Y& targets, double delta = 1);

/// Returns max(0, 1 - (2 z - 1) x) for a logit x and a label z, 0 or 1 (tf.losses.hinge_loss of TensorFlow 1).
template <Expression L, Operand Y>
[[nodiscard]] auto hinge_loss(const L& logits, const Y& labels);

/// The options of softmax_cross_entropy.
struct cross_entropy_options {
  /// The part of each label, from 0 to 1, that is spread evenly over all classes (Szegedy et al., Rethinking the
  /// Inception Architecture, 2015).
  double label_smoothing = 0;
};

/// Computes softmax_cross_entropy with smoothed labels: `softmax_cross_entropy(logits, labels, {.label_smoothing =
/// 0.1})` (torch.nn.functional.cross_entropy, tf.keras.losses.CategoricalCrossentropy). Throws invalid_argument unless
/// the smoothing is from 0 to 1.
template <Expression L, Expression Y>
[[nodiscard]] auto softmax_cross_entropy(const L& logits, const Y& labels, const cross_entropy_options& options);

/// Returns true if the label is among the k largest logits of its row: bool `[...]` for logits `[..., classes]` and
/// labels `[...]`, std::int32_t or std::int64_t (tf.math.in_top_k). Logits equal to the label's do not count as larger.
/// Returns false if the label is out of range or a logit of the row is infinite or NaN.
template <Expression L, Expression Y>
[[nodiscard]] auto in_top_k(const L& logits, const Y& labels, int k);

/// The operands of an elementwise loss must have equal extents.
template <class A, class B>
struct loss_operands_differ : mistake<!(A::spec == B::spec)> {};

/// The labels must be classes: integers, one for each row of the logits.
template <class Logits, class Labels, class Label>
struct class_labels_do_not_fit
    : mistake<!detail::are_classes<Label> || !detail::labels_fit(Logits::spec, Labels::spec)> {};

namespace detail {

template <class X, class Y>
constexpr auto find_loss_mistake() {
  if constexpr (Number<Y>)
    return not_floating<value_t<X>>{};
  else
    return first_mistake<loss_operands_differ<dims_t<X>, dims_t<Y>>, element_types_differ<value_t<X>, value_t<Y>>,
                         not_floating<value_t<X>>>{};
}

}  // namespace detail

/// The first mistake in the operands of an elementwise loss, if any.
template <class X, class Y>
using loss_mistake = decltype(detail::find_loss_mistake<X, Y>());

namespace formula {

struct sigmoid_cross_entropy {
  static constexpr const char* name = "sigmoid_cross_entropy";
  static constexpr bool cheap = false, floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V x, V z) {
    return math::maximum(x, V(0)) - x * z + math::log1p(math::exp(-math::abs(x)));
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_a(V g, V x, V z, V) {
    return g * (math::sigmoid(x) - z);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_b(V g, V x, V, V) {
    return -g * x;
  }
};

}  // namespace formula

template <Expression L, Operand Y>
auto sigmoid_cross_entropy(const L& logits, const Y& labels) {
  static_assert(correct<loss_mistake<L, Y>>,
                "sigmoid_cross_entropy: needs float or double logits, and labels of the same type and extents: "
                "cast<float>(labels)");
  if constexpr (correct<loss_mistake<L, Y>>)
    return elementwise<formula::sigmoid_cross_entropy>(logits, labels);
  else
    return detail::same_after_mistake(logits);
}

template <Expression Expr>
auto l2_loss(const Expr& e) {
  static_assert(correct<not_floating<value_t<Expr>>>, "l2_loss: needs float or double: cast<float>(x)");
  return sum(square(e)) / 2;
}

template <Expression P, Operand Y>
auto huber_loss(const P& predictions, const Y& targets, double delta) {
  static_assert(correct<loss_mistake<P, Y>>,
                "huber_loss: needs float or double predictions, and targets of the same type and extents");
  if constexpr (correct<loss_mistake<P, Y>>) {
    const auto error = abs(predictions - targets);
    const auto inner = minimum(error, delta);
    return square(inner) / 2 + delta * (error - inner);
  } else {
    return detail::same_after_mistake(predictions);
  }
}

template <Expression L, Operand Y>
auto hinge_loss(const L& logits, const Y& labels) {
  static_assert(
      correct<loss_mistake<L, Y>>,
      "hinge_loss: needs float or double logits, and labels of the same type and extents: cast<float>(labels)");
  if constexpr (correct<loss_mistake<L, Y>>)
    return relu(1 - (2 * labels - 1) * logits);
  else
    return detail::same_after_mistake(logits);
}

namespace detail {

template <int Last, class X, class Y>
auto chosen_logits(const X& logits, const Y& labels) {
  if constexpr (Last == 0)
    return gather(logits, labels);
  else
    return batch_gather<Last>(logits, labels);
}

inline void check_label_smoothing(double smoothing) {
  if (!(smoothing >= 0 && smoothing <= 1))
    throw error(error_code::invalid_argument, "softmax_cross_entropy",
                {"the label smoothing must be in [0, 1]; it is ", format_number("%.*g", 6, smoothing)});
}

}  // namespace detail

template <Expression L, Expression Y>
auto softmax_cross_entropy(const L& logits, const Y& labels, const cross_entropy_options& options) {
  static_assert(
      correct<cross_entropy_mistake<L, Y>>,
      "softmax_cross_entropy: needs float or double logits in a graph, and labels that fit them: std::int32_t or "
      "std::int64_t classes, or distributions of the logits' type");
  if constexpr (correct<cross_entropy_mistake<L, Y>>) {
    const double smoothing = options.label_smoothing;
    detail::check_label_smoothing(smoothing);
    const auto x = materialize(logits);
    return let((1 - smoothing) * softmax_cross_entropy(x, labels) - smoothing * mean<-1>(log_softmax(x)));
  } else {
    return detail::after_mistake<value_t<L>, dims_t<Y>>(logits, labels);
  }
}

template <Expression L, Expression Y>
auto in_top_k(const L& logits, const Y& labels, int k) {
  using D = dims_t<L>;
  using mistake = first_mistake<class_labels_do_not_fit<D, dims_t<Y>, value_t<Y>>, not_floating<value_t<L>>>;
  static_assert(correct<mistake>,
                "in_top_k: needs float or double logits [..., classes] and labels [...], std::int32_t or std::int64_t");
  if constexpr (correct<mistake>) {
    constexpr int last = static_cast<int>(D::rank) - 1;
    constexpr auto largest = std::numeric_limits<value_t<L>>::max();
    const auto x = materialize(logits);
    const auto y = materialize(cast<std::int64_t>(labels));
    const auto classes = reshape<dims<>>(slice<0, last, 1>(shape_of(x)));
    const auto valid = materialize(y >= std::int64_t{0} && y < classes);
    const auto chosen = detail::chosen_logits<last>(x, materialize(select(valid, y, std::int64_t{0})));
    return materialize(valid && sum<-1>(cast<std::int32_t>(x > expand_dims<-1>(chosen))) < k &&
                       all<-1>(abs(x) <= largest));
  } else {
    return detail::after_mistake<bool, dims_t<Y>>(logits, labels);
  }
}

template <auto...>
auto sigmoid_cross_entropy(...) WEFT_DELETED;  // logits and labels: mean(sigmoid_cross_entropy(logits, labels))
template <auto...>
auto huber_loss(...) WEFT_DELETED;  // predictions, targets and delta, a number: mean(huber_loss(x, y, 0.5))
template <auto...>
auto hinge_loss(...) WEFT_DELETED;  // logits and labels, 0 or 1: mean(hinge_loss(logits, labels))
template <auto...>
auto in_top_k(...) WEFT_DELETED;  // logits and labels, then k: in_top_k(logits, labels, 5)

}  // namespace weft
