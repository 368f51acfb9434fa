// SPDX-License-Identifier: BSL-1.0
#include <weft/ops/arrays/diagonal.hpp>
#include <weft/ops/linear_algebra/cholesky.hpp>
#include <weft/ops/linear_algebra/eigen.hpp>
#include <weft/ops/linear_algebra/matrix_functions.hpp>
#include <weft/ops/linear_algebra/qr.hpp>
#include <weft/ops/linear_algebra/svd.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case cholesky_not_square: The matrix is not square.
// error: matrices_are_not_square
// error: cholesky: needs square matrices \[\.\.\., n, n\] of float or double: cast<float>\(x\)
tensor<float, dims<4, 3>> x;
auto l = cholesky(x);                              // wrong
auto l = cholesky(matmul<transpose_of::b>(x, x));  // right

// case determinant_integers: The determinant of integers.
// error: not_floating
// error: determinant: needs square matrices \[..., n, n\] of float or double: cast<float>\(x\)
tensor<int, dims<2, 2>> x;
auto y = determinant(x);                // wrong
auto y = determinant(cast<double>(x));  // right

// case diag_part_not_square: The length of the diagonal is unknown.
// error: diagonal_does_not_exist
// error: two extents that are numbers or equal
tensor<float, dims<4, dyn<"n">>> x;
auto y = diag_part(x);                              // wrong
auto y = diag_part(matmul<transpose_of::b>(x, x));  // right

// case eigh_integers: The eigenvalues of integers.
// error: not_floating
// error: eigh: needs square matrices \[\.\.\., n, n\] of float or double: cast<float>\(x\)
tensor<int, dims<2, 2>> x;
auto [values, vectors] = eigh(x);                // wrong
auto [values, vectors] = eigh(cast<double>(x));  // right

// case eye_vector: The identity has one extent.
// error: identity_is_not_a_matrix
// error: eye<T, dims<rows, columns>>\(\): needs two extents
auto x = eye<float, dims<3>>();     // wrong
auto x = eye<float, dims<3, 3>>();  // right

// case inverse_not_square: The matrix is not square.
// error: matrices_are_not_square
// error: dims<5, 3, 4>
tensor<float, dims<5, 3, 4>> x;  // wrong
tensor<float, dims<5, 4, 4>> x;  // right
auto y = inverse(x);

// case inverse_vector: The operand is a vector.
// error: matrices_are_not_square
// error: inverse: needs square matrices \[\.\.\., n, n\] of float or double: cast<float>\(x\)
tensor<float, dims<3>> u{1, 2, 3};
auto y = inverse(u);                            // wrong
auto y = inverse(tensor<float, dims<3, 3>>());  // right

// case lstsq_rows: The right sides have other rows than the matrix.
// error: right_sides_differ
// error: lstsq: needs \[\.\.\., m, n\] and \[\.\.\., m, k\] of float or double: cast<float>\(x\)
tensor<float, dims<4, 3>> a;
tensor<float, dims<3, 1>> b;  // wrong
tensor<float, dims<4, 1>> b;  // right
auto x = lstsq(a, b);

// case matmul: The inner extents differ.
// error: matmul_shapes_differ
// error: 784
// error: 100
graph g;
auto images = placeholder<float, dims<dyn<"batch">, 784>>(g, "images");
auto weights = variable<float, dims<100, 10>>(g, "weights", init::zeros{});  // wrong
auto weights = variable<float, dims<784, 10>>(g, "weights", init::zeros{});  // right
auto logits = matmul(images, weights);

// case matmul_batch: The batches have different numbers of matrices.
// error: matmul_shapes_differ
// error: dims<8, 3, 4>
// error: dims<6, 4, 5>
tensor<float, dims<8, 3, 4>> a;
tensor<float, dims<6, 4, 5>> b;  // wrong
tensor<float, dims<8, 4, 5>> b;  // right
auto c = matmul(a, b);

// case matmul_batch_of_one: The left factor is one matrix, the right one a batch.
// error: matmul_shapes_differ
// error: dims<3, 4>
// error: dims<8, 4, 5>
tensor<float, dims<3, 4>> one;
tensor<float, dims<8, 4, 5>> many;
auto c = matmul(one, many);                                       // wrong
auto c = matmul<transpose_of::b>(transpose<0, 2, 1>(many), one);  // right

// case matmul_bias: The bias is a third argument.
// error: matmul: takes two matrices; either can be transposed: matmul<transpose_of::b>\(a,
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto w = variable<float, dims<3, 2>>(g, "w");
auto b = variable<float, dims<2>>(g, "b");
auto y = matmul(x, w, b);   // wrong
auto y = matmul(x, w) + b;  // right

// case matmul_bool_transposed: transpose_b is a template argument.
// error: takes two matrices; either can be transposed: matmul<transpose_of::b>\(a, b\) \+ c
graph g;
auto x = placeholder<float, dims<4, 3>>(g, "x");
auto y = matmul<true>(x, x);             // wrong
auto y = matmul<transpose_of::b>(x, x);  // right

// case matmul_both: Both operands are transposed.
// error: takes two matrices; either can be transposed: matmul<transpose_of::b>\(a, b\) \+ c
tensor<float, dims<3, 2>> a;
tensor<float, dims<4, 3>> b;
auto y = matmul<transpose_of::a, transpose_of::b>(a, b);  // wrong
auto y = matmul(transpose(a), transpose(b));              // right

