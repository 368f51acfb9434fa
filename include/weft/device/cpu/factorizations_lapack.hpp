// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <weft/device/cpu/lapack.hpp>
#include <weft/device/cpu/matrices.hpp>
#include <weft/device/cpu/openblas.hpp>

WEFT_COLD_BEGIN
namespace weft::library {

/// Factorizations by LAPACK. It stores matrices by columns, and sees the transposed ones: A = U S V' is computed as A'
/// = V S U', so no elements move. Its LQ is slower than its QR by more than a transposition, so Q and R are transposed.
struct lapack_factorizations {
  /// Overwrites the lower triangle of a symmetric matrix by L with L L' = A; the rest is undefined. Returns false if
  /// the matrix is not positive definite.
  template <class T>
  static bool cholesky(std::size_t n, T* a) {
    keep_openblas_on_one_thread();
    const int size = lapack_extent(n);
    int info = 0;
    fortran::potrf("U", &size, a, &size, &info, 1);
    return info == 0;
  }

  template <class T>
  static detail::matrix_needs qr_needs(std::size_t m, std::size_t n, std::size_t columns) {
    const auto first = query<T>([&](auto w) { householder<T>(m, n, nullptr, nullptr, w); });
    const auto second = query<T>([&](auto w) { orthogonal<T>(m, columns, n, nullptr, nullptr, w); });
    return first.elements > second.elements ? first : second;
  }
  /// Overwrites n columns of m >= n elements, which are stored as rows, by R and, behind its elements, the Householder
  /// vectors of Q.
  template <class T>
  static void householder(std::size_t m, std::size_t n, T* a, T* tau, const detail::matrix_memory<T>& w) {
    keep_openblas_on_one_thread();
    const int length = lapack_extent(m), count = lapack_extent(n);
    int info = 0;
    fortran::geqrf(&length, &count, a, &length, tau, w.elements, &w.count, &info);
  }
  /// Overwrites n Householder vectors by the first columns of Q, as rows.
  template <class T>
  static void orthogonal(std::size_t m, std::size_t columns, std::size_t n, T* q, const T* tau,
                         const detail::matrix_memory<T>& w) {
    const int length = lapack_extent(m), count = lapack_extent(columns), vectors = lapack_extent(n);
    int info = 0;
    fortran::orgqr(&length, &count, &vectors, q, &length, tau, w.elements, &w.count, &info);
  }

  template <class T>
  static detail::matrix_needs svd_needs(std::size_t m, std::size_t n) {
    auto needs = query<T>([&](auto w) { svd<T>(true, m, n, nullptr, nullptr, nullptr, nullptr, w); });
    needs.integers = 8 * (m < n ? m : n);
    return needs;
  }
  /// Destroys `a`. The singular values are in descending order.
  template <class T>
  static bool svd(bool vectors, std::size_t m, std::size_t n, T* a, T* u, T* s, T* vt,
                  const detail::matrix_memory<T>& w) {
    keep_openblas_on_one_thread();
    const int rows = lapack_extent(n), columns = lapack_extent(m), k = rows < columns ? rows : columns;
    int info = 0;
    fortran::gesdd(vectors ? "S" : "N", &rows, &columns, a, &rows, s, vt, &rows, u, &k, w.elements, &w.count,
                   w.integers, &info, 1);
    return info == 0;
  }

  template <class T>
  static detail::matrix_needs eigh_needs(std::size_t n) {
    auto needs = query<T>([&](auto w) { eigh<T>(true, n, nullptr, nullptr, w); });
    needs.elements += 64 * n;  // with what LAPACK asks for, small matrices are transformed without blocks
    return needs;
  }
  /// Reads the lower triangle of a symmetric matrix and overwrites the matrix with its eigenvectors, one per row. The
  /// eigenvalues are in ascending order.
  template <class T>
  static bool eigh(bool vectors, std::size_t n, T* a, T* values, const detail::matrix_memory<T>& w) {
    keep_openblas_on_one_thread();
    const int size = lapack_extent(n);
    int info = 0;
    fortran::syevd(vectors ? "V" : "N", "U", &size, a, &size, values, w.elements, &w.count, w.integers,
                   &w.integer_count, &info, 1, 1);
    return info == 0;
  }

  template <class T>
  static detail::matrix_needs eigvals_needs(std::size_t n) {
    return query<T>([&](auto w) { eigvals<T>(n, nullptr, nullptr, nullptr, w); });
  }
  /// Destroys `a`.
  template <class T>
  static bool eigvals(std::size_t n, T* a, T* real, T* imaginary_parts, const detail::matrix_memory<T>& w) {
    keep_openblas_on_one_thread();
    const int size = lapack_extent(n), one = 1;
    int info = 0;
    fortran::geev("N", "N", &size, a, &size, real, imaginary_parts, nullptr, &one, nullptr, &one, w.elements, &w.count,
                  &info, 1, 1);
    return info == 0;
  }

 private:
  template <class T, class Call>
  static detail::matrix_needs query(const Call& call) {
    T elements = 0;
    int integers = 0;
    call(detail::matrix_memory<T>{&elements, &integers, -1, -1});
    // A float may round the number down.
    return {static_cast<std::size_t>(elements * (1 + 1e-6)) + 1, static_cast<std::size_t>(integers)};
  }
};

}  // namespace weft::library
WEFT_COLD_END
