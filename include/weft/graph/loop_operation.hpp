// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <weft/graph/subgraphs.hpp>
#include <weft/ops/random/fold_in.hpp>

/// The operation that while_loop and scan record.
WEFT_COLD_BEGIN
namespace weft {

/// A loop with variables, rows that each iteration reads and writes, and invariants.
///
/// Inputs: the number of iterations, if `counted`; the variables' initial values; rows to read, [max_iterations, ...];
/// invariants. Outputs: the variables' last values; the written rows; if `kept`, the variables' values before each
/// iteration, [max_iterations, ...]; if `conditional`, the number of iterations; if max_iterations is a named extent,
/// an empty output of shape [max_iterations] that provides its value. Rows written by iterations that did not run are
/// zero; kept rows of such iterations are unspecified.
///
/// Subgraphs: the condition, if any, with variables and invariants as parameters; then the body, with variables, rows
/// to read and invariants as parameters. The body returns the variables and the rows to write.
///
/// The gradient of a loop is therefore also a loop, in the opposite direction and without a condition. Its variables
/// are the gradients of the variables and the sums of the invariants' gradients, and it reads the rows that the first
/// loop kept.
struct loop_op {
  static constexpr const char* name = "while_loop";
  static constexpr const char* onnx = "loop()";
  static constexpr std::int64_t unbounded = -1;
  struct attributes {
    attribute<std::int64_t> max_iterations;  ///< unbounded, a number, or the code of a named extent
    attribute<std::size_t> variables, rows_read, rows_written;
    attribute<bool> conditional, counted, kept, backwards;
    attribute<std::size_t> products;  ///< number of written rows, the last ones, that only gradients read
  };

  static kernel* prepare(const prepare_context&, const attributes&);
  static std::size_t workspace_bytes(const prepare_context&);
  static bool optional(const node_def&, std::uint32_t output);
  static std::int64_t iterations(const node_def& c) { return attributes_of<loop_op>(c).max_iterations; }
  static void gradient(gradient_context&, const attributes&);
};

// Unlike other GPU kernels, this one is available in every source file: it only launches the kernels of its subgraphs.
template <>
inline constinit gpu::preparation gpu::preparation_of<loop_op>{
    nullptr,
    [](const prepare_context& p, gpu::device&) { return loop_op::prepare(p, attributes_of<loop_op>(p.node)); }};

namespace detail {

/// The positions of a loop's operands among the node's inputs and outputs.
struct loop_signature : loop_op::attributes {
  explicit loop_signature(const loop_op::attributes& a) : loop_op::attributes(a) {}
  explicit loop_signature(const node_def& c) : loop_signature(attributes_of<loop_op>(c)) {}

  bool is_bounded() const { return max_iterations != loop_op::unbounded; }
  bool has_named_bound() const { return max_iterations < loop_op::unbounded; }
  /// Returns true if all max_iterations iterations run, whatever the values.
  bool is_exact() const { return !conditional && !counted; }

  std::size_t variable_in(std::size_t j) const { return counted + j; }
  std::size_t row_in(std::size_t r) const { return variable_in(variables) + r; }
  std::size_t invariant_in(std::size_t i) const { return row_in(rows_read) + i; }

