// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/ops/cpu/state.hpp>
#include <weft/ops/operation.hpp>

/// CPU kernel that updates moving averages.
namespace weft::detail {

WEFT_COLD_BEGIN

template <class T>
class moving_average_kernel final : public kernel {
 public:
  moving_average_kernel(const prepare_context& p, double momentum, bool is_variance)
      : average_(p.input_slots[0]),
        value_(p.input_slots[1]),
        count_(p.input_slots[2]),
        elements_(p.inputs[0].extents.elements()),
        momentum_(momentum),
        is_variance_(is_variance) {
    check_assigned(p, 1);
  }
  void run(const kernel_context& f) override {
    const T n = *reinterpret_cast<const T*>(f.buffers[count_]);
    if (!(n > T(0))) return;
    const T keep = static_cast<T>(momentum_);
    const T take = static_cast<T>(1 - momentum_) * (is_variance_ && n > T(1) ? n / (n - T(1)) : T(1));
    T* const average = reinterpret_cast<T*>(f.buffers[average_]);
    const T* const value = reinterpret_cast<const T*>(f.buffers[value_]);
    for (std::size_t i = 0; i < elements_; ++i) average[i] = keep * average[i] + take * value[i];
  }
  std::string describe() const override { return str_cat({"moving_average ", elements_}); }

 private:
  std::uint32_t average_, value_, count_;
  std::size_t elements_;
  double momentum_;
  bool is_variance_;
};

WEFT_COLD_END

}  // namespace weft::detail
