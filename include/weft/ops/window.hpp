#pragma once

#include <cstdint>

#include <weft/device/convolution.hpp>
#include <weft/ops/operation.hpp>
#include <weft/tensor/mistake.hpp>
#include <weft/tensor/sequence.hpp>

namespace weft {

/// Two extents, of an image's height and width; one number stands for both.
struct size2d {
  int height = 1, width = 1;
  constexpr size2d(int both) : height(both), width(both) {}
  constexpr size2d(int h, int w) : height(h), width(w) {}
};

/// What surrounds an image, so that windows may reach over its edges.
///
/// `padding::valid` is none. `padding::same` is as much as makes the result's extents those of the image divided by the
/// stride, rounded up: half on each side and, of an odd number, the larger half below and to the right (TensorFlow's).
/// `padding::of(n)` is n elements on every side (PyTorch's), `padding::of(top, bottom, left, right)` what it says.
struct padding {
  bool by_result = false;
  int top = 0, bottom = 0, left = 0, right = 0;

  static const padding valid, same;
  static constexpr padding of(int all) { return {false, all, all, all, all}; }
  static constexpr padding of(int top, int bottom, int left, int right) { return {false, top, bottom, left, right}; }
};

inline constexpr padding padding::valid{};
inline constexpr padding padding::same{.by_result = true};

namespace detail {

/// Along one axis: where windows begin, and how many there are.
struct window_axis {
  std::int64_t before, after, result;
};

constexpr window_axis place_windows(std::int64_t extent, std::int64_t window, std::int64_t stride,
                                    std::int64_t dilation, bool by_result, std::int64_t before, std::int64_t after) {
  const std::int64_t reach = (window - 1) * dilation;
  if (!by_result) {
    // With the image's extent the result's is only known when a step runs, and has no name of its own.
    return {before, after, windows_along(extent, window, stride, dilation, before + after)};
  }
  if (stride == 1) return {reach / 2, reach - reach / 2, extent};
  const std::int64_t result = (extent + stride - 1) / stride;
  const std::int64_t missing = (result - 1) * stride + reach + 1 - extent;
  const std::int64_t all = missing > 0 ? missing : 0;
  return {all / 2, all - all / 2, result};
}

struct window_options {
  size2d stride = 1;
  padding pad;
  size2d dilation = 1;
};

constexpr window_axis rows_of(std::int64_t height, std::int64_t window, const window_options& o) {
  return place_windows(height, window, o.stride.height, o.dilation.height, o.pad.by_result, o.pad.top, o.pad.bottom);
}
constexpr window_axis columns_of(std::int64_t width, std::int64_t window, const window_options& o) {
  return place_windows(width, window, o.stride.width, o.dilation.width, o.pad.by_result, o.pad.left, o.pad.right);
}

/// The result's extent keeps the name of a dynamic one, where it is the image's.
template <auto Extent, std::int64_t Result>
constexpr auto window_extent() {
  if constexpr (is_dynamic(Extent))
    return Extent;
  else
    return canonical<Result>();
}

/// How a window slides; of convolutions, their gradients and pools.
struct window_attributes {
  attribute<std::int64_t> stride_height, stride_width, dilation_height, dilation_width;
  attribute<std::int64_t> pad_top, pad_bottom, pad_left, pad_right;
};

/// The run-time form of a call.
struct window_call {
  shape result;
  window_attributes attributes;
};

window_call call_windows(const shape& images, std::int64_t window_height, std::int64_t window_width,
                         std::int64_t filters, const window_options&);

/// What attributes and extents describe.
inline convolution_shape convolution_of(const window_attributes& a, const shape& images, std::int64_t window_height,
                                        std::int64_t window_width, const shape& result) {
  return {images[0],        images[1], images[2],    images[3],       window_height,  window_width,
          result[3],        result[1], result[2],    a.stride_height, a.stride_width, a.dilation_height,
          a.dilation_width, a.pad_top, a.pad_bottom, a.pad_left,      a.pad_right};
}

#if WEFT_DEFINITIONS

WEFT_DECL window_call call_windows(const shape& images, std::int64_t window_height, std::int64_t window_width,
                                   std::int64_t filters, const window_options& o) {
  const window_axis rows = rows_of(images[1], window_height, o), columns = columns_of(images[2], window_width, o);
  return {shape(images[0], rows.result, columns.result, filters),
          {o.stride.height, o.stride.width, o.dilation.height, o.dilation.width, rows.before, rows.after,
           columns.before, columns.after}};
}

#endif

constexpr bool has_windows(const shape& images, std::int64_t window_height, std::int64_t window_width,
                           const window_options& o) {
  return rows_of(images[1], window_height, o).result > 0 && columns_of(images[2], window_width, o).result > 0;
}

/// Whether an image's extent known at run time only makes the result's extent one without a name.
constexpr bool names_extents(const shape& images, const window_options& o) {
  return (images[1] >= 0 || (o.pad.by_result && o.stride.height == 1)) &&
         (images[2] >= 0 || (o.pad.by_result && o.stride.width == 1));
}

constexpr bool sensible(const window_options& o) {
  return o.stride.height > 0 && o.stride.width > 0 && o.dilation.height > 0 && o.dilation.width > 0 && o.pad.top >= 0 &&
         o.pad.bottom >= 0 && o.pad.left >= 0 && o.pad.right >= 0;
}

}  // namespace detail

/// Images are of rank 4: batch, height, width, channels.
template <class Images>
struct images_are_not_of_rank_4 : mistake<Images::rank != 4> {};

}  // namespace weft
