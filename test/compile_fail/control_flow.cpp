// SPDX-License-Identifier: BSL-1.0
#include <array>
#include <tuple>

#include <weft/control_flow.hpp>
#include <weft/graph/cond.hpp>
#include <weft/graph/scan.hpp>
#include <weft/graph/while_loop.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case case_branches: The operand comes before the branches.
// error: case_has_no_branches
// error: case_of: takes a scalar std::int32_t or std::int64_t, functions
graph g;
auto x = placeholder<float, dims<4>>(g, "x");
auto k = placeholder<int>(g, "k");
auto y = case_of(k, x, [](auto x) { return x; }, [](auto x) { return -x; });  // wrong
auto y = case_of(k, [](auto x) { return x; }, [](auto x) { return -x; }, x);  // right

// case case_index: The index is a bool.
// error: index_is_not_a_scalar_integer
// error: case_of: takes a scalar std::int32_t or std::int64_t
graph g;
auto x = placeholder<float, dims<4>>(g, "x");
auto y = case_of(sum(x) > 0.f, [&] { return x; }, [&] { return -x; });                      // wrong
auto y = case_of(cast<std::int32_t>(sum(x) > 0.f), [&] { return x; }, [&] { return -x; });  // right

// case case_results: The third branch returns other extents.
// error: branches_differ
// error: case_of: takes a scalar std::int32_t or std::int64_t
graph g;
auto x = placeholder<float, dims<4>>(g, "x");
auto k = placeholder<int>(g, "k");
auto y = case_of(k, [&] { return x; }, [&] { return -x; }, [&] { return sum(x); });      // wrong
auto y = case_of(k, [&] { return x; }, [&] { return -x; }, [&] { return x + sum(x); });  // right

// case cond_branches: The branches return different extents.
// error: branches_differ
// error: dims<4>
// error: dims<2, 2>
graph g;
auto x = placeholder<float, dims<4>>(g, "x");
auto y = cond(sum(x) > 0.f, [](auto x) { return x; }, [](auto x) { return reshape<dims<2, 2>>(x); }, x);  // wrong
auto y = cond(sum(x) > 0.f, [](auto x) { return x; }, [](auto x) { return x * 2.f; }, x);                 // right

// case cond_captured: A branch captures the operand instead of taking it as a parameter.
// error: subgraph_takes_other_parameters
// error: cond: takes a scalar of bool, and two functions that return expressions of the same
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = cond(sum(x) > 0, [](auto v) { return v; }, [] { return 1.0f; }, x);        // wrong
auto y = cond(sum(x) > 0, [](auto v) { return v; }, [](auto v) { return -v; }, x);  // right

// case cond_elements: One branch returns two values, the other one value.
// error: branches_differ
// error: tuple
graph g;
auto x = placeholder<float, dims<4>>(g, "x");
auto pair = [](auto x) { return std::tuple{x, x}; };
auto y = cond(sum(x) > 0.f, pair, [](auto x) { return x; }, x);                  // wrong
auto y = cond(sum(x) > 0.f, pair, [](auto x) { return std::tuple{x, -x}; }, x);  // right

// case cond_lambda_arguments: The branches have a parameter, but there is no operand.
// error: cond: takes a scalar of bool, and two functions that return expressions of the same elements
graph g;
auto x = placeholder<float>(g, "x");
auto y = cond(x > 0.0f, [](auto x) { return x; }, [](auto x) { return -x; });     // wrong
auto y = cond(x > 0.0f, [](auto x) { return x; }, [](auto x) { return -x; }, x);  // right

// case cond_number: A branch returns a number.
// error: result_is_not_an_expression
graph g;
auto x = placeholder<float, dims<4>>(g, "x");
auto y = cond(sum(x) > 0.f, [](auto x) { return sum(x); }, [](auto) { return 0.f; }, x);               // wrong
auto y = cond(sum(x) > 0.f, [](auto x) { return sum(x); }, [](auto) { return tensor<float>(0); }, x);  // right

// case cond_one_branch: The second branch is missing.
// error: branch_is_missing
// error: cond: takes two functions: cond\(p, \[\]\(auto x\) \{ return -x; \}, \[\]\(auto x\) \{ return x; \},
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = cond(sum(x) > 0, [](auto v) { return v; });                                // wrong
auto y = cond(sum(x) > 0, [](auto v) { return v; }, [](auto v) { return -v; }, x);  // right

