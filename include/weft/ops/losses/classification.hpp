// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <tuple>

#include <weft/ops/index/gather.hpp>
#include <weft/ops/losses/operands.hpp>
#include <weft/ops/reduce/softmax.hpp>

/// Losses of classes and of labels that are 0 or 1. Not part of <weft/weft.hpp>.
namespace weft {

/// Numbers, one for each class, from a list or a tensor of rank 1: `{1, 2, 0.5}`.
class numbers_of_classes {
 public:
  numbers_of_classes() = default;
  numbers_of_classes(std::initializer_list<double> numbers) : numbers_(numbers) {}
  template <Expression X>
    requires(!X::symbolic && dims_t<X>::rank == 1)
  numbers_of_classes(const X& x) {
    const auto t = eval(cast<double>(x));
    numbers_.append(t.data(), t.elements());
  }
  bool empty() const { return numbers_.empty(); }
  std::size_t size() const { return numbers_.size(); }
  double operator[](std::size_t i) const { return numbers_[i]; }

 private:
  sequence<double> numbers_;
};

/// The options of cross-entropies.
struct cross_entropy_options {
  static constexpr std::int64_t no_class = std::numeric_limits<std::int64_t>::min();

  /// The part of each label, from 0 to 1, that is spread evenly over all classes (Szegedy et al., Rethinking the
  /// Inception Architecture, 2015).
  double label_smoothing = 0;
  /// Rows with this label have loss 0. PyTorch's default is -100; here there is none.
  std::int64_t ignore_index = no_class;
  /// Factors of the classes' terms: `{.class_weights = {1, 2, 0.5}}`.
  numbers_of_classes class_weights = {};
};

/// The labels must be classes: integers, one for each row of the logits.
template <class Logits, class Labels, class Label>
struct class_labels_do_not_fit
    : mistake<!detail::are_classes<Label> || !detail::labels_fit(Logits::spec, Labels::spec)> {};

namespace formula {

struct sigmoid_cross_entropy {
  static constexpr const char* name = "sigmoid_cross_entropy";
  static constexpr const char* onnx = "Sub(Softplus(a), Mul(a, b))";
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

/// The gradient is finite at 0 and 1, as PyTorch's.
struct binary_cross_entropy {
  static constexpr const char* name = "binary_cross_entropy";
  static constexpr const char* onnx = "Sub(Mul(Sub(b, 1), Max(Log(Sub(1, a)), -100)), Mul(b, Max(Log(a), -100)))";
  static constexpr bool cheap = false, floating_only = true;
  template <class V>
  WEFT_HOST_DEVICE static constexpr V log_of(V p) {
    return math::maximum(math::log(p), V(-100));
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V log_of_rest(V p) {
    return math::maximum(math::log1p(-p), V(-100));
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V apply(V p, V z) {
    return (z - V(1)) * log_of_rest(p) - z * log_of(p);
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_a(V g, V p, V z, V) {
    return g * (p - z) / math::maximum((V(1) - p) * p, V(1e-12));
  }
  template <class V>
  WEFT_HOST_DEVICE static constexpr V gradient_b(V g, V p, V, V) {
    return g * (log_of_rest(p) - log_of(p));
  }
};

}  // namespace formula

namespace detail {

template <int Last, class X, class Y>
auto chosen_logits(const X& logits, const Y& labels) {
  if constexpr (Last == 0)
    return gather(logits, labels);
  else
    return batch_gather<Last>(logits, labels);
}
template <class X>
inline constexpr int last_axis_of = static_cast<int>(dims_t<X>::rank) - 1;

inline void check_label_smoothing(double smoothing) {
  if (!(smoothing >= 0 && smoothing <= 1))
    throw error(error_code::invalid_argument, "softmax_cross_entropy",
                {"the label smoothing must be in [0, 1]; it is ", format_number("%.*g", 6, smoothing)});
}

/// The weights of the classes as a tensor with the last extent of x. A step checks an extent that has a name.
template <class X>
auto weights_like(const X& x, const numbers_of_classes& weights) {
  using D = dims_t<X>;
  const std::int64_t classes = extents_of(x)[D::rank - 1], given = static_cast<std::int64_t>(weights.size());
  if (classes >= 0 && classes != given)
    throw error(error_code::invalid_argument, "cross-entropy", {given, " class weights for ", classes, " classes"});
  tensor<value_t<X>, dims<extent_at<D, D::rank - 1>::value>> t{shape(given)};
  for (std::size_t i = 0; i < weights.size(); ++i) t.data()[i] = static_cast<value_t<X>>(weights[i]);
  return t;
}

/// Returns which rows are not ignored, the classes of all rows, and the rows' weights. The class and the weight of an
/// ignored row are 0.
template <class X, class Y>
auto weighted_rows(const X& x, const Y& labels, const cross_entropy_options& options) {
  using T = value_t<X>;
  const auto given = materialize(labels);
  const auto kept = materialize(cast<std::int64_t>(given) != options.ignore_index);
  const auto classes = materialize(weft::select(kept, given, 0));
  const auto weights =
      options.class_weights.empty()
          ? materialize(cast<T>(kept))
          : materialize(weft::select(kept, gather(weights_like(x, options.class_weights), classes), 0));
  return std::tuple{kept, classes, weights};
}

template <class X>
auto weighted_classes(const X& x, const numbers_of_classes& weights) {
  return weights.empty() ? x : materialize(weights_like(x, weights) * x);
}

/// The cross-entropy of labels: `of_classes(y)` returns -log(p) of classes, `log_of_all()` log(p) of all classes.
template <class X, class Y, class F, class Given>
auto smoothed_cross_entropy(const X& x, const Y& labels, const cross_entropy_options& options, const F& of_classes,
                            const Given& log_of_all) {
  const double smoothing = options.label_smoothing;
  check_label_smoothing(smoothing);
  if constexpr (are_classes<value_t<Y>>) {
    const auto [kept, classes, weights] = weighted_rows(x, labels, options);
    const auto loss =
        materialize((1 - smoothing) * elementwise<formula::multiply_no_nan>(of_classes(classes), weights));
    if (smoothing == 0) return loss;
    const auto even = mean<-1>(weighted_classes(log_of_all(), options.class_weights));
    return materialize(loss - smoothing * weft::select(kept, even, 0));
  } else {
    if (options.ignore_index != cross_entropy_options::no_class)
      throw error(error_code::invalid_argument, "softmax_cross_entropy",
                  "the labels are distributions: ignore_index requires classes");
    const auto log_p = weighted_classes(log_of_all(), options.class_weights);
    const auto loss = materialize((smoothing - 1) * sum<-1>(elementwise<formula::multiply_no_nan>(log_p, labels)));
    return smoothing == 0 ? loss : materialize(loss - smoothing * mean<-1>(log_p));
  }
}

}  // namespace detail

/// Computes softmax_cross_entropy with smoothed labels, ignored labels and class weights, one loss for each row:
/// `softmax_cross_entropy(logits, labels, {.label_smoothing = 0.1})` (torch.nn.functional.cross_entropy with reduction
/// "none", tf.keras.losses.CategoricalCrossentropy). Throws invalid_argument unless the smoothing is from 0 to 1, there
/// is one weight for each class, and an ignored label is one of classes.
template <Expression L, Expression Y>
[[nodiscard]] auto softmax_cross_entropy(const L& logits, const Y& labels, const cross_entropy_options& options) {
  static_assert(correct<cross_entropy_mistake<L, Y>>,
                "softmax_cross_entropy: needs logits of float or double, and classes or distributions that fit them");
  return detail::unless<cross_entropy_mistake<L, Y>>(logits, [&](const auto& x) {
    if (options.class_weights.empty() && options.ignore_index == cross_entropy_options::no_class) {
      const double smoothing = options.label_smoothing;
      detail::check_label_smoothing(smoothing);
      const auto loss = softmax_cross_entropy(x, labels);
      return smoothing == 0 ? loss : materialize((1 - smoothing) * loss - smoothing * mean<-1>(log_softmax(x)));
    }
    return detail::smoothed_cross_entropy(
        x, labels, options, [&](const auto& y) { return softmax_cross_entropy(x, y); }, [&] { return log_softmax(x); });
  });
}

/// Returns the mean of softmax_cross_entropy weighted by the classes of the labels, a scalar: the sum of all losses
/// divided by the sum of the weights of rows that are not ignored, or for distributions by the number of rows
/// (torch.nn.functional.cross_entropy). NaN if all rows are ignored.
template <Expression L, Expression Y>
[[nodiscard]] auto mean_softmax_cross_entropy(const L& logits, const Y& labels,
                                              const cross_entropy_options& options = {}) {
  static_assert(
      correct<cross_entropy_mistake<L, Y>>,
      "mean_softmax_cross_entropy: needs logits of float or double, and classes or distributions that fit them");
  return detail::unless<cross_entropy_mistake<L, Y>>(logits, [&](const auto& x) {
    const auto loss = softmax_cross_entropy(x, labels, options);
    if constexpr (detail::are_classes<value_t<Y>>)
      return materialize(sum(loss) / sum(std::get<2>(detail::weighted_rows(x, labels, options))));
    else
      return materialize(mean(loss));
  });
}

/// Returns the cross-entropy of log-probabilities `[..., classes]` for classes or distributions, as
/// softmax_cross_entropy does of logits (torch.nn.functional.nll_loss): `nll_loss(log_softmax(x), labels)`.
template <Expression L, Expression Y>
[[nodiscard]] auto nll_loss(const L& log_probabilities, const Y& labels, const cross_entropy_options& options = {}) {
  static_assert(correct<cross_entropy_mistake<L, Y>>,
                "nll_loss: needs log-probabilities of float or double, and classes or distributions that fit them");
  return detail::unless<cross_entropy_mistake<L, Y>>(log_probabilities, [&](const auto& x) {
    return detail::smoothed_cross_entropy(
        x, labels, options, [&](const auto& y) { return -detail::chosen_logits<detail::last_axis_of<L>>(x, y); },
        [&] { return x; });
  });
}

/// Returns the cross-entropy of probabilities `[..., classes]` for classes or distributions. Divides probabilities by
/// their sum and clips them to [1e-7, 1 - 1e-7] (tf.keras.losses.CategoricalCrossentropy and
/// SparseCategoricalCrossentropy with from_logits=False). Prefer softmax_cross_entropy of logits, which does not clip.
template <Expression P, Expression Y>
[[nodiscard]] auto categorical_cross_entropy(const P& probabilities, const Y& labels,
                                             const cross_entropy_options& options = {}) {
  static_assert(
      correct<cross_entropy_mistake<P, Y>>,
      "categorical_cross_entropy: needs probabilities of float or double, and classes or distributions that fit them");
  return detail::unless<cross_entropy_mistake<P, Y>>(probabilities, [&](const auto& p) {
    return nll_loss(log(minimum(maximum(p / sum<-1, keep_dims>(p), 1e-7), 1 - 1e-7)), labels, options);
  });
}

/// Returns the cross-entropy of independent labels: -z log(sigmoid(x)) - (1 - z) log(1 - sigmoid(x)) for a logit x and
/// a probability z, without overflow (tf.nn.sigmoid_cross_entropy_with_logits).
template <Expression L, Operand Y>
[[nodiscard]] auto sigmoid_cross_entropy(const L& logits, const Y& labels) {
  static_assert(correct<loss_mistake<L, Y>>,
                "sigmoid_cross_entropy: needs float or double predictions, and labels of their type and extents: "
                "cast<float>(labels)");
  return detail::loss_of(
      logits, labels, [](const auto& x, const auto& z) { return elementwise<formula::sigmoid_cross_entropy>(x, z); });
}

/// Multiplies the first term by `positive_weight`, a number or a value that broadcasts, such as one for each class
/// (tf.nn.weighted_cross_entropy_with_logits, pos_weight of torch.nn.functional.binary_cross_entropy_with_logits).
template <Expression L, Operand Y, Operand Weights>
[[nodiscard]] auto sigmoid_cross_entropy(const L& logits, const Y& labels, const Weights& positive_weight) {
  static_assert(correct<loss_mistake<L, Y>>,
                "sigmoid_cross_entropy: needs float or double predictions, and labels of their type and extents: "
                "cast<float>(labels)");
  return detail::loss_of(logits, labels, [&](const auto& x, const auto& z) {
    return (1 - z) * x + (1 + (positive_weight - 1) * z) * softplus(-x);
  });
}

/// Returns -z log(p) - (1 - z) log(1 - p) for a probability p and a label z, with logarithms of at least -100
/// (torch.nn.functional.binary_cross_entropy). Prefer sigmoid_cross_entropy of logits.
template <Expression P, Operand Y>
[[nodiscard]] auto binary_cross_entropy(const P& probabilities, const Y& labels) {
  static_assert(correct<loss_mistake<P, Y>>,
                "binary_cross_entropy: needs float or double predictions, and labels of their type and extents: "
                "cast<float>(labels)");
  return detail::loss_of(probabilities, labels,
                         [](const auto& p, const auto& z) { return elementwise<formula::binary_cross_entropy>(p, z); });
}

/// Returns the mean over the last axis, the classes, of sigmoid_cross_entropy (torch.nn.functional.
/// multilabel_soft_margin_loss).
template <Expression L, Expression Y>
[[nodiscard]] auto multilabel_soft_margin_loss(const L& logits, const Y& labels) {
  using mistake = first_mistake<no_last_axis<dims_t<L>>, loss_mistake<L, Y>>;
  static_assert(correct<mistake>,
                "multilabel_soft_margin_loss: needs float or double logits [..., classes], and labels of the same type "
                "and extents: cast<float>(labels)");
  return detail::unless<mistake>(logits, labels,
                                 [](const auto& x, const auto& z) { return mean<-1>(sigmoid_cross_entropy(x, z)); });
}

/// The options of focal_loss.
struct focal_loss_options {
  double alpha = 0.25;  ///< the weight of label 1; that of label 0 is 1 - alpha. No weights if negative
  double gamma = 2;     ///< the exponent of 1 - p, for a label with probability p
};

/// Returns sigmoid_cross_entropy multiplied by (1 - p)^gamma, so that easy examples count less (Lin et al., Focal Loss
/// for Dense Object Detection, 2017; torchvision.ops.sigmoid_focal_loss).
template <Expression L, Expression Y>
[[nodiscard]] auto focal_loss(const L& logits, const Y& labels, focal_loss_options options = {}) {
  static_assert(
      correct<loss_mistake<L, Y>>,
      "focal_loss: needs float or double predictions, and labels of their type and extents: cast<float>(labels)");
  return detail::loss_of(logits, labels, [&](const auto& e, const auto& z) {
    const auto x = materialize(e);
    const auto p = materialize(sigmoid(x));
    const double a = options.alpha < 0 ? 1 : options.alpha, b = options.alpha < 0 ? 1 : 1 - options.alpha;
    const auto loss = materialize(sigmoid_cross_entropy(x, z) * (b + (a - b) * z));
    if (options.gamma == 0) return loss;
    return materialize(loss * pow(p + z - 2 * p * z, options.gamma));
  });
}

/// Returns max(0, 1 - (2 z - 1) x) for a logit x and a label z, 0 or 1 (tf.losses.hinge_loss of TensorFlow 1).
template <Expression L, Operand Y>
[[nodiscard]] auto hinge_loss(const L& logits, const Y& labels) {
  static_assert(
      correct<loss_mistake<L, Y>>,
      "hinge_loss: needs float or double predictions, and labels of their type and extents: cast<float>(labels)");
  return detail::loss_of(logits, labels, [](const auto& x, const auto& z) { return relu(1 - (2 * z - 1) * x); });
}

/// The options of multi_margin_loss.
struct multi_margin_options {
  double margin = 1;
  int p = 1;  ///< the exponent, 1 or 2
  numbers_of_classes class_weights = {};
};

/// Returns the sum of max(0, margin - x[label] + x[i])^p over all other classes i, divided by the number of classes:
/// `[...]` for logits `[..., classes]` (torch.nn.functional.multi_margin_loss). Throws invalid_argument if p is neither
/// 1 nor 2.
template <Expression L, Expression Y>
[[nodiscard]] auto multi_margin_loss(const L& logits, const Y& labels, const multi_margin_options& options = {}) {
  using mistake = first_mistake<class_labels_do_not_fit<dims_t<L>, dims_t<Y>, value_t<Y>>, not_floating<value_t<L>>>;
  static_assert(correct<mistake>,
                "multi_margin_loss: needs float or double logits [..., classes] and labels [...], std::int32_t or "
                "std::int64_t");
  return detail::unless<mistake>(logits, [&]<class X>(const X& x) {
    if (options.p != 1 && options.p != 2)
      throw error(error_code::invalid_argument, "multi_margin_loss", {"p must be 1 or 2; it is ", options.p});
    const auto [kept, label, weights] = detail::weighted_rows(x, labels, {.class_weights = options.class_weights});
    const auto chosen = detail::chosen_logits<detail::last_axis_of<X>>(x, label);
    const auto over = materialize(relu(options.margin - expand_dims<-1>(chosen) + x));
    const double own = options.margin > 0 ? options.margin : 0;  // the term of the label itself
    const auto classes = detail::reduced_elements<value_t<X>, std::uint32_t{1} << (dims_t<X>::rank - 1)>(x);
    return options.p == 1 ? materialize(weights * (sum<-1>(over) - own) / classes)
                          : materialize(weights * (sum<-1>(square(over)) - own * own) / classes);
  });
}

/// Returns 1 - (2 sum(p z) + smoothing) / (sum(p) + sum(z) + smoothing), the soft Dice loss of probabilities p and
/// labels z, over the given axes or all (Milletari et al., V-Net, 2016): `dice_loss<1, 2>(p, z)` for `[batch, height,
/// width]`.
template <auto... Axes, Expression P, Expression Y>
[[nodiscard]] auto dice_loss(const P& probabilities, const Y& labels, double smoothing = 1) {
  static_assert(
      correct<loss_mistake<P, Y>>,
      "dice_loss: needs float or double predictions, and labels of their type and extents: cast<float>(labels)");
  return detail::loss_of(probabilities, labels, [&](const auto& e, const auto& f) {
    const auto p = materialize(e);
    const auto z = materialize(f);
    return 1 - (2 * sum<Axes...>(p * z) + smoothing) / (sum<Axes...>(p) + sum<Axes...>(z) + smoothing);
  });
}

/// Returns true if the label is among the k largest logits of its row: bool `[...]` for logits `[..., classes]` and
/// labels `[...]`, std::int32_t or std::int64_t (tf.math.in_top_k). Logits equal to the label's do not count as larger.
/// Returns false if the label is out of range or a logit of the row is infinite or NaN.
template <Expression L, Expression Y>
[[nodiscard]] auto in_top_k(const L& logits, const Y& labels, int k) {
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
auto nll_loss(...) WEFT_DELETED;  // log-probabilities, labels and options: mean(nll_loss(log_softmax(x), labels))
template <auto...>
auto sigmoid_cross_entropy(...) WEFT_DELETED;  // logits and labels: mean(sigmoid_cross_entropy(logits, labels))
template <auto...>
auto binary_cross_entropy(...) WEFT_DELETED;  // probabilities and labels: mean(binary_cross_entropy(p, labels))
template <auto...>
auto focal_loss(...) WEFT_DELETED;  // logits, labels and options: mean(focal_loss(x, labels, {.gamma = 2}))
template <auto...>
auto hinge_loss(...) WEFT_DELETED;  // logits and labels, 0 or 1: mean(hinge_loss(logits, labels))
template <auto...>
auto dice_loss(...) WEFT_DELETED;  // axes are template arguments: dice_loss<1, 2>(probabilities, labels)
template <auto...>
auto in_top_k(...) WEFT_DELETED;  // logits and labels, then k: in_top_k(logits, labels, 5)

}  // namespace weft
