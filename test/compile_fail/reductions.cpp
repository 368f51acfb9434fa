// SPDX-License-Identifier: BSL-1.0
#include <weft/ops/index/boolean_mask.hpp>  // whose overloads clang counts up, too
#include <weft/ops/reduce/reductions.hpp>
#include <weft/ops/reduce/scan.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case all_axis_argument: The axis is an argument, as in Python.
// error: axes are template arguments: all<1>\(x > 0\)
tensor<float, dims<4, 3>> x;
auto y = all(x > 0, 1);  // wrong
auto y = all<1>(x > 0);  // right

// case any_of_numbers: any() of numbers instead of conditions.
// error: elements_are_not_bool
// error: any: needs axes of the operand and elements of bool: any<1>\(x > 0\)
tensor<float, dims<4, 3>> x;
auto y = any<1>(x);       // wrong
auto y = any<1>(x != 0);  // right

// case argmax_axis: An index along an axis that does not exist.
// error: axis_out_of_range
// error: dims<3, 784>
// error: -3
tensor<float, dims<3, 784>> x;
auto y = argmax<-3>(x);  // wrong
auto y = argmax<-2>(x);  // right

// case argmax_dim: keepdim among the template arguments.
// error: arguments_are_not_taken
// error: argmax: takes one axis and removes it: argmax<1>\(x\)
tensor<float, dims<4, 3>> t;
auto y = argmax<1, 0>(t);  // wrong
auto y = argmax<1>(t);     // right

// case argmax_without_axis: argmax without an axis.
// error: axis_is_not_a_template_argument
// error: dims<2, 3>
// error: argmax: the axis is a template argument: argmax<1>\(x\)
tensor<float, dims<2, 3>> x;
auto y = argmax(x);     // wrong
auto y = argmax<1>(x);  // right

// case argmin_axis: An axis that does not exist.
// error: argmin: the axis is out of range
tensor<float, dims<4, 3>> x;
auto y = argmin<2>(x);  // wrong
auto y = argmin<1>(x);  // right

// case axis: The axis does not exist.
// error: axis_out_of_range
// error: dims<3, 784>
// error: 2
tensor<float, dims<3, 784>> x;
auto y = sum<2>(x);  // wrong
auto y = sum<1>(x);  // right

// case axis_of_fraction: The axis is a fraction.
// error: axes_are_not_integers|invalid explicitly-specified argument for template parameter 'Axes'
// error(g++): sum: needs axes of the operand and numeric elements: cast<float>\(x\)
// max-lines: 21
tensor<float, dims<2, 3>> x;
auto y = sum<1.0>(x);  // wrong
auto y = sum<1>(x);    // right

// case cumsum_argument: The axis is an argument.
// error: the axis is a template argument, options are named: cumsum<1>\(x, \{\.exclusive =
tensor<float, dims<4, 3>> t;
auto y = cumsum(t, 1);  // wrong
auto y = cumsum<1>(t);  // right

// case cumsum_axis: The axis does not exist.
// error: axis_out_of_range
// error: dims<3, 784>
// error: 2
tensor<float, dims<3, 784>> x;
auto y = cumsum<2>(x);  // wrong
auto y = cumsum<1>(x);  // right

// case cumsum_bools: Running sums of bools.
// error: elements_not_numeric
// error: bool
// error: cast<float>
tensor<bool, dims<3>> x;
auto y = cumsum<0>(x);               // wrong
auto y = cumsum<0>(cast<float>(x));  // right

// case cumsum_include: The header is not included.
// error: 'cumsum'
// alone
#include <weft/weft.hpp>
tensor<float, dims<2, 3>> x;
auto y = cumsum<1>(x);  // wrong
auto y = x;             // right

// case cumsum_misspelt: A misspelt option.
// error: the axis is a template argument, options are named: cumsum<1>\(x, \{\.exclusive = true\}\)
tensor<float, dims<2, 3>> x;
auto y = cumsum<0>(x, {.exclusiv = true});   // wrong
auto y = cumsum<0>(x, {.exclusive = true});  // right

