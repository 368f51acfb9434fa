// SPDX-License-Identifier: BSL-1.0
#include <weft/ops/images/conv1d.hpp>
#include <weft/ops/images/conv2d_transpose.hpp>
#include <weft/ops/images/depthwise_conv2d.hpp>
#include <weft/ops/images/grouped_conv2d.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case conv1d_channels: The filters have other channels than the sequences.
// error: conv2d_channels_differ
// error: conv1d: needs sequences
graph g;
auto x = placeholder<float, dims<dyn<"batch">, dyn<"length">, 8>>(g, "x");
auto y = conv1d(x, variable<float, dims<3, 4, 8>>(g, "w"));  // wrong
auto y = conv1d(x, variable<float, dims<3, 8, 4>>(g, "w"));  // right

// case conv1d_rank: Images instead of sequences.
// error: sequences_are_not_of_rank_3
// error: conv1d: needs sequences \[batch, length, in\] and filters \[window, in, out\]
tensor<float, dims<2, 1, 16, 8>> x;  // wrong
tensor<float, dims<2, 16, 8>> x;     // right
auto y = conv1d(x, tensor<float, dims<3, 8, 4>>());

// case conv2d_argument: The stride is an argument.
// error: images and filters: conv2d<conv2d_options\{\.stride = 2\}>\(x, w\); also pad, dilation
tensor<float, dims<1, 4, 4, 1>> x;
tensor<float, dims<3, 3, 1, 2>> w;
auto y = conv2d(x, w, 2);                            // wrong
auto y = conv2d<conv2d_options{.stride = 2}>(x, w);  // right

// case conv2d_channels: The filters have other channels than the images.
// error: conv2d_channels_differ
// error: 28, 28, 1
// error: 5, 5, 32, 64
graph g;
auto images = placeholder<float, dims<dyn<"batch">, 28, 28, 1>>(g, "images");
auto filters = variable<float, dims<5, 5, 32, 64>>(g, "filters", init::zeros{});  // wrong
auto filters = variable<float, dims<5, 5, 1, 64>>(g, "filters", init::zeros{});   // right
auto features = conv2d(images, filters);

// case conv2d_dynamic: The extents of the filters are known only at run time.
// error: filter_extents_are_dynamic
// error(g++): height
graph g;
auto images = placeholder<float, dims<1, dyn<"height">, dyn<"width">, 3>>(g, "images");
auto filters = placeholder<float, dims<dyn<"height">, 3, 3, 8>>(g, "filters");  // wrong
auto filters = placeholder<float, dims<3, 3, 3, 8>>(g, "filters");              // right
auto features = conv2d<conv2d_options{.stride = 2}>(images, filters);

// case conv2d_filter: The filter is larger than the image, without padding.
// error: filter_is_larger_than_image
// error: 4, 28, 1
// error: 5, 5, 1, 8
tensor<float, dims<1, 4, 28, 1>> images;
tensor<float, dims<5, 5, 1, 8>> filters;
auto features = conv2d<conv2d_options{.pad = padding::valid}>(images, filters);  // wrong
auto features = conv2d<conv2d_options{.pad = padding::same}>(images, filters);   // right

// case conv2d_integers: A convolution of integers.
// error: conv2d_undefined_for
// error: int
// error: float, double, half or bfloat16
using element = std::int32_t;  // wrong
using element = half;          // right
tensor<element, dims<1, 28, 28, 1>> images;
tensor<element, dims<5, 5, 1, 8>> filters;
auto features = conv2d(images, filters);

// case conv2d_option: A misspelt option.
// After an error in a template argument g++ still tries each overload; one alone would take 14 lines.
// error(clang++): field designator 'strides' does not refer to any field in type '(weft::)?conv2d_options'; did you
// error(g++): 'weft::conv2d_options' has no non-static data member named 'strides'
// max-lines: 21
// alone
#include <weft/weft.hpp>
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 28, 28, 1>>(g, "x");
auto w = variable<float, dims<5, 5, 1, 8>>(g, "w");
auto y = conv2d<conv2d_options{.strides = 2}>(x, w);  // wrong
auto y = conv2d<conv2d_options{.stride = 2}>(x, w);   // right

// case conv2d_options_argument: The options are an argument in braces.
// error: images and filters: conv2d<conv2d_options\{\.stride = 2\}>\(x, w\); also pad, dilation
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 28, 28, 1>>(g, "x");
auto w = variable<float, dims<5, 5, 1, 8>>(g, "w");
auto y = conv2d(x, w, {.stride = 2});                // wrong
auto y = conv2d<conv2d_options{.stride = 2}>(x, w);  // right

// case conv2d_options_typed_argument: The options are an argument.
// error: images and filters: conv2d<conv2d_options\{\.stride = 2\}>\(x, w\); also pad, dilation
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 28, 28, 1>>(g, "x");
auto w = variable<float, dims<5, 5, 1, 8>>(g, "w");
auto y = conv2d(x, w, conv2d_options{.stride = 2});  // wrong
auto y = conv2d<conv2d_options{.stride = 2}>(x, w);  // right

// case conv2d_padding_text: Stride and padding are arguments.
// error: images and filters: conv2d<conv2d_options\{\.stride = 2\}>\(x, w\); also pad, dilation
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 28, 28, 1>>(g, "x");
auto w = variable<float, dims<5, 5, 1, 8>>(g, "w");
auto y = conv2d(x, w, 1, "SAME");  // wrong
auto y = conv2d(x, w);             // right

