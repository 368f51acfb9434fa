// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include <weft/graph/scopes.hpp>

#if WEFT_DEFINITIONS
WEFT_COLD_BEGIN
namespace weft {

/// Reverse mode: visits the nodes between xs and ys in reverse order. Each operation records its gradient in symbols.
WEFT_DECL sequence<symbol> graph::differentiate(const sequence<symbol>& ys, const sequence<symbol>& upstream,
                                                const sequence<symbol>& xs, bool partial) {
  const auto count = static_cast<std::uint32_t>(data_->nodes.size());
  sequence<char> depends(count, 0), is_end(count, 0);
  std::uint32_t first = count, last = 0;
  for (const symbol& x : xs) {
    detail::check_same_graph("gradients", this, x);
    depends[x.id().node] = 1;
    is_end[x.id().node] = partial;
    if (x.id().node < first) first = x.id().node;
  }
  for (const symbol& y : ys)
    if (y.id().node > last) last = y.id().node;
  for (std::uint32_t n = first; n < count; ++n)
    for (const value& in : data_->nodes[n].def.inputs)
      if (depends[in.node] && is_floating(info(in).type) && !is_operation<stop_gradient_op>(data_->nodes[n].def.op))
        depends[n] = 1;

  sequence<sequence<symbol>> arriving(count);  // for each node and output
  const auto arrive = [&](value at, symbol g) {
    auto& outputs = arriving[at.node];
    outputs.resize(data_->nodes[at.node].def.outputs.size());
    outputs[at.output] = outputs[at.output].is_number() ? g : outputs[at.output] + g;
  };
  for (std::size_t i = 0; i < ys.size(); ++i)
    if (depends[ys[i].id().node]) arrive(ys[i].id(), upstream[i]);

  for (std::uint32_t n = last + 1; n-- > first && !ys.empty();) {
    if (arriving[n].empty() || !depends[n] || is_end[n]) continue;
    const node_def def = data_->nodes[n].def;  // a copy, because recording moves the nodes
    sequence<symbol> inputs, outputs, results(def.inputs.size());
    sequence<bool> wanted(def.inputs.size());
    bool any = false;
    for (std::size_t i = 0; i < def.inputs.size(); ++i) {
      const value in = def.inputs[i];
      inputs.push_back({this, in});
      wanted[i] = depends[in.node] && is_floating(info(in).type);
      any = any || wanted[i];
    }
    if (!any) continue;
    for (std::uint32_t o = 0; o < def.outputs.size(); ++o) outputs.push_back({this, {n, o}});
    if (!def.op->gradient)
      throw error(error_code::unimplemented, data_->nodes[n].name, {def.op->name, " has no gradient"});
    const device_scope beside(*this, data_->nodes[n].device);  // gradients run where their operations do
    gradient_context context(def, inputs.data(), outputs.data(), arriving[n].data(), wanted.data(), results.data());
    def.op->gradient(context);
    for (std::size_t i = 0; i < results.size(); ++i)
      if (wanted[i] && !results[i].is_number()) arrive(def.inputs[i], results[i]);
  }

  sequence<symbol> results;
  for (const symbol& x : xs) {
    const auto& outputs = arriving[x.id().node];
    results.push_back(outputs.empty() ? symbol() : outputs[x.id().output]);
    if (is_operation<variable_op>(data_->nodes[x.id().node].def.op) && !results.back().is_number())
      note_gradient(results.back().id(), x.id().node);
  }
  return results;
}

}  // namespace weft
WEFT_COLD_END
#endif
