// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/indexing.hpp>
#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/device/sorted_place.hpp>
#include <weft/ops/gpu/fused.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/index/searchsorted.hpp>

/// GPU kernel of searchsorted.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class T>
struct searchsorted_body {
  static constexpr unsigned threads = 256;
  static constexpr int phases = 1;
  using block_memory = nothing;
  using thread_memory = nothing;

  const T *sorted, *values;
  std::int32_t* out;
  std::uint32_t work, extent;
  divisor of_row;  ///< the values that are searched in one row
  bool right;

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    for (std::uint32_t i = at.block * threads + at.thread; i < work; i += at.blocks * threads)
      out[i] = static_cast<std::int32_t>(
          weft::device::sorted_place(sorted + of_row.divide(i) * extent, extent, values[i], right, extent / 2));
  }
};

template <class T>
kernel* prepare_searchsorted(const prepare_context& p, device&) {
  static const function code = function_of<searchsorted_body<T>>("searchsorted");
  const shape& s = p.inputs[0].extents;
  check_size("searchsorted", s);
  check_size("searchsorted", p.inputs[1].extents);
  auto* k = new launch_kernel("searchsorted in " + to_string(s));
  searchsorted_body<T> b{};
  b.work = static_cast<std::uint32_t>(p.inputs[1].extents.elements());
  if (b.work == 0) return k;
  b.extent = static_cast<std::uint32_t>(s[s.rank - 1]);
  std::uint32_t rows = 1;
  for (std::size_t i = 0; i + 1 < s.rank; ++i) rows *= static_cast<std::uint32_t>(s[i]);
  b.of_row = divisor(b.work / rows);
  b.right = attributes_of<searchsorted_op<T>>(p.node).right;
  auto& l = add_body(*k, b, code, blocks_for(b.work, 1));
  l.point(offset_in(b, b.sorted), p.input_slots[0]);
  l.point(offset_in(b, b.values), p.input_slots[1]);
  l.point(offset_in(b, b.out), p.output_slots[0]);
  return k;
}

}  // namespace detail

template <class T>
struct kernels<searchsorted_op<T>> : installed<searchsorted_op<T>, detail::prepare_searchsorted<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
