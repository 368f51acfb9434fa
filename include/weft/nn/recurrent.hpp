// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <tuple>

#include <weft/nn/activation.hpp>
#include <weft/nn/dense.hpp>
#include <weft/nn/layer.hpp>
#include <weft/nn/recurrent_cells.hpp>
#include <weft/nn/sequence_arguments.hpp>
#include <weft/nn/visit.hpp>
#include <weft/ops/arrays/concat.hpp>
#include <weft/ops/random/dropout.hpp>

/// Recurrent layers. Not part of `<weft/nn.hpp>`, because loops increase compile times: docs/how-to/sequences.md.
WEFT_COLD_BEGIN
namespace weft::nn {

/// The axis order of a recurrent layer's operand and states.
struct recurrent_options {
  /// [time, batch, features] instead of [batch, time, features]. Loops read rows of the first axis, so this avoids
  /// transposing the operand and all states.
  bool time_major = false;
  /// The features of the hidden states of an lstm, which a matrix computes from its units (proj_size in torch); 0: the
  /// units, without a matrix.
  int projection = 0;
};

/// The result of a simple_rnn or a gru: all states [batch, time, units], and the last state of each sequence, [batch,
/// units].
template <class States, class State>
struct recurrent_result {
  States states;
  State h;
};
/// The result of an lstm: all hidden states [batch, time, units], and the last hidden and cell state of each sequence,
/// [batch, units].
template <class States, class State, class Cell = State>
struct lstm_result {
  States states;
  State h;
  Cell c;
};
/// The result of a bidirectional layer: the concatenated states of both layers, [batch, time, 2 * units], and the
/// result of each layer.
template <class States, class Result>
struct bidirectional_result {
  States states;
  Result forward, backward;
};
/// The result of stacked layers: all states of the last layer, and the result of each layer.
template <class Result, std::size_t Count>
struct stacked_result {
  decltype(Result::states) states;
  std::array<Result, Count> layers;
};

/// A recurrent layer requires [batch, time, features].
template <class X>
struct operand_is_not_a_sequence : mistake<(X::rank != 3)> {};

/// The number of initial states must be the layer's: 1, or 2 for an lstm, for each direction and each stacked layer.
template <std::size_t Given, std::size_t Needed>
struct initial_states_differ_in_number : mistake<(Given != 0 && Given != Needed)> {};

/// Only an lstm has a projection, and it is smaller than the number of units.
template <class Layer>
struct projection_does_not_fit
    : mistake<(Layer::options.projection != 0 &&
               (Layer::states != 2 || Layer::options.projection < 0 || Layer::options.projection >= Layer::cells))> {};

/// An initial state must be a node [batch, units] of the layer's elements.
template <class X, class State>
struct initial_state_does_not_fit : mistake<!(X::symbolic && std::is_same_v<tensor<value_t<X>, dims_t<X>>, State>)> {};

/// Initializes an lstm's bias: 1 for the forget gate, 0 for the others (Jozefowicz et al., ICML 2015; Keras's
/// unit_forget_bias).
template <class T>
struct unit_forget_bias {
  initializer operator()(const shape& s) const {
    const std::size_t n = s.elements();
    storage bias(n * sizeof(T));
    for (std::size_t i = 0; i < n; ++i) reinterpret_cast<T*>(bias.data())[i] = i / (n / 4) == 1 ? T(1) : T(0);
    return {initializer::kind_type::value, 0, 0, bias};
  }
};

namespace detail {

template <class, class>
constexpr auto find_state_mistake(std::tuple<>*) {
  return mistake<false>{};
}
template <class State, class Cell, class First, class... Second>
constexpr auto find_state_mistake(std::tuple<First, Second...>*) {
  return first_mistake<initial_state_does_not_fit<First, State>, initial_state_does_not_fit<Second, Cell>...>{};
}
template <class X, class Layer, class Arguments>
constexpr auto find_recurrent_mistake() {
  using D = dims_t<X>;
  using T = typename Layer::element_type;
  using of_operand =
      first_mistake<projection_does_not_fit<Layer>, value_not_in_a_graph<X>, operand_is_not_a_sequence<D>,
                    features_mistake<X, T, Layer::features>, not_floating<T>>;
  using of_number = initial_states_differ_in_number<Arguments::states_given, Layer::states>;
  if constexpr (!correct<of_operand>) {
    return of_operand{};
  } else if constexpr (!correct<of_number>) {
    return of_number{};
  } else {
    constexpr std::size_t axis = Layer::options.time_major ? 1 : 0;
    using state = tensor<T, dims_t<dims<extent_of<D, axis>(), Layer::units>>>;
    using cell = tensor<T, dims_t<dims<extent_of<D, axis>(), Layer::cells>>>;
    return first_mistake<lengths_mistake<Arguments, dims_t<dims<extent_of<D, axis>()>>>,
                         decltype(find_state_mistake<state, cell>(
                             static_cast<decltype(Arguments::states)*>(nullptr)))>{};
  }
}
}  // namespace detail

/// The mistake in a call of a recurrent layer, if there is one.
template <class X, class Layer, class Arguments>
using recurrent_mistake = decltype(detail::find_recurrent_mistake<X, Layer, Arguments>());

#define WEFT_NEEDS_A_SEQUENCE(layer)                                                                              \
  layer                                                                                                           \
      ": needs a node [batch, time, features] of the layer's element type, lengths [batch] of std::int32_t, and " \
      "initial states [batch, units]; only an lstm has a projection, which is smaller than the units"

namespace detail {

template <class Layer, class X>
struct recurrent_types {
  using D = dims_t<X>;
  static constexpr std::size_t batch = Layer::options.time_major ? 1 : 0;
  using states = node<typename Layer::element_type, with_extent<D, 2, Layer::units>, device_t<X>>;
  template <int Width>
  using state = node<typename Layer::element_type, dims_t<dims<extent_of<D, batch>(), Width>>, device_t<X>>;
};

/// Computes the result types of a correct call, and calls `layer.record`.
template <template <class...> class Result, class Layer, class X, class Arguments>
auto call_recurrent(const Layer& layer, const X& x, const Arguments& a, bool backwards) {
  if constexpr (!correct<recurrent_mistake<X, Layer, Arguments>>) {
    using empty = node<typename Layer::element_type, dims<>>;
    return Result<empty, empty>();
  } else {
    using types = recurrent_types<Layer, X>;
    const recurrent_symbols r = layer.record({let(x).erased(), symbol_of(a.lengths), symbols_of(a.states),
                                              Layer::options.time_major, backwards != layer.reverse});
    using state = typename types::template state<Layer::units>;
    using cell = typename types::template state<Layer::cells>;
    if constexpr (Layer::states == 2)
      return Result<typename types::states, state, cell>{typename types::states(r.states), state(r.last[0]),
                                                         cell(r.last[1])};
    else
      return Result<typename types::states, state>{typename types::states(r.states), state(r.last[0])};
  }
}

}  // namespace detail

/// An Elman network: h = activation(x_t * weights + bias + h * recurrent_weights), x [batch, time, features], the
/// result a recurrent_result (tf.keras.layers.SimpleRNN, torch.nn.RNN). By default, h starts at 0, and time runs from
/// the first step to the last. `nn::lengths(n)` and `nn::initial_state(h)` can follow x: after the end of a sequence, h
/// is unchanged and the states are 0; with `.reverse`, each sequence starts at its own end. In torch, weights are
/// weight_ih', recurrent_weights weight_hh', and the bias is bias_ih + bias_hh.
template <int Units, recurrent_options Options = recurrent_options{}, int In = deduced, Element T = float>
struct simple_rnn {
  bool use_bias = true;
  bool two_biases = false;  ///< as in torch: bias, and recurrent_bias, initialized with 0
  bool reverse = false;     ///< from the last step to the first
  activation_option<T> activation = nn::tanh;
  stored_initializer weights_init = init::glorot_uniform{};
  stored_initializer recurrent_init = init::orthogonal{};
  stored_initializer bias_init = init::zeros{};
  layer_state state{detail::layer_class::simple_rnn};
  mutable parameter weights{};            ///< [in, Units]
  mutable parameter recurrent_weights{};  ///< [Units, Units]
  mutable parameter bias{};               ///< [Units]
  mutable parameter recurrent_bias{};     ///< [Units], with two_biases

