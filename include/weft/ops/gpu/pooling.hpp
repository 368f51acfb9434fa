// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/window_kernels.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/images/pooling.hpp>

#if WEFT_COMPILES_FOR_GPU

/// GPU kernels of pools. Built-in, so that they choose among equal maxima like the CPU.
namespace weft::gpu {
inline namespace WEFT_GPU_FILE {

template <class T, pool_kind Kind>
kernel* prepare_pool(const prepare_context& p, device&) {
  using w = pool<T, Kind>;
  const char* const name = p.node.op->name;
  const convolution_shape s = weft::detail::pooling_of(p, attributes_of<pool_op<T, Kind>>(p.node), Kind);
  const w work{pool_extents(name, s, p.layout), nullptr, nullptr, nullptr};
  const auto make = [&](auto... pointers) {
    return make_each(p,
                     str_cat({name, " ", s.batch, "x", s.height, "x", s.width, "x", s.channels,
                              s.is_adaptive() ? " adaptive, by " : " by ", s.window_height, "x", s.window_width,
                              p.layout == image_layout::channels_first ? ", channels first" : ""}),
                     work, p.outputs[0].extents.elements(), pointers...);
  };
  if constexpr (Kind == pool_kind::max_gradient) return make(&w::a, nullptr, &w::b, &w::out);
  if constexpr (Kind == pool_kind::max_choice) return make(&w::a, &w::b, &w::out);
  return make(&w::a, &w::out);
}

inline layout_offer pool_with_channels_first(const prepare_context&, device&) { return {true, 0}; }

template <class T, pool_kind... Kind>
struct installed_pools {
  installed_pools() {
    (install<pool_op<T, Kind>>({.prepare = prepare_pool<T, Kind>, .channels_first = pool_with_channels_first}), ...);
  }
};

}  // namespace WEFT_GPU_FILE

template <class T>
struct kernels<max_pool_op<T>> : installed_pools<T, pool_kind::max, pool_kind::max_gradient, pool_kind::max_choice,
                                                 pool_kind::average, pool_kind::average_gradient> {};

}  // namespace weft::gpu

#endif
