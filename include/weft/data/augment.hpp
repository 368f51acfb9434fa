// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include <weft/data/element_random.hpp>
#include <weft/data/image.hpp>
#include <weft/data/resize.hpp>
#include <weft/device/cpu/dispatch.hpp>
#include <weft/error.hpp>

// The image augmentations of ImageNet training, as torchvision defines them. An image is [height, width, channels];
// extents that are template arguments become part of the result's type. All random numbers come from an element_random.
namespace weft::data {

// ---- parts of an image ----

/// Returns the part of this size whose first pixel is at (top, left), with zeros outside of the image (torchvision's
/// crop).
template <int Height, int Width, Pixels Image>
auto crop(const Image& from, std::int64_t top, std::int64_t left);
template <Pixels Image>
image<channels_of<Image>> crop(const Image& from, std::int64_t top, std::int64_t left, std::size_t height,
                               std::size_t width);

/// Returns the central part, with zeros around a smaller image (torchvision's CenterCrop).
template <int Height, int Width, Pixels Image>
auto center_crop(const Image& from);
template <Pixels Image>
image<channels_of<Image>> center_crop(const Image& from, std::size_t height, std::size_t width);

/// Pads the image with `padding` rows and columns of zeros on each side, and returns a random part (torchvision's
/// RandomCrop). Throws invalid_argument if the padded image is smaller than the part.
template <int Height, int Width, Pixels Image>
auto random_crop(const Image& from, element_random& random, std::size_t padding = 0);

/// Limits for a random part: its fraction of the image's area, and its ratio of width to height.
struct random_part {
  double min_scale = 0.08, max_scale = 1, min_ratio = 3.0 / 4, max_ratio = 4.0 / 3;
};

/// Returns a part of random size, shape and position, resized (torchvision's RandomResizedCrop; Szegedy et al., "Going
/// deeper with convolutions", CVPR 2015).
template <int Height, int Width, Pixels Image>
auto random_resized_crop(const Image& from, element_random& random, const random_part& part = {},
                         interpolation by = interpolation::bilinear);
template <Pixels Image>
image<channels_of<Image>> random_resized_crop(const Image& from, element_random& random, std::size_t height,
                                              std::size_t width, const random_part& part = {},
                                              interpolation by = interpolation::bilinear);

/// Mirrors the image horizontally (tf.image.flip_left_right).
template <Pixels Image>
Image flip_left_right(Image from);
/// Mirrors the image horizontally with this probability (torchvision's RandomHorizontalFlip).
template <Pixels Image>
Image random_flip_left_right(Image from, element_random& random, double probability = 0.5) {
  return random.uniform() < probability ? flip_left_right(std::move(from)) : from;
}

// ---- colours ----

/// Interpolates between black (factor 0) and the image (factor 1), or extrapolates, as torchvision's adjust_brightness.
/// Throws invalid_argument for a negative factor.
template <Pixels Image>
Image adjust_brightness(Image from, double factor);
/// Interpolates between the image's mean grey (factor 0) and the image (factor 1), or extrapolates, as torchvision's
/// adjust_contrast. Throws invalid_argument for a negative factor.
template <Pixels Image>
Image adjust_contrast(Image from, double factor);
/// Interpolates between each pixel's grey (factor 0) and the image (factor 1), or extrapolates, as torchvision's
/// adjust_saturation. Throws invalid_argument for a negative factor.
template <Pixels Image>
Image adjust_saturation(Image from, double factor);
/// Shifts the hue by this fraction of the circle, -0.5 to 0.5, as torchvision's adjust_hue.
template <Pixels Image>
Image adjust_hue(Image from, double turn);

/// Changes an image's colours in random order (torchvision's ColorJitter): factors are in [1 - x, 1 + x], and the hue
/// shifts by up to `hue` of the circle. Throws invalid_argument for a negative number, or a hue above 0.5.
///
///     const data::color_jitter jitter{.brightness = 0.4, .contrast = 0.4, .saturation = 0.4};
///     jitter(pixels, random)
struct color_jitter {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;

