// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <utility>

#include <weft/plan/arenas.hpp>
#include <weft/plan/buffers.hpp>
#include <weft/plan/environment.hpp>
#include <weft/plan/extents.hpp>
#include <weft/plan/fusion.hpp>
#include <weft/plan/gpu_support.hpp>
#include <weft/plan/instructions.hpp>
#include <weft/plan/lanes.hpp>
#include <weft/plan/liveness.hpp>
#include <weft/plan/operand_table.hpp>
#include <weft/plan/ordering.hpp>
#include <weft/plan/parts.hpp>
#include <weft/plan/placement.hpp>
#include <weft/plan/program.hpp>
#include <weft/plan/prune.hpp>
#include <weft/plan/task_support.hpp>
#include <weft/plan/update_groups.hpp>
#include <weft/tensor/owned.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

struct compiled_step;

/// Runs the passes that place a step's values and partition its work. Their cost estimates use extents, so they run
/// when the first extents are known, and their decisions stay. After an error, the step is unchanged.
void compile(compiled_step&, extent_bindings& known);

/// Runs the passes that depend only on the graph: the program contains the nodes that the request needs, in execution
/// order. `home`: the device of fed and fetched values.
owned<program> make_program(const graph&, step_request, bool is_subgraph, device_number home);

/// The subgraphs of a step's nodes, implemented in subgraphs.hpp. An interface, so that programs without subgraphs do
/// not compile the implementation.
class step_subgraphs {
 public:
  virtual ~step_subgraphs() = default;
  /// Binds the subgraphs of nodes that need new kernels, and determines their memory. `like`: see bind().
  virtual void bind(binding&, const binding* like) = 0;
  /// Returns the subgraphs of a bound node.
  virtual prepared_subgraphs* of(std::uint32_t node) = 0;
};

/// Creates the subgraphs of a compiled program. A file that includes <weft/control_flow.hpp> sets this pointer at
/// program start; otherwise it is null.
inline WEFT_API step_subgraphs* (*new_step_subgraphs)(compiled_step&) = nullptr;

/// A step and the results of its passes.
struct compiled_step {
  compiled_step(const environment& s, const graph& g, step_request request)
      : session(s), made(make_program(g, std::move(request), false, {})) {}
  /// Compiles a subgraph of a node on `on`, the node's device. The subgraph runs with the memory and the queue or
  /// threads of the node's kernel.
  compiled_step(const environment& s, const subgraph& subgraph, device_number on)
      : session(s), made(make_program(subgraph.nodes, {subgraph.results, {}, subgraph.parameters}, true, on)) {}
  compiled_step(const compiled_step&) = delete;
  compiled_step& operator=(const compiled_step&) = delete;

  const environment& session;
  owned<program> made;
  bool compiled = false;
  owned<step_subgraphs> subgraphs;  ///< null if no node has subgraphs
  owned<gpu_step> gpus;             ///< null if the step uses no GPU
  owned<task_step> tasks;           ///< null if the step runs in one task
  operand_table operands;
  program_extents extents;
  buffer_extents infos;
  arena_memory arenas;

  /// For each buffer: the version of a constant, or of a variable that the step only reads; otherwise null.
  sequence<const content_version*> versions;
  sequence<content_version*> changed;  ///< versions of the variables that the step writes

  void report_changes() const noexcept {
    if (changed.empty()) return;
    const std::uint64_t now = content_version::next();
    for (content_version* v : changed) v->change(now);
  }
};

#if WEFT_DEFINITIONS

WEFT_DECL owned<program> make_program(const graph& g, step_request request, bool is_subgraph, device_number home) {
  auto made = owned(new program(g, std::move(request)));
  made->is_subgraph = is_subgraph;
  made->home = home;
  prune(*made);
  order(*made);
  return made;
}

WEFT_DECL void list_subgraphs(compiled_step& step) {
  const program& p = *step.made;
  step.subgraphs = {};
  bool any = false;
  for (const instruction& in : p.instructions) any = any || p.has_subgraphs(in);
  if (!any) return;
  if (!new_step_subgraphs)
    throw error(error_code::failed_precondition, "prepare",
                "the step uses cond or while_loop: include <weft/control_flow.hpp> in one source file");
  step.subgraphs = owned(new_step_subgraphs(step));
}

/// Lists the versions of variables and constants that kernels may cache, and of variables that the step changes.
WEFT_DECL void list_versions(compiled_step& step) {
  const program& p = *step.made;
  step.versions.assign(p.buffers.size(), nullptr);
  step.changed.clear();
  sequence<char> written(p.buffers.size(), 0);
  for (const instruction& i : p.instructions)
    for (const std::uint32_t b : i.writes) written[p.buffers[b].root] = 1;
  for (const std::uint32_t n : p.variables) {
    const std::uint32_t b = p.nodes[n].first_buffer;
    const variable_state& v = step.session.variables[p.nodes[n].number];
    if (v.where.gpu || !v.version()) continue;  // the values are not on this host
    if (written[b])
      step.changed.push_back(v.version_to_change());
    else
      step.versions[b] = v.version();
  }
  for (const std::uint32_t n : p.constants) step.versions[p.nodes[n].first_buffer] = p.node_of(n).init.data.version();
}

WEFT_DECL void compile(compiled_step& step, extent_bindings& known) {
  struct restart {  // undoes the changes of the passes after an error
    compiled_step* step;
    ~restart() {
      if (!step) return;
      const owned<program> made = static_cast<owned<program>&&>(step->made);
      step->made = make_program(made->g, made->request, made->is_subgraph, made->home);
      step->gpus = {};
      step->tasks = {};
    }
  } unless_compiled{&step};
  const environment& session = step.session;
  program& p = *step.made;
  if (session.tasks && !p.is_subgraph) p.self = session.tasks->self();
  place(p, [&](std::uint32_t n) {
    if (p.is_subgraph) return p.home;
    const operation* const o = p.g[n].def.op;
    if (is_operation<variable_op>(o)) return session.variables[n].where;
    if (!o->writes) return session.place.of(n);
    do n = p.g[n].def.inputs[0].node;
    while (p.g[n].def.op->alias);
    return session.variables[n].where;
  });
  p.cpus = p.is_subgraph ? 1 : session.cpus;
  p.lanes_per_device = p.gpus || p.is_subgraph ? 1 : session.lanes_per_device;  // a single thread drives all GPUs
  if (p.gpus) step.gpus = owned(session.gpus->new_step());
  number_buffers(p);
  step.infos.clear();
  step.infos.list(p);
  step.infos.resolve(p, known);
  fuse(p);
  if (step.gpus) step.gpus->assign_layouts(p, step.infos.data());
  if (!session.tasks || p.is_subgraph) find_parts(p);
  list_instructions(p);
  if (session.tasks && !p.is_subgraph) {
    step.tasks = owned(session.tasks->new_step());
    step.tasks->cut(p);
  }
  if (step.gpus) step.gpus->insert_copies(p);
  assign_in_place(p);
  step.infos.list(p);
  step.infos.resolve(p, known);
  group_updates(p, step.infos.data());
  assign_lanes(p, [&](std::uint32_t b) -> const value_info& { return step.infos[b]; });
  analyze_liveness(p);
  if (step.gpus)
    step.gpus->list_stages(p);
  else
    add_dependencies(p);
  step.operands = list_operands(p);
  step.extents = list_extents(p, step.operands, session.extents);
  list_subgraphs(step);
  list_versions(step);
  step.compiled = true;
  unless_compiled.step = nullptr;
}

#endif

}  // namespace weft::plan

WEFT_COLD_END
