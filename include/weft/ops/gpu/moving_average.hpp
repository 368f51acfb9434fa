// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/updates.hpp>
#include <weft/ops/gpu/state.hpp>
#include <weft/ops/reduce/moving_average.hpp>

/// GPU kernel that updates moving averages.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class T>
kernel* prepare_moving_average(const prepare_context& p, device&) {
  const auto& a = attributes_of<moving_average_op<T>>(p.node);
  const std::uint64_t constants[] = {weft::detail::literal_bits<double>(a.momentum), a.is_variance};
  return prepare_in_place<moving_average_program<T>>(p, 3, "moving_average", constants);
}

}  // namespace detail

template <class T>
struct kernels<moving_average_op<T>> : installed<moving_average_op<T>, detail::prepare_moving_average<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
