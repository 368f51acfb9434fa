#pragma once

#include <utility>

#include <weft/graph/subgraphs.hpp>
#include <weft/ops/fold_in.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/transpose.hpp>

/// The operation that while_loop and scan record, and its gradient.
namespace weft {

/// A value that each iteration reads, and none changes: `invariant(weights)`.
template <Expression X>
struct loop_invariant {
  X value;
};
/// An operand of while_loop or scan that its functions are given as it is, and that the body does not return. Its
/// gradient is the sum of those of all iterations.
template <Expression X>
[[nodiscard]] auto invariant(const X& x) {
  return loop_invariant<X>{x};
}

/// A body returns the loop variables in their order, of the same elements and extents.
template <class Variables, class Results>
struct loop_variables_change : mistake<!std::is_same_v<Variables, Results>> {};

WEFT_COLD_BEGIN

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
  static void gradient(gradient_context&, const attributes&);
};

// It has kernels for GPUs in every file: these launch those of their subgraphs.
template <>
inline constinit gpu::preparation gpu::preparation_of<loop_op>{
    nullptr, [](const prepare_context& p, gpu::device&) { return loop_op::prepare(p, attributes_of<loop_op>(p.c)); }};

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

class loop_kernel_with_subgraphs final : public kernel_with_subgraphs {
 public:
  loop_kernel_with_subgraphs(const prepare_context& p, const loop_op::attributes& a) : kernel_with_subgraphs(p), s_(a) {
    for (std::size_t j = 0; j < s_.variables; ++j) bytes_.push_back(p.outputs[j].bytes());
    for (std::size_t r = 0; r < s_.rows_read; ++r) read_bytes_.push_back(row_of(p.inputs[s_.row_in(r)]).bytes());
    for (std::size_t r = 0; r < s_.rows_written; ++r)
      written_bytes_.push_back(row_of(p.outputs[s_.row_out(r)]).bytes());
    bound_ = !s_.is_bounded()       ? INT64_MAX
             : s_.has_named_bound() ? p.outputs[s_.bound_out()].extents[0]
                                    : std::int64_t(s_.max_iterations);
    now_.resize(s_.variables);
    results_.resize(s_.variables + s_.rows_written);
  }

  void run(const kernel_context& f) override {
    std::int64_t limit = s_.counted ? read<std::int64_t>(f, f.buffers[inputs_[0]]) : bound_, n = 0;
    if (limit > bound_) limit = bound_;
    for (std::size_t j = 0; j < s_.variables; ++j) now_[j] = f.buffers[inputs_[s_.variable_in(j)]];
    for (; n < limit && (!s_.conditional || goes_on(f)); ++n) iterate(f, n, limit);
    for (std::size_t j = 0; j < s_.variables; ++j)
      if (std::byte* const to = f.buffers[outputs_[j]]; now_[j] != to) copy(f, to, now_[j], bytes_[j]);
    for (std::size_t r = 0; r < s_.rows_written && n < bound_; ++r)
      if (std::byte* const rows = f.buffers[outputs_[s_.row_out(r)]])
        clear(f, rows + static_cast<std::size_t>(n) * written_bytes_[r],
              static_cast<std::size_t>(bound_ - n) * written_bytes_[r]);
    if (!s_.conditional) return;
    iterations_ = n;  // stays where a GPU copies it from until the host has waited for it
    if (std::byte* const to = f.buffers[outputs_[s_.iterations_out()]])
      copy(f, to, reinterpret_cast<const std::byte*>(&iterations_), sizeof iterations_);
  }
  std::string describe() const override {
    std::string text = str_cat({"loop of ", bytes_.size(), " variables"});
    if (s_.is_bounded()) append(text, {s_.is_exact() ? ", " : ", at most ", bound_, " times"});
    if (s_.backwards) text += ", backwards";
    return text;
  }

 private:
  static void clear(const kernel_context& f, std::byte* at, std::size_t bytes) {
    if (f.queue)
      f.queue->clear(at, bytes);
    else
      __builtin_memset(at, 0, bytes);
  }

  void add_invariants(const kernel_context& f) {
    for (std::size_t i = s_.invariant_in(0); i < inputs_.size(); ++i) parameters_.push_back(f.buffers[inputs_[i]]);
  }

