// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/indexing.hpp>
#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/ops/fused.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/reduce/exclusive_product.hpp>
#include <weft/tensor/owned.hpp>
#include <weft/tensor/tensor.hpp>

/// GPU kernels of exclusive products: one thread for each row.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class T>
struct exclusive_product_by_threads : row_places {
  using product = weft::device::exclusive_product_of<T>;
  const T* x;
  product* before;
  T* y;

  static constexpr unsigned threads = 256;
  static constexpr int phases = 1;
  using block_memory = nothing;
  using thread_memory = nothing;

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    const std::uint32_t row = at.block * threads + at.thread;
    if (row >= rows) return;
    const std::uint32_t start = start_of(row);
    product all = 1;
    for (std::uint32_t p = 0; p < extent; ++p) {
      const std::uint32_t i = start + p * inner.extent;
      before[i] = all;
      all *= static_cast<product>(x[i]);
    }
    all = 1;
    for (std::uint32_t p = extent; p-- > 0;) {
      const std::uint32_t i = start + p * inner.extent;
      y[i] = static_cast<T>(before[i] * all);
      all *= static_cast<product>(x[i]);
    }
  }
};

template <class T>
kernel* prepare_exclusive_product(const prepare_context& p, device&) {
  using body = exclusive_product_by_threads<T>;
  static const function code = function_of<body>("products of the other elements");
  const shape& s = p.inputs[0].extents;
  check_size("exclusive_product", s);
  owned<launch_kernel> k(new launch_kernel("products of the other elements of " + to_string(s)));
  if (s.elements() == 0) return k.release();
  const auto a = attributes_of<weft::detail::exclusive_product_op<T>>(p.node);
  const axis_rows r(s, a.begin, a.end);
  body b{};
  static_cast<row_places&>(b) = row_places(r);
  auto& l = add_body(*k, b, code, (r.rows() + body::threads - 1) / body::threads);
  l.point(offset_in(b, b.x), p.input_slots[0]);
  l.point(offset_in(b, b.y), p.output_slots[0]);
  l.point(offset_in(b, b.before), p.output_slots[1]);
  return k.release();
}

}  // namespace detail

template <class T>
struct kernels<weft::detail::exclusive_product_op<T>>
    : installed<weft::detail::exclusive_product_op<T>, detail::prepare_exclusive_product<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
