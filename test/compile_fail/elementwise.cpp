// SPDX-License-Identifier: BSL-1.0
#include <cmath>

#include <weft/weft.hpp>
using namespace weft;

// case c_cast: A conversion by a C-style cast.
// error: value_is_not_one_number
// error: dims<3>
// error: not one number: use x\(i, \.\.\.\), sum\(x\) or mean\(x\); cast<T>\(x\)
tensor<int, dims<3>> x;
auto y = (float)x;        // wrong
auto y = cast<float>(x);  // right

// case cast_dtype: cast to a dtype.
// error: arguments_are_not_taken
// error: cast: the element type is a template argument: cast<std::int32_t>\(x\)
tensor<float, dims<4, 3>> t;
auto y = cast(t, dtype::int32);  // wrong
auto y = cast<std::int32_t>(t);  // right

// case cast_of_number: cast of a number.
// error: converted_value_is_a_number
// error: <int>
// error: cast: converts a tensor or a node; use static_cast<T>\(x\)
tensor<float, dims<3>> x;
auto y = cast<double>(7);      // wrong
auto y = cast<double>(x) * 7;  // right

// case cast_text: cast to a type named by a string.
// error: arguments_are_not_taken
// error: cast: the element type is a template argument: cast<double>\(x\)
tensor<float, dims<4, 3>> t;
auto y = cast<"double">(t);  // wrong
auto y = cast<double>(t);    // right

// case cast_to_dims: cast to extents.
// error: type_is_not_an_element_type
// error: dims<6>
// error: cast: the element type is a template argument: cast<float>\(x\)
tensor<float, dims<2, 3>> x;
auto y = cast<dims<6>>(x);     // wrong
auto y = reshape<dims<6>>(x);  // right

// case cast_without_type: cast without its type.
// error: type_is_not_an_element_type
// error: cast: the element type is a template argument: cast<float>\(x\)
tensor<float, dims<2, 3>> x;
auto y = cast(x);          // wrong
auto y = cast<double>(x);  // right

// case condition: The condition is not bool.
// error: element_types_differ
// error: select: the condition
tensor<float, dims<3>> a;
auto b = select(a, a, 0);      // wrong
auto b = select(a > 1, a, 0);  // right

// case elementwise_lambda: The function is a lambda as a template argument.
// error: operation_is_not_a_type
// error: elementwise: the operation must be a type with apply and gradient: elementwise<softplus>\(x\)
tensor<float, dims<4, 3>> t;
auto y = elementwise<[](auto v) { return v * v + 1; }>(t);  // wrong
auto y = square(t) + 1.0f;                                  // right

// case exp_of_type: The element type of the result is a template argument.
// error: arguments_are_not_taken
// error: it takes tensors or nodes of float or double, no axes, types or options:
tensor<float, dims<4, 3>> t;
auto y = exp<double>(t);        // wrong
auto y = exp(cast<double>(t));  // right

// case formula_branch: The formula branches.
// error: formula_branches
// error: a formula cannot use `if` or `\?:`: use math::select\(condition, a, b\)
// max-lines: 9
struct branching_relu {
  static constexpr const char* name = "branching_relu";
  template <class V>
  static V apply(V x) {
    if (x > V(0)) return x;                  // wrong
    return V(0);                             // wrong
    return math::select(x > V(0), x, V(0));  // right
  }
  template <class V>
  static V gradient(V g, V x, V) {
    return math::select(x > V(0), g, V(0));
  }
};

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  auto y = sum(elementwise<branching_relu>(x));
}

// case formula_gradient: The gradient lacks the parameter for the result.
// error: operation_without_gradient
// error: write gradient\(g, x, y\), or declare
struct doubled {
  static constexpr const char* name = "doubled";
  template <class V>
  static V apply(V x) {
    return x + x;
  }
  template <class V>           // wrong
  static V gradient(V g, V) {  // wrong
    return g + g;              // wrong
  }  // wrong
  template <class V>              // right
  static V gradient(V g, V, V) {  // right
    return g + g;                 // right
  }  // right
};

int main() {
  graph g;
  auto x = placeholder<float, dims<3>>(g, "x");
  auto y = sum(elementwise<doubled>(x));
}

// case fraction_selected: A fraction among integers.
// error: fraction_meets_integers
// error: select: integers
tensor<int, dims<3>> a;
auto b = select(a > 1, a, 0.9);  // wrong
auto b = select(a > 1, a, 9);    // right

