// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/random_words.hpp>
#include <weft/ops/operation.hpp>

/// CPU kernel of fold_in.
WEFT_COLD_BEGIN
namespace weft::detail {

class fold_in_kernel final : public kernel {
 public:
  fold_in_kernel(const prepare_context& p, std::uint64_t key)
      : from_(p.input_slots[0]), to_(p.output_slots[0]), key_(key) {}
  void run(const kernel_context& f) override {
    const std::uint64_t here = *reinterpret_cast<const std::uint64_t*>(f.buffers[from_]);
    *reinterpret_cast<std::uint64_t*>(f.buffers[to_]) = device::fold_in(key_, here);
  }
  std::string describe() const override { return "fold_in"; }

 private:
  std::uint32_t from_, to_;
  std::uint64_t key_;
};

}  // namespace weft::detail
WEFT_COLD_END
