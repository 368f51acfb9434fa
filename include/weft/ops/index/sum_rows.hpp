// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/cpu/sum_rows.hpp>
#include <weft/ops/operation.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// Sums the rows of equal index (tf.unsorted_segment_sum of the rows and indices of an IndexedSlices). Inputs: the
/// operand of the gathers, and any number of lists: rows, and their indices. Outputs: for each list, sums and their
/// indices, std::int64_t; the index is -1 if the row is not written. On a GPU, an index out of range also becomes -1.
template <class T>
struct sum_rows_op {
  static constexpr const char* name = "sum_rows";

  static kernel* prepare(const prepare_context& p) { return new detail::row_sums_kernel<T>(p); }
  static constexpr operand_use use(const node_def&, std::size_t operand) {
    return operand == 0 ? operand_use::extents : operand_use::read;
  }
};

}  // namespace weft
WEFT_COLD_END

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/sum_rows.hpp>
#endif
