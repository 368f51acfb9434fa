// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/index_at.hpp>
#include <weft/ops/operation.hpp>

/// CPU kernel of one_hot.
namespace weft::detail {

template <class T>
class one_hot_kernel final : public kernel {
 public:
  one_hot_kernel(const prepare_context& p, std::size_t depth)
      : in_(p.input_slots[0]),
        out_(p.output_slots[0]),
        wide_(p.inputs[0].type == dtype::int64),
        rows_(p.inputs[0].extents.elements()),
        depth_(depth) {}
  void run(const kernel_context& f) override {
    const std::byte* labels = f.buffers[in_];
    T* to = reinterpret_cast<T*>(f.buffers[out_]);
    for (std::size_t r = 0; r < rows_; ++r, to += depth_) {
      const std::int64_t label = device::index_at(labels, wide_, r);
      for (std::size_t c = 0; c < depth_; ++c) to[c] = T(static_cast<std::int64_t>(c) == label);
    }
  }
  std::string describe() const override { return str_cat({"one_hot of depth ", depth_}); }

 private:
  std::uint32_t in_, out_;
  bool wide_;
  std::size_t rows_, depth_;
};

}  // namespace weft::detail