  bool goes_on(const kernel_context& f) {
    parameters_.clear();
    for (std::byte* const at : now_) parameters_.push_back(at);
    add_invariants(f);
    std::byte* const decision = memory(f);
    run_subgraph(f, 0, parameters_.data(), &decision);
    return read<bool>(f, decision);
  }

  /// Values of variables go to and fro between the outputs and memory of the kernel's own or, if they are kept, from
  /// row to row.
  void iterate(const kernel_context& f, std::int64_t n, std::int64_t limit) {
    const auto row = static_cast<std::size_t>(s_.backwards ? limit - 1 - n : n);
    std::byte* own = memory(f) + alignment;
    const auto take = [&](std::size_t bytes) { return std::exchange(own, own + whole_lines(bytes)); };
    const auto is_staged = [&](std::size_t bytes) { return f.queue && is_row_staged(bytes); };
    parameters_.clear();
    for (std::size_t j = 0; j < s_.variables; ++j) {
      std::byte* const mine = take(bytes_[j]);
      std::byte* const last = f.buffers[outputs_[j]];
      results_[j] = now_[j] == last ? mine : last;
      if (std::byte* const rows = s_.kept ? f.buffers[outputs_[s_.kept_out(j)]] : nullptr) {
        if (std::byte* const here = rows + row * bytes_[j]; now_[j] != here) copy(f, here, now_[j], bytes_[j]);
        if (n + 1 < limit && !is_staged(bytes_[j]))
          results_[j] = s_.backwards ? rows + (row - 1) * bytes_[j] : rows + (row + 1) * bytes_[j];
      }
      parameters_.push_back(now_[j]);
    }
    for (std::size_t r = 0; r < s_.rows_read; ++r) {
      std::byte* const from = f.buffers[inputs_[s_.row_in(r)]] + row * read_bytes_[r];
      parameters_.push_back(is_staged(read_bytes_[r]) ? take(read_bytes_[r]) : from);
      if (parameters_.back() != from) copy(f, parameters_.back(), from, read_bytes_[r]);
    }
    add_invariants(f);
    const auto written = [&](std::size_t r) {
      std::byte* const rows = f.buffers[outputs_[s_.row_out(r)]];
      return rows ? rows + row * written_bytes_[r] : nullptr;
    };
    for (std::size_t r = 0; r < s_.rows_written; ++r) {
      std::byte* const mine = take(written_bytes_[r]);
      results_[s_.variables + r] = written(r) && !is_staged(written_bytes_[r]) ? written(r) : mine;
    }
    run_subgraph(f, s_.conditional ? 1 : 0, parameters_.data(), results_.data());
    for (std::size_t r = 0; r < s_.rows_written; ++r)
      if (std::byte* const from = results_[s_.variables + r]; written(r) && from != written(r))
        copy(f, written(r), from, written_bytes_[r]);
    for (std::size_t j = 0; j < s_.variables; ++j) now_[j] = results_[j];
  }

  loop_signature s_;
  std::int64_t bound_;
  sequence<std::size_t> bytes_, read_bytes_, written_bytes_;
  sequence<std::byte*> now_, parameters_, results_;
  std::int64_t iterations_ = 0;
};

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
    if (!reached[n] || nodes[n].def.op->part != fusion_kind::product) continue;
    value kept{n, 0};
    const node_def& next = nodes[reader[n]].def;
    if (readers[n] == 1 && next.op->part == fusion_kind::expression && next.outputs[0] == nodes.info(kept))
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

/// Writes the gradient of a loop: the loop of the body's gradient, in the other direction.
///
/// The gradient of an invariant is a sum over iterations. That of a product is one product, if its factors are stacked
/// (operation::stacks), and so is that of rows that are read: then the loop writes the factors, and sums nothing.
class loop_gradient {
 public:
  loop_gradient(gradient_context& g, const loop_op::attributes& a)
      : g_(g),
        of_(a),
        where_(*static_cast<graph*>(g.output(0).builder())),
        number_(where_.add_subgraph("gradient")),
        made_(where_.subgraph_at(number_)) {}

  void record() {
    differentiate();
    add_variables();
    add_rows();
    add_invariants();
    record_backwards();
  }

 private:
  static constexpr std::size_t no_row = ~std::size_t{0};