  template <Pixels Image>
  Image operator()(Image from, element_random& random) const;
};

// ---- numbers ----

/// Means of ImageNet's red, green and blue, as fractions of 255.
inline constexpr std::array<float, 3> imagenet_mean = {0.485f, 0.456f, 0.406f};
/// Standard deviations of ImageNet's red, green and blue, as fractions of 255.
inline constexpr std::array<float, 3> imagenet_std = {0.229f, 0.224f, 0.225f};

/// Returns (x / 255 - mean) / std for each channel, as floats (torchvision's ToDtype and Normalize). Throws
/// invalid_argument unless `std` is positive.
template <Pixels Image>
tensor<float, typename Image::dims_type> normalize(const Image& from, const std::array<float, channels_of<Image>>& mean,
                                                   const std::array<float, channels_of<Image>>& std);

// ---- implementation ----

namespace detail {

inline void crop_part(const image_part& from, std::int64_t top, std::int64_t left, std::uint8_t* to, std::size_t height,
                      std::size_t width) {
  const auto inside = [](std::int64_t at, std::size_t size) {
    return static_cast<std::size_t>(std::clamp<std::int64_t>(at, 0, static_cast<std::int64_t>(size)));
  };
  const std::int64_t h = static_cast<std::int64_t>(height), w = static_cast<std::int64_t>(width);
  const std::size_t x0 = inside(left, from.width), x1 = inside(left + w, from.width), row = width * from.channels;
  const std::size_t before = inside(-left, width) * from.channels, taken = (x1 - x0) * from.channels;
  for (std::int64_t y = 0; y < h; ++y, to += row) {
    const std::int64_t source = top + y;
    if (source < 0 || source >= static_cast<std::int64_t>(from.height) || taken == 0) {
      std::memset(to, 0, row);
      continue;
    }
    std::memset(to, 0, before);
    std::memcpy(to + before, from.data + static_cast<std::size_t>(source) * from.stride + x0 * from.channels, taken);
    std::memset(to + before + taken, 0, row - before - taken);
  }
}

/// Returns half of the difference, with halves rounded to even. For a smaller image, the offset is negative and rounded
/// towards 0.
inline std::int64_t centre(std::size_t from, std::size_t to) {
  if (from < to) return -static_cast<std::int64_t>((to - from) / 2);
  return std::llrint(static_cast<double>(from - to) / 2);
}

struct random_place {
  std::size_t top, left, height, width;
};

/// Draws a part like torchvision: ten attempts, then the central part.
inline random_place draw_part(std::size_t height, std::size_t width, element_random& random, const random_part& part) {
  if (!(part.min_scale > 0 && part.min_scale <= part.max_scale && part.min_ratio > 0 &&
        part.min_ratio <= part.max_ratio))
    throw error(error_code::invalid_argument, "random_resized_crop",
                "scales and ratios must be positive, with min <= max");
  const double h = static_cast<double>(height), w = static_cast<double>(width);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = h * w * random.uniform(part.min_scale, part.max_scale);
    const double ratio = std::exp(random.uniform(std::log(part.min_ratio), std::log(part.max_ratio)));
    const double wide = std::nearbyint(std::sqrt(area * ratio)), high = std::nearbyint(std::sqrt(area / ratio));
    if (!(wide >= 1 && wide <= w && high >= 1 && high <= h)) continue;
    random_place place{0, 0, static_cast<std::size_t>(high), static_cast<std::size_t>(wide)};
    place.top = random.below(height - place.height + 1);
    place.left = random.below(width - place.width + 1);
    return place;
  }
  random_place place{0, 0, height, width};
  if (w / h < part.min_ratio)
    place.height = static_cast<std::size_t>(std::clamp(std::nearbyint(w / part.min_ratio), 1.0, h));
  else if (w / h > part.max_ratio)
    place.width = static_cast<std::size_t>(std::clamp(std::nearbyint(h * part.max_ratio), 1.0, w));
  place.top = (height - place.height) / 2;
  place.left = (width - place.width) / 2;
  return place;
}

inline void flip_rows(std::uint8_t* pixels, std::size_t height, std::size_t width, std::size_t channels) {
  for (std::size_t y = 0; y < height; ++y, pixels += width * channels)
    for (std::size_t i = 0, j = width; i + 1 < j--; ++i)
      for (std::size_t c = 0; c < channels; ++c) std::swap(pixels[i * channels + c], pixels[j * channels + c]);
}

inline void check_factor(const char* what, double factor) {
  if (!(factor >= 0))
    throw error(error_code::invalid_argument, what,
                {"the factor must be at least 0, but is ", format_number("%.*g", 6, factor)});
}

WEFT_INLINE float grey_of(const std::uint8_t* pixel) {
  return std::floor(0.2989f * static_cast<float>(pixel[0]) + 0.587f * static_cast<float>(pixel[1]) +
                    0.114f * static_cast<float>(pixel[2]));
}

WEFT_INLINE std::uint8_t level(float x) { return static_cast<std::uint8_t>(x < 0 ? 0 : x > 255 ? 255 : x); }

/// Replaces each byte x by x * factor + more.
inline void scale_levels(std::uint8_t* bytes, std::size_t count, float factor, float more) {
  std::uint8_t table[256];
  for (int i = 0; i < 256; ++i) table[i] = level(static_cast<float>(i) * factor + more);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = table[bytes[i]];
}

inline double mean_grey(const std::uint8_t* bytes, std::size_t pixels, std::size_t channels) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < pixels; ++i)
    sum += channels == 3 ? static_cast<std::uint64_t>(grey_of(bytes + 3 * i)) : bytes[i * channels];
  return static_cast<double>(sum) / static_cast<double>(pixels);
}

