// SPDX-License-Identifier: BSL-1.0
// Recurrent layers: values and gradients against PyTorch and finite differences, lengths, initial states and names.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <weft/nn.hpp>
#include <weft/nn/recurrent.hpp>
#include <weft/weft.hpp>

#include "errors.hpp"
#include "nn/sequence_values.hpp"

using namespace weft;
using nn::mode;
using sequence_values::close;
using sequence_values::numbers;

namespace {

constexpr auto batch = dyn<"batch">;
constexpr auto steps = dyn<"steps">;
constexpr int features = 4, units = 3;
using per_sequence = dims<batch>;
using state_dims = dims<batch, units>;
const shape state_extents(3, units);

template <class T>
using lstm = nn::lstm<units, nn::recurrent_options{}, nn::deduced, T>;
template <class T>
using gru = nn::gru<units, nn::recurrent_options{}, nn::deduced, T>;
template <class T>
using rnn = nn::simple_rnn<units, nn::recurrent_options{}, nn::deduced, T>;

tensor<std::int32_t, per_sequence> lengths_of(std::initializer_list<std::int32_t> n) {
  tensor<std::int32_t, per_sequence> t(shape(static_cast<std::int64_t>(n.size())));
  std::copy(n.begin(), n.end(), t.data());
  return t;
}

/// The operands of all calls.
template <class T>
struct operands {
  graph g;
  node<T, dims<batch, steps, features>> x = placeholder<T, dims<batch, steps, features>>(g, "x");
  node<std::int32_t, per_sequence> n = placeholder<std::int32_t, per_sequence>(g, "n");
  std::vector<node<T, state_dims>> states;  // first states
  operands() {
    for (int i = 0; i < 4; ++i) states.push_back(placeholder<T, state_dims>(g, "state"));
  }
  static auto x_values() { return numbers<T, dims<batch, steps, features>>(5, shape(3, 5, features), 64); }
  /// The same with NaN and infinity behind the lengths, which PyTorch's packed sequences leave out.
  static auto padded_values(const tensor<std::int32_t, per_sequence>& lengths) {
    auto x = x_values();
    for (int b = 0; b < 3; ++b)
      for (int t = lengths(b); t < 5; ++t)
        for (int f = 0; f < features; ++f) x(b, t, f) = f % 2 ? std::numeric_limits<T>::infinity() : T(NAN);
    return x;
  }
};

/// Compares the gradient by x, of which it reads one element of `every`, with finite differences of the loss.
void check_gradient(session& s, const operands<double>& o, const auto& loss, const auto& dx, std::size_t every,
                    double tolerance) {
  auto x = o.x_values();
  const auto n = lengths_of({5, 2, 0});
  const auto analytic = s.eval(dx, with(o.x, x), with(o.n, n));
  for (std::size_t i = 0; i < x.elements(); i += every) {
    const double before = x.data()[i], h = 1e-5;
    x.data()[i] = before + h;
    const double more = s.eval(loss, with(o.x, x), with(o.n, n));
    x.data()[i] = before - h;
    const double less = s.eval(loss, with(o.x, x), with(o.n, n));
    x.data()[i] = before;
    BOOST_CHECK_SMALL((more - less) / (2 * h) - analytic.data()[i], tolerance);
  }
}

/// Gives a layer's variables the script's numbers, and compares the gradients of the loss by them.
template <int In, int Gates, class T, class Layer, class Loss>
void check_variables(session& s, const Loss& loss, const Layer& layer, const std::string& name, int p,
                     const auto&... fed) {
  const auto w = layer.weights.template as<dims<In, Gates * units>, T>();
  const auto u = layer.recurrent_weights.template as<dims<units, Gates * units>, T>();
  const auto b = layer.bias.template as<dims<Gates * units>, T>();
  const std::string end = "_" + std::to_string(p);
  const auto check = [&](const auto& v, const std::string& what) {
    auto [d] = gradients(loss, v);
    close(name + "_d_" + what + end, s.eval(d, fed...));
  };
  check(w, "weights"), check(u, "recurrent_weights"), check(b, "bias");
  if constexpr (Gates == 3)  // a gru, which always has it
    check(layer.recurrent_bias.template as<dims<Gates * units>, T>(), "recurrent_bias");
}
template <int In, int Gates, class T, class Layer>
void set_variables(session& s, const Layer& layer, int p) {
  s.set(layer.weights.template as<dims<In, Gates * units>, T>(),
        numbers<T, dims<In, Gates * units>>(10 * p + 1, shape(In, Gates * units)));
  s.set(layer.recurrent_weights.template as<dims<units, Gates * units>, T>(),
        numbers<T, dims<units, Gates * units>>(10 * p + 2, shape(units, Gates * units)));
  s.set(layer.bias.template as<dims<Gates * units>, T>(),
        numbers<T, dims<Gates * units>>(10 * p + 3, shape(Gates * units)));
  if constexpr (Gates == 3)
    s.set(layer.recurrent_bias.template as<dims<Gates * units>, T>(),
          numbers<T, dims<Gates * units>>(10 * p + 4, shape(Gates * units)));
}

/// The script's part of the loss for a last state, number i of its kind.
template <class T>
auto weighted(graph& g, const node<T, state_dims>& state, int which, std::size_t i = 0) {
  return sum(state * constant(g, numbers<T, state_dims>(which, state_extents, 257, 9 * i)));
}
template <class T, int Width>
auto weighted_states(graph& g, const node<T, dims<batch, steps, Width>>& states) {
  using D = dims<batch, steps, Width>;
  return sum(states * constant(g, numbers<T, D>(8, shape(3, 5, Width))));
}

enum class given { nothing, initial, lengths };

template <int Gates, class T, template <class> class Layer>
void check_layer(const std::string& name, given what) {
  BOOST_TEST_CONTEXT(name) {
    operands<T> o;
    const Layer<T> layer;
    constexpr bool has_c = Layer<T>::states == 2;
    const auto r = [&] {
      if (what == given::nothing) return layer(o.x);
      if constexpr (has_c) {
        if (what == given::initial) return layer(o.x, nn::initial_state(o.states[0], o.states[1]));
        return layer(o.x, nn::lengths(o.n), nn::initial_state(o.states[0], o.states[1]));
      } else {
        if (what == given::initial) return layer(o.x, nn::initial_state(o.states[0]));
        return layer(o.x, nn::initial_state(o.states[0]), nn::lengths(o.n));
      }
    }();
    node<T> loss = let(weighted_states<T, units>(o.g, r.states) + weighted<T>(o.g, r.h, 9));
    if constexpr (has_c) loss = let(loss + weighted<T>(o.g, r.c, 10));
    session s{o.g};
    set_variables<features, Gates, T>(s, layer, 0);
    const auto h0 = numbers<T, state_dims>(6, state_extents), c0 = numbers<T, state_dims>(7, state_extents);
    const auto n = lengths_of({5, 2, 4});
    const auto x = what == given::lengths ? o.padded_values(n) : o.x_values();
    const auto compute = [&](const auto& v) {
      return s.eval(v, with(o.x, x), with(o.n, n), with(o.states[0], h0), with(o.states[1], c0));
    };
    close(name + "_states", compute(r.states));
    close(name + "_h", compute(r.h));
    if constexpr (has_c) close(name + "_c", compute(r.c));
    auto [dx] = gradients(loss, o.x);
    close(name + "_d_x", compute(dx));
    if (what != given::nothing) {
      auto [dh] = gradients(loss, o.states[0]);
      close(name + "_d_h0", compute(dh));
      if constexpr (has_c) {
        auto [dc] = gradients(loss, o.states[1]);
        close(name + "_d_c0", compute(dc));
      }
    }
    check_variables<features, Gates, T>(s, loss, layer, name, 0, with(o.x, x), with(o.n, n), with(o.states[0], h0),
                                        with(o.states[1], c0));
  }
}

template <int Gates, template <class> class Layer>
void check_kind(const std::string& kind) {
  check_layer<Gates, double, Layer>(kind + "_plain", given::nothing);
  check_layer<Gates, double, Layer>(kind + "_initial", given::initial);
  check_layer<Gates, double, Layer>(kind + "_lengths", given::lengths);
  check_layer<Gates, float, Layer>(kind + "_lengths", given::lengths);
}

template <int Gates, template <class> class Layer>
void check_both_directions(const std::string& name) {
  using T = double;
  operands<T> o;
  const nn::bidirectional<Layer<T>> layer;
  constexpr bool has_c = Layer<T>::states == 2;
  const auto& i = o.states;
  const auto r = [&] {
    if constexpr (has_c)
      return layer(o.x, nn::lengths(o.n), nn::initial_state(i[0], i[1], i[2], i[3]));
    else
      return layer(o.x, nn::lengths(o.n), nn::initial_state(i[0], i[1]));
  }();
  static_assert(std::is_same_v<decltype(r.states), node<T, dims<batch, steps, 2 * units>>>);
  node<T> loss = let(weighted_states<T, 2 * units>(o.g, r.states) + weighted<T>(o.g, r.forward.h, 9) +
                     weighted<T>(o.g, r.backward.h, 9, 1));
  if constexpr (has_c) loss = let(loss + weighted<T>(o.g, r.forward.c, 10) + weighted<T>(o.g, r.backward.c, 10, 1));
  session s{o.g};
  set_variables<features, Gates, T>(s, layer.forward, 0);
  set_variables<features, Gates, T>(s, layer.backward, 1);
  const auto n = lengths_of({5, 2, 4});
  const auto x = o.padded_values(n);
  // The state's number, and which half of the script's numbers it is.
  const auto first = [&](int which, std::size_t half) {
    return numbers<T, state_dims>(which, state_extents, 257, 9 * half);
  };
  const auto s0 = first(6, 0), s1 = has_c ? first(7, 0) : first(6, 1), s2 = first(6, 1), s3 = first(7, 1);
  const auto compute = [&](const auto& v) {
    return s.eval(v, with(o.x, x), with(o.n, n), with(i[0], s0), with(i[1], s1), with(i[2], s2), with(i[3], s3));
  };
  close(name + "_states", compute(r.states));
  close(name + "_h", compute(r.forward.h));
  close(name + "_h", compute(r.backward.h), 9);
  auto [dx] = gradients(loss, o.x);
  close(name + "_d_x", compute(dx));
  if constexpr (has_c) {
    close(name + "_c", compute(r.backward.c), 9);
    auto [h0, c0, h1, c1] = gradients(loss, i[0], i[1], i[2], i[3]);
    close(name + "_d_h0", compute(h0)), close(name + "_d_h0", compute(h1), 9);
    close(name + "_d_c0", compute(c0)), close(name + "_d_c0", compute(c1), 9);
  } else {
    auto [h0, h1] = gradients(loss, i[0], i[1]);
    close(name + "_d_h0", compute(h0)), close(name + "_d_h0", compute(h1), 9);
  }
  check_variables<features, Gates, T>(s, loss, layer.forward, name, 0, with(o.x, x), with(o.n, n), with(i[0], s0),
                                      with(i[1], s1), with(i[2], s2), with(i[3], s3));
  check_variables<features, Gates, T>(s, loss, layer.backward, name, 1, with(o.x, x), with(o.n, n), with(i[0], s0),
                                      with(i[1], s1), with(i[2], s2), with(i[3], s3));
}

template <int Gates, template <class> class Layer>
void check_stacked(const std::string& name) {
  using T = double;
  operands<T> o;
  const nn::stacked<nn::bidirectional<Layer<T>>, 2> layer;
  const auto [states, layers] = layer(o.x, nn::lengths(o.n));
  node<T> loss = weighted_states<T, 2 * units>(o.g, states);
  for (std::size_t p = 0; p < 4; ++p) {
    const auto& both = layers[p / 2];
    const auto& r = p % 2 == 0 ? both.forward : both.backward;
    loss = let(loss + weighted<T>(o.g, r.h, 9, p));
    if constexpr (requires { r.c; }) loss = let(loss + weighted<T>(o.g, r.c, 10, p));
  }
  session s{o.g};
  set_variables<features, Gates, T>(s, layer.layers[0].forward, 0);
  set_variables<features, Gates, T>(s, layer.layers[0].backward, 1);
  set_variables<2 * units, Gates, T>(s, layer.layers[1].forward, 2);
  set_variables<2 * units, Gates, T>(s, layer.layers[1].backward, 3);
  const auto n = lengths_of({5, 2, 4});
  const auto x = o.padded_values(n);
  close(name + "_states", s.eval(states, with(o.x, x), with(o.n, n)));
  close(name + "_h", s.eval(layers[1].backward.h, with(o.x, x), with(o.n, n)), 27);
  auto [dx] = gradients(loss, o.x);
  close(name + "_d_x", s.eval(dx, with(o.x, x), with(o.n, n)));
  check_variables<features, Gates, T>(s, loss, layer.layers[0].forward, name, 0, with(o.x, x), with(o.n, n));
  check_variables<2 * units, Gates, T>(s, loss, layer.layers[1].backward, name, 3, with(o.x, x), with(o.n, n));
}

struct tagger {
  nn::stacked<nn::bidirectional<nn::lstm<8>>, 2> encoder{.dropout = 0.5};
  nn::gru<5> decoder{.use_bias = false};
  auto operator()(const auto& x, mode how) const { return decoder(encoder(x, how).states).h; }
};

}  // namespace

