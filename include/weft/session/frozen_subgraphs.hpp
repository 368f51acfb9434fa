// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/graph/loop_operation.hpp>
#include <weft/plan/kernels.hpp>
#include <weft/session/frozen_kernels.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// The instructions of a frozen step, with those of its subgraphs: loops and branches.
class frozen_subgraphs : public frozen_kernels {
 protected:
  using frozen_kernels::frozen_kernels;

  /// Writes the instructions of the scope, and copies of the results that no instruction writes to their places.
  /// Results without a name are not needed.
  void statements(const sequence<std::string>& results) {
    const program& p = made();
    for (std::uint32_t i = 0; i < p.instructions.size(); ++i) instruction(i);
    for (std::size_t f = 0; f < p.request.fetches.size(); ++f)
      if (const std::string from = used(p.fetch_buffers[f]); !results[f].empty() && from != results[f])
        copy(results[f], from, p.g.info(p.request.fetches[f]));
  }

 private:
  void instruction(std::uint32_t i) {
    const program& p = made();
    const plan::instruction& in = p.instructions[i];
    scope_->current = i;
    if (in.kind != plan::instruction_kind::compute || p.op(in.node).writes || !in.beside.empty())
      refuse("a frozen model writes no variables");
    if (in.on.gpu) refuse("it runs on a GPU");
    code_ += '\n';
    line({"// ", scope_->number, i + 1, ": ", p.name(in), ": ", comment(in)});
    const auto is = [&](const char* name) { return __builtin_strcmp(p.op(in.node).name, name) == 0; };
    if (is("while_loop")) return loop(in.node);
    if (is("cond")) return branches(in.node);
    if (in.leader != plan::none) operation(in.leader, in.node);
    operation(in.node, plan::none);
  }
  std::string comment(const plan::instruction& in) {
    const program& p = made();
    std::string text;
    for (const std::uint32_t n : {in.leader, in.node}) {
      if (n == plan::none) continue;
      const node_def& c = p.def(n);
      append(text, {text.empty() ? "" : ", then ", c.op->name});
      if (c.op->expression) append(text, {" ", skeleton::print(c.op->expression(c.detail)->text)});
    }
    return text + " " + g_.to_string(p.def(in.node).outputs[0].extents);
  }

  /// An operand of a subgraph: the name of its array, or a buffer of the scope around the subgraph.
  struct operand {
    std::string name;
    std::uint32_t same = plan::none;
  };
  /// Writes a subgraph of a node, with memory from `begin` on. Returns for each operand 1 if the subgraph uses it.
  sequence<char> nested(const call& c, std::size_t which, std::size_t begin, const sequence<operand>& operands,
                        const sequence<std::string>& results) {
    plan::compiled_step step(session_, g_.subgraph_at(c.node.subgraphs[which]), {});
    scope inner(step, bound(step, extents_.sample(0)), begin, scope_);
    append(inner.number, {scope_->number, scope_->current + 1, "."});
    indent_ += "  ";
    scope_ = &inner;
    declare_extents();
    const program& p = made();
    for (std::size_t i = 0; i < operands.size(); ++i) {
      inner.names[p.feed_buffers[i]] = operands[i].name;
      inner.captured.push_back(operands[i].same);
    }
    for (std::size_t i = 0; i < results.size(); ++i)
      if (const std::uint32_t b = p.fetch_buffers[i];
          p.buffers[b].kind == plan::buffer_kind::caller || p.buffers[b].kind == plan::buffer_kind::arena)
        if (inner.names[b].empty()) inner.names[b] = results[i];
    statements(results);
    scope_ = inner.around;
    indent_.resize(indent_.size() - 2);
    sequence<char> used;
    for (const std::uint32_t b : p.feed_buffers) used.push_back(inner.declared[b]);
    return used;
  }
  std::size_t workspace(std::uint32_t node) const { return scope_->offset(made().nodes[node].workspace); }

  void branches(std::uint32_t node) {
    const call c = call_of(node);
    sequence<operand> operands;
    sequence<std::string> results;
    for (std::size_t i = 1; i < c.inputs; ++i) operands.push_back({"", c.at[0].input_slots[i]});
    for (std::size_t k = 0; k < c.node.outputs.size(); ++k) results.push_back(output(c, k));
    const bool is_predicate = c.declared[0].type == dtype::boolean;
    const std::size_t count = c.node.subgraphs.size();
    const std::string index = count > 1 ? input(c, 0) : "";
    for (std::size_t b = 0; b < count; ++b) {
      std::string condition = is_predicate ? "(*" + index + ") " : str_cat({"(*", index, " == ", b, ") "});
      line({b ? "} else " : "", b + 1 < count ? "if " : "", b + 1 < count ? condition : "", "{"});
      nested(c, b, workspace(node), operands, results);
    }
    line({"}"});
  }

