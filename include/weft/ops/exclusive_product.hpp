#pragma once

#include <weft/device/axis_rows.hpp>
#include <weft/ops/cpu/exclusive_product.hpp>
#include <weft/ops/operation.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// Writes the gradient of an exclusive_product along axes [begin, end) in symbols. It is exact where at most two
/// elements of a row are 0 and nothing overflows.
void exclusive_product_gradient(gradient_context&, std::size_t begin, std::size_t end);

/// The type of its second output.
constexpr dtype exclusive_product_type(dtype type) {
  return type == dtype::float16 || type == dtype::bfloat16 ? dtype::float32 : dtype::float64;
}

/// The product of all other elements of a row, for each element: what the gradient of a product consists of (_ProdGrad
/// of TensorFlow, by exclusive cumulative products). Neighbouring axes are one row. Input [..., n, ...]; outputs: the
/// same shape, and the products of the elements before each, in a type whose range these do not leave as soon.
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
