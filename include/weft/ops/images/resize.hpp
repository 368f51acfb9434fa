// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/counted.hpp>
#include <weft/ops/images/extent_as.hpp>
#include <weft/ops/images/resample.hpp>
#include <weft/ops/images/window.hpp>
#include <weft/ops/index/gather.hpp>

/// Image resizing. Not part of <weft/weft.hpp>.
namespace weft {

/// Whether a smaller image is filtered, so that no detail of the original becomes a pattern in it.
enum class antialias : unsigned char { off, on };

/// The new height and width must be extents of at least 1, and images must have pixels.
template <class Images, auto Height, auto Width>
struct resize_extents_out_of_range
    : mistake<!detail::is_extent(Height) || !detail::is_extent(Width) || detail::code(Height) == 0 ||
              detail::code(Width) == 0 || (Images::rank == 4 && (Images::spec[1] == 0 || Images::spec[2] == 0))> {};

/// Antialiasing needs resize_coordinates::half_pixel.
template <resize_coordinates How, antialias Filter>
struct antialias_needs_half_pixels : mistake<(Filter == antialias::on && How != resize_coordinates::half_pixel)> {};

namespace detail {

/// Returns the new extent along an axis of tensors. Throws invalid_argument if it was not passed.
inline std::int64_t resized_to(const char* name, std::int64_t extent, int given) {
  if (extent >= 0) return extent;
  if (given < 1)
    throw error(error_code::invalid_argument, name,
                {"the size of a tensor's result must be at least 1: pass it, as in ", name,
                 "<dyn<\"h\">, dyn<\"w\">>(images, size2d(480, 640))"});
  return given;
}

/// Calls f<Axis, Out>(x, extent) for the height and then for the width. `extent` is the new extent over tensors.
template <auto Height, auto Width, class X, class F>
auto resize_axes(const char* name, const X& x, size2d size, const F& f) {
  std::int64_t height = code(Height), width = code(Width);
  if constexpr (!X::symbolic)
    height = resized_to(name, height, size.height), width = resized_to(name, width, size.width);
  return f.template operator()<2, Width>(f.template operator()<1, Height>(x, height), width);
}

/// Returns the index of the nearest pixel for each new one.
template <resize_coordinates How, class Index, class In, class Out>
auto nearest_pixels(const Index& i, const In& in, const Out& out) {
  if constexpr (How == resize_coordinates::half_pixel) {
    // Nearest is floor(coordinate + 1/2), and no coordinate is below it.
    return materialize(((2 * i + 1) * in) / (2 * out));
  } else if constexpr (How == resize_coordinates::align_corners) {
    const auto last = maximum(out - 1, tensor<std::int64_t>(1));
    return materialize((2 * i * (in - 1) + last) / (2 * last));
  } else {
    return materialize(i * in / out);
  }
}

template <int Axis, auto Out, resize_coordinates How, class X>
auto resize_nearest_along(const X& x, std::int64_t extent) {
  if constexpr (dims_t<X>::spec[Axis] == code(Out)) {
    return x;
  } else {
    const auto out = [&] {
      if constexpr (X::symbolic && is_dynamic(Out))
        return extent_value<Out>(x);
      else
        return tensor<std::int64_t>(extent);
    }();
    return gather<Axis>(x, nearest_pixels<How>(counted_from_0<std::int64_t, dims<Out>>(x, extent),
                                               extent_as<std::int64_t, Axis>(x), out));
  }
}

template <device::resize_filter Filter, resize_coordinates How, int Axis, auto Out, class X>
auto resample_along(const X& x, std::int64_t extent) {
  using T = value_t<X>;
  using To = with_extent<dims_t<X>, Axis, Out>;
  if constexpr (std::is_same_v<To, dims_t<X>>) {
    return x;
  } else {
    if constexpr (X::symbolic && !To::is_static) remember_extents<To>(*x.erased().builder());
    return call_operation<resample_op<T>, T, To>(resized(extents_of(x), Axis, extent),
                                                 {std::size_t{Axis}, Filter, How, false}, x);
  }
}

template <auto Height, auto Width, device::resize_filter Filter, resize_coordinates How, class Expr>
auto resample(const char* name, const Expr& images, size2d size) {
  return resize_axes<Height, Width>(name, images, size, []<int Axis, auto Out>(const auto& x, std::int64_t extent) {
    return resample_along<Filter, How, Axis, Out>(x, extent);
  });
}

}  // namespace detail

/// The first mistake in a call that computes weighted sums of pixels, if any.
template <class Expr, auto Height, auto Width, resize_coordinates How, antialias Filter>
using resample_mistake =
    first_mistake<images_are_not_of_rank_4<dims_t<Expr>>, resize_extents_out_of_range<dims_t<Expr>, Height, Width>,
                  antialias_needs_half_pixels<How, Filter>, not_floating<value_t<Expr>>>;

/// Resizes images `[batch, height, width, channels]` to `[batch, Height, Width, channels]` by taking the nearest pixel
/// (tf.image.resize with method "nearest", mode "nearest-exact" of torch.nn.functional.interpolate). Positions are
/// computed in integers. All element types. Throws out_of_range if an image has no pixels.
///
/// All functions of this header accept a size known only at run time. In a graph, another value determines it:
/// `resize_nearest<dyn<"h">, dyn<"w">>(images)`. For tensors, pass it: `resize_nearest<dyn<"h">, dyn<"w">>(images,
/// size2d(480, 640))`.
template <auto Height, auto Width, resize_coordinates Coordinates = resize_coordinates::half_pixel, Expression Expr>
[[nodiscard]] auto resize_nearest(const Expr& images, size2d size = 0) {
  using D = dims_t<Expr>;
  using mistaken = first_mistake<images_are_not_of_rank_4<D>, resize_extents_out_of_range<D, Height, Width>>;
  static_assert(correct<mistaken>, "resize_nearest<height, width>: needs images [batch, height, width, channels]");
  return detail::unless<mistaken>(images, [&](const auto& x) {
    return detail::resize_axes<Height, Width>("resize_nearest", x, size,
                                              []<int Axis, auto Out>(const auto& e, std::int64_t extent) {
                                                return detail::resize_nearest_along<Axis, Out, Coordinates>(e, extent);
                                              });
  });
}

/// Resizes images `[batch, height, width, channels]` to `[batch, Height, Width, channels]` by interpolating between the
/// four nearest pixels (tf.image.resize, mode "bilinear" of torch.nn.functional.interpolate): float or double.
/// Positions beyond the outermost pixels take their values. With `antialias::on`, as in `resize_bilinear<64, 64,
/// resize_coordinates::half_pixel, antialias::on>(images)`, the filter widens by the factor by which an image shrinks
/// (antialias=True in both libraries); this needs half_pixel. Throws out_of_range if an image has no pixels.
template <auto Height, auto Width, resize_coordinates Coordinates = resize_coordinates::half_pixel,
          antialias Filter = antialias::off, Expression Expr>
[[nodiscard]] auto resize_bilinear(const Expr& images, size2d size = 0) {
  using mistaken = resample_mistake<Expr, Height, Width, Coordinates, Filter>;
  static_assert(correct<mistaken>,
                "resize_bilinear<height, width>: needs float or double images [batch, height, width, channels]: "
                "cast<float>(images)");
  constexpr auto filter = Filter == antialias::on ? device::resize_filter::triangle : device::resize_filter::linear;
  return detail::unless<mistaken>(images, [&](const auto& x) {
    return detail::resample<Height, Width, filter, Coordinates>("resize_bilinear", x, size);
  });
}

/// Resizes images by cubic convolution of sixteen pixels (mode "bicubic" of torch.nn.functional.interpolate): see
/// resize_bilinear. The parameter of the cubic is -0.75, and pixels beyond the image equal the outermost ones; with
/// `antialias::on` it is -0.5 and such pixels do not count, as in PyTorch and TensorFlow.
template <auto Height, auto Width, resize_coordinates Coordinates = resize_coordinates::half_pixel,
          antialias Filter = antialias::off, Expression Expr>
[[nodiscard]] auto resize_bicubic(const Expr& images, size2d size = 0) {
  using mistaken = resample_mistake<Expr, Height, Width, Coordinates, Filter>;
  static_assert(correct<mistaken>,
                "resize_bicubic<height, width>: needs float or double images [batch, height, width, channels]: "
                "cast<float>(images)");
  constexpr auto filter = Filter == antialias::on ? device::resize_filter::keys : device::resize_filter::cubic;
  return detail::unless<mistaken>(images, [&](const auto& x) {
    return detail::resample<Height, Width, filter, Coordinates>("resize_bicubic", x, size);
  });
}

/// Resizes images by averaging the part of the original that each pixel covers, of which pixels at its edge count in
/// part (tf.image.resize with method "area"): see resize_bilinear. The mode "area" of torch.nn.functional.interpolate
/// is adaptive_avg_pool2d, in which they count fully.
template <auto Height, auto Width, Expression Expr>
[[nodiscard]] auto resize_area(const Expr& images, size2d size = 0) {
  constexpr auto how = resize_coordinates::half_pixel;
  using mistaken = resample_mistake<Expr, Height, Width, how, antialias::off>;
  static_assert(correct<mistaken>,
                "resize_area<height, width>: needs float or double images [batch, height, width, channels]: "
                "cast<float>(images)");
  if constexpr (correct<mistaken>)
    return detail::resample<Height, Width, device::resize_filter::area, how>("resize_area", images, size);
  else
    return detail::same_after_mistake(images);
}

template <auto...>
auto resize_nearest(...) WEFT_DELETED;  // the new size is in brackets: resize_nearest<64, 64>(images)
template <auto...>
auto resize_bilinear(...) WEFT_DELETED;  // the new size is in brackets: resize_bilinear<64, 64>(images)
template <auto...>
auto resize_bicubic(...) WEFT_DELETED;  // the new size is in brackets: resize_bicubic<64, 64>(images)
template <auto...>
auto resize_area(...) WEFT_DELETED;  // the new size is in brackets: resize_area<64, 64>(images)

}  // namespace weft
