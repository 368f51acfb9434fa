// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include <weft/device/cpu/lu.hpp>
#include <weft/device/cpu/matrices.hpp>
#if defined(WEFT_HAS_LAPACK)
  #include <weft/device/cpu/factorizations_lapack.hpp>
#endif

WEFT_COLD_BEGIN
namespace weft {
namespace detail {

/// Scales by a power of two so that the largest magnitude is near 1, and returns the factor that restores the elements.
template <class T>
T scale_to_one(std::size_t n, T* x) {
  T largest = 0;
  for (std::size_t i = 0; i < n; ++i) largest = std::abs(x[i]) > largest ? std::abs(x[i]) : largest;
  if (largest == 0) return 1;
  int exponent = 0;
  static_cast<void>(std::frexp(largest, &exponent));
  for (std::size_t i = 0; i < n; ++i) x[i] = std::ldexp(x[i], 1 - exponent);
  return std::ldexp(T(1), exponent - 1);
}

template <class T>
double dot(std::size_t n, const T* x, const T* y) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += double{x[i]} * double{y[i]};
  return sum;
}

/// Rotates two vectors: x = c x - s y and y = s x + c y.
template <class T>
void rotate(std::size_t n, T c, T s, T* x, T* y) {
  multiversioned_up_to_avx2([=] {
    WEFT_VECTORIZE
    for (std::size_t i = 0; i < n; ++i) {
      const T a = x[i], b = y[i];
      x[i] = c * a - s * b, y[i] = s * a + c * b;
    }
  });
}

/// Returns the tangent of the smaller angle of a Jacobi rotation that makes g 0 in [[a, g], [g, b]].
inline double jacobi_tangent(double a, double b, double g) {
  const double zeta = (b - a) / (2 * g);
  return (zeta < 0 ? -1 : 1) / (std::abs(zeta) + std::hypot(1.0, zeta));
}

/// Computes a reflection I - tau v v' that makes the elements of x after the first 0, as LAPACK does. Overwrites the
/// first element by its new value, and the others by v, whose first element is 1.
template <class T>
T make_reflection(std::size_t n, T* x, std::size_t stride) {
  double largest = 0, sum = 0;
  for (std::size_t i = 1; i < n; ++i) {
    const double here = std::abs(double{x[i * stride]});
    if (here > largest || here != here) largest = here;
  }
  if (largest == 0) return 0;
  const double first = double{x[0]};
  if (std::abs(first) > largest) largest = std::abs(first);
  for (std::size_t i = 0; i < n; ++i) sum += (double{x[i * stride]} / largest) * (double{x[i * stride]} / largest);
  const double norm = std::sqrt(sum) * largest, value = std::copysign(norm, -first);
  for (std::size_t i = 1; i < n; ++i) x[i * stride] = static_cast<T>(double{x[i * stride]} / (first - value));
  x[0] = static_cast<T>(value);
  return static_cast<T>((value - first) / value);
}

/// Reflects n rows of `columns` elements, lda apart. The first element of v is 1 and not read; `work` has `columns`
/// elements.
template <class T>
void reflect_rows(std::size_t n, const T* v, std::size_t stride, T tau, std::size_t columns, T* a, std::size_t lda,
                  T* work) {
  if (tau == 0) return;
  multiversioned_up_to_avx2([=] {
    for (std::size_t j = 0; j < columns; ++j) work[j] = a[j];
    for (std::size_t i = 1; i < n; ++i) subtract_multiple(columns, -v[i * stride], a + i * lda, work);
    for (std::size_t i = 0; i < n; ++i)
      subtract_multiple(columns, i == 0 ? tau : tau * v[i * stride], work, a + i * lda);
  });
}
/// Reflects n columns of `rows` elements.
template <class T>
void reflect_columns(std::size_t n, const T* v, std::size_t stride, T tau, std::size_t rows, T* a, std::size_t lda) {
  for (std::size_t i = 0; i < rows; ++i) {
    T* const row = a + i * lda;
    T sum = row[0];
    for (std::size_t k = 1; k < n; ++k) sum += v[k * stride] * row[k];
    row[0] -= tau * sum;
    for (std::size_t k = 1; k < n; ++k) row[k] -= tau * sum * v[k * stride];
  }
}

/// Replaces row `row` of an orthonormal set by a unit vector that is orthogonal to the rows before it.
template <class T>
void complete_rows(std::size_t row, std::size_t n, T* a) {
  T* const x = a + row * n;
  for (std::size_t unit = 0; unit < n; ++unit) {
    for (std::size_t i = 0; i < n; ++i) x[i] = T(i == unit);
    double left = 1;
    for (int round = 0; round < 2; ++round) {
      for (std::size_t r = 0; r < row; ++r) subtract_multiple(n, static_cast<T>(dot(n, x, a + r * n)), a + r * n, x);
      left = round == 0 ? dot(n, x, x) : left;
    }
    if (left * 2 * static_cast<double>(n) < 1) continue;  // at least one unit vector keeps 1 / n of its square
    const double norm = std::sqrt(dot(n, x, x));
    for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<T>(double{x[i]} / norm);
    return;
  }
}

}  // namespace detail

