// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/gpu/install.hpp>
#include <weft/ops/gpu/masked_rows.hpp>
#include <weft/ops/index/unique.hpp>

/// GPU kernel that finds the first of equal elements.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class T>
struct first_appearances_work : weft::device::first_of_equals<T> {
  WEFT_HOST_DEVICE void operator()(std::size_t k) const { this->find(k); }
};

template <class T>
kernel* prepare_first_appearances(const prepare_context& p, device&) {
  using w = first_appearances_work<T>;
  check_size("first_appearances", p.inputs[0].extents);
  w work{};
  work.n = p.inputs[0].extents.elements();
  return make_each(p, str_cat({"first_appearances of ", work.n}), work, work.n, &w::sorted, &w::order, &w::first,
                   &w::is_first, &w::lengths);
}

inline const bool unique_is_installed = install<unique_op>({.prepare = prepare_masked_rows});

}  // namespace detail

template <class T>
struct kernels<first_appearances_op<T>> : installed<first_appearances_op<T>, detail::prepare_first_appearances<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
