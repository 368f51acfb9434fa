// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/plan/program.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

/// A value that a step sends from one task to another or, if `buffer` is none, the message that a node has run.
struct transfer {
  std::uint32_t buffer, node;  ///< node: computes the value, or has run
  std::uint32_t from, to;      ///< tasks
};

/// Extracts one task's part of a program: keeps the task's instructions, and adds a send and a receive for each value
/// that another task needs. Each value is sent once to each task, and again after it is written.
///
/// All tasks cut the same program, so they number the transfers identically. A send follows the instruction that writes
/// its value, and a receive precedes the first instruction that reads it. Sends do not wait, and each task receives in
/// the order of the whole program, so the tasks cannot deadlock.
class task_cut {
 public:
  /// `client`: the number of the task that feeds and fetches.
  task_cut(program& p, std::uint32_t client)
      : p_(p),
        client_(client),
        place_(p.buffers.size(), everywhere),
        writer_(p.buffers.size(), none),
        known_(client + 1),
        instruction_of_(p.nodes.size(), none),
        reported_(client + 1) {}

  sequence<transfer> cut() {
    find_places();
    list_transfers();
    list_used();
    keep_own();
    drop_foreign();
    return static_cast<sequence<transfer>&&>(transfers_);
  }
  /// Returns the tasks that have instructions or transfers, in order, except the client.
  sequence<std::uint32_t> used() { return static_cast<sequence<std::uint32_t>&&>(used_); }

 private:
  static constexpr std::uint32_t everywhere = none;

  /// A transfer's position in the whole program, between two instructions.
  struct position {
    std::uint32_t after, before;  // none: at the beginning; number of instructions: at the end
    std::uint32_t reads, writes;  // buffers
  };

  /// Finds the task that holds each value before the first instruction.
  void find_places() {
    for (const std::uint32_t b : p_.feed_buffers) place_[b] = client_;
    for (const std::uint32_t n : p_.variables) place_[p_.nodes[n].first_buffer] = p_.nodes[n].on.task;
    for (std::uint32_t i = 0; i < p_.instructions.size(); ++i) {
      const instruction& in = p_.instructions[i];
      if (in.kind != instruction_kind::compute) continue;
      instruction_of_[in.node] = i;
      if (in.leader != none) instruction_of_[in.leader] = i;
    }
  }

  void list_transfers() {
    const auto count = static_cast<std::uint32_t>(p_.instructions.size());
    std::uint32_t last_effect = none;
    for (std::uint32_t i = 0; i < count; ++i) {
      instruction& in = p_.instructions[i];
      for (const std::uint32_t b : in.reads) bring(b, in.on.task, i, in.node);
      if (in.kind == instruction_kind::compute) {
        for (const std::uint32_t n : {in.leader, in.node})
          if (n != none) follow_control(n, i);
        if (p_.op(in.node).ordered) {
          if (last_effect != none) follow(last_effect, i);
          last_effect = i;
        }
      }
      for (const std::uint32_t b : in.writes) {
        if (p_.buffers[b].kind == buffer_kind::variable && place_[b] != in.on.task) refuse_write(in);
        place_[b] = in.on.task;
        writer_[b] = i;
        for (sequence<std::uint32_t>& known : known_) remove(known, b);
      }
    }
    for (std::size_t f = 0; f < p_.fetch_buffers.size(); ++f)
      bring(p_.fetch_buffers[f], client_, count, p_.index_of(p_.request.fetches[f]));
  }

  [[noreturn]] void refuse_write(const instruction& in) const {
    throw error(error_code::invalid_argument, p_.name(in),
                "writes variables of two tasks: place all variables that one operation writes in one task, for example "
                "by colocate_with(g, variable)");
  }

  /// Ensures that a task has the value of a buffer before an instruction.
  void bring(std::uint32_t b, std::uint32_t to, std::uint32_t before, std::uint32_t for_node) {
    if (place_[b] == everywhere || place_[b] == to || contains(known_[to], b)) return;
    known_[to].push_back(b);
    const std::uint32_t node = writer_[b] != none ? p_.instructions[writer_[b]].node : for_node;
    transfers_.push_back({b, node, place_[b], to});
    positions_.push_back({writer_[b], before, b, b});
  }

  /// Makes an instruction wait for another one, which may be in another task.
  void follow(std::uint32_t first, std::uint32_t second) {
    const std::uint32_t from = p_.instructions[first].on.task, to = p_.instructions[second].on.task;
    if (from == to || contains(reported_[to], first)) return;
    reported_[to].push_back(first);
    // The message is written to a buffer without elements, which the second instruction reads. Passes that move
    // instructions therefore keep their order.
    step_buffer news;
    news.declared = {dtype::uint8, shape(0)};
    news.root = static_cast<std::uint32_t>(p_.buffers.size());
    p_.buffers.push_back(news);
    p_.instructions[second].reads.push_back(news.root);
    const sequence<std::uint32_t>& written = p_.instructions[first].writes;
    transfers_.push_back({none, p_.instructions[first].node, from, to});
    positions_.push_back({first, second, written.empty() ? none : written[0], news.root});
  }

