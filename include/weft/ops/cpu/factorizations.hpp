// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cmath>
#include <limits>
#include <utility>

#include <weft/device/cpu/factorizations.hpp>
#include <weft/ops/cpu/matrix_kernel.hpp>

/// Factorizations of each matrix of a batch, as tasks of matrix_kernel.
WEFT_COLD_BEGIN
namespace weft::detail {

template <class T>
bool all_finite(std::size_t n, const T* x) {
  bool finite = true;
  for (std::size_t i = 0; i < n; ++i) finite = finite && std::abs(x[i]) <= std::numeric_limits<T>::max();
  return finite;
}
/// Returns the memory after the first elements.
template <class T>
matrix_memory<T> rest_of(const matrix_memory<T>& w, std::size_t elements) {
  return {w.elements + elements, w.integers, w.count - static_cast<int>(elements), w.integer_count, w.pool};
}
inline matrix_needs with_more(matrix_needs needs, std::size_t elements) {
  needs.elements += elements;
  return needs;
}

template <class T, class Library = library::best_factorizations>
struct cholesky_task {
  static constexpr const char* failure = "is not positive definite";
  matrix_extents a;

  matrix_needs needs() const { return {}; }
  std::size_t multiply_adds() const { return a.n * a.n * a.n / 6; }
  bool run(const T* const* in, T* const* out, const matrix_memory<T>&) const {
    if (a.n == 0) return true;
    copy_elements(a.elements(), in[0], out[0]);
    const bool positive = Library::cholesky(a.n, out[0]);
    for (std::size_t i = 0; i < a.n; ++i)
      for (std::size_t j = i + 1; j < a.n; ++j) out[0][i * a.n + j] = 0;
    return positive;
  }
};

template <class T, class Library = library::best_lu>
struct triangular_task {
  static constexpr const char* failure = "has a 0 on its diagonal";
  triangle of;
  std::size_t columns;

  matrix_needs needs() const { return {}; }
  std::size_t multiply_adds() const { return of.n * of.n * columns / 2; }
  bool run(const T* const* in, T* const* out, const matrix_memory<T>&) const {
    for (std::size_t i = 0; i < of.n && !of.unit; ++i)
      if (in[0][i * (of.n + 1)] == 0) return false;
    copy_elements(of.n * columns, in[1], out[0]);
    Library::solve_triangle(of, in[0], columns, out[0], columns, nullptr);
    return true;
  }
};

/// Results: Q, with n columns or all m, and R.
template <class T, class Library = library::best_factorizations>
struct qr_task {
  static constexpr const char* failure = "has no QR factorization";
  matrix_extents a;
  std::size_t columns;

  matrix_needs needs() const {
    if (a.n == 0) return {};
    return with_more(Library::template qr_needs<T>(a.m, a.n, columns), a.n + columns * a.m);
  }
  std::size_t multiply_adds() const { return a.m * a.n * (a.n + columns); }
  bool run(const T* const* in, T* const* out, const matrix_memory<T>& w) const {
    T *const q = out[0], *const r = out[1], *const tau = w.elements, *const rows = tau + a.n;
    for (std::size_t e = 0; a.n == 0 && e < a.m * columns; ++e) q[e] = T(e % (columns + 1) == 0);
    if (a.n == 0) return true;
    const matrix_memory<T> rest = rest_of(w, a.n + columns * a.m);
    transpose_elements(a.m, a.n, in[0], a.n, rows, a.m);
    Library::householder(a.m, a.n, rows, tau, rest);
    transpose_elements(a.n, columns, rows, a.m, r, a.n);
    for (std::size_t i = 1; i < columns; ++i)
      for (std::size_t j = 0; j < least(i, a.n); ++j) r[i * a.n + j] = 0;
    Library::orthogonal(a.m, columns, a.n, rows, tau, rest);
    transpose_elements(columns, a.m, rows, a.m, q, columns);
    return true;
  }
};

/// Results: U, S and V', of which U and V' may be null, or S alone.
template <class T, class Library = library::best_factorizations>
struct svd_task {
  static constexpr const char* failure =
      "has an element that is not finite, or its singular value decomposition does not converge";
  matrix_extents a;
  bool only_values;

