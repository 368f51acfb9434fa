// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <utility>

#include <weft/data/further_stage.hpp>
#include <weft/data/new_stages.hpp>

#if WEFT_DEFINITIONS
WEFT_COLD_BEGIN
namespace weft::data::detail {

class filtered_stream final : public stream {
 public:
  filtered_stream(intrusive_ptr<stream> elements, const predicate& f) : elements_(std::move(elements)), f_(f) {}

  bool next(element& to, const time_limit& within) override {
    while (elements_->next(to, within))
      if (f_(to)) return true;
    return false;
  }

 private:
  intrusive_ptr<stream> elements_;
  const predicate& f_;
};

class filtered_stage final : public further_stage {
 public:
  filtered_stage(stage_ptr upstream, intrusive_ptr<const predicate> f)
      : further_stage(std::move(upstream)), f_(std::move(f)) {}

  optional_count size() const override { return {}; }
  bool has_rows() const override { return false; }
  intrusive_ptr<stream> open(std::uint64_t epoch, stop_source* stop) const override {
    return intrusive_ptr<stream>(new filtered_stream(upstream().open(epoch, stop), *f_));
  }

 private:
  intrusive_ptr<const predicate> f_;
};

WEFT_DECL stage_ptr new_filtered_stage(stage_ptr upstream, intrusive_ptr<const predicate> f) {
  return stage_ptr(new filtered_stage(std::move(upstream), std::move(f)));
}

}  // namespace weft::data::detail

WEFT_COLD_END
#endif
