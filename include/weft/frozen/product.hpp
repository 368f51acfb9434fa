// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/cpu/matmul_strips.hpp>
#if defined(WEFT_HAS_DNNL)
  #include <weft/device/cpu/matmul_dnnl.hpp>
#endif

namespace weft::detail {
template <class S, std::size_t Count>
void map_loop(const void* const* in, void* const* out, std::size_t n, const std::uint64_t* literals);
}

/// Matrix products of frozen models; of float by oneDNN if WEFT_HAS_DNNL is defined.
namespace weft::frozen {

/// Computes a product on one thread. `scratch`: memory for matmul_packed_elements<T>(n, k), or null if no part of the
/// product is packed.
template <class T>
void product(const matmul_shape& s, const T* a, const T* b, T* c, T* scratch) {
  weft::detail::multiply_in_strips(
      s, a, b, c,
      [&](const matmul_shape& part, const T* x, std::size_t lda, const T* y, std::size_t ldb, T* z) {
#if defined(WEFT_HAS_DNNL)
        if constexpr (library::dnnl::handles<T>) return library::dnnl::matmul(part, 1, x, lda, y, ldb, 0, z, s.n);
#endif
        library::reference::matmul(part, T(1), x, lda, y, ldb, T(0), z, s.n, scratch);
      },
      [](std::size_t strips, const auto& strip) {
        for (std::size_t index = 0; index < strips; ++index) strip(index);
      });
}

/// Computes a product of at most two rows, or of depth 1, which reads b once, with the bits of a session. a is not
/// transposed.
template <class T, std::size_t Columns>
void row_product(const matmul_shape& s, const T* a, const T* b, T* c) {
  using namespace weft::detail;
  if constexpr (Columns == 1) return multiversioned(matmul_rows_of_b<T>{s.m, s.k, T(1), b, a, s.k, c, false});
  const matmul_rows_of_c<T> rows{s.m, Columns, s.k, T(1), operand_a(s, a), b, Columns, c, Columns, false};
  constexpr std::size_t lanes = matmul_width<T>(isa::avx512) / 2, count = (Columns + lanes - 1) / lanes;
  if constexpr (Columns >= lanes && count <= 16)
    if (detected_isa() == isa::avx512) return multiversioned(isa::avx512, matmul_rows_in_registers<T, count>{rows});
  multiversioned_up_to_avx2(rows);
}

/// A product of one row, and then the expression S, if any, of its elements and of other operands.
template <class T, std::size_t Columns, std::size_t Depth, class... S>
struct one_row {
  static constexpr std::size_t lanes = weft::detail::matmul_width<T>(isa::avx512) / 2,
                               vectors = (Columns + lanes - 1) / lanes;
  static constexpr bool in_registers = Columns >= lanes && vectors <= 16;

  const T *a, *b;
  T* c;
  const void* const* in;
  const std::uint64_t* literals;

  template <isa set>
  WEFT_ALWAYS_INLINE void operator()(isa_constant<set> s) const {
    const weft::detail::matmul_rows_of_c<T> rows{1, Columns, Depth, T(1), {a, Depth, 1}, b, Columns, c, Columns, false};
    if constexpr (set == isa::avx512 && in_registers)
      weft::detail::matmul_rows_in_registers<T, vectors>{rows}(s);
    else
      rows();
    void* const out = c;
    (weft::detail::map_loop<S, Columns>(in, &out, Columns, literals), ...);
  }
  void run() const {
    if constexpr (in_registers)
      multiversioned(*this);
    else
      multiversioned_up_to_avx2(*this);
  }
};
/// Computes a product of one row, whose extents are known.
template <class T, std::size_t Columns, std::size_t Depth>
void row_product(const T* a, const T* b, T* c) {
  one_row<T, Columns, Depth>{a, b, c, nullptr, nullptr}.run();
}
/// The same, followed by the expression S, whose results overwrite the product.
template <class T, std::size_t Columns, std::size_t Depth, class S, std::size_t Inputs>
void row_product(const T* a, const T* b, T* c, const void* const (&in)[Inputs],
                 const std::uint64_t* literals = nullptr) {
  one_row<T, Columns, Depth, S>{a, b, c, in, literals}.run();
}

/// Computes `all.count` products, in the panels of a session's kernel if an expression follows (`followed`).
template <class T>
void products(const matmul_batch& all, bool followed, const T* a, const T* b, T* c, T* scratch) {
  const auto [m, n, k, ta, tb] = all.each;
  for (std::size_t i = 0; all.count != 1 && i < all.count; ++i)
    product(all.each, a + i * m * k, b + i * k * n, c + i * m * n, scratch);
  if (all.count != 1) return;
  const std::size_t panels = followed ? weft::detail::matmul_panels<T>(all.each, 1, all.outer) : 1;
  if (panels == 1) return product(all.each, a, b, c, scratch);
  const std::size_t rows = m / all.outer;
  for (std::size_t i = 0; i < panels; ++i) {
    const std::size_t begin = all.outer * i / panels * rows, end = all.outer * (i + 1) / panels * rows;
    product({end - begin, n, k, ta, tb}, a + begin * k, b, c + begin * n, scratch);
  }
}

/// Weights as 8-bit integers: element (p, j) of the matrix is values[p * n + j] * scales[j].
struct quantized {
  const std::int8_t* values;
  const float* scales;
};

/// Writes the elements of a matrix in rows of `stride` elements, followed by zeros.
inline void dequantize(const quantized& from, float* to, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  multiversioned_up_to_avx2([=] {
    for (std::int64_t p = 0; p < rows; ++p) {
      const std::int8_t* const row = from.values + p * columns;
      float* const out = to + p * stride;
      WEFT_VECTORIZE
      for (std::int64_t j = 0; j < columns; ++j) out[j] = static_cast<float>(row[j]) * from.scales[j];
      for (std::int64_t j = columns; j < stride; ++j) out[j] = 0;
    }
  });
}

/// Computes a product of few rows with a quantized matrix, which is read once for each row.
inline void quantized_product(const matmul_shape& s, const float* a, const quantized& b, float* c) {
  multiversioned([=] {
    const std::size_t n = s.n, k = s.k;
    for (std::size_t i = 0; i < s.m; ++i) {
      float* const out = c + i * n;
      const std::int8_t* q = b.values;
      for (std::size_t j = 0; j < n; ++j) out[j] = 0;
      std::size_t p = 0;
      for (; p + 4 <= k; p += 4, q += 4 * n) {
        const float* const x = a + i * k + p;
        WEFT_VECTORIZE
        for (std::size_t j = 0; j < n; ++j)
          out[j] += x[0] * static_cast<float>(q[j]) + x[1] * static_cast<float>(q[n + j]) +
                    x[2] * static_cast<float>(q[2 * n + j]) + x[3] * static_cast<float>(q[3 * n + j]);
      }
      for (; p < k; ++p, q += n)
        for (std::size_t j = 0; j < n; ++j) out[j] += a[i * k + p] * static_cast<float>(q[j]);
      for (std::size_t j = 0; j < n; ++j) out[j] *= b.scales[j];
    }
  });
}

}  // namespace weft::frozen
