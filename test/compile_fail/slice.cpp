// SPDX-License-Identifier: BSL-1.0
#include <weft/ops/arrays/stack.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case slice_arguments: Begin and size are arguments, as in Python.
// error: axis_is_not_a_template_argument
// error: slice<1, 0, 3>\(x\)
tensor<float, dims<3, 4>> x;
auto z = slice(x, 0, 2);     // wrong
auto z = slice<0, 0, 2>(x);  // right

// case slice_index: The begin is a fraction.
// error: slice_does_not_begin_at_an_index<.*node<float
// error: slice: slice<axis, size>\(x, begin\) needs an axis of at least that size, and an integer scalar begin
graph g;
auto x = placeholder<float, dims<8, 3>>(g);
auto i = placeholder<float>(g);
auto y = slice<0, 2>(x, i);                      // wrong
auto y = slice<0, 2>(x, cast<std::int32_t>(i));  // right

// case slice_lists: Begins and sizes are in braces.
// error: an axis, a begin and a size: slice<1, 0, 3>\(x\); slice<1, 3>\(x, i\) begins at i
tensor<float, dims<2, 3>> x;
auto y = slice(x, {0, 0}, {1, 2});  // wrong
auto y = slice<1, 0, 2>(x);         // right

// case slice_named: The slice ends beyond a named extent.
// error: slice_is_out_of_range
// error: slice: slice<axis, begin, size, step>\(x\) must stay within the axis
graph g;
auto x = placeholder<float, dims<dyn<"n">, 3>>(g);
auto y = slice<0, dyn<"n">, 1>(x);              // wrong
auto y = slice<0, dyn<"n"> - extent<1>, 1>(x);  // right

// case slice_pair: Begin and end, as in NumPy.
// error: an axis, a begin and a size: slice<1, 0, 3>\(x\); slice<1, 3>\(x, i\) begins at i
tensor<float, dims<4, 3>> t;
auto y = slice<1, 0>(t);     // wrong
auto y = slice<1, 0, 2>(t);  // right

// case slice_range: The slice ends beyond its axis.
// error: slice_is_out_of_range<.*dims<3, 4>, 1, 2, 3, 1>
tensor<float, dims<3, 4>> x;
auto z = slice<1, 2, 3>(x);  // wrong
auto z = slice<1, 2, 2>(x);  // right

// case slice_size: The size of a computed slice exceeds its axis.
// error: slice_is_out_of_range<.*dims<8, 3>, 1, 0, 4, 1>
// error: slice: slice<axis, size>\(x, begin\) needs an axis of at least that size
tensor<float, dims<8, 3>> x;
auto y = slice<1, 4>(x, 0);  // wrong
auto y = slice<1, 2>(x, 1);  // right

// case slice_step: A slice of a negative step ends before its axis.
// error: slice_is_out_of_range<.*dims<3, 4>, 1, 3, 3, -2>
tensor<float, dims<3, 4>> x;
auto z = slice<1, 3, 3, -2>(x);  // wrong
auto z = slice<1, 3, 2, -2>(x);  // right

// case slice_step_zero: The step is 0.
// error: step_is_zero<0>
tensor<float, dims<3, 4>> x;
auto z = slice<1, 3, 1, 0>(x);   // wrong
auto z = slice<1, 3, 1, -1>(x);  // right

// case slice_unknown: The size of a named extent of the result is missing.
// error: sliced_extents_are_unknown
// error: slice: for tensors, a named extent must be one of the operand's
tensor<float, dims<dyn<"n">, 3>> x;
auto y = slice<0, 0, dyn<"m">>(x);  // wrong
auto y = slice<0, 0, dyn<"n">>(x);  // right

// case split_argument: The number of parts is an argument, as in Python.
// error: axis_is_not_a_template_argument
// error: split<1, 2>\(x\)
tensor<float, dims<3, 4>> x;
auto [a, b] = split(x, 2);     // wrong
auto [a, b] = split<1, 2>(x);  // right

// case split_parts: The number of parts does not divide the axis.
// error: axis_has_no_equal_parts<.*dims<3, 4>, 0, 2>
graph g;
auto x = placeholder<float, dims<3, 4>>(g);
auto [a, b] = split<0, 2>(x);  // wrong
auto [a, b] = split<1, 2>(x);  // right

// case unstack_named: The extent of the axis is unknown.
// error: extent_is_not_an_int
// error: unstack: needs an axis whose extent is a number, not a name
graph g;
auto x = placeholder<float, dims<dyn<"n">, 2>>(g, "x");
auto y = unstack<0>(x);  // wrong
auto y = unstack<1>(x);  // right
