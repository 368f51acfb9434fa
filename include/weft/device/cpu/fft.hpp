// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cmath>
#include <cstddef>
#include <utility>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/tensor/sequence.hpp>

/// Discrete Fourier transforms of one row, with real and imaginary parts in arrays of their own.
namespace weft::device {
namespace detail {

template <class T>
struct complex_number {
  T r, i;
  friend WEFT_INLINE complex_number operator+(complex_number a, complex_number b) { return {a.r + b.r, a.i + b.i}; }
  friend WEFT_INLINE complex_number operator-(complex_number a, complex_number b) { return {a.r - b.r, a.i - b.i}; }
  friend WEFT_INLINE complex_number operator*(complex_number a, complex_number b) {
    return {a.r * b.r - a.i * b.i, a.r * b.i + a.i * b.r};
  }
  friend WEFT_INLINE complex_number operator*(T a, complex_number b) { return {a * b.r, a * b.i}; }
  /// Divided by the imaginary unit.
  WEFT_INLINE complex_number turned() const { return {i, -r}; }
};

// The transforms of few numbers, in place, written without loops so that the loops around them vectorize.

template <class T>
WEFT_INLINE void transform_few(complex_number<T> (&a)[2]) {
  const auto b = a[0] - a[1];
  a[0] = a[0] + a[1];
  a[1] = b;
}
template <class T>
WEFT_INLINE void transform_few(complex_number<T> (&a)[3]) {
  const auto sum = a[1] + a[2], mid = a[0] - T(0.5) * sum, side = (T(0.86602540378443864676) * (a[1] - a[2])).turned();
  a[0] = a[0] + sum;
  a[1] = mid + side;
  a[2] = mid - side;
}
template <class T>
WEFT_INLINE void transform_few(complex_number<T> (&a)[4]) {
  const auto even = a[0] + a[2], odd = a[1] + a[3], even_rest = a[0] - a[2], odd_rest = (a[1] - a[3]).turned();
  a[0] = even + odd;
  a[1] = even_rest + odd_rest;
  a[2] = even - odd;
  a[3] = even_rest - odd_rest;
}
template <class T>
WEFT_INLINE void transform_few(complex_number<T> (&a)[5]) {
  constexpr T c1 = T(0.30901699437494742410), c2 = T(-0.80901699437494742410);  // cos(2 pi k / 5)
  constexpr T s1 = T(0.95105651629515357212), s2 = T(0.58778525229247312917);   // sin(2 pi k / 5)
  const auto outer = a[1] + a[4], inner = a[2] + a[3], outer_rest = a[1] - a[4], inner_rest = a[2] - a[3];
  const auto mid1 = a[0] + c1 * outer + c2 * inner, mid2 = a[0] + c2 * outer + c1 * inner,
             side1 = (s1 * outer_rest + s2 * inner_rest).turned(), side2 = (s2 * outer_rest - s1 * inner_rest).turned();
  a[0] = a[0] + outer + inner;
  a[1] = mid1 + side1;
  a[4] = mid1 - side1;
  a[2] = mid2 + side2;
  a[3] = mid2 - side2;
}
template <class T>
WEFT_INLINE void transform_few(complex_number<T> (&a)[8]) {
  constexpr T c = T(0.70710678118654752440);
  complex_number<T> even[4] = {a[0], a[2], a[4], a[6]}, odd[4] = {a[1], a[3], a[5], a[7]};
  transform_few(even);
  transform_few(odd);
  const complex_number<T> o1 = c * complex_number<T>{odd[1].r + odd[1].i, odd[1].i - odd[1].r}, o2 = odd[2].turned(),
                          o3 = c * complex_number<T>{odd[3].i - odd[3].r, -odd[3].r - odd[3].i};
  a[0] = even[0] + odd[0];
  a[1] = even[1] + o1;
  a[2] = even[2] + o2;
  a[3] = even[3] + o3;
  a[4] = even[0] - odd[0];
  a[5] = even[1] - o1;
  a[6] = even[2] - o2;
  a[7] = even[3] - o3;
}
/// For the other primes: `R * R` products.
template <class T, std::size_t R>
WEFT_INLINE void transform_few(complex_number<T> (&a)[R], const T* cosines, const T* sines) {
  complex_number<T> b[R];
  for (std::size_t k = 0; k < R; ++k) {
    b[k] = a[0];
    for (std::size_t j = 1; j < R; ++j) b[k] = b[k] + a[j] * complex_number<T>{cosines[j * k % R], -sines[j * k % R]};
  }
  for (std::size_t k = 0; k < R; ++k) a[k] = b[k];
}

/// cos and sin of 2 pi k / n.
template <class T>
void root(std::size_t k, std::size_t n, T& cosine, T& sine) {
  const long double angle =
      2 * 3.14159265358979323846264338327950288L * static_cast<long double>(k % n) / static_cast<long double>(n);
  cosine = static_cast<T>(std::cos(angle));
  sine = static_cast<T>(std::sin(angle));
}

/// One pass of Stockham's algorithm: `s` interleaved rows of `m * R` numbers become `s * R` rows of m (Van Loan,
/// Computational Frameworks for the Fast Fourier Transform, 1992).
template <class T, std::size_t R>
struct fft_pass {
  const T *xr, *xi;
  T *yr, *yi;
  std::size_t m, s;
  const T* w;  ///< powers 1 to R - 1 of exp(-2 pi i p / (m R)), each for all p: the real parts, then the imaginary ones
  const T *cosines, *sines;  ///< of 2 pi k / R

