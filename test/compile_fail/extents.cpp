// SPDX-License-Identifier: BSL-1.0
#include <weft/weft.hpp>
using namespace weft;

// case dyn_without_name: dyn without a name in a placeholder.
// error(g++): placeholder: write placeholder<float, dims<dyn<.*batch.*>, 784>>
// error(clang++): use of variable template 'dyn' requires template arguments|template argument for non-type template
// max-lines: 8
graph g;
auto x = placeholder<float, dims<dyn, 3>>(g, "x");           // wrong
auto x = placeholder<float, dims<dyn<"batch">, 3>>(g, "x");  // right

// case dyn_without_name_tensor: dyn without a name in a tensor.
// error(g++): dyn<"name"> is an extent known at run time
// error(clang++): use of variable template 'dyn' requires template arguments|template argument for non-type template
// max-lines: 8
// alone
#include <weft/weft.hpp>
tensor<float, dims<dyn, 3>> t(shape(2, 3));       // wrong
tensor<float, dims<dyn<"n">, 3>> t(shape(2, 3));  // right

// case extents_of_fraction: An extent of 2.5.
// error: extents_are_not_valid|not yet supported
// error(g++): placeholder<T, dims<\.\.\.>>: needs at most 8 integers, none negative; dyn<\\?"name\\?"> is an extent
graph g;
auto x = placeholder<float, dims<2.5, 3>>(g, "x");  // wrong
auto x = placeholder<float, dims<2, 3>>(g, "x");    // right

// case extents_of_nullptr: An extent is nullptr, like Python's None.
// error: extents_are_not_valid
// error: placeholder<T, dims<\.\.\.>>: needs at most 8 integers, none negative; dyn<\\?"name\\?"> is an extent
graph g;
auto x = placeholder<float, dims<nullptr, 3>>(g, "x");   // wrong
auto x = placeholder<float, dims<dyn<"n">, 3>>(g, "x");  // right

// case names_differ: Two different names of extents meet.
// error: elementwise_shapes_differ
// error: operator\+: the operands must have extents that broadcast and one element type; convert with cast<T>\(x\)
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 4>>(g, "x");
auto z = placeholder<float, dims<dyn<"rows">, 4>>(g, "z");
auto y = x + z;  // wrong
auto y = x + x;  // right

// case negative_extent: An extent of -1 stands for an unknown one.
// error: extents_are_not_valid
// error: dims<-1, 784>
// error: placeholder<T, dims<\.\.\.>>: needs at most 8 integers, none negative
graph g;
auto x = placeholder<float, dims<-1, 784>>(g, "x");            // wrong
auto x = placeholder<float, dims<dyn<"batch">, 784>>(g, "x");  // right

// case node_of_other_extents: A node is assigned to one of other extents.
// error: assigned_to_a_node
// error: dims<4, 2>
// error: a node refers only to values of its own type: write `auto y = \.\.\.;`; assign\(variable
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto w = variable<float, dims<3, 2>>(g, "w");
x = matmul(x, w);       // wrong
auto y = matmul(x, w);  // right

// case node_of_unsigned_extents: The extents are unsigned and differ.
// error: assigned_to_a_node<weft::node<float, (weft::)?dims<9>
// error: a node refers only to values of its own type
graph g;
node<float, dims<std::size_t{8}>> x;
x = placeholder<float, dims<std::size_t{9}>>(g, "x");  // wrong
x = placeholder<float, dims<8>>(g, "x");               // right

// case static_extent: A named extent as a compile-time number.
// error: extent_is_not_an_int
// error: static_extent<X, axis>\(\): needs an axis of X whose extent is a number, not a name
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 784>>(g, "x");
static_cast<void>(static_extent<decltype(x), 0>());  // wrong
static_cast<void>(static_extent<decltype(x), 1>());  // right

// case static_extent_axis: The axis does not exist.
// error: axis_out_of_range
// error: static_extent<X, axis>\(\): needs an axis of X
tensor<float, dims<3, 784>> x;
const int width = static_extent<decltype(x), 2>();   // wrong
const int width = static_extent<decltype(x), -1>();  // right
return width;

// case too_many_extents: More than eight extents.
// error: extents_are_not_valid
// error: dims<1, 2, 3, 4, 5, 6, 7, 8, 9>
// error: tensor<T, dims<\.\.\.>>: needs at most 8 integers, none negative
tensor<float, dims<1, 2, 3, 4, 5, 6, 7, 8, 9>> x;  // wrong
tensor<float, dims<1, 2, 3, 4, 5, 6, 7, 72>> x;    // right