BOOST_AUTO_TEST_CASE(simple_rnn_is_that_of_pytorch) { check_kind<1, rnn>("rnn"); }
BOOST_AUTO_TEST_CASE(lstm_is_that_of_pytorch) { check_kind<4, lstm>("lstm"); }
BOOST_AUTO_TEST_CASE(gru_is_that_of_pytorch) { check_kind<3, gru>("gru"); }
BOOST_AUTO_TEST_CASE(bidirectional_layers_are_those_of_pytorch) {
  check_both_directions<1, rnn>("rnn_both");
  check_both_directions<4, lstm>("lstm_both");
  check_both_directions<3, gru>("gru_both");
}
BOOST_AUTO_TEST_CASE(stacked_layers_are_those_of_pytorch) {
  check_stacked<1, rnn>("rnn_stacked");
  check_stacked<4, lstm>("lstm_stacked");
  check_stacked<3, gru>("gru_stacked");
}

namespace {

/// Checks a layer's states and the gradients of their weighted sum, and of `c` if it is given.
template <int Gates, int Width = units, class Layer>
void check_option(const std::string& name, const operands<double>& o, session& s, const Layer& layer,
                  const node<double>& loss, const auto& states, const auto&... fed) {
  const auto x = with(o.x, o.x_values());
  const auto w = layer.weights.template as<dims<features, Gates * units>, double>();
  const auto u = layer.recurrent_weights.template as<dims<Width, Gates * units>, double>();
  const auto b = layer.bias.template as<dims<Gates * units>, double>();
  s.set(w, numbers<double, dims<features, Gates * units>>(1, shape(features, Gates * units)));
  s.set(u, numbers<double, dims<Width, Gates * units>>(2, shape(Width, Gates * units)));
  s.set(b, numbers<double, dims<Gates * units>>(3, shape(Gates * units)));
  close(name + "_states", s.eval(states, x, fed...));
  const auto [dx, dw, du, db] = gradients(loss, o.x, w, u, b);
  close(name + "_d_x", s.eval(dx, x, fed...));
  close(name + "_d_weights", s.eval(dw, x, fed...));
  close(name + "_d_recurrent_weights", s.eval(du, x, fed...));
  close(name + "_d_bias", s.eval(db, x, fed...));
}

}  // namespace