// case gelu_approximate: The approximation is an argument, as in Python.
// error: takes one value: gelu\(x\); gelu_tanh\(x\) is the approximation
tensor<float, dims<3, 4>> x;
auto z = gelu(x, true);  // wrong
auto z = gelu_tanh(x);   // right

// case half_arithmetic: A function of a storage type.
// error: operation_undefined_for
// error: half
// error: needs numbers, not bool, half or bfloat16: cast<float>\(x\)
// max-lines: 9
tensor<half, dims<3>> a;
auto b = relu(a);               // wrong
auto b = relu(cast<float>(a));  // right

// case integer_root: A function of real numbers of integers.
// error: operation_undefined_for
// error: formula::exp
// error: int
// error: needs float or double: cast<float>\(x\)
// max-lines: 9
tensor<int, dims<3>> a;    // wrong
tensor<float, dims<3>> a;  // right
auto c = exp(a);

// case kernel: The operation has no kernel for the device.
// error: no_kernel_for_device
// error: only_elsewhere
// error: cpu
struct only_elsewhere {
  static constexpr const char* name = "only_elsewhere";
  using devices = kinds<>;     // wrong
  using devices = kinds<cpu>;  // right
  template <class V>
  static V apply(V x) {
    return x * x;
  }
  template <class V>
  static V gradient(V g, V x, V) {
    return g * (x + x);
  }
};

int main() {
  tensor<float, dims<3>> x;
  auto y = elementwise<only_elsewhere>(x);
}

// case lambda_as_operation: The operation is a lambda.
// error: operation_is_not_a_type
// error: elementwise: the operation must be a type with apply and gradient:
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
auto y = elementwise([](float v) { return v * v; }, x);  // wrong
auto y = square(x);                                      // right

// case leaky_relu_alpha: The slope is a template argument.
// error: alpha is an argument: leaky_relu\(x, 0.1f\)
tensor<float, dims<3, 4>> x;
auto z = leaky_relu<2>(x);  // wrong
auto z = leaky_relu(x, 2);  // right

// case pow_text: pow with one argument.
// error: arguments_are_not_taken
// error: it takes tensors or nodes of float or double, no axes, types or options: exp\(x\), pow\(x,
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = pow(x);        // wrong
auto y = pow(x, 2.0f);  // right

// case relu_of_number: relu() of two arguments.
// error: arguments_are_not_taken
// error: it takes tensors or nodes of float or double, no axes, types or options: exp\(x\), pow\(x,
tensor<float, dims<4, 3>> t;
auto y = relu(t, 0.1f);  // wrong
auto y = relu(t);        // right

// case select_numbers: Both values are numbers.
// error: selected_values_are_numbers
// error: <int, int>
// error: select: one of the two values must be a tensor or a node
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
auto y = select(x > 0, 1, 0);  // wrong
auto y = cast<float>(x > 0);   // right

// case select_one_value: A condition alone, as in NumPy's where().
// error: arguments_are_not_taken
// error: select: takes a condition and two values: select\(x > 0, x, 0\.0f\)
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = select(x > 0, x);        // wrong
auto y = select(x > 0, x, 0.0f);  // right

// case silu_integers: The elements are integers.
// error: operation_undefined_for
// max-lines: 9
// error: needs float or double: cast<float>\(x\)
tensor<std::int32_t, dims<3, 4>> x;
auto z = silu(x);               // wrong
auto z = silu(cast<float>(x));  // right

// case std_exp: std::exp() of a node.
// error: value_needs_a_session
// error: dims<3>
// error: a node has no value yet: session\.eval\(x\) computes it; cast<T>\(x\)
graph g;
auto x = placeholder<float, dims<3>>(g, "x");
auto y = std::exp(x);  // wrong
auto y = exp(x);       // right

// case std_pow: std::pow() of a node.
// error: value_is_not_one_number
// error: dims<2, 3>
// error: not one number: use x\(i, \.\.\.\), sum\(x\) or mean\(x\); cast<T>\(x\)
tensor<float, dims<2, 3>> x;
auto y = std::pow(x, 2);  // wrong
auto y = pow(x, 2);       // right

// case tanh_axis: The axis is a template argument.
// error: arguments_are_not_taken
// error: it takes tensors or nodes of float or double, no axes, types or options: exp\(x\), pow\(x,
tensor<float, dims<4, 3>> t;
auto y = tanh<1>(t);  // wrong
auto y = tanh(t);     // right
