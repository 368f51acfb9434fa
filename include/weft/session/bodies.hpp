#pragma once

#include <weft/ops/bodies.hpp>
#include <weft/session/executor.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// A binding of a node's body. Its addresses count from 0 until it first runs, and move with the memory that the node is
/// given. It runs on one lane, where the node does.
class bound_body final : public prepared_body {
 public:
  bound_body(const program& p, gpu::owned<binding> b) : p_(p), b_(static_cast<gpu::owned<binding>&&>(b)) {
    const std::uint32_t own = p.arena_of(p.home.gpu ? p.home.ordinal + 1 : 0, program::space_of(p.home));
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
      if (const binding::fetched_operand& r = b_->fetched[k]; !r.to_caller)
        kernel_with_bodies::copy(f, results[k], b_->addresses[r.buffer], r.bytes);
  }

  std::size_t bytes() const override { return bytes_; }
  std::size_t memory_bytes() const override { return sizeof(binding) + b_->memory_bytes(); }

  void describe(std::string& text, std::size_t spaces) const override {
    for (std::size_t i = 0; i < b_->kernels.size(); ++i) {
      append(text, {std::string(spaces, ' '), detail::name_of(p_, p_.instructions[i]), "  ",
                    b_->kernels[i]->describe(), "\n"});
      b_->kernels[i]->describe_bodies(text, spaces + 2);
    }
  }

 private:
  void move_to(std::byte* memory) {
    const auto moved = reinterpret_cast<std::uintptr_t>(memory) - reinterpret_cast<std::uintptr_t>(memory_);
    for (std::uint32_t i = 0; i < p_.buffers.size(); ++i)
      if (p_.buffers[i].kind == buffer_kind::arena)
        b_->addresses[i] = reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(b_->addresses[i]) + moved);
    memory_ = memory;
  }

  const program& p_;
  gpu::owned<binding> b_;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace weft

WEFT_COLD_END
