// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include <weft/data/image.hpp>
#include <weft/device/cpu/dispatch.hpp>
#include <weft/error.hpp>
#include <weft/tensor/interpolation.hpp>

namespace weft::data {

using weft::interpolation;

/// Resizes an image, [height, width, channels] (PIL's Image.resize and torchvision's resize with antialias, to within
/// one level; tf.image.resize with antialias), by a triangle or Keys's cubic with a = -1/2. When an image shrinks, they
/// widen to include every pixel. Throws invalid_argument if either size has no pixels, or for interpolation::nearest.
template <int Height, int Width, Pixels Image>
auto resize(const Image& from, interpolation by = interpolation::bilinear);
template <Pixels Image>
image<channels_of<Image>> resize(const Image& from, std::size_t height, std::size_t width,
                                 interpolation by = interpolation::bilinear);

/// Resizes an image so that its shorter side has `size` pixels (torchvision's Resize with one number).
template <Pixels Image>
image<channels_of<Image>> resize_shorter_side(const Image& from, std::size_t size,
                                              interpolation by = interpolation::bilinear) {
  const std::size_t h = detail::height_of(from.extents()), w = detail::width_of(from.extents());
  const std::size_t longer = std::max(h, w) * size / std::max<std::size_t>(1, std::min(h, w));
  return h < w ? resize(from, size, longer, by) : resize(from, longer, size, by);
}

namespace detail {

/// A part of an image: its first byte, and the bytes between the starts of rows.
struct image_part {
  const std::uint8_t* data;
  std::size_t height, width, channels, stride;
};

/// For each result, the first pixel, the number of pixels, and their weights as 22-bit fixed-point numbers, as in
/// Pillow.
struct resampling {
  static constexpr int bits = 32 - 8 - 2;
  struct window {
    std::size_t first, count;
    const std::int32_t* weights;
  };

  resampling(std::size_t from, std::size_t to, interpolation by) : most_(0) {
    const double scale = static_cast<double>(from) / static_cast<double>(to), shrinks = std::max(scale, 1.0);
    const double reach = (by == interpolation::bicubic ? 2 : 1) * shrinks;
    most_ = 2 * static_cast<std::size_t>(std::ceil(reach)) + 1;
    weights_.resize(most_ * to);
    windows_.resize(to);
    std::vector<double> exact(most_);
    for (std::size_t i = 0; i < to; ++i) {
      const double centre = (static_cast<double>(i) + 0.5) * scale;
      const auto begin = static_cast<std::size_t>(std::max(0.0, centre - reach + 0.5));
      const auto end = std::min(from, static_cast<std::size_t>(centre + reach + 0.5));
      double sum = 0;
      for (std::size_t k = begin; k < end; ++k)
        sum += exact[k - begin] = weight((static_cast<double>(k) - centre + 0.5) / shrinks, by);
      for (std::size_t k = begin; k < end; ++k) {
        const double w = (sum != 0 ? exact[k - begin] / sum : exact[k - begin]) * (1 << bits);
        weights_[i * most_ + k - begin] = static_cast<std::int32_t>(w < 0 ? w - 0.5 : w + 0.5);
      }
      windows_[i] = {begin, end - begin, nullptr};
    }
  }

  std::size_t size() const { return windows_.size(); }
  window operator[](std::size_t i) const { return {windows_[i].first, windows_[i].count, weights_.data() + i * most_}; }
  std::size_t begin() const { return windows_.front().first; }
  std::size_t end() const { return windows_.back().first + windows_.back().count; }

 private:
  static double weight(double x, interpolation by) {
    x = std::abs(x);
    if (by == interpolation::bilinear) return x < 1 ? 1 - x : 0;
    constexpr double a = -0.5;
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
  }

