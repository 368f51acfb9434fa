// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/indexing.hpp>
#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/random/distributions.hpp>

/// GPU kernels of random numbers by rejection, with one thread for each element.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class T, class Draw>
struct streamed_body {
  static constexpr unsigned threads = 128;
  static constexpr int phases = 1;
  using block_memory = nothing;
  using thread_memory = nothing;

  std::uint64_t key;
  const std::uint64_t* position;
  const T* x;
  T* y;
  std::uint32_t elements;

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    for (std::uint32_t i = at.block * threads + at.thread; i < elements; i += at.blocks * threads)
      y[i] = static_cast<T>(Draw()(weft::device::element_stream{{key, *position}, i}, static_cast<double>(x[i])));
  }
};

template <class T, class Draw>
kernel* prepare_streamed(const prepare_context& p, device&) {
  using body = streamed_body<T, Draw>;
  static const function code = function_of<body>(Draw::name);
  check_size(Draw::name, p.outputs[0].extents);
  body b{};
  b.key = attributes_of<streamed_op<T, Draw>>(p.node).key;
  b.elements = static_cast<std::uint32_t>(p.outputs[0].extents.elements());
  auto* k = new launch_kernel(Draw::name);
  if (b.elements == 0) return k;
  const unsigned blocks = (b.elements + body::threads - 1) / body::threads;
  auto& l = add_body(*k, b, code, blocks < 16384 ? blocks : 16384);
  l.point(offset_in(b, b.x), p.input_slots[0]);
  l.point(offset_in(b, b.position), p.input_slots[1]);
  l.point(offset_in(b, b.y), p.output_slots[0]);
  return k;
}

}  // namespace detail

template <class T>
struct kernels<streamed_ops<T>>
    : installed<gamma_operation<T>, detail::prepare_streamed<T, weft::device::gamma_draw>>,
      installed<poisson_operation<T>, detail::prepare_streamed<T, weft::device::poisson_draw>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
