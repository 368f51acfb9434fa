// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/plan/bind.hpp>
#include <weft/plan/program.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// The values of a step that depend on no feed, other than variables and constants: they are computed once, when the
/// step is frozen.
struct frozen_folding {
  frozen_folding(const plan::environment& session, const graph& g, const plan::step_request& of) {
    const owned<plan::program> p = plan::make_program(g, of, false, {});
    sequence<char> depends(p->nodes.size(), 0);
    for (std::uint32_t n = p->running; n < p->nodes.size(); ++n) depends[n] = p->nodes[n].fed;
    for (std::uint32_t n = 0; n < p->running; ++n) {
      const node_def& c = p->def(n);
      const bool is_value = is_operation<variable_op>(c.op) || is_operation<constant_op>(c.op);
      depends[n] = p->nodes[n].fed || (c.op->stateful && !is_value) || !c.subgraphs.empty();
      for (const value& v : c.inputs) depends[n] = depends[n] || depends[p->index_of(v)];
    }
    const auto fold = [&](const value& v) {
      const std::uint32_t by = p->computed_by(v);
      if (depends[p->index_of(v)] || !p->computes(by)) return;
      extent_bindings known = session.extents;
      for (const std::int64_t e : g.info(v).extents.extents)
        if (e < 0 && !known.compute(g, e)) return;
      for (const value& f : request.fetches)
        if (f == v) return;
      request.fetches.push_back(v);
    };
    for (std::uint32_t n = 0; n < p->running; ++n)
      for (std::size_t k = 0; depends[n] && k < p->def(n).inputs.size(); ++k)
        if (plan::program::reads(p->def(n), k)) fold(p->def(n).inputs[k]);
    values.resize(request.fetches.size());
  }
  void* place(std::size_t i, const shape& extents) {
    values[i].resize(extents.elements() * sizeof(double));
    return values[i].data();
  }

  plan::step_request request;  ///< fetches the values
  sequence<sequence<std::byte>> values;
};

}  // namespace weft::detail
WEFT_COLD_END
