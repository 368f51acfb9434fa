// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/axis_rows.hpp>
#include <weft/ops/cpu/exclusive_product.hpp>
#include <weft/ops/operation.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// Writes the gradient of an exclusive_product along axes [begin, end) in symbols. Exact if at most two elements of a
/// row are 0 and nothing overflows.
void exclusive_product_gradient(gradient_context&, std::size_t begin, std::size_t end);

/// The type of the second output of exclusive_product_op.
constexpr dtype exclusive_product_type(dtype type) {
  return type == dtype::float16 || type == dtype::bfloat16 ? dtype::float32 : dtype::float64;
}

/// Computes, for each element, the product of all other elements of its row, from which the gradient of a product is
/// made (TensorFlow's _ProdGrad, by exclusive cumulative products). Adjacent axes form one row. Input: [..., n, ...].
/// Outputs: the products, in the input's shape, and the products of all preceding elements, in a type with a larger
/// range.
///
/// detail: the product of the elements themselves, a fused_reduction.
template <class T>
struct exclusive_product_op {
  static constexpr const char* name = "exclusive_product";
  struct attributes {
    attribute<std::size_t> begin, end;
  };

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new exclusive_product_kernel<T>(p, axis_rows(p.inputs[0].extents, a.begin, a.end));
  }
  static void gradient(gradient_context& g, const attributes& a) { exclusive_product_gradient(g, a.begin, a.end); }
};

}  // namespace weft::detail
WEFT_COLD_END
