// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/exact.hpp>
#include <weft/tensor/dtype.hpp>

/// Draws a class from a distribution given by logits, with the same bits on every kind of device.
namespace weft::device {

/// Returns exp(x) for x <= 0, within 2 ulp, with every operation rounded separately.
WEFT_HOST_DEVICE WEFT_INLINE exact<double> exact_exp(double number) {
  using real = exact<double>;
  if (!(number > -745)) return real(0);
  const real x(number), to_integer(0x1.8p52);
  const real k = (x * real(0x1.71547652b82fep+0) + to_integer) - to_integer;
  // ln 2 in two parts; the first has enough trailing zeros to make the product exact.
  const real r = (x - k * real(0x1.62e42fee00000p-1)) - k * real(0x1.a39ef35793c76p-33);
  constexpr double inverse_factorials[] = {
      1,          1,           1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
      1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
  real sum(inverse_factorials[13]);
  for (int i = 12; i >= 0; --i) sum = real(inverse_factorials[i]) + r * sum;
  // Scales by two factors, because 2^power may be subnormal.
  const int power = static_cast<int>(k.value()), first = power < -1000 ? -1000 : power;
  const auto scale = [](int p) { return real(__builtin_bit_cast(double, static_cast<std::uint64_t>(p + 1023) << 52)); };
  return sum * scale(first) * scale(power - first);
}

/// Returns the class of `classes` adjacent logits selected by a uniform number u in [0, 1), by inverting the
/// distribution function. A class with logit -inf is never drawn. Returns -1 if a logit is NaN or +inf, or all are
/// -inf.
template <class T>
WEFT_HOST_DEVICE WEFT_INLINE std::int32_t draw_class(const T* logits, std::size_t classes, double u) {
  constexpr double infinity = __builtin_huge_val();
  const auto at = [&](std::size_t i) { return static_cast<double>(static_cast<accumulator<T>>(logits[i])); };
  double largest = -infinity;
  for (std::size_t i = 0; i < classes; ++i) {
    const double x = at(i);
    if (!(x < infinity)) return -1;
    if (x > largest) largest = x;
  }
  if (largest == -infinity) return -1;
  const auto weight = [&](std::size_t i) { return exact_exp((exact<double>(at(i)) - exact<double>(largest)).value()); };
  exact<double> sum(0);
  for (std::size_t i = 0; i < classes; ++i) sum += weight(i);
  // Less than the sum, because u is less than 1, so a class with a positive weight reaches it.
  const exact<double> end = sum * exact<double>(u);
  sum = exact<double>(0);
  std::size_t i = 0;
  for (; i + 1 < classes; ++i) {
    sum += weight(i);
    if (sum > end) break;
  }
  return static_cast<std::int32_t>(i);
}

}  // namespace weft::device