  std::size_t most_;
  std::vector<std::int32_t> weights_;
  std::vector<window> windows_;
};

WEFT_INLINE std::uint8_t clipped(std::int32_t sum) {
  const std::int32_t level = sum >> resampling::bits;
  return static_cast<std::uint8_t>(level < 0 ? 0 : level > 255 ? 255 : level);
}

/// Resizes a row of three channels with vectors of four; the fourth element belongs to the next pixel and is discarded.
WEFT_INLINE void resize_row_of_three(const std::uint8_t* from, const resampling& columns, std::uint8_t* to) {
  using bytes = std::uint8_t __attribute__((vector_size(4)));
  using sums = std::int32_t __attribute__((vector_size(16)));
  for (std::size_t x = 0; x < columns.size(); ++x, to += 3) {
    const resampling::window w = columns[x];
    const std::uint8_t* at = from + 3 * w.first;
    sums sum = sums{} + (1 << (resampling::bits - 1));
    for (std::size_t k = 0; k < w.count; ++k, at += 3) {
      bytes pixel;
      std::memcpy(&pixel, at, 4);
      sum += __builtin_convertvector(pixel, sums) * w.weights[k];
    }
    for (int c = 0; c < 3; ++c) to[c] = clipped(sum[c]);
  }
}

WEFT_INLINE void resize_row(const std::uint8_t* from, std::size_t channels, const resampling& columns,
                            std::uint8_t* to) {
  for (std::size_t x = 0; x < columns.size(); ++x, to += channels) {
    const resampling::window w = columns[x];
    for (std::size_t c = 0; c < channels; ++c) {
      std::int32_t sum = 1 << (resampling::bits - 1);
      for (std::size_t k = 0; k < w.count; ++k) sum += from[(w.first + k) * channels + c] * w.weights[k];
      to[c] = clipped(sum);
    }
  }
}

/// Computes a weighted sum of rows.
WEFT_INLINE void add_rows(const std::uint8_t* from, std::size_t stride, const resampling::window& rows,
                          std::size_t bytes, std::uint8_t* to) {
  constexpr std::size_t block = 64;
  std::size_t i = 0;
  for (; i + block <= bytes; i += block) {
    std::int32_t sums[block];
    for (std::size_t j = 0; j < block; ++j) sums[j] = 1 << (resampling::bits - 1);
    for (std::size_t k = 0; k < rows.count; ++k) {
      const std::uint8_t* const row = from + (rows.first + k) * stride + i;
      WEFT_VECTORIZE
      for (std::size_t j = 0; j < block; ++j) sums[j] += row[j] * rows.weights[k];
    }
    WEFT_VECTORIZE
    for (std::size_t j = 0; j < block; ++j) to[i + j] = clipped(sums[j]);
  }
  for (; i < bytes; ++i) {
    std::int32_t sum = 1 << (resampling::bits - 1);
    for (std::size_t k = 0; k < rows.count; ++k) sum += from[(rows.first + k) * stride + i] * rows.weights[k];
    to[i] = clipped(sum);
  }
}

/// Resizes rows and then columns, with bytes between the passes. The bits are Pillow's if it uses the same order, which
/// it does unless an image gets lower and hardly narrower.
inline void resize_part(const image_part& from, std::uint8_t* to, std::size_t height, std::size_t width,
                        interpolation by) {
  if (from.height == 0 || from.width == 0 || height == 0 || width == 0)
    throw error(error_code::invalid_argument, "resize",
                {"both images must have pixels, but ", from.height, " x ", from.width, " is resized to ", height, " x ",
                 width});
  if (by == interpolation::nearest)
    throw error(error_code::invalid_argument, "resize", "interpolates bilinear or bicubic, not nearest");
  const std::size_t bytes = width * from.channels;
  const resampling rows(from.height, height, by), columns(from.width, width, by);
  const bool wider = width != from.width, taller = height != from.height;
  const std::size_t first = taller ? rows.begin() : 0, last = taller ? rows.end() : height;
  std::unique_ptr<std::uint8_t[]> between;
  const std::uint8_t* middle = from.data;
  std::size_t stride = from.stride;
  if (wider) {
    std::uint8_t* made = to;
    if (taller) {
      between = std::make_unique_for_overwrite<std::uint8_t[]>((last - first) * bytes);
      made = between.get();
    }
    multiversioned_up_to_avx2([&] {
      for (std::size_t y = first; y < last; ++y) {
        // The last row has no fourth byte after it.
        if (from.channels == 3 && y + 1 < from.height)
          resize_row_of_three(from.data + y * from.stride, columns, made + (y - first) * bytes);
        else
          resize_row(from.data + y * from.stride, from.channels, columns, made + (y - first) * bytes);
      }
    });
    middle = made, stride = bytes;
  } else {
    middle += first * stride;
  }
  if (!taller) {
    if (!wider)
      for (std::size_t y = 0; y < height; ++y) std::memcpy(to + y * bytes, middle + y * stride, bytes);
    return;
  }
  multiversioned_up_to_avx2([&] {
    for (std::size_t y = 0; y < height; ++y) {
      resampling::window w = rows[y];
      w.first -= first;
      add_rows(middle, stride, w, bytes, to + y * bytes);
    }
  });
}

template <Pixels Image>
image_part all_of(const Image& from) {
  const std::size_t height = height_of(from.extents()), width = width_of(from.extents()), channels = channels_of<Image>;
  return {from.data(), height, width, channels, width * channels};
}

/// An image type with static extents.
template <Pixels Image, int Height, int Width>
using image_of = tensor<std::uint8_t, dims<Height, Width, channels_of<Image>>>;

template <Pixels Image>
image<channels_of<Image>> image_like(std::size_t height, std::size_t width) {
  return image<channels_of<Image>>(shape(height, width, channels_of<Image>), uninitialized{});
}
template <Pixels Image, int Height, int Width>
image_of<Image, Height, Width> image_like() {
  return image_of<Image, Height, Width>(shape(Height, Width, channels_of<Image>), uninitialized{});
}

}  // namespace detail

template <int Height, int Width, Pixels Image>
auto resize(const Image& from, interpolation by) {
  auto to = detail::image_like<Image, Height, Width>();
  detail::resize_part(detail::all_of(from), to.data(), Height, Width, by);
  return to;
}

template <Pixels Image>
image<channels_of<Image>> resize(const Image& from, std::size_t height, std::size_t width, interpolation by) {
  auto to = detail::image_like<Image>(height, width);
  detail::resize_part(detail::all_of(from), to.data(), height, width, by);
  return to;
}

}  // namespace weft::data
