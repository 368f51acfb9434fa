#pragma once

#include <string>

#include <weft/device/cpu/exclusive_product.hpp>
#include <weft/ops/operation.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// At each element the product of the others in its row, along an axis: what the gradient of a product is made of, as
/// in TensorFlow (_ProdGrad, by exclusive cumulative products).
template <class T>
class exclusive_product_kernel final : public kernel {
 public:
  explicit exclusive_product_kernel(const prepare_context& p)
      : in_(p.input_slots[0]),
        out_(p.output_slots[0]),
        rows_(p.inputs[0].extents, static_cast<std::size_t>(p.c.attributes[0])) {
    groups_ = rows_.extent ? rows_.groups() : 0;
    chunks_ = p.inputs[0].extents.elements() / 16384 + 1;
    if (chunks_ > groups_) chunks_ = groups_;
  }
  void run(const kernel_context& f) override {
    const T* x = reinterpret_cast<const T*>(f.buffers[in_]);
    T* y = reinterpret_cast<T*>(f.buffers[out_]);
    const auto part = [&](std::size_t chunk) {
      device::exclusive_products(rows_, x, y, groups_ * chunk / chunks_, groups_ * (chunk + 1) / chunks_);
    };
    if (chunks_ == 1)
      part(0);
    else if (chunks_ > 1)
      f.threads->parallel_for(chunks_, part);
  }
  std::string describe() const override { return str_cat({"products of the others over ", rows_.extent}); }

 private:
  std::uint32_t in_, out_;
  axis_rows rows_;
  std::size_t groups_, chunks_;
};

template <class T>
kernel* prepare_exclusive_product(const prepare_context& p) {
  return new exclusive_product_kernel<T>(p);
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
