// SPDX-License-Identifier: BSL-1.0
#include <weft/ops/reduce/covariance.hpp>
#include <weft/ops/reduce/cummax.hpp>
#include <weft/ops/reduce/cumprod.hpp>
#include <weft/ops/reduce/logcumsumexp.hpp>
#include <weft/ops/reduce/quantile.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case correlation_vector: One variable.
// error: operand_is_not_a_matrix
// error: correlation: needs observations \[\.\.\., variables, n\]
tensor<float, dims<4>> x;
auto y = correlation(x);                  // wrong
auto y = correlation(expand_dims<0>(x));  // right

// case covariance_option: An option of variance.
// error: covariance_options_not_taken|invalid explicitly-specified argument
tensor<float, dims<4, 3>> x;
auto y = covariance<1>(x);       // wrong
auto y = covariance<biased>(x);  // right

// case cummax_argument: The axis is an argument.
// error: the axis is a template argument: auto \[values, indices\] = cummax<1>\(x\)
tensor<float, dims<4, 3>> x;
auto [y, i] = cummax(x, 1);  // wrong
auto [y, i] = cummax<1>(x);  // right

// case cumprod_axis: The axis does not exist.
// error: axis_out_of_range
// error: cumprod: needs a valid axis and numeric elements
tensor<float, dims<4, 3>> x;
auto y = cumprod<2>(x);  // wrong
auto y = cumprod<1>(x);  // right

// case logcumsumexp_integers: Logarithms of integers.
// error: not_floating
// error: logcumsumexp: needs a valid axis and elements of float or double
tensor<int, dims<4, 3>> x;
auto y = logcumsumexp<0>(x);               // wrong
auto y = logcumsumexp<0>(cast<float>(x));  // right

// case median_argument: The axis is an argument.
// error: the axis is a template argument: median<0>\(x\)
tensor<float, dims<4, 3>> x;
auto y = median(x, 0);  // wrong
auto y = median<0>(x);  // right

// case quantile_axes: Two axes.
// error: more_than_one_axis
// error: quantile: needs an axis of the operand
tensor<float, dims<4, 3>> x;
auto y = quantile<0, 1>(x, 0.5);                  // wrong
auto y = quantile<0>(reshape<dims<12>>(x), 0.5);  // right

// case quantile_of_floats: Several quantiles in float.
// error: quantile_is_not_a_double
tensor<float, dims<4, 3>> x;
auto y = quantile<0>(x, tensor<float, dims<2>>{0.1f, 0.9f});  // wrong
auto y = quantile<0>(x, tensor<double, dims<2>>{0.1, 0.9});   // right