// case cond_predicate: The predicate is not a scalar.
// error: predicate_is_not_a_scalar_bool
// error: dims<4>
graph g;
auto x = placeholder<float, dims<4>>(g, "x");
auto y = cond(x > 0.f, [](auto x) { return x; }, [](auto x) { return -x; }, x);        // wrong
auto y = cond(mean(x) > 0.f, [](auto x) { return x; }, [](auto x) { return -x; }, x);  // right

// case cond_values: The branches are values.
// error: subgraph_takes_other_parameters
// error: cond: takes a scalar of bool, and two functions that return expressions of the same
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = cond(sum(x) > 0, x, -x);                                                   // wrong
auto y = cond(sum(x) > 0, [](auto v) { return v; }, [](auto v) { return -v; }, x);  // right

// case fold_stacks: The body returns a value besides the carry.
// error: fold_stacks_results
// error: fold: the body returns the next carries and nothing else
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto h = fold([](auto h, auto v) { return std::tuple{h + v, h}; }, sum<0>(x), rows(x));  // wrong
auto h = fold([](auto h, auto v) { return h + v; }, sum<0>(x), rows(x));                 // right

// case loop_condition: The condition returns a number.
// error: predicate_is_not_a_scalar_bool
graph g;
auto x = placeholder<float, dims<4>>(g, "x");
auto y = while_loop([](auto x) { return 9.f - sum(x); }, [](auto x) { return x + x; }, x);        // wrong
auto y = while_loop([](auto x) { return 9.f - sum(x) > 0.f; }, [](auto x) { return x + x; }, x);  // right

// case loop_condition_parameters: The condition takes more parameters than there are operands.
// error: subgraph_takes_other_parameters
// error: dims<4>
graph g;
auto x = placeholder<float, dims<4>>(g, "x");
auto n = placeholder<int>(g, "n");
auto y = while_loop([](auto i, auto, auto n) { return i < n; },                                   // wrong
                    [](auto i, auto x) { return std::tuple{i + 1, x + x}; }, tensor<int>(0), x);  // wrong
auto y = while_loop([](auto i, auto n) { return i < n; },                                         // right
                    [](auto i, auto, auto x) { return std::tuple{i + 1, x + x}; },                // right
                    tensor<int>(0), invariant(n), x);                                             // right

// case loop_invariants: All operands are invariant.
// error: loop_has_no_variable
graph g;
auto x = placeholder<float, dims<4>>(g, "x");
auto y = while_loop([](auto x) { return sum(x) < 9.f; }, [](auto x) { return x + x; }, invariant(x));  // wrong
auto y = while_loop([](auto x) { return sum(x) < 9.f; }, [](auto x) { return x + x; }, x);             // right

// case loop_misspelt: A misspelt option of while_loop.
// error: \(condition, body, \{\.max_iterations = 10\}, i, x\), the loop variables one by one
graph g;
auto x = placeholder<float>(g, "x");
auto condition = [](auto x) { return x < 8.0f; };
auto body = [](auto x) { return x * 2.0f; };
auto y = while_loop(condition, body, {.max_iteration = 8}, x);   // wrong
auto y = while_loop(condition, body, {.max_iterations = 8}, x);  // right

// case loop_parameters: The body lacks the parameter for an invariant.
// error: subgraph_takes_other_parameters
// error: dims<2, 2>
graph g;
auto x = placeholder<float, dims<1, 2>>(g, "x");
auto w = placeholder<float, dims<2, 2>>(g, "w");
auto y = while_loop([](auto x, auto) { return sum(x) < 9.f; }, [](auto x) { return x + x; }, x, invariant(w));  // wrong
auto y = while_loop([](auto x, auto) { return sum(x) < 9.f; }, [](auto x, auto w) { return matmul(x, w); }, x,  // right
                    invariant(w));                                                                              // right