BOOST_AUTO_TEST_CASE(projections_are_those_of_pytorch) {
  operands<double> o;
  const nn::lstm<units, nn::recurrent_options{.projection = 2}, nn::deduced, double> layer;
  const auto h0 = placeholder<double, dims<batch, 2>>(o.g, "h0");
  const auto [states, h, c] = layer(o.x, nn::initial_state(h0, o.states[0]));
  static_assert(std::is_same_v<decltype(h), const node<double, dims<batch, 2>>>);
  const auto loss = let(weighted_states<double, 2>(o.g, states) + weighted<double>(o.g, c, 10));
  session s{o.g};
  const auto p = layer.projection_weights.as<dims<units, 2>, double>();
  s.set(p, numbers<double, dims<units, 2>>(12, shape(units, 2)));
  const auto a = with(h0, numbers<double, dims<batch, 2>>(6, shape(3, 2)));
  const auto b = with(o.states[0], numbers<double, state_dims>(7, state_extents));
  const auto x = with(o.x, o.x_values());
  check_option<4, 2>("lstm_projection", o, s, layer, loss, states, a, b);
  close("lstm_projection_h", s.eval(h, x, a, b)), close("lstm_projection_c", s.eval(c, x, a, b));
  const auto [dp, dh, dc] = gradients(loss, p, h0, o.states[0]);
  close("lstm_projection_d_projection_weights", s.eval(dp, x, a, b));
  close("lstm_projection_d_h0", s.eval(dh, x, a, b)), close("lstm_projection_d_c0", s.eval(dc, x, a, b));
}

