// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/plan/program.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

/// Sorts the nodes of a pruned program into execution order.
///
/// A node that writes a variable runs after every node that reads the variable's old value, but otherwise as early as
/// possible, so that the memory of gradients is released early. A node that needs the old value after the write reads a
/// snapshot of it. Writers of one variable keep the order in which the program recorded them, and so do `ordered`
/// operations.
inline void order(program&);

class ordering {
 public:
  explicit ordering(program& p) : p_(p), after_(p.nodes.size()), waits_(p.nodes.size(), 0), seen_(p.nodes.size(), 0) {}

  void run() {
    const auto count = static_cast<std::uint32_t>(p_.nodes.size());
    for (std::uint32_t n = 0; n < count; ++n) {
      if (!p_.nodes[n].runs) continue;
      const node_def& c = p_.def(n);
      for (std::size_t i = 0; i < c.inputs.size(); ++i)
        if (program::reads(c, i)) edge(p_.index_of(c.inputs[i]), n);
      for (const std::uint32_t before : p_.node_of(n).control) edge(p_.index[before], n);
    }
    order_factors();
    order_writers();
    order_effects();
    order_readers_of_results();
    order_readers_of_variables();
    sort();
  }

 private:
  void edge(std::uint32_t first, std::uint32_t second) {
    if (first == second || !p_.nodes[first].runs || !p_.nodes[second].runs) return;
    after_[first].push_back(second);
    ++waits_[second];
  }

  /// An expression can fuse with a product that it reads only if its other operands precede the product (fusion).
  /// Operands that are expressions of variables, such as the factor of a batch normalization at inference, can run
  /// before any product.
  void order_factors() {
    for (std::uint32_t n = 0; n < p_.nodes.size(); ++n) {
      if (!p_.nodes[n].runs || p_.op(n).fusion != fusion_kind::expression) continue;
      const node_def& c = p_.def(n);
      for (const value& in : c.inputs) {
        const std::uint32_t product = p_.index_of(in);
        if (!p_.nodes[product].runs || p_.op(product).fusion != fusion_kind::product) continue;
        for (const value& other : c.inputs)
          if (const std::uint32_t factor = p_.computed_by(other); is_of_variables(factor)) edge(factor, product);
      }
    }
  }

  /// Returns true for an expression of variables and constants only.
  bool is_of_variables(std::uint32_t n) const {
    if (!p_.computes(n) || p_.op(n).fusion != fusion_kind::expression || !p_.node_of(n).control.empty()) return false;
    for (const value& in : p_.def(n).inputs) {
      const std::uint32_t from = p_.computed_by(in);
      if (p_.nodes[from].fed || p_.computes(from)) return false;
    }
    return true;
  }

  /// Keeps writers of a variable in the order of their numbers, which is the order of recording.
  void order_writers() {
    writers_.resize(p_.nodes.size());
    for (std::uint32_t n = 0; n < p_.nodes.size(); ++n) {
      if (!p_.nodes[n].runs) continue;
      const node_def& c = p_.def(n);
      for (std::size_t i = 0; i < c.inputs.size() && program::writes(c, i); ++i) {
        sequence<std::uint32_t>& before = writers_[written_variable(n, c.inputs[i])];
        if (!before.empty() && before.back() == n) continue;
        if (!before.empty()) edge(before.back(), n);
        before.push_back(n);
        any_writer_ = true;
      }
    }
  }

  /// Orders nodes with effects outside the step.
  void order_effects() {
    std::uint32_t before = none;
    for (std::uint32_t n = 0; n < p_.nodes.size(); ++n) {
      if (!p_.nodes[n].runs || !p_.op(n).ordered) continue;
      if (before != none) edge(before, n);
      before = n;
    }
  }

  /// Returns the variable that a node writes as this input. Throws invalid_argument if the value is fed and thus not a
  /// variable.
  std::uint32_t written_variable(std::uint32_t writer, value v) const {
    const std::uint32_t variable = p_.variable_behind(v);
    if (variable == none)
      throw error(
          error_code::invalid_argument, p_.name(writer),
          {"writes ", p_.name(p_.computed_by(v)), ", which is fed in the same step: feed it or write it, not both"});
    return variable;
  }

  /// A node that reads the result of a write reads the variable, so it must run before the next write.
  void order_readers_of_results() {
    if (!any_writer_) return;
    for (std::uint32_t n = 0; n < p_.nodes.size(); ++n) {
      if (!p_.nodes[n].runs || p_.op(n).alias) continue;
      const node_def& c = p_.def(n);
      for (std::size_t i = 0; i < c.inputs.size(); ++i) {
        const std::uint32_t first = program::reads(c, i) ? p_.writer_behind(c.inputs[i]) : none;
        if (first == none) continue;
        const std::uint32_t variable = p_.variable_behind(p_.def(first).inputs[0]);
        const std::uint32_t next = writer_after(first, variable);
        if (next == none || next == n) continue;
        ++search_;
        mark_all_after(next);
        if (seen_[n] == search_)
          throw error(error_code::unimplemented, p_.name(n),
                      {"reads the value of ", p_.name(variable),
                       " after a write and runs after another write: read it before that one"});
        edge(n, next);
      }
    }
  }

  std::uint32_t writer_after(std::uint32_t writer, std::uint32_t variable) const {
    for (const std::uint32_t w : writers_[variable])
      if (w > writer) return w;
    return none;
  }

