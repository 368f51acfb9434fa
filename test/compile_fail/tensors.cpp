// SPDX-License-Identifier: BSL-1.0
#include <array>
#include <vector>

#include <weft/weft.hpp>
using namespace weft;

// case assignment: The assigned expression has other extents than the tensor.
// error: assigned_extents_differ
// error: dims<2, 3>
// error: dims<3, 2>
tensor<float, dims<2, 3>> a;
tensor<float, dims<3, 2>> b = a + 1;  // wrong
tensor<float, dims<2, 3>> b = a + 1;  // right

// case brackets_of_node: A subscript of a node.
// error: node<float, (weft::)?dims<1>
// error(g++): no match for 'operator\[\]'
// error(clang++): does not provide a subscript operator
graph g;
auto x = placeholder<float, dims<1>>(g, "x");
auto y = x[0];                // wrong
auto y = reshape<dims<>>(x);  // right

// case brackets_of_tensor: A row of a tensor as a number.
// error: value_is_not_one_number
// error: dims<3>
tensor<float, dims<2, 3>> x;
float y = x[0];     // wrong
float y = x[0][0];  // right

// case eigen_zero: A static member function that creates zeros, as in Eigen.
// error(clang++): no member named 'zeros' in 'weft::tensor<float, weft::dims<3>(, weft::cpu)?>'
// error(g++): 'zeros' is not a member of 'weft::tensor<float, weft::dims<3>(, weft::cpu)? ?>'
auto t = tensor<float, dims<3>>::zeros();  // wrong
auto t = tensor<float, dims<3>>();         // right

// case element: A constant index out of range of a constant extent.
// error: index_out_of_range
// error: dims<3, 784>
tensor<float, dims<3, 784>> x;
const std::integral_constant<int, 3> row;
return x(row, 0) != 0;  // wrong
return x(0, row) != 0;  // right

// case element_of_node: An element of a node.
// error: variable_node<float, (weft::)?dims<3>
// error(g++): no match for call
// error(clang++): does not provide a call operator
graph g;
auto x = variable<float, dims<3>>(g, "x");
session s{g};
float y = x(0);          // wrong
float y = s.eval(x)(0);  // right

// case index_of_node: A node as an index.
// error: indices_do_not_fit
// error: dims<2, 3>
// error: tensor: x\(i, j, \.\.\.\) needs one integer index per axis
tensor<float, dims<2, 3>> x;
graph g;
auto i = placeholder<int>(g, "i");
float y = x(i, 0);  // wrong
float y = x(1, 0);  // right

// case member_shape: shape(), as in other libraries.
// error: no member named 'shape'
tensor<float, dims<2, 3>> x;
auto s = x.shape();    // wrong
auto s = x.extents();  // right

// case nested_braces: A row is too short.
// error: rows_do_not_fit
// error: dims<2, 3>, ?3, ?2
// error: tensor: the rows in braces must match its extents
tensor<float, dims<2, 3>> x{{1, 2, 3}, {4, 5}};     // wrong
tensor<float, dims<2, 3>> x{{1, 2, 3}, {4, 5, 6}};  // right

// case nested_braces_depth: The braces are nested less deep than the tensor has axes.
// error: nesting_differs
// error: dims<2, 1, 2>
// error: values in braces must be one list in row-major order, or nested like the extents
tensor<float, dims<2, 1, 2>> x{{1, 2}, {3, 4}};      // wrong
tensor<float, dims<2, 1, 2>> x{{{1, 2}}, {{3, 4}}};  // right

// case nested_braces_rows: A row is missing.
// error: rows_do_not_fit
// error: dims<3, 2>, ?2, ?2
tensor<float, dims<3, 2>> x{{1, 2}, {3, 4}};          // wrong
tensor<float, dims<3, 2>> x{{1, 2}, {3, 4}, {5, 6}};  // right

// case range_for_node: A loop over the rows of a node.
// error: value_is_not_a_range
// error: dims<3>
// error: a loop needs the elements of a tensor: session\.eval\(x\), eval\(x\)
graph g;
auto x = variable<float, dims<3>>(g, "x");
session s{g};
for (auto row : x) static_cast<void>(row);          // wrong
for (auto row : s.eval(x)) static_cast<void>(row);  // right

