// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/tensor/dtype.hpp>

namespace weft {

/// C[m, n] = alpha * op(A) * op(B) + beta * C, all contiguous and row-major. op(A) is m x k and op(B) is k x n;
/// transposed operands are stored as k x m and n x k. With beta 0, C need not be initialised. Products of half and
/// bfloat16 are summed and scaled in float, and rounded once.
struct matmul_shape {
  std::size_t m, n, k;
  bool transpose_a = false, transpose_b = false;
};

/// A number of products; the matrices of each operand are consecutive.
struct matmul_batch {
  matmul_shape each;
  std::size_t count, outer;  ///< outer: the extent of the first axis of the result, which covers the rows of all
                             ///< products

  matmul_batch(const matmul_shape& s) : each(s), count(1), outer(s.m) {}
  matmul_batch(const matmul_shape& s, std::size_t n, std::size_t rows) : each(s), count(n), outer(rows) {}
};

namespace detail {

/// A matrix with two strides, so that transposed matrices need no separate code.
template <class T>
struct strided {
  const T* data;
  std::size_t row, column;

  strided at(std::size_t i, std::size_t j) const { return {data + i * row + j * column, row, column}; }
};

template <class T>
strided<T> operand_a(const matmul_shape& s, const T* a) {
  return s.transpose_a ? strided<T>{a, 1, s.m} : strided<T>{a, s.k, 1};
}

template <class T>
strided<T> operand_b(const matmul_shape& s, const T* b) {
  return s.transpose_b ? strided<T>{b, 1, s.k} : strided<T>{b, s.n, 1};
}

// Scales C if required by beta. Returns true if the product must be added to C, false if it overwrites C.
template <class T>
bool adds_to(T* c, std::size_t m, std::size_t n, std::size_t ldc, T beta) {
  if (beta != T(0) && beta != T(1))
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) c[i * ldc + j] *= beta;
  return beta != T(0);
}

}  // namespace detail

// The kernels. A tile of rows x (vectors * lanes) elements of C stays in registers while k runs: each p multiplies that
// many broadcasts of A by that many loads of B. Every element is one chain of multiply-adds in the order of k,
// whichever tile contains it, so a block's bits do not depend on the positions of the tiles. The shape determines the
// kernel.
namespace detail {

// The block of packed operands: a tile's rows of A stay in the first-level cache while B streams past.
inline constexpr std::size_t matmul_depth = 256;  // of k
inline constexpr std::size_t matmul_rows = 96;
inline constexpr std::size_t matmul_columns = 2048;

// Returns the number of columns in a full tile and in a packed panel: two vectors.
template <class T>
constexpr std::size_t matmul_width(isa set) {
  return (set == isa::avx512 ? 128 : set == isa::avx2 ? 64 : 32) / sizeof(T);
}

WEFT_QUIET_BEGIN

// Computes one tile: out = alpha * A * B, or out += alpha * A * B. `last`: the column of the last vector, which can
// overlap with the previous one unless `add`.
template <std::size_t rows, std::size_t vectors, std::size_t lanes, class T>
WEFT_ALWAYS_INLINE void tile(std::size_t k, strided<T> a, const T* b, std::size_t ldb, T* out, std::size_t ldo, T alpha,
                             bool add, std::size_t last = (vectors - 1) * lanes) {
  typedef T vector __attribute__((vector_size(lanes * sizeof(T))));
  typedef T unaligned __attribute__((vector_size(lanes * sizeof(T)), aligned(alignof(T)), may_alias));
  vector sum[rows][vectors] = {};
  for (std::size_t p = 0; p < k; ++p, a.data += a.column, b += ldb) {
    vector right[vectors];
#pragma GCC unroll 16
    for (std::size_t j = 0; j < vectors; ++j)
      right[j] = *reinterpret_cast<const unaligned*>(b + (j + 1 < vectors ? j * lanes : last));
#pragma GCC unroll 16
    for (std::size_t i = 0; i < rows; ++i) {
      const T left = a.data[i * a.row];
#pragma GCC unroll 16
      for (std::size_t j = 0; j < vectors; ++j) sum[i][j] += left * right[j];
    }
  }
#pragma GCC unroll 16
  for (std::size_t i = 0; i < rows; ++i, out += ldo)
#pragma GCC unroll 16
    for (std::size_t j = 0; j < vectors; ++j) {
      auto& element = *reinterpret_cast<unaligned*>(out + (j + 1 < vectors ? j * lanes : last));
      element = add ? static_cast<unaligned>(element + alpha * sum[i][j]) : static_cast<unaligned>(alpha * sum[i][j]);
    }
}

// Returns the sum of a vector's elements.
template <class T, std::size_t lanes>
WEFT_ALWAYS_INLINE T sum_of_lanes(const T* v) {
  if constexpr (lanes == 1) {
    return *v;
  } else {
    constexpr std::size_t half = lanes / 2;
    typedef T vector __attribute__((vector_size(half * sizeof(T)), aligned(alignof(T)), may_alias));
    const vector sum = *reinterpret_cast<const vector*>(v) + *reinterpret_cast<const vector*>(v + half);
    return sum_of_lanes<T, half>(reinterpret_cast<const T*>(&sum));
  }
}

// Computes one row of C from a transposed B, which streams through once, in order: each element is a scalar product.
template <class T>
struct matmul_rows_of_b {
  static constexpr bool written_in_vectors = true;

