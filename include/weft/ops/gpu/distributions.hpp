// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/gpu/install.hpp>
#include <weft/ops/random/distributions.hpp>

/// GPU kernels of random numbers by rejection, with one thread for each element.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class T, class Draw>
struct streamed_work {
  std::uint64_t key;
  const std::uint64_t* position;
  const T* x;
  T* y;

  WEFT_HOST_DEVICE void operator()(std::size_t i) const {
    y[i] = static_cast<T>(Draw()(weft::device::element_stream{{key, *position}, i}, static_cast<double>(x[i])));
  }
};

template <class T, class Draw>
kernel* prepare_streamed(const prepare_context& p, device&) {
  using w = streamed_work<T, Draw>;
  const w work{attributes_of<streamed_op<T, Draw>>(p.node).key, nullptr, nullptr, nullptr};
  return make_each<128>(p, Draw::name, work, p.outputs[0].extents.elements(), &w::x, &w::position, &w::y);
}

}  // namespace detail

template <class T>
struct kernels<streamed_ops<T>>
    : installed<gamma_operation<T>, detail::prepare_streamed<T, weft::device::gamma_draw>>,
      installed<poisson_operation<T>, detail::prepare_streamed<T, weft::device::poisson_draw>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
