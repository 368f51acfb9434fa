// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/cpu/fold_in.hpp>
#include <weft/ops/random/random_position.hpp>

/// Derived positions in the random numbers, for operations that draw several times in a step.
WEFT_COLD_BEGIN
namespace weft {

/// Folds a key into a position (jax.random.fold_in). The result has as many bits and differs from the position of any
/// step.
struct fold_in_op {
  static constexpr const char* name = "fold_in";
  struct attributes {
    attribute<std::uint64_t> key;
  };

  static kernel* prepare(const prepare_context& p, const attributes& a) { return new detail::fold_in_kernel(p, a.key); }
};

namespace detail {

inline symbol record_fold_in(symbol position, std::uint64_t key) {
  return record<fold_in_op>({position}, position.info(), {key});
}

}  // namespace detail
}  // namespace weft
WEFT_COLD_END

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/fold_in.hpp>
#endif
