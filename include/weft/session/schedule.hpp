#pragma once

#include <cstdint>
#include <string>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/graph/graph.hpp>
#include <weft/tensor/sequence.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// The nodes of a graph that a step needs, in the order in which it runs them.
///
/// A node that writes a variable runs after every node that reads the variable's old value, and as soon as it can, so
/// that gradients are given back early. A node that needs both the old and the new value reads a snapshot of the old
/// one.
class schedule {
 public:
  /// `fed` values are not computed. Throws invalid_argument if a placeholder that is needed is not fed, or a value
  /// twice.
  schedule(const graph& g, const sequence<value>& fetches, const sequence<std::uint32_t>& targets,
           const sequence<value>& fed)
      : graph_(g), needed_(g.size(), 0), fed_(g.size(), 0) {
    for (std::size_t i = 0; i < fed.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j)
        if (fed[i] == fed[j])
          throw error(error_code::invalid_argument, g[fed[i].node].name, "is fed twice, and can have one value");
      fed_[fed[i].node] = 1;
    }
    const auto need_value = [&](const value& v) {
      bool given = !fed_[v.node];
      for (const value& f : fed) given = given || f == v;
      if (!given)
        throw error(error_code::unimplemented, g[v.node].name, "one of its outputs is fed and another one is needed");
    };
    sequence<std::uint32_t> pending;
    const auto need = [&](std::uint32_t n) {
      if (needed_[n] || fed_[n]) return;
      needed_[n] = 1;
      pending.push_back(n);
    };
    for (const value& v : fetches) need_value(v), need(v.node);
    for (std::uint32_t n : targets) need(n);
    while (!pending.empty()) {
      const std::uint32_t n = pending.back();
      pending.pop_back();
      const graph_node& node = g[n];
      if (node.what.op == &placeholder_operation)
        throw error(error_code::invalid_argument, node.name,
                    {"the placeholder of ", name(node.what.outputs[0].type), " ",
                     g.to_string(node.what.outputs[0].extents), " is needed but not fed"});
      for (std::size_t i = 0; i < node.what.inputs.size(); ++i)
        if (reads(node.what, i)) need_value(node.what.inputs[i]), need(node.what.inputs[i].node);
      for (std::uint32_t c : node.control) need(c);
    }
    order_nodes(fetches);
  }

  const sequence<std::uint32_t>& order() const { return order_; }
  bool needs(std::uint32_t node) const { return needed_[node]; }
  /// How many nodes the graph had when the schedule was made; it may have grown since.
  std::uint32_t nodes() const { return static_cast<std::uint32_t>(needed_.size()); }
  bool is_fed(std::uint32_t node) const { return fed_[node]; }

  /// Variables whose old value is copied before the step, and whether a node reads that copy.
  const sequence<std::uint32_t>& snapshots() const { return snapshots_; }
  bool reads_snapshot(std::uint32_t reader, std::uint32_t variable) const {
    for (const auto& s : snapshot_readers_)
      if (s.reader == reader && s.variable == variable) return true;
    return false;
  }
  static bool reads(const invocation& what, std::size_t input) {
    return !what.op->reads || ((what.op->reads(what) >> input) & 1);
  }
  static bool writes_input(const invocation& what, std::size_t input) {
    return static_cast<int>(input) < what.op->writes;
  }

  /// The node that a value is from, behind its aliases: a fed one, or one that computes it.
  std::uint32_t computed_by(value v) const {
    while (graph_[v.node].what.op->alias && !fed_[v.node]) v = graph_[v.node].what.inputs[0];
    return v.node;
  }

  /// The variable whose old value this is, under whatever name; none of what a write yields, which is the new one.
  std::uint32_t variable_behind(value v) const {
    const std::uint32_t n = computed_by(v);
    return graph_[n].what.op == &variable_operation && !fed_[n] ? n : detail::index_set::none;
  }

  /// The write whose result this is, under whatever name; none where it is no such.
  std::uint32_t writer_behind(value v) const {
    const std::uint32_t n = computed_by(v);
    return graph_[n].what.op->writes && !fed_[n] ? n : detail::index_set::none;
  }

  /// Whether what a write yields is written over later in the step.
  bool is_overwritten(std::uint32_t writer) const {
    const std::uint32_t variable = variable_behind(graph_[writer].what.inputs[0]);
    for (const access& w : writers_)
      if (w.variable == variable && w.reader > writer) return true;
    return false;
  }

  static constexpr std::uint32_t fetched = ~std::uint32_t{0};  ///< as a reader: the step's caller

 private:
  struct access {
    std::uint32_t reader, variable;
  };

  void order_nodes(const sequence<value>& fetches) {
    const auto count = static_cast<std::uint32_t>(graph_.size());
    after_.resize(count);
    seen_.resize(count);
    sequence<std::uint32_t> waits(count, 0);
    const auto edge = [&](std::uint32_t first, std::uint32_t second) {
      if (first == second || !needed_[first] || !needed_[second]) return;
      after_[first].push_back(second);
      ++waits[second];
    };
    for (std::uint32_t n = 0; n < count; ++n) {
      if (!needed_[n]) continue;
      const invocation& what = graph_[n].what;
      for (std::size_t i = 0; i < what.inputs.size(); ++i) {
        if (reads(what, i)) edge(what.inputs[i].node, n);
        if (writes_input(what, i)) writers_.push_back({n, written_variable(n, what.inputs[i])});
      }
      for (std::uint32_t c : graph_[n].control) edge(c, n);
    }
    // Writers of one variable keep the order in which they were written down.
    for (std::size_t i = 0; i < writers_.size(); ++i)
      for (std::size_t j = i + 1; j < writers_.size(); ++j)
        if (writers_[i].variable == writers_[j].variable && writers_[i].reader != writers_[j].reader)
          edge(writers_[i].reader, writers_[j].reader);
    // Who reads what a write yields reads the variable: before the next write of it.
    for (std::uint32_t n = 0; n < count && writers_.size() > 1; ++n) {
      if (!needed_[n] || graph_[n].what.op->alias) continue;
      for (const value& in : graph_[n].what.inputs) {
        const std::uint32_t first = writer_behind(in);
        if (first == detail::index_set::none) continue;
        const std::uint32_t variable = variable_behind(graph_[first].what.inputs[0]);
        for (const access& w : writers_)
          if (w.variable == variable && w.reader > first && w.reader != n) {
            if (comes_after(n, w.reader))
              throw error(
                  error_code::unimplemented, graph_[n].name,
                  {"reads the value of ", graph_[variable].name, " after a write and runs after another write"});
            edge(n, w.reader);
          }
      }
    }
    // Who reads a variable, found once: with as many writers as variables, looking for it at each would be quadratic.
    sequence<sequence<std::uint32_t>> readers(count);
    for (std::uint32_t n = 0; n < count; ++n) {
      if (!needed_[n] || graph_[n].what.op->alias) continue;
      const invocation& what = graph_[n].what;
      for (std::size_t i = 0; i < what.inputs.size(); ++i) {
        const std::uint32_t variable = reads(what, i) ? variable_behind(what.inputs[i]) : detail::index_set::none;
        if (variable == detail::index_set::none) continue;
        if (readers[variable].empty() || readers[variable].back() != n) readers[variable].push_back(n);
      }
    }
    // They run before it is written. Where what is known of the order already has them after it, they read a copy: two
    // assignments that exchange two variables, one of them.
    for (const access& w : writers_) {
      for (const std::uint32_t n : readers[w.variable]) {
        if (n == w.reader || writes_variable(n, w.variable)) continue;
        if (comes_after(n, w.reader))
          keep_snapshot(n, w.variable);
        else
          edge(n, w.reader);
      }
      for (const value& f : fetches)
        if (variable_behind(f) == w.variable) keep_snapshot(fetched, w.variable);
    }

    sequence<std::uint32_t> ready, writers_ready;
    const auto becomes_ready = [&](std::uint32_t n) {
      auto& list = graph_[n].what.op->writes ? writers_ready : ready;
      std::size_t i = list.size();
      list.push_back(n);
      for (; i > 0 && list[i - 1] < n; --i) list[i] = list[i - 1];  // largest first: the smallest is at the back
      list[i] = n;
    };
    for (std::uint32_t n = 0; n < count; ++n)
      if (needed_[n] && waits[n] == 0) becomes_ready(n);
    while (!ready.empty() || !writers_ready.empty()) {
      auto& list = writers_ready.empty() ? ready : writers_ready;
      const std::uint32_t n = list.back();
      list.pop_back();
      order_.push_back(n);
      for (std::uint32_t next : after_[n])
        if (--waits[next] == 0) becomes_ready(next);
    }
    std::size_t wanted = 0;
    for (char c : needed_) wanted += c != 0;
    if (order_.size() != wanted)
      throw error(error_code::invalid_argument, "schedule", "control dependencies form a cycle");
    after_.clear();  // a step keeps its schedule
    seen_.clear();
  }

  /// The variable that a node writes as this input. Throws invalid_argument if the value is fed: it has no variable.
  std::uint32_t written_variable(std::uint32_t writer, value v) const {
    const std::uint32_t variable = variable_behind(v);
    if (variable == detail::index_set::none)
      throw error(error_code::invalid_argument, graph_[writer].name,
                  {"writes ", graph_[computed_by(v)].name, ", which is fed in the same step"});
    return variable;
  }

  bool writes_variable(std::uint32_t n, std::uint32_t variable) const {
    const invocation& what = graph_[n].what;
    for (std::size_t i = 0; i < what.inputs.size() && writes_input(what, i); ++i)
      if (variable_behind(what.inputs[i]) == variable) return true;
    return false;
  }

  /// Whether `node` runs after `earlier` by what is known of the order until now. Searched from the earlier one, a
  /// write: little comes after those.
  bool comes_after(std::uint32_t node, std::uint32_t earlier) {
    sequence<std::uint32_t> pending{earlier};
    ++search_;
    while (!pending.empty()) {
      const std::uint32_t n = pending.back();
      pending.pop_back();
      if (n == node) return true;
      if (seen_[n] == search_) continue;
      seen_[n] = search_;
      for (const std::uint32_t next : after_[n]) pending.push_back(next);
    }
    return false;
  }

  void keep_snapshot(std::uint32_t reader, std::uint32_t variable) {
    if (!reads_snapshot(reader, variable)) snapshot_readers_.push_back({reader, variable});
    for (std::uint32_t v : snapshots_)
      if (v == variable) return;
    snapshots_.push_back(variable);
  }

  const graph& graph_;
  sequence<char> needed_, fed_;
  sequence<std::uint32_t> order_, snapshots_;
  sequence<access> writers_, snapshot_readers_;
  sequence<sequence<std::uint32_t>> after_;  // the nodes that run after a node, for they must
  sequence<std::uint32_t> seen_;             // by the search of this number
  std::uint32_t search_ = 0;
};

}  // namespace weft

WEFT_COLD_END
