// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/gpu/indexed_rows.hpp>
#include <weft/ops/index/scatter.hpp>

/// GPU kernels that write rows by index.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class T>
kernel* prepare_scatter_of(const prepare_context& p, const typename scatter_op<T>::attributes& a) {
  switch (a.how) {
    case combine::update:
      return prepare_batch_write<T, combine::update>(p, a.lists);
    case combine::add:
      return prepare_batch_write<T, combine::add>(p, a.lists);
    case combine::mul:
      return prepare_batch_write<T, combine::mul>(p, a.lists);
    case combine::min:
      return prepare_batch_write<T, combine::min>(p, a.lists);
    default:
      return prepare_batch_write<T, combine::max>(p, a.lists);
  }
}
template <class T>
kernel* prepare_scatter(const prepare_context& p, device&) {
  return prepare_scatter_of<T>(p, attributes_of<scatter_op<T>>(p.node));
}

}  // namespace detail

template <class T>
struct kernels<scatter_op<T>> : installed<scatter_op<T>, detail::prepare_scatter<T>> {
  kernels() { kernels<batch_gather_op<T>>(); }
};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
