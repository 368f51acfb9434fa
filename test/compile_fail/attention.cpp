// SPDX-License-Identifier: BSL-1.0
#include <weft/ops/products/rotary.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case attention_steps_first: The steps come before the heads.
// error: attention_extents_differ
// error: attention: needs queries \[batch, heads, queries, width\]
tensor<float, dims<2, 10, 4, 8>> q;
tensor<float, dims<2, 12, 4, 8>> k;
auto y = attention(q, k, k);                                                                       // wrong
auto y = attention(transpose<0, 2, 1, 3>(q), transpose<0, 2, 1, 3>(k), transpose<0, 2, 1, 3>(k));  // right

// case attention_attention_heads: The heads of keys do not divide those of queries.
// error: attention_extents_differ
// error: attention: needs queries \[batch, heads, queries, width\]
tensor<float, dims<2, 6, 10, 8>> q;
tensor<float, dims<2, 4, 10, 8>> k;
tensor<float, dims<2, 3, 10, 8>> v;
auto y = attention(q, k, k);  // wrong
auto y = attention(q, v, v);  // right

// case attention_mask_extents: The mask does not broadcast to the scores.
// error: attention_argument_does_not_fit
tensor<float, dims<2, 4, 10, 8>> q;
tensor<bool, dims<2, 10, 10>> m;
auto y = attention(q, q, q, {}, attention_mask(m));                               // wrong
auto y = attention(q, q, q, {}, attention_mask(reshape<dims<2, 1, 10, 10>>(m)));  // right

// case rotary_width: Features turn in pairs.
// error: width_is_not_even
// error: rotary: needs \[batch, heads, steps, width\]
tensor<float, dims<2, 4, 10, 7>> q;
tensor<float, dims<2, 4, 10, 8>> r;
auto y = rotary(q);  // wrong
auto y = rotary(r);  // right
