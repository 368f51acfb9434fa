// SPDX-License-Identifier: BSL-1.0
#include <weft/ops/images/adaptive_pooling.hpp>
#include <weft/ops/images/boxes.hpp>
#include <weft/ops/images/color.hpp>
#include <weft/ops/images/conv3d.hpp>
#include <weft/ops/images/grid_sample.hpp>
#include <weft/ops/images/max_unpool.hpp>
#include <weft/ops/images/measures.hpp>
#include <weft/ops/images/pooling1d.hpp>
#include <weft/ops/images/pooling3d.hpp>
#include <weft/ops/images/regions.hpp>
#include <weft/ops/images/resize.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case adaptive_size_argument: The size is an argument.
// error: adaptive_avg_pool2d<7>\(images\)
tensor<float, dims<2, 9, 9, 3>> images;
auto y = adaptive_avg_pool2d(images, 7);  // wrong
auto y = adaptive_avg_pool2d<7>(images);  // right

// case adaptive_rank: A sequence in place of images.
// error: images_are_not_of_rank_4
// error: adaptive_max_pool2d<size>: needs floating-point images
tensor<float, dims<2, 9, 3>> sequences;
auto y = adaptive_max_pool2d<4>(sequences);  // wrong
auto y = adaptive_max_pool1d<4>(sequences);  // right

// case antialias_corners: An antialiased image with aligned corners.
// error: antialias_needs_half_pixels
tensor<float, dims<2, 9, 9, 3>> images;
auto y = resize_bilinear<4, 4, resize_coordinates::align_corners, antialias::on>(images);  // wrong
auto y = resize_bilinear<4, 4, resize_coordinates::half_pixel, antialias::on>(images);     // right

// case color_bytes: Colours of bytes.
// error: not_floating
// error: rgb_to_hsv: needs float or double images
tensor<std::uint8_t, dims<2, 9, 9, 3>> images;
auto y = rgb_to_hsv(images);                     // wrong
auto y = rgb_to_hsv(cast<float>(images) / 255);  // right

// case color_channels: An image of four channels.
// error: channels_are_not_three
tensor<float, dims<2, 9, 9, 4>> images;
auto y = adjust_hue(images, 0.5);                   // wrong
auto y = adjust_hue(slice<-1, 0, 3>(images), 0.5);  // right

// case conv3d_channels: Filters in PyTorch's order.
// error: conv3d_channels_differ
// error: conv3d: needs volumes \[batch, depth, height, width, channels\]
tensor<float, dims<1, 4, 4, 4, 2>> x;
tensor<float, dims<8, 2, 3, 3, 3>> w;
auto y = conv3d(x, w);                            // wrong
auto y = conv3d(x, transpose<2, 3, 4, 1, 0>(w));  // right

// case conv3d_large: The filter is deeper than the volume.
// error: filter_is_larger_than_volume
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 2, 4, 4, 2>>(g, "x");
auto w = placeholder<float, dims<3, 3, 3, 2, 8>>(g, "w");
auto y = conv3d<conv3d_options{.pad = padding3d::valid}>(x, w);  // wrong
auto y = conv3d(x, w);                                           // right

// case conv3d_output_padding: An output padding of the stride.
// error: conv3d_options_out_of_range
tensor<float, dims<1, 4, 4, 4, 2>> x;
tensor<float, dims<3, 3, 3, 8, 2>> w;
constexpr conv3d_transpose_options same{.stride = 2, .output_padding = 1};
constexpr conv3d_transpose_options valid{.stride = 2, .pad = padding3d::valid, .output_padding = 1};
auto y = conv3d_transpose<same>(x, w);   // wrong
auto y = conv3d_transpose<valid>(x, w);  // right

// case grid_of_3: A grid of volumes for images.
// error: grid_does_not_fit
// error: grid_sample: needs images
tensor<float, dims<1, 4, 4, 2>> x;
tensor<float, dims<1, 2, 2, 3>> three;
tensor<float, dims<1, 2, 2, 2>> two;
auto y = grid_sample(x, three);  // wrong
auto y = grid_sample(x, two);    // right

// case max_pool3d_argument: The window is an argument.
// error: max_pool3d<2>\(x\)
tensor<float, dims<1, 4, 4, 4, 2>> x;
auto y = max_pool3d(x, 2);  // wrong
auto y = max_pool3d<2>(x);  // right

// case nms_scores: There are more scores than boxes.
// error: scores_do_not_fit_boxes
tensor<float, dims<5, 4>> boxes;
tensor<float, dims<6>> six;
tensor<float, dims<5>> five;
auto y = non_max_suppression<3>(boxes, six);   // wrong
auto y = non_max_suppression<3>(boxes, five);  // right

// case pool1d_images: Images in place of sequences.
// error: sequences_are_not_of_rank_3
tensor<float, dims<2, 9, 9, 3>> images;
auto y = max_pool1d<2>(images);  // wrong
auto y = max_pool2d<2>(images);  // right

// case roi_numbers: The images of boxes are not given as integers.
// error: boxes_of_images_do_not_fit
// error: roi_align<height, width, samples>: needs features
tensor<float, dims<2, 9, 9, 3>> features;
tensor<float, dims<5, 4>> boxes;
tensor<float, dims<5>> of;
auto y = roi_align<7, 7>(features, boxes, of);                      // wrong
auto y = roi_align<7, 7>(features, boxes, cast<std::int32_t>(of));  // right

// case ssim_extents: The images have different extents.
// error: image_extents_differ
tensor<float, dims<2, 12, 12, 3>> a, c;
tensor<float, dims<2, 12, 13, 3>> b;
auto y = ssim(a, b, 1);  // wrong
auto y = ssim(a, c, 1);  // right

// case unpool_extents: The indices belong to other values.
// error: unpooled_extents_differ
tensor<float, dims<1, 2, 2, 3>> values;
tensor<std::int32_t, dims<1, 2, 3, 3>> other;
tensor<std::int32_t, dims<1, 2, 2, 3>> indices;
auto y = max_unpool2d<4, 4>(values, other);    // wrong
auto y = max_unpool2d<4, 4>(values, indices);  // right
