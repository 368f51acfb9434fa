// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/ops/bounded.hpp>
#include <weft/ops/gpu/fused.hpp>
#include <weft/ops/gpu/install.hpp>

/// GPU kernel that flags the real rows of a bounded value.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

struct valid_rows_body {
  static constexpr unsigned threads = 256;
  static constexpr int phases = 1;
  using block_memory = nothing;
  using thread_memory = nothing;

  const std::int64_t* count;
  bool* valid;
  std::uint32_t rows;

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    for (std::uint32_t i = at.block * threads + at.thread; i < rows; i += at.blocks * threads)
      valid[i] = std::int64_t{i} < *count;
  }
};

inline kernel* prepare_valid_rows(const prepare_context& p, device&) {
  static const function code = function_of<valid_rows_body>("valid_rows");
  const shape& s = p.outputs[0].extents;
  check_size("valid_rows", s);
  auto* k = new launch_kernel(str_cat({"valid_rows of ", s[0]}));
  valid_rows_body b{};
  b.rows = static_cast<std::uint32_t>(s[0]);
  if (b.rows == 0) return k;
  auto& l = add_body(*k, b, code, blocks_for(b.rows, 1));
  l.point(offset_in(b, b.count), p.input_slots[0]);
  l.point(offset_in(b, b.valid), p.output_slots[0]);
  return k;
}

inline const bool valid_rows_are_installed = install<valid_rows_op>({.prepare = prepare_valid_rows});

}  // namespace detail
}  // namespace weft::gpu
WEFT_COLD_END
#endif
