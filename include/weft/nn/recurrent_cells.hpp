// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/graph/scan.hpp>
#include <weft/nn/activation.hpp>
#include <weft/nn/layer.hpp>
#include <weft/nn/sequence_arguments.hpp>
#include <weft/ops/arrays/concat.hpp>
#include <weft/ops/arrays/transpose.hpp>
#include <weft/ops/products/matmul.hpp>
#include <weft/plan/subgraphs.hpp>

/// The loops of recurrent layers, over symbols, so that extents are not part of types.
WEFT_COLD_BEGIN
namespace weft::nn::detail {

/// A call of a recurrent layer, in symbols.
struct recurrent_call {
  symbol x, lengths;  ///< a plain number if all sequences have the length of x
  sequence<symbol> states;
  bool time_major = false, backwards = false;
};
struct recurrent_symbols {
  symbol states, last[2];
};

/// Exchanges the first two axes.
template <class T>
symbol swap_batch_and_time(const symbol& x) {
  gpu::compile_kernels<gpu::moves, T>();
  return transpose(x, {1, 0, 2});
}

/// Splits the last axis into equal parts, the gates of a cell.
template <class T>
symbol split_gates(const symbol& x, std::int64_t count) {
  gpu::compile_kernels<gpu::moves, T>();
  value_info part = x.info();
  const std::size_t axis = part.extents.rank - 1;
  part.extents[axis] /= count;
  sequence<value_info> parts;
  for (std::int64_t i = 0; i < count; ++i) parts.push_back(part);
  return record<split_op>(sequence<symbol>{x}, parts, {axis});
}

template <class T>
symbol add(const symbol& a, const symbol& b) {
  if (b.is_number()) return a;  // absent
  return record_untyped(node<T>(a) + node<T>(b), a.extents());
}
template <class T>
symbol select(const symbol& condition, const symbol& a, const symbol& b) {
  return record_untyped(weft::select(node<bool>(condition), node<T>(a), node<T>(b)), a.extents());
}

/// The variables of a layer; plain numbers for those that it does not have.
struct recurrent_variables {
  symbol weights, recurrent_weights, bias, recurrent_bias, peephole_weights, projection_weights;
};

/// One step of a cell: computes the new states from the old ones, the input's product, and the values that
/// `invariants` of the cell recorded outside the loop.
struct cell_step {
  symbol x;
  sequence<symbol> invariants;
  symbol states[2];
};

template <class T>
struct simple_cell {
  static constexpr std::size_t states = 1;
  const activation_option<T>& activation;

  symbol input_bias(const recurrent_variables& v) const { return add<T>(v.bias, v.recurrent_bias); }
  sequence<symbol> invariants(const recurrent_variables& v) const { return {v.recurrent_weights}; }
  void operator()(cell_step& s) const { s.states[0] = activation.apply(matmul<T>(s.states[0], s.invariants[0]), s.x); }
};

/// Hochreiter and Schmidhuber, Neural Computation 1997, with the forget gate and the peepholes of Gers et al. 2000 and
/// 2002, and the projection of Sak et al. 2014.
template <class T>
struct lstm_cell {
  static constexpr std::size_t states = 2;
  const bool peepholes, projects;

  symbol input_bias(const recurrent_variables& v) const { return add<T>(v.bias, v.recurrent_bias); }
  sequence<symbol> invariants(const recurrent_variables& v) const {
    sequence<symbol> all{v.recurrent_weights};
    if (peepholes) {
      const symbol gates = split_gates<T>(v.peephole_weights, 3);
      for (std::uint32_t gate = 0; gate < 3; ++gate) all.push_back(gates.output(gate));
    }
    if (projects) all.push_back(v.projection_weights);
    return all;
  }
  void operator()(cell_step& s) const {
    using leaf = node<T>;
    const sequence<symbol>& v = s.invariants;
    const symbol gates = split_gates<T>(add<T>(s.x, matmul<T>(s.states[0], v[0])), 4);
    const shape& extents = gates.extents();
    const leaf i(gates), f(gates.output(1)), g(gates.output(2)), o(gates.output(3)), c(s.states[1]);
    if (!peepholes) {
      s.states[1] = record_untyped(weft::sigmoid(f) * c + weft::sigmoid(i) * weft::tanh(g), extents);
      s.states[0] = record_untyped(weft::sigmoid(o) * weft::tanh(leaf(s.states[1])), extents);
    } else {
      const leaf of_i(v[1]), of_f(v[2]), of_o(v[3]);
      s.states[1] =
          record_untyped(weft::sigmoid(f + of_f * c) * c + weft::sigmoid(i + of_i * c) * weft::tanh(g), extents);
      const leaf next(s.states[1]);
      s.states[0] = record_untyped(weft::sigmoid(o + of_o * next) * weft::tanh(next), extents);
    }
    if (projects) s.states[0] = matmul<T>(s.states[0], v[v.size() - 1]);
  }
};

/// Cho et al., EMNLP 2014, or in the form of cuDNN, whose reset gate is applied after the product.
template <class T>
struct gru_cell {
  static constexpr std::size_t states = 1;
  const bool reset_after;  ///< the reset gate multiplies the product and its bias

