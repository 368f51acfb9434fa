// SPDX-License-Identifier: BSL-1.0
#include <vector>

#include <weft/weft.hpp>
using namespace weft;

// case const_element: A write to an element through a read-only view.
// error(g\+\+): assignment of read-only location
// error(clang\+\+): function 'operator\(\)<int, int>' which returns const-qualified type
tensor<float, dims<2, 3>> x;
const tensor_view<const float, dims<2, 3>> y(x);  // wrong
const tensor_view<float, dims<2, 3>> y(x);        // right
y(0, 0) = 1;

// case const_row: A write to a row of a const tensor.
// error: elements_are_read_only
// error: tensor_view: assign a value of its extents and elements, which must not be const
tensor<float, dims<2, 3>> x;
const tensor<float, dims<2, 3>> y;
y[0] = x[1];  // wrong
x[0] = y[1];  // right

// case row_extents: The row has other extents than the target.
// error: assigned_extents_differ
// error: dims<2>, (weft::)?dims<3>
// error: tensor_view: assign a value of its extents and elements
tensor<float, dims<2, 3>> x;
tensor<float, dims<3, 2>> y;
x[0] = y[0];  // wrong
x[0] = x[1];  // right

// case row_of_scalar: A subscript of a scalar.
// error: scalar_has_no_rows
// error: operator\[\]: a scalar has no rows; x\(\) is its element
tensor<float> x;
x[0];  // wrong
x();   // right

// case view_column_major: A view of a column-major matrix.
// error: matrix_is_column_major
// error: or a named tensor, vector, span or row-major matrix
template <bool RowMajor>
struct other_matrix {
  static constexpr bool IsRowMajor = RowMajor;
  float values[6]{};
  float* data() { return values; }
  int size() const { return 6; }
  int rows() const { return 2; }
  int cols() const { return 3; }
};

int main() {
  other_matrix<false> m;  // wrong
  other_matrix<true> m;   // right
  tensor_view<float, dims<2, 3>> x(m);
}

// case view_const_to_mutable: A read-only view is converted to a mutable one.
// error: elements_are_read_only
// error: tensor_view<const float, (weft::)?dims<3>
float values[3]{};
tensor_view<const float, dims<3>> x(values);
tensor_view<float, dims<3>> y(x);        // wrong
tensor_view<const float, dims<3>> y(x);  // right

// case view_of_temporary: A view of a temporary.
// error: view_of_a_temporary
// error: tensor_view: needs a pointer and shape\(\.\.\.\), or a named tensor, vector, span or row-major matrix
tensor<float, dims<3>> x;
tensor_view<const float, dims<3>> y(eval(x + 1));  // wrong
auto z = eval(x + 1);                              // right
tensor_view<const float, dims<3>> y(z);            // right

// case view_of_temporary_argument: A view of a temporary as an argument.
// error: view_of_a_temporary
// error: tensor_view: the tensor is destroyed before the view is used: give it a name
inline float first(tensor_view<const float, dims<3>> x) { return x(0); }

int main() {
  tensor<float, dims<3>> x;
  first(eval(x + 1));    // wrong
  auto z = eval(x + 1);  // right
  first(z);              // right
}

// case view_of_temporary_vector: A view of a temporary vector.
// error: view_of_a_temporary
// error: tensor_view: needs a pointer and shape\(\.\.\.\), or a named tensor, vector, span or row-major matrix
tensor_view<const float, dims<3>> x(std::vector<float>(3));  // wrong
std::vector<float> values(3);                                // right
tensor_view<const float, dims<3>> x(values);                 // right

// case view_of_vector: A mutable view of a const vector.
// error: elements_are_read_only
// error: std::vector<float
// error: tensor_view: needs a pointer and shape\(\.\.\.\), or a named tensor, vector, span or row-major matrix
const std::vector<float> values(3);
tensor_view<float, dims<3>> x(values);        // wrong
tensor_view<const float, dims<3>> x(values);  // right

// case view_without_type: A view without a type.
// error: extents_are_not_valid
// error: tensor_view<T, dims<\.\.\.>>: needs at most 8 integers, none negative
float values[3]{};
tensor_view x(values, shape(3));                  // wrong
tensor_view<float, dims<3>> x(values, shape(3));  // right