  /// A value of the graph around the loop, and the parameter that it is in the body.
  struct operand {
    symbol inside, outside;
  };
  /// A call that is made once, behind the loop, for an invariant.
  struct stacked_call {
    std::size_t input;
    node_def call;
    sequence<std::size_t> written;  // the row that the loop writes for each operand, or no_row
  };

  symbol parameter(const value_info& info) { return make_parameter(made_, info); }
  const value_info& input_info(std::size_t i) const { return g_.input(i).info(); }

  /// Writes what an iteration computes, and its gradient.
  void differentiate() {
    const std::size_t first = of_.variable_in(0);
    for (std::size_t i = first; i < g_.c.inputs.size(); ++i)
      operands_.push_back(parameter(is_row(i) ? row_of(input_info(i)) : input_info(i)));
    sequence<operand> products;  // before what reads them
    for (std::size_t r = of_.rows_written - of_.products; r < of_.rows_written; ++r)
      products.push_back({parameter(row_of(g_.c.outputs[of_.row_out(r)])), g_.output(of_.row_out(r))});
    for (std::size_t i = of_.invariant_in(0); i < g_.c.inputs.size(); ++i) {
      const value_info& v = input_info(i);
      transposed_.push_back(v.type == dtype::float32 && v.extents.rank == 2
                                ? parameter({v.type, shape(v.extents[1], v.extents[0])})
                                : symbol());
      invariants_.push_back({operand_of(i), g_.input(i)});
    }
    const sequence<symbol> results = copy_subgraph(where_.subgraph_at(g_.c.subgraphs.back()), made_.nodes, operands_);
    sequence<symbol> from, upstream, wanted;
    for (std::size_t j = 0; j < of_.variables; ++j) {
      if (!is_floating(g_.c.outputs[j].type)) continue;
      from.push_back(results[j]);
      upstream.push_back(parameter(g_.c.outputs[j]));
      upstream_.push_back(upstream.back());
    }
    for (std::size_t r = 0; r < of_.rows_written; ++r) {
      const std::size_t o = of_.row_out(r);
      if (!g_.has_upstream(o)) continue;
      from.push_back(results[o]);
      upstream.push_back(parameter(row_of(g_.c.outputs[o])));
      rows_.push_back({upstream.back(), g_.upstream(o)});
    }
    for (std::size_t i = first; i < g_.c.inputs.size(); ++i)
      if (is_wanted(i)) wanted.push_back(operand_of(i));
    const sequence<symbol> gradients = made_.nodes.differentiate(from, upstream, wanted);
    for (std::size_t k = 0; k < products.size(); ++k) {
      read_instead(results[of_.row_out(of_.rows_written - of_.products + k)].id(), products[k].inside.id());
      rows_.push_back(products[k]);
    }
    gradients_.resize(g_.c.inputs.size());
    for (std::size_t i = first, next = 0; i < g_.c.inputs.size(); ++i)
      if (is_wanted(i)) gradients_[i] = gradients[next++];
    for (std::size_t j = 0; j < of_.variables; ++j) rows_.push_back({operands_[j], g_.output(of_.kept_out(j))});
    for (std::size_t r = 0; r < of_.rows_read; ++r)
      rows_.push_back({operand_of(of_.row_in(r)), g_.input(of_.row_in(r))});
    transpose_invariants();
  }
  void read_instead(value of, value other) {
    for (std::uint32_t n = 0; n < made_.nodes.size(); ++n)
      for (value& in : made_.nodes.rewrite(n).inputs)
        if (in == of) in = other;
  }
  /// A product by an invariant that is taken transposed takes longer: it is transposed once, outside.
  void transpose_invariants() {
    for (std::size_t k = 0; k < transposed_.size(); ++k) {
      const std::size_t i = of_.invariant_in(0) + k;
      bool any = false;
      for (std::uint32_t n = 0; n < made_.nodes.size() && !transposed_[k].is_number(); ++n) {
        node_def& c = made_.nodes.rewrite(n);
        if (c.op != &operation_of<matmul_op<float>> || !(c.inputs[1] == operand_of(i).id())) continue;
        const auto t = attributes_of<matmul_op<float>>(c);
        if (t.transpose_a || !t.transpose_b) continue;
        c.inputs[1] = transposed_[k].id();
        c.attributes = words_of(matmul_attributes{false, false});
        any = true;
      }
      if (any) invariants_.push_back({transposed_[k], transpose(g_.input(i), {1, 0})});
    }
  }
  bool is_row(std::size_t i) const { return i >= of_.row_in(0) && i < of_.invariant_in(0); }
  bool is_wanted(std::size_t i) const {
    return i < of_.row_in(0) ? is_floating(g_.input(i).type()) : g_.needs_gradient(i);
  }
  symbol operand_of(std::size_t i) const { return operands_[i - of_.variable_in(0)]; }
  symbol gradient_of(std::size_t i) {
    const symbol d = gradients_[i];
    return d.is_number() ? fill(made_.nodes, operand_of(i).info(), 0) : d;
  }

