// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/range.hpp>
#include <weft/ops/operation.hpp>

/// CPU kernel of range.
namespace weft::detail {

/// literals: the first number and the step.
template <class T>
class range_kernel final : public kernel {
 public:
  explicit range_kernel(const prepare_context& p)
      : out_(p.output_slots[0]),
        elements_(p.outputs[0].extents.elements()),
        start_(literal_value<T>(p.node.literals[0])),
        delta_(literal_value<T>(p.node.literals[1])) {}
  void run(const kernel_context& f) override {
    T* const to = reinterpret_cast<T*>(f.buffers[out_]);
    for (std::size_t i = 0; i < elements_; ++i) to[i] = device::range_element(start_, delta_, i);
  }
  std::string describe() const override { return str_cat({"range of ", elements_}); }

 private:
  std::uint32_t out_;
  std::size_t elements_;
  T start_, delta_;
};

}  // namespace weft::detail