  WEFT_INLINE void operator()() const {
    if (s == 1) {
      WEFT_VECTORIZE
      for (std::size_t p = 0; p < m; ++p) one(p, p * R, p);
    } else {
      for (std::size_t p = 0; p < m; ++p) {
        WEFT_VECTORIZE
        for (std::size_t q = 0; q < s; ++q) one(q + s * p, q + s * p * R, p);
      }
    }
  }

 private:
  WEFT_INLINE void one(std::size_t from, std::size_t to, std::size_t p) const {
    complex_number<T> a[R];
    load<0>(a, from);
    if constexpr (R == 2 || R == 3 || R == 4 || R == 5 || R == 8)
      transform_few(a);
    else
      transform_few(a, cosines, sines);
    store<0>(a, to, p);
  }
  template <std::size_t K>
  WEFT_INLINE void load(complex_number<T> (&a)[R], std::size_t from) const {
    if constexpr (K < R) {
      a[K] = {xr[from + s * m * K], xi[from + s * m * K]};
      load<K + 1>(a, from);
    }
  }
  template <std::size_t K>
  WEFT_INLINE void store(const complex_number<T> (&a)[R], std::size_t to, std::size_t p) const {
    if constexpr (K < R) {
      complex_number<T> b = a[K];
      if constexpr (K > 0) b = b * complex_number<T>{w[(K - 1) * m + p], w[(R - 1 + K - 1) * m + p]};
      yr[to + s * K] = b.r;
      yi[to + s * K] = b.i;
      store<K + 1>(a, to, p);
    }
  }
};

}  // namespace detail

/// The transform of n numbers: y[k] = sum of x[j] exp(-2 pi i j k / n). Passes of radix 8, 4, 2, 3, 5, 7, 11 and 13; if
/// n has other factors, a convolution by transforms of another length (Bluestein, A linear filtering approach to the
/// computation of discrete Fourier transform, 1970). Twiddle factors are computed in long double.
template <class T>
class fft_plan {
 public:
  explicit fft_plan(std::size_t n) : n_(n) {
    std::size_t rest = n;
    std::size_t twos = 0;
    for (; rest % 2 == 0 && rest > 0; rest /= 2) ++twos;
    std::size_t s = 1, m = n;
    const auto add = [&](std::size_t radix) {
      m /= radix;
      add_pass(radix, m, s);
      s *= radix;
    };
    // Fewer and larger passes; 8 * 2 is 4 * 4.
    for (; twos >= 3 && twos != 4; twos -= 3) add(8);
    for (; twos >= 2; twos -= 2) add(4);
    if (twos == 1) add(2);
    for (const std::size_t radix : {3u, 5u, 7u, 11u, 13u})
      for (; rest % radix == 0 && rest > 0; rest /= radix) add(radix);
    if (rest > 1) use_convolution();
  }
  fft_plan(const fft_plan&) = delete;
  fft_plan& operator=(const fft_plan&) = delete;
  ~fft_plan() { delete convolved_; }

  std::size_t size() const { return n_; }
  /// Returns the elements of scratch memory that `run` needs.
  std::size_t scratch() const { return convolved_ ? 4 * convolved_->n_ + convolved_->scratch() : 2 * n_; }
  std::size_t memory_bytes() const {
    return (twiddles_.size() + chirp_.size()) * sizeof(T) + (convolved_ ? convolved_->memory_bytes() : 0);
  }

