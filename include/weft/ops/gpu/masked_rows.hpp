// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/unsigned_of.hpp>
#include <weft/ops/gpu/fused.hpp>
#include <weft/ops/gpu/indexed_rows.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/index/boolean_mask.hpp>

/// GPU kernels that find and take the rows selected by a mask.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

struct mask_rows_work {
  const std::int32_t* running;
  const bool* mask;
  std::int32_t *rows, *places;
  std::int64_t* count;
  std::size_t n;

  WEFT_HOST_DEVICE void operator()(std::size_t i) const {
    const std::int32_t all = n > 0 ? running[n - 1] : 0;
    if (i == 0) *count = all;
    if (i >= n) return;
    places[i] = mask[i] ? running[i] - 1 : -1;
    if (mask[i]) rows[running[i] - 1] = static_cast<std::int32_t>(i);
    if (i >= static_cast<std::size_t>(all)) rows[i] = -1;
  }
};

inline kernel* prepare_mask_rows(const prepare_context& p, device&) {
  using w = mask_rows_work;
  check_size("mask_rows", p.inputs[0].extents);
  w work{};
  work.n = p.inputs[0].extents.elements();
  return make_each(p, str_cat({"mask_rows of ", work.n}), work, work.n > 0 ? work.n : 1, &w::running, &w::mask,
                   &w::rows, &w::places, &w::count);
}

/// Gathers words, whatever their type.
template <std::size_t Bytes>
kernel* prepare_masked_rows_of(const prepare_context& p, std::size_t row_rank) {
  using body = gather_body<unsigned_of<Bytes>>;
  static const function code = function_of<body>("boolean_mask");
  const weft::detail::row_layout from(p.inputs[0].extents, row_rank);
  body b{};
  b.work = static_cast<std::uint32_t>(p.outputs[0].extents.elements());
  const axis_rows rows(shape(from.rows, from.elements), 0);
  return make_indexed_rows(p, b, rows, {rows, p.inputs[1].extents}, blocks_for(b.work, 1), 1, code);
}

inline kernel* prepare_masked_rows(const prepare_context& p, device&) {
  const std::size_t row_rank = attributes_of<boolean_mask_op>(p.node).row_rank;
  switch (size_of(p.inputs[0].type)) {
    case 1:
      return prepare_masked_rows_of<1>(p, row_rank);
    case 2:
      return prepare_masked_rows_of<2>(p, row_rank);
    case 4:
      return prepare_masked_rows_of<4>(p, row_rank);
    default:
      return prepare_masked_rows_of<8>(p, row_rank);
  }
}

inline const bool masks_are_installed =
    install<mask_rows_op>({.prepare = prepare_mask_rows}) && install<boolean_mask_op>({.prepare = prepare_masked_rows});

}  // namespace detail
}  // namespace weft::gpu
WEFT_COLD_END
#endif