BOOST_AUTO_TEST_CASE(peepholes_are_those_of_tensorflow) {
  operands<double> o;
  const lstm<double> layer{.peepholes = true};
  const auto states = layer(o.x).states;
  const node<double> loss = weighted_states<double, units>(o.g, states);
  session s{o.g};
  const auto p = layer.peephole_weights.as<dims<3 * units>, double>();
  s.set(p, numbers<double, dims<3 * units>>(12, shape(3 * units)));
  check_option<4>("lstm_peepholes", o, s, layer, loss, states);
  const auto [dp] = gradients(loss, p);
  close("lstm_peepholes_d_peephole_weights", s.eval(dp, with(o.x, o.x_values())));
}

BOOST_AUTO_TEST_CASE(a_reset_gate_before_the_product_is_that_of_keras) {
  operands<double> o;
  const gru<double> layer{.reset_after = false};
  const auto states = layer(o.x).states;
  const node<double> loss = weighted_states<double, units>(o.g, states);
  session s{o.g};
  BOOST_TEST(parameters(layer).size() == 3u);
  check_option<3>("gru_reset_before", o, s, layer, loss, states);
}

// Of second order, too: the loss contains gradients.
BOOST_AUTO_TEST_CASE(gradients_of_options_are_those_of_finite_differences) {
  using T = double;
  operands<T> o;
  const nn::bidirectional<nn::lstm<3, nn::recurrent_options{.projection = 2}, nn::deduced, T>> a{{.peepholes = true},
                                                                                                 {.peepholes = true}};
  const nn::gru<2, nn::recurrent_options{}, nn::deduced, T> b{.reset_after = false};
  const gru<T> c{.reverse = true};
  session s{o.g};
  const auto states = c(b(a(o.x, nn::lengths(o.n)).states, nn::lengths(o.n)).states).states;
  s.set(a.forward.peephole_weights.as<dims<9>, T>(), numbers<T, dims<9>>(1, shape(9)));
  const auto p = a.forward.peephole_weights.as<dims<9>, T>();
  const auto [first] = gradients(sum(square(states)), p);
  const auto loss = let(sum(square(first)) + mean(states));
  const auto [dx] = gradients(loss, o.x);
  check_gradient(s, o, loss, dx, 3, 1e-8);
}