// case conv2d_rank: The images are rows of pixels.
// error: images_are_not_of_rank_4
// error: 784
graph g;
auto images = placeholder<float, dims<dyn<"batch">, 784>>(g, "images");
auto filters = variable<float, dims<5, 5, 1, 32>>(g, "filters", init::zeros{});
auto features = conv2d(images, filters);                                          // wrong
auto features = conv2d(reshape<dims<dyn<"batch">, 28, 28, 1>>(images), filters);  // right

// case conv2d_stride: The stride is 0.
// error: conv2d_options_out_of_range
tensor<float, dims<1, 28, 28, 1>> images;
tensor<float, dims<5, 5, 1, 8>> filters;
auto features = conv2d<conv2d_options{.stride = {0, 1}}>(images, filters);  // wrong
auto features = conv2d<conv2d_options{.stride = {2, 1}}>(images, filters);  // right

// case conv2d_transpose_channels: The filters are those of conv2d: their last extent is not the channels of the images.
// error: conv2d_transpose_channels_differ
// error: conv2d_transpose: needs images \[batch, height, width, in\] and filters \[height, width, out, in\]
tensor<float, dims<2, 7, 7, 64>> images;
tensor<float, dims<4, 4, 64, 32>> filters;  // wrong
tensor<float, dims<4, 4, 32, 64>> filters;  // right
auto y = conv2d_transpose<conv2d_transpose_options{.stride = 2}>(images, filters);

// case conv2d_transpose_options_argument: The stride is an argument.
// error: conv2d_transpose<conv2d_transpose_options
tensor<float, dims<2, 7, 7, 64>> images;
tensor<float, dims<3, 3, 32, 64>> filters;
auto y = conv2d_transpose(images, filters, 2);                                      // wrong
auto y = conv2d_transpose<conv2d_transpose_options{.stride = 2}>(images, filters);  // right

// case conv2d_transpose_output_padding: The output padding is not less than the stride.
// error: conv2d_transpose_options_out_of_range
// error: conv2d_transpose: needs images
tensor<float, dims<2, 7, 7, 64>> images;
tensor<float, dims<3, 3, 32, 64>> filters;
constexpr conv2d_transpose_options options{.stride = 2, .pad = padding::of(1), .output_padding = 2};  // wrong
constexpr conv2d_transpose_options options{.stride = 2, .pad = padding::of(1), .output_padding = 1};  // right
auto y = conv2d_transpose<options>(images, filters);

// case conv2d_transpose_padding: The padding crops the whole result.
// error: conv2d_transpose_result_is_empty
// error: conv2d_transpose: needs images
tensor<float, dims<2, 1, 1, 64>> images;
tensor<float, dims<3, 3, 32, 64>> filters;
auto y = conv2d_transpose<conv2d_transpose_options{.pad = padding::of(2)}>(images, filters);  // wrong
auto y = conv2d_transpose<conv2d_transpose_options{.pad = padding::of(1)}>(images, filters);  // right

// case conv2d_types: Images and filters have different element types.
// error: element_types_differ
// error: float
// error: double
tensor<float, dims<1, 28, 28, 1>> images;
tensor<double, dims<5, 5, 1, 8>> filters;  // wrong
tensor<float, dims<5, 5, 1, 8>> filters;   // right
auto features = conv2d(images, filters);

// case conv_no_filter: The number of filters instead of the filters, as in layers.
// error: images and filters: conv2d<conv2d_options\{\.stride = 2\}>\(x, w\); also pad, dilation
graph g;
auto im = placeholder<float, dims<8, 28, 28, 1>>(g, "im");
auto y = conv2d(im, 8);                                          // wrong
auto y = conv2d(im, variable<float, dims<3, 3, 1, 8>>(g, "c"));  // right

// case conv_number: The stride is the template argument.
// error: images and filters: conv2d<conv2d_options\{\.stride = 2\}>\(x, w\); also pad, dilation
graph g;
auto im = placeholder<float, dims<8, 28, 28, 1>>(g, "im");
auto f = variable<float, dims<5, 5, 1, 4>>(g, "f");
auto y = conv2d<2>(im, f);                            // wrong
auto y = conv2d<conv2d_options{.stride = 2}>(im, f);  // right

// case conv_one: The filters are missing.
// error: images and filters: conv2d<conv2d_options\{\.stride = 2\}>\(x, w\); also pad, dilation
graph g;
auto im = placeholder<float, dims<8, 28, 28, 1>>(g, "im");
auto y = conv2d(im);                                             // wrong
auto y = conv2d(im, variable<float, dims<3, 3, 1, 8>>(g, "c"));  // right

// case depthwise_conv2d_channels: The filters are those of conv2d.
// error: depthwise_channels_differ
// error: depthwise_conv2d: needs images \[batch, height, width, channels\]
tensor<float, dims<2, 7, 7, 8>> images;
tensor<float, dims<3, 3, 1, 8>> filters;  // wrong
tensor<float, dims<3, 3, 8, 1>> filters;  // right
auto y = depthwise_conv2d(images, filters);

// case grouped_conv2d_channels: The filters have all channels of the images instead of those of one group.
// error: conv2d_groups_do_not_fit
// error: grouped_conv2d: needs images \[batch, height, width, in\] and filters \[height, width, in / groups, out\]
tensor<float, dims<2, 7, 7, 8>> images;
tensor<float, dims<3, 3, 8, 16>> filters;  // wrong
tensor<float, dims<3, 3, 2, 16>> filters;  // right
auto y = grouped_conv2d<4>(images, filters);
