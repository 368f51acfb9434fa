// SPDX-License-Identifier: BSL-1.0
#include <vector>

#include <weft/ops/arrays/reverse.hpp>
#include <weft/ops/arrays/stack.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case concat_argument: The axis is an argument, as in Python.
// error: axis_is_not_a_template_argument
// error: concat<1>\(x, y\)
tensor<float, dims<3, 4>> x;
auto z = concat(x, x, 1);  // wrong
auto z = concat<1>(x, x);  // right

// case concat_axis: The axis does not exist.
// error: axis_out_of_range<.*dims<3, 4>, 2>
tensor<float, dims<3, 4>> x;
auto z = concat<2>(x, x);  // wrong
auto z = concat<1>(x, x);  // right

// case concat_extents: The operands differ in an extent other than that of the axis.
// error: extents_beside_axis_differ
// error: dims<3, 4>
// error: dims<2, 5>
tensor<float, dims<3, 4>> x;
tensor<float, dims<2, 5>> y;
auto z = concat<0>(x, y);                  // wrong
auto z = concat<0>(x, slice<0, 0, 2>(x));  // right

// case concat_list: The operands are a list, as in tf.concat([...], 1).
// error: arguments_are_not_taken
// error: concat: takes values one by one, and the axis as a template argument: concat<1>\(x, y\)
tensor<float, dims<4, 3>> t;
auto y = concat({t, t}, 1);  // wrong
auto y = concat<1>(t, t);    // right

// case concat_one_list: The operands are in braces.
// error: arguments_are_not_taken
// error: concat: takes values one by one, and the axis as a template argument: concat<1>\(x, y\)
tensor<float, dims<4, 3>> t;
auto y = concat<1>({t, t});  // wrong
auto y = concat<1>(t, t);    // right

// case concat_types: The operands have two element types.
// error: element_types_differ<float, int>
// error: one type
tensor<float, dims<3, 4>> x;
tensor<std::int32_t, dims<3, 4>> y;
auto z = concat<0>(x, y);               // wrong
auto z = concat<0>(x, cast<float>(y));  // right

// case concat_vector: A vector of tensors.
// error: operand_is_not_a_tensor
// error: concat: takes values one by one, and the axis as a template argument: concat<1>\(x, y\)
tensor<float, dims<4, 3>> t;
std::vector<decltype(t)> all{t, t};  // wrong
auto y = concat<1>(all);             // wrong
auto y = concat<1>(t, t);            // right

// case fill_extents: A negative extent.
// error: extents_are_not_valid
// error: dims<-1, 3>
graph g;
auto y = zeros<float, dims<-1, 3>>(g);        // wrong
auto y = zeros<float, dims<dyn<"b">, 3>>(g);  // right

// case fill_node: The value is a node.
// error: filled_with_no_number
// error: fill<T, dims<\.\.\.>>\(g, number\): the extents must be a dims; broadcast_to<dims<\.\.\.>>\(x\) takes a node
graph g;
auto x = placeholder<float>(g);
auto y = fill<float, dims<2, 3>>(g, x);  // wrong
auto y = broadcast_to<dims<2, 3>>(x);    // right

// case pad_argument: The padding is an argument, as in Python.
// error: axis_is_not_a_template_argument
// error: pad<1, 0, 3>\(x\)
tensor<float, dims<3, 4>> x;
auto z = pad(x, 2);        // wrong
auto z = pad<1, 2, 2>(x);  // right

// case pad_list: The paddings are in braces.
// error: an axis, then the padding in front and at the end: pad<1, 0, 3>\(x\), one axis at a time
tensor<float, dims<2, 3>> x;
auto y = pad(x, {{1, 1}, {0, 0}});  // wrong
auto y = pad<0, 1, 1>(x);           // right

// case pad_negative: The padding is negative.
// error: padding_is_negative<0, -1>
tensor<float, dims<3, 4>> x;
auto z = pad<1, 0, -1>(x);   // wrong
auto z = slice<1, 0, 3>(x);  // right

// case range_bools: A range of bools.
// error: range_elements_not_numbers
// error: range<T, extent>\(g\): T must be an integer type, float or double, and the extent a number or a name
graph g;
auto y = range<bool, 3>(g);  // wrong
auto y = range<int, 3>(g);   // right

// case reverse_argument: The axis is an argument, as in NumPy.
// error: axis_is_not_a_template_argument
// error: reverse<0>\(x\)
tensor<float, dims<3, 4>> x;
auto z = reverse(x, 0);  // wrong
auto z = reverse<0>(x);  // right

// case reverse_axes: One axis is listed twice.
// error: axis_out_of_range<.*dims<3, 4>, 0, 0>
tensor<float, dims<3, 4>> x;
auto z = reverse<0, 0>(x);  // wrong
auto z = reverse<0, 1>(x);  // right

// case stack_extents: The operands have different extents.
// error: stacked_extents_differ
// error: stack: needs an axis of the result, and operands of one type and equal extents
tensor<float, dims<4, 3>> x;
tensor<float, dims<3>> b;
auto y = stack<0>(x, b);      // wrong
auto y = stack<0>(x, x + b);  // right

// case zeros_extents: Zeros of extents that are known at run time.
// error: extents_are_not_given
// error: zeros: pass the run-time extents, as in \(shape\(7, 3\)\)
auto x = zeros<float, dims<dyn<"n">, 3>>();             // wrong
auto x = zeros<float, dims<dyn<"n">, 3>>(shape(7, 3));  // right
