// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <tuple>

#include <weft/nn/check_lengths.hpp>
#include <weft/nn/dense.hpp>
#include <weft/nn/layer.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/tensor/sequence.hpp>

/// Optional arguments of recurrent layers and attention: lengths, initial states, masks, the mode.
WEFT_COLD_BEGIN
namespace weft::nn {

/// The result of nn::lengths.
template <Expression X>
struct lengths_argument {
  X value;
};
/// The number of valid steps of each sequence, [batch] of std::int32_t: `encoder(x, nn::lengths(n))`. A step throws
/// out_of_range if a length is negative or exceeds the number of steps. Steps after the valid ones can contain any
/// values, including NaN.
template <Expression X>
[[nodiscard]] auto lengths(const X& x) {
  return lengths_argument<X>{x};
}

/// The result of nn::initial_state.
template <Expression... X>
struct initial_state_argument {
  std::tuple<X...> values;
};
/// The states before the first step, each [batch, units]: h for a simple_rnn or a gru, h and c for an lstm. For a
/// bidirectional layer, the states of the forward and then of the backward layer; for stacked layers, the states of the
/// first layer, the second, and so on.
template <Expression... X>
[[nodiscard]] auto initial_state(const X&... x) {
  return initial_state_argument<X...>{{x...}};
}

/// The result of nn::mask.
template <Expression X>
struct mask_argument {
  X value;
};
/// The keys to which each query attends, of bool: [queries, keys], [batch, queries, keys] or [batch, heads, queries,
/// keys]; extents of 1 broadcast. True means that the query attends to the key, as in
/// torch.nn.functional.scaled_dot_product_attention and Keras.
template <Expression X>
[[nodiscard]] auto mask(const X& x) {
  return mask_argument<X>{x};
}

/// Lengths must be a node [batch] of std::int32_t.
template <class X, class Batch>
struct lengths_do_not_fit
    : mistake<!(X::symbolic && std::is_same_v<value_t<X>, std::int32_t> && std::is_same_v<dims_t<X>, Batch>)> {};

namespace detail {

/// An argument of attention that keeps keys and values (kv_cache.hpp).
struct attention_with_caches {
  explicit attention_with_caches(const symbol& at) : positions(at) {}
  /// Adds the keys and values to those of earlier steps, and returns the attention of the queries to all of them. All
  /// are [batch, heads, steps, width].
  virtual symbol attend(const symbol& query, const symbol& key, const symbol& value) const = 0;

  symbol positions;  ///< [batch] of std::int32_t: the first new step of each sequence

 protected:
  ~attention_with_caches() = default;
};

/// The arguments of a call, sorted by kind.
template <class Lengths, class States, class Masks>
struct sequence_arguments {
  Lengths lengths;  ///< tuples, empty if not given
  States states;
  Masks masks;
  mode how = mode::inference;
  bool mode_given = false;
  const attention_with_caches* caches = nullptr;

  /// Returns the dropout rate of this call: 0 in inference. Throws invalid_argument if the layer has dropout but the
  /// call has no mode, because it would train without dropout.
  double dropout_rate(const char* layer, double rate) const {
    if (rate > 0 && !mode_given)
      throw error(error_code::invalid_argument, layer,
                  "the layer has dropout, so its call needs a mode: layer(x, nn::mode::training or inference)");
    return how == mode::training ? rate : 0;
  }

  static constexpr std::size_t states_given = std::tuple_size_v<States>;
};

template <class Argument>
inline constexpr bool is_lengths = false;
template <class X>
inline constexpr bool is_lengths<lengths_argument<X>> = true;
template <class Argument>
inline constexpr bool is_initial_state = false;
template <class... X>
inline constexpr bool is_initial_state<initial_state_argument<X...>> = true;
template <class Argument>
inline constexpr bool is_mask = false;
template <class X>
inline constexpr bool is_mask<mask_argument<X>> = true;

template <class A>
concept RecurrentArgument = is_lengths<A> || is_initial_state<A> || std::is_same_v<A, mode>;
template <class A>
concept AttentionArgument =
    is_lengths<A> || is_mask<A> || std::is_same_v<A, mode> || std::is_base_of_v<attention_with_caches, A>;

template <class A>
auto lengths_in(const A& a) {
  if constexpr (is_lengths<A>)
    return std::tuple{a.value};
  else
    return std::tuple<>();
}
template <class A>
auto states_in(const A& a) {
  if constexpr (is_initial_state<A>)
    return a.values;
  else
    return std::tuple<>();
}
template <class A>
auto masks_in(const A& a) {
  if constexpr (is_mask<A>)
    return std::tuple{a.value};
  else
    return std::tuple<>();
}
template <class Lengths, class States, class Masks>
auto make_arguments(Lengths l, States s, Masks m, mode how, bool mode_given) {
  return sequence_arguments<Lengths, States, Masks>{l, s, m, how, mode_given, nullptr};
}
template <class... A>
auto arguments_of(const A&... a) {
  mode how = mode::inference;
  const attention_with_caches* caches = nullptr;
  [[maybe_unused]] const auto take = [&]<class Each>(const Each& each) {
    if constexpr (std::is_same_v<Each, mode>) how = each;
    if constexpr (std::is_base_of_v<attention_with_caches, Each>) caches = &each;
  };
  (take(a), ...);
  auto all = make_arguments(std::tuple_cat(lengths_in(a)...), std::tuple_cat(states_in(a)...),
                            std::tuple_cat(masks_in(a)...), how, (std::is_same_v<A, mode> || ...));
  all.caches = caches;
  return all;
}

template <class... A>
using arguments_type = decltype(arguments_of(std::declval<const A&>()...));

/// Returns the arguments for one of several layers: its states are `Count` states from `Begin`, or none if the call has
/// none.
template <std::size_t Begin, std::size_t Count, class Lengths, class States, class Masks>
auto arguments_for_part(const sequence_arguments<Lengths, States, Masks>& a) {
  if constexpr (std::tuple_size_v<States> < Begin + Count)
    return make_arguments(a.lengths, std::tuple<>(), a.masks, a.how, a.mode_given);
  else
    return [&]<std::size_t... Index>(std::index_sequence<Index...>) {
      return make_arguments(a.lengths, std::tuple{std::get<Begin + Index>(a.states)...}, a.masks, a.how, a.mode_given);
    }(std::make_index_sequence<Count>());
}

template <class Tuple>
sequence<symbol> symbols_of(const Tuple& t) {
  return std::apply([](const auto&... x) { return sequence<symbol>{let(x).erased()...}; }, t);
}
template <class Tuple>
symbol symbol_of(const Tuple& t) {
  if constexpr (std::tuple_size_v<Tuple> == 0)
    return symbol();
  else
    return let(std::get<0>(t)).erased();
}

template <class Batch, class... L>
constexpr auto find_lengths_mistake(std::tuple<L...>*) {
  return first_mistake<mistake<false>, lengths_do_not_fit<L, Batch>...>{};
}
/// The mistake in the lengths, if there is one.
template <class Arguments, class Batch>
using lengths_mistake = decltype(find_lengths_mistake<Batch>(static_cast<decltype(Arguments::lengths)*>(nullptr)));

using weft::detail::without_padding;

}  // namespace detail
}  // namespace weft::nn
WEFT_COLD_END
