// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/box_copies.hpp>
#include <weft/ops/arrays/slice.hpp>
#include <weft/ops/cpu/fold.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/images/depth_to_space.hpp>
#include <weft/ops/images/window.hpp>
#include <weft/ops/reduce/reduce.hpp>

/// Windows of images as channels (im2col), and their sums. Not part of <weft/weft.hpp>.
namespace weft {

/// The windows that `unfold` takes and `fold` adds. Name the options in this order.
struct unfold_options {
  size2d window = 1;
  size2d stride = 1;
  padding pad = padding::valid;
  size2d dilation = 1;
  depth_order order = depth_order::dcr;  ///< of the channels: dcr as in TensorFlow, crd as in PyTorch
};

namespace detail {

constexpr window_options windows_of(const unfold_options& o) { return {o.stride, o.pad, o.dilation}; }

template <class Images, unfold_options O>
constexpr bool can_unfold() {
  if constexpr (Images::rank != 4)
    return true;
  else
    return O.window.height > 0 && O.window.width > 0 && sensible(windows_of(O)) &&
           has_windows(Images::spec, O.window.height, O.window.width, windows_of(O));
}

/// The extents of the windows of Images.
template <class Images, unfold_options O>
using unfolded = windowed<Images, typename numbers_of<windows_of(O)>::type, O.window.height, O.window.width,
                          extent_of<Images, 3>() * extent<O.window.height * O.window.width>>;

/// The images that consist of Patches.
template <class Patches, auto Height, auto Width, unfold_options O>
using folded = dims<extent_at<Patches, 0>::value, Height, Width,
                    extent_of<Patches, 3>() / extent<O.window.height * O.window.width>>;

template <class Patches, auto Height, auto Width, unfold_options O>
constexpr bool can_fold() {
  if constexpr (Patches::rank != 4) {
    return true;
  } else if constexpr (!is_extent(Height) || !is_extent(Width) || O.window.height < 1 || O.window.width < 1) {
    return false;
  } else if constexpr (!divides(O.window.height * O.window.width, Patches::spec[3])) {
    return false;
  } else {
    using Images = folded<Patches, Height, Width, O>;
    if constexpr (can_unfold<Images, O>())
      return unfolded<Images, O>::spec == Patches::spec;
    else
      return false;
  }
}

}  // namespace detail

/// At least one window must fit into the images; strides and dilations are at least 1.
template <class Images, unfold_options Options>
struct windows_do_not_fit : mistake<!detail::can_unfold<Images, Options>()> {};

/// Patches must be what `unfold` returns for images of this height and width.
template <class Patches, auto Height, auto Width, unfold_options Options>
struct patches_do_not_fit : mistake<!detail::can_fold<Patches, Height, Width, Options>()> {};

WEFT_COLD_BEGIN

/// The windows of unfold and fold.
struct unfold_attributes {
  detail::window_attributes windows;
  attribute<std::int64_t> height, width;  ///< of a window
  attribute<bool> by_channel;             ///< depth_order::crd
};

namespace detail {

/// Returns the windows of a call. Throws invalid_argument if run-time extents do not fit.
inline convolution_shape windows_of_call(const prepare_context& p, const unfold_attributes& a, const shape& images,
                                         const shape& patches) {
  const convolution_shape s = convolution_of(a.windows, images, a.height, a.width, patches);
  if (!windows_fit(s) || patches[0] != s.batch || patches[3] != a.height * a.width * s.channels)
    throw error(error_code::invalid_argument, p.node.op->name,
                {"patches of ", to_string(patches), " are not the windows of images of ", to_string(images)});
  return s;
}

/// The windows whose row `i` is inside the image: `count` windows from `first` on. The first row is at `begin`.
struct window_run {
  std::int64_t first, count, begin;
  window_run(std::int64_t i, std::int64_t extent, std::int64_t stride, std::int64_t dilation, std::int64_t pad,
             std::int64_t windows) {
    const std::int64_t at = i * dilation - pad;  // in the first window
    first = at < 0 ? (-at + stride - 1) / stride : 0;
    begin = at + first * stride;
    const std::int64_t end = extent > at ? (extent - at + stride - 1) / stride : 0;
    count = (end < windows ? end : windows) - first;
    if (count < 0) count = 0;
  }
};

}  // namespace detail

/// Adds windows at their places in images.
template <class T>
struct fold_op {
  static constexpr const char* name = "fold";
  static constexpr const char* onnx = "fold()";
  using attributes = unfold_attributes;
  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::fold_kernel<T>(p, detail::windows_of_call(p, a, p.outputs[0].extents, p.inputs[0].extents),
                                      a.by_channel);
  }
  static void gradient(gradient_context& g, const attributes& a);
};