  /// Readers of a variable run before its first write. If they already have to run after it, they read a snapshot: for
  /// example, one of two assignments that swap two variables.
  void order_readers_of_variables() {
    if (!any_writer_) return;
    sequence<sequence<std::uint32_t>> readers(p_.nodes.size());
    for (std::uint32_t n = 0; n < p_.nodes.size(); ++n) {
      if (!p_.nodes[n].runs || p_.op(n).alias) continue;
      const node_def& c = p_.def(n);
      for (std::size_t i = 0; i < c.inputs.size(); ++i) {
        const std::uint32_t variable = program::reads(c, i) ? p_.variable_behind(c.inputs[i]) : none;
        if (variable == none || contains(writers_[variable], n)) continue;
        if (readers[variable].empty() || readers[variable].back() != n) readers[variable].push_back(n);
      }
    }
    for (std::uint32_t v = 0; v < p_.nodes.size(); ++v) {
      if (writers_[v].empty()) continue;
      const std::uint32_t first = writers_[v][0];
      ++search_;
      if (!readers[v].empty()) mark_all_after(first);
      for (const std::uint32_t n : readers[v])
        if (seen_[n] == search_)
          p_.snapshot_readers.push_back({n, v}), p_.nodes[n].reads_snapshots = true;
        else
          edge(n, first);
    }
    for (const value& f : p_.request.fetches) {
      const std::uint32_t variable = p_.variable_behind(f);
      if (variable != none && !writers_[variable].empty() && !p_.reads_snapshot(none, variable))
        p_.snapshot_readers.push_back({none, variable});
    }
  }

  /// Marks a write and all nodes that must run after it according to the current edges. Usually these are few.
  void mark_all_after(std::uint32_t n) {
    pending_.push_back(n);
    while (!pending_.empty()) {
      const std::uint32_t at = pending_.back();
      pending_.pop_back();
      if (seen_[at] == search_) continue;
      seen_[at] = search_;
      for (const std::uint32_t next : after_[at]) pending_.push_back(next);
    }
  }

  /// Among the nodes that are ready, writers run first, followed by the node with the smallest number. Variables count
  /// as writers: they take no time, and the slots that optimizers add last would otherwise delay the updates.
  void sort() {
    heap ready, ready_writers;
    const auto add = [&](std::uint32_t n) {
      (p_.op(n).writes || is_operation<variable_op>(&p_.op(n)) ? ready_writers : ready).push(n);
    };
    std::uint32_t wanted = 0;
    for (std::uint32_t n = 0; n < p_.nodes.size(); ++n) {
      if (!p_.nodes[n].runs) continue;
      ++wanted;
      if (waits_[n] == 0) add(n);
    }
    sequence<std::uint32_t> order;
    order.reserve(p_.nodes.size());
    while (!ready.empty() || !ready_writers.empty()) {
      const std::uint32_t n = (ready_writers.empty() ? ready : ready_writers).pop();
      order.push_back(n);
      for (const std::uint32_t next : after_[n])
        if (--waits_[next] == 0) add(next);
    }
    if (order.size() != wanted)
      throw error(error_code::invalid_argument, "prepare",
                  "the control dependencies of the step form a cycle: remove one of them");
    p_.running = wanted;
    for (std::uint32_t n = 0; n < p_.nodes.size(); ++n)
      if (!p_.nodes[n].runs) order.push_back(n);
    renumber(order);
  }

  void renumber(const sequence<std::uint32_t>& order) {
    sequence<step_node> nodes;
    sequence<std::uint32_t> now(order.size(), 0);
    nodes.reserve(order.size());
    for (const std::uint32_t n : order) {
      now[n] = static_cast<std::uint32_t>(nodes.size());
      p_.index[p_.nodes[n].number] = now[n];
      nodes.push_back(p_.nodes[n]);
    }
    p_.nodes.swap(nodes);
    for (std::uint32_t n = 0; n < p_.running; ++n) {
      if (is_operation<variable_op>(p_.def(n).op)) p_.variables.push_back(n);
      if (is_operation<constant_op>(p_.def(n).op)) p_.constants.push_back(n);
    }
    for (program::snapshot_reader& s : p_.snapshot_readers) {
      if (s.node != none) s.node = now[s.node];
      s.variable = now[s.variable];
    }
  }

  /// A min-heap.
  class heap {
   public:
    bool empty() const { return all_.empty(); }
    void push(std::uint32_t x) {
      std::size_t i = all_.size();
      all_.push_back(x);
      for (; i > 0 && all_[(i - 1) / 2] > x; i = (i - 1) / 2) all_[i] = all_[(i - 1) / 2];
      all_[i] = x;
    }
    std::uint32_t pop() {
      const std::uint32_t least = all_[0], x = all_.back();
      all_.pop_back();
      if (all_.empty()) return least;
      std::size_t i = 0;
      for (std::size_t child; (child = 2 * i + 1) < all_.size(); i = child) {
        if (child + 1 < all_.size() && all_[child + 1] < all_[child]) ++child;
        if (all_[child] >= x) break;
        all_[i] = all_[child];
      }
      all_[i] = x;
      return least;
    }

   private:
    sequence<std::uint32_t> all_;
  };

  program& p_;
  sequence<sequence<std::uint32_t>> after_,
      writers_;  // the nodes that must run after each node; the writers of each variable
  sequence<std::uint32_t> waits_, seen_, pending_;
  std::uint32_t search_ = 0;
  bool any_writer_ = false;
};

inline void order(program& p) { ordering(p).run(); }

}  // namespace weft::plan

WEFT_COLD_END
