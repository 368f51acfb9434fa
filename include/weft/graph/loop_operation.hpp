#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <weft/graph/subgraphs.hpp>
#include <weft/ops/fold_in.hpp>

/// The operation that while_loop and scan record.
WEFT_COLD_BEGIN
namespace weft {

/// A loop with variables, rows that an iteration reads and writes, each its own, and invariants.
///
/// inputs: where it is counted, the number of iterations; the variables' first values; rows to read,
/// [max_iterations, ...]; invariants. outputs: the variables' last values; rows that were written; if they are kept,
/// the variables' values before each iteration, [max_iterations, ...]; where there is a condition, the number of
/// iterations; where max_iterations is a named extent, nothing at all, [max_iterations], which tells it. The written
/// rows of iterations that did not run are zeros, the kept ones hold anything.
///
/// subgraphs: the condition, of variables and invariants, where there is one; then the body, of variables, rows to read
/// and invariants, which yields the variables and the rows to write.
///
/// So the gradient of a loop is one, in the other direction, without a condition: its variables are the gradients of
/// variables and the sums of those of invariants; it reads the rows that the first one kept.
struct loop_op {
  static constexpr const char* name = "while_loop";
  static constexpr std::int64_t unbounded = -1;
  struct attributes {
    attribute<std::int64_t> max_iterations;  ///< unbounded, a number, or the code of a named extent
    attribute<std::size_t> variables, rows_read, rows_written;
    attribute<bool> conditional, counted, kept, backwards;
    attribute<std::size_t> products;  ///< the last of the rows that are written: for a gradient alone
  };

  static kernel* prepare(const prepare_context&, const attributes&);
  static std::size_t workspace_bytes(const prepare_context&);
  static bool optional(const node_def&, std::uint32_t output);
  static std::int64_t iterations(const node_def& c) { return attributes_of<loop_op>(c).max_iterations; }
  static void gradient(gradient_context&, const attributes&);
};

// It has kernels for GPUs in every file: these launch those of their subgraphs.
template <>
inline constinit gpu::preparation gpu::preparation_of<loop_op>{
    nullptr,
    [](const prepare_context& p, gpu::device&) { return loop_op::prepare(p, attributes_of<loop_op>(p.node)); }};

namespace detail {

/// Where the operands of a loop are: their numbers among the node's inputs and outputs.
struct loop_signature : loop_op::attributes {
  explicit loop_signature(const loop_op::attributes& a) : loop_op::attributes(a) {}
  explicit loop_signature(const node_def& c) : loop_signature(attributes_of<loop_op>(c)) {}

  bool is_bounded() const { return max_iterations != loop_op::unbounded; }
  bool has_named_bound() const { return max_iterations < loop_op::unbounded; }
  /// Whether it goes on to the bound, whatever the values are.
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

/// One row of these.
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

/// GPUs' kernels take 16 bytes at a time. They have a copy of rows that lie otherwise, in the loop's own memory.
inline bool is_row_staged(std::size_t bytes) { return bytes % 16 != 0; }

/// Whether rows of a variable can be kept: it has an axis left, and what is known of their extents fits any memory.
inline bool can_be_kept(const value_info& variable, std::int64_t count) {
  bool fits = variable.extents.rank < max_rank;
  std::int64_t elements = 8;
  fits = fits && (count < 0 || !__builtin_mul_overflow(elements, count, &elements));
  for (std::size_t i = 0; i < variable.extents.rank; ++i)
    if (variable.extents[i] > 0) fits = fits && !__builtin_mul_overflow(elements, variable.extents[i], &elements);
  return fits;
}

/// If a body draws random numbers, which it finds by a position, that becomes one variable more, the last: before each
/// iteration it is folded with a key of the loop's own.
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

/// Adds the values that a gradient would rather read than compute again: products or, for one that a single expression
/// reads, which its kernel takes in, that expression.
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

/// The node of a loop: its inputs, subgraphs, and the outputs that its subgraphs yield are there.
inline symbol record_loop(graph& where, node_def c, loop_op::attributes a) {
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
