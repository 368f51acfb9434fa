#pragma once

#include <string>

#include <weft/device/axis_rows.hpp>
#include <weft/device/cpu/chunks.hpp>
#include <weft/device/cpu/exclusive_product.hpp>
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

template <class T>
class exclusive_product_kernel;

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

template <class T>
class exclusive_product_kernel final : public kernel {
 public:
  exclusive_product_kernel(const prepare_context& p, const axis_rows& rows)
      : in_(p.input_slots[0]),
        out_(p.output_slots[0]),
        before_(p.output_slots[1]),
        rows_(rows),
        chunks_(rows.extent ? rows.groups() : 0, p.inputs[0].extents.elements()) {}
  void run(const kernel_context& f) override {
    const T* x = reinterpret_cast<const T*>(f.buffers[in_]);
    T* y = reinterpret_cast<T*>(f.buffers[out_]);
    auto* before = reinterpret_cast<device::exclusive_product_of<T>*>(f.buffers[before_]);
    chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) {
      device::exclusive_products(rows_, x, before, y, begin, end);
    });
  }
  std::string describe() const override { return str_cat({"products of the other elements over ", rows_.extent}); }

 private:
  std::uint32_t in_, out_, before_;
  axis_rows rows_;
  device::chunks chunks_;
};

}  // namespace weft::detail
WEFT_COLD_END
