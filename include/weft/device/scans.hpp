// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/cpu/math.hpp>
#include <weft/device/scan.hpp>

/// Scans of rows. A `state` passes from element to element; `combine` joins two states and is associative. `load`
/// returns the state of element `i`, number `k` of its row; `before` is the preceding element, or `i` for the first
/// one. `bind` passes the pointers of the operands and then those of the results, each with its number.
namespace weft::device {

/// The direction of a scan. An exclusive scan omits the element itself; a reversed one starts at the end.
struct scan_direction {
  bool exclusive = false, reverse = false;
};

/// Reads an operand in the type of the states, and writes a result of the same extents.
template <class T, class Sum>
struct unary_scan {
  using state = Sum;
  static constexpr int operands = 1;
  static constexpr bool adds = false;

  const T* x;
  T* y;

  template <class F>
  void bind(const F& f) {
    f(0, x), f(1, y);
  }
  template <class Index>
  WEFT_HOST_DEVICE WEFT_INLINE Sum load(Index i, Index /* before */, Index /* k */) const {
    return static_cast<Sum>(x[i]);
  }
  template <class Index>
  WEFT_HOST_DEVICE WEFT_INLINE void store(Index i, Sum s) const {
    y[i] = static_cast<T>(s);
  }
};

template <class T, class Sum>
struct sum_scan : unary_scan<T, Sum> {
  static constexpr const char* name = "cumsum";
  static constexpr bool adds = true;
  WEFT_HOST_DEVICE WEFT_INLINE static Sum identity() { return Sum{}; }
  WEFT_HOST_DEVICE WEFT_INLINE static Sum combine(Sum a, Sum b) { return static_cast<Sum>(a + b); }
};

template <class T, class Sum>
struct product_scan : unary_scan<T, Sum> {
  static constexpr const char* name = "cumprod";
  WEFT_HOST_DEVICE WEFT_INLINE static Sum identity() { return static_cast<Sum>(1); }
  WEFT_HOST_DEVICE WEFT_INLINE static Sum combine(Sum a, Sum b) { return static_cast<Sum>(a * b); }
};

/// log(exp(a) + exp(b)), for float and double.
template <class T, class Sum>
struct log_sum_scan : unary_scan<T, Sum> {
  static constexpr const char* name = "logcumsumexp";
  static constexpr Sum infinity = std::numeric_limits<Sum>::infinity(), largest = std::numeric_limits<Sum>::max();
  WEFT_HOST_DEVICE WEFT_INLINE static Sum identity() { return -infinity; }
  WEFT_HOST_DEVICE WEFT_INLINE static Sum combine(Sum a, Sum b) {
    const Sum larger = math::maximum(a, b), smaller = math::minimum(a, b);
    const Sum more = math::log1p(math::exp(smaller - larger));
    return math::select(math::abs(larger) <= largest, larger + more, larger);
  }
};

/// Solves y[i] = a[i] + b[i] y[i - 1] along a row; if `shifted`, y[i] = a[i] + b[i - 1] y[i - 1]. The factor of several
/// elements, which a GPU needs, may overflow: it does not count if it multiplies 0.
template <class T, class Sum>
struct linear_scan {
  struct state {
    Sum added, factor;
  };
  static constexpr const char* name = "linear_recurrence";
  static constexpr int operands = 2;
  static constexpr bool adds = false;

  const T* a;
  const T* b;
  T* y;
  bool shifted;

  template <class F>
  void bind(const F& f) {
    f(0, a), f(1, b), f(2, y);
  }
  WEFT_HOST_DEVICE WEFT_INLINE static state identity() { return {Sum(0), Sum(1)}; }
  WEFT_HOST_DEVICE WEFT_INLINE static state combine(state first, state then) {
    return {then.added + math::multiply_no_nan(then.factor, first.added),
            math::multiply_no_nan(then.factor, first.factor)};
  }
  template <class Index>
  WEFT_HOST_DEVICE WEFT_INLINE state load(Index i, Index before, Index /* k */) const {
    return {static_cast<Sum>(a[i]), i == before ? Sum(0) : static_cast<Sum>(b[shifted ? before : i])};
  }
  template <class Index>
  WEFT_HOST_DEVICE WEFT_INLINE void store(Index i, state s) const {
    y[i] = static_cast<T>(s.added);
  }
};

/// The largest element and its index, or the smallest one; the last of equal ones, and the last NaN if there is one.
template <class T, class Sum, bool Largest>
struct extreme_scan {
  struct state {
    Sum value;
    std::int32_t index;  // -1 before the first element
  };
  static constexpr const char* name = Largest ? "cummax" : "cummin";
  static constexpr int operands = 1;
  static constexpr bool adds = false;

  const T* x;
  T* values;
  std::int32_t* indices;

  template <class F>
  void bind(const F& f) {
    f(0, x), f(1, values), f(2, indices);
  }
  WEFT_HOST_DEVICE WEFT_INLINE static state identity() { return {Sum(0), -1}; }
  WEFT_HOST_DEVICE WEFT_INLINE static state combine(state a, state b) {
    if (b.index < 0) return a;
    const bool over = (Largest ? b.value >= a.value : b.value <= a.value) || b.value != b.value;
    return a.index < 0 || over ? b : a;
  }
  template <class Index>
  WEFT_HOST_DEVICE WEFT_INLINE state load(Index i, Index /* before */, Index k) const {
    return {static_cast<Sum>(x[i]), static_cast<std::int32_t>(k)};
  }
  template <class Index>
  WEFT_HOST_DEVICE WEFT_INLINE void store(Index i, state s) const {
    values[i] = static_cast<T>(s.value);
    indices[i] = s.index;
  }
};

}  // namespace weft::device
