// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <weft/graph/loop_operation.hpp>
#include <weft/graph/subgraphs.hpp>
#include <weft/ops/arrays/transpose.hpp>
#include <weft/ops/products/matmul.hpp>

/// The gradient of a loop: a loop in the opposite direction.
WEFT_COLD_BEGIN
namespace weft {
namespace detail {

/// Records the gradient of a loop: a loop over the body's gradient in the opposite direction.
///
/// The gradient of an invariant is a sum over iterations. If it is the gradient of a matrix product or of rows read by
/// index (operation::stacks), one call over the stacked operands of all iterations replaces the sum: the loop writes
/// the operands as rows and sums nothing.
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

  /// A value outside the loop and the body's parameter for it.
  struct operand {
    symbol inside, outside;
  };
  /// A call for an invariant that is made once, after the loop.
  struct stacked_call {
    std::size_t input;
    node_def call;
    sequence<std::size_t> written;  // for each operand, the row that the loop writes, or no_row
  };

  symbol parameter(const value_info& info) { return make_parameter(made_, info); }
  const value_info& input_info(std::size_t i) const { return g_.input(i).info(); }

  /// Records the body's computation and its gradient.
  void differentiate() {
    const std::size_t first = of_.variable_in(0);
    for (std::size_t i = first; i < g_.node.inputs.size(); ++i)
      operands_.push_back(parameter(is_row(i) ? row_of(input_info(i)) : input_info(i)));
    sequence<operand> products;  // created before the nodes that read them
    for (std::size_t r = of_.rows_written - of_.products; r < of_.rows_written; ++r)
      products.push_back({parameter(row_of(g_.node.outputs[of_.row_out(r)])), g_.output(of_.row_out(r))});
    for (std::size_t i = of_.invariant_in(0); i < g_.node.inputs.size(); ++i) {
      const value_info& v = input_info(i);
      transposed_.push_back(v.type == dtype::float32 && v.extents.rank == 2
                                ? parameter({v.type, shape(v.extents[1], v.extents[0])})
                                : symbol());
      invariants_.push_back({operand_of(i), g_.input(i)});
    }
    const sequence<symbol> results =
        copy_subgraph(where_.subgraph_at(g_.node.subgraphs.back()), made_.nodes, operands_);
    sequence<symbol> from, upstream, wanted;
    for (std::size_t j = 0; j < of_.variables; ++j) {
      if (!is_floating(g_.node.outputs[j].type)) continue;
      from.push_back(results[j]);
      upstream.push_back(parameter(g_.node.outputs[j]));
      upstream_.push_back(upstream.back());
    }
    for (std::size_t r = 0; r < of_.rows_written; ++r) {
      const std::size_t o = of_.row_out(r);
      if (!g_.has_upstream(o)) continue;
      from.push_back(results[o]);
      upstream.push_back(parameter(row_of(g_.node.outputs[o])));
      rows_.push_back({upstream.back(), g_.upstream(o)});
    }
    for (std::size_t i = first; i < g_.node.inputs.size(); ++i)
      if (is_wanted(i)) wanted.push_back(operand_of(i));
    const sequence<symbol> gradients = made_.nodes.differentiate(from, upstream, wanted);
    for (std::size_t k = 0; k < products.size(); ++k) {
      read_instead(results[of_.row_out(of_.rows_written - of_.products + k)].id(), products[k].inside.id());
      rows_.push_back(products[k]);
    }
    gradients_.resize(g_.node.inputs.size());
    for (std::size_t i = first, next = 0; i < g_.node.inputs.size(); ++i)
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
  /// Multiplying by a transposed invariant is slower, so the invariant is transposed once, outside the loop.
  void transpose_invariants() {
    for (std::size_t k = 0; k < transposed_.size(); ++k) {
      const std::size_t i = of_.invariant_in(0) + k;
      bool any = false;
      for (std::uint32_t n = 0; n < made_.nodes.size() && !transposed_[k].is_number(); ++n) {
        node_def& c = made_.nodes.rewrite(n);
        if (!is_operation<matmul_op<float>>(c.op) || !(c.inputs[1] == operand_of(i).id())) continue;
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

  /// Adds the gradients of the last values and of the kept values to the gradients of variables.
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
  /// Returns the number of the row to which the loop writes a value; adds one if necessary.
  std::size_t written_row(value v) {
    std::size_t r = 0;
    while (r < written_.size() && !(written_[r] == v)) ++r;
    if (r == written_.size()) written_.push_back(v);
    return r;
  }

  void add_invariants() {
    for (std::size_t i = of_.invariant_in(0); i < g_.node.inputs.size(); ++i) {
      if (!is_wanted(i) || gradients_[i].is_number()) continue;
      if (stack(i)) continue;
      const symbol sum = parameter(input_info(i));
      add_variable(sum, sum + gradients_[i], fill(where_, input_info(i), 0), i);
    }
  }
  /// Returns true if the gradient is computed after the loop. Matrix products require that all iterations run: they
  /// would multiply the zeros of skipped iterations.
  bool stack(std::size_t i) {
    const graph_node& n = made_.nodes[gradients_[i].id().node];
    if (!n.def.op->stacks || !n.def.op->stacks(n.def)) return false;
    if (!of_.is_exact() && n.def.op->fusion == fusion_kind::product) return false;
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
    const sequence<char> needed = nodes_reached(made_);  // a second gradient may read parameters that this one does not
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
      // Rows of iterations that did not run have index 0. The identity hides the rows from updates by rows, which would
      // otherwise update row 0 of the variable.
      g_.set_gradient(s.input, of_.is_exact() ? sum : record_identity(sum));
    }
  }

  gradient_context& g_;
  const loop_signature of_;
  graph& where_;
  const std::uint32_t number_;
  subgraph& made_;
  sequence<symbol> operands_, gradients_;  // for each input after the count; for each input
  sequence<symbol> upstream_;              // for each floating variable
  sequence<operand> rows_, invariants_;    // available to an iteration
  sequence<symbol> transposed_;            // a parameter for each invariant that is a matrix
  sequence<value> written_;
  sequence<std::size_t> variable_of_;  // for each variable of the gradient loop, the input whose gradient it is
  sequence<std::pair<std::size_t, std::size_t>> row_of_;
  sequence<stacked_call> stacked_;
  node_def back_;
};

}  // namespace detail

inline void loop_op::gradient(gradient_context& g, const attributes& a) {
  if (!a.kept)
    throw error(error_code::failed_precondition, name,
                a.max_iterations == unbounded
                    ? "its gradient stores the loop variables of every iteration, so it needs a bound on the "
                      "iterations: while_loop(condition, body, {.max_iterations = n}, ...)"
                    : "its gradient stores the loop variables of every iteration, but these exceed the size of any "
                      "memory, or have 8 axes already");
  detail::loop_gradient(g, a).record();
}

}  // namespace weft
WEFT_COLD_END
