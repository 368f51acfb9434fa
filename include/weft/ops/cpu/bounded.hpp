// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/operation.hpp>

/// CPU kernel that flags the real rows of a bounded value.
WEFT_COLD_BEGIN
namespace weft::detail {

class valid_rows_kernel final : public kernel {
 public:
  explicit valid_rows_kernel(const prepare_context& p)
      : count_(p.input_slots[0]), out_(p.output_slots[0]), rows_(p.outputs[0].extents[0]) {}
  void run(const kernel_context& f) override {
    const std::int64_t count = *reinterpret_cast<const std::int64_t*>(f.buffers[count_]);
    const std::int64_t real = count < 0 ? 0 : count < rows_ ? count : rows_;
    bool* const valid = reinterpret_cast<bool*>(f.buffers[out_]);
    for (std::int64_t i = 0; i < rows_; ++i) valid[i] = i < real;
  }
  std::string describe() const override { return str_cat({"valid_rows of ", rows_}); }

 private:
  std::uint32_t count_, out_;
  std::int64_t rows_;
};

}  // namespace weft::detail
WEFT_COLD_END