  void follow_control(std::uint32_t n, std::uint32_t i) {
    for (const std::uint32_t c : p_.node_of(n).control) follow_node(p_.index[c], i);
    const node_def& d = p_.def(n);
    for (std::size_t k = 0; k < d.inputs.size(); ++k)
      if (program::reads(d, k)) follow_aliases(d.inputs[k], i);
  }
  /// Adds the control dependencies of a value's aliases.
  void follow_aliases(value v, std::uint32_t i) {
    for (; p_.def(p_.index_of(v)).op->alias && p_.nodes[p_.index_of(v)].runs; v = p_.def(p_.index_of(v)).inputs[0])
      for (const std::uint32_t c : p_.node_of(p_.index_of(v)).control) follow_node(p_.index[c], i);
  }
  void follow_node(std::uint32_t n, std::uint32_t i) {
    if (n == none || !p_.nodes[n].runs) return;
    if (instruction_of_[n] != none) return follow(instruction_of_[n], i);
    for (const std::uint32_t c : p_.node_of(n).control) follow_node(p_.index[c], i);
    if (p_.def(n).op->alias) follow_node(p_.index_of(p_.def(n).inputs[0]), i);
  }

  void list_used() {
    sequence<char> works(client_ + 1, 0);
    for (const instruction& in : p_.instructions) works[in.on.task] = 1;
    for (const transfer& t : transfers_) works[t.from] = works[t.to] = 1;
    for (std::uint32_t t = 0; t < client_; ++t)
      if (works[t]) used_.push_back(t);
  }

  void keep_own() {
    const auto count = static_cast<std::uint32_t>(p_.instructions.size());
    // Lists of the transfers that this task sends after each instruction or receives before it.
    sequence<std::uint32_t> next(transfers_.size(), none), first_send(count + 1, none), first_receive(count + 1, none);
    for (auto t = static_cast<std::uint32_t>(transfers_.size()); t-- > 0;) {
      if (transfers_[t].from != p_.self && transfers_[t].to != p_.self) continue;
      const bool sends = transfers_[t].from == p_.self;
      std::uint32_t& head = sends ? first_send[positions_[t].after == none ? count : positions_[t].after]
                                  : first_receive[positions_[t].before];
      next[t] = head;
      head = t;
    }
    sequence<instruction> own;
    const auto add_list = [&](std::uint32_t t, instruction_kind kind) {
      for (; t != none; t = next[t]) {
        instruction i;
        i.node = transfers_[t].node;
        i.kind = kind;
        i.transfer = t;
        if (kind == instruction_kind::receive)
          i.writes.push_back(positions_[t].writes);
        else if (positions_[t].reads != none)
          i.reads.push_back(positions_[t].reads);
        own.push_back(static_cast<instruction&&>(i));
      }
    };
    add_list(first_send[count], instruction_kind::send);
    for (std::uint32_t i = 0; i < count; ++i) {
      add_list(first_receive[i], instruction_kind::receive);
      if (p_.instructions[i].on.task == p_.self) own.push_back(static_cast<instruction&&>(p_.instructions[i]));
      add_list(first_send[i], instruction_kind::send);
    }
    add_list(first_receive[count], instruction_kind::receive);
    p_.instructions.swap(own);
  }

  /// Drops the memory of other tasks' variables and, unless this task is the client, of fed and fetched values.
  void drop_foreign() {
    sequence<std::uint32_t> own;
    for (const std::uint32_t n : p_.variables)
      if (p_.nodes[n].on.task == p_.self)
        own.push_back(n);
      else
        p_.buffers[p_.nodes[n].first_buffer].kind = buffer_kind::unused;
    p_.variables.swap(own);
    if (p_.self == client_) return;
    for (const std::uint32_t b : p_.feed_buffers) p_.buffers[b].kind = buffer_kind::unused;
    step_buffer nowhere;
    nowhere.declared = {dtype::uint8, shape(0)};
    nowhere.root = static_cast<std::uint32_t>(p_.buffers.size());
    p_.buffers.push_back(nowhere);
    for (std::uint32_t& b : p_.feed_buffers) b = nowhere.root;
    for (std::uint32_t& b : p_.fetch_buffers) b = nowhere.root;
  }

  static void remove(sequence<std::uint32_t>& from, std::uint32_t x) {
    for (std::size_t k = from.size(); k-- > 0;)
      if (from[k] == x) from.erase(k);
  }

  program& p_;
  std::uint32_t client_;
  sequence<std::uint32_t> place_, writer_;      // for each buffer: the task that holds it, and its last writer
  sequence<sequence<std::uint32_t>> known_;     // for each task: buffers of other tasks that it has received
  sequence<std::uint32_t> instruction_of_;      // for each node
  sequence<sequence<std::uint32_t>> reported_;  // for each task: instructions of other tasks that it knows have run
  sequence<transfer> transfers_;
  sequence<position> positions_;
  sequence<std::uint32_t> used_;
};

}  // namespace weft::plan

WEFT_COLD_END
