#pragma once

#include <string>
#include <utility>

#include <weft/session/binding.hpp>
#include <weft/session/binding_cache.hpp>
#include <weft/session/buffers.hpp>
#include <weft/session/executor.hpp>
#include <weft/session/fusion.hpp>
#include <weft/session/gpu_support.hpp>
#include <weft/session/instructions.hpp>
#include <weft/session/lanes.hpp>
#include <weft/session/liveness.hpp>
#include <weft/session/ordering.hpp>
#include <weft/session/prune.hpp>

WEFT_COLD_BEGIN
namespace weft {

class step_plan;

/// The bodies of a step's nodes. Programs without any do not pay for them: bodies.hpp is behind this.
class step_bodies {
 public:
  virtual ~step_bodies() = default;
  /// Binds those of nodes whose kernels are to be made, and finds what memory they need. `like`: see step_plan.
  virtual void bind(binding&, const binding* like) = 0;
  /// Of a node that was bound.
  virtual prepared_bodies* of(std::uint32_t node) = 0;
};

/// Makes them, once a program is made. Set when the program starts by a file that includes <weft/control_flow.hpp>;
/// null in others.
inline step_bodies* (*new_step_bodies)(step_plan&) = nullptr;

/// A prepared step: its program, and a binding for each set of extents that it was called with. The passes that look at
/// extents to weigh one way against another run when the first are known; what they decide stays. Running a step that
/// is bound allocates nothing.
///
/// Bindings share one block of memory for each arena, as large as the largest needs, and the kernels whose extents are
/// the same.
class step_plan {
 public:
  step_plan(const session_resources& s, const graph& g, step_request request) : s_(s) {
    start_program(g, std::move(request), false, {});
  }
  /// Of a body of a node, which runs on this device with what the kernel of that node is given: memory, and the queue
  /// or the threads.
  step_plan(const session_resources& s, const graph_body& body, device_number on) : s_(s) {
    start_program(body.nodes, {body.results, {}, body.parameters}, true, on);
  }
  step_plan(const step_plan&) = delete;
  step_plan& operator=(const step_plan&) = delete;

  /// The binding for what is fed, which is made if there is none.
  binding& bind(const detail::fed_value* fed);

  void run(binding& b, step_times* times) {
    check_initialized();
    if (gpu_)
      gpu_->run(*program_, b, *s_.pools[0], times);
    else
      executor_->run(b, s_, times);
    if (has_effects_) note_effects();
    kernels_alone_ = !gpu_ && !has_effects_;
  }
  /// Whether nothing is left to do but to run kernels on CPUs.
  bool runs_kernels_alone() const;
  void run_kernels(const binding& b);

  void report(const step_times& times, step_observer& to) const {
    for (std::size_t i = 0; i < times.of.size(); ++i)
      if (times.of[i].ended) {
        const instruction& in = program_->instructions[i];
        to.kernel_ran(detail::lane_name(*program_, in), detail::name_of(*program_, in),
                      current_->kernels[i]->describe(), times.of[i].began, times.of[i].ended);
      }
    to.step_ended();
  }

  const step_request& request() const { return program_->request; }

  // ---- what it is, for tests and `explain` ----

  std::size_t kernels() const { return program_->instructions.size(); }
  std::size_t bindings() const { return bindings_.size(); }
  std::size_t arena_bytes() const {
    std::size_t bytes = 0;
    for (const std::size_t b : current_->arena_bytes) bytes += b;
    return bytes;
  }
  const binding* current() const { return current_; }
  std::string describe() const;
  /// Where each operation runs, in TensorFlow's form.
  std::string placement_log() const;

 private:
  friend class bodies_of_step;

  binding& choose_binding(const detail::fed_value* fed);
  gpu::owned<binding> make_binding(const detail::fed_value* fed, const extent_bindings& known, const binding* like);
  void bind_extents(binding& b, const detail::fed_value* fed, const extent_bindings& before) const;
  void list_extents(std::uint32_t from);
  void resolve(binding& b);
  void start_program(const graph& g, step_request request, bool is_body, device_number home);
  void make_program(binding& b);
  void list_bodies();
  void assign_addresses(binding& b);
  void reserve(const binding& b);
  void prepare_kernels(binding& b, const binding* like);
  void refresh(binding& b);

  prepare_context context_of(std::uint32_t n, sequence<value_info>& operands) const;
  kernel* prepare(std::uint32_t n, const prepare_context& c, const product_fusion* fusion = nullptr) const;
  kernel* prepare(const instruction& i);
  void check_initialized();
  void note_effects();
  /// Of a buffer in the binding that ran last.
  std::size_t bytes_of(std::uint32_t b) const {
    value_info v = program_->buffers[b].declared;
    v.extents = current_->extents.resolve(program_->g, "step", v.extents);
    return v.bytes();
  }

