// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/axis_rows.hpp>
#include <weft/device/gpu/indexing.hpp>
#include <weft/device/index_at.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/index/copy_rows.hpp>

/// GPU kernel that copies between rows of a variable.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

/// Copies words of 2 or 4 bytes, whatever the element type.
template <class Word>
struct copy_rows_work {
  Word* variable;
  const std::int32_t *sources, *counts;
  divisor row, inner, extent;  ///< words of a row and of an element; elements along the axis
  std::uint32_t rows;

  WEFT_HOST_DEVICE void operator()(std::size_t at) const {
    const auto i = static_cast<std::uint32_t>(at), to = row.divide(i), element = inner.divide(i);
    const auto from = static_cast<std::uint32_t>(sources[to]);
    const std::uint32_t along = element - extent.divide(element) * extent.extent;
    if (from != to && from < rows && along < static_cast<std::uint32_t>(counts[to]))
      variable[i] = variable[i - to * row.extent + from * row.extent];
  }
};

template <class Word>
kernel* prepare_copy_rows_by(const prepare_context& p) {
  using w = copy_rows_work<Word>;
  const shape& extents = p.inputs[0].extents;
  check_size(copy_rows_op::name, extents);
  const axis_rows whole(extents, attributes_of<copy_rows_op>(p.node).axis);
  const std::size_t words = p.inputs[0].bytes() / sizeof(Word), rows = static_cast<std::size_t>(extents[0]);
  w work{};
  if (words > 0) work.row = divisor_for(words / rows);
  work.inner = divisor_for(whole.inner * size_of(p.inputs[0].type) / sizeof(Word));
  work.extent = divisor_for(whole.extent);
  work.rows = static_cast<std::uint32_t>(rows);
  return make_each(p, copy_rows_op::name, work, words, &w::variable, &w::sources, &w::counts);
}

inline kernel* prepare_copy_rows(const prepare_context& p, device&) {
  return size_of(p.inputs[0].type) % 4 ? prepare_copy_rows_by<std::uint16_t>(p)
                                       : prepare_copy_rows_by<std::uint32_t>(p);
}

inline const bool copy_rows_is_installed = install<copy_rows_op>({.prepare = prepare_copy_rows});

}  // namespace detail
}  // namespace weft::gpu
WEFT_COLD_END
#endif
