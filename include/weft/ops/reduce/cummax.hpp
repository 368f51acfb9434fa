// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/index/gather.hpp>
#include <weft/ops/index/sort.hpp>
#include <weft/ops/reduce/scan.hpp>

/// Cumulative extremes. Not part of <weft/weft.hpp>.
namespace weft {

WEFT_COLD_BEGIN

/// Outputs: the values, and their indices.
template <class T, bool Largest>
struct cumulative_extreme_op {
  static constexpr const char* name = Largest ? "cummax" : "cummin";
  // a and b: the extreme so far and its index; c and d: the next element and its index.
  static constexpr const char* onnx =
      Largest ? "scan_rows(lowest; k = Or(GreaterOrEqual(c, a), Not(Equal(c, c))); Where(k, c, a); Where(k, d, b))"
              : "scan_rows(highest; k = Or(LessOrEqual(c, a), Not(Equal(c, c))); Where(k, c, a); Where(k, d, b))";
  using scanned_type = T;
  struct attributes {
    attribute<std::size_t> axis;
    attribute<bool> exclusive = false, reverse = false;
  };
  using compared = std::conditional_t<is_storage_type<T>, float, T>;
  template <class>
  static device::extreme_scan<T, compared, Largest> scan(const attributes&) {
    return {};
  }

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    detail::check_indices(p, a.axis);
    return detail::prepare_scan<cumulative_extreme_op, T>(p, a);
  }
  static void compile_gradients() {
    if constexpr (is_differentiable<T>) gpu::compile_kernels<batch_gather_op, T>();
  }
  static void gradient(gradient_context& g, const attributes& a) {
    if constexpr (is_differentiable<T>)
      if (g.has_upstream(0))
        g.set_gradient(0, record<batch_scatter_add_op<T>>({g.upstream(0), g.output(1)}, g.input(0).info(),
                                                          {a.axis, a.axis, true}));
  }
};

template <class T>
struct cummax_op : cumulative_extreme_op<T, true> {};
template <class T>
struct cummin_op : cumulative_extreme_op<T, false> {};

WEFT_COLD_END

namespace detail {

template <template <class> class Op, int Axis, class Expr>
auto extremes_along(const Expr& e) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  if constexpr (sort_mistake<Expr, Axis>::value) {
    return nothing_sorted(e);
  } else {
    const auto x = materialize(e);
    auto [values, indices] = call_operation<Op<T>>(
        std::tuple{typed_result<T, D>{extents_of(x)}, typed_result<std::int32_t, D>{extents_of(x)}},
        {axis_number<D, Axis>}, x);
    return ordered<decltype(values), decltype(indices)>{values, indices};
  }
}

}  // namespace detail

/// Returns the largest elements up to each position of an axis, and their indices along it, std::int32_t
/// (torch.cummax): `auto [values, indices] = cummax<0>(x)`. Of equal elements, the last one counts. From the first NaN
/// on, values are NaN. The gradient of a value goes to its source. For all types but bool. Throws out_of_range if an
/// axis has more elements than std::int32_t has numbers.
template <int Axis = 0, Expression Expr>
[[nodiscard]] auto cummax(const Expr& e) {
  static_assert(correct<sort_mistake<Expr, Axis>>, "cummax: needs a valid axis and numeric elements");
  return detail::extremes_along<cummax_op, Axis>(e);
}

/// Returns the smallest elements up to each position of an axis, and their indices (torch.cummin), as `cummax` does.
template <int Axis = 0, Expression Expr>
[[nodiscard]] auto cummin(const Expr& e) {
  static_assert(correct<sort_mistake<Expr, Axis>>, "cummin: needs a valid axis and numeric elements");
  return detail::extremes_along<cummin_op, Axis>(e);
}

WEFT_OTHER_CALLS(cummax);  // the axis is a template argument: auto [values, indices] = cummax<1>(x)
WEFT_OTHER_CALLS(cummin);  // the axis is a template argument: auto [values, indices] = cummin<1>(x)

}  // namespace weft
