// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <utility>

#include <weft/data/element_functions.hpp>
#include <weft/data/stage.hpp>

namespace weft::data::detail {

template <class Next, class Made>
class generated_stream final : public stream {
 public:
  generated_stream(Next next, stop_source* stop) : next_(std::move(next)), stop_(stop) {}

  bool next(element& to, const time_limit&) override {
    check_stop(stop_);
    if (over_) return false;
    auto made = next_();
    over_ = !made.has_value();
    if (over_) return false;
    Made::untyped(mapped<typename decltype(made)::value_type>::tuple(std::move(*made)), to);
    return true;
  }

 private:
  Next next_;
  stop_source* stop_;
  bool over_ = false;
};

template <class Make, class Next, class Made>
class generated_stage final : public stage {
 public:
  explicit generated_stage(Make make) : stage(Made::features()), make_(std::move(make)) {}
  intrusive_ptr<stream> open(std::uint64_t, stop_source* stop) const override {
    return intrusive_ptr<stream>(new generated_stream<Next, Made>(make_(), stop));
  }

 private:
  Make make_;
};

}  // namespace weft::data::detail