  using element_type = T;
  static constexpr recurrent_options options = Options;
  static constexpr int units = Units, cells = Units, features = In;
  static constexpr std::size_t states = 1;

  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = recurrent_mistake<X, simple_rnn, detail::arguments_type<>>;

  template <Expression X, detail::RecurrentArgument... A>
  auto operator()(const X& x, const A&... arguments) const {
    static_assert(correct<recurrent_mistake<X, simple_rnn, detail::arguments_type<A...>>>,
                  WEFT_NEEDS_A_SEQUENCE("simple_rnn"));
    return detail::call_recurrent<recurrent_result>(*this, x, detail::arguments_of(arguments...), false);
  }
  template <class X, class Arguments>
  auto run(const X& x, const Arguments& a, bool backwards) const {
    static_assert(correct<recurrent_mistake<X, simple_rnn, Arguments>>, WEFT_NEEDS_A_SEQUENCE("simple_rnn"));
    return detail::call_recurrent<recurrent_result>(*this, x, a, backwards);
  }
  detail::recurrent_symbols record(const detail::recurrent_call& s) const {
    const stored_initializer zeros = init::zeros{};
    return detail::record_recurrent<T>(
        s, state,
        {{{"weights", shape(s.x.extents()[2], Units), weights_init, weights}},
         {{"recurrent_weights", shape(Units, Units), recurrent_init, recurrent_weights}},
         {{"bias", shape(Units), bias_init, bias}, use_bias},
         {{"recurrent_bias", shape(Units), zeros, recurrent_bias}, use_bias && two_biases}},
        detail::simple_cell<T>{activation});
  }

