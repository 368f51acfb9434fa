// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/plan/program.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

/// Determines the lifetime of each buffer, the buffers that are the caller's memory, and the results that overwrite an
/// operand at its last use.
inline void analyze_liveness(program&);

class liveness {
 public:
  explicit liveness(program& p)
      : p_(p), lane_(p.buffers.size(), none), forwarded_(p.buffers.size(), 0), shared_(p.buffers.size(), 0) {}

  void run() {
    for (std::uint32_t i = 0; i < p_.instructions.size(); ++i) {
      const instruction& in = p_.instructions[i];
      for (const std::uint32_t b : in.writes) {
        step_buffer& buffer = p_.buffers[b];
        if (buffer.first == none) buffer.first = i;
        if (buffer.kind == buffer_kind::unused) buffer.kind = buffer_kind::arena;
        // Parts of an array can be written by several lanes. Only the first can reuse memory that it has released.
        if (lane_[b] == none) lane_[b] = in.lane;
        if (lane_[b] != in.lane) shared_[b] = 1;
        buffer.last = i;
      }
      for (const std::uint32_t b : in.reads) {
        p_.buffers[b].last = i;
        if (lane_[b] != none && lane_[b] != in.lane) shared_[b] = 1;
      }
    }
    give_to_caller();
    for (const std::uint32_t b : p_.fetch_buffers) p_.buffers[b].last = none;
    for (std::uint32_t b = 0; b < p_.buffers.size(); ++b) {
      step_buffer& buffer = p_.buffers[b];
      if (buffer.kind != buffer_kind::arena) continue;
      buffer.arena = p_.arena_of(lane_[b] != none ? lane_[b] : 0, buffer.space);
      if (buffer.reserved) buffer.last = none;
    }
    for (std::uint32_t i = 0; i < p_.instructions.size(); ++i) forward_operand(i);
    for (std::uint32_t b = 0; b < p_.buffers.size(); ++b)  // other lanes or buffers may still use the memory
      if (shared_[b] || forwarded_[b] || p_.buffers[b].pinned) p_.buffers[b].last = none;
  }

 private:
  /// Computes a fetched value directly in the caller's memory, unless it is fetched twice or through an alias.
  void give_to_caller() {
    sequence<char> times(p_.buffers.size(), 0);
    for (const std::uint32_t b : p_.fetch_buffers)
      if (times[b] < 2) ++times[b];
    for (std::size_t f = 0; f < p_.fetch_buffers.size(); ++f) {
      const std::uint32_t b = p_.fetch_buffers[f];
      step_buffer& buffer = p_.buffers[b];
      if (times[b] == 1 && buffer.kind == buffer_kind::arena && !buffer.pinned &&
          b == p_.buffer_of(p_.request.fetches[f]))
        buffer.kind = buffer_kind::caller;
    }
  }

  /// Lets an elementwise result reuse the memory of an operand.
  void forward_operand(std::uint32_t i) {
    const instruction& in = p_.instructions[i];
    if (in.kind != instruction_kind::compute || in.leader != none || in.writes.empty()) return;
    step_buffer& to = p_.buffers[in.writes[0]];
    if (p_.buffers[p_.nodes[in.node].first_buffer].part.count > 1) return;  // other parts are written elsewhere
    if (to.kind != buffer_kind::arena || to.first != i || to.reserved || !p_.op(in.node).in_place ||
        !p_.works_in_place(in.node))
      return;
    for (const std::uint32_t b : in.reads) {
      const step_buffer& from = p_.buffers[b];
      if (from.kind != buffer_kind::arena || from.last != i || from.pinned || shared_[b] || forwarded_[b] ||
          lane_[b] != in.lane || from.space != to.space || !(from.declared == to.declared) || reads_part(in.node, b))
        continue;
      to.forwarded_from = b;
      forwarded_[b] = 1;
      return;
    }
  }

  /// Returns true if a node reads a part of an array, which the node may repeat.
  bool reads_part(std::uint32_t n, std::uint32_t array) const {
    for (const value& v : p_.def(n).inputs)
      if (p_.root_of(v) == array && p_.buffers[p_.buffer_of(v)].part.count > 1) return true;
    return false;
  }

  program& p_;
  sequence<std::uint32_t> lane_;
  sequence<char> forwarded_, shared_;  // its memory is forwarded to another buffer; several lanes use it
};

inline void analyze_liveness(program& p) { liveness(p).run(); }

}  // namespace weft::plan

WEFT_COLD_END