BOOST_AUTO_TEST_CASE(gradients_are_those_of_finite_differences) {
  using T = double;
  operands<T> o;
  const nn::bidirectional<nn::lstm<2, nn::recurrent_options{}, nn::deduced, T>> a;
  const nn::gru<2, nn::recurrent_options{}, nn::deduced, T> b{.reverse = true};
  const nn::simple_rnn<2, nn::recurrent_options{}, nn::deduced, T> c{.activation = nn::softplus};
  auto loss = mean(square(c(b(a(o.x, nn::lengths(o.n)).states, nn::lengths(o.n)).states, nn::lengths(o.n)).h));
  auto [dx] = gradients(loss, o.x);
  session s{o.g};
  check_gradient(s, o, loss, dx, 1, 1e-9);
}

BOOST_AUTO_TEST_CASE(steps_beyond_the_length_change_nothing) {
  operands<float> o;
  const nn::lstm<units> layer;
  const auto [states, h, c] = layer(o.x, nn::lengths(o.n), nn::initial_state(o.states[0], o.states[1]));
  session s{o.g};
  const auto h0 = numbers<float, state_dims>(6, state_extents), c0 = numbers<float, state_dims>(7, state_extents);
  const auto n = lengths_of({3, 0, 5});
  const auto run = [&, states = states, h = h, c = c](const auto& x) {
    return s.run(fetch(states, h, c), with(o.x, x), with(o.n, n), with(o.states[0], h0), with(o.states[1], c0));
  };
  auto x = o.x_values();
  const auto [all, last, cell] = run(x);
  for (int b = 0; b < 2; ++b)
    for (int t = b == 0 ? 3 : 0; t < 5; ++t)
      for (int f = 0; f < features; ++f) x(b, t, f) = 1000;
  const auto [again, last_again, cell_again] = run(x);
  BOOST_CHECK(again == all);
  BOOST_CHECK(last_again == last);
  BOOST_CHECK(cell_again == cell);
  for (int i = 0; i < units; ++i) {
    BOOST_CHECK_EQUAL(all(0, 3, i), 0);
    BOOST_CHECK_EQUAL(last(0, i), all(0, 2, i));
    BOOST_CHECK_EQUAL(last(1, i), h0(1, i));  // nothing was read
    BOOST_CHECK_EQUAL(cell(1, i), c0(1, i));
    BOOST_CHECK_EQUAL(last(2, i), all(2, 4, i));
  }
  const auto refused = [&, &states = states](std::int32_t length) {
    s.eval(states, with(o.x, x), with(o.n, lengths_of({3, length, 5})), with(o.states[0], h0), with(o.states[1], c0));
  };
  BOOST_CHECK_EXCEPTION(refused(6), error, test::says(error_code::out_of_range, "sequence 1 must be 0 to 5"));
  BOOST_CHECK_EXCEPTION(refused(-1), error, test::says(error_code::out_of_range, "it is -1"));
}

