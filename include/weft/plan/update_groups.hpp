// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/update_view.hpp>
#include <weft/plan/program.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

WEFT_COLD_BEGIN
namespace weft::plan {

/// Groups one optimizer's updates of several variables into one kernel, which runs in place of the last update. A
/// postponed update keeps its gradient in memory, so an update is not postponed if
///
/// - an instruction in between accesses the variable or a slot;
/// - this would raise the step's peak memory by more than a small amount;
/// - the waiting gradients would leave the caches because of other work.
///
/// On a GPU, all updates in a kernel share their hyperparameters; on a CPU, each variable has its own.
///
/// If a device has several lanes, updates stay separate and run in parallel with other work. `infos`: for each buffer,
/// its type and extents when the step first runs.
inline void group_updates(program&, const value_info* infos);

class update_groups {
 public:
  update_groups(program& p, const value_info* infos)
      : p_(p),
        infos_(infos),
        count_(p.instructions.size()),
        last_use_(p.buffers.size(), none),
        pending_(1 + p.gpus),
        reads_in_(p.buffers.size(), 0),
        writes_in_(p.buffers.size(), 0) {}

  void run() {
    std::size_t updates = 0;
    for (const instruction& i : p_.instructions) updates += is_update(i);
    if (updates < 2 || p_.lanes_per_device > 1) return;
    find_memory();
    for (std::uint32_t i = 0; i < count_; ++i) {
      const bool update = is_update(p_.instructions[i]);
      if (conflicts(p_.instructions[i]) || exceeds_limits(i, update)) close();
      if (update) add(i);
    }
    close();
    keep_last_ones();
  }

 private:
  /// The memory by which groups may raise the peak, and the size of gradients that may wait while other work runs.
  static constexpr std::size_t more_memory(bool gpu) { return std::size_t{gpu ? 1024u : 64u} << 10; }
  static constexpr std::size_t waiting(bool gpu) { return std::size_t{gpu ? 16384u : 512u} << 10; }

  bool is_update(const instruction& i) const {
    return i.kind == instruction_kind::compute && i.leader == none && p_.op(i.node).update &&
           update_view(p_.def(i.node)).row_lists() == 0;
  }
  /// Returns true if the buffer is in the step's memory.
  bool is_intermediate(std::uint32_t b) const {
    return p_.buffers[b].kind == buffer_kind::unused || p_.buffers[b].kind == buffer_kind::arena;
  }

  /// Computes the memory of intermediate values at each instruction for each space, and its peak.
  void find_memory() {
    sequence<std::uint32_t> first(p_.buffers.size(), none);
    for (std::uint32_t i = 0; i < count_; ++i) {
      for (const std::uint32_t b : p_.instructions[i].writes)
        first[b] = first[b] == none ? i : first[b], last_use_[b] = i;
      for (const std::uint32_t b : p_.instructions[i].reads) last_use_[b] = i;
    }
    for (const std::uint32_t b : p_.fetch_buffers) last_use_[b] = static_cast<std::uint32_t>(count_);
    const std::size_t spaces = pending_.size();
    live_.assign(spaces * (count_ + 2), 0);
    for (std::uint32_t b = 0; b < p_.buffers.size(); ++b) {
      if (first[b] == none || !is_intermediate(b)) continue;
      live(p_.buffers[b].space, first[b]) += infos_[b].bytes();
      live(p_.buffers[b].space, last_use_[b] + 1) -= infos_[b].bytes();
    }
    most_.assign(spaces, 0);
    for (std::uint32_t space = 0; space < spaces; ++space)
      for (std::uint32_t i = 0; i < count_; ++i) {
        live(space, i + 1) += live(space, i);
        const std::size_t now = live(space, i) - taken_over(space, i);
        if (now > most_[space]) most_[space] = now;
      }
  }
  std::size_t& live(std::uint32_t space, std::size_t i) { return live_[space * (count_ + 2) + i]; }

  /// Returns the size of a result that reuses an operand's memory.
  std::size_t taken_over(std::uint32_t space, std::uint32_t i) const {
    const instruction& in = p_.instructions[i];
    if (in.kind != instruction_kind::compute || in.leader != none || in.writes.empty() || !p_.op(in.node).in_place)
      return 0;
    const step_buffer& to = p_.buffers[in.writes[0]];
    if (to.space != space || !is_intermediate(in.writes[0])) return 0;
    for (const std::uint32_t b : in.reads)
      if (is_intermediate(b) && last_use_[b] == i && p_.buffers[b].declared == to.declared &&
          p_.works_in_place(in.node))
        return infos_[b].bytes();
    return 0;
  }

