// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <vector>

#include <weft/ops/index/sort.hpp>
#include <weft/ops/index/unique.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case argsort_bools: An order of bools.
// error: elements_not_numeric
// error: bool
graph g;
auto x = placeholder<bool, dims<dyn<"batch">>>(g);
auto order = argsort(x);                      // wrong
auto order = argsort(cast<std::int32_t>(x));  // right

// case argsort_text: The direction as a string.
// error: axes are template arguments, directions not: argsort<1>\(x, direction::descending\)
tensor<float, dims<4, 3>> t;
auto y = argsort(t, "DESCENDING");           // wrong
auto y = argsort(t, direction::descending);  // right

// case sort_axis: The axis does not exist.
// error: axis_out_of_range
// error: dims<3, 4>
// error: -3
tensor<float, dims<3, 4>> x;
auto y = sort<-3>(x);  // wrong
auto y = sort<-2>(x);  // right

// case sort_axis_argument: The axis is an argument.
// error: axes are template arguments, directions not: sort<1>\(x, direction::descending\)
tensor<float, dims<4, 3>> t;
auto y = sort(t, 1);  // wrong
auto y = sort<1>(t);  // right

// case sort_descending: The direction is a bool.
// error: axes are template arguments, directions not: sort<1>\(x, direction::descending\)
tensor<float, dims<4, 3>> t;
auto y = sort(t, true);                   // wrong
auto y = sort(t, direction::descending);  // right

// case sort_include: The header is not included.
// error: 'sort'
// alone
#include <weft/weft.hpp>
tensor<float, dims<2, 3>> x;
auto y = sort(x);  // wrong
auto y = x;        // right

// case sort_rows: The rows of a tensor are sorted in place.
// error: view_is_moved
// error: a view owns no elements
tensor<int, dims<3, 2>> t{3, 30, 1, 10, 2, 20};
std::vector<tensor_view<int, dims<2>>> rows{t[0], t[1], t[2]};
auto kept = std::move(rows[0]);          // wrong
rows[0] = std::move(rows[1]);            // wrong
std::reverse(rows.begin(), rows.end());  // right
auto kept = t[0];                        // right
kept = t[1];                             // right
rows[0] = rows[1];                       // right

// case top_k: k exceeds the last extent.
// error: last_axis_is_shorter
// error: dims<3, 4>
// error: 5
tensor<float, dims<3, 4>> x;
auto top = top_k<5>(x);  // wrong
auto top = top_k<4>(x);  // right

// case top_k_argument: k is an argument.
// error: k is a template argument: top_k<5>\(x\)
tensor<float, dims<2, 3>> x;
auto [v, i] = top_k(x, 2);  // wrong
auto [v, i] = top_k<2>(x);  // right

// case top_k_axis: The axis is a template argument.
// error: works along the last axis; k is a template argument: top_k<5>\(x\)
tensor<float, dims<4, 3>> t;
auto [v, k] = top_k<2, 1>(t);  // wrong
auto [v, k] = top_k<2>(t);     // right

// case top_k_scalar: The operand is a scalar.
// error: axis_out_of_range
// error: top_k: needs rank 1 or more
graph g;
auto x = placeholder<float, dims<5>>(g);
auto top = top_k<1>(sum(x));  // wrong
auto top = top_k<1>(x);       // right

// case unique_axis: The axis is a template argument.
// error: takes one value of rank 1: unique\(reshape<dims<12>>\(x\)\)
auto y = unique(tensor<int, dims<3>>{1, 2, 2}, 0);  // wrong
auto y = unique(tensor<int, dims<3>>{1, 2, 2});     // right

// case unique_bools: The elements are bools.
// error: elements_not_numeric
// error: bool
tensor<bool, dims<4>> x;
auto [values, indices, counts] = unique_with_counts(x);             // wrong
auto [values, indices, counts] = unique_with_counts(cast<int>(x));  // right

// case unique_name: The name of the count is a string.
// error: write the extent's name as dyn<\.\.\.>: unique<dyn<\\?"words\\?">>\(x\)
auto y = unique<"kept">(tensor<int, dims<3>>{1, 2, 2});       // wrong
auto y = unique<dyn<"kept">>(tensor<int, dims<3>>{1, 2, 2});  // right

// case unique_rank: The operand is a matrix.
// error: elements_not_along_one_axis
// error: dims<4, 3>
tensor<int, dims<4, 3>> x;
auto [values, indices] = unique(x);                     // wrong
auto [values, indices] = unique(reshape<dims<12>>(x));  // right
