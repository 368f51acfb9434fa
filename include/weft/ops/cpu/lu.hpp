// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cmath>
#include <utility>

#include <weft/device/cpu/lu.hpp>
#include <weft/ops/cpu/matrix_kernel.hpp>

/// CPU kernels of inverses, determinants and linear systems, by LU factorization.
WEFT_COLD_BEGIN
namespace weft::detail {

/// A product whose intermediate values may exceed the range of double.
class scaled_product {
 public:
  void multiply(double x) {
    product_ *= x;
    if (!std::isfinite(product_)) return;
    int more = 0;
    product_ = std::frexp(product_, &more);
    exponent_ += more;
  }
  double value() const { return std::isfinite(product_) ? std::ldexp(product_, exponent_) : product_; }
  double sign() const { return product_ > 0 ? 1 : product_ < 0 ? -1 : product_; }
  double log_magnitude() const { return std::log(std::abs(product_)) + exponent_ * 0.693147180559945309; }

 private:
  double product_ = 1;
  int exponent_ = 0;
};

template <class T>
scaled_product determinant_of(std::size_t n, const T* lu, const std::int32_t* pivots) {
  scaled_product product;
  for (std::size_t i = 0; i < n; ++i)
    product.multiply(static_cast<std::size_t>(pivots[i]) == i ? double{lu[i * n + i]} : -double{lu[i * n + i]});
  return product;
}

/// Computes the cofactors of a singular matrix by elimination with complete pivoting, P A Q = L U. If n - 1 pivots are
/// not 0, they are the outer product of a vector z with z' A = 0 and a vector x with A x = 0, times these pivots;
/// otherwise all are zeros. Overwrites `a`; `work` and `order` have 2 n elements each.
template <class T>
void singular_cofactors(std::size_t n, T* a, T* work, std::int32_t* order, T* y) {
  std::int32_t *const rows = order, *const columns = order + n;
  for (std::size_t i = 0; i < n; ++i) rows[i] = columns[i] = static_cast<std::int32_t>(i);
  for (std::size_t e = 0; e < n * n; ++e) y[e] = 0;
  scaled_product pivots;
  for (std::size_t p = 0; p + 1 < n; ++p) {
    std::size_t r = p, c = p;
    T largest = 0;
    for (std::size_t i = p; i < n; ++i)
      for (std::size_t j = p; j < n; ++j)
        if (const T here = std::abs(a[i * n + j]); here > largest) largest = here, r = i, c = j;
    if (largest == 0) return;
    if (r != p) swap_rows(n, a + r * n, a + p * n), std::swap(rows[r], rows[p]), pivots.multiply(-1);
    for (std::size_t i = 0; c != p && i < n; ++i) std::swap(a[i * n + c], a[i * n + p]);
    if (c != p) std::swap(columns[c], columns[p]), pivots.multiply(-1);
    const T* const pivot = a + p * n;
    pivots.multiply(double{pivot[p]});
    for (std::size_t i = p + 1; i < n; ++i) {
      T* const row = a + i * n;
      row[p] /= pivot[p];
      subtract_multiple(n - p - 1, row[p], pivot + p + 1, row + p + 1);
    }
  }
  T *const x = work, *const z = work + n;
  x[n - 1] = z[n - 1] = 1;
  for (std::size_t i = n - 1; i-- > 0;) {
    T above = 0, left = 0;
    for (std::size_t k = i + 1; k < n; ++k) above += a[i * n + k] * x[k], left += z[k] * a[k * n + i];
    x[i] = -above / a[i * n + i];
    z[i] = -left;
  }
  const double product = pivots.value();
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      y[static_cast<std::size_t>(rows[i]) * n + static_cast<std::size_t>(columns[j])] =
          static_cast<T>(product * double{z[i]} * double{x[j]});
}

enum class lu_kind : unsigned char { inverse, determinant, slogdet, solve, cofactors };

/// Factorizes a matrix and uses its factors: a task of matrix_kernel.
template <class T, lu_kind Kind, class Library = library::best_lu>
struct lu_task {
  static constexpr const char* failure = "has a pivot of 0, so it is not invertible";
  static constexpr bool takes_threads = Library::takes_threads;
  static constexpr bool is_cofactors = Kind == lu_kind::cofactors;
  std::size_t n, columns;  // of the result: 0 for a determinant
  bool transposed = false;

  matrix_needs needs() const { return {n * n + (is_cofactors ? 2 * n : 0), is_cofactors ? 2 * n : n}; }
  std::size_t multiply_adds() const { return n * n * (n / 3 + columns); }
  bool run(const T* const* in, T* const* out, const matrix_memory<T>& w) const {
    T *const lu = w.elements, *const y = out[0];
    copy_elements(n * n, in[0], lu);
    const bool regular = Library::factorize(n, lu, w.integers, w.pool);
    if constexpr (Kind == lu_kind::determinant || Kind == lu_kind::slogdet) {
      scaled_product product;
      product.multiply(0);
      if (regular) product = determinant_of(n, lu, w.integers);
      y[0] = static_cast<T>(Kind == lu_kind::slogdet ? product.sign() : product.value());
      if (Kind == lu_kind::slogdet) out[1][0] = static_cast<T>(product.log_magnitude());
    } else if (is_cofactors && !regular) {
      copy_elements(n * n, in[0], lu);
      singular_cofactors(n, lu, lu + n * n, w.integers, y);
    } else if (!regular) {
      return false;
    } else {
      if (Kind == lu_kind::solve)
        copy_elements(n * columns, in[1], y);
      else
        for (std::size_t e = 0; e < n * n; ++e) y[e] = static_cast<T>(e % (n + 1) == 0);
      Library::solve(n, columns, lu, w.integers, transposed || is_cofactors, y, w.pool);
      const double scale = is_cofactors ? determinant_of(n, lu, w.integers).value() : 1;
      for (std::size_t e = 0; is_cofactors && e < n * n; ++e) y[e] = static_cast<T>(scale * double{y[e]});
    }
    return true;
  }
};

template <lu_kind Kind, class T>
kernel* prepare_lu(const prepare_context& p, bool transposed = false) {
  const matrix_extents a(p.inputs[0]);
  const shape& to = p.outputs[0].extents;
  constexpr bool no_matrix = Kind == lu_kind::determinant || Kind == lu_kind::slogdet;
  return new matrix_kernel<T, lu_task<T, Kind>>(
      p, {a.n, no_matrix ? 0 : static_cast<std::size_t>(to[to.rank - 1]), transposed});
}

}  // namespace weft::detail
WEFT_COLD_END