inline void saturate(std::uint8_t* bytes, std::size_t pixels, float factor) {
  for (std::size_t i = 0; i < pixels; ++i, bytes += 3) {
    const float grey = grey_of(bytes) * (1 - factor);
    for (int c = 0; c < 3; ++c) bytes[c] = level(static_cast<float>(bytes[c]) * factor + grey);
  }
}

/// Shifts the hue in the HSV colour space (Smith, "Color gamut transform pairs", SIGGRAPH 1978).
inline void turn_hue(std::uint8_t* bytes, std::size_t pixels, float turn) {
  for (std::size_t i = 0; i < pixels; ++i, bytes += 3) {
    const float r = static_cast<float>(bytes[0]) / 255, g = static_cast<float>(bytes[1]) / 255,
                b = static_cast<float>(bytes[2]) / 255;
    const float most = std::max({r, g, b}), range = most - std::min({r, g, b});
    if (range == 0) continue;  // grey has no hue
    float hue = most == r ? (g - b) / range : most == g ? 2 + (b - r) / range : 4 + (r - g) / range;
    hue = hue / 6 + 1 + turn;
    hue = 6 * (hue - std::floor(hue));
    const float sector = std::floor(hue), f = hue - sector, s = range / most;
    const float p = most * (1 - s), q = most * (1 - s * f), t = most * (1 - s * (1 - f));
    const float rgb[6][3] = {{most, t, p}, {q, most, p}, {p, most, t}, {p, q, most}, {t, p, most}, {most, p, q}};
    for (int c = 0; c < 3; ++c) bytes[c] = level(rgb[static_cast<int>(sector) % 6][c] * 255.999f);
  }
}

inline void normalize_bytes(const std::uint8_t* from, std::size_t count, std::size_t channels, const float* mean,
                            const float* std, float* to) {
  constexpr std::size_t block = 48;  // a multiple of 1, 2, 3 and 4 channels
  float factor[block], more[block];
  for (std::size_t c = 0; c < channels; ++c)
    if (!(std[c] > 0))
      throw error(error_code::invalid_argument, "normalize",
                  {"the standard deviation of channel ", c, " must be above 0"});
  const std::size_t width = block / channels * channels;
  for (std::size_t j = 0; j < width; ++j) {
    factor[j] = static_cast<float>(1 / (255.0 * std[j % channels]));
    more[j] = static_cast<float>(-double{mean[j % channels]} / std[j % channels]);
  }
  std::size_t i = 0;
  if (width == block)
    multiversioned_up_to_avx2([&] {
      for (; i + block <= count; i += block) {
        WEFT_VECTORIZE
        for (std::size_t j = 0; j < block; ++j) to[i + j] = static_cast<float>(from[i + j]) * factor[j] + more[j];
      }
    });
  for (; i < count; i += width)
    for (std::size_t j = 0; j < width && i + j < count; ++j)
      to[i + j] = static_cast<float>(from[i + j]) * factor[j] + more[j];
}

}  // namespace detail

template <int Height, int Width, Pixels Image>
auto crop(const Image& from, std::int64_t top, std::int64_t left) {
  auto to = detail::image_like<Image, Height, Width>();
  detail::crop_part(detail::all_of(from), top, left, to.data(), Height, Width);
  return to;
}
template <Pixels Image>
image<channels_of<Image>> crop(const Image& from, std::int64_t top, std::int64_t left, std::size_t height,
                               std::size_t width) {
  auto to = detail::image_like<Image>(height, width);
  detail::crop_part(detail::all_of(from), top, left, to.data(), height, width);
  return to;
}

template <int Height, int Width, Pixels Image>
auto center_crop(const Image& from) {
  const detail::image_part all = detail::all_of(from);
  return crop<Height, Width>(from, detail::centre(all.height, Height), detail::centre(all.width, Width));
}
template <Pixels Image>
image<channels_of<Image>> center_crop(const Image& from, std::size_t height, std::size_t width) {
  const detail::image_part all = detail::all_of(from);
  return crop(from, detail::centre(all.height, height), detail::centre(all.width, width), height, width);
}