  /// Transforms x to y, which must not overlap. With the parts of x exchanged, and those of y, this is the inverse
  /// times n.
  void run(const T* xr, const T* xi, T* yr, T* yi, T* scratch) const {
    if (convolved_) return run_convolution(xr, xi, yr, yi, scratch);
    if (passes_.empty()) {
      for (std::size_t i = 0; i < n_; ++i) yr[i] = xr[i], yi[i] = xi[i];
      return;
    }
    for (std::size_t i = 0; i < passes_.size(); ++i) {
      const bool into_result = (passes_.size() - 1 - i) % 2 == 0;
      T* const to_r = into_result ? yr : scratch;
      T* const to_i = into_result ? yi : scratch + n_;
      run_pass(passes_[i], xr, xi, to_r, to_i);
      xr = to_r, xi = to_i;
    }
  }

 private:
  struct pass {
    std::size_t radix, m, s, twiddles, roots;
  };

  void add_pass(std::size_t radix, std::size_t m, std::size_t s) {
    const std::size_t at = twiddles_.size(), count = (radix - 1) * m;
    twiddles_.resize(at + 2 * count + 2 * radix);
    for (std::size_t k = 1; k < radix; ++k)
      for (std::size_t p = 0; p < m; ++p) {
        T& sine = twiddles_[at + count + (k - 1) * m + p];
        detail::root(k * p, radix * m, twiddles_[at + (k - 1) * m + p], sine);
        sine = -sine;
      }
    for (std::size_t k = 0; k < radix; ++k)
      detail::root(k, radix, twiddles_[at + 2 * count + k], twiddles_[at + 2 * count + radix + k]);
    passes_.push_back({radix, m, s, at, at + 2 * count});
  }

  template <std::size_t R>
  void run_radix(const pass& p, const T* xr, const T* xi, T* yr, T* yi) const {
    const T* const roots = twiddles_.data() + p.roots;
    multiversioned_up_to_avx2(
        detail::fft_pass<T, R>{xr, xi, yr, yi, p.m, p.s, twiddles_.data() + p.twiddles, roots, roots + R});
  }
  void run_pass(const pass& p, const T* xr, const T* xi, T* yr, T* yi) const {
    const auto run = [&]<std::size_t... R>(std::index_sequence<R...>) {
      static_cast<void>(((p.radix == R && (run_radix<R>(p, xr, xi, yr, yi), true)) || ...));
    };
    run(std::index_sequence<2, 3, 4, 5, 7, 8, 11, 13>());
  }

  // exp(-2 pi i j k / n) = c[j] c[k] / c[k - j] with the chirp c[k] = exp(-pi i k^2 / n).
  void use_convolution() {
    passes_.clear();
    twiddles_.clear();
    std::size_t padded = 1;
    while (padded < 2 * n_ - 1) padded *= 2;
    convolved_ = new fft_plan(padded);
    chirp_.resize(2 * n_ + 2 * padded);
    sequence<T> inverse(2 * padded, T(0)), memory(convolved_->scratch());
    T *const cr = chirp_.data(), *const ci = cr + n_;
    for (std::size_t k = 0; k < n_; ++k) {
      detail::root(k * k % (2 * n_), 2 * n_, cr[k], ci[k]);
      ci[k] = -ci[k];
      for (const std::size_t at : {k, (padded - k) % padded}) inverse[at] = cr[k], inverse[padded + at] = -ci[k];
    }
    convolved_->run(inverse.data(), inverse.data() + padded, cr + 2 * n_, cr + 2 * n_ + padded, memory.data());
  }
  void run_convolution(const T* xr, const T* xi, T* yr, T* yi, T* scratch) const {
    using number = detail::complex_number<T>;
    const std::size_t m = convolved_->n_;
    const T *const cr = chirp_.data(), *const ci = cr + n_, *const hr = ci + n_, *const hi = hr + m;
    T *const ar = scratch, *const ai = ar + m, *const br = ai + m, *const bi = br + m, *const rest = bi + m;
    for (std::size_t k = 0; k < m; ++k) {
      const number a = k < n_ ? number{xr[k], xi[k]} * number{cr[k], ci[k]} : number{};
      ar[k] = a.r, ai[k] = a.i;
    }
    convolved_->run(ar, ai, br, bi, rest);
    for (std::size_t k = 0; k < m; ++k) {
      const number b = number{br[k], bi[k]} * number{hr[k], hi[k]};
      br[k] = b.r, bi[k] = b.i;
    }
    convolved_->run(bi, br, ai, ar, rest);  // the inverse times m
    for (std::size_t k = 0; k < n_; ++k) {
      const number y = T(1) / static_cast<T>(m) * (number{ar[k], ai[k]} * number{cr[k], ci[k]});
      yr[k] = y.r, yi[k] = y.i;
    }
  }