BOOST_AUTO_TEST_CASE(time_may_come_first) {
  graph g;
  auto x = placeholder<float, dims<batch, steps, features>>(g, "x");
  const nn::gru<units> layer;
  const nn::gru<units, nn::recurrent_options{.time_major = true}> by_time;
  const auto r = layer(x);
  const auto t = by_time(transpose<1, 0, 2>(x));
  static_assert(std::is_same_v<decltype(t.states), node<float, dims<steps, batch, units>>>);
  static_assert(std::is_same_v<decltype(t.h), node<float, state_dims>>);
  session s{g};
  set_variables<features, 3, float>(s, layer, 0);
  set_variables<features, 3, float>(s, by_time, 0);
  const auto [a, b] = s.run(fetch(r.states, transpose<1, 0, 2>(t.states)), with(x, operands<float>::x_values()));
  BOOST_CHECK(a == b);
}

BOOST_AUTO_TEST_CASE(a_long_sequence_may_be_read_in_parts) {
  graph g;
  auto x = placeholder<double, dims<batch, 5, features>>(g, "x");
  const nn::stacked<lstm<double>, 2> layer;
  const auto whole = layer(x);
  const auto first = layer(slice<1, 0, 2>(x));
  const auto rest = layer(
      slice<1, 2, 3>(x), nn::initial_state(first.layers[0].h, first.layers[0].c, first.layers[1].h, first.layers[1].c));
  session s{g};
  const auto [a, b, n] =
      s.run(fetch(whole.layers[1].c, rest.layers[1].c, whole.states - concat<1>(first.states, rest.states)),
            with(x, numbers<double, dims<batch, 5, features>>(5, shape(3, 5, features), 64)));
  for (std::size_t i = 0; i < a.elements(); ++i) BOOST_CHECK_SMALL(a.data()[i] - b.data()[i], 1e-14);
  for (const double d : n) BOOST_CHECK_SMALL(d, 1e-14);
}

BOOST_AUTO_TEST_CASE(variables_have_names_and_first_values) {
  graph g;
  auto x = placeholder<float, dims<batch, steps, features>>(g, "x");
  const auto net = nn::named(tagger(), "net");
  auto y = net(x, mode::training);
  static_assert(std::is_same_v<decltype(y), node<float, dims<batch, 5>>>);
  std::vector<std::string> names;
  for (const variable_description& v : variables(g)) names.push_back(v.name);
  BOOST_CHECK_EQUAL(names.size(), 4 * 3 + 2u);
  BOOST_CHECK_EQUAL(names[0], "net/encoder/0/forward/weights");
  BOOST_CHECK_EQUAL(names[10], "net/encoder/1/backward/recurrent_weights");
  BOOST_CHECK_EQUAL(names[13], "net/decoder/recurrent_weights");
  BOOST_CHECK_EQUAL(nn::parameters(net.encoder).size(), 12u);

  session s{g};
  const auto u = s.get(net.encoder.layers[0].forward.recurrent_weights.as<dims<8, 32>>());
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 8; ++j) {
      double product = 0;
      for (int k = 0; k < 32; ++k) product += static_cast<double>(u(i, k)) * u(j, k);
      BOOST_CHECK_SMALL(product - (i == j), 1e-6);
    }
  const auto b = s.get(net.encoder.layers[0].forward.bias.as<dims<32>>());
  for (int i = 0; i < 32; ++i) BOOST_CHECK_EQUAL(b(i), i / 8 == 1 ? 1 : 0);
  const auto in = numbers<float, dims<batch, steps, features>>(5, shape(3, 5, features));
  BOOST_CHECK(!(s.eval(y, with(x, in)) == s.eval(y, with(x, in))));  // dropout
}

