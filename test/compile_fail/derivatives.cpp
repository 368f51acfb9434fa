// SPDX-License-Identifier: BSL-1.0
#include <weft/graph/checkpointed.hpp>
#include <weft/graph/debugging.hpp>
#include <weft/graph/derivatives.hpp>
#include <weft/ops/assign_slice.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case jacobian_named: The Jacobian of a batch, whose rows are unknown.
// error: jacobian_needs_static_extents
// error: batch_jacobian takes y \[batch, n\]
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 3>>(g, "x");
auto j = jacobian(sin(x), x);        // wrong
auto j = batch_jacobian(sin(x), x);  // right

// case jacobian_vector: The direction has the extents of y.
// error: factor_does_not_fit
// error: jacobian_vector_product: takes y, a node x, and a direction of the extents and type of x
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
auto y = let(sum(sin(x)));
auto d = jacobian_vector_product(y, x, tensor<float>(1));                 // wrong
auto d = jacobian_vector_product(y, x, tensor<float, dims<3>>{1, 0, 0});  // right

// case hessian_vector: The function has several values.
// error: hessian_of_no_scalar
// error: hessian: takes a scalar y
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
auto h = hessian(x * x, x);       // wrong
auto h = hessian(sum(x * x), x);  // right

// case custom_gradient_alone: One gradient for two operands.
// error: gradients_do_not_fit
// error: backward\(upstream, y, x...\) the gradient of each x, of its extents and type
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
auto product = [](auto a, auto b) { return a * b; };
auto y = custom_gradient(product, [](auto up, auto, auto, auto) { return up; }, x, x);                         // wrong
auto y = custom_gradient(product, [](auto up, auto, auto, auto) { return std::tuple(up, 2.0f * up); }, x, x);  // right

// case custom_gradient_operands: backward does not take the result.
// error: backward_takes_other_operands
// error: backward\(upstream, y, x...\) the gradient of each x
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
auto y = custom_gradient([](auto v) { return floor(v); }, [](auto up, auto) { return up; }, x);        // wrong
auto y = custom_gradient([](auto v) { return floor(v); }, [](auto up, auto, auto) { return up; }, x);  // right

// case checkpointed_tensor: Nothing is in a graph.
// error: operands_are_not_in_a_graph
// error: checkpointed: takes nodes after the function
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
auto y = checkpointed([](auto v) { return sin(v); }, tensor<float, dims<3>>{1, 2, 3});  // wrong
auto y = checkpointed([](auto v) { return sin(v); }, x);                                // right

// case check_numerics_int: Integers are always numbers.
// error: gradient_of_non_floating
// error: check_numerics: takes a floating-point value of a graph
graph g;
auto x = placeholder<int, dims<3>>(g, "x");
auto y = check_numerics(x, "x");               // wrong
auto y = check_numerics(cast<float>(x), "x");  // right

// case assert_number: The condition is not of bool.
// error: element_types_differ
// error: assert_that: takes a condition of bool in a graph
graph g;
auto x = placeholder<int, dims<3>>(g, "x");
auto ok = assert_that(x, "x must be positive");      // wrong
auto ok = assert_that(x > 0, "x must be positive");  // right

// case assign_slice_extents: The value has other extents beside the axis.
// error: slice_does_not_fit
// error: assign_slice: assign_slice<axis>\(variable, begin, value\) needs an integer begin or one for each element of
graph g;
auto cache = variable<float, dims<8, 512, 64>>(g, "cache");
auto keys = placeholder<float, dims<8, 64>>(g, "keys");
auto put = assign_slice<1>(cache, 3, keys);                  // wrong
auto put = assign_slice<1>(cache, 3, expand_dims<1>(keys));  // right
