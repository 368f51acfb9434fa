// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/nn/activation.hpp>
#include <weft/nn/dense.hpp>
#include <weft/nn/layer.hpp>
#include <weft/nn/sequence_arguments.hpp>
#include <weft/nn/visit.hpp>
#include <weft/ops/products/attention_op.hpp>
#include <weft/ops/random/dropout.hpp>

/// Attention: docs/how-to/sequences.md.
WEFT_COLD_BEGIN
namespace weft::nn {

/// Queries, keys and values must be sequences: [batch, steps, features].
template <class X>
struct operand_of_attention_is_not_a_sequence : mistake<(X::rank != 3)> {};

/// Queries, keys and values must have equal batches, and keys and values equal steps.
template <class Query, class Key, class Value>
struct keys_and_values_differ
    : mistake<(Query::spec[0] != Key::spec[0] || Key::spec[0] != Value::spec[0] || Key::spec[1] != Value::spec[1])> {};

/// The number of heads must divide the features of a query.
template <class Query, int Heads>
struct heads_do_not_divide_the_features : mistake<(Heads < 1 || Query::spec[2] % (Heads < 1 ? 1 : Heads) != 0)> {};

namespace detail {

/// Returns true if a mask broadcasts to [batch, heads, queries, keys]; a mask of rank 3, to [batch, queries, keys].
constexpr bool mask_fits(const shape& m, std::int64_t batch, int heads, std::int64_t queries, std::int64_t keys) {
  if (m.rank < 2 || m.rank > 4) return false;
  const auto fits = [](std::int64_t extent, std::int64_t whole) { return extent == 1 || extent == whole; };
  return fits(m[m.rank - 1], keys) && fits(m[m.rank - 2], queries) && (m.rank < 3 || fits(m[0], batch)) &&
         (m.rank < 4 || fits(m[1], heads));
}

}  // namespace detail

/// A mask must be a node of bool that broadcasts to [batch, heads, queries, keys].
template <class X, class Query, class Key, int Heads>
struct mask_does_not_fit
    : mistake<!(X::symbolic && std::is_same_v<value_t<X>, bool> &&
                detail::mask_fits(dims_t<X>::spec, Query::spec[0], Heads, Query::spec[1], Key::spec[1]))> {};

/// The rotation of queries and keys by their positions: none by default, or nn::rotary (nn/rotary.hpp).
template <Element T>
struct rotary_option {
  double base = 0;
  bool interleaved = false;
  /// Turns x [batch, heads, steps, width]. `first` has the position of each first step, [batch]; a plain number means
  /// 0.
  symbol (*turn)(const rotary_option&, const symbol& x, const symbol& first) = nullptr;

