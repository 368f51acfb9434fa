#pragma once

#include <tuple>

#include <weft/nn/check_lengths.hpp>
#include <weft/nn/dense.hpp>
#include <weft/nn/layer.hpp>
#include <weft/ops/elementwise.hpp>
#include <weft/tensor/sequence.hpp>

/// What recurrent layers and attention are called with beside their operands: lengths, first states, masks, the mode.
WEFT_COLD_BEGIN
namespace weft::nn {

/// `nn::lengths(n)`: see lengths.
template <Expression X>
struct lengths_argument {
  X value;
};
/// The numbers of valid steps of the sequences of a batch, [batch] of std::int32_t: `encoder(x, nn::lengths(n))`. A
/// step throws out_of_range if a length is negative or larger than the number of steps. Steps behind the valid ones may
/// hold any values, NaN too.
template <Expression X>
[[nodiscard]] auto lengths(const X& x) {
  return lengths_argument<X>{x};
}

/// `nn::initial_state(h, c)`: see initial_state.
template <Expression... X>
struct initial_state_argument {
  std::tuple<X...> values;
};
/// The states before the first step, [batch, units] each: h of a simple_rnn or a gru, h and c of an lstm; of a
/// bidirectional layer those of the forward layer and then of the backward layer; of stacked layers those of the first,
/// the second, and so on.
template <Expression... X>
[[nodiscard]] auto initial_state(const X&... x) {
  return initial_state_argument<X...>{{x...}};
}

/// `nn::mask(m)`: see mask.
template <Expression X>
struct mask_argument {
  X value;
};
/// The keys that each query attends to, of bool: [queries, keys], [batch, queries, keys] or [batch, heads, queries,
/// keys]; an extent may be 1. True means that the query attends to the key, as in
/// torch.nn.functional.scaled_dot_product_attention and Keras.
template <Expression X>
[[nodiscard]] auto mask(const X& x) {
  return mask_argument<X>{x};
}

/// The lengths of sequences are a node [batch] of std::int32_t.
template <class X, class Batch>
struct lengths_do_not_fit
    : mistake<!(X::symbolic && std::is_same_v<value_t<X>, std::int32_t> && std::is_same_v<dims_t<X>, Batch>)> {};

namespace detail {

/// The arguments of a call, by their kinds.
template <class Lengths, class States, class Masks>
struct sequence_arguments {
  Lengths lengths;  ///< tuples, which are empty if nothing was said
  States states;
  Masks masks;
  mode how = mode::inference;
  bool mode_given = false;

  /// The rate of dropout in this call: 0 in inference. Throws invalid_argument if the layer has dropout and the call no
  /// mode, which would train without dropout.
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
concept AttentionArgument = is_lengths<A> || is_mask<A> || std::is_same_v<A, mode>;

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
  return sequence_arguments<Lengths, States, Masks>{l, s, m, how, mode_given};
}
template <class... A>
auto arguments_of(const A&... a) {
  mode how = mode::inference;
  [[maybe_unused]] const auto take_mode = [&]<class Each>(const Each& each) {
    if constexpr (std::is_same_v<Each, mode>) how = each;
  };
  (take_mode(a), ...);
  return make_arguments(std::tuple_cat(lengths_in(a)...), std::tuple_cat(states_in(a)...),
                        std::tuple_cat(masks_in(a)...), how, (std::is_same_v<A, mode> || ...));
}

template <class... A>
using arguments_type = decltype(arguments_of(std::declval<const A&>()...));

/// The arguments of a layer among others, whose states are `Count` of all from `Begin` on; none if none were given.
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
/// The mistake in the lengths among these arguments, if there is one.
template <class Arguments, class Batch>
using lengths_mistake = decltype(find_lengths_mistake<Batch>(static_cast<decltype(Arguments::lengths)*>(nullptr)));

/// The operand with 0 instead of its padding, whatever that holds: a product with 0 would keep a NaN. `valid`, of bool,
/// broadcasts to x.
template <class T>
symbol without_padding(const symbol& valid, const symbol& x) {
  return record_untyped(weft::select(node<bool>(valid), node<T>(x), T(0)), x.extents());
}

}  // namespace detail
}  // namespace weft::nn
WEFT_COLD_END