  /// Writes a loop that does what loop_kernel_with_subgraphs does.
  void loop(std::uint32_t node) {
    const call c = call_of(node);
    const loop_signature s(c.node);
    const weft::subgraph& body = g_.subgraph_at(c.node.subgraphs[s.conditional]);
    std::size_t own = workspace(node);
    const std::size_t memory = own + whole_lines(c.node.op->workspace_bytes(c.at[0]));
    const auto space = [&](const std::string& name, const value_info& v) {
      const std::string made = unique(name);
      declare(made, frozen_type(v.type), own, g_.to_string(v.extents));
      own += whole_lines(static_cast<std::size_t>(bytes(v).at[0]));
      return made;
    };
    const auto given = [&](std::size_t k) {
      return made().buffers[c.result[k]].kind == plan::buffer_kind::unused ? std::string() : output(c, k);
    };
    const auto factor = [&](const frozen_number& n) { return n.is_fixed() ? text(n) : "(" + text(n) + ")"; };
    const std::string bound = s.is_bounded() ? factor(extent(s.max_iterations)) : "", step = unique("step"),
                      row = s.backwards ? unique("row") : step,
                      going_on = s.conditional ? space("going_on", {dtype::boolean, {}}) : "";
    bool is_gradient = s.counted;
    for (std::size_t k = s.kept_out(0); k < s.iterations_out(); ++k) is_gradient = is_gradient || !given(k).empty();
    if (is_gradient) refuse("it is part of a gradient");
    sequence<operand> operands, invariants;
    sequence<std::string> results(s.variables), last, stacked, other(s.variables);
    for (std::size_t i = s.invariant_in(0); i < c.inputs; ++i) invariants.push_back({"", c.at[0].input_slots[i]});
    for (std::size_t r = 0; r < s.rows_written; ++r) {
      const value written = body.results[s.variables + r];
      bool is_state = false;
      for (std::size_t j = 0; j < s.variables; ++j) is_state = is_state || body.results[j] == written;
      stacked.push_back(given(s.row_out(r)));
      results.push_back(!stacked[r].empty() ? unique(stacked[r] + "_row")
                        : is_state          ? ""
                                            : space(body.nodes[written.node].name, body.nodes.info(written)));
    }
    for (std::size_t j = 0; j < s.variables; ++j) {
      const value_info& v = c.declared[s.variable_in(j)];
      const std::string state = unique("state");
      operands.push_back({state});
      last.push_back(output(c, j));
      line({"const ", frozen_type(v.type), "* ", state, " = ", input(c, s.variable_in(j)), ";"});
      for (std::size_t r = 0; r < s.rows_written; ++r)  // a state that is also a row is kept there
        if (body.results[j] == body.results[s.variables + r] && !stacked[r].empty())
          results[j] = results[s.variables + r];
      if (!results[j].empty()) continue;
      results[j] = unique(state + "_next");
      other[j] = space(state + "_memory", v);
    }
    if (!s.is_exact()) line({"std::int64_t ", step, " = 0;"});
    line({"for (", s.is_exact() ? str_cat({"std::int64_t ", step, " = 0"}) : "", "; ",
          bound.empty() ? "" : str_cat({step, " < ", bound}), "; ++", step, ") {"});
    if (s.conditional) {
      sequence<operand> read = operands;
      read.append(invariants.begin(), invariants.size());
      nested(c, 0, memory, read, {going_on});
      line({"  if (!*", going_on, ") break;"});
    }
    for (std::size_t r = 0; r < s.rows_read; ++r)
      operands.push_back({unique(made().name(owner(c.at[0].input_slots[s.row_in(r)])) + "_row")});
    operands.append(invariants.begin(), invariants.size());
    std::string before;
    before.swap(code_);  // the body determines which rows it reads, but the rows precede it
    const sequence<char> reads = nested(c, s.conditional, memory, operands, results);
    before.swap(code_);
    const auto pointer = [&](const char* constness, const std::string& name, const value_info& rows,
                             const std::string& all) {
      line({"  ", constness, frozen_type(rows.type), "* const ", name, " = ", all, " + ", row, " * ",
            factor(elements(rows.extents, 1)), ";"});
    };
    if (s.backwards) line({"  const std::int64_t ", row, " = ", bound, " - 1 - ", step, ";"});
    for (std::size_t r = 0; r < s.rows_read; ++r)
      if (reads[s.variables + r])
        pointer("const ", operands[s.variables + r].name, c.declared[s.row_in(r)], input(c, s.row_in(r)));
    for (std::size_t r = 0; r < s.rows_written; ++r)
      if (!stacked[r].empty()) pointer("", results[s.variables + r], c.declared[c.inputs + s.row_out(r)], stacked[r]);
    for (std::size_t j = 0; j < s.variables; ++j)
      if (!other[j].empty())
        line({"  ", frozen_type(c.declared[s.variable_in(j)].type), "* const ", results[j], " = ", operands[j].name,
              " == ", last[j], " ? ", other[j], " : ", last[j], ";"});
    code_ += before;
    for (std::size_t j = 0; j < s.variables; ++j) line({"  ", operands[j].name, " = ", results[j], ";"});
    line({"}"});
    for (std::size_t j = 0; j < s.variables; ++j)
      copy(last[j], operands[j].name, c.declared[s.variable_in(j)],
           str_cat({"if (", operands[j].name, " != ", last[j], ") "}));
    if (s.is_exact()) return;
    for (std::size_t r = 0; r < s.rows_written && s.is_bounded(); ++r)
      if (const value_info& v = c.declared[c.inputs + s.row_out(r)]; !stacked[r].empty())
        line({"if (", step, " < ", bound, ") __builtin_memset(", stacked[r], " + ", step, " * ",
              factor(elements(v.extents, 1)), ", 0, static_cast<std::size_t>(", bound, " - ", step, ") * ",
              size(bytes(row_of(v))), ");"});
    if (s.conditional)
      if (const std::string n = given(s.iterations_out()); !n.empty()) line({"*", n, " = ", step, ";"});
  }
};

}  // namespace weft::detail
WEFT_COLD_END
