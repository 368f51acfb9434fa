// SPDX-License-Identifier: BSL-1.0
#include <weft/nn.hpp>
#include <weft/nn/beam_search.hpp>
#include <weft/nn/generation.hpp>
#include <weft/nn/kv_cache.hpp>
#include <weft/weft.hpp>
using namespace weft;

// case assign_slice_begins: One index for each row, of another axis.
// error: slices_do_not_begin_at_indices
// error: assign_slice: .* needs an integer begin or one for each element of axis 0
graph g;
auto cache = variable<float, dims<8, 512, 64>>(g, "cache");
auto keys = placeholder<float, dims<8, 1, 64>>(g, "keys");
auto at = placeholder<std::int32_t, dims<8>>(g, "at");
auto put = assign_slice<1>(cache, placeholder<std::int32_t, dims<4>>(g, "at"), keys);  // wrong
auto put = assign_slice<1>(cache, at, keys);                                           // right

// case cache_width: Keys of another width.
// error: steps_do_not_fit_the_cache
// error: kv_cache::append: needs keys and values \[batch, heads, steps, width\] of the cache's heads, width
graph g;
auto at = placeholder<std::int32_t, dims<8>>(g, "at");
auto k = placeholder<float, dims<8, 2, 1, 32>>(g, "k");
auto kept = nn::kv_cache<2, 64, 512>().append(k, k, at);  // wrong
auto kept = nn::kv_cache<2, 32, 512>().append(k, k, at);  // right

// case cache_positions: Positions of another type.
// error: positions_do_not_fit
// error: kv_cache::append: needs .* and positions \[batch\] of std::int32_t
graph g;
auto at = placeholder<std::int64_t, dims<8>>(g, "at");
auto k = placeholder<float, dims<8, 2, 1, 32>>(g, "k");
auto kept = nn::kv_cache<2, 32, 512>().append(k, k, at);                      // wrong
auto kept = nn::kv_cache<2, 32, 512>().append(k, k, cast<std::int32_t>(at));  // right

// case cache_capacity: A prompt that is longer than the cache.
// error: more_steps_than_the_capacity
// error: kv_cache::append: needs keys and values
graph g;
auto at = placeholder<std::int32_t, dims<8>>(g, "at");
auto k = placeholder<float, dims<8, 2, 100, 32>>(g, "k");
auto kept = nn::kv_cache<2, 32, 64>().append(k, k, at);   // wrong
auto kept = nn::kv_cache<2, 32, 128>().append(k, k, at);  // right

// case generator_model: A model that does not take positions.
// error: model_does_not_take_tokens_and_positions
// error: generator<batch>: needs a model: a function of tokens \[batch, steps\] and positions \[batch\]
graph g;
nn::embedding<16, 16> words;
session s{g};
nn::generator<1> write(s, [&](const auto& tokens) { return words(tokens); });               // wrong
nn::generator<1> write(s, [&](const auto& tokens, const auto&) { return words(tokens); });  // right

// case generator_logits: A model that returns the logits of one step.
// error: model_does_not_return_logits
// error: beam_search<batch, width>: needs a model: .* that returns logits \[batch, steps, vocabulary\]
graph g;
nn::embedding<16, 16> words;
session s{g};
nn::beam_search<1, 2> find(s, [&](const auto& tokens, const auto&) { return sum<1>(words(tokens)); });  // wrong
nn::beam_search<1, 2> find(s, [&](const auto& tokens, const auto&) { return words(tokens); });          // right
