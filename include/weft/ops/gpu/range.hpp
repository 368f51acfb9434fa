// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/range.hpp>
#include <weft/ops/arrays/range.hpp>
#include <weft/ops/gpu/fused.hpp>
#include <weft/ops/gpu/install.hpp>

/// GPU kernel of range.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class T>
struct range_work {
  T* to;
  T start, delta;

  WEFT_HOST_DEVICE void operator()(std::size_t i) const { to[i] = weft::device::range_element(start, delta, i); }
};

template <class T>
kernel* prepare_range(const prepare_context& p, device&) {
  using w = range_work<T>;
  const w work{nullptr, weft::detail::literal_value<T>(p.node.literals[0]),
               weft::detail::literal_value<T>(p.node.literals[1])};
  return make_each(p, "range of " + to_string(p.outputs[0].extents), work, p.outputs[0].extents.elements(), &w::to);
}

}  // namespace detail

template <class T>
struct kernels<range_op<T>> : installed<range_op<T>, detail::prepare_range<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