  std::size_t n, k;
  T alpha;
  const T *a, *b;
  std::size_t ldb;
  T* c;
  bool add;

  template <isa set>
  WEFT_ALWAYS_INLINE void operator()(isa_constant<set>) const {
    constexpr std::size_t lanes = matmul_width<T>(set) / 2;
    std::size_t j = 0;
    for (; j + 4 <= n; j += 4) rows<4, lanes>(j);
    for (; j < n; ++j) rows<1, lanes>(j);
  }

 private:
  template <std::size_t count, std::size_t lanes>
  WEFT_ALWAYS_INLINE void rows(std::size_t j) const {
    typedef T vector __attribute__((vector_size(lanes * sizeof(T)), aligned(alignof(T)), may_alias));
    vector sum[count] = {};
    std::size_t p = 0;
    for (; p + lanes <= k; p += lanes) {
      const vector left = *reinterpret_cast<const vector*>(a + p);
#pragma GCC unroll 4
      for (std::size_t r = 0; r < count; ++r) sum[r] += left * *reinterpret_cast<const vector*>(b + (j + r) * ldb + p);
    }
#pragma GCC unroll 4
    for (std::size_t r = 0; r < count; ++r) {
      T total = sum_of_lanes<T, lanes>(reinterpret_cast<const T*>(&sum[r]));
      for (std::size_t q = p; q < k; ++q) total += a[q] * b[(j + r) * ldb + q];
      c[j + r] = add ? c[j + r] + alpha * total : alpha * total;
    }
  }
};

WEFT_QUIET_END

// Computes one block of C by tiles, all two vectors wide. B is packed into panels of that width, padded with zeros, or
// is used in place, with n >= the width. In the latter case, the last tile is shifted left to end with C, and only its
// new columns are stored.
template <class T>
struct matmul_block {
  static constexpr bool written_in_vectors = true;

  std::size_t m, n, k;
  T alpha;
  strided<T> a;
  const T* b;
  std::size_t ldb;
  bool packed;
  T* c;
  std::size_t ldc;
  bool add;

  template <isa set>
  WEFT_ALWAYS_INLINE void operator()(isa_constant<set>) const {
    constexpr std::size_t width = matmul_width<T>(set);
    const std::size_t whole = n / width * width;
    const std::size_t moved = packed ? 0 : width - (n - whole);
    T spill[6 * width];
    for (std::size_t i = 0, rows = 0; i < m; i += rows) {
      const std::size_t left = m - i;
      rows = left >= 6 && left != 8 ? 6 : left >= 4 ? 4 : 1;
      if (rows == 6)
        row_of_tiles<6, width>(i, spill, moved);
      else if (rows == 4)
        row_of_tiles<4, width>(i, spill, moved);
      else
        row_of_tiles<1, width>(i, spill, moved);
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t j = whole; j < n; ++j) {
          T& element = c[(i + r) * ldc + j];
          const T sum = spill[r * width + moved + (j - whole)];
          element = add ? element + alpha * sum : alpha * sum;
        }
    }
  }

