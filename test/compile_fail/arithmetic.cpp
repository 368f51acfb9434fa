// SPDX-License-Identifier: BSL-1.0
#include <vector>

#include <weft/weft.hpp>
using namespace weft;

// case add: The extents of two operands do not broadcast.
// error: elementwise_shapes_differ
// error: operator\+
// error: 784.*100
tensor<float, dims<3, 784>> a;
tensor<float, dims<100>> b;  // wrong
tensor<float, dims<784>> b;  // right
auto c = a + b;

// case add_in_graph: The extents of two nodes do not broadcast; one is an expression with a named extent.
// error: elementwise_shapes_differ
// error: operator\*
// error(g++): "batch"
// error: 10.*20|20.*10
graph g;
auto x = placeholder<float, dims<dyn<"batch">, 10>>(g, "x");
auto w = variable<float, dims<20>>(g, "w");  // wrong
auto w = variable<float, dims<10>>(g, "w");  // right
auto y = exp(x) * (w + 1);

// case add_list: A C array is added.
// error: operand_is_not_a_tensor
// error: operator\+: takes tensors, nodes and numbers: tensor<T, dims<\.\.\.>>\{\.\.\.\}; unpack gradients with auto
tensor<float, dims<4, 3>> t;
float v[] = {1, 2, 3};                         // wrong
auto y = t + v;                                // wrong
auto y = t + tensor<float, dims<3>>{1, 2, 3};  // right

// case add_vector: A std::vector is added.
// error: operand_is_not_a_tensor
// error: operator\+: takes tensors, nodes and numbers: tensor<T, dims<\.\.\.>>\{\.\.\.\}; unpack gradients with auto
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
std::vector<float> v{1, 2, 3};                 // wrong
auto y = x + v;                                // wrong
auto y = x + tensor<float, dims<3>>{1, 2, 3};  // right

// case branches: The branches of ?: have different types.
// error: branches_are_two_expressions<weft::expression<weft::formula::relu
// error: tanh
// error: c \? let\(relu\(x\)\) : let\(tanh\(x\)\)
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
const bool deep = true;
auto y = deep ? relu(x) : tanh(x);            // wrong
auto y = deep ? let(relu(x)) : let(tanh(x));  // right

// case chained_comparison: A chained comparison, as in Python.
// error: operation_undefined_for
// error: formula::less, bool
// error: operator<: the operands must have extents that broadcast and one element type;
tensor<float, dims<2, 3>> x;
auto y = 0 < x < 1;       // wrong
auto y = 0 < x && x < 1;  // right

// case compare_with_text: A comparison with a string.
// error: operand_is_not_a_tensor
// error: operator==: takes tensors, nodes and numbers: tensor<T, dims<\.\.\.>>\{\.\.\.\}; unpack gradients with auto
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = x == "1";  // wrong
auto y = x == 1;    // right

// case element_types: The operands have different element types.
// error: element_types_differ
// error: float
// error: double
tensor<float, dims<3>> a;
tensor<double, dims<3>> b;  // wrong
tensor<float, dims<3>> b;   // right
auto c = a * b;

// case expression_assigned: An expression in a graph cannot be assigned to a variable of another expression type.
// error: expression_is_assigned<weft::expression<weft::formula::tanh
// error: auto h = let\(relu\(x\)\), or a tensor
graph g;
auto x = placeholder<float, dims<4>>(g, "x");
auto h = relu(x);       // wrong
auto h = let(relu(x));  // right
h = tanh(h);

// case expression_assigned_eager: An expression of tensors cannot be assigned to a variable of another expression type.
// error: expression_is_assigned<weft::expression<weft::formula::multiply
// error: or a tensor, auto h = eval
const tensor<float, dims<4>> x{1, 2, 3, 4};
auto h = x + x;        // wrong
auto h = eval(x + x);  // right
h = h * x;

