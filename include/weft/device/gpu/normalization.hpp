// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/math.hpp>
#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/indexing.hpp>
#include <weft/device/gpu/warp.hpp>

/// Normalization of the columns and of the rows of a matrix.
namespace weft::gpu {

#if WEFT_COMPILES_FOR_GPU

/// Computes two sums of each column over a split of the rows. A block has 32 columns, with 8 threads for each.
/// `Terms::add(row, first, column, i, a, b)` adds the terms of element i; `first` is the first row of the split.
template <class S, class Terms>
struct sums_of_splits {
  static constexpr unsigned threads = 256;
  static constexpr int phases = 2;
  static constexpr unsigned columns_of_block = 32, lanes = threads / columns_of_block;
  struct block_memory {
    S first[threads], second[threads];
  };
  using thread_memory = nothing;

  Terms terms;
  std::uint32_t rows, columns, split;
  S* sums;  ///< [split][2][column]

  template <int Phase>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, block_memory& ours) const {
    const std::uint32_t lane = at.thread / columns_of_block;
    const std::uint32_t column = at.block * columns_of_block + at.thread % columns_of_block;
    if (column >= columns) return;
    if constexpr (Phase == 0) {
      const std::uint32_t begin = at.block_y * split, end = rows - begin < split ? rows : begin + split;
      S first = 0, second = 0;
      for (std::uint32_t row = begin + lane; row < end;) {  // some rows at a time, to limit rounding in long columns
        S a = 0, b = 0;
        for (int k = 0; k < 64 && row < end; ++k, row += lanes)
          terms.add(row, begin, column, row * columns + column, a, b);
        first += a, second += b;
      }
      ours.first[at.thread] = first;
      ours.second[at.thread] = second;
    } else if (lane == 0) {
      S first = 0, second = 0;
      for (unsigned l = at.thread; l < threads; l += columns_of_block) first += ours.first[l], second += ours.second[l];
      sums[2 * at.block_y * columns + column] = first;
      sums[(2 * at.block_y + 1) * columns + column] = second;
    }
  }
};

/// Adds the difference from the split's first row, and its square.
template <class T, class S>
struct terms_of_moments {
  const T* x;
  std::uint32_t columns;
  WEFT_HOST_DEVICE void add(std::uint32_t, std::uint32_t first, std::uint32_t column, std::uint32_t i, S& a,
                            S& b) const {
    const S d = static_cast<S>(x[i]) - static_cast<S>(x[first * columns + column]);
    a += d;
    b += d * d;
  }
};

/// The parameters of a batch, for each channel.
template <class S>
struct batch_parameters {
  const S* scale;
  const S* mean;
  const S* reciprocal;
  const S* shift;
};

/// Adds the gradient after a ReLU, and its product with x - mean. The ReLU's mask: 0 none, 1 recomputed, 2 from the
/// result, in which case this gradient is also written.
template <class T, class S, int Mask>
struct terms_of_batch_gradients : batch_parameters<S> {
  const T* x;
  const T* upstream;
  const T* y;
  T* behind;
  WEFT_HOST_DEVICE S gradient(std::uint32_t column, std::uint32_t i, S centred) const {
    const S g = static_cast<S>(upstream[i]);
    if constexpr (Mask == 1)
      return centred * (this->scale[column] * this->reciprocal[column]) + this->shift[column] > 0 ? g : S(0);
    else if constexpr (Mask == 2)
      return static_cast<S>(y[i]) > 0 ? g : S(0);
    else
      return g;
  }
  WEFT_HOST_DEVICE void add(std::uint32_t, std::uint32_t, std::uint32_t column, std::uint32_t i, S& a, S& b) const {
    const S centred = static_cast<S>(x[i]) - this->mean[column], g = gradient(column, i, centred);
    if constexpr (Mask == 2) behind[i] = static_cast<T>(g);
    a += g;
    b += g * centred;
  }
};

/// Adds the gradients of the offset and the scale of normalized rows.
template <class T, bool Centred>
struct terms_of_row_gradients {
  const T* x;
  const T* upstream;
  const T* reciprocals;
  const T* means;
  WEFT_HOST_DEVICE void add(std::uint32_t row, std::uint32_t, std::uint32_t, std::uint32_t i, T& a, T& b) const {
    const T mean = Centred ? means[row] : T(0);
    a += upstream[i];
    b += upstream[i] * ((x[i] - mean) * reciprocals[row]);
  }
};

