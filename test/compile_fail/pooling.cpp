// SPDX-License-Identifier: BSL-1.0
#include <weft/ops/images/resize.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case average_pool2d: The padding is as wide as the window, which could then cover padding only.
// error: pool_options_out_of_range
graph g;
auto images = placeholder<float, dims<dyn<"batch">, 7, 7, 64>>(g, "images");
auto pooled = avg_pool2d<2, 2, padding::of(2)>(images);  // wrong
auto pooled = avg_pool2d<2, 2, padding::of(1)>(images);  // right

// case max_pool2d: The window is larger than the image.
// error: window_is_larger_than_image
// error: 7, 7, 64
graph g;
auto images = placeholder<float, dims<dyn<"batch">, 7, 7, 64>>(g, "images");
auto pooled = max_pool2d<8>(images);  // wrong
auto pooled = max_pool2d<7>(images);  // right

// case max_pool2d_sizes: Window and stride are arguments.
// error: max_pool2d: window, stride and padding are template arguments: max_pool2d<2>\(x\), max_pool2d<3,
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 28, 28, 1>>(g, "x");
auto y = max_pool2d(x, 2, 2);  // wrong
auto y = max_pool2d<2>(x);     // right

// case pool_argument: The window is an argument.
// error: option_is_not_a_template_argument
// error: dims<1, 4, 4, 1>
// error: max_pool2d: window, stride and padding are template arguments:
tensor<float, dims<1, 4, 4, 1>> x;
auto y = max_pool2d(x, 2);  // wrong
auto y = max_pool2d<2>(x);  // right

// case pool_integers: The elements are integers.
// error: pool_undefined_for
// error: int
// error: floating-point images
using element = std::int32_t;  // wrong
using element = bfloat16;      // right
tensor<element, dims<1, 28, 28, 1>> images;
auto halved = max_pool2d<2>(images);

// case pool_list: The window is in braces.
// error: window, stride, padding: max_pool2d<2>\(x\), max_pool2d<3, 2, padding::same>\(x\)
graph g;
auto im = placeholder<float, dims<8, 28, 28, 1>>(g, "im");
auto y = max_pool2d(im, {2, 2});  // wrong
auto y = max_pool2d<2>(im);       // right

// case pool_of_any_size: The window is wider than an image of which only the height is unknown.
// error: window_is_larger_than_image
graph g;
auto images = placeholder<float, dims<1, dyn<"height">, 7, 64>>(g, "images");
auto pooled = max_pool2d<8>(images);  // wrong
auto pooled = max_pool2d<7>(images);  // right

// case pool_padding_text: The padding is a string.
// error: arguments_are_not_taken
// error: max_pool2d: the padding must be padding::same or padding::valid: max_pool2d<3, 2,
graph g;
auto im = placeholder<float, dims<8, 28, 28, 1>>(g, "im");
auto y = max_pool2d<2, 2, "SAME">(im);         // wrong
auto y = max_pool2d<2, 2, padding::same>(im);  // right

// case resize_bilinear_bytes: Bytes cannot be interpolated.
// error: not_floating
// error: resize_bilinear<height, width>: needs float or double images
tensor<std::uint8_t, dims<2, 7, 7, 3>> images;
auto y = resize_bilinear<64, 64>(images);               // wrong
auto y = resize_bilinear<64, 64>(cast<float>(images));  // right

// case resize_nearest_rank: One image instead of a batch.
// error: images_are_not_of_rank_4
// error: resize_nearest<height, width>: needs images \[batch, height, width, channels\]
tensor<float, dims<7, 7, 3>> image;
auto y = resize_nearest<14, 14>(image);                  // wrong
auto y = resize_nearest<14, 14>(expand_dims<0>(image));  // right

// case resize_size_argument: The new size is an argument.
// error: resize_bilinear<64, 64>\(images\)
tensor<float, dims<2, 7, 7, 3>> images;
auto y = resize_bilinear(images, 64, 64);  // wrong
auto y = resize_bilinear<64, 64>(images);  // right
