// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include <weft/config.hpp>

/// The weights by which pixels are resampled along one axis, for every kind of device.
namespace weft {

/// How row or column i of a resized image maps to a position in the original; `out` and `in` are their extents. The
/// names are ONNX's.
enum class resize_coordinates : unsigned char {
  half_pixel,     ///< (i + 0.5) * in / out - 0.5 (tf.image.resize, torch's align_corners=False)
  align_corners,  ///< i * (in - 1) / (out - 1): corners stay corners (torch's align_corners=True)
  asymmetric,     ///< i * in / out (TensorFlow 1's default; mode "nearest" of torch)
};

namespace device {

enum class resize_filter : unsigned char {
  linear,    ///< between two pixels
  cubic,     ///< between four pixels, by cubic convolution with a = -0.75
  triangle,  ///< linear, widened by the scale to remove what the result cannot represent
  keys,      ///< cubic with a = -0.5, widened in the same way
  area,      ///< the mean of the part of the original that the pixel covers
};

/// Resampling from `in` to `out` pixels. Each pixel of the result is a weighted sum of adjacent pixels.
struct resampling {
  resize_filter filter;
  resize_coordinates how;
  std::int64_t in, out;

  struct range {
    std::int64_t begin, end;
  };

  /// Returns the pixels from which pixel p of the result is computed.
  WEFT_HOST_DEVICE range pixels(std::int64_t p) const {
    if (filter == resize_filter::area) return {p * in / out, ((p + 1) * in + out - 1) / out};
    if (is_wide()) {
      const double center = (static_cast<double>(p) + 0.5) * scale(), reach = support() * widening();
      const auto begin = static_cast<std::int64_t>(center - reach + 0.5);
      const auto end = static_cast<std::int64_t>(center + reach + 0.5);
      return {center - reach + 0.5 < 0 ? 0 : begin, end < in ? end : in};
    }
    const std::int64_t first = below(p) - (taps() / 2 - 1);
    return {clamp(first), clamp(first + taps() - 1) + 1};
  }

  /// Returns the weight of pixel i in pixel p of the result, before division by the sum of the weights if `is_wide`.
  WEFT_HOST_DEVICE double weight(std::int64_t p, std::int64_t i) const {
    if (filter == resize_filter::area) {
      // Lengths in units of 1 / out pixels.
      const std::int64_t first = p * in > i * out ? p * in : i * out;
      const std::int64_t last = (p + 1) * in < (i + 1) * out ? (p + 1) * in : (i + 1) * out;
      return static_cast<double>(last - first) / static_cast<double>(in);
    }
    if (is_wide()) {
      const double center = (static_cast<double>(p) + 0.5) * scale();
      return at_distance((static_cast<double>(i) - center + 0.5) / widening());
    }
    const std::int64_t first = below(p) - (taps() / 2 - 1);
    const double position = coordinate(p);
    double sum = 0;
    for (std::int64_t k = first; k < first + taps(); ++k)
      if (clamp(k) == i) sum += at_distance(position - static_cast<double>(k));
    return sum;
  }

  /// True for filters whose weights must be divided by their sum.
  WEFT_HOST_DEVICE bool is_wide() const { return filter == resize_filter::triangle || filter == resize_filter::keys; }

 private:
  WEFT_HOST_DEVICE bool is_cubic() const { return filter == resize_filter::cubic || filter == resize_filter::keys; }
  WEFT_HOST_DEVICE double support() const { return is_cubic() ? 2 : 1; }
  WEFT_HOST_DEVICE std::int64_t taps() const { return is_cubic() ? 4 : 2; }
  WEFT_HOST_DEVICE double scale() const { return static_cast<double>(in) / static_cast<double>(out); }
  WEFT_HOST_DEVICE double widening() const { return scale() > 1 ? scale() : 1; }
  WEFT_HOST_DEVICE std::int64_t clamp(std::int64_t i) const { return i < 0 ? 0 : i < in ? i : in - 1; }

  WEFT_HOST_DEVICE double coordinate(std::int64_t p) const {
    const auto i = static_cast<double>(p);
    if (how == resize_coordinates::half_pixel) return (i + 0.5) * scale() - 0.5;
    if (how == resize_coordinates::asymmetric) return i * scale();
    return out > 1 ? i * static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  }
  /// Returns floor(coordinate(p)), which is at least -1.
  WEFT_HOST_DEVICE std::int64_t below(std::int64_t p) const { return static_cast<std::int64_t>(coordinate(p) + 1) - 1; }
  WEFT_HOST_DEVICE double at_distance(double x) const {
    x = x < 0 ? -x : x;
    if (!is_cubic()) return x < 1 ? 1 - x : 0;
    const double a = filter == resize_filter::cubic ? -0.75 : -0.5;
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
  }
};

}  // namespace device
}  // namespace weft
