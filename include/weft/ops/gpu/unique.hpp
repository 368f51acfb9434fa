// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/ops/gpu/fused.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/gpu/masked_rows.hpp>
#include <weft/ops/index/unique.hpp>

/// GPU kernel that finds the first of equal elements.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class T>
struct first_appearances_body {
  static constexpr unsigned threads = 256;
  static constexpr int phases = 1;
  using block_memory = nothing;
  using thread_memory = nothing;

  weft::device::first_of_equals<T> all;

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    const std::size_t step = std::size_t{at.blocks} * threads;
    for (std::size_t k = std::size_t{at.block} * threads + at.thread; k < all.n; k += step) all.find(k);
  }
};

template <class T>
kernel* prepare_first_appearances(const prepare_context& p, device&) {
  using body = first_appearances_body<T>;
  static const function code = function_of<body>("first_appearances");
  check_size("first_appearances", p.inputs[0].extents);
  body b{};
  b.all.n = p.inputs[0].extents.elements();
  auto* k = new launch_kernel(str_cat({"first_appearances of ", b.all.n}));
  if (b.all.n == 0) return k;
  auto& l = add_body(*k, b, code, blocks_for(b.all.n, 1));
  l.point(offset_in(b, b.all.sorted), p.input_slots[0]);
  l.point(offset_in(b, b.all.order), p.input_slots[1]);
  l.point(offset_in(b, b.all.first), p.output_slots[0]);
  l.point(offset_in(b, b.all.is_first), p.output_slots[1]);
  l.point(offset_in(b, b.all.lengths), p.output_slots[2]);
  return k;
}

inline const bool unique_is_installed = install<unique_op>({.prepare = prepare_masked_rows});

}  // namespace detail

template <class T>
struct kernels<first_appearances_op<T>> : installed<first_appearances_op<T>, detail::prepare_first_appearances<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
