// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/arrays.hpp>
#include <weft/ops/gpu/fused.hpp>
#include <weft/ops/index/one_hot.hpp>

/// GPU kernel of one_hot.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class T>
kernel* prepare_one_hot(const prepare_context& p, device&) {
  using body_type = one_hot_body<T>;
  static const function code = function_of<body_type>("one_hot");
  check_size("one_hot", p.outputs[0].extents);
  const std::size_t depth = attributes_of<one_hot_op<T>>(p.node).depth;
  auto* k = new launch_kernel("one_hot of depth " + std::to_string(depth));
  body_type b{};
  b.elements = static_cast<std::uint32_t>(p.outputs[0].extents.elements());
  if (b.elements == 0) return k;
  b.depth = divisor(static_cast<std::uint32_t>(depth));
  b.wide_labels = p.inputs[0].type == dtype::int64;
  auto& l = add_body(*k, b, code, blocks_for(b.elements, 1));
  l.point(offset_in(b, b.labels), p.input_slots[0]);
  l.point(offset_in(b, b.to), p.output_slots[0]);
  return k;
}

}  // namespace detail

template <class T>
struct kernels<one_hot_op<T>> : installed<one_hot_op<T>, detail::prepare_one_hot<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