/// Merges the splits of a column into moments or sums; one thread for each column.
template <class S>
struct merge_splits : plain_body {
  const S* sums;
  const S* reciprocal;  ///< if given, multiplies the second sum
  S* first;             ///< may be null
  S* second;
  std::uint32_t columns, splits;

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    const std::uint32_t column = at.block * threads + at.thread;
    if (column >= columns) return;
    double a = 0, b = 0;
    for (std::uint32_t k = 0; k < splits; ++k) {
      a += static_cast<double>(sums[2 * k * columns + column]);
      b += static_cast<double>(sums[(2 * k + 1) * columns + column]);
    }
    if (first) first[column] = static_cast<S>(a);
    second[column] = static_cast<S>(reciprocal ? b * static_cast<double>(reciprocal[column]) : b);
  }
};
template <class T, class S>
struct merge_moments_of_splits : plain_body {
  const T* x;
  const S* sums;
  const S* scale;
  const S* offset;
  S* mean;
  S* variance;
  S* reciprocal;
  S* shift;
  double epsilon;
  std::uint32_t rows, columns, split, splits;

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    const std::uint32_t column = at.block * threads + at.thread;
    if (column >= columns) return;
    double average = 0, deviations = 0;
    for (std::uint32_t k = 0; k < splits; ++k) {
      const std::uint32_t begin = k * split;
      const double before = begin, n = rows - begin < split ? rows - begin : split;
      const double sum = static_cast<double>(sums[2 * k * columns + column]);
      const double delta = static_cast<double>(static_cast<S>(x[begin * columns + column])) + sum / n - average;
      average += delta * (n / (before + n));
      deviations += static_cast<double>(sums[(2 * k + 1) * columns + column]) - sum * (sum / n) +
                    delta * delta * (before * n / (before + n));
    }
    if (rows == 0) average = deviations = __builtin_nan("");
    const double of = rows == 0 ? deviations : deviations / rows;
    mean[column] = static_cast<S>(average);
    variance[column] = static_cast<S>(of);
    reciprocal[column] = static_cast<S>(1 / math::sqrt(of + epsilon));
    const S factor = scale[column] * reciprocal[column];
    shift[column] = static_cast<S>(static_cast<double>(offset[column]) -
                                   (average - static_cast<double>(mean[column])) * static_cast<double>(factor));
  }
};

template <class T, class S>
struct normalize_batch : batch_parameters<S>, plain_body {
  const T* x;
  const T* residual;
  T* y;
  std::uint32_t elements;
  divisor columns;
  bool relu;

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    for (std::uint32_t i = at.block * threads + at.thread; i < elements; i += at.blocks * threads) {
      const std::uint32_t c = i - columns.divide(i) * columns.extent;
      S value = (static_cast<S>(x[i]) - this->mean[c]) * (this->scale[c] * this->reciprocal[c]) + this->shift[c];
      if (residual) value += static_cast<S>(residual[i]);
      y[i] = static_cast<T>(relu && value < 0 ? S(0) : value);
    }
  }
};

/// Computes the gradient of x. If the mask comes from the result, the gradient after the ReLU has already been written.
template <class T, class S, int Mask>
struct gradients_of_batch : plain_body {
  terms_of_batch_gradients<T, S, Mask == 1> of;
  T* dx;
  const S* of_scale;
  const S* of_offset;
  std::uint32_t elements;
  S rows;
  divisor columns;

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    for (std::uint32_t i = at.block * threads + at.thread; i < elements; i += at.blocks * threads) {
      const std::uint32_t c = i - columns.divide(i) * columns.extent;
      const S centred = static_cast<S>(of.x[i]) - of.mean[c], reciprocal = of.reciprocal[c];
      const S g = of.gradient(c, i, centred);
      dx[i] =
          static_cast<T>((of.scale[c] * reciprocal) * (g - (of_offset[c] + centred * reciprocal * of_scale[c]) / rows));
    }
  }
};

/// The threads that share a row.
struct row_threads {
  std::uint32_t rows, columns, lanes_log;
};

/// Normalizes a row by its own moments: computes its sum, its squared deviations and its result.
template <class T, bool Centred>
struct normalize_rows_body : row_threads {
  static constexpr unsigned threads = 256;
  static constexpr int phases = 5;
  static constexpr unsigned emulated_phases = 0b01010;
  struct block_memory {
    T sum[threads], squares[threads];
  };
  using thread_memory = nothing;

