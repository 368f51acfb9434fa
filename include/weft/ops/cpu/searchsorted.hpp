// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/chunks.hpp>
#include <weft/device/sorted_place.hpp>
#include <weft/ops/operation.hpp>

/// CPU kernel of searchsorted.
WEFT_COLD_BEGIN
namespace weft::detail {

template <class T>
class searchsorted_kernel final : public kernel {
 public:
  searchsorted_kernel(const prepare_context& p, bool right)
      : sorted_(p.input_slots[0]), values_(p.input_slots[1]), out_(p.output_slots[0]), right_(right) {
    const shape& s = p.inputs[0].extents;
    extent_ = static_cast<std::size_t>(s[s.rank - 1]);
    for (std::size_t i = 0; i + 1 < s.rank; ++i) rows_ *= static_cast<std::size_t>(s[i]);
    const std::size_t n = p.inputs[1].extents.elements();
    chunks_ = device::chunks(n, 8 * n, 65536);
  }
  void run(const kernel_context& f) override {
    const T* const sorted = reinterpret_cast<const T*>(f.buffers[sorted_]);
    const T* const values = reinterpret_cast<const T*>(f.buffers[values_]);
    auto* const out = reinterpret_cast<std::int32_t*>(f.buffers[out_]);
    chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) {
      const std::size_t of_row = chunks_.items / rows_;
      std::size_t place = 0;
      for (std::size_t i = begin; i < end; ++i) {
        place = device::sorted_place(sorted + i / of_row * extent_, extent_, values[i], right_, place);
        out[i] = static_cast<std::int32_t>(place);
      }
    });
  }
  std::string describe() const override { return str_cat({"searchsorted of ", chunks_.items, " in ", extent_}); }

 private:
  std::uint32_t sorted_, values_, out_;
  bool right_;
  std::size_t extent_, rows_ = 1;
  device::chunks chunks_;
};

}  // namespace weft::detail
WEFT_COLD_END
