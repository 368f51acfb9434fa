// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/categorical.hpp>
#include <weft/device/cpu/chunks.hpp>
#include <weft/ops/operation.hpp>

/// CPU kernel that draws a class for each row of logits.
WEFT_COLD_BEGIN
namespace weft::detail {

inline std::size_t draws_of_row(const prepare_context& p) {
  const shape &logits = p.inputs[0].extents, &to = p.outputs[0].extents;
  return to.rank == logits.rank ? static_cast<std::size_t>(to[to.rank - 1]) : 1;
}

template <class T>
WEFT_UNFUSED()
void draw_classes(const T* logits, std::size_t classes, std::size_t draws, const double* numbers, std::int32_t* to,
                  std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i)
    to[i] = device::draw_class(logits + i / draws * classes, classes, numbers[i]);
}

/// Inputs: logits, and a uniform number for each draw, of which every row has the same number.
template <class T>
class categorical_kernel final : public kernel {
 public:
  explicit categorical_kernel(const prepare_context& p)
      : logits_(p.input_slots[0]),
        numbers_(p.input_slots[1]),
        out_(p.output_slots[0]),
        classes_(static_cast<std::size_t>(p.inputs[0].extents[p.inputs[0].extents.rank - 1])),
        draws_(draws_of_row(p)),
        chunks_(p.outputs[0].extents.elements(), p.inputs[0].extents.elements() * draws_, 2048) {}

  void run(const kernel_context& f) override {
    chunks_.run(f, [&](std::size_t, std::size_t begin, std::size_t end) {
      draw_classes(reinterpret_cast<const T*>(f.buffers[logits_]), classes_, draws_,
                   reinterpret_cast<const double*>(f.buffers[numbers_]),
                   reinterpret_cast<std::int32_t*>(f.buffers[out_]), begin, end);
    });
  }
  std::string describe() const override {
    return str_cat({"categorical, ", chunks_.items, " of ", classes_, " classes"});
  }

 private:
  std::uint32_t logits_, numbers_, out_;
  std::size_t classes_, draws_;
  device::chunks chunks_;
};

}  // namespace weft::detail
WEFT_COLD_END
