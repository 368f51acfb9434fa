// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/gpu/scatter.hpp>
#include <weft/ops/index/assign_scatter.hpp>

/// GPU kernels that write rows of variables by index.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class T>
kernel* prepare_assign_scatter(const prepare_context& p, device&) {
  return prepare_scatter_of<T>(weft::detail::operands_of_scatter(p).context,
                               attributes_of<assign_scatter_op<T>>(p.node));
}

}  // namespace detail

template <class T>
struct kernels<assign_scatter_op<T>> : installed<assign_scatter_op<T>, detail::prepare_assign_scatter<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
