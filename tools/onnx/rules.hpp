// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "importer.hpp"

/// The rules of the rows: how types and extents of results follow from those of the operands, and what is put into the
/// row's text besides operands and attributes.
namespace tool::importer {

void same_extents(call& c);
void broadcast_extents(call& c);
void joined_operands(call& c);
void casted(call& c);
void casted_like(call& c);
void reduced(call& c);
void reduced_index(call& c);
void multiplied(call& c);
void gemm_of(call& c);
void convolved(call& c);
void convolved_back(call& c);
void pooled(call& c);
void unpooled(call& c);
void pooled_globally(call& c);
void batch_normalized(call& c);
void layer_normalized(call& c);
void along_axis(call& c);
void softmax_of(call& c);
void concatenated(call& c);
void reshaped(call& c);
void flattened(call& c);
void squeezed(call& c);
void unsqueezed(call& c);
void transposed(call& c);
void expanded(call& c);
void gathered(call& c);
void sliced(call& c);
void split_of(call& c);
void shape_of(call& c);
void constant_of(call& c);
void constant_of_shape(call& c);
void ranged(call& c);
void passed(call& c);
void dropped_out(call& c);
void clipped(call& c);

/// The result has the extents of operand 0.
inline constexpr rule same{same_extents, layout::kept, true};
/// Operands broadcast as in NumPy. They can be C++ numbers.
inline constexpr rule broadcast{broadcast_extents, layout::kept, true};
/// The row's text joins operands 0 and 1; any number of operands are joined in this way.
inline constexpr rule variadic{joined_operands, layout::kept, true};
/// The attribute `to` is the element type: {to}.
inline constexpr rule cast_rule{casted, layout::kept};
/// A reduction: {axes} and {keep}. The axes are an attribute or operand 1. Text: `sum<{axes}{keep}>({0})`.
inline constexpr rule reduce{reduced, layout::own, true};
/// ArgMax and ArgMin: {axis} and {keep}.
inline constexpr rule arg_reduce{reduced_index, layout::plain, true};
/// The extents of operand 0, and {axis}: the attribute axis, whose default is the row's `{axis=...}`.
inline constexpr rule along{along_axis, layout::own};
inline constexpr rule softmax_rule{softmax_of, layout::own, true};
inline constexpr rule matmul_rule{multiplied};
inline constexpr rule gemm_rule{gemm_of};
inline constexpr rule convolution{convolved, layout::channels};
inline constexpr rule transposed_convolution{convolved_back, layout::channels};
inline constexpr rule pool{pooled, layout::channels};
inline constexpr rule unpool{unpooled, layout::channels};
inline constexpr rule global_pool{pooled_globally, layout::channels};
inline constexpr rule batch_norm{batch_normalized, layout::channels};
inline constexpr rule layer_norm{layer_normalized};
inline constexpr rule concat_rule{concatenated, layout::own};
inline constexpr rule reshape_rule{reshaped, layout::own};
inline constexpr rule flatten_rule{flattened, layout::own};
inline constexpr rule squeeze_rule{squeezed, layout::own};
inline constexpr rule unsqueeze_rule{unsqueezed};
inline constexpr rule transpose_rule{transposed, layout::own};
inline constexpr rule expand_rule{expanded};
inline constexpr rule gather_rule{gathered};
inline constexpr rule slice_rule{sliced, layout::own};
inline constexpr rule split_rule{split_of, layout::own};
inline constexpr rule shape_rule{shape_of, layout::own};
inline constexpr rule constant_rule{constant_of, layout::own};
inline constexpr rule constant_of_shape_rule{constant_of_shape, layout::own};
inline constexpr rule range_rule{ranged, layout::own};
/// The result is operand 0.
inline constexpr rule pass_rule{passed, layout::kept};
inline constexpr rule dropout_rule{dropped_out, layout::kept};
inline constexpr rule clip_rule{clipped, layout::kept, true};

/// Returns the broadcast extents of two operands, or refuses the node.
integers broadcast_of(const call& c, const integers& a, const integers& b);
/// Returns the extents of the product of matrices with leading axes that broadcast, or refuses the node.
integers product_extents(const call& c, const integers& a, const integers& b);
/// Returns the extents of a windowed result along one axis.
integer windows(const integer& extent, std::int64_t window, std::int64_t stride, std::int64_t dilation,
                std::int64_t padding);

}  // namespace tool::importer
