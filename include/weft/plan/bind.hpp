// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <utility>

#include <weft/plan/binding.hpp>
#include <weft/plan/compile.hpp>
#include <weft/plan/kernels.hpp>
#include <weft/tensor/owned.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

/// Creates a binding for the fed values, and compiles the step if this is its first binding.
///
/// `known`: values of named extents that are already known. `like`: a binding whose kernels are reused for nodes with
/// equal extents, or null.
owned<binding> bind(compiled_step&, const fed_value* fed, const extent_bindings& known, const binding* like);

#if WEFT_DEFINITIONS

/// Sets named extents from the fed values and constants. Throws invalid_argument if two values disagree.
WEFT_DECL void bind_extents(const program& p, binding& b, const fed_value* fed, const extent_bindings& before) {
  const graph& g = p.g;
  b.extents = before;
  sequence<std::pair<std::int64_t, std::uint32_t>> bound_by;  // names, and the nodes that determined their values
  const auto bind = [&](value v, const shape& given, const char* what) {
    const shape& declared = g.info(v).extents;
    bool fits = declared.rank == given.rank;
    for (std::size_t a = 0; fits && a < declared.rank; ++a) {
      if (declared[a] >= 0) {
        fits = declared[a] == given[a];
        continue;
      }
      const std::int64_t* known = b.extents.find(declared[a]);
      if (!known) {
        b.extents.bind(declared[a], given[a]);
        bound_by.push_back({declared[a], v.node});
      } else if (*known != given[a]) {
        const char* other = "the graph";
        for (const auto& [code, node] : bound_by)
          if (code == declared[a]) other = g[node].name.c_str();
        throw error(error_code::invalid_argument, g[v.node].name,
                    {"the extent ", g.extent_name(declared[a]), " is ", given[a], " here but ", *known, " in ", other,
                     ": ", what, weft::to_string(given), " for ", g.to_string(declared)});
      }
    }
    if (!fits)
      throw error(error_code::invalid_argument, g[v.node].name,
                  {what, weft::to_string(given), " for ", g.to_string(declared)});
  };
  for (const std::uint32_t n : p.constants) {
    shape extents;
    for (const std::int64_t size : p.def(n).attributes) extents.push_back(size);
    bind({p.nodes[n].number, 0}, extents, "a constant of ");
  }
  for (std::size_t i = 0; i < p.request.feeds.size(); ++i) bind(p.request.feeds[i], fed[i].extents, "fed ");
  b.extents.check_computed(g);
}

WEFT_DECL void assign_addresses(compiled_step& step, binding& b) {
  const program& p = *step.made;
  const environment& session = step.session;
  const buffer_assignment assigned(p, step.infos.data(), b);
  for (std::size_t a = 0; a < p.arenas.size(); ++a) b.arena_bytes.push_back(assigned.bytes(a));
  b.addresses.resize(p.buffers.size());
  if (!p.is_subgraph) step.arenas.reserve(p, session, step.gpus.get(), b);
  b.bases = step.arenas.bases();
  const auto address = [&](std::uint32_t arena, std::size_t offset) {
    return p.is_subgraph ? reinterpret_cast<std::byte*>(offset) : b.bases[arena] + offset;
  };
  for (std::uint32_t i = 0; i < p.buffers.size(); ++i)
    if (p.buffers[i].kind == buffer_kind::arena) b.addresses[i] = address(p.buffers[i].arena, assigned.offset(i));
  b.workspaces.assign(p.instructions.size(), nullptr);
  for (std::uint32_t i = 0; i < p.instructions.size(); ++i)
    if (workspace_bytes(p, b, i) != 0)
      b.workspaces[i] = address(buffer_assignment::workspace_arena(p, i), assigned.workspace_offset(i));
  for (const std::uint32_t n : p.variables)
    b.addresses[p.nodes[n].first_buffer] = session.variables[p.nodes[n].number].address_in_steps();
  for (const std::uint32_t n : p.constants) b.addresses[p.nodes[n].first_buffer] = p.node_of(n).init.data.data();
  for (const std::uint32_t n : p.positions)
    b.addresses[p.nodes[p.index[n]].first_buffer] = reinterpret_cast<std::byte*>(&session.random.position);
}

WEFT_DECL owned<binding> bind(compiled_step& step, const fed_value* fed, const extent_bindings& known,
                              const binding* like) {
  auto made = owned(new binding);
  bind_extents(*step.made, *made, fed, known);
  if (step.compiled)
    step.infos.resolve(*step.made, made->extents);
  else
    compile(step, made->extents);
  const program& p = *step.made;
  for (std::size_t i = 0; i < p.request.feeds.size(); ++i) made->fed.push_back({fed[i].extents, p.feed_buffers[i]});
  for (std::size_t i = 0; i < p.request.fetches.size(); ++i) {
    const value_info& v = step.infos[p.buffer_of(p.request.fetches[i])];
    const std::uint32_t b = p.fetch_buffers[i];
    made->fetched.push_back({v.extents, v.bytes(), b, p.buffers[b].kind == buffer_kind::caller});
  }
  for (const std::int64_t code : step.extents.names()) {
    const std::int64_t* const value = made->extents.compute(p.g, code);
    made->names.push_back(value ? *value : -1);
  }
  if (step.subgraphs) step.subgraphs->bind(*made, like);
  prepare_kernels(step, *made, like);
  assign_addresses(step, *made);
  if (step.gpus) step.gpus->bind(p, *made, step.infos.data());
  return made;
}

#endif

}  // namespace weft::plan

WEFT_COLD_END
