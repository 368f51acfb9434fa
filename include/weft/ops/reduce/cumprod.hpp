// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/box_copies.hpp>
#include <weft/ops/reduce/reduce.hpp>
#include <weft/ops/reduce/scan.hpp>

/// Cumulative products. Not part of <weft/weft.hpp>.
namespace weft {

WEFT_COLD_BEGIN

/// Moves elements along an axis, and fills up with zeros.
struct shift_op {
  static constexpr const char* name = "shift";
  struct attributes {
    attribute<std::size_t> axis;
    attribute<std::int64_t> by;
  };

  static strided_copies copies(const prepare_context& p, const attributes& a) {
    shape part = p.inputs[0].extents;
    const std::int64_t by = a.by, distance = by < 0 ? -by : by, n = part[a.axis];
    part[a.axis] = n < distance ? 0 : n - distance;
    box_copies all(p);
    all.fill_rest(0);
    if (n >= distance) all.copy(part, 0, {a.axis, by < 0 ? -by : 0}, 0, {a.axis, by < 0 ? 0 : by});
    return all;
  }
  static void gradient(gradient_context& g, const attributes& a) {
    g.set_gradient(0, record<shift_op>({g.upstream()}, g.upstream().info(), {a.axis, -a.by}));
  }
};

/// Inputs: a and b of equal extents. y[i] = a[i] + b[i] y[i - 1]; if `shifted`, y[i] = a[i] + b[i - 1] y[i - 1].
template <class T>
struct linear_recurrence_op {
  static constexpr const char* name = "linear_recurrence";
  using scanned_type = T;
  struct attributes {
    attribute<std::size_t> axis;
    attribute<bool> reverse, shifted, exclusive = false;
  };
  template <class Sum>
  static device::linear_scan<T, Sum> scan(const attributes& a) {
    return {nullptr, nullptr, nullptr, a.shifted};
  }

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return detail::prepare_scan<linear_recurrence_op, T>(p, a);
  }
  /// The gradient of a is the same recurrence in the opposite direction, and that of b is this times the values before.
  static void gradient(gradient_context& g, const attributes& a) {
    const symbol up =
        record<linear_recurrence_op>({g.upstream(), g.input(1)}, g.upstream().info(), {a.axis, !a.reverse, !a.shifted});
    if (g.needs_gradient(0)) g.set_gradient(0, up);
    if (!g.needs_gradient(1)) return;
    const auto moved = [&](symbol x, bool forward) {
      return record<shift_op>({x}, x.info(), {a.axis, forward != a.reverse ? 1 : -1});
    };
    g.set_gradient(1, a.shifted ? moved(up, false) * g.output() : up * moved(g.output(), true));
  }
};

template <class T>
struct cumprod_op {
  static constexpr const char* name = "cumprod";
  static constexpr const char* onnx = "scan_rows(1; Mul(a, b))";
  using scanned_type = T;
  using attributes = scan_attributes;
  template <class Sum>
  static device::product_scan<T, Sum> scan(const attributes&) {
    return {};
  }

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return detail::prepare_scan<cumprod_op, T>(p, a);
  }
  static void compile_gradients() {
    if constexpr (std::is_floating_point_v<T>) {
      gpu::compile_kernels<linear_recurrence_op, T>();
      gpu::compile_kernels<gpu::moves, T>();
    }
  }
  /// Sums the later gradients, each times the factors between, and multiplies by the factors before.
  static void gradient(gradient_context& g, attributes a) {
    if constexpr (std::is_floating_point_v<T>) {
      const symbol x = g.input(0);
      symbol up = g.upstream(), before = g.output();
      if (a.exclusive) {
        up = record<shift_op>({up}, up.info(), {a.axis, a.reverse ? 1 : -1});
      } else {
        a.exclusive = true;
        before = record<cumprod_op>({x}, x.info(), a);
      }
      g.set_gradient(0, before * record<linear_recurrence_op<T>>({up, x}, x.info(), {a.axis, !a.reverse, true}));
    }
  }
};

WEFT_COLD_END

/// Returns cumulative products along an axis, in the operand's extents (tf.math.cumprod, torch.cumprod):
/// `cumprod<0>(x)`, `cumprod<-1>(x, {.exclusive = true, .reverse = true})`. The first exclusive product is 1.
/// Multiplies float on a CPU in double; integers wrap around. Gradients of any order are exact for any number of zeros,
/// since they do not divide. Not for bool, half or bfloat16.
template <int Axis = 0, Expression Expr>
[[nodiscard]] auto cumprod(const Expr& e, cumsum_options options = {}) {
  using mistake = first_mistake<axis_out_of_range<dims_t<Expr>, Axis>, reduction_undefined_for<value_t<Expr>>>;
  static_assert(correct<mistake>, "cumprod: needs a valid axis and numeric elements: cast<float>(x)");
  if constexpr (correct<mistake>)
    return detail::scanned<cumprod_op, Axis>(e, options);
  else
    return detail::same_after_mistake(e);
}

WEFT_OTHER_CALLS(cumprod);  // the axis is a template argument, options are named: cumprod<1>(x, {.reverse = true})

}  // namespace weft
