// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include <weft/device/convolution.hpp>
#include <weft/ops/operation.hpp>
#include <weft/tensor/mistake.hpp>
#include <weft/tensor/sequence.hpp>

namespace weft {

/// A height and a width; one number stands for both.
struct size2d {
  int height = 1, width = 1;
  constexpr size2d(int both) : height(both), width(both) {}
  constexpr size2d(int h, int w) : height(h), width(w) {}
};

/// The margin around an image over which windows may extend.
///
/// `padding::valid` has no margin. `padding::same` makes the result's extents equal to the image's extents divided by
/// the stride, rounded up; the margin is split in half, with the larger half below and to the right (as in TensorFlow).
/// `padding::of(n)` adds n elements on every side (as in PyTorch), `padding::of(top, bottom, left, right)` the given
/// numbers.
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

/// The padding and the number of windows along one axis.
struct window_axis {
  std::int64_t before, after, result;
};

/// Padding that depends on an extent known only when a step runs.
inline constexpr std::int64_t padding_by_result = -1;

constexpr window_axis place_windows(std::int64_t extent, std::int64_t window, std::int64_t stride,
                                    std::int64_t dilation, bool by_result, std::int64_t before, std::int64_t after) {
  const std::int64_t reach = (window - 1) * dilation;
  if (!by_result) return {before, after, windows_along(extent, window, stride, dilation, before + after)};
  if (stride == 1) return {reach / 2, reach - reach / 2, extent};
  if (extent < 0) return {padding_by_result, padding_by_result, extent};
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

/// Returns the result's extent along an axis: a number or, for a dynamic extent, a formula. It is floor((h + padding -
/// reach - 1) / stride) + 1, written such that equal extents have one form: floor(h / 2) for windows of 2 with stride
/// 2, ceil(h / 2) for windows of 3 with stride 2 and padding 1.
template <auto Extent, std::int64_t Window, std::int64_t Stride, std::int64_t Dilation, bool ByResult,
          std::int64_t Padding>
constexpr auto window_extent() {
  if constexpr (!is_dynamic(Extent)) {
    return canonical<place_windows(code(Extent), Window, Stride, Dilation, ByResult, 0, Padding).result>();
  } else if constexpr (Stride == 1 && ByResult) {
    return Extent;
  } else if constexpr (ByResult) {
    return ceil_quotient(Extent, extent<Stride>);
  } else {
    constexpr std::int64_t more = Padding - (Window - 1) * Dilation - 1 + Stride;
    constexpr std::int64_t rest = (more % Stride + Stride) % Stride, whole = (more - rest) / Stride;
    if constexpr (Stride == 1)
      return longer<whole>(Extent);
    else if constexpr (rest == Stride - 1)
      return longer<whole>(ceil_quotient(Extent, extent<Stride>));
    else
      return longer<whole>(floor_quotient(longer<rest>(Extent), extent<Stride>));
  }
}

/// Options as numbers. nvcc repeats template arguments in generated code, and cannot name an object of a class there if
/// a template computes it.
template <std::int64_t StrideHeight, std::int64_t StrideWidth, std::int64_t DilationHeight, std::int64_t DilationWidth,
          bool ByResult, std::int64_t PaddingOfRows, std::int64_t PaddingOfColumns>
struct window_numbers {
  template <auto Extent, std::int64_t Window>
  static constexpr auto rows() {
    return window_extent<Extent, Window, StrideHeight, DilationHeight, ByResult, PaddingOfRows>();
  }
  template <auto Extent, std::int64_t Window>
  static constexpr auto columns() {
    return window_extent<Extent, Window, StrideWidth, DilationWidth, ByResult, PaddingOfColumns>();
  }
};
template <window_options O>
struct numbers_of {
  using type = window_numbers<O.stride.height, O.stride.width, O.dilation.height, O.dilation.width, O.pad.by_result,
                              O.pad.top + O.pad.bottom, O.pad.left + O.pad.right>;
};

/// The extents of a result with a window for each place in the images, and a given last extent.
template <class Images, class Numbers, std::int64_t Height, std::int64_t Width, auto Last>
using windowed = dims<extent_at<Images, 0>::value, Numbers::template rows<extent_at<Images, 1>::value, Height>(),
                      Numbers::template columns<extent_at<Images, 2>::value, Width>(), Last>;

/// The strides, dilations and paddings of convolutions, their gradients and pools.
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

/// Returns the convolution given by attributes and extents, all of which are known.
convolution_shape convolution_of(const window_attributes&, const shape& images, std::int64_t window_height,
                                 std::int64_t window_width, const shape& result);

#if WEFT_DEFINITIONS

WEFT_DECL convolution_shape convolution_of(const window_attributes& a, const shape& images, std::int64_t window_height,
                                           std::int64_t window_width, const shape& result) {
  convolution_shape s = {images[0],        images[1], images[2],    images[3],       window_height,  window_width,
                         result[3],        result[1], result[2],    a.stride_height, a.stride_width, a.dilation_height,
                         a.dilation_width, a.pad_top, a.pad_bottom, a.pad_left,      a.pad_right};
  if (s.pad_top == padding_by_result) {
    const window_axis rows = place_windows(s.height, window_height, s.stride_height, s.dilation_height, true, 0, 0);
    s.pad_top = rows.before, s.pad_bottom = rows.after;
  }
  if (s.pad_left == padding_by_result) {
    const window_axis columns = place_windows(s.width, window_width, s.stride_width, s.dilation_width, true, 0, 0);
    s.pad_left = columns.before, s.pad_right = columns.after;
  }
  return s;
}

WEFT_DECL window_call call_windows(const shape& images, std::int64_t window_height, std::int64_t window_width,
                                   std::int64_t filters, const window_options& o) {
  const window_axis rows = rows_of(images[1], window_height, o), columns = columns_of(images[2], window_width, o);
  return {shape(images[0], rows.result, columns.result, filters),
          {o.stride.height, o.stride.width, o.dilation.height, o.dilation.width, rows.before, rows.after,
           columns.before, columns.after}};
}

#endif

/// Returns true if at least one window fits, as far as the image's extents are known.
constexpr bool has_windows(const shape& images, std::int64_t window_height, std::int64_t window_width,
                           const window_options& o) {
  return (images[1] < 0 || rows_of(images[1], window_height, o).result > 0) &&
         (images[2] < 0 || columns_of(images[2], window_width, o).result > 0);
}

constexpr bool sensible(const window_options& o) {
  return o.stride.height > 0 && o.stride.width > 0 && o.dilation.height > 0 && o.dilation.width > 0 && o.pad.top >= 0 &&
         o.pad.bottom >= 0 && o.pad.left >= 0 && o.pad.right >= 0;
}

}  // namespace detail

/// Images must be of rank 4: batch, height, width, channels.
template <class Images>
struct images_are_not_of_rank_4 : mistake<Images::rank != 4> {};

/// Sequences must be of rank 3: batch, length, channels.
template <class Dims>
struct sequences_are_not_of_rank_3 : mistake<Dims::rank != 3> {};

}  // namespace weft
