// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/cpu/math.hpp>
#include <weft/tensor/dims.hpp>
#include <weft/tensor/dtype.hpp>

/// The passes of batch normalization over a matrix of rows [row][channel], which threads share in pieces.
namespace weft::device {

/// The division of the matrix. Several rows of few channels form one line, so that lines fill vectors; the remaining
/// rows form a shorter line at the end. The division depends only on the extents.
struct normalization_pieces {
  std::size_t rows = 0, channels = 0;
  std::size_t repeats = 1, width = 0;  ///< the rows in a line, and its elements
  std::size_t lines = 0, rest = 0;     ///< complete lines, and the elements in the shorter last line
  std::size_t blocks = 1, chunks = 1;  ///< the number of column blocks, and of line chunks

  normalization_pieces() = default;
  normalization_pieces(std::size_t all_rows, std::size_t of_channels) : rows(all_rows), channels(of_channels) {
    constexpr std::size_t narrow = 64, most_columns = 512, elements = 32768, fewest = 64, most = 1024;
    width = channels;
    if (rows == 0 || channels == 0) return;
    if (channels < narrow) repeats = narrow / channels < rows ? narrow / channels : rows;
    width = repeats * channels;
    lines = rows / repeats;
    rest = rows % repeats * channels;
    blocks = (width + most_columns - 1) / most_columns;
    std::size_t of_chunk = elements * blocks / width;
    of_chunk = of_chunk < fewest ? fewest : of_chunk > most ? most : of_chunk;
    chunks = (lines + of_chunk - 1) / of_chunk;
  }

  std::size_t count() const { return rows > 0 && channels > 0 ? blocks * chunks : 0; }
  std::size_t first_line(std::size_t chunk) const { return lines * chunk / chunks; }
  std::size_t first_column(std::size_t block) const { return width * block / blocks; }

  /// Some columns of some lines. `rest`: how many of the columns the shorter line contains, in the last chunk.
  struct piece {
    std::size_t chunk, first, lines, column, columns, rest;
  };
  piece operator[](std::size_t i) const {
    piece p{};
    const std::size_t block = i % blocks;
    p.chunk = i / blocks;
    p.first = first_line(p.chunk);
    p.lines = first_line(p.chunk + 1) - p.first;
    p.column = first_column(block);
    p.columns = first_column(block + 1) - p.column;
    if (p.chunk + 1 == chunks && rest > p.column) p.rest = rest - p.column < p.columns ? rest - p.column : p.columns;
    return p;
  }
};

// All loops run along columns, which are adjacent. Their pointers refer to a piece's first column.

/// Computes sums of columns and of their squares, both of the difference from the column's first element.
template <class T, class S>
struct sums_of_columns {
  std::size_t lines, columns, width;
  const T* x;
  S* sums;
  S* squares;

  WEFT_INLINE void operator()() const {
    for (std::size_t c = 0; c < columns; ++c) sums[c] = squares[c] = 0;
    std::size_t i = 0;
    for (; i + 8 <= lines; i += 8) add(x + i * width, typename weft::detail::make_indices<8>::type());
    for (; i < lines; ++i) add(x + i * width, weft::detail::indices<0>());
  }

 private:
  template <std::size_t... Line>
  WEFT_INLINE void add(const T* from, weft::detail::indices<Line...>) const {
    WEFT_VECTORIZE
    for (std::size_t c = 0; c < columns; ++c) {
      const S shift = static_cast<S>(x[c]);
      S sum = 0, square = 0;
      (add(static_cast<S>(from[Line * width + c]) - shift, sum, square), ...);
      sums[c] += sum;
      squares[c] += square;
    }
  }
  static WEFT_INLINE void add(S d, S& sum, S& square) {
    sum += d;
    square += d * d;
  }
};

/// Merges the sums of a chunk into the columns' means and sums of squared deviations (Chan, Golub and LeVeque 1979).
template <class T, class S>
struct merge_moments {
  std::size_t columns;
  double before, lines;  ///< elements of each column in previous chunks, and in this chunk
  const T* x;            ///< the chunk's first line
  const S* sums;
  const S* squares;
  double* mean;
  double* deviations;

