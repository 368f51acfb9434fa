// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/scan.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/lowering.hpp>
#include <weft/ops/reduce/axis_kernel.hpp>

/// Cumulative sums. Not part of <weft/weft.hpp>, since for GPUs it includes CUB, which adds seconds to the compile time
/// of nvcc.
namespace weft {

/// The options of tf.math.cumsum. An exclusive sum omits the element itself, so the first sum is 0. A reversed sum runs
/// from the end of the axis to its beginning.
using cumsum_options = device::scan_direction;

WEFT_COLD_BEGIN

/// Attributes of the operations that scan an axis.
struct scan_attributes {
  attribute<std::size_t> axis;
  attribute<bool> exclusive, reverse;
};

namespace detail {

template <class Op, class T, class Attributes>
kernel* prepare_scan(const prepare_context& p, const Attributes& a) {
  const auto scan = Op::template scan<device::running_sum<T>>(a);
  return new axis_kernel<T, device::scanned_rows<std::remove_const_t<decltype(scan)>>>(
      p, a.axis, {scan, {a.exclusive, a.reverse}});
}

}  // namespace detail

template <class T>
struct cumsum_op {
  static constexpr const char* name = "cumsum";
  static constexpr const char* onnx = "CumSum<exclusive=$1, reverse=$2>(a, $0)";
  using scanned_type = T;
  using attributes = scan_attributes;
  template <class Sum>
  static device::sum_scan<T, Sum> scan(const attributes&) {
    return {};
  }

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return detail::prepare_scan<cumsum_op, T>(p, a);
  }
  /// An element contributes to all later sums, so the gradient is the cumulative sum in the opposite direction.
  static void gradient(gradient_context& g, attributes a) {
    a.reverse = !a.reverse;
    g.set_gradient(0, record<cumsum_op>({g.upstream()}, g.upstream().info(), a));
  }
};

WEFT_COLD_END

namespace detail {

template <template <class> class Op, int Axis, class Expr>
auto scanned(const Expr& e, cumsum_options options) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  const auto x = materialize(e);
  return call_operation<Op<T>, T, D>(extents_of(x), {axis_number<D, Axis>, options.exclusive, options.reverse}, x);
}

}  // namespace detail

/// Returns cumulative sums along an axis, in the operand's extents (tf.math.cumsum): `cumsum<0>(x)`, `cumsum<-1>(x,
/// {.exclusive = true, .reverse = true})`. Sums half and bfloat16 in float, and float on a CPU in double, and rounds
/// once for each element; integers wrap around. A GPU sums in another order than a CPU, but always in the same one.
template <int Axis = 0, Expression Expr>
[[nodiscard]] auto cumsum(const Expr& e, cumsum_options options = {}) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  static_assert(correct<axis_out_of_range<D, Axis>>, "cumsum: the axis is out of range");
  static_assert(correct<elements_not_numeric<T>>,
                "cumsum: needs numeric elements: cast<float>(x) or cast<std::int32_t>(x)");
  if constexpr (axis_out_of_range<D, Axis>::value || elements_not_numeric<T>::value)
    return detail::after_mistake<T, D>(e);
  else
    return detail::scanned<cumsum_op, Axis>(e, options);
}

WEFT_OTHER_CALLS(cumsum);  // the axis is a template argument, options are named: cumsum<1>(x, {.exclusive = true})

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/scan.hpp>
#endif
