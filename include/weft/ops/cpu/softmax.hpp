// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/axis_rows.hpp>
#include <weft/device/cpu/chunks.hpp>
#include <weft/device/cpu/cross_entropy.hpp>
#include <weft/device/softmax.hpp>
#include <weft/ops/operation.hpp>
#include <weft/tensor/sequence.hpp>

/// CPU kernels of softmax and cross-entropies along the last axis.
namespace weft::detail {

template <softmax_kind Kind, class T, class Label>
class softmax_kernel final : public kernel {
  static constexpr bool has_labels = Kind >= softmax_kind::cross_entropy;

 public:
  explicit softmax_kernel(const prepare_context& p) : name_(p.node.op->name) {
    const axis_rows r(p.inputs[0].extents, p.inputs[0].extents.rank - 1);
    columns_ = r.extent;
    rows_ = r.outer;
    chunks_ = {rows_, rows_ * columns_};
    scratch_.resize(chunks_.count * columns_);
    for (std::size_t i = 0; i < p.node.inputs.size(); ++i) in_[i] = p.input_slots[i];
    for (std::size_t i = 0; i < p.node.outputs.size(); ++i) out_[i] = p.output_slots[i];
  }

  void run(const kernel_context& f) override {
    std::size_t bad = rows_;
    chunks_.run(f, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
      const std::size_t rows = end - begin;
      const T* x = reinterpret_cast<const T*>(f.buffers[in_[0]]) + begin * columns_;
      T* y = reinterpret_cast<T*>(f.buffers[out_[0]]);
      T* scratch = scratch_.data() + chunk * columns_;
      if constexpr (Kind == softmax_kind::softmax) {
        device::softmax_rows(x, y + begin * columns_, rows, columns_);
      } else if constexpr (Kind == softmax_kind::log_softmax) {
        device::log_softmax_rows(x, y + begin * columns_, scratch, rows, columns_);
      } else {
        T* backprop = reinterpret_cast<T*>(f.buffers[out_[1]]) + begin * columns_;
        const Label* labels = reinterpret_cast<const Label*>(f.buffers[in_[1]]);
        if constexpr (Kind == softmax_kind::cross_entropy) {
          device::cross_entropy_rows(x, labels + begin * columns_, y + begin, backprop, scratch, rows, columns_);
        } else {
          const std::size_t first =
              device::sparse_cross_entropy_rows(x, labels + begin, y + begin, backprop, scratch, rows, columns_);
          if (first != rows) __atomic_store_n(&bad, begin + first, __ATOMIC_RELAXED);
        }
      }
    });
    if constexpr (Kind == softmax_kind::sparse_cross_entropy)
      if (bad != rows_)
        throw error(error_code::out_of_range, name_,
                    {"label ", reinterpret_cast<const Label*>(f.buffers[in_[1]])[bad], " of row ", bad,
                     " is not one of the ", columns_, " classes"});
  }

  std::size_t memory_bytes() const override { return scratch_.memory_bytes(); }
  std::string describe() const override { return str_cat({name_, " ", rows_, "x", columns_}); }

 private:
  const char* name_;
  std::size_t rows_, columns_;
  device::chunks chunks_;
  sequence<T> scratch_;
  std::uint32_t in_[2]{}, out_[2]{};
};

}  // namespace weft::detail
