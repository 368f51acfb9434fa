// SPDX-License-Identifier: BSL-1.0
#include <vector>

#include <weft/weft.hpp>
using namespace weft;

// case add_update_expression: The update is an expression.
// error: an effect or a node: add_update\(assign\(mean, x\)\), add_update\(let\(x \+ 1\)\)
graph g;
auto a = variable<float>(g, "a");
add_update(a + 1.0f);             // wrong
add_update(assign(a, a + 1.0f));  // right

// case assign: The value has other extents than the variable.
// error: assigned_extents_differ
// error: dims<3>
// error: dims<4>
graph g;
auto v = variable<float, dims<3>>(g, "v");
auto x = placeholder<float, dims<4>>(g, "x");  // wrong
auto x = placeholder<float, dims<3>>(g, "x");  // right
auto a = assign(v, x * 2);

// case assign_all_nodes: Two variables are given to assign_all.
// error: takes two lists: variables_in\(g, "target"\), variables_in\(g, "online"\)
graph g;
auto w = variable<float>(g, "online/w");
auto v = variable<float>(g, "target/w");
auto copy = assign_all(v, w);                                                  // wrong
auto copy = assign_all(variables_in(g, "target"), variables_in(g, "online"));  // right

// case assign_number: A number is assigned to a variable.
// error: assigned_extents_differ
// error: dims<3>
// error: assign: a number can be added only to a scalar variable whose type can represent it
graph g;
auto w = variable<float, dims<3>>(g, "w");
auto a = assign(w, 0.5f);                                      // wrong
auto a = assign(w, tensor<float, dims<3>>{0.5f, 0.5f, 0.5f});  // right

// case assign_placeholder: The target is a placeholder.
// error: assigned_value_is_not_a_variable
// error: dims<3>
// error: assign: the first argument must be a variable: assign\(w, value\)
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
auto w = variable<float, dims<3>>(g, "w");
auto a = assign(x, x * 2);  // wrong
auto a = assign(w, x * 2);  // right

// case assign_tensor: The tensor has other extents than the variable.
// error: assigned_extents_differ
// error: dims<4, 4>
// error: dims<4, 3>
graph g;
auto w = variable<float, dims<4, 3>>(g, "w");
tensor<float, dims<4, 4>> value;  // wrong
tensor<float, dims<4, 3>> value;  // right
auto a = assign(w, value);

// case assign_two_types: assign as a member of a variable.
// error(clang++): no member named 'assign' in 'weft::variable_node<float>'
// error(g++): 'class weft::variable_node<float>' has no member named 'assign'
graph g;
auto a = variable<float>(g, "a");
auto b = a.assign(1.0f);   // wrong
auto b = assign(a, 1.0f);  // right

// case constant_list: The values are in braces.
// error: arguments_are_not_graph_and_tensor
// error: constant: write constant\(graph, tensor<float, dims<3>>\{1, 2, 3\}\)
graph g;
auto c = constant(g, {1.0f, 2.0f});                        // wrong
auto c = constant(g, tensor<float, dims<2>>{1.0f, 2.0f});  // right

// case constant_without_graph: The graph is missing.
// error: arguments_are_not_graph_and_tensor
// error: <float>
// error: constant: write constant\(graph, 0\.5f\) or constant\(graph, tensor<float
graph g;
auto c = constant(1.0f);     // wrong
auto c = constant(g, 1.0f);  // right

// case find_variable_no_type: The type is missing.
// error: types_are_not_element_and_dims
// error: find_variable: write find_variable<float, dims<784, 10>>\(graph, \\?"name\\?"\)
graph g;
auto w = variable<float, dims<3, 2>>(g, "w");
auto v = find_variable(g, "w");                     // wrong
auto v = find_variable<float, dims<3, 2>>(g, "w");  // right

// case find_variable_numbers: The extents are numbers without dims.
// error: extents_are_not_in_a_dims
// error: find_variable: write find_variable<float, dims<784, 10>>\(graph, \\?"name\\?"\)
graph g;
auto w = variable<float, dims<3, 2>>(g, "w");
auto v = find_variable<float, 3, 2>(g, "w");        // wrong
auto v = find_variable<float, dims<3, 2>>(g, "w");  // right

// case increment: A variable is incremented by ++.
// error: variable_node<long
// error(g++): no match for 'operator\+\+'
// error(clang++): cannot increment
graph g;
auto steps = variable<std::int64_t>(g, "steps");
++steps;                                                 // wrong
auto next = assign_add(steps, tensor<std::int64_t>(1));  // right

// case init_function: The initializer lacks its braces.
// error: init::zeros\)
graph g;
auto w = variable<float, dims<3>>(g, "w", init::zeros);    // wrong
auto w = variable<float, dims<3>>(g, "w", init::zeros{});  // right

// case init_misspelt: A misspelt member of an initializer.
// error(clang++): field designator 'std' does not refer to any field in type '(weft::)?(init::)?normal'
// error(g++): 'weft::init::normal' has no non-static data member named 'std'
graph g;
auto w = variable<float, dims<3>>(g, "w", init::normal{.std = 0.1});     // wrong
auto w = variable<float, dims<3>>(g, "w", init::normal{.stddev = 0.1});  // right