  constexpr rotary_option() = default;
  template <class Rotary>
    requires requires { &Rotary::template turn<T>; }
  constexpr rotary_option(const Rotary& r)
      : base(r.base), interleaved(r.interleaved), turn(&Rotary::template turn<T>) {}
};

namespace detail {

/// A call of multi_head_attention, in symbols. `lengths` is a plain number if the call has no lengths.
struct attention_call {
  symbol query, key, value, lengths;
  sequence<symbol> masks;
  std::int64_t heads = 1;
  bool causal = false, use_bias = true;
  double dropout = 0;
  const attention_with_caches* caches = nullptr;  ///< null, or where keys and values of earlier steps are
};

/// Returns the mask that a call's masks allow together, or a plain number if it has none.
inline symbol record_mask(const attention_call& s) {
  symbol all;
  for (const symbol& m : s.masks) all = weft::detail::record_and(all, m.extents().rank == 3 ? expand_dims(m, {1}) : m);
  return all;
}

/// x * weights + bias.
template <class T>
symbol project(const symbol& x, const symbol& weights, const symbol& bias) {
  return record_activation<void, T>(matmul<T>(x, weights), bias);
}

/// Converts [batch, steps, heads * width] to [batch, heads, steps, width].
inline symbol split_heads(const symbol& x, std::int64_t heads) {
  const shape& e = x.extents();
  return transpose(reshape(x, shape(e[0], e[1], heads, e[2] / heads)), {0, 2, 1, 3});
}

template <class T>
symbol record_attention(const attention_call& s, const rotary_option<T>& rotary, const layer_state& layer,
                        std::initializer_list<parameter_request> p) {
  gpu::compile_kernels<matmul_op, T>();
  gpu::compile_kernels<gpu::moves, T>();
  gpu::compile_kernels<softmax_op, T>();
  const auto check = [&](const symbol& x) { weft::detail::check_same_graph(layer.kind(), s.query.builder(), x); };
  check(s.key), check(s.value);
  if (!s.lengths.is_number()) check(s.lengths);
  for (const symbol& m : s.masks) check(m);
  layer_call call(layer, s.query, p.begin(), s.use_bias ? 8 : 4, dtype_of<T>);
  const auto bias = [&](std::size_t i) { return s.use_bias ? call[4 + i] : symbol(); };
  symbol key = s.key, value = s.value, lengths;
  if (!s.lengths.is_number()) {
    const std::int64_t batch = key.extents()[0], keys = key.extents()[1];
    lengths = checked_lengths(s.lengths, keys);
    const symbol valid = weft::detail::record_valid_steps(lengths, shape(batch, keys, 1), 0, 1);
    key = without_padding<T>(valid, s.key);
    value = s.value.id() == s.key.id() ? key : without_padding<T>(valid, s.value);
  }
  const auto turned = [&](const symbol& x) {
    return rotary.turn ? rotary.turn(rotary, x, s.caches ? s.caches->positions : symbol()) : x;
  };
  const symbol q = turned(split_heads(project<T>(s.query, call[0], bias(0)), s.heads));
  const symbol k = turned(split_heads(project<T>(key, call[1], bias(1)), s.heads));
  const symbol v = split_heads(project<T>(value, call[2], bias(2)), s.heads);

  if (s.caches) {
    if (!s.lengths.is_number() || !s.masks.empty())
      throw error(error_code::invalid_argument, "multi_head_attention",
                  "nn::cached determines the keys of each query: pass neither lengths nor a mask");
    const symbol found = transpose(s.caches->attend(q, k, v), {0, 2, 1, 3});
    return call.result(project<T>(reshape(found, s.query.extents()), call[3], bias(3)));
  }

  weft::detail::attention_attributes options{};
  options.causal = s.causal;
  const weft::detail::attention_symbols a{q, k, record_mask(s), lengths, {}, options};
  symbol weighted;
  if (s.dropout != 0) {
    gpu::compile_kernels<dropout_op, T>();
    weft::detail::check_dropout_rate(s.dropout);
    const symbol weights = weft::detail::record_attention_weights<T>(a);
    weighted = matmul<T>(weft::detail::record_dropout<T>(weights, symbol(s.dropout), {}), v);
  } else {
    weighted = weft::detail::record_attention<T>(a, v);
  }
  const symbol heads = transpose(weighted, {0, 2, 1, 3});
  return call.result(project<T>(reshape(heads, s.query.extents()), call[3], bias(3)));
}

WEFT_INSTANTIATE(symbol record_attention<float>(const attention_call&, const rotary_option<float>&, const layer_state&,
                                                std::initializer_list<parameter_request>));

template <class Query, class Key, int Heads, class... Masks>
constexpr auto find_mask_mistake(std::tuple<Masks...>*) {
  return first_mistake<mistake<false>, mask_does_not_fit<Masks, Query, Key, Heads>...>{};
}
template <class X, class T, int In>
constexpr auto find_attended_mistake() {
  return first_mistake<value_not_in_a_graph<X>, operand_of_attention_is_not_a_sequence<dims_t<X>>,
                       features_mistake<X, T, In>>{};
}
template <class Query, class K, class V, class Layer, class Arguments>
constexpr auto find_attention_mistake() {
  using T = typename Layer::element_type;
  using each = first_mistake<decltype(find_attended_mistake<Query, T, Layer::features>()),
                             decltype(find_attended_mistake<K, T, deduced>()),
                             decltype(find_attended_mistake<V, T, deduced>()), not_floating<T>>;
  if constexpr (!correct<each>) {
    return each{};
  } else {
    using DQ = dims_t<Query>;
    using DK = dims_t<K>;
    return first_mistake<keys_and_values_differ<DQ, DK, dims_t<V>>, heads_do_not_divide_the_features<DQ, Layer::heads>,
                         lengths_mistake<Arguments, dims_t<dims<extent_of<DQ, 0>()>>>,
                         decltype(find_mask_mistake<DQ, DK, Layer::heads>(
                             static_cast<decltype(Arguments::masks)*>(nullptr)))>{};
  }
}

}  // namespace detail

/// The mistake in a call of multi_head_attention, if there is one.
template <class Query, class Key, class Value, class Layer, class Arguments>
using attention_mistake = decltype(detail::find_attention_mistake<Query, Key, Value, Layer, Arguments>());

#define WEFT_NEEDS_SEQUENCES                                                                                    \
  "multi_head_attention: needs nodes [batch, steps, features] of the layer's element type, lengths [batch] of " \
  "std::int32_t, and a mask of bool that broadcasts to [batch, heads, queries, keys]"

/// Multi-head scaled dot-product attention of "Attention Is All You Need" (Vaswani et al., NeurIPS 2017): queries
/// [batch, queries, features], keys and values [batch, keys, ...], the result [batch, queries, features]
/// (torch.nn.MultiheadAttention with batch_first, tf.keras.layers.MultiHeadAttention with key_dim = features / Heads).
///
///     attention(x)                   self-attention
///     attention(x, memory)           the keys are the values
///     attention(query, key, value)
///
/// Further arguments: `nn::lengths(n)`, the numbers of valid keys, [batch] of std::int32_t; `nn::mask(m)`; a mode; and
/// `nn::cached(cache, positions)` (kv_cache.hpp) for a text that grows.
/// A query attends only to keys that all of them allow. If it attends to no key, its attention is 0 and its result is
/// output_bias, as in torch with need_weights=False. With `.causal`, query i attends to keys 0 to i. A call with
/// mode::training applies dropout at rate `.dropout` to the attention weights.
///
/// In torch, query_weights, key_weights and value_weights are the transposed thirds of in_proj_weight in this order, or
/// q_proj_weight', k_proj_weight' and v_proj_weight'; their biases are the thirds of in_proj_bias, and output_weights
/// is out_proj.weight'. Head h has features / Heads columns, beginning at h * features / Heads. Weights are initialized
/// with glorot_uniform, biases with 0. `.rotary = nn::rotary{}` turns queries and keys by their positions.
template <int Heads, int In = deduced, Element T = float>
struct multi_head_attention {
  bool use_bias = true;
  bool causal = false;
  double dropout = 0;
  rotary_option<T> rotary{};
  stored_initializer weights_init = init::glorot_uniform{};
  stored_initializer bias_init = init::zeros{};
  layer_state state{detail::layer_class::attention};
  mutable parameter query_weights{}, key_weights{}, value_weights{};  ///< [features of each, features]
  mutable parameter output_weights{};                                 ///< [features, features]
  mutable parameter query_bias{}, key_bias{}, value_bias{}, output_bias{};