namespace library {

/// Weft's own factorizations, with the interface of lapack_factorizations: Cholesky in blocks, Householder's QR, Jacobi
/// rotations for singular values, and implicit shifts for eigenvalues.
struct reference_factorizations {
  template <class T>
  static bool cholesky(std::size_t n, T* a) {
    constexpr std::size_t width = 64;
    for (std::size_t begin = 0; begin < n; begin += width) {
      const std::size_t end = begin + detail::least(width, n - begin), behind = n - end;
      for (std::size_t i = begin; i < n; ++i)
        for (std::size_t j = begin; j < end && j <= i; ++j) {
          T* const row = a + i * n;
          const double left = double{row[j]} - detail::dot(j - begin, row + begin, a + j * n + begin);
          if (j < i)
            row[j] = static_cast<T>(left / double{a[j * n + j]});
          else if (left > 0 && left <= std::numeric_limits<double>::max())
            row[j] = static_cast<T>(std::sqrt(left));
          else
            return false;
        }
      T* const below = a + end * n + begin;
      if (behind > 0)
        detail::subtract_product<T>({behind, behind, end - begin, false, true}, below, n, below, n, a + end * n + end,
                                    n, nullptr);
    }
    return true;
  }

  template <class T>
  static detail::matrix_needs qr_needs(std::size_t, std::size_t, std::size_t) {
    return {};
  }
  template <class T>
  static void householder(std::size_t m, std::size_t n, T* a, T* tau, const detail::matrix_memory<T>&) {
    for (std::size_t j = 0; j < n; ++j) {
      T* const v = a + j * m + j;
      tau[j] = detail::make_reflection(m - j, v, 1);
      detail::reflect_columns(m - j, v, 1, tau[j], n - j - 1, v + m, m);
    }
  }
  template <class T>
  static void orthogonal(std::size_t m, std::size_t columns, std::size_t n, T* q, const T* tau,
                         const detail::matrix_memory<T>&) {
    for (std::size_t j = columns; j-- > 0;) {
      T *const row = q + j * m, t = j < n ? tau[j] : T(0);
      detail::reflect_columns(m - j, row + j, 1, t, columns - j - 1, row + m + j, m);
      for (std::size_t i = 0; i < m; ++i) row[i] = i < j || j >= n ? T(0) : -t * row[i];
      row[j] = 1 - t;
    }
  }

  template <class T>
  static detail::matrix_needs svd_needs(std::size_t m, std::size_t n) {
    const std::size_t k = detail::least(m, n);
    return {k * (m + n), k};
  }
  /// One-sided Jacobi rotations of the rows of A or, if they are more, of its columns.
  template <class T>
  static bool svd(bool vectors, std::size_t m, std::size_t n, T* a, T* u, T* s, T* vt,
                  const detail::matrix_memory<T>& w) {
    const bool tall = m > n;
    const std::size_t k = tall ? n : m, length = tall ? m : n;
    T *const rows = w.elements, *const turns = rows + k * length;
    const T scale = detail::scale_to_one(m * n, a);
    for (std::size_t i = 0; i < k; ++i)
      for (std::size_t j = 0; j < length; ++j) rows[i * length + j] = tall ? a[j * n + i] : a[i * n + j];
    for (std::size_t e = 0; e < k * k; ++e) turns[e] = T(e % (k + 1) == 0);
    const double small = std::numeric_limits<T>::epsilon() * (4 + std::sqrt(static_cast<double>(length)));
    // Rows of this norm are what rounding left of others: to them, they stay parallel.
    const double floor = small * std::sqrt(detail::dot(k * length, rows, rows));
    const bool converged = sweeps(k, [&](std::size_t p, std::size_t q) {
      T *const x = rows + p * length, *const y = rows + q * length;
      const double xx = detail::dot(length, x, x), yy = detail::dot(length, y, y), xy = detail::dot(length, x, y);
      if (xx <= floor * floor || yy <= floor * floor) return false;
      if (!(std::abs(xy) > small * std::sqrt(xx) * std::sqrt(yy))) return false;
      const double t = detail::jacobi_tangent(xx, yy, xy), c = 1 / std::sqrt(1 + t * t);
      detail::rotate(length, static_cast<T>(c), static_cast<T>(c * t), x, y);
      detail::rotate(k, static_cast<T>(c), static_cast<T>(c * t), turns + p * k, turns + q * k);
      return true;
    });
    for (std::size_t i = 0; i < k; ++i)
      s[i] = static_cast<T>(std::sqrt(detail::dot(length, rows + i * length, rows + i * length)));
    order(k, s, w.integers, true);
    // Sorted, the rows are orthonormal.
    for (std::size_t i = 0; vectors && i < k; ++i) {
      const T *const row = rows + at(w.integers[i]) * length, *const turn = turns + at(w.integers[i]) * k;
      for (std::size_t j = 0; j < length; ++j) a[i * length + j] = row[j] / s[i];
      if (!(static_cast<double>(s[i]) > floor)) detail::complete_rows(i, length, a);
      for (std::size_t j = 0; j < length; ++j) (tall ? u[j * k + i] : vt[i * n + j]) = a[i * length + j];
      for (std::size_t j = 0; j < k; ++j) (tall ? vt[i * n + j] : u[j * k + i]) = turn[j];
    }
    for (std::size_t i = 0; i < k; ++i) s[i] *= scale;
    return converged;
  }