// case expression_chosen_eager: The branches of ?: are expressions of tensors of different types.
// error: branches_are_two_expressions<
// error: or eval
int main(int argc, char**) {
  const tensor<float, dims<4>> x{1, 2, 3, 4};
  auto y = argc > 1 ? relu(x) : tanh(x);                          // wrong
  auto y = argc > 1 ? eval(relu(x)) : eval(tanh(x));              // right
  const float number = argc > 1 ? sum(x) * 2.0f : sum(x) + 1.0f;  // scalars are numbers  // right
}

// case fraction_and_integers: Integers times a fraction.
// error: fraction_meets_integers
tensor<int, dims<3>> a;
auto c = a * 0.5;  // wrong
auto c = a * 5;    // right

// case half_sum: Arithmetic of a storage type, with two operators.
// error: operation_undefined_for
// error: half
// error: operator\*: the operands must have extents that broadcast and one element type;
tensor<half, dims<3>> x;
auto y = x * 2 + 1;                           // wrong
auto y = cast<half>(cast<float>(x) * 2 + 1);  // right

// case mask_and: Conditions are combined by &.
// error: operator_not_defined
// error: dims<2, 3>
// error: operator&: join conditions by &&: x > 0 && x < 1
tensor<float, dims<2, 3>> x;
auto y = (x > 0) & (x < 1);   // wrong
auto y = (x > 0) && (x < 1);  // right

// case mask_times: A condition is a factor.
// error: element_types_differ
// error: <bool, float>
// error: operator\*: the operands must have extents that broadcast and one element type;
tensor<float, dims<2, 3>> x;
auto y = (x > 0) * x;          // wrong
auto y = select(x > 0, x, 0);  // right

// case plus_assign_const: The target is a read-only view.
// error: elements_are_read_only
// error: operator\*=: the result must have the extents and type of the left operand
float values[3]{};
const tensor_view<const float, dims<3>> x(values);  // wrong
const tensor_view<float, dims<3>> x(values);        // right
x *= 2;

// case plus_assign_node: A sum of nodes is accumulated by += in a loop.
// error: operator_not_defined
// error: dims<3>
// error: operator\+=: write y = y \+ x; assign_add writes a variable, in a step
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
node<float, dims<3>> y = x * 2;
y += x;     // wrong
y = y + x;  // right

// case plus_assign_of_node: A node is added to a tensor.
// error: value_needs_a_session
// error: operator\+=: the result must have the extents and type of the left operand
graph g;
auto w = variable<float, dims<3>>(g, "w");
session s(g);
tensor<float, dims<3>> x;
x += w;          // wrong
x += s.eval(w);  // right

// case plus_assign_shapes: The extents do not broadcast.
// error: elementwise_shapes_differ
// error: dims<2, 3>
// error: operator-=: the result must have the extents and type of the left operand
tensor<float, dims<2, 3>> x;
tensor<float, dims<2>> y;
x -= y;                  // wrong
x -= expand_dims<1>(y);  // right

// case plus_assign_tensor: The sum has other extents than the target.
// error: assigned_extents_differ
// error: dims<2, 3>
// error: operator\+=: the result must have the extents and type of the left operand
tensor<float, dims<2, 3>> x;
tensor<float, dims<3>> y;
y += x;  // wrong
x += y;  // right

// case plus_assign_types: A fraction is added to integers.
// error: fraction_meets_integers
// error: operator\+=: the result must have the extents and type of the left operand
tensor<int, dims<3>> x;
x += 0.5;  // wrong
x += 1;    // right

// case power: A power by ^.
// error: operator_not_defined
// error: dims<2, 3>
// error: operator\^: for powers write pow\(x, y\), square\(x\) or x \* x
tensor<float, dims<2, 3>> x;
auto y = x ^ 2;      // wrong
auto y = pow(x, 2);  // right

// case remainder: A remainder by %.
// error: operator_not_defined
// error: dims<3>
// error: operator%: for remainders include <weft/ops/elementwise/rounding.hpp>
tensor<int, dims<3>> x;
auto y = x % 2;          // wrong
auto y = x - x / 2 * 2;  // right
