// SPDX-License-Identifier: BSL-1.0
#include <weft/control_flow.hpp>
#include <weft/ops/index/boolean_mask.hpp>
#include <weft/ops/index/unique.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case boolean_mask_extents: The mask has another number of rows.
// error: mask_does_not_fit
// error: dims<3>
// error: dims<4, 3>
tensor<float, dims<4, 3>> x;
tensor<bool, dims<3>> mask;      // wrong
auto y = boolean_mask(x, mask);  // wrong
tensor<bool, dims<4>> mask;      // right
auto y = boolean_mask(x, mask);  // right

// case boolean_mask_name: The name of the count is a string.
// error: write the extent's name as dyn<\.\.\.>: boolean_mask<dyn<\\?"kept\\?">>\(x, x > 0\)
tensor<float, dims<4, 3>> t;
auto y = boolean_mask<"kept">(t, t > 0);       // wrong
auto y = boolean_mask<dyn<"kept">>(t, t > 0);  // right

// case boolean_mask_one_argument: The mask is missing.
// error: takes a value and a mask: boolean_mask\(x, x > 0\)
tensor<float, dims<4, 3>> t;
auto y = boolean_mask(t);         // wrong
auto y = boolean_mask(t, t > 0);  // right

// case boolean_mask_type: The mask consists of numbers.
// error: mask_is_not_bool
// error: float
tensor<float, dims<4, 3>> x;
tensor<float, dims<4>> weights;
auto y = boolean_mask(x, weights);         // wrong
auto y = boolean_mask(x, weights > 0.0f);  // right

// case bounded_comparison: A comparison ignores that rows of a bounded value are padding.
// error: some_rows_are_not_real
// error: b.values
// max-lines: 9
graph g;
auto x = placeholder<float, dims<8, 3>>(g, "x");
auto kept = boolean_mask(x, sum<1>(x) > 0.0f);
auto y = kept > 1.0f;                           // wrong
auto y = with_count(kept.values > 1.0f, kept);  // right

// case bounded_count: The count is a number.
// error: count_is_not_a_scalar
// error: int
graph g;
auto x = placeholder<float, dims<8, 3>>(g, "x");
auto kept = boolean_mask(x, sum<1>(x) > 0.0f);
auto y = with_count(x, 3);           // wrong
auto y = with_count(x, kept.count);  // right

// case bounded_function: A function of a bounded value ignores its padding.
// error: some_rows_are_not_real
// error: b.values
// max-lines: 9
graph g;
auto x = placeholder<float, dims<8, 3>>(g, "x");
auto kept = boolean_mask(x, sum<1>(x) > 0.0f);
auto y = exp(kept);         // wrong
auto y = exp(kept.values);  // right

// case bounded_loss: A gradient of a bounded value.
// error: some_rows_are_not_real
// error: sum\(b\)
graph g;
auto x = placeholder<float, dims<8, 3>>(g, "x");
auto kept = boolean_mask(x, sum<1>(x) > 0.0f);
auto [dx] = gradients(kept, x);       // wrong
auto [dx] = gradients(sum(kept), x);  // right

// case bounded_matmul: A matrix product of a bounded value.
// error: some_rows_are_not_real
// error: b.values
graph g;
auto x = placeholder<float, dims<8, 3>>(g, "x");
auto kept = boolean_mask(x, sum<1>(x) > 0.0f);
auto w = variable<float, dims<3, 2>>(g, "w", init::zeros{});
auto y = matmul(kept, w);                           // wrong
auto y = with_count(matmul(kept.values, w), kept);  // right

// case bounded_mean: A mean of integers.
// error: not_floating
// error: int
graph g;
auto ids = placeholder<int, dims<8>>(g, "ids");
auto words = unique(ids);
auto y = mean(words.values);  // wrong
auto y = max(words.values);   // right

// case bounded_minimize: The loss is a bounded value.
// error: bounded
graph g;
auto x = placeholder<float, dims<8, 3>>(g, "x");
auto kept = boolean_mask(x, sum<1>(x) > 0.0f);
auto w = variable<float, dims<8>>(g, "w", init::zeros{});
auto losses = with_count(sum<1>(kept.values) * w, kept);
auto train = gradient_descent{.learning_rate = 0.1}.minimize(losses);        // wrong
auto train = gradient_descent{.learning_rate = 0.1}.minimize(mean(losses));  // right

// case bounded_operand: A branch takes a bounded value.
// error: operands_are_not_expressions
// error: bounded
graph g;
auto x = placeholder<float, dims<8, 3>>(g, "x");
auto kept = boolean_mask(x, sum<1>(x) > 0.0f);
auto y = cond(sum(x) > 0.0f, [](auto x) { return x; }, [](auto x) { return -x; }, kept);         // wrong
auto y = cond(sum(x) > 0.0f, [](auto x) { return x; }, [](auto x) { return -x; }, kept.values);  // right

// case bounded_operator: Arithmetic ignores that rows of a bounded value are padding.
// error: some_rows_are_not_real
// error: b.values
graph g;
auto x = placeholder<float, dims<8, 3>>(g, "x");
auto kept = boolean_mask(x, sum<1>(x) > 0.0f);
auto y = kept + 1.0f;                           // wrong
auto y = with_count(kept.values + 1.0f, kept);  // right

// case bounded_rows: The values have other rows than those that the count bounds.
// error: rows_are_not_those_of_the_bound
// error: dims<3>
// error: dims<8, 3>
graph g;
auto x = placeholder<float, dims<8, 3>>(g, "x");
auto kept = boolean_mask(x, sum<1>(x) > 0.0f);
auto y = with_count(sum<0>(kept.values), kept);  // wrong
auto y = with_count(sum<1>(kept.values), kept);  // right

// case bounded_softmax: A softmax over rows that include padding.
// error: some_rows_are_not_real
// error: b.values
graph g;
auto x = placeholder<float, dims<8, 3>>(g, "x");
auto kept = boolean_mask(x, sum<1>(x) > 0.0f);
auto y = softmax(kept);         // wrong
auto y = softmax(kept.values);  // right

// case bounded_sort: A sort of rows that include padding.
// error: some_rows_are_not_real
// error: b.values
graph g;
auto x = placeholder<float, dims<8, 3>>(g, "x");
auto kept = boolean_mask(x, sum<1>(x) > 0.0f);
auto y = sort<0>(kept);         // wrong
auto y = sort<0>(kept.values);  // right