  template <class T>
  static detail::matrix_needs eigh_needs(std::size_t n) {
    return {n * n + 2 * n, n};
  }
  /// Tridiagonal form, and implicit QL shifts (Golub and Van Loan, section 8.3).
  template <class T>
  static bool eigh(bool vectors, std::size_t n, T* a, T* values, const detail::matrix_memory<T>& w) {
    T *const d = values, *const e = w.elements, *const turns = vectors ? e + 2 * n : nullptr;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = i + 1; j < n; ++j) a[i * n + j] = a[j * n + i];
    const T scale = detail::scale_to_one(n * n, a);
    reduce(n, a, turns, e + n);
    for (std::size_t i = 0; i < n; ++i) d[i] = a[i * n + i], e[i] = i + 1 < n ? a[(i + 1) * n + i] : T(0);
    for (std::size_t begin = 0; begin < n; ++begin)
      for (int tries = 0;; ++tries) {
        std::size_t end = begin;
        while (end + 1 < n &&
               std::abs(e[end]) > std::numeric_limits<T>::epsilon() * (std::abs(d[end]) + std::abs(d[end + 1])))
          ++end;
        if (end == begin) break;
        if (tries == 60) return false;
        const T half = (d[begin + 1] - d[begin]) / (2 * e[begin]);
        T g = d[end] - d[begin] + e[begin] / (half + std::copysign(std::hypot(half, T(1)), half));
        T s = 1, c = 1, p = 0;
        std::size_t i = end;
        while (i-- > begin) {
          const T f = s * e[i], b = c * e[i], r = std::hypot(f, g);
          e[i + 1] = r;
          if (r == 0) {
            d[i + 1] -= p;
            break;
          }
          s = f / r, c = g / r;
          g = d[i + 1] - p;
          const T more = (d[i] - g) * s + 2 * c * b;
          p = s * more;
          d[i + 1] = g + p;
          g = c * more - b;
          if (turns) detail::rotate(n, c, s, turns + i * n, turns + (i + 1) * n);
        }
        e[end] = 0;
        if (i + 1 == begin) d[begin] -= p, e[begin] = g;
      }
    for (std::size_t i = 0; i < n; ++i) values[i] *= scale;
    order(n, values, w.integers, false);
    for (std::size_t i = 0; vectors && i < n; ++i)
      __builtin_memcpy(a + i * n, turns + at(w.integers[i]) * n, n * sizeof(T));
    return true;
  }

  template <class T>
  static detail::matrix_needs eigvals_needs(std::size_t n) {
    return {n, 0};
  }
  /// Francis's implicit double shifts (Golub and Van Loan, Matrix Computations, section 7.5).
  template <class T>
  static bool eigvals(std::size_t n, T* a, T* real, T* imaginary_parts, const detail::matrix_memory<T>& w) {
    const T scale = detail::scale_to_one(n * n, a);
    reduce<T>(n, a, nullptr, w.elements);
    int tries = 0;
    for (std::size_t end = n; end > 0;) {
      std::size_t begin = end - 1;
      for (; begin > 0; --begin) {
        const T *const here = a + begin * n + begin, *const before = here - n - 1;
        const T size = std::abs(*here) + std::abs(*before);
        if (std::abs(here[-1]) <= std::numeric_limits<T>::epsilon() * (size > 0 ? size : T(1))) break;
      }
      if (end - begin > 2) {
        if (++tries > 60) return false;
        francis_step(n, a, begin, end, tries % 10 == 0, w.elements);
        continue;
      }
      const T *const h = a + begin * n + begin, last = h[end - begin == 2 ? n + 1 : 0];
      const T p = (h[0] - last) / 2, bc = end - begin == 2 ? h[1] * h[n] : T(0), root = std::sqrt(std::abs(p * p + bc));
      const bool is_pair = p * p + bc < 0;
      const T z = p + std::copysign(root, p);  // the larger difference from `last`
      real[end - 1] = scale * (is_pair ? last + p : z != 0 ? last - bc / z : last);
      real[begin] = scale * (is_pair ? last + p : last + z);
      imaginary_parts[end - 1] = is_pair ? -scale * root : T(0);
      imaginary_parts[begin] = is_pair ? scale * root : T(0);
      end = begin, tries = 0;
    }
    return true;
  }

