// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tuple>
#include <type_traits>

#include <weft/device/argmax.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/cpu/bounded.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/lowering.hpp>
#include <weft/ops/reduce/argmax.hpp>
#include <weft/ops/reduce/reduce.hpp>

/// Values whose first extent is known only after a kernel has run. The operations that create such values include this
/// header.
namespace weft {

/// Input: the number of real rows. Output: for each row along the first axis, true if it is real.
struct valid_rows_op {
  static constexpr const char* name = "valid_rows";
  static constexpr const char* onnx = "Reshape(Less(Range(0L, ReduceProd<keepdims=0>(shape), 1L), a), shape)";
  static kernel* prepare(const prepare_context&);
};

WEFT_COLD_BEGIN

inline kernel* valid_rows_op::prepare(const prepare_context& p) { return new detail::valid_rows_kernel(p); }

namespace detail {

struct pick_rows {
  static constexpr std::size_t axis(std::size_t i) { return i == 0 ? 0 : max_rank; }
};
/// The first extent of D, and 1 along all other axes.
template <class D>
using rows_alone = select<D, D::rank, pick_rows>;

/// The extent of the bound as a one-dimensional type.
template <class Values>
using rows_of_bound = select<dims_t<Values>, 1, pick_kept<0>>;

template <class D, class Dev>
auto valid_rows(const node<std::int64_t, dims<>, Dev>& count) {
  return call_operation<valid_rows_op, bool, rows_alone<D>>(rows_alone<D>::spec, {}, count);
}

/// D with the extents of `First` in place of its first `Gone` extents. Extents are selected by position and from types:
/// for an extent that is a function argument, nvcc creates a name that the host compiler does not know.
template <std::size_t Gone, std::size_t Rank>
struct pick_first_of_other {
  static constexpr std::size_t axis(std::size_t i) { return i == 0 ? Rank : Gone + i - 1; }
};
template <class D, std::size_t Gone, class First>
using with_rows = select<joined_dims<D, First>, D::rank - Gone + 1, pick_first_of_other<Gone, D::rank>>;

}  // namespace detail

/// A value with a run-time number of real rows. The first axis of `values` has the largest possible number of rows, the
/// bound, for which the step plans memory. `count` is the number of real rows, known when the step has run. The other
/// rows follow the real ones and consist of zeros, so they add nothing to a sum, and as indices they are 0.
///
/// A bounded value is not an expression. Values computed from `values` have a row for every row of the bound; to use
/// only the real rows, apply `sum`, `mean`, `prod`, `max`, `min` or `argmax` to the bounded value. `with_count` makes a
/// value that was computed row by row from `values` a bounded value again:
///
///     auto kept = boolean_mask(images, mask);
///     auto loss = softmax_cross_entropy(matmul(kept.values, w), boolean_mask(labels, mask).values);
///     auto cost = mean(with_count(loss, kept));
///
/// The gradient of the other rows is then 0, provided that every factor by which it is multiplied is finite. The
/// gradient of `log` at 0 is not finite.
///
/// A fetched bounded value is a tensor of the real rows, of extents `Dims`, in memory of the size of the bound.
template <class Values, class Dims>
struct bounded {
  using value_type = value_t<Values>;
  using dims_type = dims_t<Values>;
  using device_type = device_t<Values>;
  using real_dims = Dims;

  Values values;
  node<std::int64_t, dims<>, device_type> count;

  // ---- fetching ----

  using fetched_type = tensor<value_type, Dims>;

