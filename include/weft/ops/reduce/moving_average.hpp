// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/cpu/moving_average.hpp>
#include <weft/ops/operation.hpp>

/// The moving averages of batch normalization.
namespace weft {

namespace detail {
struct moving_average_attributes {
  attribute<double> momentum;
  attribute<bool> is_variance;
};
}  // namespace detail

/// Operands: the average; a moment of its extents; and the number n of elements from which the moment was computed, a
/// scalar. The average becomes average * momentum + value * (1 - momentum). A variance is multiplied by n / (n - 1)
/// first if n is above 1, so that it is unbiased. If n is 0, the moment is undefined, and the average stays unchanged.
/// All updates of one average in a step apply, one after the other.
template <class T>
struct moving_average_op {
  static constexpr const char* name = "moving_average";
  static constexpr operation_id id{"weft.moving_average"};
  static constexpr bool writes = true;
  using attributes = detail::moving_average_attributes;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::moving_average_kernel<T>(p, a.momentum, a.is_variance);
  }
  static constexpr operand_use use(const node_def&, std::size_t operand) {
    return operand == 0 ? operand_use::update : operand_use::read;
  }
};

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/moving_average.hpp>
#endif