BOOST_AUTO_TEST_CASE(orthogonal_first_values) {
  const auto check = []<int Rows, int Columns>(dims<Rows, Columns>) {
    graph g(7), same(7), other(8);
    const auto of = [](graph& g) { return variable<double, dims<Rows, Columns>>(g, "v", init::orthogonal{2}); };
    auto v = of(g), w = of(same), u = of(other);
    const auto a = session{g}.get(v);
    BOOST_CHECK(a == session{same}.get(w));
    BOOST_CHECK(!(a == session{other}.get(u)));
    constexpr int count = Rows < Columns ? Rows : Columns;
    for (int i = 0; i < count; ++i)
      for (int j = 0; j < count; ++j) {
        double product = 0;
        for (int k = 0; k < (Rows < Columns ? Columns : Rows); ++k)
          product += Rows < Columns ? a(i, k) * a(j, k) : a(k, i) * a(k, j);
        BOOST_CHECK_SMALL(product - (i == j ? 4 : 0), 1e-12);
      }
  };
  check(dims<7, 30>());
  check(dims<30, 7>());
  check(dims<40, 40>());
  graph g;
  BOOST_CHECK(test::code_of([&] { (void)variable<float, dims<3>>(g, "v", init::orthogonal{}); }) ==
              error_code::invalid_argument);
}

BOOST_AUTO_TEST_CASE(layers_are_steps_of_sequential) {
  graph g;
  auto x = placeholder<float, dims<batch, 6, features>>(g, "x");
  auto target = placeholder<float, dims<batch, 1>>(g, "target");
  const auto net = nn::named(
      nn::sequential(nn::lstm<12>(), nn::all_states, nn::bidirectional<nn::gru<8>>(), nn::last_state, nn::dense<1>()),
      "net");
  auto y = net(x);
  static_assert(std::is_same_v<decltype(y), node<float, dims<batch, 1>>>);
  auto loss = mean(square(y - target));
  auto train = adam{.learning_rate = 0.02f}.minimize(loss, nn::parameters(net));
  session s{g};
  const auto in = numbers<float, dims<batch, 6, features>>(1, shape(16, 6, features));
  tensor<float, dims<batch, 1>> out(shape(16, 1));
  for (int i = 0; i < 16; ++i) out(i, 0) = in(i, 0, 0) * in(i, 5, 1);  // of the first step and the last
  auto step = s.prepare(fetch(loss, train), feed(x, target));
  const float before = std::get<0>(step(in, out));
  float after = before;
  for (int i = 0; i < 200; ++i) after = std::get<0>(step(in, out));
  BOOST_CHECK_LT(after, before / 20);
}

BOOST_AUTO_TEST_CASE(a_description_counts_the_products_of_loops) {
  graph g;
  auto x = placeholder<float, dims<batch, 6, features>>(g, "x");
  const auto net = nn::named(nn::sequential(nn::lstm<5>(), nn::all_states, nn::gru<2>(), nn::last_state), "net");
  static_cast<void>(net(x));  // the second call shares some of its nodes
  const std::string text = nn::describe(net, x);
  // 6 steps of products [features, gates * units] and [units, gates * units].
  const std::string of_lstm = "1,080", of_gru = "252";
  static_assert(6 * (4 * 20 + 5 * 20) == 1080 && 6 * (5 * 6 + 2 * 6) == 252);
  for (const std::string& n : {of_lstm, of_gru, std::string("1,332")})
    BOOST_CHECK_MESSAGE(test::contains(text, n), "missing: " << n << "\n" << text);
}