  void visit(const std::string& path, layer_visitor& v) const {
    v.layer(path, state,
            {{"weights", &weights},
             {"recurrent_weights", &recurrent_weights},
             {"bias", &bias},
             {"recurrent_bias", &recurrent_bias}});
  }
};
template <recurrent_options Options, class T>
struct simple_rnn<-1, Options, deduced, T> {
  template <class... Arguments>
  explicit simple_rnn(const Arguments&...) {
    static_assert(correct<extents_are_template_arguments<Arguments...>>,
                  "simple_rnn: its sizes are template arguments: nn::simple_rnn<128> layer");
  }
};
template <class First, class... More>
simple_rnn(const First&, const More&...) -> simple_rnn<-1>;

/// Long short-term memory: x [batch, time, features], the result an lstm_result (tf.keras.layers.LSTM, torch.nn.LSTM):
///
///     [i, f, g, o] = x_t * weights + bias + h * recurrent_weights
///     c = sigmoid(f) * c + sigmoid(i) * tanh(g)
///     h = sigmoid(o) * tanh(c)
///
/// The columns of the variables are the gates i, f, g, o, as in torch and Keras. In torch, weights are weight_ih',
/// recurrent_weights weight_hh', and the bias is bias_ih + bias_hh, or both with `.two_biases`. Lengths, initial states
/// (h and c), `.reverse` and `.two_biases` are as in simple_rnn. The bias of the forget gate is initialized with 1, or
/// with 0 by `.bias_init = init::zeros{}`.
///
/// `recurrent_options{.projection = 16}` multiplies each h by projection_weights, so that states have 16 features, and
/// recurrent_weights have 16 rows (proj_size in torch, num_proj in TensorFlow 1; weight_hr'). With `.peepholes`, i and
/// f also receive peephole_weights times c, and o its part of them times the new c, elementwise (use_peepholes).
template <int Units, recurrent_options Options = recurrent_options{}, int In = deduced, Element T = float>
struct lstm {
  bool use_bias = true;
  bool two_biases = false;  ///< as in torch: bias, and recurrent_bias, initialized with 0
  bool reverse = false;     ///< from the last step to the first
  bool peepholes = false;   ///< the gates also read c
  stored_initializer weights_init = init::glorot_uniform{};
  stored_initializer recurrent_init = init::orthogonal{};
  stored_initializer bias_init = unit_forget_bias<T>{};
  layer_state state{detail::layer_class::lstm};
  mutable parameter weights{};             ///< [in, 4 * Units]
  mutable parameter recurrent_weights{};   ///< [units, 4 * Units]
  mutable parameter bias{};                ///< [4 * Units]
  mutable parameter recurrent_bias{};      ///< [4 * Units], with two_biases
  mutable parameter peephole_weights{};    ///< [3 * Units] for i, f and o, initialized with 0
  mutable parameter projection_weights{};  ///< [Units, projection]