// case init_type: The initializer's type instead of a value.
// error(clang++): expected '\(' for function-style cast or type construction
// error(g++): expected primary-expression before '\)' token
graph g;
auto w = variable<float, dims<3>>(g, "w", init::zeros);    // wrong
auto w = variable<float, dims<3>>(g, "w", init::zeros{});  // right

// case node_made: A placeholder is constructed from the type of its handle.
// error: auto x = placeholder<float, dims<784, 10>>\(graph, "x"\)
graph g;
node<float, dims<3>> w(g, "w");                // wrong
auto w = placeholder<float, dims<3>>(g, "w");  // right

// case node_of_number: A number is assigned to a node.
// error: assigned_to_a_node
// error: <float>
// error: a node refers only to values of its own type: write `auto y = \.\.\.;`; assign\(variable
graph g;
auto x = placeholder<float>(g, "x");
session s{g};
x = 0.5f;                           // wrong
auto y = s.eval(x, with(x, 0.5f));  // right

// case plus_assign_variable: A variable is the target of +=.
// error: operator_not_defined
// error: dims<3>
// error: operator\+=: write y = y \+ x; assign_add writes a variable, in a step
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
auto w = variable<float, dims<3>>(g, "w");
w += 1;                          // wrong
auto update = assign_add(w, x);  // right

// case variable_get_of_placeholder: get() of a placeholder.
// error: value_is_not_of_a_variable
// error: get: reads a variable: get\(w\); find_variable<float, dims<\.\.\.>>\(graph, \\?"w\\?"\) finds one by
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
session s(g);
auto y = s.get(x);                                         // wrong
auto y = s.eval(x, with(x, tensor<float, dims<4, 3>>()));  // right

// case variable_no_name: The name is missing.
// error: arguments_are_not_graph_and_name
// error: variable: write variable<float, dims<784, 10>>\(graph, \\?"name\\?", init::normal\{\.stddev =
graph g;
auto w = variable<float, dims<3>>(g);       // wrong
auto w = variable<float, dims<3>>(g, "w");  // right

// case variable_node_made: A variable is constructed from the type of its handle.
// error: auto w = variable<float, dims<784, 10>>\(graph, "w"\)
graph g;
variable_node w(g, "w");           // wrong
auto w = variable<float>(g, "w");  // right

// case variable_node_typed: A variable is constructed from the type of its handle, with extents.
// error: auto w = variable<float, dims<784, 10>>\(graph, "w"\)
graph g;
variable_node<float, dims<3>> w(g, "w");    // wrong
auto w = variable<float, dims<3>>(g, "w");  // right

// case variable_not_trained: A bool states whether the variable is trained.
// error: variable: write variable<float, dims<784, 10>>\(graph, \\?"name\\?", init::normal\{\.stddev = 0\.1\}\)
graph g;
auto w = variable<float, dims<3>>(g, "w", 0, false);                  // wrong
auto w = variable<float, dims<3>>(g, "w", 0, variable_kind::frozen);  // right

// case variable_of_expression: An expression is assigned to the handle of a variable.
// error: value_is_not_a_variable
// error: dims<3>
// error: use assign\(variable, value\) in a step to write a variable
graph g;
auto w = variable<float, dims<3>>(g, "w");
w = w + 1;         // wrong
assign(w, w + 1);  // right

// case variable_of_other_tensor: The initial value has other extents.
// error: assigned_extents_differ
// error: dims<3>
// error: dims<4>
// error: variable: the initial value must have the variable's extents and elements
graph g;
tensor<float, dims<3>> first{1, 2, 3};
auto w = variable<float, dims<4>>(g, "w", first);  // wrong
auto w = variable<float, dims<3>>(g, "w", first);  // right

// case variable_of_std_vector: The initial value is a std::vector.
// error: variable: write variable<float, dims<784, 10>>\(graph, \\?"name\\?", init::normal\{\.stddev = 0\.1\}\)
graph g;
auto w = variable<float, dims<3>>(g, "w", std::vector<float>{1, 2, 3});      // wrong
auto w = variable<float, dims<3>>(g, "w", tensor<float, dims<3>>{1, 2, 3});  // right

// case variable_scope_bool: reuse is a bool.
// error: reuse_is_a_bool
// error: variable_scope: write variable_scope scope\(graph, \\?"name\\?", reuse::yes\), or
graph g;
variable_scope a(g, "layer", true);        // wrong
variable_scope a(g, "layer", reuse::yes);  // right

// case variable_set_number: A number is assigned to the handle of a variable.
// error: value_is_not_a_variable
// error: <float>
// error: use assign\(variable, value\) in a step to write a variable
graph g;
auto w = variable<float>(g, "w");
w = 0.5f;                                 // wrong
auto a = assign(w, tensor<float>(0.5f));  // right

// case variable_set_of_placeholder: set() of a placeholder.
// error: value_is_not_of_a_variable
// error: set: writes a variable: set\(w, value\); feed a placeholder by with\(x, value\)
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
session s(g);
s.set(x, tensor<float, dims<4, 3>>());                     // wrong
auto y = s.eval(x, with(x, tensor<float, dims<4, 3>>()));  // right

// case variable_swapped: The name comes before the graph.
// error: arguments_are_not_graph_and_name
// error: variable: write variable<float, dims<784, 10>>\(graph,
graph g;
auto w = variable<float, dims<3>>("w", g);  // wrong
auto w = variable<float, dims<3>>(g, "w");  // right
