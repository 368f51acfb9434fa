// SPDX-License-Identifier: BSL-1.0
#include <string>

#include <weft/weft.hpp>
using namespace weft;

// case element_string: The elements are strings.
// error: types_are_not_element_and_dims
// error: placeholder: write placeholder<float, dims<dyn<\\?"batch\\?">, 784>>\(graph,
graph g;
auto x = placeholder<std::string>(g, "x");   // wrong
auto x = placeholder<std::int32_t>(g, "x");  // right

// case placeholder_as_type: placeholder as a type.
// To clang this is a syntax error, an unknown name and an unused value.
// error(clang++): expected ';' after expression
// error(g++): expected ';' before 'x'
// max-lines: 10
graph g;
placeholder<float, dims<3>> x(g, "x");         // wrong
auto x = placeholder<float, dims<3>>(g, "x");  // right

// case placeholder_extents_argument: The extents are an argument.
// error: types_are_not_element_and_dims
// error: placeholder: write placeholder<float, dims<dyn<\\?"batch\\?">, 784>>\(graph,
graph g;
auto x = placeholder<float>(g, {784, 10});      // wrong
auto x = placeholder<float, dims<784, 10>>(g);  // right

// case placeholder_member: placeholder as a member of a graph.
// error(clang++): no member named 'placeholder' in 'weft::graph'
// error(g++): 'class weft::graph' has no member named 'placeholder'
graph g;
auto x = g.placeholder<float>("x");   // wrong
auto x = placeholder<float>(g, "x");  // right

// case placeholder_pointer: A pointer to the graph.
// error: placeholder: write placeholder<float, dims<dyn<\\?"batch\\?">, 784>>\(graph, \\?"name\\?"\)
graph g;
auto x = placeholder<float>(&g, "x");  // wrong
auto x = placeholder<float>(g, "x");   // right

// case placeholder_without_dims: The extents are numbers without dims.
// error: extents_are_not_in_a_dims
// error: <784, 10>
// error: placeholder: write placeholder<float, dims<dyn<\\?"batch\\?">, 784>>\(graph,
graph g;
auto x = placeholder<float, 784, 10>(g, "x");        // wrong
auto x = placeholder<float, dims<784, 10>>(g, "x");  // right

// case placeholder_without_graph: The graph is missing.
// error: arguments_are_not_graph_and_name
// error: placeholder: write placeholder<float, dims<dyn<\\?"batch\\?">, 784>>\(graph,
graph g;
auto x = placeholder<float, dims<3>>("x");     // wrong
auto x = placeholder<float, dims<3>>(g, "x");  // right

// case placeholder_without_type: The element type is missing.
// error: types_are_not_element_and_dims
// error: placeholder: write placeholder<float, dims<dyn<\\?"batch\\?">, 784>>\(graph,
graph g;
auto x = placeholder(g, "x");         // wrong
auto x = placeholder<float>(g, "x");  // right
