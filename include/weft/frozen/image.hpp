// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/cpu/convolution_reference.hpp>
#include <weft/device/cpu/depthwise_part.hpp>
#include <weft/device/cpu/pool_image.hpp>
#include <weft/device/cpu/resample_row.hpp>

/// Convolutions and pools of frozen models.
namespace weft::frozen {

/// The image that a convolution reads, with its padding and with zeros between its pixels.
constexpr weft::detail::padded_image padded(const convolution_shape& s, std::int64_t spread_height = 1,
                                            std::int64_t spread_width = 1) {
  return {s.height,
          s.width,
          s.channels,
          s.pad_top,
          s.pad_left,
          spread_height,
          spread_width,
          (s.out_height - 1) * s.stride_height + (s.window_height - 1) * s.dilation_height + 1,
          (s.out_width - 1) * s.stride_width + (s.window_width - 1) * s.dilation_width + 1};
}

/// Returns the padding in front of an axis whose windows are centred, as padding::same does.
constexpr std::int64_t margin(std::int64_t result, std::int64_t extent, std::int64_t window, std::int64_t stride,
                              std::int64_t dilation) {
  const std::int64_t missing = (result - 1) * stride + (window - 1) * dilation + 1 - extent;
  return missing > 0 ? missing / 2 : 0;
}

/// Multiplies windows by filters in vectors that few filters fill: with the bits of a session, which always uses two
/// vectors.
template <std::size_t Filters, class T>
void multiply_windows(const weft::detail::window_product<T>& all) {
  const isa set = detected_isa();
  const auto by = [&]<std::size_t vectors>() {
    return weft::detail::window_product<T, vectors>{all.runs, all.rows, all.columns, all.base, all.offsets, all.b,
                                                    all.ldb,  0,        all.out,     all.ldo,  all.add};
  };
  const auto with_panels = [](auto product, std::size_t bytes) {
    product.panel_stride = bytes / sizeof(T);
    return product;
  };
  if constexpr (Filters * sizeof(T) <= 32) {
    multiversioned_up_to_avx2(with_panels(by.template operator()<1>(), set == isa::baseline ? 16 : 32));
  } else {
#if defined(__x86_64__)
    if constexpr (Filters * sizeof(T) <= 64)
      if (set == isa::avx512) {
        auto product = with_panels(by.template operator()<1>(), 64);
        return weft::detail::call_avx512(product);
      }
#endif
    multiversioned(
        weft::detail::window_isa<T>(all.columns),
        with_panels(all, weft::detail::window_panel<T>(weft::detail::window_isa<T>(all.columns)) * sizeof(T)));
  }
}

/// Convolves images with `Filters` filters whose rows are `stride` elements apart, padded to whole vectors of any
/// processor. `scratch`: memory for one padded image. A transposed convolution spreads the pixels of its images.
template <class T, std::size_t Filters>
void convolve(const convolution_shape& s, const T* images, const T* filters, std::int64_t stride, T* out, T* scratch,
              std::int64_t spread_height = 1, std::int64_t spread_width = 1) {
  const weft::detail::padded_image image = padded(s, spread_height, spread_width);
  const bool plain = image.is_plain();
  const std::int64_t pitch = image.pitch(), channels = s.channels;
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  weft::detail::window_runs runs = {{1, size(s.window_height), size(s.window_width * channels)},
                                    {0, s.dilation_height * pitch, 1}};
  if (s.dilation_width != 1)
    runs = {{size(s.window_height), size(s.window_width), size(channels)},
            {s.dilation_height * pitch, s.dilation_width * channels, 1}};
  const std::size_t columns = size(s.filters), pixels = size(s.out_height * s.out_width);
  if (!plain) __builtin_memset(scratch, 0, image.elements() * sizeof(T));
  for (std::int64_t n = 0; n < s.batch; ++n, images += s.image_elements(), out += s.out_elements()) {
    if (!plain) image.copy(images, scratch, 0, image.padded_height);
    constexpr std::size_t block = 168;  // pixels: whole tiles of all processors
    std::ptrdiff_t offsets[block];
    for (std::size_t first = 0; first < pixels; first += block) {
      const std::size_t count = pixels - first < block ? pixels - first : block;
      std::int64_t y = static_cast<std::int64_t>(first) / s.out_width,
                   x = static_cast<std::int64_t>(first) % s.out_width;
      for (std::size_t i = 0; i < count; ++i) {
        offsets[i] = y * s.stride_height * pitch + x * s.stride_width * channels;
        if (++x == s.out_width) x = 0, ++y;
      }
      multiply_windows<Filters>(weft::detail::window_product<T>{runs, count, columns, plain ? images : scratch, offsets,
                                                                filters, size(stride), 0, out + first * columns,
                                                                columns, false});
    }
  }
}

/// Convolves the groups of channels of each image one after another. The filters of a group are as in `convolve`, and
/// are followed by those of the next group. `scratch`: memory for a group's part of an image, of a result, and of a
/// padded image.
template <class T, std::size_t Filters>
void convolve_groups(const convolution_shape& s, const T* images, const T* filters, std::int64_t stride, T* out,
                     T* scratch) {
  convolution_shape one = s;
  one.batch = 1, one.channels /= s.groups, one.filters /= s.groups, one.groups = 1;
  T *const result = scratch + one.image_elements(), *const padded = result + one.out_elements();
  const auto copy = [](const T* from, std::int64_t from_step, T* to, std::int64_t to_step, std::int64_t width,
                       std::int64_t rows) {
    for (; rows > 0; --rows, from += from_step, to += to_step)
      __builtin_memcpy(to, from, static_cast<std::size_t>(width) * sizeof(T));
  };
  const std::int64_t depth = s.window_height * s.window_width * one.channels;
  for (std::int64_t n = 0; n < s.batch; ++n, images += s.image_elements(), out += s.out_elements())
    for (std::int64_t g = 0; g < s.groups; ++g) {
      copy(images + g * one.channels, s.channels, scratch, one.channels, one.channels, s.height * s.width);
      convolve<T, Filters>(one, scratch, filters + g * depth * stride, stride, result, padded);
      copy(result, one.filters, out + g * one.filters, s.filters, one.filters, s.out_height * s.out_width);
    }
}

/// Computes a convolution with filters for each channel.
template <class T>
void depthwise(const convolution_shape& s, const T* images, const T* filters, T* out) {
  for (std::int64_t i = 0; i < s.batch * s.out_height; ++i)
    multiversioned(device::detail::depthwise_part<T, convolution_kind::forward>{s, images, filters, out, i});
}

/// Computes a max or average pool.
template <class T, pool_kind Kind>
void pool(const convolution_shape& s, const T* images, T* out) {
  for (std::int64_t n = 0; n < s.batch; ++n, images += s.image_elements(), out += s.out_elements())
    multiversioned_up_to_avx2(device::detail::pool_image<T, Kind>{s, images, images, out, 0, s.out_height});
}

/// Resamples `in` rows to `out` rows of `inner` elements. `bands`: three numbers for each, as in device::resample_band.
template <class T>
void resample(const T* x, T* y, std::int64_t outer, std::int64_t in, std::int64_t out, std::int64_t inner,
              const std::int32_t* bands, const T* weights) {
  multiversioned_up_to_avx2([=] {
    for (std::int64_t o = 0; o < outer; ++o)
      for (std::int64_t r = 0; r < out; ++r) {
        const auto number = [&](int i) { return static_cast<std::size_t>(bands[3 * r + i]); };
        device::resample_row(x + o * in * inner, {number(0), number(1), number(2)}, weights,
                             static_cast<std::size_t>(inner), y + (o * out + r) * inner);
      }
  });
}

}  // namespace weft::frozen
