#pragma once

#include <weft/ops/bodies.hpp>
#include <weft/session/step_plan.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// A binding of a node's body. Its addresses count from 0 until it first runs, and move with the memory that the node
/// is given. It runs on one lane, where the node does.
class bound_body final : public prepared_body {
 public:
  bound_body(const plan::program& p, gpu::owned<plan::binding> b)
      : p_(p), b_(static_cast<gpu::owned<plan::binding>&&>(b)) {
    const std::uint32_t own = p.arena_of(p.home.gpu ? p.home.ordinal + 1 : 0, plan::program::space_of(p.home));
    for (std::uint32_t a = 0; a < b_->arena_bytes.size(); ++a)
      if (a == own)
        bytes_ = b_->arena_bytes[a];
      else if (b_->arena_bytes[a] != 0)
        throw error(error_code::internal, "body", "a body needs memory of another device");
  }

  void run(const kernel_context& f, std::byte* memory, std::byte* const* parameters,
           std::byte* const* results) override {
    if (memory != memory_) move_to(memory);
    for (std::size_t i = 0; i < b_->fed.size(); ++i) b_->addresses[b_->fed[i].buffer] = parameters[i];
    for (std::size_t i = 0; i < b_->fetched.size(); ++i)
      if (b_->fetched[i].to_caller) b_->addresses[b_->fetched[i].buffer] = results[i];
    const kernel_context own{b_->addresses.data(), f.threads, f.queue};
    std::uint32_t i = 0;
    try {
      for (const auto count = static_cast<std::uint32_t>(b_->kernels.size()); i < count; ++i) b_->kernels[i]->run(own);
    } catch (const error& e) {
      throw error(e.code(), detail::name_of(p_, p_.instructions[i]), e.sentence());
    }
    for (std::size_t k = 0; k < b_->fetched.size(); ++k)
      if (const plan::binding::fetched_operand& r = b_->fetched[k]; !r.to_caller)
        kernel_with_bodies::copy(f, results[k], b_->addresses[r.buffer], r.bytes);
  }

  std::size_t bytes() const override { return bytes_; }
  std::size_t memory_bytes() const override { return sizeof(plan::binding) + b_->memory_bytes(); }

  void describe(std::string& text, std::size_t spaces) const override {
    for (std::size_t i = 0; i < b_->kernels.size(); ++i) {
      append(text, {std::string(spaces, ' '), detail::name_of(p_, p_.instructions[i]), "  ", b_->kernels[i]->describe(),
                    "\n"});
      b_->kernels[i]->describe_bodies(text, spaces + 2);
    }
  }

 private:
  void move_to(std::byte* memory) {
    const auto moved = reinterpret_cast<std::uintptr_t>(memory) - reinterpret_cast<std::uintptr_t>(memory_);
    for (std::uint32_t i = 0; i < p_.buffers.size(); ++i)
      if (p_.buffers[i].kind == plan::buffer_kind::arena)
        b_->addresses[i] = reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(b_->addresses[i]) + moved);
    memory_ = memory;
  }

  const plan::program& p_;
  gpu::owned<plan::binding> b_;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

/// The programs of bodies, one for each, and what is bound of them.
class bodies_of_step final : public step_bodies {
 public:
  explicit bodies_of_step(step_plan& s) : s_(s) {
    const plan::program& p = *s.program_;
    for (std::uint32_t i = 0; i < p.instructions.size(); ++i) {
      const plan::instruction& in = p.instructions[i];
      if (in.copies || p.def(in.node).bodies.empty()) continue;
      node_bodies of;
      of.instruction = i;
      // A CPU's threads are given when it runs.
      const plan::device_number on = in.on.gpu ? in.on : plan::device_number{};
      for (const std::uint32_t b : p.def(in.node).bodies)
        of.plans.push_back(gpu::owned(new step_plan(s.s_, p.g.body(b), on)));
      all_.push_back(static_cast<node_bodies&&>(of));
    }
  }

  void bind(plan::binding& b, const plan::binding* like) override {
    for (std::size_t k = 0; k < all_.size(); ++k) {
      node_bodies& of = all_[k];
      of.made = {};
      const std::uint32_t n = s_.program_->instructions[of.instruction].node;
      if (like && s_.extents_->same(of.instruction, like->names, b.names))
        b.workspaces.push_back(like->workspaces[k]);
      else
        b.workspaces.push_back(bind_node(of, n, b.extents));
      value_info& info = s_.infos_[s_.program_->nodes[n].workspace];
      info.extents = {};
      info.extents.push_back(static_cast<std::int64_t>(b.workspaces[k]));
    }
  }

  prepared_bodies* of(std::uint32_t node) override {
    for (node_bodies& of : all_)
      if (s_.program_->instructions[of.instruction].node == node) return &of.made;
    return nullptr;
  }

 private:
  struct node_bodies {
    std::uint32_t instruction = plan::none;
    sequence<gpu::owned<step_plan>> plans;
    prepared_bodies made = {};  // for the binding that is made
  };

  /// Returns the bytes that it needs: its own, and those of whichever body runs.
  std::size_t bind_node(node_bodies& of, std::uint32_t n, const extent_bindings& known) const {
    const plan::program& p = *s_.program_;
    const operation& op = p.op(n);
    sequence<value_info> operands;
    const std::size_t own = op.workspace_bytes ? op.workspace_bytes(s_.context_of(n, operands)) : 0;
    of.made.own_bytes = (own + alignment - 1) / alignment * alignment;
    of.made.memory_slot = p.nodes[n].workspace;
    std::size_t most = 0;
    for (std::size_t i = 0; i < of.plans.size(); ++i) {
      of.made.all.push_back(bind_body(*of.plans[i], known));
      of.made.names.push_back(p.g.body(p.def(n).bodies[i]).name);
      if (of.made.all[i]->bytes() > most) most = of.made.all[i]->bytes();
    }
    return of.made.own_bytes + most;
  }

  static gpu::owned<prepared_body> bind_body(step_plan& body, extent_bindings known) {
    const plan::program& p = *body.program_;
    sequence<plan::fed_value> fed;
    for (const value& v : p.request.feeds)
      fed.push_back({nullptr, known.resolve(p.g, p.g[v.node].name, p.g.info(v).extents)});
    auto made = body.make_binding(fed.data(), known, nullptr);
    return gpu::owned<prepared_body>(new bound_body(*body.program_, static_cast<gpu::owned<plan::binding>&&>(made)));
  }

  step_plan& s_;
  sequence<node_bodies> all_;
};

namespace detail {

inline const bool sessions_know_bodies = [] {
  new_step_bodies = [](step_plan& s) -> step_bodies* { return new bodies_of_step(s); };
  return true;
}();

}  // namespace detail
}  // namespace weft

WEFT_COLD_END
