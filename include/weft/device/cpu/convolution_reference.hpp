// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <weft/device/convolution.hpp>
#include <weft/device/cpu/dispatch.hpp>

WEFT_QUIET_BEGIN
namespace weft {

// The kernels. A convolution is a matrix product whose left rows overlap: the window of a pixel consists of a few runs
// of adjacent elements, one for each row of the window, and needs no copy. A tile of rows x (vectors * lanes) results
// stays in registers while the runs pass. Pointers give the rows, which can therefore be anywhere: pixels of the image,
// or elements of the window in the gradient of the filters. Every result is one chain of multiply-adds in the same
// order, whichever tile contains it.
namespace detail {

/// The elements that belong to one row of a tile, as offsets from its pointer: three nested loops.
struct window_runs {
  std::size_t count[3];
  std::ptrdiff_t step[3];
};

/// The size of a tile: rows of the left matrix, vectors of the right one. Smaller tiles of half the rows, and single
/// rows, process the remaining rows.
constexpr std::size_t window_rows(isa set) { return set == isa::avx512 ? 14 : 6; }
inline constexpr std::size_t window_vectors = 2;

template <std::size_t rows, std::size_t vectors, std::size_t lanes, class T>
WEFT_INLINE void window_tile(const window_runs& w, const T* const* pointers, const T* b, std::size_t ldb, T* out,
                             const std::size_t ldo, bool add) {
  typedef T vector __attribute__((vector_size(lanes * sizeof(T))));
  typedef T unaligned __attribute__((vector_size(lanes * sizeof(T)), aligned(alignof(T)), may_alias));
  vector sum[rows][vectors] = {};
  const T* from[rows];
  for (std::size_t i = 0; i < rows; ++i) from[i] = pointers[i];
  const std::ptrdiff_t step = w.step[2];
  for (std::size_t a = 0; a < w.count[0]; ++a)
    for (std::size_t q = 0; q < w.count[1]; ++q) {
      std::ptrdiff_t at = static_cast<std::ptrdiff_t>(a) * w.step[0] + static_cast<std::ptrdiff_t>(q) * w.step[1];
      for (std::size_t p = 0; p < w.count[2]; ++p, at += step, b += ldb) {
        vector right[vectors];
#pragma GCC unroll 8
        for (std::size_t j = 0; j < vectors; ++j) right[j] = *reinterpret_cast<const unaligned*>(b + j * lanes);
#pragma GCC unroll 16
        for (std::size_t i = 0; i < rows; ++i) {
          const T left = from[i][at];
#pragma GCC unroll 8
          for (std::size_t j = 0; j < vectors; ++j) sum[i][j] += left * right[j];
        }
      }
    }
#pragma GCC unroll 16
  for (std::size_t i = 0; i < rows; ++i, out += ldo)
#pragma GCC unroll 8
    for (std::size_t j = 0; j < vectors; ++j) {
      auto& element = *reinterpret_cast<unaligned*>(out + j * lanes);
      element = add ? static_cast<unaligned>(element + sum[i][j]) : static_cast<unaligned>(sum[i][j]);
    }
}

/// Multiplies rows by columns: the runs of row i begin at base + offsets[i], and the right matrix is stored in panels
/// of `vectors` vectors.
template <class T, std::size_t vectors = window_vectors>
struct window_product {
  window_runs runs;
  std::size_t rows, columns;
  const T* base;
  const std::ptrdiff_t* offsets;
  const T* b;
  std::size_t ldb;  // of a panel; panels are `panel_stride` apart
  std::size_t panel_stride;
  T* out;
  std::size_t ldo;
  bool add;

