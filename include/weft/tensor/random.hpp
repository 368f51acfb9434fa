// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/config.hpp>
#include <weft/tensor/dtype.hpp>

namespace weft {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): four words that depend only
/// on a key and a counter. With the seed and operation as the key and the element's index as the counter, it returns
/// the same bits for any number of threads, shards and devices.
struct philox {
  std::uint32_t word[4];

  WEFT_HOST_DEVICE constexpr philox(std::uint64_t key, std::uint64_t counter_high, std::uint64_t counter_low)
      : word{static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
             static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)} {
    auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t a = std::uint64_t{0xD2511F53u} * word[0], b = std::uint64_t{0xCD9E8D57u} * word[2];
      const std::uint32_t next[4] = {static_cast<std::uint32_t>(b >> 32) ^ word[1] ^ k0, static_cast<std::uint32_t>(b),
                                     static_cast<std::uint32_t>(a >> 32) ^ word[3] ^ k1, static_cast<std::uint32_t>(a)};
      for (int i = 0; i < 4; ++i) word[i] = next[i];
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
  }
};

/// Random numbers of one stream by index: uniform in (0, 1) and normal.
class random_stream {
 public:
  constexpr random_stream(std::uint64_t seed, std::uint64_t operation) : seed_(seed), operation_(operation) {}

  /// Uniform in the open interval (0, 1) with 53 bits.
  double uniform(std::uint64_t element) const {
    const philox r(seed_, operation_, element);
    const std::uint64_t bits = (static_cast<std::uint64_t>(r.word[0]) << 32 | r.word[1]) >> 11;
    const double u = (static_cast<double>(bits) + 0.5) * 0x1p-53;
    return u < 1 ? u : 1 - 0x1p-53;  // the largest value would round to 1
  }

  /// Uniform in [low, high) for a floating-point element type. Values that rounding would take to `high` are moved
  /// below it.
  double uniform(std::uint64_t element, double low, double high, dtype type) const {
    double x = low + (high - low) * uniform(element);
    for (double step = (high - low) * 0x1p-54; x > low && stored(x, type) >= high; step *= 2)
      x = x - step > low ? x - step : low;
    return x;
  }

  double normal(std::uint64_t element) const { return inverse_normal(uniform(element)); }

  /// Normal, truncated at two standard deviations; uses inversion, so that an element takes one random number.
  double truncated_normal(std::uint64_t element) const {
    constexpr double below = 0.02275013194817921;  // Phi(-2)
    return inverse_normal(below + uniform(element) * (1 - 2 * below));
  }

  /// Quantile function of the normal distribution: Wichura, algorithm AS 241 (PPND16), Applied Statistics 37, 1988.
  WEFT_HOST_DEVICE static double inverse_normal(double p) {
    constexpr double a[] = {3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3,
                            1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
                            3.3430575583588128105e+4, 2.5090809287301226727e+3};
    constexpr double b[] = {1.0,
                            4.2313330701600911252e+1,
                            6.8718700749205790830e+2,
                            5.3941960214247511077e+3,
                            2.1213794301586595867e+4,
                            3.9307895800092710610e+4,
                            2.8729085735721942674e+4,
                            5.2264952788528545610e+3};
    constexpr double c[] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                            3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                            2.27238449892691845833e-2, 7.74545014278341407640e-4};
    constexpr double d[] = {1.0,
                            2.05319162663775882187e0,
                            1.67638483018380384940e0,
                            6.89767334985100004550e-1,
                            1.48103976427480074590e-1,
                            1.51986665636164571966e-2,
                            5.47593808499534494600e-4,
                            1.05075007164441684324e-9};
    constexpr double e[] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                            2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                            2.71155556874348757815e-5, 2.01033439929228813265e-7};
    constexpr double f[] = {1.0,
                            5.99832206555887937690e-1,
                            1.36929880922735805310e-1,
                            1.48753612908506148525e-2,
                            7.86869131145613259100e-4,
                            1.84631831751005468180e-5,
                            1.42151175831644588870e-7,
                            2.04426310338993978564e-15};
    const double q = p - 0.5;
    if (q <= 0.425 && q >= -0.425) {
      const double r = 0.180625 - q * q;
      return q * polynomial(a, r) / polynomial(b, r);
    }
#if defined(__CUDA_ARCH__)
    double r = ::sqrt(-::log(q < 0 ? p : 1 - p));
#else
    double r = __builtin_sqrt(-__builtin_log(q < 0 ? p : 1 - p));
#endif
    double x;
    if (r <= 5) {
      r -= 1.6;
      x = polynomial(c, r) / polynomial(d, r);
    } else {
      r -= 5;
      x = polynomial(e, r) / polynomial(f, r);
    }
    return q < 0 ? -x : x;
  }

 private:
  template <std::size_t Count>
  WEFT_HOST_DEVICE static double polynomial(const double (&c)[Count], double x) {
    double sum = c[Count - 1];
    for (std::size_t i = Count - 1; i-- > 0;) sum = sum * x + c[i];
    return sum;
  }

  static double stored(double x, dtype type) {
    const auto narrow = static_cast<float>(x);
    switch (type) {
      case dtype::float32:
        return double{narrow};
      case dtype::float16:
        return double{half(narrow)};
      case dtype::bfloat16:
        return double{bfloat16(narrow)};
      default:
        return x;
    }
  }

  std::uint64_t seed_, operation_;
};

}  // namespace weft
