#pragma once

#include <weft/ops/cpu/sum_rows.hpp>
#include <weft/ops/operation.hpp>

WEFT_COLD_BEGIN
namespace weft {

/// The sum of the rows that have one index, and nothing for an index that does not come (tf.unsorted_segment_sum of the
/// rows and indices of an IndexedSlices). Inputs: what the rows are of, and any number of lists: rows, and their
/// indices. Outputs: for each list the sums that stand in it, and their indices: a std::int64_t each, -1 where there is
/// none and the row is not written. On a GPU an index that no row has becomes -1, too.
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