// case cumsum_option: The option is a bool without its name.
// error: the axis is a template argument, options are named: cumsum<1>\(x, \{\.exclusive =
tensor<float, dims<4, 3>> t;
auto y = cumsum<1>(t, true);                 // wrong
auto y = cumsum<1>(t, {.exclusive = true});  // right

// case keep_dims_argument: keep_dims is an argument.
// error: axis_is_not_a_template_argument
// error: mean: axes are template arguments: mean<1>\(x\), mean<1, keep_dims>\(x\)
tensor<float, dims<2, 3>> x;
auto y = mean<1>(x, true);       // wrong
auto y = mean<1, keep_dims>(x);  // right

// case logsumexp_axis: The axis does not exist.
// error: axis_out_of_range
// error: logsumexp: needs axes of the operand
tensor<float, dims<4, 3>> x;
auto y = logsumexp<2>(x);  // wrong
auto y = logsumexp<1>(x);  // right

// case max_of_two: A number as a second operand; only an integer after a tensor is an axis.
// error: axis_is_not_a_template_argument
// error: <int>
// error: max: axes are template arguments: max<1>\(x\); maximum\(x
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
auto y = max(x, 0);                                              // wrong
auto y = maximum(x, 0) + max(x, 0.f) + max(0, x) + min(1.5, x);  // right

// case mean_axis_argument: The axis is an argument.
// error: axis_is_not_a_template_argument
// error: <int>
// error: mean: axes are template arguments: mean<1>\(x\)
tensor<float, dims<2, 3>> x;
auto y = mean(x, 1);  // wrong
auto y = mean<1>(x);  // right

// case mean_of_bools: The mean of bools.
// error: not_floating
// error: <bool>
// error: mean: needs axes of the operand and elements of float or double:
tensor<int, dims<3>> x, y;
auto accuracy = mean(x == y);               // wrong
auto accuracy = mean(cast<float>(x == y));  // right

// case member_sum: sum() of a node as a member, as in other libraries.
// error: no member named 'sum'
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
auto y = x.sum();  // wrong
auto y = sum(x);   // right

// case norm_order_argument: The order is an argument, as in Python.
// error: axes and the order are template arguments: norm<1>\(x\), norm<1, norm_order::one>\(x\)
tensor<float, dims<4, 3>> x;
auto y = norm(x, 1);                // wrong
auto y = norm<norm_order::one>(x);  // right

// case sum_axis_braces: The axes are in braces.
// error: axes are template arguments: sum<0, 1>\(x\)
tensor<float, dims<2, 3>> t;
auto y = sum(t, {0, 1});  // wrong
auto y = sum<0, 1>(t);    // right

// case sum_of_bools: The sum of bools.
// error: reduction_undefined_for
// error: <bool>
// error: sum: needs axes of the operand and numeric elements: cast<float>\(x\)
tensor<float, dims<2, 3>> x;
auto y = sum(x > 0);             // wrong
auto y = sum(cast<int>(x > 0));  // right

// case sum_of_list: Axes in braces.
// error: axis_is_not_a_template_argument
// error: axes are template arguments: sum<0, 1>\(x\)
tensor<float, dims<4, 3>> t;
auto y = sum(t, {0, 1});  // wrong
auto y = sum<0, 1>(t);    // right

// case sum_of_type: The element type is a template argument.
// error: arguments_are_not_taken
// error: axes are template arguments: sum<0>\(cast<double>\(x\)\)
tensor<float, dims<4, 3>> t;
auto y = sum<double>(t);        // wrong
auto y = sum(cast<double>(t));  // right

// case variance_of_integers: The elements are integers.
// error: not_floating
// error: variance: needs axes of the operand and elements of float or double: variance<0,
tensor<std::int32_t, dims<4, 3>> x;
auto y = variance<0>(x);               // wrong
auto y = variance<0>(cast<float>(x));  // right
