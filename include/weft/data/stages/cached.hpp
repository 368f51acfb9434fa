// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <weft/data/further_stage.hpp>
#include <weft/data/mutex.hpp>
#include <weft/data/new_stages.hpp>
#include <weft/error.hpp>
#include <weft/tensor/sequence.hpp>

#if WEFT_DEFINITIONS
WEFT_COLD_BEGIN
namespace weft::data::detail {

/// Collects elements into columns.
class collector {
 public:
  explicit collector(const sequence<feature>& features) : features_(features), parts_(features.size()) {}

  void add(element& one) {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      part& p = parts_[i];
      if (features_[i].is_text()) {
        p.texts.push_back(std::move(one[i].texts[0]));
        continue;
      }
      const shape& extents = one[i].extents;
      if (count_ == 0) p.extents = extents;
      if (p.shapes.empty() && extents != p.extents) {
        const std::size_t bytes = p.extents.elements() * features_[i].entry_bytes;
        for (std::size_t k = 0; k < count_; ++k) {
          p.shapes.push_back(p.extents);
          p.begin.push_back(k * bytes);
        }
      }
      if (!p.shapes.empty() || extents != p.extents) {
        p.shapes.push_back(extents);
        p.begin.push_back(p.bytes.size());
      }
      const std::byte* const from = one[i].bytes.data();
      p.bytes.append(from, extents.elements() * features_[i].entry_bytes);
    }
    ++count_;
  }
  /// Adds stacked rows of equal extents.
  void add_batch(element& batch, std::size_t count) {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      part& p = parts_[i];
      for (std::string& text : batch[i].texts) p.texts.push_back(std::move(text));
      if (features_[i].is_text()) continue;
      shape row;
      for (std::size_t axis = 1; axis < batch[i].extents.rank; ++axis) row.push_back(batch[i].extents[axis]);
      p.extents = row;
      const std::byte* const from = batch[i].bytes.data();
      p.bytes.append(from, count * row.elements() * features_[i].entry_bytes);
    }
    count_ += count;
  }

  intrusive_ptr<const table> finish() {
    sequence<column> columns(parts_.size());
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      column& c = columns[i];
      part& p = parts_[i];
      if (features_[i].is_text()) {
        const auto* const texts = new owner_of(std::move(p.texts));
        c.owner = intrusive_ptr<const ref_counted>(texts);
        c.texts = texts->value.data();
        continue;
      }
      c.extents = p.extents;
      c.row_bytes = p.extents.elements() * features_[i].entry_bytes;
      c.shapes = std::move(p.shapes);
      c.begin = std::move(p.begin);
      const auto* const bytes = new owner_of(std::move(p.bytes));
      c.owner = intrusive_ptr<const ref_counted>(bytes);
      c.data = bytes->value.data();
    }
    return intrusive_ptr<const table>(new memory_table(features_, std::move(columns), count_));
  }

 private:
  struct part {
    sequence<std::byte> bytes;
    sequence<std::string> texts;
    shape extents;
    sequence<shape> shapes;
    sequence<std::uint64_t> begin;
  };
  const sequence<feature>& features_;
  sequence<part> parts_;
  std::size_t count_ = 0;
};

/// Reads the elements of the first epoch when they are first requested, and keeps them.
class cached_stage final : public further_stage {
 public:
  explicit cached_stage(stage_ptr upstream) : further_stage(std::move(upstream)) {
    for (const feature& f : features())
      if (f.is_text() && f.spec.rank > 0)
        throw error(error_code::unimplemented, "cache",
                    "batches of strings cannot be cached: call cache() before batches");
  }

  optional_count size() const override {
    if (const auto known = upstream().size()) return known;
    return rows(0, nullptr)->size();
  }
  bool has_rows() const override { return true; }
  thread_use threads() const override { return {}; }
  intrusive_ptr<const table> rows(std::uint64_t, stop_source* stop) const override {
    const unique_lock lock(mutex_);
    if (rows_) return rows_;
    collector all(features());
    const auto elements = upstream().open(0, stop);
    constexpr std::size_t block = 1024;
    for (element e;;) {
      check_stop(stop);
      const auto count = elements->next_batch(block, e);
      if (count && *count == 0) break;
      if (count) {
        all.add_batch(e, as_size(*count));
        continue;
      }
      if (!elements->next(e, time_limit::never())) break;
      all.add(e);
    }
    return rows_ = all.finish();
  }

 private:
  mutable mutex mutex_;
  mutable intrusive_ptr<const table> rows_;
};

WEFT_DECL stage_ptr new_cached_stage(stage_ptr upstream) { return stage_ptr(new cached_stage(std::move(upstream))); }

}  // namespace weft::data::detail

WEFT_COLD_END
#endif