  const session_resources& s_;
  gpu::owned<program> program_;
  gpu::owned<step_bodies> bodies_;  // null where no node has any
  gpu::owned<gpu_step> gpu_;        // null where no GPU takes part
  gpu::owned<cpu_executor> executor_;
  gpu::owned<operand_table> operands_;
  gpu::owned<program_extents> extents_;
  sequence<value_info> infos_;  // of each buffer, for the binding that is made
  struct named_extents {
    shape declared;
    std::uint32_t needed_by;  // a node that runs; none: they may be unknown
    shape now = {};           // for that binding
  };
  sequence<named_extents> named_extents_;
  sequence<std::pair<std::uint32_t, std::uint32_t>> named_buffers_;  // and the number of their extents
  sequence<value_info> of_node_, of_leader_;                         // the operands of the kernel that is made
  sequence<storage> blocks_;                                         // of each arena on the host
  sequence<std::byte*> bases_;
  sequence<std::size_t> block_bytes_;
  bool checked_ = false, kernels_alone_ = false;
  bool has_effects_ = true;  // on what the session knows
  binding_cache bindings_;   // gone before what it lies in
  binding* current_ = nullptr;
};

WEFT_COLD_END

// What each step goes through is compiled in full.
inline binding& step_plan::bind(const detail::fed_value* fed) {
  return current_ && current_->is_for(fed) ? *current_ : choose_binding(fed);
}
inline bool step_plan::runs_kernels_alone() const { return kernels_alone_; }
inline void step_plan::run_kernels(const binding& b) { executor_->run(b, s_, nullptr); }

WEFT_COLD_BEGIN

#if WEFT_BODIES

namespace detail {

class copy_kernel final : public kernel {
 public:
  copy_kernel(std::uint32_t from, std::uint32_t to, std::size_t bytes) : from_(from), to_(to), bytes_(bytes) {}
  void run(const kernel_context& f) override { __builtin_memcpy(f.buffers[to_], f.buffers[from_], bytes_); }
  std::string describe() const override { return str_cat({"snapshot of a variable, ", bytes_, " bytes"}); }

