// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/axis_rows.hpp>
#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/indexing.hpp>
#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/device/index_at.hpp>
#include <weft/ops/gpu/fused.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/index/sum_rows.hpp>
#include <weft/tensor/owned.hpp>

/// GPU kernels that sum rows of equal index.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

/// The concatenation of several lists of rows.
struct row_lists {
  std::uint32_t all;                       ///< the rows in all lists
  std::uint32_t begin[max_row_lists + 1];  ///< the first row of each list among all rows

  WEFT_HOST_DEVICE std::uint32_t list_of(std::uint32_t k) const {
    std::uint32_t l = 0;
    while (k >= begin[l + 1]) ++l;
    return l;
  }
};

/// The indices of the rows to sum.
struct index_lists : row_lists {
  std::uint32_t rows;  ///< rows of the variable
  std::uint32_t wide;  ///< one bit for each list
  const void* indices[max_row_lists];

  /// Returns an index, or -1 if it is out of range.
  WEFT_HOST_DEVICE std::int64_t index(std::uint32_t k) const {
    const std::uint32_t l = list_of(k);
    const std::int64_t n = weft::device::index_at(indices[l], (wide >> l) & 1, k - begin[l]);
    return n < 0 || n >= static_cast<std::int64_t>(rows) ? -1 : n;
  }
};

/// Each thread checks one position: whether its index occurs for the first time, and where it occurs next.
struct first_places_work {
  index_lists of;
  std::int64_t* places[max_row_lists];
  std::uint32_t* next;

  WEFT_HOST_DEVICE void operator()(std::size_t at) const {
    const auto k = static_cast<std::uint32_t>(at);
    const std::int64_t mine = of.index(k);
    bool first = mine >= 0;
    for (std::uint32_t j = 0; j < k && first; ++j) first = of.index(j) != mine;
    std::uint32_t after = k + 1;
    while (mine >= 0 && after < of.all && of.index(after) != mine) ++after;
    next[k] = mine >= 0 ? after : of.all;
    const std::uint32_t l = of.list_of(k);
    places[l][k - of.begin[l]] = first ? mine : -1;
  }
};

/// Each thread sums one column of one result, following the next occurrences of its index.
template <class T>
struct sum_rows_work {
  row_lists lists;
  divisor inner;
  const T* x[max_row_lists];
  T* sums[max_row_lists];
  const std::int64_t* places[max_row_lists];
  const std::uint32_t* next;

  WEFT_HOST_DEVICE void operator()(std::size_t at) const {
    const auto i = static_cast<std::uint32_t>(at), k = inner.divide(i), column = i - k * inner.extent;
    const std::uint32_t l = lists.list_of(k), here = k - lists.begin[l];
    if (places[l][here] < 0) return;
    T sum = row(k)[column];
    for (std::uint32_t j = next[k]; j < lists.all; j = next[j]) sum = static_cast<T>(sum + row(j)[column]);
    sums[l][here * inner.extent + column] = sum;
  }

 private:
  WEFT_HOST_DEVICE const T* row(std::uint32_t k) const {
    const std::uint32_t l = lists.list_of(k);
    return x[l] + (k - lists.begin[l]) * inner.extent;
  }
};

/// Compares all pairs of indices. Up to some ten thousand indices, this costs less than the sums.
template <class T>
kernel* prepare_sum_rows(const prepare_context& p, device& d) {
  const axis_rows rows(p.inputs[0].extents, 0);
  first_places_work first{};
  sum_rows_work<T> sums{};
  const std::size_t lists = p.node.inputs.size() / 2;
  std::size_t all = 0;
  for (std::size_t i = 0; i < lists; ++i) {
    if (p.inputs[2 * i + 2].type == dtype::int64) first.of.wide |= 1u << i;
    check_size("sum_rows", p.inputs[2 * i + 1].extents);
    all += p.inputs[2 * i + 2].extents.elements();
    check_size("sum_rows", shape(static_cast<std::int64_t>(all * rows.inner)));
    first.of.begin[i + 1] = static_cast<std::uint32_t>(all);
  }
  owned<launch_kernel> k(new launch_kernel(str_cat({"sum_rows ", all, " of ", rows.extent, " rows"})));
  if (all * rows.inner == 0) return k.release();
  device_memory next(p.memory ? *p.memory : d, all * sizeof(std::uint32_t), "workspace of sum_rows");
  first.next = reinterpret_cast<std::uint32_t*>(next.data());
  first.of.all = static_cast<std::uint32_t>(all);
  first.of.rows = static_cast<std::uint32_t>(rows.extent);
  auto& f = *add_each(*k, p, first, all);
  for (std::size_t i = 0; i < lists; ++i) {
    f.point(offset_in(first, first.of.indices[i]), p.input_slots[2 * i + 2]);
    f.point(offset_in(first, first.places[i]), p.output_slots[2 * i + 1]);
  }
  sums.lists = first.of;
  sums.next = first.next;
  sums.inner = divisor(static_cast<std::uint32_t>(rows.inner));
  auto& s = *add_each(*k, p, sums, all * rows.inner);
  for (std::size_t i = 0; i < lists; ++i) {
    s.point(offset_in(sums, sums.x[i]), p.input_slots[2 * i + 1]);
    s.point(offset_in(sums, sums.sums[i]), p.output_slots[2 * i]);
    s.point(offset_in(sums, sums.places[i]), p.output_slots[2 * i + 1]);
  }
  k->keep(static_cast<device_memory&&>(next));
  return k.release();
}

}  // namespace detail

template <class T>
struct kernels<sum_rows_op<T>> : installed<sum_rows_op<T>, detail::prepare_sum_rows<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
