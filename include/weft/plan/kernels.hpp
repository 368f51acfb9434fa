// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include <weft/plan/binding.hpp>
#include <weft/plan/compile.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

WEFT_COLD_BEGIN
namespace weft::plan {

/// Creates a binding's kernels. `like`: a binding whose kernels are reused for instructions with equal extents, or
/// null.
void prepare_kernels(const compiled_step&, binding&, const binding* like);

/// Returns the context from which a node's kernel is created; stores the operands' types and extents in `operands`.
prepare_context context_of(const compiled_step&, std::uint32_t n, sequence<value_info>& operands);

#if WEFT_DEFINITIONS

class snapshot_kernel final : public kernel {
 public:
  snapshot_kernel(std::uint32_t from, std::uint32_t to, std::size_t bytes) : from_(from), to_(to), bytes_(bytes) {}
  void run(const kernel_context& f) override { __builtin_memcpy(f.buffers[to_], f.buffers[from_], bytes_); }
  std::string describe() const override { return str_cat({"snapshot of a variable, ", bytes_, " bytes"}); }

 private:
  std::uint32_t from_, to_;
  std::size_t bytes_;
};

class kernel_preparation {
 public:
  explicit kernel_preparation(const compiled_step& step) : step_(step), p_(*step.made) {}

  kernel* prepare(const instruction& i) {
    if (i.transfer != none) return step_.tasks->prepare(p_, i, step_.infos.data());
    if (i.kind == instruction_kind::copy) {
      if (i.on.gpu) return step_.gpus->prepare_copy(p_, i, step_.infos.data());
      return new snapshot_kernel(i.reads[0], i.writes[0], step_.infos[i.writes[0]].bytes());
    }
    prepare_context own = context_of(step_, i.node, of_node_);
    if (step_.subgraphs) own.subgraphs = step_.subgraphs->of(i.node);
    if (!i.beside.empty()) return prepare_beside(i, own);
    if (const bool waits = p_.op(i.node).ordered; step_.tasks && (waits || p_.has_subgraphs(i)))
      return step_.tasks->around(prepare(i.node, own), waits);
    if (i.leader == none) return prepare(i.node, own);
    const prepare_context leading = context_of(step_, i.leader, of_leader_);
    product_fusion fusion;
    if (p_.op(i.node).fusion == fusion_kind::descent)
      fusion = {own.input_slots[update_view::variable_input()], -update_view(own.node).descent_rate(), true};
    else
      fusion = {own.output_slots[0], 1, false, prepare(i.node, own), &own};
    try {
      return prepare(i.leader, leading, &fusion);
    } catch (const error&) {  // of extents that do not fit: nothing owns the epilogue yet
      delete fusion.epilogue;
      throw;
    }
  }

 private:
  kernel* prepare_beside(const instruction& i, prepare_context& own) const {
    sequence<sequence<value_info>> operands(i.beside.size());
    sequence<prepare_context> others;
    for (std::size_t k = 0; k < i.beside.size(); ++k) others.push_back(context_of(step_, i.beside[k], operands[k]));
    own.beside = others.data();
    own.beside_count = others.size();
    return prepare(i.node, own);
  }

  kernel* prepare(std::uint32_t n, const prepare_context& c, const product_fusion* fusion = nullptr) const {
    const operation& op = p_.op(n);
    if (p_.nodes[n].on.gpu) return step_.gpus->prepare(p_, n, c, fusion);
    if (fusion) return op.prepare_fused(c, *fusion);
    if (!op.prepare_cpu)
      throw error(error_code::unimplemented, p_.name(n),
                  {op.name, " has no kernel for a CPU: place the node on a GPU"});
    return op.prepare_cpu(c);
  }

  const compiled_step& step_;
  const program& p_;
  sequence<value_info> of_node_, of_leader_;  // operands of the kernel being created
};

WEFT_DECL void prepare_kernels(const compiled_step& step, binding& b, const binding* like) {
  const program& p = *step.made;
  kernel_preparation preparation(step);
  const auto count = static_cast<std::uint32_t>(p.instructions.size());
  b.kernels.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i)
    if (like && step.extents.same(i, like->names, b.names))
      b.kernels.push_back(like->kernels[i]);
    else
      b.kernels.push_back(kernel_handle(preparation.prepare(p.instructions[i])));
}

/// Returns true if most elements of a value may be zero because it is a gradient through a max pool or a ReLU.
__attribute__((noinline)) WEFT_DECL bool may_be_mostly_zeros(const program& p, value v) {
  const std::uint32_t n = p.computed_by(v);
  const operation& op = p.op(n);
  if (p.nodes[n].fed) return false;
  if (op.yields_zeros && op.yields_zeros(p.def(n))) return true;
  if (op.fusion != fusion_kind::gradient) return false;
  for (const value& i : p.def(n).inputs)
    if (may_be_mostly_zeros(p, i)) return true;
  return false;
}

WEFT_DECL prepare_context context_of(const compiled_step& step, std::uint32_t n, sequence<value_info>& operands) {
  const operand_table& table = step.operands;
  const std::size_t count = table.count(n), inputs = table.inputs(n);
  const std::uint32_t *const slots = table.slots(n), *const buffers = table.buffers(n);
  operands.resize(count);
  for (std::size_t k = 0; k < count; ++k) operands[k] = step.infos[buffers[k]];
  const program& p = *step.made;
  prepare_context made{p.def(n),       operands.data(), operands.data() + inputs, slots,
                       slots + inputs, nullptr,         p.nodes[n].layout};
  made.versions = step.versions.data();
  made.parts = table.parts(n);
  if (p.op(n).skips_zeros)
    for (const value& v : p.def(n).inputs) made.zeros_arrive = made.zeros_arrive || may_be_mostly_zeros(p, v);
  return made;
}

#endif

}  // namespace weft::plan

WEFT_COLD_END

#pragma pop_macro("slots")
