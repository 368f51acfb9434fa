// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <weft/data/new_stages.hpp>
#include <weft/tensor/sequence.hpp>

#if WEFT_DEFINITIONS
WEFT_COLD_BEGIN
namespace weft::data::detail {

class zipped_table final : public table {
 public:
  zipped_table(const sequence<feature>& features, intrusive_ptr<const table> a, intrusive_ptr<const table> b)
      : table(features), a_(std::move(a)), b_(std::move(b)) {}

  std::size_t size() const override { return smaller(a_->size(), b_->size()); }
  void read(std::size_t index, element& to) const override {
    both(to, [&](const table& t, element& part) { t.read(index, part); });
  }
  void gather(const std::size_t* indices, std::size_t count, element& batch) const override {
    both(batch, [&](const table& t, element& part) { t.gather(indices, count, part); });
  }

 private:
  template <class F>
  void both(element& to, F f) const {
    const std::size_t first = a_->features().size();
    to.resize(features().size());
    element a, b;
    for (std::size_t i = 0; i < to.size(); ++i) (i < first ? a : b).push_back(std::move(to[i]));
    f(*a_, a);
    f(*b_, b);
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = std::move(i < first ? a[i] : b[i - first]);
  }
  intrusive_ptr<const table> a_, b_;
};

class zipped_stream final : public stream {
 public:
  zipped_stream(intrusive_ptr<stream> a, intrusive_ptr<stream> b) : a_(std::move(a)), b_(std::move(b)) {}

  bool next(element& to, const time_limit& within) override {
    if (!has_first_) has_first_ = a_->next(first_, within);
    if (!has_first_ || !b_->next(second_, within)) return false;
    has_first_ = false;
    to.clear();
    for (element* part : {&first_, &second_})
      for (value& v : *part) to.push_back(std::move(v));
    first_.clear();
    second_.clear();
    return true;
  }
  void skip(std::uint64_t count) override {
    a_->skip(count);
    b_->skip(count);
  }

 private:
  intrusive_ptr<stream> a_, b_;
  element first_, second_;
  bool has_first_ = false;
};

class zipped_stage final : public stage {
 public:
  zipped_stage(stage_ptr a, stage_ptr b) : stage(joined(*a, *b)), a_(std::move(a)), b_(std::move(b)) {}

  optional_count size() const override {
    const auto a = a_->size(), b = b_->size();
    if (!a || !b) return {};
    return smaller(*a, *b);
  }
  bool has_rows() const override { return a_->has_rows() && b_->has_rows(); }
  thread_use threads() const override {
    const thread_use a = a_->threads(), b = b_->threads();
    return a.count < b.count ? b : a;
  }
  intrusive_ptr<const table> rows(std::uint64_t epoch, stop_source* stop) const override {
    return intrusive_ptr<const table>(new zipped_table(features(), a_->rows(epoch, stop), b_->rows(epoch, stop)));
  }
  intrusive_ptr<stream> open(std::uint64_t epoch, stop_source* stop) const override {
    if (has_rows()) return stage::open(epoch, stop);
    return intrusive_ptr<stream>(new zipped_stream(a_->open(epoch, stop), b_->open(epoch, stop)));
  }

 private:
  static sequence<feature> joined(const stage& a, const stage& b) {
    sequence<feature> all = a.features();
    all.append(b.features().data(), b.features().size());
    return all;
  }
  stage_ptr a_, b_;
};

WEFT_DECL stage_ptr new_zipped_stage(stage_ptr a, stage_ptr b) {
  return stage_ptr(new zipped_stage(std::move(a), std::move(b)));
}

}  // namespace weft::data::detail

WEFT_COLD_END
#endif
