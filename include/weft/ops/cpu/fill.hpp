// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include <weft/device/cpu/loop.hpp>
#include <weft/ops/operation.hpp>

/// CPU kernel of fill.
WEFT_COLD_BEGIN
namespace weft::detail {

class fill_kernel final : public kernel {
 public:
  fill_kernel(const prepare_context& p, double number, std::uint64_t element)
      : out_(p.output_slots[0]),
        size_(size_of(p.outputs[0].type)),
        elements_(p.outputs[0].extents.elements()),
        number_(number),
        element_(element) {}
  void run(const kernel_context& f) override { device::detail::splat(size_, f.buffers[out_], &element_, elements_); }
  std::string describe() const override { return str_cat({"fill with ", format_number("%.*g", 6, number_)}); }

 private:
  std::uint32_t out_;
  std::size_t size_, elements_;
  double number_;
  std::uint64_t element_;
};

}  // namespace weft::detail
WEFT_COLD_END