// case loop_values_first: The loop variable comes before the condition.
// error: while_loop: takes a condition that returns a scalar of bool, and a body that returns the loop
graph g;
auto x = placeholder<float>(g, "x");
auto y = while_loop(x, [](auto x) { return x < 8.0f; }, [](auto x) { return x * 2.0f; });  // wrong
auto y = while_loop([](auto x) { return x < 8.0f; }, [](auto x) { return x * 2.0f; }, x);  // right

// case loop_variables: A loop variable grows in each iteration.
// error: loop_variables_change
// error: dims<4>
// error: dims<8>
graph g;
auto x = placeholder<float, dims<4>>(g, "x");
auto y = while_loop([](auto x) { return sum(x) < 9.f; }, [](auto x) { return concat<0>(x, x); }, x);  // wrong
auto y = while_loop([](auto x) { return sum(x) < 9.f; }, [](auto x) { return x + x; }, x);            // right

// case map_carry: An operand of map is not rows.
// error: operands_are_not_rows
// error: map: needs a body that returns a value for each row
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = map([](auto v) { return v * 2.f; }, x);        // wrong
auto y = map([](auto v) { return v * 2.f; }, rows(x));  // right

// case scan_body_captures: All operands are tensors, but the body reads a variable.
// error: no_operand_is_in_the_graph
// error: scan: needs a body that returns the carried values and then the values to stack, and rows\(x\)
graph g;
auto w = variable<float, dims<3>>(g, "w");
tensor<float, dims<4, 3>> x;
auto y = scan([&](auto v) { return v * w; }, rows(x));               // wrong
auto y = scan([&](auto v) { return v * w; }, rows(constant(g, x)));  // right

// case scan_body_type: The carry becomes double.
// error: loop_variables_change
// error: scan: needs a body that returns the carried values and then the values to stack, and rows\(x\)
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto [h, y] = scan([](auto h, auto v) { return std::tuple{cast<double>(h), h}; }, sum<0>(x), rows(x));  // wrong
auto [h, y] = scan([](auto h, auto v) { return std::tuple{h + v, h}; }, sum<0>(x), rows(x));            // right

// case scan_body_void: The body returns nothing.
// error: result_is_not_an_expression
// error: scan: needs a body that returns the carried values and then the values to stack, and rows\(x\)
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto [h, y] = scan([](auto h, auto v) {}, sum<0>(x), rows(x));                                // wrong
auto [h, y] = scan([](auto h, auto v) { return std::tuple{h + v, h}; }, sum<0>(x), rows(x));  // right

// case scan_carries: The body returns the stacked value before the carry.
// error: loop_variables_change
// error: dims<4>
graph g;
auto x = placeholder<float, dims<5, 4>>(g, "x");
auto h = placeholder<float, dims<4>>(g, "h");
auto all = scan([](auto h, auto x) { return std::tuple{sum(h * x), h + x}; }, h, rows(x));  // wrong
auto all = scan([](auto h, auto x) { return std::tuple{h + x, sum(h * x)}; }, h, rows(x));  // right

// case scan_extents: The scanned values have different numbers of rows.
// error: scanned_extents_differ
// error: dims<5, 4>
// error: dims<4, 4>
graph g;
auto x = placeholder<float, dims<5, 4>>(g, "x");
auto y = placeholder<float, dims<4, 4>>(g, "y");  // wrong
auto y = placeholder<float, dims<5, 4>>(g, "y");  // right
auto z = scan([](auto x, auto y) { return x * y; }, rows(x), rows(y));

// case scan_no_rows: The rows are missing.
// error: scan_has_no_rows
// error: scan: needs a body that returns the carried values and then the values to stack, and rows\(x\)
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto [h, y] = scan([](auto h, auto v) { return std::tuple{h + v, h}; }, sum<0>(x), x);        // wrong
auto [h, y] = scan([](auto h, auto v) { return std::tuple{h + v, h}; }, sum<0>(x), rows(x));  // right

// case scan_parameters: The body lacks the parameter for the carry.
// error: subgraph_takes_other_parameters
graph g;
auto x = placeholder<float, dims<5, 4>>(g, "x");
auto h = placeholder<float, dims<4>>(g, "h");
auto y = scan([](auto x) { return x + 1.f; }, h, rows(x));        // wrong
auto y = scan([](auto h, auto x) { return h + x; }, h, rows(x));  // right

