// SPDX-License-Identifier: BSL-1.0
#include <weft/ops/arrays/axes.hpp>
#include <weft/ops/arrays/block_diag.hpp>
#include <weft/ops/arrays/kron.hpp>
#include <weft/ops/arrays/meshgrid.hpp>
#include <weft/ops/arrays/pad_modes.hpp>
#include <weft/ops/arrays/roll.hpp>
#include <weft/ops/arrays/sequence_mask.hpp>
#include <weft/ops/arrays/stack.hpp>
#include <weft/ops/arrays/triangles.hpp>
#include <weft/ops/images/unfold.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case block_diag_vector: A block is a vector.
// error: blocks_are_not_matrices<.*dims<2, 2>, .*dims<3>
// error: block_diag: takes matrices of one type, with equal leading axes; expand_dims<0>\(v\)
tensor<float, dims<2, 2>> a;
tensor<float, dims<3>> v;
auto y = block_diag(a, v);                  // wrong
auto y = block_diag(a, expand_dims<0>(v));  // right

// case depth_to_space_channels: The channels cannot be divided among the pixels of a block.
// error: extents_not_divisible<.*dims<1, 2, 2, 6>, 1, 1, 1, 4>
// error: with channels divisible by block \* block
tensor<float, dims<1, 2, 2, 6>> x;
auto y = depth_to_space<2>(x);                      // wrong
auto y = depth_to_space<2>(concat<3>(x, x, x, x));  // right

// case diag_part_offset: The matrix has no such diagonal.
// error: diagonal_does_not_exist<.*dims<2, 3>, 4>
// error: diag_part: diag_part<offset>\(x\) takes matrices that have this diagonal
tensor<float, dims<2, 3>> x;
auto y = diag_part<4>(x);  // wrong
auto y = diag_part<2>(x);  // right

// case flatten_order: The last axis precedes the first.
// error: axes_not_in_order<.*, 2, 1>
// error: flatten: flatten<first, last>\(x\) needs two axes of x, in their order
tensor<float, dims<2, 3, 4>> x;
auto y = flatten<2, 1>(x);  // wrong
auto y = flatten<1, 2>(x);  // right

// case fold_patches: The patches belong to images of another height.
// error: patches_do_not_fit
// error: needs patches of numbers, as unfold returns them for images of this height and width
tensor<float, dims<1, 2, 2, 4>> x;
auto y = fold<4, 3, unfold_options{.window = 2}>(x);  // wrong
auto y = fold<3, 3, unfold_options{.window = 2}>(x);  // right

// case kron_ranks: A matrix and a vector.
// error: kron_ranks_differ
tensor<float, dims<2, 3>> x;
tensor<float, dims<4>> v;
auto y = kron(x, v);                  // wrong
auto y = kron(x, expand_dims<0>(v));  // right

// case meshgrid_matrix: A matrix in place of a vector.
// error: mesh_of_other_than_vectors
// error: meshgrid: takes 1 to 8 vectors
tensor<float, dims<2, 3>> x;
auto y = meshgrid(x);           // wrong
auto y = meshgrid(flatten(x));  // right

// case pad_reflect: The border is as long as the axis.
// error: border_exceeds_axis<.*dims<3>, 0, .*, 3, 0>
// error: needs an axis of x that is long enough for the mode
tensor<float, dims<3>> x;
auto y = pad<0, 3, 0, pad_mode::reflect>(x);    // wrong
auto y = pad<0, 3, 0, pad_mode::symmetric>(x);  // right

// case repeat_argument: The count is an argument, as in NumPy.
// error: axis and count are template arguments: repeat<0, 2>\(x\)
tensor<float, dims<3>> x;
auto y = repeat(x, 2);     // wrong
auto y = repeat<0, 2>(x);  // right

// case roll_argument: The axis is an argument, as in NumPy.
// error: axes are template arguments: roll<0>\(x, 1\)
tensor<float, dims<3, 2>> x;
auto y = roll(x, 1, 0);  // wrong
auto y = roll<0>(x, 1);  // right

// case roll_fraction: The number of places is a fraction.
// error: slice_does_not_begin_at_an_index
// error: roll: roll<axis>\(x, by\) needs an axis of x, and an integer scalar by
graph g;
auto x = placeholder<float, dims<3>>(g);
auto by = placeholder<float>(g);
auto y = roll<0>(x, by);                      // wrong
auto y = roll<0>(x, cast<std::int32_t>(by));  // right

// case sequence_mask_named: A named extent over tensors.
// error: mask_extent_is_unknown
// error: sequence_mask<extent>\(lengths\) needs integer lengths and an extent, a number for tensors
tensor<std::int32_t, dims<3>> lengths;
auto y = sequence_mask<dyn<"time">>(lengths);  // wrong
auto y = sequence_mask<7>(lengths);            // right

// case set_diag_length: The new diagonal has another length.
// error: diagonals_differ
tensor<float, dims<3, 3>> x;
tensor<float, dims<3>> v;
auto y = set_diag<1>(x, v);  // wrong
auto y = set_diag(x, v);     // right

// case strided_slice_axes: More bounds than axes.
// error: slices_do_not_fit
// error: takes bounds{begin, end, step} or an index for each axis from the first on
tensor<float, dims<3, 4>> x;
auto y = strided_slice<0, bounds{1}, bounds{}>(x);  // wrong
auto y = strided_slice<0, bounds{1}>(x);            // right

// case strided_slice_index: The axis has no such element.
// error: slices_do_not_fit<.*dims<3, 4>, 3>
tensor<float, dims<3, 4>> x;
auto y = strided_slice<3>(x);   // wrong
auto y = strided_slice<-3>(x);  // right

// case strided_slice_lists: Begins and ends are in braces, as in TensorFlow.
// error: bounds are template arguments: strided_slice<bounds{1, -1}, 0>\(x\), x\[1:-1, 0\]
tensor<float, dims<3, 4>> x;
auto y = strided_slice(x, {0, 0}, {2, 2});              // wrong
auto y = strided_slice<bounds{0, 2}, bounds{0, 2}>(x);  // right

// case tril_argument: The diagonal is a template argument.
// error: the diagonal is an argument: tril\(x, -1\)
tensor<float, dims<3, 3>> x;
auto y = tril<-1>(x);  // wrong
auto y = tril(x, -1);  // right

// case unfold_window: The window is larger than the padded image.
// error: windows_do_not_fit
// error: windows that fit into the padded image
tensor<float, dims<1, 3, 3, 2>> x;
auto y = unfold<unfold_options{.window = 4}>(x);                         // wrong
auto y = unfold<unfold_options{.window = 4, .pad = padding::of(1)}>(x);  // right