  auto parts() const { return std::tuple{let(values), count}; }
  static fetched_type from_parts(const tensor<value_type, dims_type>& all, std::int64_t count) {
    shape extents = all.extents();
    if (count < 0 || count > extents[0])
      throw error(error_code::out_of_range, "bounded",
                  {"the count must be 0 to ", extents[0], ", the number of rows; it is ", count});
    extents[0] = count;
    return fetched_type(extents, all, first_elements{});
  }
};

/// True if X is a `bounded<...>`.
template <class X>
inline constexpr bool is_bounded = false;
template <class Values, class Dims>
inline constexpr bool is_bounded<bounded<Values, Dims>> = true;

/// The values must have one row for each row of the bound.
template <class Given, class Bound>
struct rows_are_not_those_of_the_bound : mistake<true> {};
template <auto... Given, auto... Bound>
struct rows_are_not_those_of_the_bound<dims<Given...>, dims<Bound...>>
    : mistake<sizeof...(Given) == 0 || sizeof...(Bound) == 0 || dims<Given...>::spec[0] != dims<Bound...>::spec[0]> {};

/// A count must be a scalar of the graph, of type std::int64_t.
template <class Count>
struct count_is_not_a_scalar : mistake<true> {};
template <Expression Count>
struct count_is_not_a_scalar<Count>
    : mistake<!Count::symbolic || dims_t<Count>::rank != 0 || !std::is_same_v<value_t<Count>, std::int64_t>> {};

namespace detail {

template <class Real, class Expr, class Count>
auto bounded_by(const Expr& values, const Count& count) {
  using T = value_t<Expr>;
  using computed = std::conditional_t<is_storage_type<T>, float, T>;
  const auto valid = valid_rows<dims_t<Expr>>(count);
  auto real = cast<T>(weft::select(valid, cast<computed>(values), literal<computed>{}));
  return bounded<decltype(real), Real>{real, count};
}

/// Returns the values, with `with` in all rows that are not real.
template <class Values, class Dims>
auto padded_with(const bounded<Values, Dims>& b, value_t<Values> with) {
  return weft::select(valid_rows<dims_t<Values>>(b.count), b.values, with);
}
template <class T>
constexpr T above_all() {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(__builtin_huge_val());
  else
    return static_cast<T>(-1 - device::below_all<T>());
}

/// Returns the mean over the axes of a mask.
template <std::uint32_t Mask, int... Axes, class Expr>
auto mean_over(const Expr& e) {
  if constexpr (Mask != 0)
    return mean_over<(Mask & (Mask - 1)), Axes..., __builtin_ctz(Mask)>(e);
  else if constexpr (sizeof...(Axes) > 0)
    return mean<Axes...>(e);
  else
    return e;
}

/// A value that was reduced within its rows is bounded again. The rows after the count may no longer be 0, since the
/// product of no elements is 1.
template <class Dims, std::uint32_t Axes, class Reduced, class Count>
auto reduced_rows(const Reduced& reduced, const Count& count) {
  return bounded_by<without_axes<Dims, Axes>>(reduced, count);
}

template <device::reduce_op How, auto... Axes, class Values, class Dims>
auto reduce_bounded(const bounded<Values, Dims>& b) {
  using T = value_t<Values>;
  if constexpr (!correct<reduction_mistake<Values, Axes...>>) {
    return after_mistake<T, dims_t<Values>>(b.values);
  } else {
    constexpr std::uint32_t axes = reduced_axes<dims_t<Values>, static_cast<int>(Axes)...>();
    if constexpr ((axes & 1) == 0) {
      return reduced_rows<Dims, axes>(reduce<How, false, Axes...>(b.values), b.count);
    } else if constexpr (How == device::reduce_op::sum) {
      return reduce<How, false, Axes...>(b.values);
    } else {
      constexpr T neutral = How == device::reduce_op::product   ? T(1)
                            : How == device::reduce_op::minimum ? above_all<T>()
                            : std::is_floating_point_v<T>       ? static_cast<T>(-above_all<T>())
                                                                : device::below_all<T>();
      return reduce<How, false, Axes...>(padded_with(b, neutral));
    }
  }
}

}  // namespace detail

/// Returns true for each real row of the bound: bool, `[bound]`.
template <class Values, class Dims>
[[nodiscard]] auto valid(const bounded<Values, Dims>& b) {
  return detail::valid_rows<detail::rows_of_bound<Values>>(b.count);
}

/// Gives values that were computed from the rows of a bounded value the same count, and sets all later rows to 0.
template <Expression Expr, class Values, class Dims>
[[nodiscard]] auto with_count(const Expr& values, const bounded<Values, Dims>& b) {
  using D = dims_t<Expr>;
  using mistake = rows_are_not_those_of_the_bound<D, dims_t<Values>>;
  static_assert(correct<mistake>, "with_count: the values must have one row for each row of the bounded value");
  if constexpr (correct<mistake>)
    return detail::bounded_by<detail::with_rows<D, 1, Dims>>(values, b.count);
  else
    return b;
}
/// Declares the first `count` rows of values as real and sets all later rows to 0; `count` is a scalar of type
/// std::int64_t. `cond` and `while_loop` return the `values` and the `count` of a bounded value, from which this
/// function restores it. A fetch throws out_of_range if the count is negative or exceeds the bound.
template <auto Count = dyn<"count">, Expression Expr, class Number>
  requires(!is_bounded<Number>)
[[nodiscard]] auto with_count(const Expr& values, const Number& count) {
  using D = dims_t<Expr>;
  using mistake = first_mistake<count_is_not_a_scalar<Number>, axis_out_of_range<D, 0>>;
  static_assert(correct<mistake>,
                "with_count: the count must be a std::int64_t scalar in the graph, and the values must have rows");
  if constexpr (correct<mistake>)
    return detail::bounded_by<detail::with_rows<D, 1, dims<Count>>>(values, let(count));
  else
    return detail::after_mistake<value_t<Expr>, D>(values);
}

// ---- reductions over the real rows ----

/// Returns the sum of the real rows over the given axes, or over all axes. A reduction within rows is a bounded value
/// again.
template <auto... Axes, class Values, class Dims>
[[nodiscard]] auto sum(const bounded<Values, Dims>& b) {
  static_assert(correct<reduction_mistake<Values, Axes...>>,
                "sum: the axes must be axes of a row, and the elements numeric: cast<float>(x)");
  return detail::reduce_bounded<device::reduce_op::sum, Axes...>(b);
}
/// Returns the product of the real rows; see `sum`.
template <auto... Axes, class Values, class Dims>
[[nodiscard]] auto prod(const bounded<Values, Dims>& b) {
  static_assert(correct<reduction_mistake<Values, Axes...>>,
                "prod: the axes must be axes of a row, and the elements numeric: cast<float>(x)");
  return detail::reduce_bounded<device::reduce_op::product, Axes...>(b);
}
/// Returns the largest element of the real rows, or the lowest value of the type if there are none; see `sum`.
template <auto... Axes, class Values, class Dims>
[[nodiscard]] auto max(const bounded<Values, Dims>& b) {
  static_assert(correct<reduction_mistake<Values, Axes...>>,
                "max: the axes must be axes of a row, and the elements numeric: cast<float>(x)");
  return detail::reduce_bounded<device::reduce_op::maximum, Axes...>(b);
}
/// Returns the smallest element of the real rows, or the highest value of the type if there are none; see `sum`.
template <auto... Axes, class Values, class Dims>
[[nodiscard]] auto min(const bounded<Values, Dims>& b) {
  static_assert(correct<reduction_mistake<Values, Axes...>>,
                "min: the axes must be axes of a row, and the elements numeric: cast<float>(x)");
  return detail::reduce_bounded<device::reduce_op::minimum, Axes...>(b);
}
/// Returns the mean of the real rows over the given axes, or over all axes. The mean of no rows is NaN, as in
/// TensorFlow; to avoid that, write `sum(b) / cast<float>(maximum(b.count, 1))`.
template <auto... Axes, class Values, class Dims>
[[nodiscard]] auto mean(const bounded<Values, Dims>& b) {
  using T = value_t<Values>;
  using D = dims_t<Values>;
  static_assert(correct<mean_mistake<Values, Axes...>>,
                "mean: needs axes of the rows and elements of float or double: cast<float>(x)");
  if constexpr (!correct<mean_mistake<Values, Axes...>>) {
    return detail::after_mistake<T, D>(b.values);
  } else {
    constexpr std::uint32_t axes = detail::reduced_axes<D, static_cast<int>(Axes)...>();
    if constexpr ((axes & 1) == 0)
      return detail::reduced_rows<Dims, axes>(mean<Axes...>(b.values), b.count);
    else
      return let(sum<0>(detail::mean_over<(axes & ~std::uint32_t{1})>(b.values)) / cast<T>(b.count));
  }
}
/// Returns the index of the largest real row along the first axis, `argmax<0>(b)`, or 0 if there is none; along another
/// axis, the index within each row.
template <int Axis, class Values, class Dims>
[[nodiscard]] auto argmax(const bounded<Values, Dims>& b) {
  using T = value_t<Values>;
  using D = dims_t<Values>;
  static_assert(correct<axis_out_of_range<D, Axis>>, "argmax: the axis is out of range");
  if constexpr (!correct<axis_out_of_range<D, Axis>>)
    return detail::after_mistake<std::int32_t, D>(b.values);
  else if constexpr (axis_number<D, Axis> == 0)
    return argmax<Axis>(detail::padded_with(b, device::below_all<T>()));
  else
    return detail::reduced_rows<Dims, detail::axis_mask<Axis>(D::rank)>(argmax<Axis>(b.values), b.count);
}

WEFT_COLD_END
}  // namespace weft

#include <weft/ops/bounded_misuse.hpp>

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/bounded.hpp>
#endif
