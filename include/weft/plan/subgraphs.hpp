// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/subgraphs.hpp>
#include <weft/plan/arenas.hpp>
#include <weft/plan/bind.hpp>
#include <weft/tensor/owned.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

/// A binding of a node's subgraph. Its addresses start at 0 until the first run, and are relocated when the node's
/// memory moves. It runs on one lane, on the node's device.
class bound_subgraph final : public prepared_subgraph {
 public:
  bound_subgraph(const program& p, owned<binding> b) : p_(p), b_(static_cast<owned<binding>&&>(b)) {
    const std::uint32_t own = p.arena_of(p.home.gpu ? p.home.ordinal + 1 : 0, program::space_of(p.home));
    for (std::uint32_t a = 0; a < b_->arena_bytes.size(); ++a)
      if (a == own)
        bytes_ = b_->arena_bytes[a];
      else if (b_->arena_bytes[a] != 0)
        throw error(error_code::internal, "subgraph", "a subgraph cannot use the memory of another device");
  }

  void run(const kernel_context& f, std::byte* memory, std::byte* const* parameters,
           std::byte* const* results) override {
    if (memory != memory_) move_to(memory);
    for (std::size_t i = 0; i < b_->fed.size(); ++i) b_->addresses[b_->fed[i].buffer] = parameters[i];
    for (std::size_t i = 0; i < b_->fetched.size(); ++i)
      if (b_->fetched[i].to_caller) b_->addresses[b_->fetched[i].buffer] = results[i];
    kernel_context own{b_->addresses.data(), f.threads, f.queue};
    std::uint32_t i = 0;
    try {
      for (const auto count = static_cast<std::uint32_t>(b_->kernels.size()); i < count; ++i) {
        own.workspace = b_->workspaces[i];
        b_->kernels[i]->run(own);
      }
    } catch (const error& e) {
      throw error(e.code(), p_.name(p_.instructions[i]), e.sentence());
    }
    for (std::size_t k = 0; k < b_->fetched.size(); ++k)
      if (const binding::fetched_operand& r = b_->fetched[k]; !r.to_caller)
        kernel_with_subgraphs::copy(f, results[k], b_->addresses[r.buffer], r.bytes);
  }

  std::size_t bytes() const override { return bytes_; }
  std::size_t memory_bytes() const override { return sizeof(binding) + b_->memory_bytes(); }

  void describe(std::string& text, std::size_t spaces) const override {
    for (std::size_t i = 0; i < b_->kernels.size(); ++i) {
      append(text, {std::string(spaces, ' '), p_.name(p_.instructions[i]), "  ", b_->kernels[i]->describe(), "\n"});
      b_->kernels[i]->describe_subgraphs(text, spaces + 2);
    }
  }

 private:
  void move_to(std::byte* memory) {
    const auto moved = reinterpret_cast<std::uintptr_t>(memory) - reinterpret_cast<std::uintptr_t>(memory_);
    const auto move = [&](std::byte*& at) {
      at = reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(at) + moved);
    };
    for (std::uint32_t i = 0; i < p_.buffers.size(); ++i)
      if (p_.buffers[i].kind == buffer_kind::arena) move(b_->addresses[i]);
    for (std::uint32_t i = 0; i < p_.instructions.size(); ++i)
      if (workspace_bytes(p_, *b_, i) != 0) move(b_->workspaces[i]);
    memory_ = memory;
  }

  const program& p_;
  owned<binding> b_;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

/// The programs of a step's subgraphs and their bindings.
class compiled_subgraphs final : public step_subgraphs {
 public:
  explicit compiled_subgraphs(compiled_step& step) : step_(step) {
    const program& p = *step.made;
    for (std::uint32_t i = 0; i < p.instructions.size(); ++i) {
      const instruction& in = p.instructions[i];
      if (!p.has_subgraphs(in)) continue;
      of_node of;
      of.instruction = i;
      // The CPU device does not matter: the kernel passes its threads at run time.
      const device_number on = in.on.gpu ? device_number{true, in.on.ordinal} : device_number{};
      for (const std::uint32_t b : p.def(in.node).subgraphs)
        of.steps.push_back(owned(new compiled_step(step.session, p.g.subgraph_at(b), on)));
      all_.push_back(static_cast<of_node&&>(of));
    }
  }

  void bind(binding& b, const binding* like) override {
    const program& p = *step_.made;
    for (std::size_t k = 0; k < all_.size(); ++k) {
      of_node& of = all_[k];
      of.made = {};
      const std::uint32_t n = p.instructions[of.instruction].node;
      if (like && step_.extents.same(of.instruction, like->names, b.names))
        b.subgraph_bytes.push_back(like->subgraph_bytes[k]);
      else
        b.subgraph_bytes.push_back(bind_node(of, n, b.extents));
      value_info& info = step_.infos[p.nodes[n].workspace];
      info.extents = {};
      info.extents.push_back(static_cast<std::int64_t>(b.subgraph_bytes[k]));
    }
  }

  prepared_subgraphs* of(std::uint32_t node) override {
    for (of_node& of : all_)
      if (step_.made->instructions[of.instruction].node == node) return &of.made;
    return nullptr;
  }

 private:
  struct of_node {
    std::uint32_t instruction = none;
    sequence<owned<compiled_step>> steps;
    prepared_subgraphs made = {};  // for the binding being created
  };

  /// Returns the memory that the node needs: its own workspace plus the largest subgraph.
  std::size_t bind_node(of_node& of, std::uint32_t n, const extent_bindings& known) const {
    const program& p = *step_.made;
    const operation& op = p.op(n);
    sequence<value_info> operands;
    const std::size_t own = op.workspace_bytes ? op.workspace_bytes(context_of(step_, n, operands)) : 0;
    of.made.own_bytes = (own + alignment - 1) / alignment * alignment;
    of.made.memory_slot = p.nodes[n].workspace;
    std::size_t most = 0;
    for (std::size_t i = 0; i < of.steps.size(); ++i) {
      of.made.all.push_back(bind_subgraph(*of.steps[i], known));
      const subgraph& b = p.g.subgraph_at(p.def(n).subgraphs[i]);
      of.made.names.push_back(b.name);
      for (std::size_t k = 0; k < b.captured.size(); ++k)
        append(of.made.names.back(), {k ? ", " : ", captures ", b.nodes[b.captured[k].inside->id().node].name});
      if (of.made.all[i]->bytes() > most) most = of.made.all[i]->bytes();
    }
    return of.made.own_bytes + most;
  }

  static owned<prepared_subgraph> bind_subgraph(compiled_step& step, extent_bindings known) {
    sequence<fed_value> fed;
    const program& p = *step.made;
    for (const value& v : p.request.feeds)
      fed.push_back({nullptr, known.resolve(p.g, p.g[v.node].name, p.g.info(v).extents)});
    auto made = plan::bind(step, fed.data(), known, nullptr);
    return owned<prepared_subgraph>(new bound_subgraph(*step.made, static_cast<owned<binding>&&>(made)));
  }

  compiled_step& step_;
  sequence<of_node> all_;
};

inline const bool steps_know_subgraphs = [] {
  new_step_subgraphs = [](compiled_step& step) -> step_subgraphs* { return new compiled_subgraphs(step); };
  return true;
}();

}  // namespace weft::plan

WEFT_COLD_END