  std::size_t row_out(std::size_t r) const { return variables + r; }
  std::size_t kept_out(std::size_t j) const { return row_out(rows_written) + j; }
  std::size_t iterations_out() const { return kept_out(kept ? std::size_t(variables) : 0); }
  std::size_t bound_out() const { return iterations_out() + conditional; }
};

inline std::size_t whole_lines(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

/// Returns the type and extents of one row.
inline value_info row_of(const value_info& rows) {
  value_info row{rows.type, {}};
  for (std::size_t i = 1; i < rows.extents.rank; ++i) row.extents.push_back(rows.extents[i]);
  return row;
}
inline value_info rows_of(std::int64_t count, const value_info& row) {
  value_info rows{row.type, {}};
  rows.extents.push_back(count);
  for (std::size_t i = 0; i < row.extents.rank; ++i) rows.extents.push_back(row.extents[i]);
  return rows;
}

/// GPU kernels access 16 bytes at a time. Unaligned rows are copied to the loop's workspace first.
inline bool is_row_staged(std::size_t bytes) { return bytes % 16 != 0; }

/// Returns true if a variable's values of all iterations can be kept: the rank allows another axis, and the known
/// extents fit into memory.
inline bool can_be_kept(const value_info& variable, std::int64_t count) {
  bool fits = variable.extents.rank < max_rank;
  std::int64_t elements = 8;
  fits = fits && (count < 0 || !__builtin_mul_overflow(elements, count, &elements));
  for (std::size_t i = 0; i < variable.extents.rank; ++i)
    if (variable.extents[i] > 0) fits = fits && !__builtin_mul_overflow(elements, variable.extents[i], &elements);
  return fits;
}

/// If a subgraph draws random numbers, adds the random position as the last loop variable. The body folds a key of the
/// loop into it in each iteration.
inline void add_random_position(graph& where, node_def& c, loop_op::attributes& a) {
  const std::uint64_t* const no_seed = nullptr;
  bool any = false;
  for (const std::uint32_t b : c.subgraphs) any = any || draws(where.subgraph_at(b));
  if (!any) return;
  const std::uint64_t key = where.random_key(no_seed);
  const loop_signature s(a);
  for (const std::uint32_t b : c.subgraphs) {
    subgraph& body = where.subgraph_at(b);
    const symbol position = record_random_position(body.nodes);
    body.parameters.insert(s.variables, position.id());
    if (b == c.subgraphs.back()) body.results.insert(s.variables, record_fold_in(position, key).id());
  }
  c.inputs.insert(s.variable_in(s.variables), record_fold_in(record_random_position(where), key).id());
  c.outputs.insert(s.variables, {dtype::int64, {}});
  a.variables = a.variables + 1;
}

/// Adds rows for values that a gradient reads instead of computing them again: matrix products or, if a product's only
/// reader is an expression that fuses with it, that expression.
inline void add_products(graph& where, node_def& c, loop_op::attributes& a) {
  subgraph& body = where.subgraph_at(c.subgraphs.back());
  const graph& nodes = body.nodes;
  const sequence<char> reached = nodes_reached(body, true);
  sequence<std::uint32_t> readers(nodes.size(), 0), reader(nodes.size(), 0);
  for (const value& r : body.results) readers[r.node] += 2;
  for (std::uint32_t n = 0; n < nodes.size(); ++n)
    for (const value& in : nodes[n].def.inputs)
      if (reached[n]) ++readers[in.node], reader[in.node] = n;
  for (std::uint32_t n = 0; n < nodes.size(); ++n) {
    if (!reached[n] || nodes[n].def.op->fusion != fusion_kind::product) continue;
    value kept{n, 0};
    const node_def& next = nodes[reader[n]].def;
    if (readers[n] == 1 && next.op->fusion == fusion_kind::expression && next.outputs[0] == nodes.info(kept))
      kept.node = reader[n];
    if (!can_be_kept(nodes.info(kept), a.max_iterations)) continue;
    body.results.push_back(kept);
    c.outputs.push_back(rows_of(a.max_iterations, nodes.info(kept)));
    a.rows_written = a.rows_written + 1;
    a.products = a.products + 1;
  }
}

/// Records the node of a loop. `c` contains the inputs, the subgraphs and the outputs of the subgraphs.
inline symbol record_loop(graph& where, node_def c, loop_op::attributes a) {
  add_captured(where, c);
  add_random_position(where, c, a);
  if (loop_signature(a).is_bounded()) add_products(where, c, a);
  a.kept = loop_signature(a).is_bounded();
  for (std::size_t j = 0; j < a.variables; ++j) a.kept = a.kept && can_be_kept(c.outputs[j], a.max_iterations);
  for (std::size_t j = 0; a.kept && j < a.variables; ++j) c.outputs.push_back(rows_of(a.max_iterations, c.outputs[j]));
  if (a.conditional) c.outputs.push_back({dtype::int64, {}});
  if (loop_signature(a).has_named_bound()) c.outputs.push_back(rows_of(a.max_iterations, {dtype::boolean, {}}));
  c.op = &operation_of<loop_op>;
  c.attributes = words_of(a);
  return where.record(static_cast<node_def&&>(c));
}

}  // namespace detail

inline bool loop_op::optional(const node_def& c, std::uint32_t output) {
  return output >= detail::loop_signature(c).row_out(0);
}

}  // namespace weft
WEFT_COLD_END
