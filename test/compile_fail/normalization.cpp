// SPDX-License-Identifier: BSL-1.0
#include <weft/ops/images/local_response_normalization.hpp>
#include <weft/ops/reduce/normalization.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case batch_normalization_channels: The scale has other channels than the value.
// error: channels_differ
// error: 28, 28, 16
// error: dims<32>
// error: scale and offset of \[channels\]
graph g;
auto images = placeholder<float, dims<dyn<"batch">, 28, 28, 16>>(g, "images");
auto offset = variable<float, dims<16>>(g, "offset", init::zeros{});
auto scale = variable<float, dims<32>>(g, "scale", init::ones{});  // wrong
auto scale = variable<float, dims<16>>(g, "scale", init::ones{});  // right
auto [y, mean, variance] = batch_normalization_training(images, scale, offset);

// case batch_normalization_moments: The moments have other channels than the value.
// error: channels_differ
// error: dims<4, 16>
// error: dims<8>
// error: moments, scale and offset of \[channels\]
tensor<float, dims<4, 16>> x;
tensor<float, dims<16>> mean, scale, offset;
tensor<float, dims<8>> variance;   // wrong
tensor<float, dims<16>> variance;  // right
tensor<float, dims<4, 16>> y = batch_normalization(x, mean, variance, scale, offset);

// case batch_normalization_rank: The value has one axis.
// error: no_axis_beside_channels
// error: dims<16>
// error: needs x of \[..., channels\]
tensor<float, dims<16>> scale, offset;
tensor<float, dims<16>> x;     // wrong
tensor<float, dims<1, 16>> x;  // right
auto [y, mean, variance] = batch_normalization_training(x, scale, offset);

// case batch_normalization_residual: The residual has other extents than the value.
// error: residual_differs
// error: dims<4, 8, 8, 16>
// error: dims<4, 4, 4, 16>
// error: the residual must have the extents
tensor<float, dims<4, 8, 8, 16>> x;
tensor<float, dims<16>> scale, offset;
tensor<float, dims<4, 4, 4, 16>> residual;  // wrong
tensor<float, dims<4, 8, 8, 16>> residual;  // right
auto [y, mean, variance] = batch_normalization_training(x, scale, offset, residual, {.relu = true});

// case group_normalization_groups: The groups do not divide the channels.
// error: groups_do_not_divide_channels
// error: dims<4, 8, 8, 16>
// error: groups that divide the channels
tensor<float, dims<4, 8, 8, 16>> x;
tensor<float, dims<16>> scale, offset;
constexpr int groups = 3;  // wrong
constexpr int groups = 4;  // right
tensor<float, dims<4, 8, 8, 16>> y = group_normalization<groups>(x, scale, offset);

// case layer_normalization_alone: The parameters are missing.
// error: layer_normalization
// error: takes x, scale and offset: layer_normalization\(x, scale, offset\)
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 4>>(g);
auto y = layer_normalization(x);                                                                               // wrong
auto y = layer_normalization(x, variable<float, dims<4>>(g, "scale"), variable<float, dims<4>>(g, "offset"));  // right

// case layer_normalization_extents: The scale has other extents than the last axes of the value.
// error: last_axes_differ
// error: dims<16>
// error: scale and offset of the last extents of x
tensor<float, dims<4, 8, 16>> x;
tensor<float, dims<16>> scale, offset;     // wrong
tensor<float, dims<8, 16>> scale, offset;  // right
tensor<float, dims<4, 8, 16>> y = layer_normalization<2>(x, scale, offset);

// case local_response_channels: The number of channels is known only at run time.
// error: extent_is_not_an_int
// error: local_response_normalization: needs float or double
graph g;
auto x = placeholder<float, dims<8, 7, 7, dyn<"channels">>>(g, "x");  // wrong
auto x = placeholder<float, dims<dyn<"batch">, 7, 7, 96>>(g, "x");    // right
auto y = local_response_normalization(x, {.depth_radius = 2});
