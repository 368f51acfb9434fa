// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/random/fold_in.hpp>
#include <weft/tensor/owned.hpp>

/// GPU kernel of fold_in.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

struct fold_body {
  static constexpr unsigned threads = 32;
  static constexpr int phases = 1;
  using block_memory = nothing;
  using thread_memory = nothing;

  std::uint64_t key;
  const std::uint64_t* from;
  std::uint64_t* to;

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    if (at.thread == 0) *to = weft::device::fold_in(key, *from);
  }
};

inline kernel* prepare_fold_in(const prepare_context& p, device&) {
  static const function code = function_of<fold_body>(fold_in_op::name);
  const fold_body b{attributes_of<fold_in_op>(p.node).key, nullptr, nullptr};
  owned<launch_kernel> k(new launch_kernel(fold_in_op::name));
  auto& l = add_body(*k, b, code, 1);
  l.point(offset_in(b, b.from), p.input_slots[0]);
  l.point(offset_in(b, b.to), p.output_slots[0]);
  return k.release();
}

inline const bool fold_in_is_installed = install<fold_in_op>({.prepare = prepare_fold_in});

}  // namespace detail
}  // namespace weft::gpu
WEFT_COLD_END
#endif