 private:
  /// Reduces a matrix by reflections Q to Hessenberg form Q' A Q, which is tridiagonal if A is symmetric. Sets `turns`,
  /// unless it is null, to Q'. `work` has n elements.
  template <class T>
  static void reduce(std::size_t n, T* a, T* turns, T* work) {
    for (std::size_t e = 0; turns && e < n * n; ++e) turns[e] = T(e % (n + 1) == 0);
    for (std::size_t k = 0; k + 2 < n; ++k) {
      T* const v = a + (k + 1) * n + k;
      const std::size_t count = n - k - 1;
      const T tau = detail::make_reflection(count, v, n);
      detail::reflect_rows(count, v, n, tau, count, v + 1, n, work);
      detail::reflect_columns(count, v, n, tau, n, a + k + 1, n);
      if (turns) detail::reflect_rows(count, v, n, tau, n, turns + (k + 1) * n, n, work);
      for (std::size_t i = k + 2; i < n; ++i) a[i * n + k] = 0;
    }
  }

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  /// Calls turn(p, q) for all pairs until it returns false for each of them.
  template <class Turn>
  static bool sweeps(std::size_t n, const Turn& turn) {
    for (int sweep = 0; sweep < 60; ++sweep) {
      bool turned = false;
      for (std::size_t p = 0; p < n; ++p)
        for (std::size_t q = p + 1; q < n; ++q) turned = turn(p, q) || turned;
      if (!turned) return true;
    }
    return false;
  }

  /// Sorts values, and lists their former places.
  template <class T>
  static void order(std::size_t n, T* values, int* places, bool descending) {
    for (std::size_t i = 0; i < n; ++i) {
      const T value = values[i];
      std::size_t k = i;
      for (; k > 0 && (descending ? values[k - 1] < value : value < values[k - 1]); --k)
        values[k] = values[k - 1], places[k] = places[k - 1];
      values[k] = value, places[k] = static_cast<int>(i);
    }
  }

  template <class T>
  static void francis_step(std::size_t n, T* a, std::size_t begin, std::size_t end, bool unusual_shift, T* work) {
    const auto h = [&](std::size_t i, std::size_t j) -> T& { return a[i * n + j]; };
    const std::size_t last = end - 1;
    T sum = h(last - 1, last - 1) + h(last, last);
    T product = h(last - 1, last - 1) * h(last, last) - h(last - 1, last) * h(last, last - 1);
    if (unusual_shift) {
      const T size = std::abs(h(last, last - 1)) + std::abs(h(last - 1, last - 2));
      sum = T(1.5) * size, product = size * size;
    }
    const T first = h(begin, begin), below = h(begin + 1, begin);
    T v[3] = {first * first + h(begin, begin + 1) * below - sum * first + product,
              below * (first + h(begin + 1, begin + 1) - sum), below * h(begin + 2, begin + 1)};
    for (std::size_t k = begin; k + 1 < end; ++k) {
      const std::size_t count = detail::least(std::size_t{3}, end - k), from = k > begin ? k - 1 : begin;
      for (std::size_t i = 0; k > begin && i < count; ++i) v[i] = h(k + i, k - 1);
      const T tau = detail::make_reflection(count, v, 1);
      detail::reflect_rows(count, v, 1, tau, end - from, &h(k, from), n, work);
      detail::reflect_columns(count, v, 1, tau, detail::least(k + 4, end) - begin, &h(begin, k), n);
      for (std::size_t i = 1; k > begin && i < count; ++i) h(k + i, k - 1) = 0;
    }
  }
};

#if defined(WEFT_HAS_LAPACK)
using best_factorizations = lapack_factorizations;
#else
using best_factorizations = reference_factorizations;
#endif

}  // namespace library
}  // namespace weft
WEFT_COLD_END
