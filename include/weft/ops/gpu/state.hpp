// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/updates.hpp>
#include <weft/ops/gpu/fused.hpp>
#include <weft/ops/state.hpp>
#include <weft/tensor/owned.hpp>

/// GPU kernels of the operations that write variables, and of constants with run-time extents.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class P>
const map_code& compiled_update(const char* name) {
  static const map_code code = compile_map<P, map_forms::vector>(name);
  return code;
}

class assign_kernel final : public kernel {
 public:
  explicit assign_kernel(const prepare_context& p)
      : variable_(p.input_slots[0]), value_(p.input_slots[1]), bytes_(p.inputs[0].bytes()) {
    weft::detail::check_assigned(p, 1);
  }
  void run(const kernel_context& f) override {
    if (bytes_ && f.buffers[variable_] != f.buffers[value_])
      f.queue->copy(f.buffers[variable_], f.buffers[value_], bytes_);
  }
  std::string describe() const override { return str_cat({"assign ", bytes_, " bytes"}); }

 private:
  std::uint32_t variable_, value_;
  std::size_t bytes_;
};

inline kernel* prepare_assign(const prepare_context& p, device&) { return new assign_kernel(p); }

/// Runs a program that computes the new value of a variable, the first operand, from all operands, which may be
/// scalars.
template <class Program>
kernel* prepare_in_place(const prepare_context& p, std::size_t operands, const char* what,
                         const std::uint64_t* constants) {
  const shape& space = p.inputs[0].extents;
  weft::detail::check_assigned(p, 1);
  check_size(p.node.op->name, space);
  iteration over;
  over.space = space;
  const dtype type = p.inputs[0].type, types[] = {type, type, type};
  for (std::size_t k = 0; k < operands; ++k)
    over.add(weft::device::broadcast_operand(type, p.inputs[k].extents, space));
  over.merge_axes();
  owned<launch_kernel> k(new launch_kernel(str_cat({what, " ", name(type)})));
  add_map(*k, compiled_update<Program>(what), over, {p.input_slots, types, operands, p.input_slots, types, 1}, 1,
          constants);
  return k.release();
}

template <class T>
kernel* prepare_assign_add(const prepare_context& p, device&) {
  return prepare_in_place<add_program<T>>(p, 2, "assign_add", nullptr);
}

inline kernel* prepare_fill(const prepare_context& p, device&) {
  const value_info& to = p.outputs[0];
  check_size("fill", to.extents);
  iteration over;
  over.space = shape(static_cast<std::int64_t>(to.extents.elements()));  // no operand is read, so all axes merge
  owned<launch_kernel> k(new launch_kernel(str_cat({"fill ", name(to.type)})));
  const bool narrow = size_of(to.type) == 2;
  const map_code& code = narrow                      ? compiled_update<fill_program<std::uint16_t>>("fill")
                         : to.type == dtype::float64 ? compiled_update<fill_program<double>>("fill")
                                                     : compiled_update<fill_program<float>>("fill");
  std::uint64_t number = p.node.literals[0];
  if (narrow)  // half and bfloat16 as bits
    number = weft::detail::literal_bits(
        static_cast<double>(weft::detail::element_bits(weft::detail::literal_value<double>(number), to.type)));
  add_map(*k, code, over, {nullptr, nullptr, 0, p.output_slots, &to.type, 1}, 1, &number);
  return k.release();
}

inline const bool state_is_installed =
    install<assign_op>({.prepare = prepare_assign}) && install<weft::detail::fill_op>({.prepare = prepare_fill});

}  // namespace detail

template <class T>
struct kernels<assign_add_op<T>> : installed<assign_add_op<T>, detail::prepare_assign_add<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
