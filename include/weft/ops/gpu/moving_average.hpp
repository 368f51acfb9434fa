#pragma once

#include <weft/device/gpu/updates.hpp>
#include <weft/ops/gpu/state.hpp>
#include <weft/ops/moving_average.hpp>

/// Updates of moving averages, prepared for a GPU.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class T>
kernel* prepare_moving_average(const prepare_context& p, device&) {
  const shape& space = p.inputs[0].extents;
  weft::detail::check_assigned(p, 1);
  check_size(p.node.op->name, space);
  iteration over;
  over.space = space;
  const dtype type = p.inputs[0].type, types[] = {type, type, type};
  for (std::size_t k = 0; k < 3; ++k) over.add(weft::device::broadcast_operand(type, p.inputs[k].extents, space));
  over.merge_axes();
  const auto& a = attributes_of<moving_average_op<T>>(p.node);
  const std::uint64_t constants[] = {weft::detail::literal_bits<double>(a.momentum), a.is_variance};
  owned<launch_kernel> k(new launch_kernel(str_cat({"moving_average ", name(type)})));
  add_map(*k, compiled_update<moving_average_program<T>>("moving_average"), over,
          {p.input_slots, types, 3, p.input_slots, types, 1}, 1, constants);
  return k.release();
}

}  // namespace detail

template <class T>
struct kernels<moving_average_op<T>> : installed<moving_average_op<T>, detail::prepare_moving_average<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