  using element_type = T;
  static constexpr recurrent_options options = Options;
  static constexpr int cells = Units, units = Options.projection != 0 ? Options.projection : Units, features = In;
  static constexpr std::size_t states = 2;

  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = recurrent_mistake<X, lstm, detail::arguments_type<>>;

  template <Expression X, detail::RecurrentArgument... A>
  auto operator()(const X& x, const A&... arguments) const {
    static_assert(correct<recurrent_mistake<X, lstm, detail::arguments_type<A...>>>, WEFT_NEEDS_A_SEQUENCE("lstm"));
    return detail::call_recurrent<lstm_result>(*this, x, detail::arguments_of(arguments...), false);
  }
  template <class X, class Arguments>
  auto run(const X& x, const Arguments& a, bool backwards) const {
    static_assert(correct<recurrent_mistake<X, lstm, Arguments>>, WEFT_NEEDS_A_SEQUENCE("lstm"));
    return detail::call_recurrent<lstm_result>(*this, x, a, backwards);
  }
  detail::recurrent_symbols record(const detail::recurrent_call& s) const {
    const stored_initializer zeros = init::zeros{};
    return detail::record_recurrent<T>(
        s, state,
        {{{"weights", shape(s.x.extents()[2], 4 * Units), weights_init, weights}},
         {{"recurrent_weights", shape(units, 4 * Units), recurrent_init, recurrent_weights}},
         {{"bias", shape(4 * Units), bias_init, bias}, use_bias},
         {{"recurrent_bias", shape(4 * Units), zeros, recurrent_bias}, use_bias && two_biases},
         {{"peephole_weights", shape(3 * Units), zeros, peephole_weights}, peepholes},
         {{"projection_weights", shape(Units, units), weights_init, projection_weights}, units != Units}},
        detail::lstm_cell<T>{peepholes, units != Units});
  }

  void visit(const std::string& path, layer_visitor& v) const {
    v.layer(path, state,
            {{"weights", &weights},
             {"recurrent_weights", &recurrent_weights},
             {"bias", &bias},
             {"recurrent_bias", &recurrent_bias},
             {"peephole_weights", &peephole_weights},
             {"projection_weights", &projection_weights}});
  }
};
template <recurrent_options Options, class T>
struct lstm<-1, Options, deduced, T> {
  template <class... Arguments>
  explicit lstm(const Arguments&...) {
    static_assert(correct<extents_are_template_arguments<Arguments...>>,
                  "lstm: its sizes are template arguments: nn::lstm<128> layer");
  }
};
template <class First, class... More>
lstm(const First&, const More&...) -> lstm<-1>;

/// Gated recurrent units: x [batch, time, features], the result a recurrent_result (tf.keras.layers.GRU, torch.nn.GRU):
///
///     [xr, xz, xn] = x_t * weights + bias
///     [hr, hz, hn] = h * recurrent_weights + recurrent_bias
///     z = sigmoid(xz + hz)
///     h = (1 - z) * tanh(xn + sigmoid(xr + hr) * hn) + z * h
///
/// The columns of the variables are the gates r, z, n, as in torch; Keras uses z, r, n. In torch, weights are
/// weight_ih', recurrent_weights weight_hh', bias bias_ih and recurrent_bias bias_hh. Lengths, the initial state and
/// `.reverse` are as in simple_rnn. With `.reset_after = false`, the last gate is tanh(xn + (r * h) * its columns of
/// recurrent_weights), as in the paper and in Keras's layer of the same option.
template <int Units, recurrent_options Options = recurrent_options{}, int In = deduced, Element T = float>
struct gru {
  bool use_bias = true;     ///< both biases
  bool reverse = false;     ///< from the last step to the first
  bool reset_after = true;  ///< false: the reset gate multiplies h before the product, and there is one bias
  stored_initializer weights_init = init::glorot_uniform{};
  stored_initializer recurrent_init = init::orthogonal{};
  stored_initializer bias_init = init::zeros{};
  layer_state state{detail::layer_class::gru};
  mutable parameter weights{};            ///< [in, 3 * Units]
  mutable parameter recurrent_weights{};  ///< [Units, 3 * Units]
  mutable parameter bias{};               ///< [3 * Units]
  mutable parameter recurrent_bias{};     ///< [3 * Units], with reset_after

