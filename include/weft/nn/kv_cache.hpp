// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <memory>

#include <weft/nn/layer.hpp>
#include <weft/nn/sequence_arguments.hpp>
#include <weft/nn/visit.hpp>
#include <weft/ops/assign_slice.hpp>
#include <weft/ops/products/attention.hpp>

/// The keys and values of earlier steps, which attention reads again for each new token: docs/how-to/generation.md. Not
/// part of <weft/nn.hpp>.
WEFT_COLD_BEGIN
namespace weft::nn {

/// Keys and values must be nodes [batch, KvHeads, steps, Width] of the cache's element type, with equal extents.
template <class K, class V, class Cache>
struct steps_do_not_fit_the_cache
    : mistake<!(dims_t<K>::rank == 4 && dims_t<K>::spec[1] == Cache::heads && dims_t<K>::spec[3] == Cache::width &&
                std::is_same_v<dims_t<V>, dims_t<K>> && std::is_same_v<value_t<K>, typename Cache::element_type> &&
                std::is_same_v<value_t<V>, value_t<K>>)> {};

/// A call must not add more steps than a cache has.
template <class K, int Capacity>
struct more_steps_than_the_capacity : mistake<(dims_t<K>::rank == 4 && dims_t<K>::spec[2] > Capacity)> {};

/// Positions must be a node [batch] of std::int32_t, one for each sequence.
template <class P, class Batch>
struct positions_do_not_fit
    : mistake<!(P::symbolic && std::is_same_v<value_t<P>, std::int32_t> && std::is_same_v<dims_t<P>, Batch>)> {};

/// The keys and values of a cache after a call of append, and the positions of the steps that it wrote.
template <class Kept, class Positions>
struct cached_steps {
  Kept keys, values;    ///< [batch, KvHeads, Capacity, Width]; later steps of a sequence hold any finite numbers
  Positions positions;  ///< [batch]: the first new step of each sequence
};

/// Stores the keys and values of a text that grows, for the attention of a model that generates it (transformers'
/// StaticCache): two variables [batch, KvHeads, Capacity, Width] of variable_kind::local, which begin with zeros and
/// whose batch is that of the first call. If the batch has a name, call `g.set(dyn<"batch">, 8)` before.
///
///     auto [keys, values, at] = cache.append(k, v, positions);
///
/// writes new steps of each sequence at its position: k and v [batch, KvHeads, steps, Width], positions [batch] of
/// std::int32_t. The write is in place. A step runs it if it reads the keys or values, or fetches them. Sequences can
/// have different lengths: attention reads the keys up to the position of each query, and a call of append at a smaller
/// position discards the steps after it. A step throws out_of_range, before it writes, if a sequence has no room for
/// the new steps. Sessions that share a model (clone_for_inference) have caches of their own.
template <int KvHeads, int Width, int Capacity, Element T = float>
struct kv_cache {
  static_assert(KvHeads > 0 && Width > 0 && Capacity > 0, "kv_cache<heads, width, capacity>: must be positive");
  using element_type = T;
  static constexpr int heads = KvHeads, width = Width, capacity = Capacity;

  layer_state state{"kv_cache"};
  mutable parameter keys{}, values{};  ///< [batch, KvHeads, Capacity, Width]