 private:
  template <std::size_t rows, std::size_t width>
  WEFT_ALWAYS_INLINE void row_of_tiles(std::size_t i, T* spill, std::size_t moved) const {
    for (std::size_t j = 0; j < n; j += width) {
      const bool whole = n - j >= width;
      const T* const from = b + (packed ? j * k : whole ? j : j - moved);
      tile<rows, 2, width / 2>(k, a.at(i, 0), from, ldb, whole ? c + i * ldc + j : spill, whole ? ldc : width,
                               whole ? alpha : T(1), whole && add);
    }
  }
};

// Computes C row by row, with eight rows of B at a time, so that B and C stream through once, in order. For one row of
// A, or a short k.
template <class T>
struct matmul_rows_of_c {
  std::size_t m, n, k;
  T alpha;
  strided<T> a;
  const T* b;
  std::size_t ldb;
  T* c;
  std::size_t ldc;
  bool add;

  WEFT_INLINE void operator()() const {
    for (std::size_t i = 0; i < m; ++i) {
      const T* const left = a.data + i * a.row;
      T* const out = c + i * ldc;
      const std::size_t whole = k / 8 * 8;
      if (!add) {
        WEFT_VECTORIZE
        for (std::size_t j = 0; j < n; ++j) out[j] = 0;
      }
      for (std::size_t p = 0; p < whole; p += 8) {
        T x[8];
        for (std::size_t q = 0; q < 8; ++q) x[q] = alpha * left[(p + q) * a.column];
        const T *b0 = b + p * ldb, *b1 = b0 + ldb, *b2 = b1 + ldb, *b3 = b2 + ldb;
        const T *b4 = b3 + ldb, *b5 = b4 + ldb, *b6 = b5 + ldb, *b7 = b6 + ldb;
        along_row([&](std::size_t j) {
          out[j] = out[j] + x[0] * b0[j] + x[1] * b1[j] + x[2] * b2[j] + x[3] * b3[j] + x[4] * b4[j] + x[5] * b5[j] +
                   x[6] * b6[j] + x[7] * b7[j];
        });
      }
      for (std::size_t p = whole; p < k; ++p) {
        const T x = alpha * left[p * a.column];
        const T* const right = b + p * ldb;
        along_row([&](std::size_t j) { out[j] += x * right[j]; });
      }
    }
  }

 private:
  // In runs of a fixed length, which compile to straight-line code: a loop over a row of a hundred elements takes as
  // long as the row.
  template <class F>
  WEFT_INLINE void along_row(F element) const {
    constexpr std::size_t run = 128 / sizeof(T);
    const std::size_t whole = n / run * run;
    for (std::size_t j = 0; j < whole; j += run) {
      WEFT_VECTORIZE
      for (std::size_t l = 0; l < run; ++l) element(j + l);
    }
    WEFT_VECTORIZE
    for (std::size_t j = whole; j < n; ++j) element(j);
  }
};

// The same for rows that fit into `vectors` registers of AVX-512, for one of several counts. B streams through in
// order, for which the second-level cache delivers 1.3 to 1.9 times as much as for eight rows at a time. Rows that do
// not fill their last vector need at least one vector, and `add` must be false.
template <class T, std::size_t... vectors>
struct matmul_rows_in_registers {
  static constexpr bool written_in_vectors = true;

  matmul_rows_of_c<T> of;

  template <isa set>
  WEFT_ALWAYS_INLINE void operator()(isa_constant<set>) const {
    if constexpr (set == isa::avx512)
      for (std::size_t i = 0; i < of.m; ++i) (row<vectors>(i), ...);
  }

