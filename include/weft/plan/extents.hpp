// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <utility>

#include <weft/graph/extent_bindings.hpp>
#include <weft/plan/operand_table.hpp>
#include <weft/plan/program.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

/// The named extents of a program, and the names that each instruction depends on.
class program_extents {
 public:
  program_extents() = default;
  program_extents(const program& p, const operand_table& operands, const extent_bindings& fixed) {
    masks_.resize(p.instructions.size());
    for (std::uint32_t i = 0; i < p.instructions.size(); ++i) {
      const instruction& in = p.instructions[i];
      const auto add_extents = [&](const shape& extents) {
        for (std::size_t a = 0; a < extents.rank; ++a)
          if (extents[a] < 0 && !fixed.find(extents[a])) masks_[i] |= std::uint64_t{1} << number_of(extents[a]) % 64;
      };
      const auto add = [&](std::uint32_t b) { add_extents(p.buffers[b].declared.extents); };
      for (const std::uint32_t b : in.reads) add(b);
      for (const std::uint32_t b : in.writes) add(b);
      const auto add_node = [&](std::uint32_t n) {
        if (n == none || in.kind != instruction_kind::compute) return;
        for (std::size_t k = 0; k < operands.count(n); ++k) add(operands.buffers(n)[k]);
        add_subgraphs(p.g, p.def(n), add_extents);
      };
      add_node(in.node), add_node(in.leader);
      for (const std::uint32_t n : in.beside) add_node(n);
    }
  }

  const sequence<std::int64_t>& names() const { return names_; }

  /// Returns true if an instruction's extents are equal under two sets of values.
  bool same(std::uint32_t i, const sequence<std::int64_t>& a, const sequence<std::int64_t>& b) const {
    for (std::size_t k = 0; masks_[i] && k < a.size(); ++k)
      if ((masks_[i] >> k % 64) & 1 && a[k] != b[k]) return false;
    return true;
  }

 private:
  template <class Add>
  __attribute__((noinline)) static void add_subgraphs(const graph& g, const node_def& c, const Add& add) {
    for (const std::uint32_t b : c.subgraphs) {
      const graph& subgraph = g.subgraph_at(b).nodes;
      for (std::uint32_t n = 0; n < subgraph.size(); ++n) {
        for (const value_info& v : subgraph[n].def.outputs) add(v.extents);
        add_subgraphs(g, subgraph[n].def, add);
      }
    }
  }

  std::size_t number_of(std::int64_t code) {
    std::size_t k = 0;
    while (k < names_.size() && names_[k] != code) ++k;
    if (k == names_.size()) names_.push_back(code);
    return k;
  }

  sequence<std::int64_t> names_;
  sequence<std::uint64_t> masks_;
};

inline program_extents list_extents(const program& p, const operand_table& operands, const extent_bindings& fixed) {
  return {p, operands, fixed};
}

/// The element type of each buffer and its extents in the current binding.
class buffer_extents {
 public:
  /// Adds the program's new buffers. Throws resource_exhausted if a buffer exceeds any memory.
  void list(const program&);
  /// Resolves the extents of all buffers. An unknown extent is an error only if a node that runs uses it; a node can
  /// also use the extents of a value that is not computed.
  void resolve(const program&, extent_bindings& known);
  void clear() {
    infos_.clear();
    named_extents_.clear();
    named_buffers_.clear();
  }

  value_info& operator[](std::size_t buffer) { return infos_[buffer]; }
  const value_info& operator[](std::size_t buffer) const { return infos_[buffer]; }
  const value_info* data() const { return infos_.data(); }

 private:
  struct named_extents {
    shape declared;
    std::uint32_t needed_by;  // a node that runs; none if the extents may remain unknown
    shape now = {};
  };

  sequence<value_info> infos_;
  sequence<named_extents> named_extents_;                            // many buffers share few sets of names
  sequence<std::pair<std::uint32_t, std::uint32_t>> named_buffers_;  // each buffer and the index of its extents
};

#if WEFT_DEFINITIONS

WEFT_DECL void buffer_extents::list(const program& p) {
  const auto from = static_cast<std::uint32_t>(infos_.size());
  infos_.resize(p.buffers.size());
  const auto list = [&](std::uint32_t b, std::uint32_t runs) {
    infos_[b] = p.buffers[b].declared;
    const shape& declared = infos_[b].extents;
    bool named = false;
    for (std::size_t a = 0; a < declared.rank; ++a) named = named || declared[a] < 0;
    if (!named) {
      if (runs != none) detail::checked_bytes(p.name(runs).c_str(), declared, sizeof(double));
      return;
    }
    constexpr std::size_t compared = 16;
    auto e = static_cast<std::uint32_t>(named_extents_.size());
    for (std::uint32_t i = e; i-- > 0 && i + compared >= named_extents_.size();)
      if (named_extents_[i].declared == declared) e = i;
    if (e == named_extents_.size()) named_extents_.push_back({declared, none});
    if (named_extents_[e].needed_by == none) named_extents_[e].needed_by = runs;
    named_buffers_.push_back({b, e});
  };
  std::uint32_t copies = from;
  for (std::uint32_t n = 0; from == 0 && n < p.nodes.size(); ++n) {
    const std::size_t outputs = p.def(n).outputs.size();
    for (copies = p.nodes[n].first_buffer; copies < p.nodes[n].first_buffer + outputs; ++copies)
      list(copies, p.nodes[n].runs ? n : none);
  }
  for (; copies < p.buffers.size(); ++copies) list(copies, none);
}

WEFT_DECL void buffer_extents::resolve(const program& p, extent_bindings& known) {
  const auto is_known = [&](const shape& s) {
    for (std::size_t i = 0; i < s.rank; ++i)
      if (s[i] < 0 && !known.compute(p.g, s[i])) return false;
    return true;
  };
  for (named_extents& e : named_extents_) {
    e.now = e.declared;
    if (e.needed_by != none)
      e.now = known.resolve(p.g, p.name(e.needed_by), e.declared);
    else if (is_known(e.declared))
      e.now = known.resolve(p.g, "a copy", e.declared);
  }
  for (const auto& [buffer, e] : named_buffers_) infos_[buffer].extents = named_extents_[e].now;
}

#endif

}  // namespace weft::plan

WEFT_COLD_END
