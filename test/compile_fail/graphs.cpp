// SPDX-License-Identifier: BSL-1.0
#include <weft/weft.hpp>
using namespace weft;

// case control_dependencies_list: The dependencies are in braces.
// error: \(graph, train, update\): effects and nodes, let\(x \+ 1\), one by one
graph g;
auto a = variable<float>(g, "a");
auto b = assign(a, 1.0f);
auto c = assign(a, 2.0f);
control_dependencies after(g, {b, c});  // wrong
control_dependencies after(g, b, c);    // right

// case control_no_graph: The graph is missing.
// error: \(graph, train, update\): effects and nodes, let\(x \+ 1\), one by one
graph g;
auto a = variable<float>(g, "a");
control_dependencies after(a);     // wrong
control_dependencies after(g, a);  // right

// case control_of_expression: The dependency is an expression.
// error: \(graph, train, update\): effects and nodes, let\(x \+ 1\), one by one
graph g;
auto a = variable<float>(g, "a");
control_dependencies after(g, a + 1.0f);       // wrong
control_dependencies after(g, let(a + 1.0f));  // right

// case cuda_tensor: A tensor on a GPU.
// error: tensor_is_not_on_the_host
// error: tensor: a tensor is in host memory; a session places a graph's values on devices
tensor<float, dims<3>> x;
tensor<float, dims<3>, cuda> y = x;  // wrong
tensor<float, dims<3>> y = x;        // right

// case device: A typing error in a device's name.
// error: device_name_is_malformed
// error: /job:NAME/task:N/device:KIND:N
graph g;
device_scope there(g, "/job:ps/device:CPV:0"_device);  // wrong
device_scope there(g, "/job:ps/device:CPU:0"_device);  // right

// case device_kind: A device named by its kind only.
// error: cpu
graph g;
device_scope there(g, cpu);     // wrong
device_scope there(g, cpu{0});  // right

// case device_number: A device named by its number.
// error: device_scope on\(graph, cpu\{0\}\), or \(graph, "/device:CPU:0"_device\)
graph g;
device_scope on(g, 0);       // wrong
device_scope on(g, cpu{0});  // right

// case device_text: A device named by a plain string.
// error: device_is_not_a_device_spec
// error: device_scope: write
graph g;
device_scope there(g, "/device:CPU:0");         // wrong
device_scope there(g, "/device:CPU:0"_device);  // right

// case graph_copied: A graph is copied.
// error: deleted
// error: graph\(const graph&\) = delete
graph g;
auto copy = g;   // wrong
auto& same = g;  // right

// case graph_of_tensor: graph_of() of a tensor.
// error: value_has_no_graph<weft::tensor<float, weft::dims<3>
// error: a tensor is not in a graph
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
tensor<float, dims<3>> t{1, 2, 3};
auto w = variable<float, dims<3>>(graph_of(t), "w");  // wrong
auto w = variable<float, dims<3>>(graph_of(x), "w");  // right

// case group_list: The effects are in braces.
// error: run_value_is_not_a_node
// error: group: takes effects and nodes, one by one: group\(train, update\)
graph g;
auto w = variable<float, dims<3, 2>>(g, "w");
auto y = group({assign(w, w * 2)});  // wrong
auto y = group(assign(w, w * 2));    // right

// case group_node: The operand is a value.
// error: run_value_is_not_a_node
// error: group: takes effects and nodes: group\(train, let\(x \+ 1\)\)
graph g;
auto w = variable<float, dims<3, 2>>(g, "w");
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = group(x + 1);             // wrong
auto y = group(assign(w, w * 2));  // right

// case let_name_first: The name comes before the value.
// error: operand_is_not_a_tensor
// error: let: takes an expression, then a name: let\(x \* 2, \\?"twice\\?"\); constant\(graph, 0\.5f\) makes a
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = let("y", x * 2);  // wrong
auto y = let(x * 2, "y");  // right

// case let_number: let() of a number.
// error: operand_is_not_a_tensor
// error: let: takes an expression, then a name: let\(x \* 2, \\?"twice\\?"\); constant\(graph, 0\.5f\) makes a
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = let(2.0f);   // wrong
auto y = let(x * 2);  // right

// case let_of_tensor: let() of an expression of tensors.
// error: value_not_in_a_graph
// error: dims<2, 3>
// error: let: makes a node in a graph; for tensors use eval\(x\)
tensor<float, dims<2, 3>> x;
auto y = let(x * 2);   // wrong
auto y = eval(x * 2);  // right

// case name_scope_no_graph: The graph is missing.
// error: scope_has_no_graph
// error: name_scope: write name_scope scope\(graph, \\?"name\\?"\)
graph g;
name_scope a("layer");     // wrong
name_scope a(g, "layer");  // right
