// SPDX-License-Identifier: BSL-1.0
#include <weft/ops/arrays/stack.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case broadcast_extents: Extents without dims.
// error: broadcast_to<dims<2, 3>>\(x\), broadcast_to<dims<dyn<"n">, 3>>\(x, shape\(2, 3\)\)
tensor<float, dims<3>> x;
auto y = broadcast_to<2, 3>(x);        // wrong
auto y = broadcast_to<dims<2, 3>>(x);  // right

// case broadcast_shape: The extents are an argument, and no dims are given.
// error: broadcast_to<dims<2, 3>>\(x\), broadcast_to<dims<dyn<"n">, 3>>\(x, shape\(2, 3\)\)
tensor<float, dims<3>> x;
auto y = broadcast_to(x, shape(2, 3));  // wrong
auto y = broadcast_to<dims<2, 3>>(x);   // right

// case broadcast_to: The extents are not a broadcast of the operand's.
// error: extents_do_not_broadcast_to
// error: dims<2, 3>
// error: dims<2, 6>
// error: broadcast_to: needs extents, dims<\.\.\.>, each equal to the operand's unless that is 1
tensor<float, dims<2, 3>> x;
auto y = broadcast_to<dims<2, 6>>(x);     // wrong
auto y = broadcast_to<dims<4, 2, 3>>(x);  // right

// case broadcast_to_unknown: The size of a named extent of the result is missing.
// error: broadcast_to: for tensors, pass the extents known at run time: broadcast_to<dims<\.\.\.>>\(x, shape\(2, 3\)\)
tensor<float, dims<3>> x;
auto y = broadcast_to<dims<dyn<"b">, 3>>(x);               // wrong
auto y = broadcast_to<dims<dyn<"b">, 3>>(x, shape(2, 3));  // right

// case expand_dims: The new axis is beyond the result's.
// error: new_axis_out_of_range
// error: dims<2, 3>, 3
// error: expand_dims: the axis must be one of the result's
tensor<float, dims<2, 3>> x;
auto y = expand_dims<3>(x);  // wrong
auto y = expand_dims<2>(x);  // right

// case expand_dims_argument: The new axis is an argument.
// error: the axis is a template argument: expand_dims<0>\(x\), expand_dims<-1>\(x\)
tensor<float, dims<2, 3>> x;
auto y = expand_dims(x, 1);  // wrong
auto y = expand_dims<1>(x);  // right

// case reshape: The number of elements differs.
// error: reshape_changes_elements
// error: dims<2, 6>
// error: dims<3, 5>
tensor<float, dims<2, 6>> x;
auto y = reshape<dims<3, 5>>(x);  // wrong
auto y = reshape<dims<3, 4>>(x);  // right

// case reshape_argument: The extents are an argument.
// error: extents_are_not_a_template_argument
// error: dims<2, 3>
// error: reshape: extents are a template argument: reshape<dims<3, 2>>\(x\)
tensor<float, dims<2, 3>> x;
auto y = reshape(x, {3, 2});      // wrong
auto y = reshape<dims<3, 2>>(x);  // right

// case reshape_extents: The extents are numbers without dims.
// error: extents_are_not_a_template_argument
// error: dims<3, 2>
// error: reshape: write the extents as a dims: reshape<dims<3, 2>>\(x\)
tensor<float, dims<2, 3>> x;
auto y = reshape<3, 2>(x);        // wrong
auto y = reshape<dims<3, 2>>(x);  // right

// case reshape_inferred: The extent of -1 is not a whole number.
// error: reshape_changes_elements
// error: dims<2, 3>
// error: dims<-1, 4>
// error: reshape: needs extents, dims<\.\.\.>, with the same number of elements; at most one can be -1
tensor<float, dims<2, 3>> x;
auto y = reshape<dims<-1, 4>>(x);  // wrong
auto y = reshape<dims<-1, 3>>(x);  // right

// case reshape_minus_one: Two extents of -1 in a reshape.
// error: extents_are_not_valid
// error: dims<-1, -1>
// error: reshape: needs extents, dims<\.\.\.>, with the same number of elements; at most one can be -1
tensor<float, dims<2, 3>> x;
auto y = reshape<dims<-1, -1>>(x);  // wrong
auto y = reshape<dims<-1, 2>>(x);   // right

// case reshape_named: The named extent is lost.
// error: reshape_changes_elements
// error: reshape: needs extents, dims<\.\.\.>, with the same number of elements; at most one can be -1
graph g;
auto x = placeholder<float, dims<dyn<"b">, dyn<"t">, 8>>(g);
auto y = reshape<dims<dyn<"b">, 8>>(x);             // wrong
auto y = reshape<dims<dyn<"b"> * dyn<"t">, 8>>(x);  // right

// case reshape_type: The element type is a template argument.
// error: arguments_are_not_taken
// error: reshape: takes only extents: reshape<dims<3, 2>>\(x\)
tensor<float, dims<4, 3>> t;
auto y = reshape<float, dims<12>>(t);  // wrong
auto y = reshape<dims<12>>(t);         // right

// case reshape_unknown: The size of a named extent of the result is missing.
// error: reshaped_extents_are_unknown
// error: reshape: .*for tensors.*reshape<dims<\.\.\.>>\(x, shape\(2, 3\)\)
tensor<float, dims<dyn<"b"> * dyn<"t">>> x(shape(6));
auto y = reshape<dims<dyn<"b">, dyn<"t">>>(x);               // wrong
auto y = reshape<dims<dyn<"b">, dyn<"t">>>(x, shape(2, 3));  // right

// case squeeze: The axis has more than one element.
// error: squeezed_extent_is_not_one
// error: dims<2, 1, 3>
// error: squeeze: squeeze<axis>\(x\) removes axes of extent 1; use reshape for others
tensor<float, dims<2, 1, 3>> x;
auto y = squeeze<2>(x);  // wrong
auto y = squeeze<1>(x);  // right

// case squeeze_argument: The axis is an argument.
// error: axes are template arguments: squeeze<0>\(x\), squeeze\(x\) for all of extent 1
tensor<float, dims<1, 3>> x;
auto y = squeeze(x, 0);  // wrong
auto y = squeeze<0>(x);  // right

// case tile_one_number: One number for two axes.
// error: repeats_do_not_fit
// error: tile: takes a number of copies, at least 1, for each axis: tile<2, 1>\(x\)
tensor<float, dims<4, 3>> x;
auto y = tile<2>(x);     // wrong
auto y = tile<2, 1>(x);  // right

// case transpose: The axes are not a permutation.
// error: axes_not_a_permutation
// error: dims<2, 6>
tensor<float, dims<2, 6>> x;
auto y = transpose<1, 1>(x);  // wrong
auto y = transpose<1, 0>(x);  // right

// case transpose_axes: The axes are arguments.
// error: axis_is_not_a_template_argument
// error: dims<2, 3>
// error: transpose: axes are template arguments: transpose<1, 0>\(x\)
tensor<float, dims<2, 3>> x;
auto y = transpose(x, 1, 0);  // wrong
auto y = transpose<1, 0>(x);  // right

// case transpose_list: The permutation is in braces.
// error: transpose: axes are template arguments: transpose<1, 0>\(x\), transpose\(x\) for all in reverse
tensor<float, dims<2, 3>> x;
auto y = transpose(x, {1, 0});  // wrong
auto y = transpose<1, 0>(x);    // right
