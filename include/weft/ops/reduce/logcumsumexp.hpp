// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <limits>

#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/reduce/scan.hpp>

/// Cumulative sums of exponentials. Not part of <weft/weft.hpp>.
namespace weft {

WEFT_COLD_BEGIN

template <class T>
struct logcumsumexp_op {
  static constexpr const char* name = "logcumsumexp";
  static constexpr const char* onnx =
      "scan_rows(lowest; m = Max(a, b); Where(IsInf(m), m, Add(m, Log(Add(1, Exp(Neg(Abs(Sub(a, b)))))))))";
  using scanned_type = T;
  using attributes = scan_attributes;
  static constexpr primitive_set gradient_uses{primitive::log, primitive::abs, primitive::less, primitive::select};
  template <class Sum>
  static device::log_sum_scan<T, Sum> scan(const attributes&) {
    return {};
  }

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return detail::prepare_scan<logcumsumexp_op, T>(p, a);
  }
  /// Sums the weights g exp(x - y) of all later results in logarithms, positive and negative ones for themselves: no
  /// exponential overflows.
  static void gradient(gradient_context& g, attributes a) {
    const symbol x = g.input(0), y = g.output(), up = g.upstream();
    a.reverse = !a.reverse;
    const auto sum_of = [&](symbol chosen) {
      const symbol logarithm = math::log(math::select(chosen, math::abs(up), 1));
      const symbol weights = math::select(chosen, logarithm, static_cast<double>(std::numeric_limits<T>::lowest()));
      return math::exp(x + record<logcumsumexp_op>({weights - y}, x.info(), a));
    };
    g.set_gradient(0, sum_of(up > 0) - sum_of(up < 0));
  }
};

WEFT_COLD_END

/// Returns log(cumsum(exp(x))) without overflow, float or double (tf.math.cumulative_logsumexp, torch.logcumsumexp):
/// `logcumsumexp<0>(x)`, `logcumsumexp<-1>(x, {.exclusive = true, .reverse = true})`. The first exclusive result is
/// -inf. If all elements so far are -inf, the result is -inf and the gradient NaN.
template <int Axis = 0, Expression Expr>
[[nodiscard]] auto logcumsumexp(const Expr& e, cumsum_options options = {}) {
  using mistake = first_mistake<axis_out_of_range<dims_t<Expr>, Axis>, not_floating<value_t<Expr>>>;
  static_assert(correct<mistake>, "logcumsumexp: needs a valid axis and elements of float or double: cast<float>(x)");
  if constexpr (correct<mistake>)
    return detail::scanned<logcumsumexp_op, Axis>(e, options);
  else
    return detail::same_after_mistake(e);
}

WEFT_OTHER_CALLS(logcumsumexp);  // the axis is a template argument: logcumsumexp<1>(x, {.reverse = true})

}  // namespace weft
