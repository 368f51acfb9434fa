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
  return record_untyped(node<T>(a) + node<T>(b), a.extents());
}
template <class T>
symbol select(const symbol& condition, const symbol& a, const symbol& b) {
  return record_untyped(weft::select(node<bool>(condition), node<T>(a), node<T>(b)), a.extents());
}

/// One step of a cell: computes the new states from the old ones and the input's product.
struct cell_step {
  symbol x, recurrent_weights, recurrent_bias;
  symbol states[2];
};

template <class T>
struct simple_cell {
  static constexpr std::size_t states = 1;
  static constexpr bool adds_bias_to_product = false;
  const activation_option<T>& activation;

  void operator()(cell_step& s) const {
    s.states[0] = activation.apply(matmul<T>(s.states[0], s.recurrent_weights), s.x);
  }
};

/// Hochreiter and Schmidhuber, Neural Computation 1997, with the forget gate of Gers et al. 2000.
template <class T>
struct lstm_cell {
  static constexpr std::size_t states = 2;
  static constexpr bool adds_bias_to_product = false;

  void operator()(cell_step& s) const {
    using leaf = node<T>;
    const symbol gates = split_gates<T>(add<T>(s.x, matmul<T>(s.states[0], s.recurrent_weights)), 4);
    const leaf i(gates), f(gates.output(1)), g(gates.output(2)), o(gates.output(3)), c(s.states[1]);
    s.states[1] = record_untyped(weft::sigmoid(f) * c + weft::sigmoid(i) * weft::tanh(g), gates.extents());
    s.states[0] = record_untyped(weft::sigmoid(o) * weft::tanh(leaf(s.states[1])), gates.extents());
  }
};

/// Cho et al., EMNLP 2014, in the form of cuDNN, whose reset gate is applied after the product.
template <class T>
struct gru_cell {
  static constexpr std::size_t states = 1;
  static constexpr bool adds_bias_to_product = true;  ///< the recurrent bias is multiplied by the reset gate

  void operator()(cell_step& s) const {
    using leaf = node<T>;
    symbol product = matmul<T>(s.states[0], s.recurrent_weights);
    if (!s.recurrent_bias.is_number()) product = add<T>(product, s.recurrent_bias);
    const symbol from_x = split_gates<T>(s.x, 3), from_h = split_gates<T>(product, 3);
    const leaf xr(from_x), xz(from_x.output(1)), xn(from_x.output(2));
    const leaf hr(from_h), hz(from_h.output(1)), hn(from_h.output(2)), h(s.states[0]);
    const leaf z(record_untyped(weft::sigmoid(xz + hz), from_x.extents()));
    s.states[0] = record_untyped(z * h + (T(1) - z) * weft::tanh(xn + weft::sigmoid(xr + hr) * hn), from_x.extents());
  }
};

/// Returns [time, batch, 1] of bool: true before the end of a sequence.
inline symbol record_valid_steps(const symbol& x, const symbol& lengths) {
  const std::int64_t time = x.extents()[0], batch = x.extents()[1];
  const symbol steps = reshape(record_steps(*x.builder(), time), shape(time, 1));
  return reshape(record_untyped(node<std::int32_t>(steps) < node<std::int32_t>(lengths), shape(time, batch)),
                 shape(time, batch, 1));
}

/// Records all steps, with the variables weights [features, gates * units], recurrent_weights [units, gates * units]
/// and `biases` biases. One product before the loop multiplies the inputs of all steps.
template <class T, class Cell>
recurrent_symbols record_recurrent(const recurrent_call& s, const layer_state& layer,
                                   std::initializer_list<parameter_request> p, std::size_t biases, const Cell& cell) {
  gpu::compile_kernels<matmul_op, T>();
  gpu::compile_kernels<gpu::moves, T>();
  for (const symbol& state : s.states) weft::detail::check_same_graph(layer.kind(), s.x.builder(), state);
  if (!s.lengths.is_number()) weft::detail::check_same_graph(layer.kind(), s.x.builder(), s.lengths);
  layer_call call(layer, s.x, p.begin(), 2 + biases, dtype_of<T>);
  graph& g = graph_of(s.x);
  symbol x = s.time_major ? s.x : swap_batch_and_time<T>(s.x), valid_steps;
  if (!s.lengths.is_number()) {
    valid_steps = record_valid_steps(x, checked_lengths(s.lengths, x.extents()[0]));
    x = without_padding<T>(valid_steps, x);
  }
  symbol products = matmul<T>(x, call[0]);
  if (biases == 2 && !Cell::adds_bias_to_product)
    products = record_untyped(node<T>(products) + node<T>(call[2]) + node<T>(call[3]), products.extents());
  else if (biases > 0)
    products = add<T>(products, call[2]);
  const value_info state{dtype_of<T>, shape(x.extents()[1], p.begin()[1].extents[0])};

  using weft::detail::loop_role;
  sequence<weft::detail::scan_recorder::operand> operands;
  for (std::size_t j = 0; j < Cell::states; ++j)
    operands.push_back({s.states.empty() ? fill(g, state, 0) : s.states[j], loop_role::carry});
  operands.push_back({products, loop_role::rows});
  const std::size_t valid = operands.size();
  if (!s.lengths.is_number()) operands.push_back({valid_steps, loop_role::rows});

  weft::detail::scan_recorder loop(g, operands);
  cell_step step{
      loop.parameter(Cell::states), call[1], biases == 2 && Cell::adds_bias_to_product ? call[3] : symbol(), {}};
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

}  // namespace weft::nn::detail
WEFT_COLD_END
