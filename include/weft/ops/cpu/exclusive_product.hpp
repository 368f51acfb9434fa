// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/axis_rows.hpp>
#include <weft/device/cpu/chunks.hpp>
#include <weft/device/cpu/exclusive_product.hpp>
#include <weft/ops/operation.hpp>

/// CPU kernel of exclusive products.
WEFT_COLD_BEGIN
namespace weft::detail {

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
