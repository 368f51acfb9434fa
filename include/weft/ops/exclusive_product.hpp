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

  explicit exclusive_product_rows(const prepare_context&) {}
  void run(const axis_rows& rows, const T* x, T* y, std::size_t begin, std::size_t end) const {
    device::exclusive_products(rows, x, y, begin, end);
  }
};

template <class T>
kernel* prepare_exclusive_product(const prepare_context& p) {
  return new axis_kernel<T, exclusive_product_rows<T>>(p);
}

/// Its gradient, in symbols: right where at most two elements of a row are 0 and nothing overflows.
void exclusive_product_gradient(gradient_context&);

/// attributes: the axis; detail: the product of values as they are, a fused_reduction.
template <class T>
inline constexpr operation exclusive_product_operation = [] {
  return operation{.name = "exclusive_product",
                   .prepare_cpu = prepare_exclusive_product<T>,
                   .gpu = &gpu::preparation_of<prepare_exclusive_product<T>>,
                   .gradient = exclusive_product_gradient};
}();

}  // namespace weft::detail
WEFT_COLD_END
