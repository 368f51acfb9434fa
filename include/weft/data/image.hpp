// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/error.hpp>
#include <weft/tensor/tensor.hpp>

namespace weft::data {

/// An image in bytes: [height, width, channels], red, green and blue, or grey only.
template <int Channels = 3>
using image = tensor<std::uint8_t, dims<dyn<"height">, dyn<"width">, Channels>>;

/// Options for decoding an image file.
struct decode_options {
  std::string name = "an image";         ///< its name in errors, such as its path
  std::size_t max_pixels = 100'000'000;  ///< larger images are rejected before memory is allocated
  /// A JPEG is decoded at 1/2, 1/4 or 1/8 of its size, which is faster, if the result has at least this size; 0: never.
  std::size_t min_height = 0, min_width = 0;
};

/// An image in bytes: [height, width, channels] with a static number of channels.
template <class Image>
concept Pixels = requires { typename Image::dims_type; } && Image::dims_type::rank == 3 &&
                 (Image::dims_type::spec[2] > 0) && std::is_same_v<typename Image::value_type, std::uint8_t>;

/// The number of channels of an image type.
template <Pixels Image>
inline constexpr int channels_of = static_cast<int>(Image::dims_type::spec[2]);

namespace detail {

inline std::size_t height_of(const shape& extents) { return static_cast<std::size_t>(extents[0]); }
inline std::size_t width_of(const shape& extents) { return static_cast<std::size_t>(extents[1]); }

/// Throws if an image of this size exceeds the limit, or a file of `bytes` bytes cannot contain it. `most` is the
/// maximum number of pixels per byte.
inline void check_image_size(const char* format, const decode_options& how, std::uint64_t height, std::uint64_t width,
                             std::uint64_t bytes, std::uint64_t most) {
  if (height == 0 || width == 0)
    throw error(error_code::data_loss, format, {how.name, " has no pixels: ", height, " x ", width});
  if (height * width > how.max_pixels)  // each has 32 bits at most
    throw error(error_code::resource_exhausted, format,
                {how.name, " has ", height, " x ", width, " pixels, more than `max_pixels`, ", how.max_pixels});
  if (height * width / most > bytes)
    throw error(error_code::data_loss, format,
                {how.name, " declares ", height, " x ", width, " pixels, more than ", bytes, " bytes can contain"});
}

/// The luma of ITU-R BT.601, rounded as in Pillow's convert("L").
inline std::uint8_t luma(unsigned red, unsigned green, unsigned blue) {
  return static_cast<std::uint8_t>((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16);
}

}  // namespace detail

}  // namespace weft::data