  template <isa set>
  WEFT_INLINE void operator()(isa_constant<set>) const {
    constexpr std::size_t lanes = static_cast<std::size_t>(isa_constant<set>::template lanes<T>);
    constexpr std::size_t width = vectors * lanes;
    constexpr std::size_t tall = window_rows(set) * (vectors == 1 && set != isa::avx512 ? 2 : 1);
    const T* pointers[tall];
    T spill[tall * width];
    for (std::size_t j = 0, panel = 0; j < columns; j += width, ++panel) {
      const T* const right = b + panel * panel_stride;
      const bool whole = columns - j >= width;
      for (std::size_t i = 0, n = 0; i < rows; i += n) {
        const std::size_t left = rows - i;
        n = left >= tall ? tall : left >= tall / 2 ? tall / 2 : 1;
        for (std::size_t r = 0; r < n; ++r) pointers[r] = base + offsets[i + r];
        // The last vectors of narrow rows reach into the next rows, which are stored later.
        const bool direct = whole || (!add && columns < width && (rows - i - n) * ldo >= width - columns);
        T* const to = direct ? out + i * ldo + j : spill;
        const std::size_t ld = direct ? ldo : width;
        const bool adds = whole && add;
        if (n == tall)
          window_tile<tall, vectors, lanes>(runs, pointers, right, ldb, to, ld, adds);
        else if (n == tall / 2)
          window_tile<tall / 2, vectors, lanes>(runs, pointers, right, ldb, to, ld, adds);
        else
          window_tile<1, vectors, lanes>(runs, pointers, right, ldb, to, ld, adds);
        if (direct) continue;
        for (std::size_t r = 0; r < n; ++r)
          for (std::size_t c = j; c < columns; ++c) {
            T& element = out[(i + r) * ldo + c];
            element = add ? element + spill[r * width + (c - j)] : spill[r * width + (c - j)];
          }
      }
    }
  }
};

/// Returns the instruction set whose panels waste least: few columns do not fill the widest vectors.
template <class T>
isa window_isa(std::size_t columns) {
  const isa set = detected_isa();
  return set == isa::avx512 && columns <= 64 / sizeof(T) ? isa::avx2 : set;
}

/// Returns the number of columns in a panel.
template <class T>
constexpr std::size_t window_panel(isa set) {
  return window_vectors * (set == isa::avx512 ? 64 : set == isa::avx2 ? 32 : 16) / sizeof(T);
}

/// Returns true if a right matrix with this many columns is copied into panels: its last panel is not full, or its rows
/// are so far apart that they would compete for few cache sets.
template <class T>
constexpr bool window_packs(isa set, std::size_t columns) {
  return columns % window_panel<T>(set) != 0 || columns * sizeof(T) >= 1024;
}

/// Images as a convolution reads them: with padding and, for the gradient of a strided convolution, with zeros between
/// their pixels.
struct padded_image {
  std::int64_t height, width, channels;  // of the image
  std::int64_t pad_top, pad_left;        // negative padding crops
  std::int64_t spread_height, spread_width;
  std::int64_t padded_height, padded_width;

  /// Returns true if the image can be read without a copy.
  bool is_plain() const {
    return pad_top == 0 && pad_left == 0 && spread_height == 1 && spread_width == 1 && padded_height <= height &&
           padded_width <= width;
  }
  /// Returns the distance from one row to the next.
  std::int64_t pitch() const { return (is_plain() ? width : padded_width) * channels; }
  std::size_t elements() const { return static_cast<std::size_t>(padded_height * padded_width * channels); }

  /// Writes rows [begin, begin + rows) of the padded image. Padding elements are left unchanged: zeros.
  template <class T>
  void copy(const T* image, T* to, std::int64_t begin, std::int64_t rows) const {
    std::int64_t first = pad_left < 0 ? (-pad_left + spread_width - 1) / spread_width : 0;
    const std::int64_t reach = padded_width - pad_left;
    std::int64_t last = reach <= 0 ? 0 : (reach - 1) / spread_width + 1;
    if (last > width) last = width;
    if (first >= last) return;
    const auto bytes = static_cast<std::size_t>(channels) * sizeof(T);
    for (std::int64_t row = begin; row < begin + rows; ++row) {
      const std::int64_t y = row - pad_top;
      if (y < 0 || y % spread_height != 0 || y / spread_height >= height) continue;
      const T* from = image + (y / spread_height * width + first) * channels;
      T* out = to + ((row - begin) * padded_width + pad_left + first * spread_width) * channels;
      if (spread_width == 1) {
        __builtin_memcpy(out, from, bytes * static_cast<std::size_t>(last - first));
        continue;
      }
      for (std::int64_t x = first; x < last; ++x, from += channels, out += spread_width * channels)
        __builtin_memcpy(out, from, bytes);
    }
  }
};

}  // namespace detail
}  // namespace weft
WEFT_QUIET_END