  /// Gradients of variables are what arrives with the last values, and with each one that was kept.
  void add_variables() {
    for (std::size_t j = 0, floating = 0; j < of_.variables; ++j) {
      const std::size_t i = of_.variable_in(j), kept = of_.kept_out(j);
      if (!is_wanted(i)) continue;
      if (g_.has_upstream(kept)) {
        const symbol arriving = parameter(input_info(i));
        rows_.push_back({arriving, g_.upstream(kept)});
        gradients_[i] = gradients_[i].is_number() ? arriving : gradients_[i] + arriving;
      }
      add_variable(upstream_[floating++], gradient_of(i),
                   g_.has_upstream(j) ? g_.upstream(j) : fill(where_, input_info(i), 0), i);
    }
  }
  void add_variable(symbol inside, symbol next, symbol first, std::size_t input) {
    made_.parameters.push_back(inside.id());
    made_.results.push_back(next.id());
    back_.inputs.push_back(first.id());
    back_.outputs.push_back(next.info());
    variable_of_.push_back(input);
  }

  void add_rows() {
    for (std::size_t r = 0; r < of_.rows_read; ++r) {
      const std::size_t i = of_.row_in(r);
      if (!is_wanted(i) || gradients_[i].is_number()) continue;
      row_of_.push_back({i, written_row(gradients_[i].id())});
    }
  }
  /// The number of the row that the loop writes a value to.
  std::size_t written_row(value v) {
    std::size_t r = 0;
    while (r < written_.size() && !(written_[r] == v)) ++r;
    if (r == written_.size()) written_.push_back(v);
    return r;
  }

  void add_invariants() {
    for (std::size_t i = of_.invariant_in(0); i < g_.c.inputs.size(); ++i) {
      if (!is_wanted(i) || gradients_[i].is_number()) continue;
      if (stack(i)) continue;
      const symbol sum = parameter(input_info(i));
      add_variable(sum, sum + gradients_[i], fill(where_, input_info(i), 0), i);
    }
  }
  /// Whether the gradient is made behind the loop. Products only where all iterations run: they would multiply the
  /// zeros of the others.
  bool stack(std::size_t i) {
    const graph_node& n = made_.nodes[gradients_[i].id().node];
    if (!n.def.op->stacks || !n.def.op->stacks(n.def)) return false;
    if (!of_.is_exact() && n.def.op->part == fusion_kind::product) return false;
    for (const value& v : n.def.inputs)
      if (!can_be_kept(made_.nodes.info(v), of_.max_iterations)) return false;
    stacked_call s{i, n.def, {}};
    for (value& v : s.call.inputs) {
      const operand* known = nullptr;
      for (std::size_t r = 0; r < rows_.size() && of_.is_exact(); ++r)
        if (rows_[r].inside.id() == v) known = &rows_[r];
      s.written.push_back(known ? no_row : written_row(v));
      if (known) v = known->outside.id();
    }
    stacked_.push_back(static_cast<stacked_call&&>(s));
    return true;
  }

