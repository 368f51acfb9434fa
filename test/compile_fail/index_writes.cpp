// SPDX-License-Identifier: BSL-1.0
#include <vector>

#include <weft/ops/index/assign_scatter.hpp>
#include <weft/ops/index/bincount.hpp>
#include <weft/ops/index/nonzero.hpp>
#include <weft/ops/index/one_hot_along.hpp>
#include <weft/ops/index/ragged.hpp>
#include <weft/ops/index/repeat_rows.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case bincount_argument: The number of bins is an argument.
// error: the number of bins is in brackets: bincount<10>\(ids\)
tensor<std::int32_t, dims<5>> ids;
auto y = bincount(ids, 10);  // wrong
auto y = bincount<10>(ids);  // right

// case gather_nd_depth: Index vectors of more indices than x has axes.
// error: index_vectors_do_not_fit
// error: gather_nd<batch_dims>: needs integer indices \[\.\.\., k\], where k is a number from 1 to the rank of x
tensor<float, dims<4, 3>> x;
auto y = gather_nd(x, tensor<std::int32_t, dims<1, 3>>{1, 2, 0});  // wrong
auto y = gather_nd(x, tensor<std::int32_t, dims<1, 2>>{1, 2});     // right

// case histogram_argument: The number of bins is an argument.
// error: the number of bins is in brackets: histogram<10>\(x, low, high\)
tensor<float, dims<5>> x;
auto y = histogram(x, 0.f, 1.f, 10);  // wrong
auto y = histogram<10>(x, 0.f, 1.f);  // right

// case nonzero_of_numbers: The mask consists of numbers.
// error: mask_is_not_bool
// error: nonzero: needs a mask of bool with one axis or more: nonzero\(x != 0\)
tensor<float, dims<5>> x;
auto y = nonzero(x);       // wrong
auto y = nonzero(x != 0);  // right

// case ragged_splits_of_floats: Splits that are fractions.
// max-lines: 10
// error: row_indices_not_integers
// error: ragged rows: needs values \[n, \.\.\.\] and integer splits \[rows \+ 1\]
tensor<float, dims<5>> x;
tensor<float, dims<3>> splits;
auto y = ragged_sum(x, splits);                      // wrong
auto y = ragged_sum(x, cast<std::int32_t>(splits));  // right

// case repeat_bound: The number of rows is known only when the step has run.
// error: bound_is_missing
// error: in a graph, also the largest number of rows of the result: repeat<64>\(x, counts\)
graph g;
auto x = placeholder<float, dims<5>>(g, "x");
auto n = placeholder<std::int32_t, dims<5>>(g, "n");
auto y = repeat(x, n);             // wrong
auto y = repeat<64>(x, n).values;  // right

// case scatter_axis_argument: The axis is an argument, as in PyTorch.
// error: the axis is in brackets: scatter<0>\(x, indices, rows, combine::add\)
tensor<float, dims<4, 3>> x;
tensor<std::int32_t, dims<2>> n;
tensor<float, dims<2, 3>> rows;
auto y = scatter(x, 0, n, rows);  // wrong
auto y = scatter<0>(x, n, rows);  // right

// case scatter_rows: Rows of other extents than the indices select.
// error: written_rows_differ
// error: scatter<axis>\(x, indices, rows\): .* rows of x's type with the extents of gather<axis>\(x, indices\)
tensor<float, dims<4, 3>> x;
tensor<std::int32_t, dims<2>> n;
auto y = scatter(x, n, tensor<float, dims<3>>{1, 2, 3});                                          // wrong
auto y = scatter(x, n, broadcast_to<dims<2, 3>>(tensor<float, dims<3>>{1, 2, 3}), combine::add);  // right

// case searchsorted_side: The side is a string.
// error: takes tensors or nodes and a side: searchsorted\(sorted, values, side::right\)
tensor<float, dims<5>> x;
auto y = searchsorted(x, x, "right");      // wrong
auto y = searchsorted(x, x, side::right);  // right

// case segment_count: The number of segments of a graph is an argument.
// error: segment_count_is_an_argument
// error: segment_sum<segments>\(x, ids\): .* in a graph the number of segments in brackets
graph g;
auto x = placeholder<float, dims<6, 2>>(g, "x");
auto ids = placeholder<std::int32_t, dims<6>>(g, "ids");
auto y = unsorted_segment_sum(x, ids, 3);  // wrong
auto y = unsorted_segment_sum<3>(x, ids);  // right

// case segment_ids: One id for each column.
// error: segment_ids_do_not_lead
// error: segment_mean<segments>\(x, ids\): needs integer ids that are the leading extents of x
tensor<float, dims<6, 2>> x;
tensor<std::int32_t, dims<2>> ids;
auto y = segment_mean<3>(x, ids);                                    // wrong
auto y = transpose<1, 0>(segment_mean<3>(transpose<1, 0>(x), ids));  // right

// case bins: A graph does not know the largest integer.
// error: number_of_bins_is_missing
// error: bincount<n>\(ids\): needs integers, cast<std::int32_t>\(ids\), and in a graph the number of bins
graph g;
auto ids = placeholder<int, dims<6>>(g, "ids");
auto counts = bincount(ids);      // wrong
auto counts = bincount<10>(ids);  // right

// case assign_scatter_rows: The rows are as wide as the indices, not as the variable.
// error: written_rows_differ
// error: assign_scatter<axis>\(variable, indices, rows\): needs an axis of the variable, integer indices, and rows
graph g;
auto table = variable<float, dims<8, 3>>(g, "table");
auto ids = placeholder<int, dims<6>>(g, "ids");
auto put = assign_scatter(table, ids, zeros<float, dims<6, 6>>(g));  // wrong
auto put = assign_scatter(table, ids, zeros<float, dims<6, 3>>(g));  // right