  using element_type = T;
  static constexpr recurrent_options options = Options;
  static constexpr int units = Units, cells = Units, features = In;
  static constexpr std::size_t states = 1;

  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = recurrent_mistake<X, gru, detail::arguments_type<>>;

  template <Expression X, detail::RecurrentArgument... A>
  auto operator()(const X& x, const A&... arguments) const {
    static_assert(correct<recurrent_mistake<X, gru, detail::arguments_type<A...>>>, WEFT_NEEDS_A_SEQUENCE("gru"));
    return detail::call_recurrent<recurrent_result>(*this, x, detail::arguments_of(arguments...), false);
  }
  template <class X, class Arguments>
  auto run(const X& x, const Arguments& a, bool backwards) const {
    static_assert(correct<recurrent_mistake<X, gru, Arguments>>, WEFT_NEEDS_A_SEQUENCE("gru"));
    return detail::call_recurrent<recurrent_result>(*this, x, a, backwards);
  }
  detail::recurrent_symbols record(const detail::recurrent_call& s) const {
    return detail::record_recurrent<T>(
        s, state,
        {{{"weights", shape(s.x.extents()[2], 3 * Units), weights_init, weights}},
         {{"recurrent_weights", shape(Units, 3 * Units), recurrent_init, recurrent_weights}},
         {{"bias", shape(3 * Units), bias_init, bias}, use_bias},
         {{"recurrent_bias", shape(3 * Units), bias_init, recurrent_bias}, use_bias && reset_after}},
        detail::gru_cell<T>{reset_after});
  }

  void visit(const std::string& path, layer_visitor& v) const {
    v.layer(path, state,
            {{"weights", &weights},
             {"recurrent_weights", &recurrent_weights},
             {"bias", &bias},
             {"recurrent_bias", &recurrent_bias}});
  }
};
template <recurrent_options Options, class T>
struct gru<-1, Options, deduced, T> {
  template <class... Arguments>
  explicit gru(const Arguments&...) {
    static_assert(correct<extents_are_template_arguments<Arguments...>>,
                  "gru: its sizes are template arguments: nn::gru<128> layer");
  }
};
template <class First, class... More>
gru(const First&, const More&...) -> gru<-1>;

/// Two layers over the same sequences, the second in reverse; the result is a bidirectional_result
/// (tf.keras.layers.Bidirectional, torch's bidirectional=True): `nn::bidirectional<nn::lstm<64>> encoder;`.
template <class Layer>
struct bidirectional {
  Layer forward{}, backward{};

  using element_type = typename Layer::element_type;
  static constexpr recurrent_options options = Layer::options;
  static constexpr int units = 2 * Layer::units, features = Layer::features;
  static constexpr std::size_t states = 2 * Layer::states;

  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = typename Layer::template operand_mistake<X>;

  template <Expression X, detail::RecurrentArgument... A>
  auto operator()(const X& x, const A&... arguments) const {
    using mistaken = initial_states_differ_in_number<detail::arguments_type<A...>::states_given, states>;
    static_assert(correct<mistaken>, "bidirectional: needs the initial states of the forward and the backward layer");
    return run(x, detail::arguments_of(arguments...), false);
  }
  template <class X, class Arguments>
  auto run(const X& x, const Arguments& a, bool backwards) const {
    constexpr std::size_t half = Layer::states;
    const auto f = forward.run(x, detail::arguments_for_part<0, half>(a), backwards);
    const auto b = backward.run(x, detail::arguments_for_part<half, half>(a), !backwards);
    const auto both = concat<-1>(f.states, b.states);
    return bidirectional_result<decltype(let(both)), std::remove_const_t<decltype(f)>>{let(both), f, b};
  }