  template <Expression K, Expression V, Expression P>
  auto append(const K& k, const V& v, const P& positions) const {
    using batch = dims<weft::detail::extent_at<dims_t<K>, 0>::value>;
    using mistake =
        first_mistake<value_not_in_a_graph<K>, value_not_in_a_graph<V>, steps_do_not_fit_the_cache<K, V, kv_cache>,
                      more_steps_than_the_capacity<K, Capacity>, positions_do_not_fit<P, dims_t<batch>>>;
    static_assert(
        correct<mistake>,
        "kv_cache::append: needs keys and values [batch, heads, steps, width] of the cache's heads, width and "
        "element type, and positions [batch] of std::int32_t");
    if constexpr (correct<mistake>) {
      using kept = node<T, dims_t<dims<weft::detail::extent_at<dims_t<K>, 0>::value, KvHeads, Capacity, Width>>>;
      const auto at = let(positions);
      const auto written = record(let(k).erased(), let(v).erased(), at.erased());
      return cached_steps<kept, decltype(at)>{kept(written.keys), kept(written.values), at};
    } else {
      return cached_steps<K, P>{k, v, positions};
    }
  }
  /// The same for symbols, without checks of extents.
  cached_steps<symbol, symbol> record(const symbol& k, const symbol& v, const symbol& positions) const {
    gpu::compile_kernels<assign_slice_op, T>();
    const stored_initializer zeros = init::zeros{};
    const shape extents(k.extents()[0], KvHeads, Capacity, Width);
    const parameter_request requests[] = {{"keys", extents, zeros, keys, variable_kind::local},
                                          {"values", extents, zeros, values, variable_kind::local}};
    layer_call call(state, k, requests, 2, dtype_of<T>);
    const auto write = [&](std::size_t i, const symbol& steps) {
      return weft::record<assign_slice_op<T>>({call[i], steps, positions}, call[i].info(), {2});
    };
    const symbol new_keys = write(0, k);
    return {new_keys, call.result(write(1, v)), positions};
  }

  /// A cache has no variables to save or load.
  void visit(const std::string& path, layer_visitor& v) const { v.layer(path, state, parameter_list(nullptr, 0)); }
};

/// The result of nn::cached.
template <class Caches, class Positions>
class cached_argument final : public detail::attention_with_caches {
 public:
  cached_argument(const Caches& caches, const Positions& at)
      : attention_with_caches(let(at).erased()), caches_(&caches), next_(std::make_shared<std::size_t>(0)) {}

  symbol attend(const symbol& query, const symbol& key, const symbol& value) const override {
    if constexpr (requires { caches_->begin(); }) {
      if (*next_ == caches_->size())
        throw error(error_code::invalid_argument, "cached",
                    {"the model has more attention layers than the ", *next_, " caches"});
      return attend(caches_->begin()[(*next_)++], query, key, value);
    } else {
      return attend(*caches_, query, key, value);
    }
  }

 private:
  template <class Cache>
  symbol attend(const Cache& cache, const symbol& query, const symbol& key, const symbol& value) const {
    using T = typename Cache::element_type;
    const shape& k = key.extents();
    if (k[1] != Cache::heads || k[3] != Cache::width || key.type() != dtype_of<T>)
      throw error(error_code::invalid_argument, "cached",
                  {"a cache of ", Cache::heads, " heads of ", Cache::width, " cannot keep keys ", to_string(k)});
    if (positions.extents() != shape(k[0]) || positions.type() != dtype_of<std::int32_t>)
      throw error(error_code::invalid_argument, "cached",
                  {"needs positions of std::int32_t, ", to_string(shape(k[0])), ", one for each sequence"});
    const auto kept = cache.record(key, value, positions);
    weft::detail::attention_attributes options{};
    options.causal = true;
    return weft::detail::record_attention<T>({query, kept.keys, {}, {}, positions, options}, kept.values);
  }

  const Caches* caches_;
  std::shared_ptr<std::size_t> next_;  // shared by copies: layers of layers copy their arguments
};

/// An argument of self-attention that reads and extends a cache: `attention(x, nn::cached(cache, positions))`, with the
/// positions of the first steps of x, [batch] of std::int32_t. Query i of a sequence attends to the keys up to its own
/// position. For a model of several attention layers pass a std::array of caches: `encoder(x, nn::cached(caches,
/// positions))`; each attention layer uses the next cache. Refers to the caches.
template <class Caches, Expression P>
[[nodiscard]] auto cached(const Caches& caches, const P& positions) {
  return cached_argument<Caches, P>(caches, positions);
}

}  // namespace weft::nn
WEFT_COLD_END
