// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/softmax.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/cpu/softmax.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/lowering.hpp>
#include <weft/ops/reduce/reduce.hpp>

namespace weft {

namespace detail {

WEFT_COLD_BEGIN

symbol softmax_gradient(symbol y, symbol upstream);

#if WEFT_DEFINITIONS

WEFT_DECL symbol softmax_gradient(symbol y, symbol upstream) {
  return (upstream - sum(upstream * y, {y.extents().rank - 1}, true)) * y;
}

#endif

}  // namespace detail

template <class T>
struct softmax_op {
  static constexpr const char* name = "softmax";
  static constexpr const char* onnx = "Softmax<axis=@-1>(a)";
  static kernel* prepare(const prepare_context& p) {
    return new detail::softmax_kernel<softmax_kind::softmax, T, T>(p);
  }
  static void gradient(gradient_context& g) { g.set_gradient(0, detail::softmax_gradient(g.output(), g.upstream())); }
};

template <class T>
struct log_softmax_op {
  static constexpr const char* name = "log_softmax";
  static constexpr const char* onnx = "LogSoftmax<axis=@-1>(a)";
  static kernel* prepare(const prepare_context& p) {
    return new detail::softmax_kernel<softmax_kind::log_softmax, T, T>(p);
  }
  static void gradient(gradient_context& g) {
    const symbol up = g.upstream();
    g.set_gradient(0, up - math::exp(g.output()) * sum(up, {up.extents().rank - 1}, true));
  }
};

namespace detail {

/// Records the gradient of the logits. The second output is softmax - labels, the gradient of the first output.
template <class T>
symbol gradient_of_logits(const gradient_context& g) {
  const symbol logits = g.input(0);
  symbol result;
  if (g.has_upstream(0)) result = expand_dims(g.upstream(0), {logits.extents().rank - 1}) * g.output(1);
  if (!g.has_upstream(1)) return result;
  const symbol second = softmax_gradient(record<softmax_op<T>>({logits}, logits.info()), g.upstream(1));
  return g.has_upstream(0) ? result + second : second;
}

}  // namespace detail

/// Outputs: the losses, and softmax - labels, which is their gradient.
template <class T>
struct cross_entropy_op {
  static constexpr const char* name = "softmax_cross_entropy";
  static constexpr const char* onnx = "Neg(ReduceSum<keepdims=0>(Mul(b, LogSoftmax<axis=-1>(a)), [-1]))";
  static kernel* prepare(const prepare_context& p) {
    return new detail::softmax_kernel<softmax_kind::cross_entropy, T, T>(p);
  }
  static void gradient(gradient_context& g) {
    if (g.needs_gradient(0)) g.set_gradient(0, detail::gradient_of_logits<T>(g));
    if (!g.needs_gradient(1)) return;
    const symbol logits = g.input(0);
    symbol result;
    if (g.has_upstream(0))
      result = -(expand_dims(g.upstream(0), {logits.extents().rank - 1}) *
                 record<log_softmax_op<T>>({logits}, logits.info()));
    if (g.has_upstream(1)) result = g.has_upstream(0) ? result - g.upstream(1) : -g.upstream(1);
    g.set_gradient(1, result);
  }
};

/// Cross-entropy with classes as labels.
template <class T, class Label>
struct sparse_cross_entropy_op {
  static constexpr const char* name = "sparse_softmax_cross_entropy";
  static constexpr const char* onnx =
      "Neg(Squeeze(GatherElements<axis=-1>(LogSoftmax<axis=-1>(a), Unsqueeze(Cast<to=7>(b), [-1])), [-1]))";
  static kernel* prepare(const prepare_context& p) {
    return new detail::softmax_kernel<softmax_kind::sparse_cross_entropy, T, Label>(p);
  }
  static void gradient(gradient_context& g) {
    if (g.needs_gradient(0)) g.set_gradient(0, detail::gradient_of_logits<T>(g));
  }
};

namespace detail {

WEFT_INSTANTIATE(kernel* prepare_declared<softmax_op<float>>(const prepare_context&));
WEFT_INSTANTIATE(kernel* prepare_declared<log_softmax_op<float>>(const prepare_context&));
WEFT_INSTANTIATE(kernel* prepare_declared<cross_entropy_op<float>>(const prepare_context&));
WEFT_INSTANTIATE(kernel* prepare_declared<sparse_cross_entropy_op<float, std::int32_t>>(const prepare_context&));
WEFT_INSTANTIATE(void gradient_of_declared<cross_entropy_op<float>>(gradient_context&));
WEFT_INSTANTIATE(void gradient_of_declared<sparse_cross_entropy_op<float, std::int32_t>>(gradient_context&));

constexpr bool labels_fit(const shape& logits, const shape& labels) {
  return labels.rank + 1 == logits.rank && same_extents(labels, logits, labels.rank);
}

}  // namespace detail

WEFT_COLD_END

/// Labels must be classes, integers `[...]` for logits `[..., classes]`, or distributions of equal extents.
template <class Logits, class Labels, bool Sparse>
struct labels_do_not_fit_logits
    : mistake<!(Sparse ? detail::labels_fit(Logits::spec, Labels::spec) : Logits::spec == Labels::spec)> {};

/// The operation works along the last axis, which a scalar does not have.
template <class Dims>
struct no_last_axis : mistake<Dims::rank == 0> {};

/// The first mistake in the logits of a softmax, if any.
template <class Expr>
using softmax_mistake =
    std::conditional_t<no_last_axis<dims_t<Expr>>::value, no_last_axis<dims_t<Expr>>, not_floating<value_t<Expr>>>;

namespace detail {

template <class U>
inline constexpr bool are_classes = std::is_same_v<U, std::int32_t> || std::is_same_v<U, std::int64_t>;

template <class L, class Y>
constexpr auto find_cross_entropy_mistake() {
  constexpr bool sparse = are_classes<value_t<Y>>;
  using labels_differ = labels_do_not_fit_logits<dims_t<L>, dims_t<Y>, sparse>;
  if constexpr (!correct<softmax_mistake<L>>)
    return softmax_mistake<L>{};
  else if constexpr (sparse || !correct<labels_differ>)
    return labels_differ{};
  else
    return element_types_differ<value_t<L>, value_t<Y>>{};
}

}  // namespace detail

/// The first mistake in the operands of a cross-entropy, if any.
template <class Logits, class Labels>
using cross_entropy_mistake = decltype(detail::find_cross_entropy_mistake<Logits, Labels>());

namespace detail {

template <softmax_kind Kind, class Expr>
auto softmax_like(const Expr& logits) {
  using T = value_t<Expr>;
  if constexpr (!correct<softmax_mistake<Expr>>) {
    return after_mistake<T, dims_t<Expr>>(logits);
  } else {
    if constexpr (Expr::symbolic) gpu::compile_kernels<softmax_op, T>();
    const auto x = materialize(logits);
    if constexpr (Kind == softmax_kind::softmax)
      return call_operation<softmax_op<T>, T, dims_t<Expr>>(extents_of(x), {}, x);
    else
      return call_operation<log_softmax_op<T>, T, dims_t<Expr>>(extents_of(x), {}, x);
  }
}

}  // namespace detail

/// Returns exp(x) / sum(exp(x)) along the last axis (tf.nn.softmax).
template <Expression Expr>
[[nodiscard]] auto softmax(const Expr& logits) {
  static_assert(correct<softmax_mistake<Expr>>,
                "softmax: needs float or double logits of rank 1 or more: cast<float>(x)");
  return detail::softmax_like<softmax_kind::softmax>(logits);
}

/// Returns log(softmax(x)) along the last axis, without overflow (tf.nn.log_softmax).
template <Expression Expr>
[[nodiscard]] auto log_softmax(const Expr& logits) {
  static_assert(correct<softmax_mistake<Expr>>,
                "log_softmax: needs float or double logits of rank 1 or more: cast<float>(x)");
  return detail::softmax_like<softmax_kind::log_softmax>(logits);
}

/// Returns the cross-entropy between softmax(logits) and labels, one loss for each row. Labels are integer classes
/// `[...]` for logits `[..., classes]` (tf.nn.sparse_softmax_cross_entropy_with_logits), or distributions of the
/// logits' extents whose sums are 1 (tf.nn.softmax_cross_entropy_with_logits). A class out of range is an error; on a
/// GPU, which cannot throw, it yields a loss and gradients of NaN.
template <Expression L, Expression Y>
[[nodiscard]] auto softmax_cross_entropy(const L& logits, const Y& labels) {
  using T = value_t<L>;
  using U = value_t<Y>;
  static_assert(correct<cross_entropy_mistake<L, Y>>,
                "softmax_cross_entropy: needs float or double logits, and labels that fit them: std::int32_t or "
                "std::int64_t classes, or distributions of the logits' type");
  if constexpr (!correct<cross_entropy_mistake<L, Y>>) {
    return detail::after_mistake<T, dims<>>(logits, labels);
  } else {
    constexpr bool sparse = detail::are_classes<U>;
    using op = std::conditional_t<sparse, sparse_cross_entropy_op<T, U>, cross_entropy_op<T>>;
    using D = without_axes<dims_t<L>, std::uint32_t{1} << (dims_t<L>::rank - 1)>;
    const auto x = materialize(logits);
    const auto y = materialize(labels);
    if constexpr (!L::symbolic && !Y::symbolic) {
      shape rows = extents_of(x);
      --rows.rank;
      return std::get<0>(call_operation<op>(
          std::tuple{typed_result<T, D>{rows}, typed_result<T, dims_t<L>>{extents_of(x)}}, {}, x, y));
    } else {
      if constexpr (sparse)
        gpu::compile_kernels<gpu::sparse_cross_entropies, T>();
      else
        gpu::compile_kernels<cross_entropy_op, T>();
      node_def c;
      c.op = &operation_of<op>;
      c.outputs = {{dtype_of<T>, D::spec}, {dtype_of<T>, dims_t<L>::spec}};
      const detail::operand_source sources[] = {detail::source_of(x), detail::source_of(y)};
      return detail::make_node<T, D, device_t<L>>(detail::record_operation(static_cast<node_def&&>(c), sources, 2));
    }
  }
}

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/softmax.hpp>
#endif
