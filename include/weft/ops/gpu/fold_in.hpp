// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/gpu/install.hpp>
#include <weft/ops/random/fold_in.hpp>

/// GPU kernel of fold_in.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

struct fold_work {
  std::uint64_t key;
  const std::uint64_t* from;
  std::uint64_t* to;

  WEFT_HOST_DEVICE void operator()(std::size_t) const { *to = weft::device::fold_in(key, *from); }
};

inline kernel* prepare_fold_in(const prepare_context& p, device&) {
  const fold_work work{attributes_of<fold_in_op>(p.node).key, nullptr, nullptr};
  return make_each<32>(p, fold_in_op::name, work, 1, &fold_work::from, &fold_work::to);
}

inline const bool fold_in_is_installed = install<fold_in_op>({.prepare = prepare_fold_in});

}  // namespace detail
}  // namespace weft::gpu
WEFT_COLD_END
#endif
