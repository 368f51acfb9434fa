// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/check.hpp>
#include <weft/ops/cpu/shape.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/lowering.hpp>

namespace weft {

/// Returns the number of axes, a compile-time constant (tf.rank).
template <Expression Expr>
constexpr std::size_t rank(const Expr&) {
  return dims_t<Expr>::rank;
}

/// Return the operand's extents, and their product.
struct shape_op {
  static constexpr const char* name = "shape";
  static constexpr const char* onnx = "shape_of()";
  static kernel* prepare(const prepare_context& p) { return new detail::extents_kernel(p, false); }
  static constexpr operand_use use(const node_def&, std::size_t) { return operand_use::extents; }
};
struct size_op {
  static constexpr const char* name = "size";
  static constexpr const char* onnx = "size()";
  static kernel* prepare(const prepare_context& p) { return new detail::extents_kernel(p, true); }
  static constexpr operand_use use(const node_def&, std::size_t) { return operand_use::extents; }
};

/// Returns the extents as std::int64_t, `[rank]`, known when a step runs (tf.shape).
template <Expression Expr>
[[nodiscard]] auto shape_of(const Expr& e) {
  const auto x = materialize(e);
  constexpr int rank = static_cast<int>(dims_t<Expr>::rank);
  return call_operation<shape_op, std::int64_t, dims<rank>>(shape(rank), {}, x);
}

/// Returns the number of elements, std::int64_t (tf.size).
template <Expression Expr>
[[nodiscard]] auto size(const Expr& e) {
  const auto x = materialize(e);
  return call_operation<size_op, std::int64_t, dims<>>(shape(), {}, x);
}

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/shape.hpp>
#endif