// case scan_rows: No operand has rows.
// error: scan_has_no_rows
graph g;
auto x = placeholder<float, dims<5, 4>>(g, "x");
auto h = placeholder<float, dims<4>>(g, "h");
auto y = scan([](auto h, auto x) { return h + sum<0>(x); }, h, invariant(x));  // wrong
auto y = scan([](auto h, auto x) { return h + x; }, h, rows(x));               // right

// case scan_scalar: The scanned value is a scalar.
// error: scalar_has_no_rows
graph g;
auto x = placeholder<float, dims<5>>(g, "x");
auto y = placeholder<float>(g, "y");
auto z = scan([](auto x, auto y) { return x * y; }, rows(x), rows(y));       // wrong
auto z = scan([](auto x, auto y) { return x * y; }, rows(x), invariant(y));  // right

// case scan_swapped: The rows come before the body.
// error: operands_are_not_expressions
// error: scan: needs a body that returns the carried values and then the values to stack, and rows\(x\)
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto [h, y] = scan(rows(x), [](auto h, auto v) { return std::tuple{h + v, h}; }, sum<0>(x));  // wrong
auto [h, y] = scan([](auto h, auto v) { return std::tuple{h + v, h}; }, sum<0>(x), rows(x));  // right

// case while_body_array: The body returns an array.
// error: result_is_not_an_expression
// error: while_loop: takes a condition that returns a scalar of bool, and a body that returns the
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto condition = [](auto v, auto w) { return sum(v) < 1; };
auto [a, b] = while_loop(condition, [](auto v, auto w) { return std::array{v, w}; }, x, x);      // wrong
auto [a, b] = while_loop(condition, [](auto v, auto w) { return std::tuple{v + 1, w}; }, x, x);  // right

// case while_body_void: The body returns nothing.
// error: result_is_not_an_expression
// error: while_loop: takes a condition that returns a scalar of bool, and a body that returns the
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = while_loop([](auto v) { return sum(v) < 1; }, [](auto v) { v = v + 1; }, x);     // wrong
auto y = while_loop([](auto v) { return sum(v) < 1; }, [](auto v) { return v + 1; }, x);  // right

// case while_list: The loop variables are in braces.
// error: operands_are_not_expressions
// error: while_loop: pass the loop variables after the body, one by one: while_loop\(condition, body,
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = while_loop([](auto v) { return sum(v) < 1; }, [](auto v) { return v + 1; }, {x});  // wrong
auto y = while_loop([](auto v) { return sum(v) < 1; }, [](auto v) { return v + 1; }, x);    // right

// case while_loss: A loss as the condition of a while statement.
// error: value_needs_a_session
// error: not a number: session\.eval\(x\) computes a graph's value; sum\(x\)
graph g;
auto w = variable<float>(g, "w");
auto loss = w * w;
auto train = gradient_descent{}.minimize(loss);
session s{g};
while (loss > 0.1f) s.run(fetch(train));          // wrong
while (s.eval(loss) > 0.1f) s.run(fetch(train));  // right

// case while_no_variables: The loop variables are missing.
// error: operands_are_not_expressions
// error: while_loop: pass the loop variables after the body, one by one: while_loop\(condition, body,
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = while_loop([](auto v) { return sum(v) < 1; }, [](auto v) { return v + 1; });     // wrong
auto y = while_loop([](auto v) { return sum(v) < 1; }, [](auto v) { return v + 1; }, x);  // right

// case while_node: The condition is a value.
// error: subgraph_takes_other_parameters
// error: while_loop: takes a condition that returns a scalar of bool, and a body that returns the
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = while_loop(sum(x) < 1, [](auto v) { return v + 1; }, x);                         // wrong
auto y = while_loop([](auto v) { return sum(v) < 1; }, [](auto v) { return v + 1; }, x);  // right

// case while_number: A loop variable is a number.
// error: operands_are_not_expressions
// error: while_loop: takes a condition that returns a scalar of bool, and a body that returns the
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto condition = [](auto i, auto v) { return i < 4; };
auto body = [](auto i, auto v) { return std::tuple{i + 1, v}; };
auto y = while_loop(condition, body, 0, x);               // wrong
auto y = while_loop(condition, body, constant(g, 0), x);  // right