  matrix_needs needs() const {
    if (a.k == 0) return {};
    return with_more(Library::template svd_needs<T>(a.m, a.n), a.elements() + (only_values ? 0 : a.k * (a.m + a.n)));
  }
  std::size_t multiply_adds() const { return 8 * a.m * a.n * a.k; }
  bool run(const T* const* in, T* const* out, const matrix_memory<T>& w) const {
    if (a.k == 0) return true;
    if (!all_finite(a.elements(), in[0])) return false;
    copy_elements(a.elements(), in[0], w.elements);
    if (only_values || (!out[0] && !out[2]))
      return Library::template svd<T>(false, a.m, a.n, w.elements, nullptr, out[only_values ? 0 : 1], nullptr,
                                      rest_of(w, a.elements()));
    T *const u = w.elements + a.elements(), *const vt = u + a.k * a.m;
    return Library::template svd<T>(true, a.m, a.n, w.elements, out[0] ? out[0] : u, out[1], out[2] ? out[2] : vt,
                                    rest_of(w, a.elements() + a.k * (a.m + a.n)));
  }
};

/// The number of singular values above a tolerance relative to the largest.
template <class T, class Library = library::best_factorizations>
struct rank_task {
  static constexpr const char* failure = svd_task<T>::failure;
  matrix_extents a;
  double tolerance;

  matrix_needs needs() const { return with_more(svd_task<T, Library>{a, true}.needs(), a.k); }
  std::size_t multiply_adds() const { return 4 * a.m * a.n * a.k; }
  bool run(const T* const* in, T* const* out, const matrix_memory<T>& w) const {
    T* s = w.elements;
    if (!svd_task<T, Library>{a, true}.run(in, &s, rest_of(w, a.k))) return false;
    out[0][0] = 0;
    for (std::size_t i = 0; i < a.k; ++i) out[0][0] += T(double{s[i]} > tolerance * double{s[0]});
    return true;
  }
};

/// Results: the eigenvalues and, unless null or missing, the eigenvectors.
template <class T, class Library = library::best_factorizations>
struct eigh_task {
  static constexpr const char* failure = "has an element that is not finite, or its eigenvalues do not converge";
  matrix_extents a;

  matrix_needs needs() const {
    return a.n == 0 ? matrix_needs{} : with_more(Library::template eigh_needs<T>(a.n), a.elements());
  }
  std::size_t multiply_adds() const { return 4 * a.n * a.n * a.n; }
  bool run(const T* const* in, T* const* out, const matrix_memory<T>& w) const {
    if (a.n == 0) return true;
    for (std::size_t i = 0; i < a.n; ++i)
      if (!all_finite(i + 1, in[0] + i * a.n)) return false;
    copy_elements(a.elements(), in[0], w.elements);
    const bool converged = Library::eigh(out[1] != nullptr, a.n, w.elements, out[0], rest_of(w, a.elements()));
    if (out[1]) transpose_elements(a.n, a.n, w.elements, a.n, out[1], a.n);
    return converged;
  }
};

/// Results: the real and the imaginary parts.
template <class T, class Library = library::best_factorizations>
struct eigvals_task : eigh_task<T, Library> {
  using eigh_task<T, Library>::a;

  matrix_needs needs() const {
    return a.n == 0 ? matrix_needs{} : with_more(Library::template eigvals_needs<T>(a.n), a.elements());
  }
  bool run(const T* const* in, T* const* out, const matrix_memory<T>& w) const {
    if (a.n == 0) return true;
    if (!all_finite(a.elements(), in[0])) return false;
    copy_elements(a.elements(), in[0], w.elements);
    return Library::eigvals(a.n, w.elements, out[0], out[1], rest_of(w, a.elements()));
  }
};

/// V S^-1 U', without the singular values up to a tolerance relative to the largest.
template <class T, class Library = library::best_factorizations>
struct pinv_task {
  static constexpr const char* failure = svd_task<T>::failure;
  matrix_extents a;
  double tolerance;