 private:
  template <std::size_t count>
  WEFT_ALWAYS_INLINE void row(std::size_t i) const {
    constexpr std::size_t lanes = matmul_width<T>(isa::avx512) / 2;
    if ((of.n + lanes - 1) / lanes == count)
      tile<1, count, lanes>(of.k, of.a.at(i, 0), of.b, of.ldb, of.c + i * of.ldc, of.ldc, of.alpha, of.add,
                            of.n - lanes);
  }
};

template <class T>
void matmul_stream(const matmul_rows_of_c<T>& rows) {
  if constexpr (std::is_floating_point_v<T>)
    if (constexpr std::size_t step = 256 / sizeof(T);  // four vectors
        rows.m <= 2 && rows.n % step == 0 && rows.n <= 4 * step && detected_isa() == isa::avx512)
      return multiversioned(matmul_rows_in_registers<T, 4, 8, 12, 16>{rows});
  multiversioned_up_to_avx2(rows);
}

// A thread's memory for packed operands. It grows to the largest block and is kept.
class matmul_scratch {
 public:
  ~matmul_scratch() { release(); }

  void* reserve(std::size_t bytes) {
    if (bytes > size_) {
      release();
      memory_ = ::operator new(bytes, std::align_val_t{64});
      size_ = bytes;
    }
    return memory_;
  }

 private:
  void release() {
    if (size_ != 0) ::operator delete(memory_, std::align_val_t{64});
    size_ = 0;
  }

  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

inline constexpr std::size_t least(std::size_t a, std::size_t b) { return a < b ? a : b; }

template <class T>
void pack_a(strided<T> a, std::size_t m, std::size_t k, T* to) {
  if (a.row == 1) {
    for (std::size_t p = 0; p < k; ++p)
      for (std::size_t i = 0; i < m; ++i) to[i * k + p] = a.data[p * a.column + i];
  } else {
    for (std::size_t i = 0; i < m; ++i) __builtin_memcpy(to + i * k, a.data + i * a.row, k * sizeof(T));
  }
}

template <class T>
struct pack_b {
  static constexpr bool written_in_vectors = true;  // copies whole panels

  strided<T> b;
  std::size_t k, n;
  T* to;

  template <isa set>
  WEFT_ALWAYS_INLINE void operator()(isa_constant<set>) const {
    constexpr std::size_t width = matmul_width<T>(set);
    T* out = to;
    for (std::size_t j = 0; j < n; j += width, out += width * k) {
      const T* const from = b.data + j * b.column;
      if (n - j >= width && b.column == 1) {
        for (std::size_t p = 0; p < k; ++p) __builtin_memcpy(out + p * width, from + p * b.row, width * sizeof(T));
        continue;
      }
      if (n - j < width) __builtin_memset(out, 0, width * k * sizeof(T));
      for (std::size_t q = 0; q < least(width, n - j); ++q)
        for (std::size_t p = 0; p < k; ++p) out[p * width + q] = from[q * b.column + p * b.row];
    }
  }
};

WEFT_COLD_BEGIN

/// The number of elements that a packed product needs as scratch memory, on any processor.
template <class T>
constexpr std::size_t matmul_packed_elements(std::size_t n, std::size_t k) {
  constexpr std::size_t width = matmul_width<T>(isa::avx512);
  return ((least(n, matmul_columns) + width - 1) / width * width + matmul_rows) * (least(k, matmul_depth) + 1);
}

template <class T>
void matmul_packed(std::size_t m, std::size_t n, std::size_t k, T alpha, strided<T> a, strided<T> b, T* c,
                   std::size_t ldc, bool add, T* scratch) {
  const std::size_t width = matmul_width<T>(detected_isa());
  const std::size_t depth = least(k, matmul_depth);
  const std::size_t columns = (least(n, matmul_columns) + width - 1) / width * width;
  T* const packed_b = scratch;
  T* const packed_a = packed_b + columns * depth;
  for (std::size_t j = 0; j < n; j += matmul_columns)
    for (std::size_t p = 0; p == 0 || p < k; p += matmul_depth) {
      const std::size_t nj = least(n - j, matmul_columns), kp = least(k - p, matmul_depth);
      multiversioned(pack_b<T>{b.at(p, j), kp, nj, packed_b});
      for (std::size_t i = 0; i < m; i += matmul_rows) {
        const std::size_t mi = least(m - i, matmul_rows);
        strided<T> left = a.at(i, p);
        if (m * k > matmul_rows * matmul_depth) {
          pack_a(left, mi, kp, packed_a);
          left = {packed_a, kp, 1};
        }
        T* const out = c + i * ldc + j;
        multiversioned(matmul_block<T>{mi, nj, kp, alpha, left, packed_b, width, true, out, ldc, add || p != 0});
      }
    }
}

WEFT_COLD_END

template <class T>
T* matmul_scratch_of_thread(std::size_t n, std::size_t k) {
  static thread_local matmul_scratch scratch;
  return static_cast<T*>(scratch.reserve(matmul_packed_elements<T>(n, k) * sizeof(T)));
}

// Returns true if the product should stream: few rows would leave a tile's registers empty, and with k = 1 C itself is
// the traffic.
inline bool matmul_streams(std::size_t m, std::size_t n, std::size_t k) { return m <= 2 || (k == 1 && n >= 32); }

// Returns true if B can be used in place: a tile fits its rows, and B fits into the second-level cache or is read too
// seldom to be copied.
template <class T>
bool matmul_stays_in_place(std::size_t m, std::size_t n, std::size_t k) {
  return n >= matmul_width<T>(detected_isa()) && (m < 48 || n * k * sizeof(T) <= (std::size_t{1} << 18));
}

}  // namespace detail

