// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/operation.hpp>
#include <weft/tensor/tensor.hpp>

/// CPU kernel that writes the extents of a value, or their product.
namespace weft::detail {

class extents_kernel final : public kernel {
 public:
  extents_kernel(const prepare_context& p, bool product) : out_(p.output_slots[0]), extents_(p.inputs[0].extents) {
    if (product) extents_ = shape(extents_.elements());
  }
  void run(const kernel_context& f) override {
    __builtin_memcpy(f.buffers[out_], extents_.extents, extents_.rank * sizeof(std::int64_t));
  }
  std::string describe() const override { return str_cat({"extents ", to_string(extents_)}); }

 private:
  std::uint32_t out_;
  shape extents_;
};

}  // namespace weft::detail