  /// Divides columns into those of r and z, and those of n.
  static symbol divide(const symbol& x) {
    value_info gates = x.info(), last = gates;
    const std::size_t axis = x.extents().rank - 1;
    last.extents[axis] /= 3;
    gates.extents[axis] -= last.extents[axis];
    return record<split_op>(sequence<symbol>{x}, {gates, last}, {axis});
  }
  symbol input_bias(const recurrent_variables& v) const {
    if (v.recurrent_bias.is_number()) return v.bias;
    const symbol gates = divide(v.recurrent_bias), last = gates.output(1);
    return add<T>(v.bias,
                  record<concat_op>({gates, fill(*last.builder(), last.info(), 0)}, v.bias.info(), {std::size_t{0}}));
  }
  sequence<symbol> invariants(const recurrent_variables& v) const {
    if (reset_after && v.recurrent_bias.is_number()) return {v.recurrent_weights};
    if (reset_after) return {v.recurrent_weights, divide(v.recurrent_bias).output(1)};
    const symbol parts = divide(v.recurrent_weights);
    return {parts, parts.output(1)};
  }
  void operator()(cell_step& s) const {
    using leaf = node<T>;
    const symbol product = matmul<T>(s.states[0], s.invariants[0]), from_x = split_gates<T>(s.x, 3);
    if (!reset_after) {
      const symbol from_h = split_gates<T>(product, 2);
      const leaf r(from_x), z(from_x.output(1)), n(from_x.output(2)), hr(from_h), hz(from_h.output(1)), h(s.states[0]);
      const symbol kept = record_untyped(weft::sigmoid(r + hr) * h, from_x.extents());
      const leaf hn(matmul<T>(kept, s.invariants[1]));
      const leaf gate(record_untyped(weft::sigmoid(z + hz), from_x.extents()));
      s.states[0] = record_untyped(gate * h + (T(1) - gate) * weft::tanh(n + hn), from_x.extents());
      return;
    }
    const symbol from_h = split_gates<T>(product, 3);
    const leaf xr(from_x), xz(from_x.output(1)), xn(from_x.output(2));
    const leaf hr(from_h), hz(from_h.output(1)), hn(from_h.output(2)), h(s.states[0]);
    const leaf z(record_untyped(weft::sigmoid(xz + hz), from_x.extents()));
    if (s.invariants.size() > 1)
      s.states[0] =
          record_untyped(z * h + (T(1) - z) * weft::tanh(xn + weft::sigmoid(xr + hr) * (hn + leaf(s.invariants[1]))),
                         from_x.extents());
    else
      s.states[0] = record_untyped(z * h + (T(1) - z) * weft::tanh(xn + weft::sigmoid(xr + hr) * hn), from_x.extents());
  }
};

/// A variable of a layer, and true if the layer has it.
struct optional_request {
  parameter_request asked;
  bool used = true;
};

/// Records all steps. `p` requests the members of recurrent_variables in order. One product before the loop multiplies
/// the inputs of all steps.
template <class T, class Cell>
recurrent_symbols record_recurrent(const recurrent_call& s, const layer_state& layer,
                                   std::initializer_list<optional_request> p, const Cell& cell) {
  gpu::compile_kernels<matmul_op, T>();
  gpu::compile_kernels<gpu::moves, T>();
  for (const symbol& state : s.states) weft::detail::check_same_graph(layer.kind(), s.x.builder(), state);
  if (!s.lengths.is_number()) weft::detail::check_same_graph(layer.kind(), s.x.builder(), s.lengths);
  sequence<parameter_request> asked;
  for (const optional_request& each : p)
    if (each.used) asked.push_back(each.asked);
  layer_call call(layer, s.x, asked.data(), asked.size(), dtype_of<T>);
  symbol made[6];
  for (std::size_t i = 0, next = 0; i < p.size(); ++i)
    if (p.begin()[i].used) made[i] = call[next++];
  const recurrent_variables v{made[0], made[1], made[2], made[3], made[4], made[5]};
  graph& g = graph_of(s.x);
  symbol x = s.time_major ? s.x : swap_batch_and_time<T>(s.x), valid_steps;
  if (!s.lengths.is_number()) {
    const std::int64_t time = x.extents()[0], batch = x.extents()[1];
    valid_steps = weft::detail::record_valid_steps(checked_lengths(s.lengths, time), shape(time, batch, 1), 1, 0);
    x = without_padding<T>(valid_steps, x);
  }
  const symbol bias = cell.input_bias(v);  // before the product, which can then include the sum
  const symbol products = add<T>(matmul<T>(x, v.weights), bias);
  const shape& recurrent = v.recurrent_weights.extents();
  const std::int64_t widths[] = {recurrent[0], recurrent[1] / 4};  // of h, and of the c of an LSTM

  using weft::detail::loop_role;
  sequence<weft::detail::scan_recorder::operand> operands;
  for (std::size_t j = 0; j < Cell::states; ++j)
    operands.push_back({s.states.empty() ? fill(g, {dtype_of<T>, shape(x.extents()[1], widths[j])}, 0) : s.states[j],
                        loop_role::carry});
  operands.push_back({products, loop_role::rows});
  const std::size_t valid = operands.size();
  if (!s.lengths.is_number()) operands.push_back({valid_steps, loop_role::rows});

  const sequence<symbol> invariants = cell.invariants(v);
  weft::detail::scan_recorder loop(g, operands);
  cell_step step{loop.parameter(Cell::states), {}, {}};
  for (const symbol& each : invariants) step.invariants.push_back(node<T>(each).erased());  // captured
  for (std::size_t j = 0; j < Cell::states; ++j) step.states[j] = loop.parameter(j);
  cell(step);
  symbol row = step.states[0];
  if (valid < operands.size()) {  // after its end, a sequence keeps its state
    const symbol is_valid = loop.parameter(valid);
    for (std::size_t j = 0; j < Cell::states; ++j)
      step.states[j] = select<T>(is_valid, step.states[j], loop.parameter(j));
    row = select<T>(is_valid, row, fill(*row.builder(), row.info(), 0));
  }
  for (std::size_t j = 0; j < Cell::states; ++j) loop.body().result_of(step.states[j]);
  loop.body().result_of(row);
  loop.body().end();
  loop.record(s.backwards);
  recurrent_symbols result{loop.stacked(0), {}};
  for (std::size_t j = 0; j < Cell::states; ++j) result.last[j] = loop.last(j);
  if (!s.time_major) result.states = swap_batch_and_time<T>(result.states);
  call.result(result.states);
  return result;
}

// weft::compiled contains these in an object file of its own, which only programs with recurrent layers link.
#if defined(WEFT_RECURRENT_SOURCE)
  #define WEFT_INSTANTIATE_CELL template
#elif defined(WEFT_SEPARATE_RECURRENT) && !WEFT_COMPILES_FOR_GPU
  #define WEFT_INSTANTIATE_CELL extern template
#endif
#if defined(WEFT_INSTANTIATE_CELL)
WEFT_INSTANTIATE_CELL recurrent_symbols record_recurrent<float>(const recurrent_call&, const layer_state&,
                                                                std::initializer_list<optional_request>,
                                                                const simple_cell<float>&);
WEFT_INSTANTIATE_CELL recurrent_symbols record_recurrent<float>(const recurrent_call&, const layer_state&,
                                                                std::initializer_list<optional_request>,
                                                                const lstm_cell<float>&);
WEFT_INSTANTIATE_CELL recurrent_symbols record_recurrent<float>(const recurrent_call&, const layer_state&,
                                                                std::initializer_list<optional_request>,
                                                                const gru_cell<float>&);
  #undef WEFT_INSTANTIATE_CELL
#endif

}  // namespace weft::nn::detail
WEFT_COLD_END
