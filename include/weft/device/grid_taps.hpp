// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/config.hpp>
#include <weft/tensor/interpolation.hpp>

/// The pixels between which a position of an image is, and their weights, for every kind of device.
namespace weft {

/// Selects the value that a sample outside of the image reads.
enum class image_border : unsigned char {
  zeros,
  nearest,     ///< the outermost pixels ("border" in PyTorch)
  reflection,  ///< the image's mirror image
};

namespace device {

/// How the numbers of a grid are positions.
enum class grid_units : unsigned char {
  edges,    ///< -1 and 1 are the outer edges of the outermost pixels
  corners,  ///< -1 and 1 are the centers of the outermost pixels
  pixels,   ///< i is the center of pixel i
};

/// The number of taps along one axis.
constexpr int taps_along(interpolation mode) {
  return mode == interpolation::nearest ? 1 : mode == interpolation::bilinear ? 2 : 4;
}
/// The number of taps of a position.
constexpr int taps_of(interpolation mode, std::int64_t axes) {
  int taps = 1;
  for (std::int64_t a = 0; a < axes; ++a) taps *= taps_along(mode);
  return taps;
}

/// One axis of a grid. Weights are polynomials of the position between two pixels; `order` selects a derivative.
template <class T, interpolation Mode>
struct grid_axis {
  image_border outside;
  grid_units units;
  T extent;
  int order;

  static constexpr int taps = taps_along(Mode);

  /// Computes the numbers of pixels, which may be out of range, and their weights.
  WEFT_HOST_DEVICE WEFT_INLINE void find(T position, T (&pixels)[taps], T (&weights)[taps]) const {
    const T scale = units == grid_units::pixels ? T(1) : units == grid_units::corners ? (extent - 1) / 2 : extent / 2;
    T p =
        units == grid_units::pixels ? position : (position + 1) * scale - (units == grid_units::edges ? T(0.5) : T(0));
    T slope = scale;
    if constexpr (Mode != interpolation::bicubic) p = inside(p, slope);
    if constexpr (Mode == interpolation::nearest) {
      const T up = floor_of(p + T(0.5)), odd = up - 2 * floor_of(up / 2);
      pixels[0] = up - p == T(0.5) ? up - odd : up;
      weights[0] = order == 0 ? T(1) : T(0);
    } else if constexpr (Mode == interpolation::bilinear) {
      const T below = floor_of(p), t = p - below;
      pixels[0] = below, pixels[1] = below + 1;
      weights[0] = order == 0 ? 1 - t : order == 1 ? -slope : T(0);
      weights[1] = order == 0 ? t : order == 1 ? slope : T(0);
    } else {
      // Keys, Cubic Convolution Interpolation for Digital Image Processing, 1981, with PyTorch's a.
      constexpr T a = T(-0.75);
      constexpr T powers[4][4] = {
          {0, 1, 0, 0}, {a, 0, -a, 0}, {-2 * a, -(a + 3), 2 * a + 3, a}, {a, a + 2, -(a + 2), -a}};
      const T below = floor_of(p), t = p - below;
      T factor = 1;
      for (int i = 0; i < order; ++i) factor *= slope;
      for (int k = 0; k < 4; ++k) {
        T sum = 0;
        for (int i = 3; i >= order; --i) {
          T derived = powers[i][k];
          for (int j = 0; j < order; ++j) derived *= static_cast<T>(i - j);
          sum = sum * t + derived;
        }
        T unused = 0;
        pixels[k] = inside(below + static_cast<T>(k - 1), unused);
        weights[k] = sum * factor;
      }
    }
  }

