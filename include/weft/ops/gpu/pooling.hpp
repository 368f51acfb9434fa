// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/window_kernels.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/images/pooling.hpp>

#if WEFT_COMPILES_FOR_GPU

/// GPU kernels of pools. Built-in, so that they choose among equal maxima like the CPU.
namespace weft::gpu {
inline namespace WEFT_GPU_FILE {

// A pool reads its first operand and a second one: the upstream gradient, or the values to choose from.
template <class T, pool_kind Kind>
kernel* make_pool(const prepare_context& p, const shape& images, const shape& results, std::size_t second) {
  return new pool_kernel<T, Kind>(weft::detail::pooling_of(p, attributes_of<max_pool_op<T>>(p.node), images, results),
                                  p.layout, p.input_slots[0], p.input_slots[second], p.output_slots[0]);
}

template <class T>
kernel* prepare_max_pool(const prepare_context& p, device&) {
  return make_pool<T, pool_kind::max>(p, p.inputs[0].extents, p.outputs[0].extents, 0);
}
template <class T>
kernel* prepare_max_pool_gradient(const prepare_context& p, device&) {
  return make_pool<T, pool_kind::max_gradient>(p, p.inputs[0].extents, p.inputs[2].extents, 2);
}
template <class T>
kernel* prepare_max_pool_choice(const prepare_context& p, device&) {
  return make_pool<T, pool_kind::max_choice>(p, p.inputs[0].extents, p.outputs[0].extents, 1);
}
template <class T>
kernel* prepare_average_pool(const prepare_context& p, device&) {
  return make_pool<T, pool_kind::average>(p, p.inputs[0].extents, p.outputs[0].extents, 0);
}
template <class T>
kernel* prepare_average_pool_gradient(const prepare_context& p, device&) {
  return make_pool<T, pool_kind::average_gradient>(p, p.outputs[0].extents, p.inputs[0].extents, 0);
}

inline layout_offer pool_with_channels_first(const prepare_context&, device&) { return {true, 0}; }

template <class Op, kernel* (*Prepare)(const prepare_context&, device&)>
struct installed_pool {
  installed_pool() { install<Op>({.prepare = Prepare, .channels_first = pool_with_channels_first}); }
};

}  // namespace WEFT_GPU_FILE

template <class T>
struct kernels<max_pool_op<T>> : installed_pool<max_pool_op<T>, prepare_max_pool<T>>,
                                 installed_pool<max_pool_gradient_op<T>, prepare_max_pool_gradient<T>>,
                                 installed_pool<max_pool_choice_op<T>, prepare_max_pool_choice<T>>,
                                 installed_pool<average_pool_op<T>, prepare_average_pool<T>>,
                                 installed_pool<average_pool_gradient_op<T>, prepare_average_pool_gradient<T>> {};

}  // namespace weft::gpu

#endif