  WEFT_INLINE void operator()() const {
    const double share = lines / (before + lines), weight = before * share;
    WEFT_VECTORIZE
    for (std::size_t c = 0; c < columns; ++c) {
      const double sum = static_cast<double>(sums[c]), average = sum / lines;
      const double delta = static_cast<double>(static_cast<S>(x[c])) + average - mean[c];
      mean[c] += delta * share;
      deviations[c] += static_cast<double>(squares[c]) - sum * average + delta * delta * weight;
    }
  }
};

/// Computes y = (x - mean) * scale + shift [+ residual], but at least `least`.
template <class T, class S, bool Residual>
struct normalize_columns {
  std::size_t lines, columns, width;
  const T* x;
  const T* residual;
  T* y;
  const S* mean;
  const S* scale;
  const S* shift;
  S least;

  WEFT_INLINE void operator()() const {
    for (std::size_t i = 0; i < lines; ++i) {
      const T* const from = x + i * width;
      const T* const other = Residual ? residual + i * width : nullptr;
      T* const to = y + i * width;
      WEFT_VECTORIZE
      for (std::size_t c = 0; c < columns; ++c) {
        S value = (static_cast<S>(from[c]) - mean[c]) * scale[c] + shift[c];
        if constexpr (Residual) value += static_cast<S>(other[c]);
        to[c] = static_cast<T>(value < least ? least : value);
      }
    }
  }
};

/// How to find the elements that a ReLU passed: all of them without a ReLU; by the sign of its operand, recomputed in
/// the same way; or by the sign of the result.
enum class relu_mask : unsigned char { none, computed, result };

/// Computes column sums of the gradient after the ReLU, and of its product with x - mean. If the mask comes from the
/// result, also writes this gradient.
template <class T, class S, relu_mask Mask>
struct sums_of_gradients {
  std::size_t lines, columns, width;
  const T* x;
  const T* upstream;
  const T* y;
  T* behind;
  const S* mean;
  const S* scale;
  const S* shift;
  S* sums;
  S* products;
  bool add_to_them;

  WEFT_INLINE void operator()() const {
    if (!add_to_them)
      for (std::size_t c = 0; c < columns; ++c) sums[c] = products[c] = 0;
    std::size_t i = 0;
    for (; i + 4 <= lines; i += 4) add(i * width, typename weft::detail::make_indices<4>::type());
    for (; i < lines; ++i) add(i * width, weft::detail::indices<0>());
  }

 private:
  template <std::size_t... Line>
  WEFT_INLINE void add(std::size_t start, weft::detail::indices<Line...>) const {
    WEFT_VECTORIZE
    for (std::size_t c = 0; c < columns; ++c) {
      S sum = 0, product = 0;
      (add(start + Line * width + c, mean[c], scale[c], shift[c], sum, product), ...);
      sums[c] += sum;
      products[c] += product;
    }
  }
  WEFT_INLINE void add(std::size_t i, S average, S factor, S added, S& sum, S& product) const {
    const S centred = static_cast<S>(x[i]) - average;
    S g = static_cast<S>(upstream[i]);
    if constexpr (Mask == relu_mask::computed) g = math::select(centred * factor + added > 0, g, S(0));
    if constexpr (Mask == relu_mask::result) {
      g = math::select(static_cast<S>(y[i]) > 0, g, S(0));
      behind[i] = static_cast<T>(g);
    }
    sum += g;
    product += g * centred;
  }
};

/// Computes dx = g * scale + (x - mean) * slope + constant, where g is the gradient after the ReLU.
template <class T, class S, bool Masked>
struct gradients_of_columns {
  std::size_t lines, columns, width;
  const T* x;
  const T* upstream;
  T* dx;
  const S* mean;
  const S* scale;
  const S* shift;
  const S* slope;
  const S* constant;

  WEFT_INLINE void operator()() const {
    for (std::size_t i = 0; i < lines; ++i) {
      const T* const from = x + i * width;
      const T* const up = upstream + i * width;
      T* const to = dx + i * width;
      WEFT_VECTORIZE
      for (std::size_t c = 0; c < columns; ++c) {
        const S centred = static_cast<S>(from[c]) - mean[c];
        S g = static_cast<S>(up[c]);
        if constexpr (Masked) g = math::select(centred * scale[c] + shift[c] > 0, g, S(0));
        to[c] = static_cast<T>(g * scale[c] + centred * slope[c] + constant[c]);
      }
    }
  }
};

}  // namespace weft::device
