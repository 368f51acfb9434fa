// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/device/cpu/loop_kernel.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/elementwise/formulas_of_symbols.hpp>
#include <weft/ops/operation.hpp>

/// CPU kernels that assign to variables.
namespace weft::detail {

template <class T>
void add_elements(const void* const* in, void* const* out, std::size_t n, const std::uint64_t*) {
  const T* delta = static_cast<const T*>(in[1]);
  T* variable = static_cast<T*>(out[0]);
  WEFT_VECTORIZE
  for (std::size_t i = 0; i < n; ++i) variable[i] = static_cast<T>(wrapping(variable[i]) + wrapping(delta[i]));
}

WEFT_COLD_BEGIN

/// Throws invalid_argument unless input k has the extents of the variable.
void check_assigned(const prepare_context&, std::size_t k);
kernel* prepare_add(const prepare_context&, device::block_function);

#if WEFT_DEFINITIONS

WEFT_DECL void check_assigned(const prepare_context& p, std::size_t k) {
  if (!(p.inputs[k].extents == p.inputs[0].extents))
    throw error(error_code::invalid_argument, p.node.op->name,
                {"a value of extents ", to_string(p.inputs[k].extents), " cannot be assigned to a variable of ",
                 to_string(p.inputs[0].extents)});
}

WEFT_DECL kernel* prepare_add(const prepare_context& p, device::block_function block) {
  check_assigned(p, 1);
  const shape& space = p.inputs[0].extents;
  const device::operand own = device::broadcast_operand(p.inputs[0].type, space, space), in[] = {own, own};
  const device::reduce_op how = device::reduce_op::store;
  device::loop body(space, 2, in, 1, &own, &how, nullptr, block, nullptr);
  const std::size_t elements = space.elements();
  return new device::loop_kernel(
      static_cast<device::loop&&>(body), {p.input_slots, p.input_slots, &elements}, p.node.literals,
      {p.node.op->name, name(p.inputs[0].type),
       [](const char* what, const void* type) { return str_cat({what, " ", static_cast<const char*>(type)}); }});
}

#endif

class assign_kernel final : public kernel {
 public:
  explicit assign_kernel(const prepare_context& p)
      : variable_(p.input_slots[0]), value_(p.input_slots[1]), bytes_(p.inputs[0].bytes()) {
    check_assigned(p, 1);
  }
  void run(const kernel_context& f) override { __builtin_memmove(f.buffers[variable_], f.buffers[value_], bytes_); }
  std::string describe() const override { return str_cat({"assign ", bytes_, " bytes"}); }

 private:
  std::uint32_t variable_, value_;
  std::size_t bytes_;
};

WEFT_COLD_END

}  // namespace weft::detail