/// Copies windows to patches. Padding is 0.
template <class T>
struct unfold_op {
  static constexpr const char* name = "unfold";
  static constexpr const char* onnx = "unfold()";
  using attributes = unfold_attributes;
  static strided_copies copies(const prepare_context& p, const attributes& a) {
    const convolution_shape s = detail::windows_of_call(p, a, p.inputs[0].extents, p.outputs[0].extents);
    const std::int64_t pixels = a.height * a.width;
    box_copies all(p);
    std::size_t copied = 0;
    for (std::int64_t i = 0; i < pixels; ++i) {
      const detail::window_run rows(i / a.width, s.height, s.stride_height, s.dilation_height, s.pad_top, s.out_height);
      const detail::window_run columns(i % a.width, s.width, s.stride_width, s.dilation_width, s.pad_left, s.out_width);
      const shape box(s.batch, rows.count, columns.count, s.channels);
      if (box.elements() == 0) continue;
      box_walk image, patch;
      image.begin[1] = rows.begin, image.begin[2] = columns.begin;
      image.step[1] = s.stride_height, image.step[2] = s.stride_width;
      patch.begin[1] = rows.first, patch.begin[2] = columns.first;
      patch.begin[3] = i * (a.by_channel ? 1 : s.channels), patch.step[3] = a.by_channel ? pixels : 1;
      all.copy(box, 0, image, 0, patch);
      copied += box.elements();
    }
    if (copied < p.outputs[0].extents.elements()) all.fill_rest(0);
    return all;
  }
  static void gradient(gradient_context& g, const attributes& a) {
    if constexpr (is_differentiable<T>) g.set_gradient(0, record<fold_op<T>>({g.upstream()}, g.input(0).info(), a));
  }
};
template <class T>
void fold_op<T>::gradient(gradient_context& g, const attributes& a) {
  g.set_gradient(0, record<unfold_op<T>>({g.upstream()}, g.input(0).info(), a));
}

WEFT_COLD_END

/// Returns the pixels of each window of images `[batch, height, width, channels]` as channels, `[batch, rows, columns,
/// window height * window width * channels]` (tf.image.extract_patches): `unfold<unfold_options{.window = 3}>(x)` of
/// `[batch, 28, 28, 8]` is `[batch, 26, 26, 72]`. Padding is 0. All element types. With `.order = depth_order::crd`,
/// channels are ordered as in torch.nn.functional.unfold, whose result `[batch, channels, windows]` is
/// `swapaxes<1, 2>(flatten<1, 2>(y))`.
template <unfold_options Options, Expression Expr>
[[nodiscard]] auto unfold(const Expr& images) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  using mistaken = first_mistake<images_are_not_of_rank_4<D>, windows_do_not_fit<D, Options>>;
  static_assert(correct<mistaken>,
                "unfold: needs images [batch, height, width, channels], and windows that fit into the padded image");
  if constexpr (correct<mistaken>) {
    if constexpr (Expr::symbolic) gpu::compile_kernels<gpu::moves, T>();
    if constexpr (Expr::symbolic && is_differentiable<T>) gpu::compile_kernels<fold_op, T>();
    const auto x = materialize(images);
    const shape& extents = extents_of(x);
    constexpr std::int64_t height = Options.window.height, width = Options.window.width;
    const std::int64_t channels = extents[3] < 0 ? 0 : extents[3] * height * width;  // names have no product
    const auto call = detail::call_windows(extents, height, width, channels, detail::windows_of(Options));
    return call_operation<unfold_op<T>, T, detail::unfolded<D, Options>>(
        call.result, {call.attributes, height, width, Options.order == depth_order::crd}, x);
  } else {
    return detail::same_after_mistake(images);
  }
}

/// Adds windows at their places in images of the given height and width, a number or a name: the transpose of unfold
/// (torch.nn.functional.fold). `fold<28, 28, unfold_options{.window = 3}>(y)` of `[batch, 26, 26, 72]` is `[batch, 28,
/// 28, 8]`. Elements are numbers. Throws invalid_argument if run-time extents do not fit.
template <auto Height, auto Width, unfold_options Options, Expression Expr>
[[nodiscard]] auto fold(const Expr& patches) {
  using T = value_t<Expr>;
  using D = dims_t<Expr>;
  using mistaken = first_mistake<images_are_not_of_rank_4<D>, reduction_undefined_for<T>,
                                 patches_do_not_fit<D, Height, Width, Options>>;
  static_assert(
      correct<mistaken>,
      "fold: fold<height, width, unfold_options{...}>(y) needs patches of numbers, as unfold returns them for "
      "images of this height and width");
  if constexpr (correct<mistaken>) {
    using Images = detail::folded<D, Height, Width, Options>;
    using unknown = sliced_extents_are_unknown<std::conditional_t<Expr::symbolic, Images, D>, Images>;
    static_assert(correct<unknown>, "fold: over tensors, height and width must be numbers, or extents of the patches");
    if constexpr (Expr::symbolic) {
      gpu::compile_kernels<gpu::moves, T>();
      gpu::compile_kernels<fold_op, T>();
    }
    const auto x = materialize(patches);
    if constexpr (Expr::symbolic) detail::remember_extents<Images>(*x.erased().builder());
    const shape extents = detail::sliced_extents<Images>(x);
    constexpr size2d window = Options.window;
    const auto call =
        detail::call_windows(extents, window.height, window.width, extents[3], detail::windows_of(Options));
    return call_operation<fold_op<T>, T, Images>(
        extents, {call.attributes, window.height, window.width, Options.order == depth_order::crd}, x);
  } else {
    return detail::same_after_mistake(patches);
  }
}

template <auto...>
auto unfold(...) WEFT_DELETED;  // options are a template argument: unfold<unfold_options{.window = 3}>(images)
template <auto...>
auto fold(...) WEFT_DELETED;  // all options are template arguments: fold<28, 28, unfold_options{.window = 3}>(y)

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/fold.hpp>
#endif