namespace library {

/// Weft's own kernels, which need no library.
struct reference {
  template <class T>
  static constexpr bool handles = true;

  /// Computes a product on one thread. The leading dimensions allow blocks of larger matrices. `scratch`: memory for
  /// matmul_packed_elements<T>(n, k), or null for the thread's own.
  template <class T>
  static void matmul(const matmul_shape& s, T alpha, const T* a, std::size_t lda, const T* b, std::size_t ldb, T beta,
                     T* c, std::size_t ldc, T* scratch = nullptr) {
    if (s.n == 1 && ldc == 1 && (s.transpose_b || ldb == 1) && (s.m > 1 || !s.transpose_b))  // a matrix times a vector
      return matmul({1, s.m, s.k, false, !s.transpose_a}, alpha, b, s.k, a, lda, beta, c, s.m, scratch);
    const detail::strided<T> left = s.transpose_a ? detail::strided<T>{a, 1, lda} : detail::strided<T>{a, lda, 1};
    const detail::strided<T> right = s.transpose_b ? detail::strided<T>{b, 1, ldb} : detail::strided<T>{b, ldb, 1};
    const bool add = detail::adds_to(c, s.m, s.n, ldc, beta);
    if (s.k == 0) {  // operands without elements may be null and then have no rows
      for (std::size_t i = 0; !add && i < s.m; ++i)
        for (std::size_t j = 0; j < s.n; ++j) c[i * ldc + j] = T(0);
      return;
    }
    if (s.transpose_b && s.m == 1 && left.column == 1)
      multiversioned(detail::matmul_rows_of_b<T>{s.n, s.k, alpha, a, b, ldb, c, add});
    else if (!s.transpose_b && detail::matmul_streams(s.m, s.n, s.k))
      detail::matmul_stream(detail::matmul_rows_of_c<T>{s.m, s.n, s.k, alpha, left, b, ldb, c, ldc, add});
    else if (!s.transpose_b && detail::matmul_stays_in_place<T>(s.m, s.n, s.k))
      multiversioned(detail::matmul_block<T>{s.m, s.n, s.k, alpha, left, b, ldb, false, c, ldc, add});
    else
      detail::matmul_packed(s.m, s.n, s.k, alpha, left, right, c, ldc, add,
                            scratch ? scratch : detail::matmul_scratch_of_thread<T>(s.n, s.k));
  }
};

}  // namespace library
}  // namespace weft