template <int Height, int Width, Pixels Image>
auto random_crop(const Image& from, element_random& random, std::size_t padding) {
  const detail::image_part all = detail::all_of(from);
  if (padding > std::numeric_limits<std::uint32_t>::max())  // -1, for example
    throw error(error_code::invalid_argument, "random_crop",
                {"the padding must be 0 to 2^32 - 1 pixels, but is ", static_cast<std::int64_t>(padding)});
  const std::size_t height = all.height + 2 * padding, width = all.width + 2 * padding;
  if (height < Height || width < Width)
    throw error(error_code::invalid_argument, "random_crop",
                {"an image of ", all.height, " x ", all.width, ", padded by ", padding,
                 ", is smaller than the crop of ", Height, " x ", Width});
  const auto top = static_cast<std::int64_t>(random.below(height - Height + 1));
  const auto left = static_cast<std::int64_t>(random.below(width - Width + 1));
  const auto around = static_cast<std::int64_t>(padding);
  return crop<Height, Width>(from, top - around, left - around);
}

namespace detail {

template <Pixels Image>
image_part draw_part_of(const Image& from, element_random& random, const random_part& part) {
  image_part taken = all_of(from);
  const random_place place = draw_part(taken.height, taken.width, random, part);
  taken.data += place.top * taken.stride + place.left * taken.channels;
  taken.height = place.height, taken.width = place.width;
  return taken;
}

}  // namespace detail

template <int Height, int Width, Pixels Image>
auto random_resized_crop(const Image& from, element_random& random, const random_part& part, interpolation by) {
  auto to = detail::image_like<Image, Height, Width>();
  detail::resize_part(detail::draw_part_of(from, random, part), to.data(), Height, Width, by);
  return to;
}
template <Pixels Image>
image<channels_of<Image>> random_resized_crop(const Image& from, element_random& random, std::size_t height,
                                              std::size_t width, const random_part& part, interpolation by) {
  auto to = detail::image_like<Image>(height, width);
  detail::resize_part(detail::draw_part_of(from, random, part), to.data(), height, width, by);
  return to;
}

template <Pixels Image>
Image flip_left_right(Image from) {
  const detail::image_part all = detail::all_of(from);
  detail::flip_rows(from.data(), all.height, all.width, all.channels);
  return from;
}

template <Pixels Image>
Image adjust_brightness(Image from, double factor) {
  detail::check_factor("adjust_brightness", factor);
  detail::scale_levels(from.data(), from.elements(), static_cast<float>(factor), 0);
  return from;
}
template <Pixels Image>
Image adjust_contrast(Image from, double factor) {
  detail::check_factor("adjust_contrast", factor);
  constexpr std::size_t channels = channels_of<Image>;
  if (from.elements() == 0) return from;
  const double mean = detail::mean_grey(from.data(), from.elements() / channels, channels);
  detail::scale_levels(from.data(), from.elements(), static_cast<float>(factor),
                       static_cast<float>(mean * (1 - factor)));
  return from;
}
template <Pixels Image>
Image adjust_saturation(Image from, double factor) {
  detail::check_factor("adjust_saturation", factor);
  if constexpr (channels_of<Image> == 3) detail::saturate(from.data(), from.elements() / 3, static_cast<float>(factor));
  return from;
}
template <Pixels Image>
Image adjust_hue(Image from, double turn) {
  if (!(turn >= -0.5 && turn <= 0.5))
    throw error(error_code::invalid_argument, "adjust_hue",
                {"the turn must be from -0.5 to 0.5, but is ", format_number("%.*g", 6, turn)});
  if constexpr (channels_of<Image> == 3) detail::turn_hue(from.data(), from.elements() / 3, static_cast<float>(turn));
  return from;
}

template <Pixels Image>
Image color_jitter::operator()(Image from, element_random& random) const {
  const auto factor = [&](double x) { return random.uniform(x > 1 ? 0 : 1 - x, 1 + x); };
  for (const double x : {brightness, contrast, saturation, hue, 0.5 - hue})
    if (!(x >= 0))
      throw error(error_code::invalid_argument, "color_jitter",
                  "brightness, contrast, saturation and hue must be at least 0, and hue at most 0.5");
  std::array<int, 4> order{0, 1, 2, 3};
  for (std::size_t i = 4; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  const double by[] = {factor(brightness), factor(contrast), factor(saturation), random.uniform(-hue, hue)};
  for (const int each : order) {
    if (each == 0 && brightness > 0) from = adjust_brightness(std::move(from), by[0]);
    if (each == 1 && contrast > 0) from = adjust_contrast(std::move(from), by[1]);
    if (each == 2 && saturation > 0) from = adjust_saturation(std::move(from), by[2]);
    if (each == 3 && hue > 0) from = adjust_hue(std::move(from), by[3]);
  }
  return from;
}

template <Pixels Image>
tensor<float, typename Image::dims_type> normalize(const Image& from, const std::array<float, channels_of<Image>>& mean,
                                                   const std::array<float, channels_of<Image>>& std) {
  tensor<float, typename Image::dims_type> to(from.extents(), uninitialized{});
  detail::normalize_bytes(from.data(), from.elements(), channels_of<Image>, mean.data(), std.data(), to.data());
  return to;
}

}  // namespace weft::data
