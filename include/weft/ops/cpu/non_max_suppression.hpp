// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/operation.hpp>

/// CPU kernel of non_max_suppression.
WEFT_COLD_BEGIN
namespace weft::detail {

template <class T>
class non_max_suppression_kernel final : public kernel {
 public:
  non_max_suppression_kernel(const prepare_context& p, double iou, double score)
      : boxes_(p.input_slots[0]),
        scores_(p.input_slots[1]),
        order_(p.input_slots[2]),
        kept_(p.output_slots[0]),
        count_(p.output_slots[1]),
        n_(p.inputs[0].extents[0]),
        max_(p.outputs[0].extents[0]),
        iou_(static_cast<T>(iou)),
        score_(static_cast<T>(score)) {}

  void run(const kernel_context& f) override {
    const T* const boxes = reinterpret_cast<const T*>(f.buffers[boxes_]);
    const T* const scores = reinterpret_cast<const T*>(f.buffers[scores_]);
    const std::int32_t* const order = reinterpret_cast<const std::int32_t*>(f.buffers[order_]);
    std::int32_t* const kept = reinterpret_cast<std::int32_t*>(f.buffers[kept_]);
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < n_ && count < max_; ++i) {
      if (!(scores[order[i]] > score_)) continue;
      const box b(boxes + 4 * std::int64_t{order[i]});
      bool is_new = true;
      for (std::int64_t k = 0; is_new && k < count; ++k)
        is_new = !b.overlaps(box(boxes + 4 * std::int64_t{kept[k]}), iou_);
      if (is_new) kept[count++] = order[i];
    }
    *reinterpret_cast<std::int64_t*>(f.buffers[count_]) = count;
    for (; count < max_; ++count) kept[count] = 0;
  }
  std::string describe() const override { return str_cat({"non_max_suppression of ", n_}); }

 private:
  struct box {
    T low[2], high[2];

    explicit box(const T* corners) {
      for (int i = 0; i < 2; ++i) {
        const bool ordered = corners[i] <= corners[i + 2];
        low[i] = corners[ordered ? i : i + 2], high[i] = corners[ordered ? i + 2 : i];
      }
    }
    T area() const { return (high[0] - low[0]) * (high[1] - low[1]); }
    bool overlaps(const box& o, T most) const {
      T shared = 1;
      for (int i = 0; i < 2; ++i) {
        const T from = low[i] > o.low[i] ? low[i] : o.low[i], to = high[i] < o.high[i] ? high[i] : o.high[i];
        if (!(to > from)) return T(0) > most;
        shared *= to - from;
      }
      return shared > most * (area() + o.area() - shared);
    }
  };

  std::uint32_t boxes_, scores_, order_, kept_, count_;
  std::int64_t n_, max_;
  T iou_, score_;
};

}  // namespace weft::detail
WEFT_COLD_END
