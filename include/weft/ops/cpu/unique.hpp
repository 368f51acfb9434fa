// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/chunks.hpp>
#include <weft/device/first_of_equals.hpp>
#include <weft/ops/operation.hpp>

/// CPU kernel that finds the first of equal elements.
WEFT_COLD_BEGIN
namespace weft::detail {

template <class T>
class first_appearances_kernel final : public kernel {
 public:
  explicit first_appearances_kernel(const prepare_context& p)
      : sorted_(p.input_slots[0]), order_(p.input_slots[1]), n_(p.inputs[0].extents.elements()), chunks_(n_, n_) {
    for (std::size_t o = 0; o < 3; ++o) out_[o] = p.output_slots[o];
  }
  void run(const kernel_context& f) override {
    const device::first_of_equals<T> all{
        reinterpret_cast<const T*>(f.buffers[sorted_]),      reinterpret_cast<const std::int32_t*>(f.buffers[order_]),
        reinterpret_cast<std::int32_t*>(f.buffers[out_[0]]), reinterpret_cast<bool*>(f.buffers[out_[1]]),
        reinterpret_cast<std::int32_t*>(f.buffers[out_[2]]), n_};
    chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) {
      for (std::size_t k = begin; k < end; ++k) all.find(k);
    });
  }
  std::string describe() const override { return str_cat({"first_appearances of ", n_}); }

 private:
  std::uint32_t sorted_, order_, out_[3];
  std::size_t n_;
  device::chunks chunks_;
};

}  // namespace weft::detail
WEFT_COLD_END
