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
#include <weft/plan/placement.hpp>
#include <weft/plan/program.hpp>
#include <weft/plan/prune.hpp>
#include <weft/plan/task_support.hpp>
#include <weft/plan/update_groups.hpp>
#include <weft/tensor/owned.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

struct compiled_step;

/// Runs the passes that place a step's values and divide its work. They look at extents to weigh one way against
/// another, so they run when the first are known; what they decide stays. After an error the step is as it was before.
void compile(compiled_step&, extent_bindings& known);

/// The passes that look at the graph alone: a program whose nodes are those that the request needs, in their order.
/// `home`: where what is fed and fetched lies.
owned<program> make_program(const graph&, step_request, bool is_subgraph, device_number home);

/// The subgraphs of a step's nodes. Programs without any do not pay for them: subgraphs.hpp is behind this.
class step_subgraphs {
 public:
  virtual ~step_subgraphs() = default;
  /// Binds those of nodes whose kernels are to be made, and finds what memory they need. `like`: see bind().
  virtual void bind(binding&, const binding* like) = 0;
  /// The subgraphs of a node that was bound.
  virtual prepared_subgraphs* of(std::uint32_t node) = 0;
};

/// Makes them, once a program is made. Set when the program starts by a file that includes <weft/control_flow.hpp>;
/// null in others.
inline WEFT_API step_subgraphs* (*new_step_subgraphs)(compiled_step&) = nullptr;

/// A step, and what its passes have made of it.
struct compiled_step {
  compiled_step(const environment& s, const graph& g, step_request request)
      : session(s), made(make_program(g, std::move(request), false, {})) {}
  /// Compiles a subgraph of a node, which runs on this device with what the kernel of that node is given: memory, and
  /// the queue or the threads.
  compiled_step(const environment& s, const subgraph& subgraph, device_number on)
      : session(s), made(make_program(subgraph.nodes, {subgraph.results, {}, subgraph.parameters}, true, on)) {}
  compiled_step(const compiled_step&) = delete;
  compiled_step& operator=(const compiled_step&) = delete;

  const environment& session;
  owned<program> made;
  bool compiled = false;
  owned<step_subgraphs> subgraphs;  ///< null where no node has any
  owned<gpu_step> gpus;             ///< null where no GPU takes part
  owned<task_step> tasks;           ///< null where no other task does
  operand_table operands;
  program_extents extents;
  buffer_extents infos;
  arena_memory arenas;

  /// By buffer: the version of a variable that the step only reads, or of a constant; null of others.
  sequence<const content_version*> versions;
  sequence<content_version*> changed;  ///< of the variables that the step writes

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
                "a step with cond or while_loop needs a file of the program that includes <weft/control_flow.hpp>");
  step.subgraphs = owned(new_step_subgraphs(step));
}

/// Lists the variables whose values kernels may keep something of, and those that the step changes.
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
    if (v.where.gpu || !v.version()) continue;  // its values are not on this host
    if (written[b])
      step.changed.push_back(v.version_to_change());
    else
      step.versions[b] = v.version();
  }
  for (const std::uint32_t n : p.constants) step.versions[p.nodes[n].first_buffer] = p.node_of(n).init.data.version();
}

WEFT_DECL void compile(compiled_step& step, extent_bindings& known) {
  struct restart {  // the passes change what they find
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
  p.lanes_per_device =
      p.gpus || p.is_subgraph ? 1 : session.lanes_per_device;  // one thread drives the GPUs, and does it all
  if (p.gpus) step.gpus = owned(session.gpus->new_step());
  number_buffers(p);
  step.infos.clear();
  step.infos.list(p);
  step.infos.resolve(p, known);
  fuse(p);
  if (step.gpus) step.gpus->assign_layouts(p, step.infos.data());
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
