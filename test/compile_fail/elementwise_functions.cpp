// SPDX-License-Identifier: BSL-1.0
#include <weft/ops/elementwise/activations.hpp>
#include <weft/ops/elementwise/bits.hpp>
#include <weft/ops/elementwise/clamp.hpp>
#include <weft/ops/elementwise/predicates.hpp>
#include <weft/ops/elementwise/rounding.hpp>
#include <weft/ops/elementwise/special.hpp>
#include <weft/ops/elementwise/trigonometry.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case and_of_comparisons: Comparisons joined by a bit operator bind the numbers first.
// error: operator_not_defined
// error: operator&: join conditions by &&: x > 0 && x < 1
tensor<float, dims<3>> x;
auto y = x & x;           // wrong
auto y = x > 0 && x < 1;  // right
auto z = (x > 0) & (x < 1);

// case atan2_types: The operands have two element types.
// error: element_types_differ
// error: the operands must have extents that broadcast and one element type; convert with cast<T>\(x\)
// max-lines: 9
tensor<float, dims<3>> a;
tensor<double, dims<3>> b;
auto y = atan2(a, b);               // wrong
auto y = atan2(a, cast<float>(b));  // right

// case floor_mod_fraction: A fraction among integers.
// error: fraction_meets_integers
// max-lines: 9
tensor<int, dims<3>> a;
auto b = floor_mod(a, 1.5);  // wrong
auto b = floor_mod(a, 2);    // right

// case is_nan_integers: Integers are never NaN.
// error: operation_undefined_for
// error: needs float or double: cast<float>\(x\)
// max-lines: 9
tensor<int, dims<3>> a;    // wrong
tensor<float, dims<3>> a;  // right
auto b = is_nan(a);

// case popcount_floats: The elements are not integers.
// error: operation_undefined_for
// error: popcount: needs integers
// max-lines: 9
tensor<float, dims<3>> a;         // wrong
tensor<std::uint8_t, dims<3>> a;  // right
auto b = popcount(a);

// case shift_floats: The elements are not integers.
// error: operation_undefined_for
// error: operators on bits need integers of one type
// max-lines: 9
tensor<float, dims<3>> a;  // wrong
tensor<int, dims<3>> a;    // right
auto b = a << 1;

// case tan_integers: A function of real numbers of integers.
// error: operation_undefined_for
// error: needs float or double: cast<float>\(x\)
// max-lines: 9
tensor<int, dims<3>> a;    // wrong
tensor<float, dims<3>> a;  // right
auto b = tan(a);
