// SPDX-License-Identifier: BSL-1.0
#include <weft/ops/products/tensordot.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case einsum_argument: The subscripts are an argument, as in Python.
// error: subscripts are a template argument: einsum<"ij,jk->ik">\(a, b\)
tensor<float, dims<2, 3>> a;
tensor<float, dims<3, 4>> b;
auto y = einsum("ij,jk->ik", a, b);  // wrong
auto y = einsum<"ij,jk->ik">(a, b);  // right

// case einsum_character: A digit among the letters.
// error: einsum_character_not_taken<.*'1'
tensor<float, dims<2, 3>> a;
auto y = einsum<"i1->1i">(a);  // wrong
auto y = einsum<"ij->ji">(a);  // right

// case einsum_extents: The extents of a letter differ.
// error: einsum_letter_extents_differ<.*'k'.*dims<2, 8, 100, 64> ?, weft::dims<2, 8, 101, 32>
// error: einsum: needs a letter for each axis, with one extent in all operands
tensor<float, dims<2, 8, 100, 64>> a;
tensor<float, dims<2, 8, 101, 32>> b;  // wrong
tensor<float, dims<2, 8, 100, 32>> b;  // right
auto y = einsum<"bhkq,bhkd->bhqd">(a, b);

// case einsum_letters: An axis without a letter.
// error: einsum_letters_and_axes_differ<2, weft::dims<2, 3, 4>
tensor<float, dims<2, 3, 4>> a;
auto y = einsum<"ij->ji">(a);        // wrong
auto y = einsum<"...ij->...ji">(a);  // right

// case einsum_operands: More subscripts than operands.
// error: einsum_subscripts_and_operands_differ<3, 2>
tensor<float, dims<2, 2>> a;
auto y = einsum<"ij,jk,kl->il">(a, a);     // wrong
auto y = einsum<"ij,jk,kl->il">(a, a, a);  // right

// case einsum_result_letter: A letter of the result is in no operand.
// error: einsum_letter_of_result_not_in_operands<.*'l'
tensor<float, dims<2, 2>> a;
auto y = einsum<"ij,jk->il">(a, a);  // wrong
auto y = einsum<"ij,jk->ik">(a, a);  // right

// case einsum_result_twice: A letter occurs twice in the result.
// error: einsum_letter_occurs_twice_in_result<.*'i'
tensor<float, dims<2>> a;
auto y = einsum<"i->ii">(a);       // wrong
auto y = einsum<"i,j->ij">(a, a);  // right

// case einsum_types: The element types differ.
// error: element_types_differ<float, double>
tensor<float, dims<2>> a;
tensor<double, dims<2>> b;
auto y = einsum<"i,i">(a, b);                // wrong
auto y = einsum<"i,i">(cast<double>(a), b);  // right

// case tensordot_axes: The numbers of axes differ.
// error: numbers_of_axes_differ
// error: tensordot: needs as many axes of b as of a
tensor<float, dims<2, 3>> a;
auto y = tensordot<axis_numbers<0, 1>, axis_numbers<0>>(a, a);     // wrong
auto y = tensordot<axis_numbers<0, 1>, axis_numbers<0, 1>>(a, a);  // right

// case tensordot_extents: The summed extents differ.
// error: einsum_letter_extents_differ
// error: tensordot: the last extents of a must be the first ones of b
tensor<float, dims<2, 3>> a;
tensor<float, dims<4, 3>> b;
auto y = tensordot<1>(a, b);             // wrong
auto y = tensordot<1>(a, transpose(b));  // right

// case vecdot_extents: The vectors have different lengths.
// error: einsum_letter_extents_differ<.*'i'
// error: vecdot: needs vectors \[\.\.\., n\] of one type
tensor<float, dims<2, 3>> a;
tensor<float, dims<4>> b;  // wrong
tensor<float, dims<3>> b;  // right
auto y = vecdot(a, b);