  matrix_needs needs() const { return with_more(svd_task<T, Library>{a, false}.needs(), a.k); }
  std::size_t multiply_adds() const { return 9 * a.m * a.n * a.k; }
  bool run(const T* const* in, T* const* out, const matrix_memory<T>& w) const {
    for (std::size_t e = 0; a.k == 0 && e < a.elements(); ++e) out[0][e] = 0;
    if (a.k == 0) return true;
    const std::size_t others = a.elements() + a.k * (a.m + a.n);
    T *const u = w.elements + a.elements(), *const vt = u + a.k * a.m, *const s = w.elements + others;
    if (!all_finite(a.elements(), in[0])) return false;
    copy_elements(a.elements(), in[0], w.elements);
    if (!Library::svd(true, a.m, a.n, w.elements, u, s, vt, rest_of(w, others + a.k))) return false;
    for (std::size_t i = 0; i < a.k; ++i)
      for (std::size_t j = 0; j < a.n; ++j)
        vt[i * a.n + j] = double{s[i]} > tolerance * double{s[0]} ? vt[i * a.n + j] / s[i] : T(0);
    matmul<library::best>({a.n, a.m, a.k, true, true}, T(1), vt, u, T(0), out[0]);
    return true;
  }
};

/// The exponential of A for one operand. For k further operands, the k-th derivative in their directions: a block of
/// the exponential of a matrix of 2^k by 2^k blocks, with A on the diagonal and direction j where a block's column is
/// its row plus 2^j (Van Loan, Computing Integrals Involving the Matrix Exponential, 1978).
template <class T>
struct matrix_exp_task {
  static constexpr const char* failure = "has a singular Pade denominator";
  std::size_t n, directions;

  std::size_t size() const { return n << directions; }
  matrix_needs needs() const { return {7 * size() * size(), size()}; }
  std::size_t multiply_adds() const { return 10 * size() * size() * size(); }

  /// Scaling and squaring with the Pade approximant of degree 13 (Higham, SIAM J. Matrix Anal. Appl. 26(4), 2005).
  bool run(const T* const* in, T* const* out, const matrix_memory<T>& w) const {
    const std::size_t side = size(), all = side * side, last = std::size_t{1} << directions;
    T *const a = w.elements, *const a2 = a + all, *const a4 = a2 + all, *const a6 = a4 + all, *const x = a6 + all,
             *const y = x + all, *const z = y + all;
    for (std::size_t e = 0; e < all; ++e) a[e] = 0;
    for (std::size_t row = 0; row < last; ++row)
      for (std::size_t k = 0; k <= directions; ++k) {
        const std::size_t column = k == 0 ? row : row | std::size_t{1} << (k - 1);
        for (std::size_t i = 0; (k == 0 || column != row) && i < n; ++i)
          copy_elements(n, in[k] + i * n, a + (row * n + i) * side + column * n);
      }
    double norm = 0;  // the largest sum of a row
    for (std::size_t i = 0; i < side; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < side; ++j) sum += std::abs(double{a[i * side + j]});
      if (sum > norm || sum != sum) norm = sum;
    }
    const bool finite = norm <= std::numeric_limits<double>::max();
    int halvings = 0;
    if (finite && norm > 5.37) halvings = std::ilogb(norm / 5.37) + 1;
    for (std::size_t e = 0; e < all; ++e) a[e] = std::ldexp(a[e], -halvings);
    const auto product = [&](const T* left, const T* right, T* to) {
      matmul<library::best>({side, side, side}, T(1), left, right, T(0), to);
    };
    // to = x a6 + y a4 + z a2 + w, the latter times the identity
    const auto sum = [&](double p, double q, double r, double s, T* to) {
      for (std::size_t e = 0; e < all; ++e)
        to[e] =
            static_cast<T>(p * double{a6[e]} + q * double{a4[e]} + r * double{a2[e]} + (e % (side + 1) == 0 ? s : 0));
    };
    const auto add = [&](const T* from, T* to) {
      for (std::size_t e = 0; e < all; ++e) to[e] += from[e];
    };
    product(a, a, a2), product(a2, a2, a4), product(a4, a2, a6);
    sum(1, 16380, 40840800, 0, x), product(x, a6, y);
    sum(33522128640, 10559470521600, 1187353796428800, 32382376266240000, x), add(x, y);
    product(a, y, z);  // the odd part
    sum(182, 960960, 1323241920, 0, x), product(x, a6, y);
    sum(670442572800, 129060195264000, 7771770303897600, 64764752532480000, x), add(x, y);  // the even part
    for (std::size_t e = 0; e < all; ++e) x[e] = y[e] - z[e], y[e] += z[e];
    if (!library::best_lu::factorize(side, x, w.integers, nullptr) && finite) return false;
    library::best_lu::solve(side, side, x, w.integers, false, y, nullptr);
    T *from = y, *to = x;
    for (; halvings > 0; --halvings, std::swap(from, to)) product(from, from, to);
    for (std::size_t i = 0; i < n; ++i) copy_elements(n, from + i * side + (last - 1) * n, out[0] + i * n);
    for (std::size_t e = 0; !finite && e < n * n; ++e) out[0][e] = std::numeric_limits<T>::quiet_NaN();
    return true;
  }
};

}  // namespace weft::detail
WEFT_COLD_END
