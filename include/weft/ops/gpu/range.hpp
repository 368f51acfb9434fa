// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/indexing.hpp>
#include <weft/device/gpu/launch_kernel.hpp>
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
struct range_body {
  static constexpr unsigned threads = 256;
  static constexpr int phases = 1;
  using block_memory = nothing;
  using thread_memory = nothing;

  T* to;
  std::uint32_t elements;
  T start, delta;

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    for (std::uint32_t i = at.block * threads + at.thread; i < elements; i += at.blocks * threads)
      to[i] = weft::device::range_element(start, delta, i);
  }
};

template <class T>
kernel* prepare_range(const prepare_context& p, device&) {
  using body = range_body<T>;
  static const function code = function_of<body>("range");
  check_size("range", p.outputs[0].extents);
  const body b{nullptr, static_cast<std::uint32_t>(p.outputs[0].extents.elements()),
               weft::detail::literal_value<T>(p.node.literals[0]), weft::detail::literal_value<T>(p.node.literals[1])};
  auto* k = new launch_kernel("range of " + to_string(p.outputs[0].extents));
  if (b.elements) add_body(*k, b, code, blocks_for(b.elements, 1)).point(offset_in(b, b.to), p.output_slots[0]);
  return k;
}

}  // namespace detail

template <class T>
struct kernels<range_op<T>> : installed<range_op<T>, detail::prepare_range<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