  void visit(const std::string& path, layer_visitor& v) const {
    v.enter(path, "bidirectional");
    v(path, "forward", forward);
    v(path, "backward", backward);
    v.leave();
  }
};

/// `Count` layers, each over all states of the previous one; the result is a stacked_result (torch's num_layers). A
/// call with mode::training applies dropout at this rate to the states between two layers: `nn::stacked<nn::lstm<64>,
/// 2> encoder{.dropout = 0.2}; auto [states, layers] = encoder(x, how);`. Layers are named by their indices:
/// "encoder/0/weights".
template <class Layer, std::size_t Count>
struct stacked {
  double dropout = 0;
  std::array<Layer, Count> layers{};

  using element_type = typename Layer::element_type;
  static constexpr recurrent_options options = Layer::options;
  static constexpr int units = Layer::units, features = Layer::features;
  static constexpr std::size_t states = Count * Layer::states;

  /// The mistake in an operand, if there is one.
  template <class X>
  using operand_mistake = typename Layer::template operand_mistake<X>;

  template <Expression X, detail::RecurrentArgument... A>
  auto operator()(const X& x, const A&... arguments) const {
    using mistaken = initial_states_differ_in_number<detail::arguments_type<A...>::states_given, states>;
    static_assert(correct<mistaken>, "stacked: needs the initial states of each layer");
    return run(x, detail::arguments_of(arguments...), false);
  }
  template <class X, class Arguments>
  auto run(const X& x, const Arguments& a, bool backwards) const {
    const auto first = layers[0].run(x, detail::arguments_for_part<0, Layer::states>(a), backwards);
    stacked_result<std::remove_const_t<decltype(first)>, Count> result;
    result.layers[0] = first;
    call_from<1>(result, a, backwards);
    result.states = result.layers.back().states;
    return result;
  }

  void visit(const std::string& path, layer_visitor& v) const {
    v.enter(path, "stacked");
    detail::visit_any(path, layers, v);
    v.leave();
  }

 private:
  template <std::size_t Index, class Result, class Arguments>
  void call_from(Result& result, const Arguments& a, bool backwards) const {
    if constexpr (Index < Count) {
      const auto& x = result.layers[Index - 1].states;
      const double rate = a.dropout_rate("stacked", dropout);
      result.layers[Index] =
          layers[Index].run(rate > 0 ? weft::dropout(x, rate) : x,
                            detail::arguments_for_part<Index * Layer::states, Layer::states>(a), backwards);
      call_from<Index + 1>(result, a, backwards);
    }
  }
};

namespace detail {

template <class Result>
auto last_of(const Result& r) {
  if constexpr (requires { r.layers; })
    return last_of(r.layers.back());
  else if constexpr (requires { r.backward; })
    return let(concat<-1>(last_of(r.forward), last_of(r.backward)));
  else
    return r.h;
}

}  // namespace detail

/// The last hidden state of each sequence, as a step of `sequential`: `sequential(lstm<64>{}, last_state,
/// dense<10>{})`. For a bidirectional layer, both states concatenated; for stacked layers, the state of the last layer.
struct last_state_of {
  template <class Result>
  auto operator()(const Result& r) const {
    return detail::last_of(r);
  }
};
/// A step of `sequential`: last_state_of.
inline constexpr last_state_of last_state{};

/// All hidden states, [batch, time, units], as a step of `sequential`.
struct all_states_of {
  template <class Result>
  auto operator()(const Result& r) const {
    return r.states;
  }
};
/// A step of `sequential`: all_states_of.
inline constexpr all_states_of all_states{};

#undef WEFT_NEEDS_A_SEQUENCE

}  // namespace weft::nn
WEFT_COLD_END
