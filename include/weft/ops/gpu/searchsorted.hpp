// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/indexing.hpp>
#include <weft/device/sorted_place.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/index/searchsorted.hpp>

/// GPU kernel of searchsorted.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class T>
struct searchsorted_work {
  const T *sorted, *values;
  std::int32_t* out;
  std::uint32_t extent;
  divisor of_row;  ///< the values that are searched in one row
  bool right;

  WEFT_HOST_DEVICE void operator()(std::size_t i) const {
    const std::uint32_t row = of_row.divide(static_cast<std::uint32_t>(i));
    out[i] = static_cast<std::int32_t>(
        weft::device::sorted_place(sorted + row * extent, extent, values[i], right, extent / 2));
  }
};

template <class T>
kernel* prepare_searchsorted(const prepare_context& p, device&) {
  using w = searchsorted_work<T>;
  const shape& s = p.inputs[0].extents;
  check_size("searchsorted", s);
  check_size("searchsorted", p.inputs[1].extents);
  const std::size_t n = p.inputs[1].extents.elements();
  std::size_t rows = 1;
  for (std::size_t i = 0; i + 1 < s.rank; ++i) rows *= static_cast<std::size_t>(s[i]);
  const w work{nullptr,
               nullptr,
               nullptr,
               static_cast<std::uint32_t>(s[s.rank - 1]),
               divisor(static_cast<std::uint32_t>(n > 0 ? n / rows : 1)),
               attributes_of<searchsorted_op<T>>(p.node).right};
  return make_each(p, "searchsorted in " + to_string(s), work, n, &w::sorted, &w::values, &w::out);
}

}  // namespace detail

template <class T>
struct kernels<searchsorted_op<T>> : installed<searchsorted_op<T>, detail::prepare_searchsorted<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
