// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/bounded.hpp>
#include <weft/ops/gpu/install.hpp>

/// GPU kernel that flags the real rows of a bounded value.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

struct valid_rows_work {
  const std::int64_t* count;
  bool* valid;

  WEFT_HOST_DEVICE void operator()(std::size_t i) const { valid[i] = static_cast<std::int64_t>(i) < *count; }
};

inline kernel* prepare_valid_rows(const prepare_context& p, device&) {
  const std::int64_t rows = p.outputs[0].extents[0];
  return make_each(p, str_cat({"valid_rows of ", rows}), valid_rows_work{}, static_cast<std::size_t>(rows),
                   &valid_rows_work::count, &valid_rows_work::valid);
}

inline const bool valid_rows_are_installed = install<valid_rows_op>({.prepare = prepare_valid_rows});

}  // namespace detail
}  // namespace weft::gpu
WEFT_COLD_END
#endif
