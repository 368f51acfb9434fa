// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <weft/config.hpp>
#include <weft/device/cpu/transpose_elements.hpp>

/// Types that the built-in factorizations and LAPACK's share. Matrices are stored by rows.
namespace weft {
class thread_pool;
}
namespace weft::detail {

/// A triangular matrix of n rows, `lda` elements apart. If `unit`, its diagonal consists of ones that are not stored.
struct triangle {
  std::size_t n, lda;
  bool upper, transposed, unit;
};

/// The memory that a factorization needs while it runs.
struct matrix_needs {
  std::size_t elements = 0, integers = 0;
};
template <class T>
struct matrix_memory {
  T* elements;
  int* integers;
  int count, integer_count;     // for LAPACK; -1 asks for these numbers
  thread_pool* pool = nullptr;  // threads that may help, or null
};

}  // namespace weft::detail