  void record_backwards() {
    loop_op::attributes a{
        of_.max_iterations, variable_of_.size(), 0, written_.size(), false, !of_.is_exact(), false, !of_.backwards, 0};
    if (a.counted) back_.inputs.insert(0, of_.conditional ? g_.output(of_.iterations_out()).id() : g_.input(0).id());
    for (const value& v : written_) {
      made_.results.push_back(v);
      back_.outputs.push_back(rows_of(of_.max_iterations, made_.nodes.info(v)));
    }
    const sequence<char> needed = nodes_reached(made_);  // a second gradient may read what this one does not
    const auto give = [&](const operand& o) {
      if (!needed[o.inside.id().node]) return;
      made_.parameters.push_back(o.inside.id());
      back_.inputs.push_back(o.outside.id());
    };
    const std::size_t before = back_.inputs.size();
    for (const operand& o : rows_) give(o);
    a.rows_read = back_.inputs.size() - before;
    for (const operand& o : invariants_) give(o);
    back_.subgraphs = {number_};
    const symbol result =
        a.variables + a.rows_written > 0 ? record_loop(where_, static_cast<node_def&&>(back_), a) : symbol();
    const auto row = [&](std::size_t r) {
      return result.output(static_cast<std::uint32_t>(loop_signature(a).row_out(r)));
    };
    for (std::size_t k = 0; k < variable_of_.size(); ++k)
      g_.set_gradient(variable_of_[k], result.output(static_cast<std::uint32_t>(k)));
    for (const auto& [input, r] : row_of_) g_.set_gradient(input, row(r));
    for (stacked_call& s : stacked_) {
      for (std::size_t k = 0; k < s.written.size(); ++k)
        if (s.written[k] != no_row) s.call.inputs[k] = row(s.written[k]).id();
      const symbol sum = where_.record(static_cast<node_def&&>(s.call));
      // Rows that no iteration has written are numbered 0: an update by rows would take them for rows of the variable.
      g_.set_gradient(s.input, of_.is_exact() ? sum : record_identity(sum));
    }
  }

  gradient_context& g_;
  const loop_signature of_;
  graph& where_;
  const std::uint32_t number_;
  subgraph& made_;
  sequence<symbol> operands_, gradients_;  // for each input behind the count, and for each input
  sequence<symbol> upstream_;              // for each floating variable
  sequence<operand> rows_, invariants_;    // that an iteration may read
  sequence<symbol> transposed_;            // a parameter for each invariant that is a matrix
  sequence<value> written_;
  sequence<std::size_t> variable_of_;  // the input whose gradient a variable is
  sequence<std::pair<std::size_t, std::size_t>> row_of_;
  sequence<stacked_call> stacked_;
  node_def back_;
};

}  // namespace detail

inline bool loop_op::optional(const node_def& c, std::uint32_t output) {
  return output >= detail::loop_signature(c).row_out(0);
}

inline kernel* loop_op::prepare(const prepare_context& p, const attributes& a) {
  return new detail::loop_kernel_with_subgraphs(p, a);
}
inline std::size_t loop_op::workspace_bytes(const prepare_context& p) {
  const detail::loop_signature s(p.c);
  std::size_t bytes = alignment;  // the condition's answer
  for (std::size_t j = 0; j < s.variables; ++j) bytes += detail::whole_lines(p.outputs[j].bytes());
  for (std::size_t r = 0; r < s.rows_read; ++r)
    if (const std::size_t row = detail::row_of(p.inputs[s.row_in(r)]).bytes(); detail::is_row_staged(row))
      bytes += detail::whole_lines(row);
  for (std::size_t r = 0; r < s.rows_written; ++r)
    bytes += detail::whole_lines(detail::row_of(p.outputs[s.row_out(r)]).bytes());
  return bytes;
}

inline void loop_op::gradient(gradient_context& g, const attributes& a) {
  if (!a.kept)
    throw error(error_code::failed_precondition, name,
                a.max_iterations == unbounded
                    ? "its gradient keeps the loop variables of every iteration, and needs to know how many these are "
                      "at most: while_loop(condition, body, {.max_iterations = n}, ...)"
                    : "its gradient keeps the loop variables of every iteration, and these are more than any memory "
                      "holds, or have 8 axes already");
  detail::loop_gradient(g, a).record();
}

namespace detail {

/// The kernels for GPUs that gradients of loops need beside those of their subgraphs: they transpose matrices.
template <class... X>
void compile_loop_kernels() {
  if constexpr ((std::is_same_v<value_t<X>, float> || ...)) gpu::compile_kernels<gpu::moves, float>();
}

template <class X>
inline constexpr bool is_invariant = false;
template <class X>
inline constexpr bool is_invariant<loop_invariant<X>> = true;

}  // namespace detail

WEFT_COLD_END
}  // namespace weft
