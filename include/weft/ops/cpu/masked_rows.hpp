// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/chunks.hpp>
#include <weft/ops/operation.hpp>

/// CPU kernels that find and take the rows selected by a mask.
WEFT_COLD_BEGIN
namespace weft::detail {

class mask_rows_kernel final : public kernel {
 public:
  explicit mask_rows_kernel(const prepare_context& p)
      : running_(p.input_slots[0]),
        mask_(p.input_slots[1]),
        rows_(p.output_slots[0]),
        places_(p.output_slots[1]),
        count_(p.output_slots[2]),
        n_(p.inputs[0].extents.elements()),
        chunks_(n_, n_, 65536) {}
  void run(const kernel_context& f) override {
    const auto* const running = reinterpret_cast<const std::int32_t*>(f.buffers[running_]);
    const auto* const mask = reinterpret_cast<const bool*>(f.buffers[mask_]);
    auto* const rows = reinterpret_cast<std::int32_t*>(f.buffers[rows_]);
    auto* const places = reinterpret_cast<std::int32_t*>(f.buffers[places_]);
    const std::size_t count = n_ == 0 ? 0 : static_cast<std::size_t>(running[n_ - 1]);
    *reinterpret_cast<std::int64_t*>(f.buffers[count_]) = static_cast<std::int64_t>(count);
    chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        places[i] = mask[i] ? running[i] - 1 : -1;
        if (mask[i]) rows[running[i] - 1] = static_cast<std::int32_t>(i);
        if (i >= count) rows[i] = -1;
      }
    });
  }
  std::string describe() const override { return str_cat({"mask_rows of ", n_}); }

 private:
  std::uint32_t running_, mask_, rows_, places_, count_;
  std::size_t n_;
  device::chunks chunks_;
};

/// The elements of a row, and the number of rows.
struct row_layout {
  std::size_t rows = 1, elements = 1;
  row_layout(const shape& s, std::size_t row_rank) {
    for (std::size_t i = 0; i < s.rank; ++i)
      (i + row_rank < s.rank ? rows : elements) *= static_cast<std::size_t>(s[i]);
  }
};

class masked_rows_kernel final : public kernel {
 public:
  masked_rows_kernel(const prepare_context& p, std::size_t row_rank)
      : in_(p.input_slots[0]), indices_(p.input_slots[1]), out_(p.output_slots[0]), name_(p.node.op->name) {
    const row_layout from(p.inputs[0].extents, row_rank), to(p.outputs[0].extents, row_rank);
    rows_ = from.rows;
    bytes_ = to.elements * size_of(p.inputs[0].type);
    chunks_ = device::chunks(to.rows, to.rows * to.elements, 65536);
  }
  void run(const kernel_context& f) override {
    const std::byte* const x = f.buffers[in_];
    const auto* const indices = reinterpret_cast<const std::int32_t*>(f.buffers[indices_]);
    std::byte* const y = f.buffers[out_];
    chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) {
      if (bytes_ == 4) return take_elements<std::uint32_t>(x, indices, y, begin, end);
      if (bytes_ == 8) return take_elements<std::uint64_t>(x, indices, y, begin, end);
      for (std::size_t i = begin; i < end; ++i)
        if (const auto row = static_cast<std::size_t>(indices[i]); row < rows_)
          __builtin_memcpy(y + i * bytes_, x + row * bytes_, bytes_);
        else
          __builtin_memset(y + i * bytes_, 0, bytes_);
    });
  }
  std::string describe() const override { return str_cat({name_, " ", chunks_.items, " of ", rows_, " rows"}); }

 private:
  /// Takes rows of one element each, without a call for each row.
  template <class Word>
  void take_elements(const std::byte* x, const std::int32_t* indices, std::byte* y, std::size_t begin,
                     std::size_t end) const {
    for (std::size_t i = begin; i < end; ++i) {
      Word word = 0;
      const auto row = static_cast<std::size_t>(indices[i]);
      if (row < rows_) __builtin_memcpy(&word, x + row * sizeof word, sizeof word);
      __builtin_memcpy(y + i * sizeof word, &word, sizeof word);
    }
  }

  std::uint32_t in_, indices_, out_;
  const char* name_;
  std::size_t rows_, bytes_;
  device::chunks chunks_;
};

}  // namespace weft::detail
WEFT_COLD_END