  using element_type = T;
  static constexpr int heads = Heads, features = In;

  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = attention_mistake<X, X, X, multi_head_attention, detail::arguments_type<>>;

  template <Expression X, detail::AttentionArgument... A>
  auto operator()(const X& x, const A&... arguments) const {
    static_assert(correct<attention_mistake<X, X, X, multi_head_attention, detail::arguments_type<A...>>>,
                  WEFT_NEEDS_SEQUENCES);
    return run(x, x, x, detail::arguments_of(arguments...));
  }
  template <Expression X, Expression Memory, detail::AttentionArgument... A>
  auto operator()(const X& x, const Memory& memory, const A&... arguments) const {
    static_assert(correct<attention_mistake<X, Memory, Memory, multi_head_attention, detail::arguments_type<A...>>>,
                  WEFT_NEEDS_SEQUENCES);
    return run(x, memory, memory, detail::arguments_of(arguments...));
  }
  template <Expression Query, Expression Key, Expression Value, detail::AttentionArgument... A>
  auto operator()(const Query& query, const Key& key, const Value& value, const A&... arguments) const {
    static_assert(correct<attention_mistake<Query, Key, Value, multi_head_attention, detail::arguments_type<A...>>>,
                  WEFT_NEEDS_SEQUENCES);
    return run(query, key, value, detail::arguments_of(arguments...));
  }

  void visit(const std::string& path, layer_visitor& v) const {
    v.layer(path, state,
            {{"query_weights", &query_weights},
             {"key_weights", &key_weights},
             {"value_weights", &value_weights},
             {"output_weights", &output_weights},
             {"query_bias", &query_bias},
             {"key_bias", &key_bias},
             {"value_bias", &value_bias},
             {"output_bias", &output_bias}});
  }

 private:
  template <class Query, class K, class V, class Arguments>
  auto run(const Query& query, const K& key, const V& value, const Arguments& a) const {
    if constexpr (!correct<attention_mistake<Query, K, V, multi_head_attention, Arguments>>)
      return weft::detail::after_mistake<T, dims_t<Query>>(query);
    else
      return weft::detail::make_node<T, dims_t<Query>, device_t<Query>>(
          record({let(query).erased(), let(key).erased(), let(value).erased(), detail::symbol_of(a.lengths),
                  detail::symbols_of(a.masks), Heads, causal, use_bias, a.dropout_rate("multi_head_attention", dropout),
                  a.caches}));
  }
  symbol record(const detail::attention_call& s) const {
    const std::int64_t width = s.query.extents()[2];
    return detail::record_attention<T>(
        s, rotary, state,
        {{"query_weights", shape(width, width), weights_init, query_weights},
         {"key_weights", shape(s.key.extents()[2], width), weights_init, key_weights},
         {"value_weights", shape(s.value.extents()[2], width), weights_init, value_weights},
         {"output_weights", shape(width, width), weights_init, output_weights},
         {"query_bias", shape(width), bias_init, query_bias},
         {"key_bias", shape(width), bias_init, key_bias},
         {"value_bias", shape(width), bias_init, value_bias},
         {"output_bias", shape(width), bias_init, output_bias}});
  }
};

#undef WEFT_NEEDS_SEQUENCES

}  // namespace weft::nn
WEFT_COLD_END
