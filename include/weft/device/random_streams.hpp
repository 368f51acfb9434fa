// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/math.hpp>
#include <weft/device/random_words.hpp>

/// Random numbers by rejection, which take a varying number of words: each element has a stream of its own.
namespace weft::device {

/// The random words of one element. They depend only on the source and the element's index.
struct element_stream {
  random_source from;
  std::uint64_t element, block = 0;

  WEFT_HOST_DEVICE philox next() { return philox(fold_in(2 * block++ + 1, from.key), from.position, element); }
};

/// A number in (0, 1) of two words.
WEFT_HOST_DEVICE inline double open_uniform(const std::uint32_t* word) { return normal_element<double>::uniform(word); }

/// A number of the gamma distribution with a shape and scale 1 (Marsaglia and Tsang, "A simple method for generating
/// gamma variables", ACM TOMS 26, 2000). NaN unless the shape is positive and finite.
struct gamma_draw {
  static constexpr const char* name = "random_gamma";

  WEFT_HOST_DEVICE double operator()(element_stream s, double shape) const {
    if (!(shape > 0) || shape > 1e300) return static_cast<double>(__builtin_nanf(""));
    double factor = 1;
    if (shape < 1) {
      factor = math::exp(math::log(open_uniform(s.next().word)) / shape);
      shape += 1;
    }
    const double d = shape - 1.0 / 3, c = 1 / math::sqrt(9 * d);
    while (true) {
      const philox words = s.next();
      const double x = random_stream::inverse_normal(open_uniform(words.word)), root = 1 + c * x;
      if (root <= 0) continue;
      const double v = root * root * root;
      if (math::log(open_uniform(words.word + 2)) < 0.5 * x * x + d - d * v + d * math::log(v)) return d * v * factor;
    }
  }
};

/// A number of the Poisson distribution: by inversion for rates below 10, otherwise by transformed rejection (Hörmann,
/// "The transformed rejection method for generating Poisson random variables", 1993). NaN unless the rate is at least 0
/// and finite.
struct poisson_draw {
  static constexpr const char* name = "random_poisson";

  WEFT_HOST_DEVICE double operator()(element_stream s, double rate) const {
    if (!(rate >= 0) || rate > 1e300) return static_cast<double>(__builtin_nanf(""));
    if (rate < 10) {
      const double u = open_uniform(s.next().word);
      double k = 0, p = math::exp(-rate), sum = p;
      for (; u > sum && k < 200; sum += p) k += 1, p *= rate / k;
      return k;
    }
    const double b = 0.931 + 2.53 * math::sqrt(rate), a = -0.059 + 0.02483 * b, log_rate = math::log(rate);
    const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), inner = 0.9277 - 3.6224 / (b - 2);
    while (true) {
      const philox words = s.next();
      const double u = open_uniform(words.word) - 0.5, v = open_uniform(words.word + 2);
      const double tail = 0.5 - (u < 0 ? -u : u), k = math::floor((2 * a / tail + b) * u + rate + 0.43);
      if (tail >= 0.07 && v <= inner) return k;
      if (k < 0 || (tail < 0.013 && v > tail)) continue;
      if (math::log(v * inverse_alpha / (a / (tail * tail) + b)) <= k * log_rate - rate - log_factorial(k)) return k;
    }
  }

 private:
  WEFT_HOST_DEVICE static double log_factorial(double k) {
    double small = 1;
    for (; k < 10; k += 1) small *= k + 1;  // k! = 10! / (10 * ... * (k + 1))
    const double r = 1 / (k * k);
    return (k + 0.5) * math::log(k) - k + 0.91893853320467274178 +
           (1.0 / 12 - r * (1.0 / 360 - r * (1.0 / 1260 - r / 1680))) / k - math::log(small);
  }
};

}  // namespace weft::device