  bool conflicts(const instruction& in) const {
    for (const std::uint32_t b : in.reads)
      if (writes_in_[b] == number_) return true;
    for (const std::uint32_t b : in.writes)
      if (writes_in_[b] == number_ || reads_in_[b] == number_) return true;
    return false;
  }

  bool exceeds_limits(std::uint32_t i, bool update) {
    for (std::uint32_t space = 0; space < pending_.size(); ++space) {
      if (pending_[space] == 0) continue;
      const bool gpu = space != 0;
      if (live(space, i) + pending_[space] > most_[space] + more_memory(gpu)) return true;
      if (!update && pending_[space] > waiting(gpu)) return true;
    }
    return false;
  }

  struct group {
    std::uint32_t node;  // one of the members
    device_number on;
    sequence<std::uint32_t> members;  // instructions
  };

  bool fits(const group& of, const instruction& in) const {
    if (&p_.op(of.node) != &p_.op(in.node) || !(of.on == in.on)) return false;
    if (!in.on.gpu) return true;
    const node_def &a = p_.def(of.node), &b = p_.def(in.node);
    if (!(a.literals == b.literals) || !(a.attributes == b.attributes)) return false;
    for (std::size_t k = 1 + a.op->update->slots; k < update_view(a).gradient_input(); ++k)
      if (!(a.inputs[k] == b.inputs[k])) return false;
    // The hyperparameters must be read from the same buffers.
    const instruction& other = p_.instructions[of.members[0]];
    for (std::size_t k = 0; k < in.read_for.size(); ++k)
      for (std::size_t j = 0; j < other.read_for.size(); ++j)
        if (other.read_for[j] == in.read_for[k] && other.reads[j] != in.reads[k]) return false;
    return true;
  }

  void add(std::uint32_t i) {
    const instruction& in = p_.instructions[i];
    group* to = nullptr;
    for (std::size_t k = first_open_; k < groups_.size(); ++k)
      if (fits(groups_[k], in)) to = &groups_[k];
    if (!to) {
      groups_.push_back({in.node, in.on, {}});
      to = &groups_.back();
    }
    to->members.push_back(i);
    for (const std::uint32_t b : in.reads) {
      if (is_intermediate(b) && last_use_[b] == i) pending_[p_.buffers[b].space] += infos_[b].bytes();
      reads_in_[b] = number_;
    }
    for (const std::uint32_t b : in.writes) writes_in_[b] = number_;
  }

  void close() {
    first_open_ = groups_.size();
    ++number_;
    pending_.assign(pending_.size(), 0);
  }

  /// Replaces each group by the last of its members.
  void keep_last_ones() {
    sequence<char> gone(count_, 0);
    for (const group& of : groups_) {
      instruction& last = p_.instructions[of.members.back()];
      for (std::size_t k = 0; k + 1 < of.members.size(); ++k) {
        const instruction& other = p_.instructions[of.members[k]];
        last.beside.push_back(other.node);
        last.reads.append(other.reads.data(), other.reads.size());
        last.writes.append(other.writes.data(), other.writes.size());
        last.read_for.append(other.read_for.data(), other.read_for.size());
        gone[of.members[k]] = 1;
      }
    }
    sequence<instruction> left;
    left.reserve(count_);
    for (std::size_t i = 0; i < count_; ++i)
      if (!gone[i]) left.push_back(static_cast<instruction&&>(p_.instructions[i]));
    p_.instructions.swap(left);
  }

  program& p_;
  const value_info* infos_;
  std::size_t count_;
  sequence<std::uint32_t> last_use_;             // for each root buffer
  sequence<std::size_t> live_, most_, pending_;  // in bytes; for each space
  sequence<group> groups_;
  std::size_t first_open_ = 0;                    // index in groups_
  sequence<std::uint32_t> reads_in_, writes_in_;  // the open groups' number when they last read or wrote each buffer
  std::uint32_t number_ = 1;                      // of the open groups
};

inline void group_updates(program& p, const value_info* infos) { update_groups(p, infos).run(); }

}  // namespace weft::plan

WEFT_COLD_END

#pragma pop_macro("slots")
