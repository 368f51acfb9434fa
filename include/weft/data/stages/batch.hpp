// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include <weft/data/further_stage.hpp>
#include <weft/data/new_stages.hpp>
#include <weft/tensor/sequence.hpp>

#if WEFT_DEFINITIONS
WEFT_COLD_BEGIN
namespace weft::data::detail {

inline void copy_box(const std::byte* from, const shape& extents, std::byte* to, const shape& room, std::size_t axis,
                     std::size_t entry) {
  if (extents.elements() == 0) return;
  std::size_t step = entry, room_step = entry;
  for (std::size_t i = axis + 1; i < extents.rank; ++i) {
    step *= static_cast<std::size_t>(extents[i]);
    room_step *= static_cast<std::size_t>(room[i]);
  }
  if (step == room_step) {
    std::memcpy(to, from, axis < extents.rank ? step * static_cast<std::size_t>(extents[axis]) : entry);
    return;
  }
  for (std::size_t k = 0; k < static_cast<std::size_t>(extents[axis]); ++k)
    copy_box(from + k * step, extents, to + k * room_step, room, axis + 1, entry);
}

WEFT_DECL void pad_batch(const batching& how, const sequence<feature>& features, sequence<element>& elements,
                         std::size_t count, element& batch) {
  batch.resize(features.size());
  for (std::size_t i = 0; i < features.size(); ++i) {
    if (features[i].is_text()) {
      batch[i].extents = shape(count);
      batch[i].texts.resize(count);
      for (std::size_t k = 0; k < count; ++k) batch[i].texts[k] = std::move(elements[k][i].texts[0]);
      continue;
    }
    shape most = elements[0][i].extents;
    for (std::size_t k = 1; k < count; ++k)
      for (std::size_t axis = 0; axis < most.rank; ++axis)
        if (most[axis] < elements[k][i].extents[axis]) most[axis] = elements[k][i].extents[axis];
    const std::size_t entry = features[i].entry_bytes;
    std::byte* const to = batch[i].reserve(stacked(count, most), entry);
    const std::size_t whole = most.elements();
    if (i >= how.padding.size())
      std::memset(to, 0, count * whole * entry);
    else
      for (std::size_t at = 0; at < count * whole; ++at) std::memcpy(to + at * entry, how.padding[i].bytes, entry);
    for (std::size_t k = 0; k < count; ++k)
      copy_box(elements[k][i].bytes.data(), elements[k][i].extents, to + k * whole * entry, most, 0, entry);
  }
}

class batch_table final : public table {
 public:
  batch_table(const sequence<feature>& features, intrusive_ptr<const table> rows, const batching& how, std::size_t size)
      : table(features), rows_(std::move(rows)), how_(how), size_(size) {}

  std::size_t size() const override { return size_; }
  void read(std::size_t index, element& to) const override {
    const std::size_t first = index * how_.size, count = smaller(how_.size, rows_->size() - first);
    if (how_.pad) {
      sequence<element> elements(count);
      for (std::size_t i = 0; i < count; ++i) rows_->read(first + i, elements[i]);
      how_.pad(how_, rows_->features(), elements, count, to);
      return;
    }
    sequence<std::size_t> indices(count);
    for (std::size_t i = 0; i < count; ++i) indices[i] = first + i;
    rows_->gather(indices.data(), count, to);
  }

 private:
  intrusive_ptr<const table> rows_;
  const batching& how_;
  std::size_t size_;
};

class batch_stream final : public stream {
 public:
  batch_stream(const sequence<feature>& features, intrusive_ptr<stream> elements, const batching& how)
      : features_(features), elements_(std::move(elements)), how_(how) {}

  bool next(element& to, const time_limit& within) override {
    if (count_ == 0 && !how_.pad) {
      if (const auto count = elements_->next_batch(how_.size, to))
        return *count == how_.size || (*count > 0 && !how_.drop_remainder);
      batch_.swap(to);
    }
    // If the deadline passes, the elements collected so far are kept.
    while (!over_ && count_ < how_.size) {
      if (how_.pad && collected_.size() <= count_) collected_.push_back({});
      element& one = how_.pad ? collected_[count_] : one_;
      if (!elements_->next(one, within)) {
        over_ = true;
        break;
      }
      if (!how_.pad) stacked_.add(features_, one, how_.size, batch_);
      ++count_;
    }
    if (count_ == 0 || (count_ < how_.size && how_.drop_remainder)) return false;
    if (how_.pad) {
      how_.pad(how_, features_, collected_, count_, to);
    } else {
      stacked_.finish(features_, batch_);
      batch_.swap(to);
    }
    count_ = 0;
    return true;
  }
  void skip(std::uint64_t count) override {
    if (count > 0) elements_->skip(product_of_counts(count, how_.size));
  }

 private:
  const sequence<feature>& features_;  // of an element
  intrusive_ptr<stream> elements_;
  const batching& how_;
  std::size_t count_ = 0;
  stacker stacked_;
  sequence<element> collected_;
  element one_, batch_;
  bool over_ = false;
};

class batch_stage final : public further_stage {
 public:
  batch_stage(stage_ptr upstream, sequence<feature> features, batching how)
      : further_stage(std::move(upstream), std::move(features)), how_(std::move(how)) {}

  optional_count size() const override {
    const auto elements = upstream().size();
    if (!elements) return {};
    return count(*elements);
  }
  intrusive_ptr<const table> rows(std::uint64_t epoch, stop_source* stop) const override {
    auto elements = upstream().rows(epoch, stop);
    const std::size_t size = as_size(count(elements->size()));
    return intrusive_ptr<const table>(new batch_table(features(), std::move(elements), how_, size));
  }
  intrusive_ptr<stream> open(std::uint64_t epoch, stop_source* stop) const override {
    if (has_rows()) return stage::open(epoch, stop);
    return intrusive_ptr<stream>(new batch_stream(upstream().features(), upstream().open(epoch, stop), how_));
  }

 private:
  std::uint64_t count(std::uint64_t elements) const {
    return elements / how_.size + (!how_.drop_remainder && elements % how_.size != 0 ? 1 : 0);
  }
  batching how_;
};

WEFT_DECL stage_ptr new_batch_stage(stage_ptr upstream, sequence<feature> features, batching how) {
  return stage_ptr(new batch_stage(std::move(upstream), std::move(features), std::move(how)));
}

}  // namespace weft::data::detail

WEFT_COLD_END
#endif