// case tensor_braces_untyped: The values in braces lack a type.
// error: tensor<.*dims<2, 3>>
tensor t{1.0f, 2.0f};                  // wrong
tensor<float, dims<2>> t{1.0f, 2.0f};  // right

// case tensor_dynamic_of_numbers: Two numbers in place of shape(2, 3).
// error: tensor<T, dims<2, 3>>\{1, 2, 3, 4, 5, 6\}, or \{shape\(2, 3\)\} for zeros
tensor<float, dims<dyn<"n">, 3>> t(2, 3);         // wrong
tensor<float, dims<dyn<"n">, 3>> t(shape(2, 3));  // right

// case tensor_extents_as_types: The extents are numbers without dims, as in Eigen.
// error(clang++): template argument for template type parameter must be a type
// error(g++): type/value mismatch at argument 2 in template parameter list for 'template<class T, class
tensor<float, 2, 3> t;        // wrong
tensor<float, dims<2, 3>> t;  // right

// case tensor_extents_in_braces: The extents are in braces.
// error: tensor: pass extents known at run time before the values: tensor<\.\.\.> t\{shape\(\.\.\.\),
tensor<float, dims<dyn<"n">, 3>> t({2, 3});       // wrong
tensor<float, dims<dyn<"n">, 3>> t(shape(2, 3));  // right

// case tensor_filled: A tensor is filled by an assignment.
// error: tensor_is_not_assigned
// error: <float>
// error: tensor: assign a tensor or an expression; x\.fill\(v\) writes one number
tensor<float, dims<2, 3>> x;
x = 1.0f;      // wrong
x.fill(1.0f);  // right

// case tensor_in_condition: A comparison of tensors as the condition of an if statement.
// error: value_is_not_one_number
// error: dims<3>
// error: not a number: session\.eval\(x\) computes a graph's value; sum\(x\)
tensor<float, dims<3>> a, b;
if (a < b) return 1;   // wrong
if (a == b) return 1;  // right

// case tensor_of_array: The array has fewer elements than the extents require.
// error: number_of_values_differs
// error: dims<2, 3>, ?5
std::array<float, 5> values{};  // wrong
std::array<float, 6> values{};  // right
tensor<float, dims<2, 3>> x(values);

// case tensor_of_extent: A tensor is constructed from its extent.
// error: tensor_is_not_made_of
// error: <int>
// error: tensor: needs values in braces, shape\(\.\.\.\) for zeros, a range
tensor<float, dims<dyn<"n">>> x(10);         // wrong
tensor<float, dims<dyn<"n">>> x(shape(10));  // right

// case tensor_of_extents: A tensor is constructed from extents in braces.
// error: values_need_extents
// error: tensor: pass extents known at run time before the values: tensor<\.\.\.> t\{shape\(\.\.\.\), \{values\}\}
tensor<float, dims<dyn<"rows">, 3>> x({4, 3});       // wrong
tensor<float, dims<dyn<"rows">, 3>> x(shape(4, 3));  // right

// case tensor_of_nested_vectors: The vectors are nested less deep than the tensor has axes.
// error: nesting_differs
// error: dims<1, 2, 3>
std::vector<std::vector<float>> values{{1, 2, 3}, {4, 5, 6}};
tensor<float, dims<1, 2, 3>> x(values);  // wrong
tensor<float, dims<2, 3>> x(values);     // right

// case tensor_of_node: A tensor is constructed from a node without a session.
// error: value_needs_a_session
// error: dims<3>
// error: tensor: the expression must have the tensor.s extents and elements; a graph.s value needs a session:
graph g;
auto x = variable<float, dims<3>>(g, "x");
session s{g};
tensor<float, dims<3>> y = x * 2;          // wrong
tensor<float, dims<3>> y = s.eval(x * 2);  // right

