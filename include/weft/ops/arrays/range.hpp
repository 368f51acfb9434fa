// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/dispatch.hpp>
#include <weft/ops/cpu/range.hpp>
#include <weft/ops/fused.hpp>

/// Arithmetic sequences; see range in graph/fill.hpp.
WEFT_COLD_BEGIN
namespace weft {

/// No operands. literals: the first number and the step.
template <class T>
struct range_op {
  static constexpr const char* name = "range";
  static constexpr const char* onnx = "range()";
  static kernel* prepare(const prepare_context& p) { return new detail::range_kernel<T>(p); }
};

namespace detail {

template <class T>
symbol record_range(op_builder& where, const value_info& output, T start, T delta) {
  node_def c;
  c.op = &operation_of<range_op<T>>;
  c.outputs = {output};
  c.literals = {literal_bits(start), literal_bits(delta)};
  return where.record(static_cast<node_def&&>(c));
}

}  // namespace detail
}  // namespace weft
WEFT_COLD_END

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/range.hpp>
#endif