 private:
  WEFT_HOST_DEVICE WEFT_INLINE static T floor_of(T x) {
    if constexpr (sizeof(T) == sizeof(float))
      return __builtin_floorf(x);
    else
      return __builtin_floor(x);
  }
  /// Moves a position into the image, and multiplies the slope by the derivative of the move. It is 0 at the ends, as
  /// in PyTorch; NaN becomes 0.
  WEFT_HOST_DEVICE WEFT_INLINE T inside(T p, T& slope) const {
    if (outside == image_border::zeros) return p;
    if (outside == image_border::reflection) {
      // Unfolds a path between two mirrors, at the middles or the outer edges of the outermost pixels.
      const T mirror = units == grid_units::corners ? T(0) : T(-0.5);
      const T length = extent - (units == grid_units::corners ? 1 : 0), span = length > 1 ? length : T(1);
      const T way = p < mirror ? mirror - p : p - mirror;
      if (p < mirror) slope = -slope;
      const T turns = floor_of(way / span), rest = way - turns * span;
      const bool back = turns - 2 * floor_of(turns / 2) != 0;
      if (back) slope = -slope;
      p = (back ? span - rest : rest) + mirror;
    }
    const bool low = !(p > 0), high = !(p < extent - 1);
    slope = low || high ? T(0) : slope;
    return low ? T(0) : high ? extent - 1 : p;
  }
};

/// The taps of all points: for each, the products of the weights along the axes, and the numbers of the pixels, or -1
/// for a pixel that is not in the image. Axis 0 is the innermost one, and its number is the first of a position.
template <class T, interpolation Mode, int Axes>
struct grid_taps {
  static constexpr int along = taps_along(Mode), taps = taps_of(Mode, Axes);

  grid_axis<T, Mode> axis[Axes];
  const T* grid;
  T* weights;
  std::int32_t* indices;  ///< null if only the weights are requested

  WEFT_HOST_DEVICE void operator()(std::size_t point) const { points<1>(point); }

  /// Computes `Count` adjacent points, which a CPU does in vectors.
  template <int Count>
  WEFT_HOST_DEVICE WEFT_INLINE void points(std::size_t first) const {
    T pixels[Axes][along][Count], factors[Axes][along][Count];
    for (int a = 0; a < Axes; ++a)
      for (int n = 0; n < Count; ++n) {
        T p[along], w[along];
        axis[a].find(grid[(first + static_cast<std::size_t>(n)) * Axes + static_cast<std::size_t>(a)], p, w);
        for (int i = 0; i < along; ++i) pixels[a][i][n] = p[i], factors[a][i][n] = w[i];
      }
    T weight_of[taps][Count];
    std::int32_t index_of[taps][Count];
    for (int k = 0; k < taps; ++k)
      for (int n = 0; n < Count; ++n) {
        T weight = 1;
        std::int32_t number = 0;
        bool there = true;
        for (int a = Axes - 1, each = taps / along; a >= 0; --a, each /= along) {
          const T pixel = pixels[a][k / each % along][n];
          const bool is_pixel = (pixel >= 0) & (pixel < axis[a].extent);
          weight *= factors[a][k / each % along][n];
          number =
              number * static_cast<std::int32_t>(axis[a].extent) + static_cast<std::int32_t>(is_pixel ? pixel : T(0));
          there = there & is_pixel;
        }
        weight_of[k][n] = weight;
        index_of[k][n] = there ? number : -1;
      }
    for (int n = 0; n < Count; ++n)
      for (int k = 0; k < taps; ++k) {
        const std::size_t to = (first + static_cast<std::size_t>(n)) * taps + static_cast<std::size_t>(k);
        weights[to] = weight_of[k][n];
        if (indices) indices[to] = index_of[k][n];
      }
  }
};

/// Calls f<Mode, Axes>() for the given mode and number of axes. Volumes (3 axes) support nearest and bilinear only.
template <class F>
auto with_grid_mode(interpolation mode, std::int64_t axes, const F& f) {
  using enum interpolation;
  if (axes == 3) return mode == nearest ? f.template operator()<nearest, 3>() : f.template operator()<bilinear, 3>();
  if (mode == nearest) return f.template operator()<nearest, 2>();
  return mode == bilinear ? f.template operator()<bilinear, 2>() : f.template operator()<bicubic, 2>();
}

}  // namespace device
}  // namespace weft
