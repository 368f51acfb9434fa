// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <utility>

#include <weft/data/further_stage.hpp>
#include <weft/data/new_stages.hpp>

#if WEFT_DEFINITIONS
WEFT_COLD_BEGIN
namespace weft::data::detail {

/// Concatenates epochs.
class repeated_stream final : public stream {
 public:
  repeated_stream(const stage& upstream, std::uint64_t first_epoch, std::uint64_t times, stop_source* stop)
      : upstream_(upstream), epoch_(first_epoch), endless_(times == all_elements), left_(times), stop_(stop) {}

  bool next(element& to, const time_limit& within) override {
    for (;;) {
      if (!elements_) {
        check_stop(stop_);
        if (left_ == 0) return false;
        if (!endless_) --left_;
        elements_ = upstream_.open(epoch_++, stop_);
        if (to_skip_ > 0) elements_->skip(std::exchange(to_skip_, 0));
        empty_ = true;
      }
      if (elements_->next(to, within)) {
        empty_ = false;
        return true;
      }
      elements_ = nullptr;
      if (empty_ && endless_) return false;  // otherwise it would loop forever
    }
  }
  void skip(std::uint64_t count) override {
    const auto size = upstream_.size();
    if (!size || *size == 0) return stream::skip(count);
    const std::uint64_t epochs = smaller(left_, count / *size);
    epoch_ += epochs;
    if (!endless_) left_ -= epochs;
    to_skip_ = count - epochs * *size;
  }

 private:
  const stage& upstream_;
  std::uint64_t epoch_;
  bool endless_;
  std::uint64_t left_;
  stop_source* stop_;
  intrusive_ptr<stream> elements_;
  std::uint64_t to_skip_ = 0;
  bool empty_ = true;
};

class repeated_stage final : public further_stage {
 public:
  repeated_stage(stage_ptr upstream, std::uint64_t times) : further_stage(std::move(upstream)), times_(times) {}

  optional_count size() const override {
    const auto once = upstream().size();
    if (!once || times_ == all_elements) return {};
    return product_of_counts(*once, times_);
  }
  bool has_rows() const override { return false; }
  intrusive_ptr<stream> open(std::uint64_t epoch, stop_source* stop) const override {
    return intrusive_ptr<stream>(
        new repeated_stream(upstream(), times_ == all_elements ? epoch : epoch * times_, times_, stop));
  }

 private:
  std::uint64_t times_;
};

WEFT_DECL stage_ptr new_repeated_stage(stage_ptr upstream, std::uint64_t times) {
  return stage_ptr(new repeated_stage(std::move(upstream), times));
}

}  // namespace weft::data::detail

WEFT_COLD_END
#endif