// case tensor_of_numbers: A tensor without a type is constructed from two numbers.
// error: a tensor needs its type and extents: tensor<float, dims<2, 3>>
tensor t(2, 3);               // wrong
tensor<float, dims<2, 3>> t;  // right

// case tensor_of_vector: A tensor of integers is constructed from a vector of fractions.
// error: element_types_differ
// error: double, int
// error: tensor: needs values in braces, shape\(\.\.\.\) for zeros, a range with a value for each element
std::vector<double> values(3);
tensor<int, dims<3>> x(values);    // wrong
tensor<float, dims<3>> x(values);  // right

// case tensor_pushed: push_back(), as in std::vector.
// error(clang++): no member named 'push_back' in 'weft::tensor<float, weft::dims<3>(, weft::cpu)?>'
// error(g++): 'class weft::tensor<float, weft::dims<3>(, weft::cpu)? ?>' has no member named 'push_back'
tensor<float, dims<3>> t;
t.push_back(1.0f);  // wrong
t(0) = 1.0f;        // right

// case tensor_reshaped_member: reshape() as a member, as in NumPy.
// error(clang++): no member named 'reshape' in 'weft::tensor<float, weft::dims<2, 3>>'
// error(g++): 'class weft::tensor<float, weft::dims<2, 3> >' has no member named 'reshape'
tensor<float, dims<2, 3>> t;
auto y = t.reshape(3, 2);         // wrong
auto y = reshape<dims<3, 2>>(t);  // right

// case tensor_shape_and_number: One number for all elements.
// error: tensor<T, dims<2, 3>>\{1, 2, 3, 4, 5, 6\}, or \{shape\(2, 3\)\} for zeros
tensor<float, dims<dyn<"n">>> t(shape(3), 1.0f);       // wrong
tensor<float, dims<dyn<"n">>> t(shape(3), {1, 1, 1});  // right

// case tensor_string_values: The values are strings.
// error: tensor_is_not_made_of
// error: tensor: elements must be numbers, not text: \{1, 2, 3\}
tensor<float, dims<2>> x{"1", "2"};  // wrong
tensor<float, dims<2>> x{1, 2};      // right

// case tensor_to_vector: A std::vector is initialized by a tensor.
// error: std::vector<T>\(t\.begin\(\), t\.end\(\)\)
tensor<float, dims<3>> t;
std::vector<float> v = t;                  // wrong
std::vector<float> v(t.begin(), t.end());  // right

// case tensor_transposed_member: T() as a member, as in PyTorch.
// error(clang++): no member named 'T' in 'weft::tensor<float, weft::dims<2, 3>>'
// error(g++): 'class weft::tensor<float, weft::dims<2, 3> >' has no member named 'T'
tensor<float, dims<2, 3>> t;
auto y = t.T();         // wrong
auto y = transpose(t);  // right

// case tensor_typed_of_numbers: Two numbers as arguments instead of extents as template arguments.
// error: tensor<T, dims<2, 3>>\{1, 2, 3, 4, 5, 6\}, or \{shape\(2, 3\)\} for zeros
tensor<float, dims<2, 3>> t(2, 3);  // wrong
tensor<float, dims<2, 3>> t;        // right

// case tensor_without_dims: The extents are numbers without dims.
// error(g++): expected a type, got '3'
// error(clang++): must be a type
tensor<float, 3, 4> x;        // wrong
tensor<float, dims<3, 4>> x;  // right

// case too_few_indices: An element of a matrix by one index.
// error: indices_do_not_fit
// error: dims<2, 3>
// error: tensor: x\(i, j, \.\.\.\) needs one integer index per axis
tensor<float, dims<2, 3>> x;
float y = x(0);     // wrong
float y = x(0, 0);  // right

// case vector_typed_of_eval: A std::vector is initialized by a fetched tensor.
// error: std::vector<T>\(t\.begin\(\), t\.end\(\)\)
graph g;
auto b = variable<float, dims<3>>(g, "b");
session s{g};
std::vector<float> v = s.eval(b);          // wrong
auto t = s.eval(b);                        // right
std::vector<float> v(t.begin(), t.end());  // right