// case matmul_integers: The elements are integers.
// error: matmul_undefined_for
// error: int
using element = std::int32_t;  // wrong
using element = bfloat16;      // right
tensor<element, dims<3, 4>> a;
tensor<element, dims<4, 5>> b;
auto product = matmul(a, b);

// case matmul_list: The matrix is in braces.
// error: takes two matrices; either can be transposed: matmul<transpose_of::b>\(a, b\) \+ c
tensor<float, dims<4, 3>> t;
auto y = matmul(t, {1, 2, 3});                           // wrong
auto y = matmul(t, tensor<float, dims<3, 1>>{1, 2, 3});  // right

// case matmul_number: One operand is a number.
// error: factor_is_a_number
// error: dims<2, 3>
// error: matmul: multiplies two matrices; use x \* 3 for an elementwise product
tensor<float, dims<2, 3>> x;
auto y = matmul(x, 3);  // wrong
auto y = x * 3;         // right

// case matmul_option: The transposition is an argument.
// error: option_is_not_a_template_argument
// error: dims<3, 4>
// error: matmul: takes two matrices; either can be transposed:
tensor<float, dims<3, 4>> a;
tensor<float, dims<3, 4>> b;
auto y = matmul(a, b, true);             // wrong
auto y = matmul<transpose_of::b>(a, b);  // right

// case matmul_transposed: The inner extents differ, with a transposed operand.
// error: matmul_shapes_differ
// error: dims<784, 10>
// error: dims<100, 784>
tensor<float, dims<100, 784>> a;
tensor<float, dims<784, 10>> b;
auto c = matmul<transpose_of::b>(a, b);     // wrong
auto c = matmul<transpose_of::none>(a, b);  // right

// case matmul_true: The transposition is given by bools.
// error: takes two matrices; either can be transposed: matmul<transpose_of::b>\(a, b\) \+ c
tensor<float, dims<2, 3>> a;
tensor<float, dims<4, 3>> b;
auto y = matmul<false, true>(a, b);      // wrong
auto y = matmul<transpose_of::b>(a, b);  // right

// case matmul_vector: One operand is a vector.
// error: factor_is_not_a_matrix
// error: dims<4>
// error: matmul: the operands must be matrices \[m, k\] and \[k, n\] of one floating-point type;
tensor<float, dims<3, 4>> a;
tensor<float, dims<4>> b;
auto y = matmul(a, b);                       // wrong
auto y = matmul(a, reshape<dims<4, 1>>(b));  // right

// case matrix_power_argument: The exponent is an argument.
// error: the exponent is a template argument: matrix_power<3>\(a\)
tensor<float, dims<2, 2>> a;
auto y = matrix_power(a, 3);  // wrong
auto y = matrix_power<3>(a);  // right

// case qr_argument: The mode is an argument.
// error: the mode is a template argument: qr<qr_mode::complete>\(a\)
tensor<float, dims<3, 2>> a;
auto [q, r] = qr(a, true);               // wrong
auto [q, r] = qr<qr_mode::complete>(a);  // right

// case qr_vector: The operand is a vector.
// error: operand_is_not_a_matrix
// error: qr: needs matrices \[\.\.\., m, n\] of float or double: cast<float>\(x\)
tensor<float, dims<4>> x;
auto [q, r] = qr(x);                       // wrong
auto [q, r] = qr(reshape<dims<4, 1>>(x));  // right

// case solve_double: The operands have two element types.
// error: element_types_differ
// error: solve: needs \[\.\.\., n, n\] and \[\.\.\., n, m\] of float or double: cast<float>\(x\)
tensor<float, dims<3>> u{1, 2, 3};
auto y = solve(tensor<float, dims<3, 3>>(), tensor<double, dims<3, 1>>());  // wrong
auto y = solve(tensor<float, dims<3, 3>>(), tensor<float, dims<3, 1>>());   // right

// case solve_rows: The right side has other rows than the matrix, because it is a vector.
// error: right_sides_differ
// error: dims<4, 4>
// error: dims<4>
tensor<float, dims<4, 4>> a;
tensor<float, dims<4>> b;
auto x = solve(a, b);                       // wrong
auto x = solve(a, reshape<dims<4, 1>>(b));  // right

// case solve_vector: The right side is a vector.
// error: right_sides_differ
// error: solve: needs \[\.\.\., n, n\] and \[\.\.\., n, m\] of float or double: cast<float>\(x\)
tensor<float, dims<3>> u{1, 2, 3};
auto y = solve(tensor<float, dims<3, 3>>(), u);                            // wrong
auto y = solve(tensor<float, dims<3, 3>>(), tensor<float, dims<3, 1>>());  // right

// case star_for_matmul: A matrix product by *.
// error: elementwise_shapes_differ
// error: dims<3, 4>
// error: dims<4, 5>
// error: operator\*: the operands must have extents that broadcast and one element type;
tensor<float, dims<3, 4>> a;
tensor<float, dims<4, 5>> b;
auto y = a * b;         // wrong
auto y = matmul(a, b);  // right

// case svd_argument: The form of other libraries.
// error: svd\(a\) is the reduced form \(full_matrices=False\); svdvals\(a\) are the values alone
tensor<float, dims<3, 2>> a;
auto [u, s, vt] = svd(a, false);  // wrong
auto [u, s, vt] = svd(a);         // right

// case triangular_solve_option: The option is a bool.
// error: options are in braces: triangular_solve\(a, b, \{\.lower = false\}\)
tensor<float, dims<3, 3>> a;
tensor<float, dims<3, 1>> b;
auto x = triangular_solve(a, b, false);             // wrong
auto x = triangular_solve(a, b, {.lower = false});  // right
