#pragma once

#include <weft/device/cpu/exclusive_product.hpp>
#include <weft/ops/axis_kernel.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// At each element the product of the others in its row, along an axis: what the gradient of a product is made of, as
/// in TensorFlow (_ProdGrad, by exclusive cumulative products).
template <class T>
struct exclusive_product_rows {
  static constexpr const char* name = "products of the others";

  void run(const axis_rows& rows, const T* x, T* y, std::size_t begin, std::size_t end) const {
    device::exclusive_products(rows, x, y, begin, end);
  }
};

/// Its gradient, in symbols: right where at most two elements of a row are 0 and nothing overflows.
void exclusive_product_gradient(gradient_context&, std::size_t axis);

/// detail: the product of values as they are, a fused_reduction.
template <class T>
struct exclusive_product_op {
  static constexpr const char* name = "exclusive_product";
  using attributes = axis_attribute;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new axis_kernel<T, exclusive_product_rows<T>>(p, a.axis, {});
  }
  static void gradient(gradient_context& g, const attributes& a) { exclusive_product_gradient(g, a.axis); }
};

}  // namespace weft::detail
WEFT_COLD_END