 private:
  std::uint32_t from_, to_;
  std::size_t bytes_;
};

}  // namespace detail

WEFT_DECL binding& step_plan::choose_binding(const detail::fed_value* fed) {
  const std::uint64_t hash = binding_cache::hash_of(fed, program_->request.feeds.size());
  const binding* const before = std::exchange(current_, nullptr);  // none is current if there is no memory
  binding* b = bindings_.find(fed, hash);
  if (!b) {
    auto made = make_binding(fed, s_.extents, before ? before : bindings_.newest());
    made->hash = hash;
    b = made.get();
    bindings_.add(static_cast<gpu::owned<binding>&&>(made));
  }
  refresh(*b);
  current_ = b;
  return *b;
}

WEFT_DECL void step_plan::start_program(const graph& g, step_request request, bool is_body, device_number home) {
  program_ = gpu::owned(new program(g, std::move(request)));
  program_->is_body = is_body;
  program_->home = home;
  prune(*program_);
  ordering::of(*program_);
}

/// `known`: values that named extents have already. `like`: a binding whose kernels serve where the extents are the
/// same.
WEFT_DECL gpu::owned<binding> step_plan::make_binding(const detail::fed_value* fed, const extent_bindings& known,
                                                      const binding* like) {
  auto made = gpu::owned(new binding);
  bind_extents(*made, fed, known);
  if (executor_)
    resolve(*made);
  else
    make_program(*made);
  const program& p = *program_;
  for (std::size_t i = 0; i < p.request.feeds.size(); ++i) made->fed.push_back({fed[i].extents, p.feed_buffers[i]});
  for (std::size_t i = 0; i < p.request.fetches.size(); ++i) {
    const value_info& v = infos_[p.buffer_of(p.request.fetches[i])];
    const std::uint32_t b = p.fetch_buffers[i];
    made->fetched.push_back({v.extents, v.bytes(), b, p.buffers[b].kind == buffer_kind::caller});
  }
  for (const std::int64_t code : extents_->names()) {
    const std::int64_t* const value = made->extents.compute(p.g, code);
    made->names.push_back(value ? *value : -1);
  }
  if (bodies_) bodies_->bind(*made, like);
  assign_addresses(*made);
  prepare_kernels(*made, like);
  if (gpu_) gpu_->bind(p, *made, infos_.data());
  return made;
}

/// Named extents get the values of what is fed and of constants. Throws invalid_argument where two disagree.
WEFT_DECL void step_plan::bind_extents(binding& b, const detail::fed_value* fed, const extent_bindings& before) const {
  const graph& g = program_->g;
  b.extents = before;
  sequence<std::pair<std::int64_t, std::uint32_t>> bound_by;  // names, and the nodes whose values have them
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
  for (const std::uint32_t n : program_->constants) {
    shape extents;
    for (const std::int64_t size : program_->def(n).attributes) extents.push_back(size);
    bind({program_->nodes[n].number, 0}, extents, "a constant of ");
  }
  for (std::size_t i = 0; i < program_->request.feeds.size(); ++i)
    bind(program_->request.feeds[i], fed[i].extents, "fed ");
  b.extents.check_computed(g);
}

/// Notes which buffers, from this number on, have extents that are known at run time only. Few sets of names are many
/// buffers'.
WEFT_DECL void step_plan::list_extents(std::uint32_t from) {
  const program& p = *program_;
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

/// Gives buffers their extents. Those of values that are not computed may be asked for all the same; an unknown one is
/// an error only if it is used.
WEFT_DECL void step_plan::resolve(binding& b) {
  const program& p = *program_;
  const auto known = [&](const shape& s) {
    for (std::size_t i = 0; i < s.rank; ++i)
      if (s[i] < 0 && !b.extents.compute(p.g, s[i])) return false;
    return true;
  };
  for (named_extents& e : named_extents_) {
    e.now = e.declared;
    if (e.needed_by != none)
      e.now = b.extents.resolve(p.g, p.name(e.needed_by), e.declared);
    else if (known(e.declared))
      e.now = b.extents.resolve(p.g, "a copy", e.declared);
  }
  for (const auto& [buffer, e] : named_buffers_) infos_[buffer].extents = named_extents_[e].now;
}

WEFT_DECL void step_plan::make_program(binding& b) {
  struct restart {  // the passes change what they find
    step_plan* plan;
    ~restart() {
      if (!plan) return;
      const gpu::owned<program> made = static_cast<gpu::owned<program>&&>(plan->program_);
      plan->start_program(made->g, made->request, made->is_body, made->home);
      plan->gpu_ = {};
      plan->executor_ = {};
    }
  } unless_made{this};
  program& p = *program_;
  place(p, [&](std::uint32_t n) {
    if (p.is_body) return p.home;
    const operation* const o = p.g[n].def.op;
    if (o == &operation_of<variable_op>) return s_.variables[n].where;
    if (!o->writes) return s_.place.of(n);
    do n = p.g[n].def.inputs[0].node;
    while (p.g[n].def.op->alias);
    return s_.variables[n].where;
  });
  p.cpus = p.is_body ? 1 : s_.pools.size();
  p.lanes_per_device = p.gpus || p.is_body ? 1 : s_.lanes_per_device;  // one thread drives the GPUs, and does it all
  if (p.gpus) gpu_ = gpu::owned(s_.gpus->new_step());
  number_buffers(p);
  infos_.clear();
  named_extents_.clear();
  named_buffers_.clear();
  list_extents(0);
  resolve(b);
  fusion::of(p);
  if (gpu_) gpu_->assign_layouts(p, infos_.data());
  instruction_list::of(p);
  if (gpu_) gpu_->insert_copies(p);
  in_place_assignment::of(p);
  list_extents(static_cast<std::uint32_t>(infos_.size()));
  resolve(b);
  assign_lanes(p, [&](std::uint32_t i) -> const value_info& { return infos_[i]; });
  liveness::of(p);
  if (gpu_)
    gpu_->list_stages(p);
  else
    add_dependencies(p);
  operands_ = gpu::owned(new operand_table(p));
  extents_ = gpu::owned(new program_extents(p, *operands_, s_.extents));
  list_bodies();
  executor_ = gpu::owned(new cpu_executor(p));
  unless_made.plan = nullptr;
}

WEFT_DECL void step_plan::list_bodies() {
  const program& p = *program_;
  bodies_ = {};
  bool any = false;
  for (const instruction& in : p.instructions) any = any || (!in.copies && !p.def(in.node).bodies.empty());
  if (!any) return;
  if (!new_step_bodies)
    throw error(error_code::failed_precondition, "prepare",
                "a step with cond or while_loop needs what <weft/control_flow.hpp> includes");
  bodies_ = gpu::owned(new_step_bodies(*this));
}

WEFT_DECL void step_plan::assign_addresses(binding& b) {
  const program& p = *program_;
  const buffer_assignment assigned(p, infos_.data());
  for (std::size_t a = 0; a < p.arenas.size(); ++a) b.arena_bytes.push_back(assigned.bytes(a));
  b.addresses.resize(p.buffers.size());
  if (!p.is_body) reserve(b);
  b.bases = bases_;
  for (std::uint32_t i = 0; i < p.buffers.size(); ++i)
    if (p.buffers[i].kind == buffer_kind::arena)
      b.addresses[i] = p.is_body ? reinterpret_cast<std::byte*>(assigned.offset(i))
                                 : bases_[p.buffers[i].arena] + assigned.offset(i);
  for (const std::uint32_t n : p.variables)
    b.addresses[p.nodes[n].first_buffer] = s_.variables[p.nodes[n].number].address();
  for (const std::uint32_t n : p.constants) b.addresses[p.nodes[n].first_buffer] = p.node_of(n).init.data.data();
  for (const std::uint32_t n : p.positions)
    b.addresses[p.nodes[p.index[n]].first_buffer] = reinterpret_cast<std::byte*>(&s_.random.position);
}

/// Makes the arenas large enough.
WEFT_DECL void step_plan::reserve(const binding& b) {
  const program& p = *program_;
  blocks_.resize(p.arenas.size());
  bases_.resize(p.arenas.size());
  block_bytes_.resize(p.arenas.size());
  for (std::size_t a = 0; a < p.arenas.size(); ++a) {
    if (b.arena_bytes[a] <= block_bytes_[a]) continue;
    block_bytes_[a] = 0;
    if (p.arenas[a].kind == arena_info::kind_type::host) {
      blocks_[a] = {};
      blocks_[a] = storage(b.arena_bytes[a], s_.memory);
      bases_[a] = blocks_[a].data();
    } else {
      bases_[a] = gpu_->allocate(p, a, b.arena_bytes[a]);
    }
    block_bytes_[a] = b.arena_bytes[a];
  }
}

/// A block may have moved since a binding was last used: another one needed more of it.
WEFT_DECL void step_plan::refresh(binding& b) {
  reserve(b);
  if (b.bases == bases_) return;
  const program& p = *program_;
  for (std::uint32_t i = 0; i < p.buffers.size(); ++i)
    if (p.buffers[i].kind == buffer_kind::arena)
      b.addresses[i] = bases_[p.buffers[i].arena] + (b.addresses[i] - b.bases[p.buffers[i].arena]);
  b.bases = bases_;
  if (gpu_) gpu_->rebind(b);
}

// ---- kernels ----

/// The call that a node's kernel is made from; `operands` has room for what is known of them.
WEFT_DECL prepare_context step_plan::context_of(std::uint32_t n, sequence<value_info>& operands) const {
  const std::size_t count = operands_->count(n), inputs = operands_->inputs(n);
  const std::uint32_t *const slots = operands_->slots(n), *const buffers = operands_->buffers(n);
  operands.resize(count);
  for (std::size_t k = 0; k < count; ++k) operands[k] = infos_[buffers[k]];
  return {program_->def(n), operands.data(), operands.data() + inputs, slots,
          slots + inputs,   nullptr,         program_->nodes[n].layout};
}

WEFT_DECL kernel* step_plan::prepare(std::uint32_t n, const prepare_context& c, const product_fusion* fusion) const {
  const operation& op = program_->op(n);
  if (program_->nodes[n].on.gpu) return gpu_->prepare(*program_, n, c, fusion);
  if (fusion) return op.prepare_fused(c, *fusion);
  if (!op.prepare_cpu)
    throw error(error_code::unimplemented, program_->name(n), {op.name, " has no kernel for the CPU"});
  return op.prepare_cpu(c);
}

WEFT_DECL kernel* step_plan::prepare(const instruction& i) {
  const program& p = *program_;
  if (i.copies) {
    if (i.on.gpu) return gpu_->prepare_copy(p, i, infos_.data());
    return new detail::copy_kernel(i.reads[0], i.writes[0], infos_[i.writes[0]].bytes());
  }
  prepare_context own = context_of(i.node, of_node_);
  if (bodies_) own.bodies = bodies_->of(i.node);
  if (i.leader == none) return prepare(i.node, own);
  const prepare_context leading = context_of(i.leader, of_leader_);
  product_fusion fusion;
  if (p.op(i.node).part == fusion_kind::descent)
    fusion = {own.input_slots[update_view::variable_input()], -update_view(own.c).descent_rate(), true};
  else
    fusion = {own.output_slots[0], 1, false, prepare(i.node, own), &own};
  return prepare(i.leader, leading, &fusion);
}

/// `like`: a binding whose kernels serve where the extents are the same.
WEFT_DECL void step_plan::prepare_kernels(binding& b, const binding* like) {
  const auto count = static_cast<std::uint32_t>(program_->instructions.size());
  b.kernels.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i)
    if (like && extents_->same(i, like->names, b.names))
      b.kernels.push_back(like->kernels[i]);
    else
      b.kernels.push_back(kernel_handle(prepare(program_->instructions[i])));
}

/// Throws failed_precondition if a variable that the step reads has no value.
WEFT_DECL void step_plan::check_initialized() {
  if (checked_) return;
  const program& p = *program_;
  const auto check = [&](value v) {
    const std::uint32_t n = p.variable_behind(v);
    if (n != none && !s_.variables[p.nodes[n].number].initialized)
      throw error(error_code::failed_precondition, p.name(n),
                  "the variable is read but has no value: give it an initializer, or assign it first");
  };
  for (std::uint32_t n = 0; n < p.running; ++n)
    for (std::size_t i = 0; i < p.def(n).inputs.size(); ++i)
      if (program::reads(p.def(n), i)) check(p.def(n).inputs[i]);
  for (const value& v : p.request.fetches) check(v);
  checked_ = true;
}

/// When a step has run to its end: that variables have values now, and where the random numbers of the next one begin.
WEFT_DECL void step_plan::note_effects() {
  for (const std::uint32_t v : program_->written_variables) s_.variables[v].initialized = true;
  program_->written_variables.clear();
  has_effects_ = !program_->positions.empty();
  if (has_effects_) ++s_.random.position;
}

// ---- explain ----

WEFT_DECL std::string step_plan::placement_log() const {
  const program& p = *program_;
  std::string text;
  for (std::uint32_t n = 0; n < p.running; ++n)
    if (p.computes(n) || p.def(n).op == &operation_of<variable_op>)
      append(text,
             {p.name(n), ": (", p.op(n).name, "): /job:localhost/replica:0/task:0", to_string(p.nodes[n].on), "\n"});
  return text;
}

WEFT_DECL std::string step_plan::describe() const {
  const program& p = *program_;
  std::string text;
  if (!current_) {
    text = "not planned yet, since its extents are not known before the first call; nodes in order:\n";
    for (std::uint32_t n = 0; n < p.running; ++n) append(text, {"  ", p.name(n), "\n"});
    return text;
  }
  std::size_t fused = 0, forwarded = 0, separate = 0, assigned = 0, copies = 0;
  for (std::uint32_t i = 0; i < p.instructions.size(); ++i) {
    const instruction& in = p.instructions[i];
    append(text, {i, "  ", detail::lane_name(p, in), "  ", p.name(in.node), "  ", current_->kernels[i]->describe()});
    if (in.assigned != none) append(text, {" into ", p.name(in.assigned)});
    if (!in.dependencies.empty()) {
      text += "  waits for";
      for (const std::uint32_t w : in.dependencies) append(text, {" ", w});
    }
    text += "\n";
    current_->kernels[i]->describe_bodies(text, 6);
    fused += in.leader != none, assigned += in.assigned != none, copies += in.copies;
  }
  for (std::uint32_t b = 0; b < p.buffers.size(); ++b) {
    if (p.buffers[b].kind == buffer_kind::arena) separate += bytes_of(b);
    forwarded += p.buffers[b].forwarded_from != none;
  }
  if (gpu_) gpu_->describe(p, *current_, text);
  for (std::uint32_t n = 0; n < p.running; ++n)
    if (p.computes(n) && (gpu_ ? !p.nodes[n].on.gpu : s_.place.moved(p.nodes[n].number)))
      append(text, {p.name(n), " ", s_.place.explain(p.nodes[n].number), "\n"});
  append(text, {"prune: ", p.running, " of ", p.g.size(), " nodes; order: ", p.snapshot_readers.size(),
                " reads of old values; fusion: ", fused, " kernels take in another; copies: ", copies,
                "; in-place assignment: ", assigned, "; forwarding: ", forwarded, " buffers; lanes: ", p.lanes.size(),
                "; bindings: ", bindings_.size(), "\n"});
  append(text, {p.instructions.size(), " kernels; ", arena_bytes(), " bytes of memory for ", separate,
                " bytes of intermediate values\n"});
  return text;
}

#endif

}  // namespace weft

WEFT_COLD_END
