// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/indexing.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/reduce/exclusive_product.hpp>

/// GPU kernels of exclusive products: one thread for each row.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class T>
struct exclusive_product_work : row_places {
  using product = weft::device::exclusive_product_of<T>;
  const T* x;
  product* before;
  T* y;

  WEFT_HOST_DEVICE void operator()(std::size_t row) const {
    const std::uint32_t start = start_of(static_cast<std::uint32_t>(row));
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
  using w = exclusive_product_work<T>;
  const shape& s = p.inputs[0].extents;
  check_size("exclusive_product", s);
  const auto a = attributes_of<weft::detail::exclusive_product_op<T>>(p.node);
  w work{};
  static_cast<row_places&>(work) = row_places(axis_rows(s, a.begin, a.end));
  return make_each(p, "products of the other elements of " + to_string(s), work, s.elements() ? work.rows : 0, &w::x,
                   &w::y, &w::before);
}

}  // namespace detail

template <class T>
struct kernels<weft::detail::exclusive_product_op<T>>
    : installed<weft::detail::exclusive_product_op<T>, detail::prepare_exclusive_product<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
