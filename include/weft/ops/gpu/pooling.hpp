#pragma once

#include <weft/device/gpu/window_kernels.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/pooling.hpp>

#if WEFT_COMPILES_FOR_GPU

/// Pools on GPUs: kernels of our own, which choose among equal maxima as the CPU does.
namespace weft::gpu {
inline namespace WEFT_GPU_FILE {

template <class T>
kernel* prepare_max_pool(const prepare_context& p, device&) {
  return new pool_kernel<T, pool_kind::max>(weft::detail::pooling_of(p.c, p.inputs[0].extents, p.outputs[0].extents),
                                            p.input_slots[0], p.input_slots[0], p.output_slots[0]);
}
template <class T>
kernel* prepare_max_pool_gradient(const prepare_context& p, device&) {
  return new pool_kernel<T, pool_kind::max_gradient>(
      weft::detail::pooling_of(p.c, p.inputs[0].extents, p.inputs[2].extents), p.input_slots[0], p.input_slots[2],
      p.output_slots[0]);
}
template <class T>
kernel* prepare_max_pool_choice(const prepare_context& p, device&) {
  return new pool_kernel<T, pool_kind::max_choice>(
      weft::detail::pooling_of(p.c, p.inputs[0].extents, p.outputs[0].extents), p.input_slots[0], p.input_slots[1],
      p.output_slots[0]);
}
template <class T>
kernel* prepare_average_pool(const prepare_context& p, device&) {
  return new pool_kernel<T, pool_kind::average>(
      weft::detail::pooling_of(p.c, p.inputs[0].extents, p.outputs[0].extents), p.input_slots[0], p.input_slots[0],
      p.output_slots[0]);
}
template <class T>
kernel* prepare_average_pool_gradient(const prepare_context& p, device&) {
  return new pool_kernel<T, pool_kind::average_gradient>(
      weft::detail::pooling_of(p.c, p.outputs[0].extents, p.inputs[0].extents), p.input_slots[0], p.input_slots[0],
      p.output_slots[0]);
}

}  // namespace WEFT_GPU_FILE

template <class T>
struct family_kernels<pools, T>
    : installed<weft::detail::prepare_max_pool<T>, prepare_max_pool<T>>,
      installed<weft::detail::prepare_max_pool_gradient<T>, prepare_max_pool_gradient<T>>,
      installed<weft::detail::prepare_max_pool_choice<T>, prepare_max_pool_choice<T>>,
      installed<weft::detail::prepare_average_pool<T>, prepare_average_pool<T>>,
      installed<weft::detail::prepare_average_pool_gradient<T>, prepare_average_pool_gradient<T>> {};

}  // namespace weft::gpu

#endif