  const T* x;
  const T* scale;
  const T* offset;
  T* y;
  T* reciprocals;
  T* means;
  T epsilon;

  template <int Phase>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, block_memory& ours) const {
    const auto added = [](T a, T b) { return a + b; };
    const std::uint32_t lanes = 1u << lanes_log, lane = at.thread & (lanes - 1), first = at.thread - lane;
    const std::uint32_t row = at.block * (threads >> lanes_log) + (at.thread >> lanes_log);
    const bool exists = row < rows;
    const T* const from = x + (exists ? row : 0) * columns;
    const T mean =
        Centred && Phase >= 2 ? reduce_warps(ours.sum + first, lanes, added) / static_cast<T>(columns) : T(0);
    if constexpr (Phase == 0 || Phase == 2) {
      T all = 0;
      for (std::uint32_t c = lane; exists && c < columns;) {
        T some = 0;
        for (int i = 0; i < 64 && c < columns; ++i, c += lanes) {
          const T d = from[c] - mean;
          some += Phase == 0 ? d : d * d;
        }
        all += some;
      }
      reduce_in_warp(all, (Phase == 0 ? ours.sum : ours.squares) + first, lane, lanes, added);
    } else if constexpr (Phase == 1) {
      emulate_warps(ours.sum + first, lane, lanes, added);
    } else if constexpr (Phase == 3) {
      emulate_warps(ours.squares + first, lane, lanes, added);
    } else if (exists) {
      const T reciprocal =
          1 / math::sqrt(reduce_warps(ours.squares + first, lanes, added) / static_cast<T>(columns) + epsilon);
      if (lane == 0) {
        reciprocals[row] = reciprocal;
        if constexpr (Centred) means[row] = mean;
      }
      for (std::uint32_t c = lane; c < columns; c += lanes) {
        const T normal = (from[c] - mean) * reciprocal * scale[c];
        y[row * columns + c] = Centred ? normal + offset[c] : normal;
      }
    }
  }
};

template <class T, bool Centred>
struct gradients_of_rows_body : row_threads {
  static constexpr unsigned threads = 256;
  static constexpr int phases = 3;
  static constexpr unsigned emulated_phases = 0b010;
  struct block_memory {
    T sum[threads], product[threads];
  };
  using thread_memory = nothing;

  const T* x;
  const T* scale;
  const T* upstream;
  const T* reciprocals;
  const T* means;
  T* dx;

  template <int Phase>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, block_memory& ours) const {
    const auto added = [](T a, T b) { return a + b; };
    const std::uint32_t lanes = 1u << lanes_log, lane = at.thread & (lanes - 1), first = at.thread - lane;
    const std::uint32_t row = at.block * (threads >> lanes_log) + (at.thread >> lanes_log);
    const bool exists = row < rows;
    const std::uint32_t start = (exists ? row : 0) * columns;
    const T mean = Centred && exists ? means[row] : T(0), reciprocal = exists ? reciprocals[row] : T(0);
    if constexpr (Phase == 0) {
      T sum = 0, product = 0;
      for (std::uint32_t c = lane; exists && c < columns;) {
        T a = 0, b = 0;
        for (int i = 0; i < 64 && c < columns; ++i, c += lanes) {
          const T g = upstream[start + c] * scale[c];
          a += g;
          b += g * ((x[start + c] - mean) * reciprocal);
        }
        sum += a, product += b;
      }
      reduce_in_warp(sum, ours.sum + first, lane, lanes, added);
      reduce_in_warp(product, ours.product + first, lane, lanes, added);
    } else if constexpr (Phase == 1) {
      emulate_warps(ours.sum + first, lane, lanes, added);
      emulate_warps(ours.product + first, lane, lanes, added);
    } else if (exists) {
      const T n = static_cast<T>(columns);
      const T average = Centred ? reduce_warps(ours.sum + first, lanes, added) / n : T(0);
      const T slope = reduce_warps(ours.product + first, lanes, added) / n;
      for (std::uint32_t c = lane; c < columns; c += lanes) {
        const std::uint32_t i = start + c;
        dx[i] = (upstream[i] * scale[c] - average - (x[i] - mean) * reciprocal * slope) * reciprocal;
      }
    }
  }
};

#endif

}  // namespace weft::gpu
