// SPDX-License-Identifier: BSL-1.0
#include <vector>

#include <weft/ops/index/gather.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case batch_gather_axis: The axis belongs to the batch.
// error: batch_axes_not_there
// error: batch_gather<batch_dims, axis>: needs x
tensor<float, dims<4, 3>> x;
tensor<std::int64_t, dims<4>> n;
auto y = batch_gather<1, 0>(x, n);   // wrong
auto y = batch_gather<1, -1>(x, n);  // right

// case batch_gather_extents: Indices of another batch.
// error: batch_extents_differ
// error: batch_gather<batch_dims, axis>: needs x \[batch, n, \.\.\.\] and integer indices \[batch, \.\.\.\]
tensor<float, dims<4, 3>> x;
auto y = batch_gather<1>(x, tensor<std::int32_t, dims<2>>{0, 1});        // wrong
auto y = batch_gather<1>(x, tensor<std::int32_t, dims<4>>{0, 1, 2, 0});  // right

// case batch_gather_float: Indices that are fractions.
// error: row_indices_not_integers
// error: batch_gather<batch_dims, axis>: needs x .* cast<std::int32_t>\(indices\)
tensor<float, dims<4, 3>> x;
tensor<float, dims<4>> n;
auto y = batch_gather(x, n);                      // wrong
auto y = batch_gather(x, cast<std::int32_t>(n));  // right

// case batch_gather_number: A number in place of the indices.
// error: a tensor or a node of indices, numbers in brackets: batch_gather<1>\(x, i\)
tensor<float, dims<4, 3>> x;
auto y = batch_gather<1>(x, 2);  // wrong
auto y = slice<1, 2, 1>(x);      // right

// case gather_axis: The axis does not exist.
// error: axis_out_of_range
// error: gather: needs an axis that x has, and integer indices: cast<std::int32_t>\(indices\)
tensor<float, dims<4, 3>> t;
auto y = gather<2>(t, tensor<std::int32_t, dims<2>>{0, 1});  // wrong
auto y = gather<1>(t, tensor<std::int32_t, dims<2>>{0, 1});  // right

// case gather_axis_argument: The axis is an argument.
// error: takes a tensor or a node of indices: gather<0>\(x, tensor<int, dims<2>>\{3, 1\}\)
tensor<float, dims<4, 3>> t;
auto y = gather(t, tensor<std::int32_t, dims<2>>{0, 1}, 1);  // wrong
auto y = gather<1>(t, tensor<std::int32_t, dims<2>>{0, 1});  // right

// case gather_float: The indices are floats.
// error: row_indices_not_integers
// error: gather: needs an axis that x has, and integer indices: cast<std::int32_t>\(indices\)
tensor<float, dims<4, 3>> t;
auto y = gather(t, tensor<float, dims<2>>{0, 1});         // wrong
auto y = gather(t, tensor<std::int32_t, dims<2>>{0, 1});  // right

// case gather_list: The indices are in braces.
// error: takes a tensor or a node of indices: gather<0>\(x, tensor<int, dims<2>>\{3, 1\}\)
tensor<float, dims<4, 3>> t;
auto y = gather(t, {0, 1});                               // wrong
auto y = gather(t, tensor<std::int32_t, dims<2>>{0, 1});  // right

// case gather_number: The index is a number.
// error: takes a tensor or a node of indices: gather<0>\(x, tensor<int, dims<2>>\{3, 1\}\)
tensor<float, dims<4, 3>> t;
auto y = gather(t, 1);                                // wrong
auto y = gather(t, tensor<std::int32_t, dims<>>{1});  // right

// case gather_pairs: One index for each row, such as Q-values of the actions taken: gather would take all pairs.
// error: each_row_meets_each_index
// error: gather: x and indices both have rows: batch_gather<1>\(x, indices\) pairs them
graph g;
auto q = placeholder<float, dims<dyn<"batch">, 4>>(g, "q");
auto actions = placeholder<std::int32_t, dims<dyn<"batch">>>(g, "actions");
auto taken = gather<1>(q, actions);                  // wrong
auto taken = batch_gather<1>(q, actions);            // right
auto pairs = gather<1, outer_indexing>(q, actions);  // right

// case gather_vector: The indices are a std::vector.
// error: takes a tensor or a node of indices: gather<0>\(x, tensor<int, dims<2>>\{3, 1\}\)
tensor<float, dims<4, 3>> t;
std::vector<int> rows{0, 1};                              // wrong
auto y = gather(t, rows);                                 // wrong
auto y = gather(t, tensor<std::int32_t, dims<2>>{0, 1});  // right

// case one_hot_argument: The depth is an argument.
// error: option_is_not_a_template_argument
// error: dims<3>
// error: one_hot: the depth is a template argument: one_hot<10>\(labels\)
tensor<int, dims<3>> labels;
auto y = one_hot(labels, 10);  // wrong
auto y = one_hot<10>(labels);  // right

// case one_hot_axis: The axis is a template argument.
// error: arguments_are_not_taken
// error: one_hot: pass only the depth; one_hot adds the last axis: one_hot<10>\(labels\)
graph g;
auto i = placeholder<std::int32_t, dims<5>>(g, "i");
auto y = one_hot<10, 1>(i);  // wrong
auto y = one_hot<10>(i);     // right

// case one_hot_of_floats: The classes are floats.
// error: element_types_differ
// error: <float, int>
// error: one_hot: labels must be std::int32_t or std::int64_t
tensor<float, dims<3>> labels;
auto y = one_hot<10>(labels);             // wrong
auto y = one_hot<10>(cast<int>(labels));  // right

// case take_along_axis_argument: The axis is an argument.
// error: tensors or nodes, the axis in brackets: take_along_axis<1>\(x, indices\)
tensor<float, dims<4, 3>> x;
tensor<std::int32_t, dims<4, 1>> n;
auto y = take_along_axis(x, n, 1);  // wrong
auto y = take_along_axis<1>(x, n);  // right

// case take_along_axis_of_tensor: A tensor is broadcast to an extent that is known only in a step.
// error: tensor_meets_named_extents
// error: take_along_axis: a tensor cannot broadcast to extents known only in a step: use constant\(graph, tensor\)
graph g;
auto n = placeholder<std::int32_t, dims<dyn<"batch">, 2>>(g, "n");
tensor<float, dims<1, 3>> x;
auto y = take_along_axis<1>(x, n);               // wrong
auto y = take_along_axis<1>(constant(g, x), n);  // right

// case take_along_axis_rank: The indices have fewer axes than x.
// error: extents_along_axis_differ
// error: take_along_axis<axis>: needs integer indices, cast<std::int32_t>\(indices\), of the rank of x
tensor<float, dims<4, 3>> x;
tensor<std::int32_t, dims<4>> n;
auto y = take_along_axis<1>(x, n);                  // wrong
auto y = take_along_axis<1>(x, expand_dims<1>(n));  // right
