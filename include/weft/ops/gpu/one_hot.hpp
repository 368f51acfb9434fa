// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/arrays.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/index/one_hot.hpp>

/// GPU kernel of one_hot.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class T>
kernel* prepare_one_hot(const prepare_context& p, device&) {
  using w = one_hot_work<T>;
  const shape& s = p.outputs[0].extents;
  check_size("one_hot", s);
  const std::size_t depth = attributes_of<one_hot_op<T>>(p.node).depth;
  const w work{nullptr, nullptr, p.inputs[0].type == dtype::int64, divisor_for(depth)};
  return make_each(p, "one_hot of depth " + std::to_string(depth), work, s.elements(), &w::labels, &w::to);
}

}  // namespace detail

template <class T>
struct kernels<one_hot_op<T>> : installed<one_hot_op<T>, detail::prepare_one_hot<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