  std::size_t n_;
  sequence<pass> passes_;
  sequence<T> twiddles_, chirp_;
  fft_plan* convolved_ = nullptr;
};

/// The transform of n real numbers, whose result has n / 2 + 1 independent numbers, and its inverse. An even n needs a
/// transform of half the length.
template <class T>
class real_fft_plan {
 public:
  explicit real_fft_plan(std::size_t n) : n_(n), half_(n % 2 == 0 && n > 0 ? n / 2 : n) {
    if (!is_even()) return;
    roots_.resize(2 * (n / 2 + 1));
    for (std::size_t k = 0; k <= n / 2; ++k) detail::root(k, n, roots_[k], roots_[n / 2 + 1 + k]);
  }
  std::size_t scratch() const { return 4 * half_.size() + half_.scratch(); }
  std::size_t memory_bytes() const { return half_.memory_bytes() + roots_.size() * sizeof(T); }

  /// y[k] = sum of x[j] exp(-2 pi i j k / n) for k from 0 to n / 2.
  void forward(const T* x, T* yr, T* yi, T* scratch) const {
    const std::size_t h = half_.size();
    T *const ar = scratch, *const ai = ar + h, *const br = ai + h, *const bi = br + h, *const rest = bi + h;
    if (!is_even()) {
      for (std::size_t j = 0; j < h; ++j) ai[j] = 0;
      half_.run(x, ai, br, bi, rest);
      for (std::size_t k = 0; k <= h / 2 && h > 0; ++k) yr[k] = br[k], yi[k] = bi[k];
      return;
    }
    multiversioned_up_to_avx2([=] {
      WEFT_VECTORIZE
      for (std::size_t j = 0; j < h; ++j) ar[j] = x[2 * j], ai[j] = x[2 * j + 1];
    });
    half_.run(ar, ai, br, bi, rest);
    const T *const cosine = roots_.data(), *const sine = cosine + h + 1;
    multiversioned_up_to_avx2([=] {
      // The odd numbers' transform is (sum - conjugate) / 2i, turned by exp(-2 pi i k / n).
      WEFT_VECTORIZE
      for (std::size_t k = 1; k < h; ++k) {
        const T sum_r = br[k] + br[h - k], sum_i = bi[k] - bi[h - k], rest_r = br[k] - br[h - k],
                rest_i = bi[k] + bi[h - k];
        yr[k] = T(0.5) * (sum_r + rest_i * cosine[k] - rest_r * sine[k]);
        yi[k] = T(0.5) * (sum_i - rest_r * cosine[k] - rest_i * sine[k]);
      }
    });
    yr[0] = br[0] + bi[0];
    yr[h] = br[0] - bi[0];
    yi[0] = yi[h] = 0;
  }

  /// y[j] = sum over k from 0 to n - 1 of x[k] exp(2 pi i j k / n), where x[n - k] is the conjugate of x[k]. Ignores
  /// the imaginary parts of x[0] and, for even n, x[n / 2].
  void inverse(const T* xr, const T* xi, T* y, T* scratch) const {
    const std::size_t h = half_.size();
    T *const ar = scratch, *const ai = ar + h, *const br = ai + h, *const bi = br + h, *const rest = bi + h;
    if (!is_even()) {
      if (h == 0) return;
      ar[0] = xr[0], ai[0] = 0;
      for (std::size_t k = 1; k <= h / 2; ++k) ar[k] = xr[k], ai[k] = xi[k], ar[h - k] = xr[k], ai[h - k] = -xi[k];
      half_.run(ai, ar, bi, br, rest);
      for (std::size_t j = 0; j < h; ++j) y[j] = br[j];
      return;
    }
    const T *const cosine = roots_.data(), *const sine = cosine + h + 1;
    multiversioned_up_to_avx2([=] {
      // Even numbers: the sum; odd ones: the difference, turned by exp(2 pi i k / n), as the imaginary part.
      WEFT_VECTORIZE
      for (std::size_t k = 1; k < h; ++k) {
        const T sum_r = xr[k] + xr[h - k], sum_i = xi[k] - xi[h - k], rest_r = xr[k] - xr[h - k],
                rest_i = xi[k] + xi[h - k];
        ar[k] = sum_r - (rest_r * sine[k] + rest_i * cosine[k]);
        ai[k] = sum_i + rest_r * cosine[k] - rest_i * sine[k];
      }
    });
    ar[0] = xr[0] + xr[h];
    ai[0] = xr[0] - xr[h];
    half_.run(ai, ar, bi, br, rest);
    multiversioned_up_to_avx2([=] {
      WEFT_VECTORIZE
      for (std::size_t j = 0; j < h; ++j) y[2 * j] = br[j], y[2 * j + 1] = bi[j];
    });
  }

 private:
  bool is_even() const { return half_.size() != n_; }

  std::size_t n_;
  fft_plan<T> half_;
  sequence<T> roots_;
};

}  // namespace weft::device
