// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <weft/data/element_count.hpp>
#include <weft/data/further_stage.hpp>
#include <weft/data/new_stages.hpp>
#include <weft/error.hpp>
#include <weft/tensor/sequence.hpp>

#if WEFT_DEFINITIONS
namespace weft::data::detail {

// Not in the cold section, so that it is compiled for speed.
inline void look_up(const std::uint32_t* order, const std::size_t* indices, std::size_t count, std::size_t* found) {
  for (std::size_t i = 0; i < count; ++i) found[i] = order[indices[i]];
}

}  // namespace weft::data::detail

WEFT_COLD_BEGIN
namespace weft::data::detail {

/// A selection of another table's rows: a permutation, or every `step`-th row.
class selected_table final : public table {
 public:
  selected_table(intrusive_ptr<const table> rows, sequence<std::uint32_t> order)
      : table(rows->features()), rows_(std::move(rows)), order_(std::move(order)), size_(order_.size()) {}
  selected_table(intrusive_ptr<const table> rows, std::size_t first, std::size_t step, std::size_t size)
      : table(rows->features()), rows_(std::move(rows)), first_(first), step_(step), size_(size) {}

  std::size_t size() const override { return size_; }
  void read(std::size_t index, element& to) const override { rows_->read(at(index), to); }
  void gather(const std::size_t* indices, std::size_t count, element& batch) const override {
    sequence<std::size_t> chosen(count);
    if (step_ == 0)
      look_up(order_.data(), indices, count, chosen.data());
    else
      for (std::size_t i = 0; i < count; ++i) chosen[i] = at(indices[i]);
    rows_->gather(chosen.data(), count, batch);
  }

 private:
  std::size_t at(std::size_t index) const { return step_ == 0 ? order_[index] : first_ + index * step_; }

  intrusive_ptr<const table> rows_;
  sequence<std::uint32_t> order_;
  std::size_t first_ = 0, step_ = 0, size_;  ///< step_ 0: use `order_`
};

/// Every `step`-th element, beginning with the `first`; at most `most` elements.
class selected_stream final : public stream {
 public:
  selected_stream(intrusive_ptr<stream> elements, std::uint64_t first, std::uint64_t step, std::uint64_t most)
      : elements_(std::move(elements)), first_(first), step_(step), most_(most) {}

  bool next(element& to, const time_limit& within) override {
    if (delivered_ == most_) return false;
    if (!begun_) {
      elements_->skip(sum_of_counts(first_, product_of_counts(delivered_, step_)));
      begun_ = true;
    }
    for (; between_ > 0; --between_)
      if (!elements_->next(to, within)) return false;
    if (!elements_->next(to, within)) return false;
    between_ = step_ - 1;
    ++delivered_;
    return true;
  }
  void skip(std::uint64_t count) override { delivered_ = smaller(most_, sum_of_counts(delivered_, count)); }

 private:
  intrusive_ptr<stream> elements_;
  std::uint64_t first_, step_, most_, delivered_ = 0, between_ = 0;
  bool begun_ = false;
};

class selected_stage final : public further_stage {
 public:
  selected_stage(stage_ptr upstream, std::uint64_t first, std::uint64_t step, std::uint64_t most)
      : further_stage(std::move(upstream)), first_(first), step_(step), most_(most) {}

  optional_count size() const override {
    const auto whole = upstream().size();
    if (!whole) return {};
    return count(*whole);
  }
  intrusive_ptr<const table> rows(std::uint64_t epoch, stop_source* stop) const override {
    auto whole = upstream().rows(epoch, stop);
    const std::size_t size = as_size(count(whole->size()));
    return intrusive_ptr<const table>(new selected_table(std::move(whole), as_size(first_), as_size(step_), size));
  }
  intrusive_ptr<stream> open(std::uint64_t epoch, stop_source* stop) const override {
    if (has_rows()) return stage::open(epoch, stop);
    return intrusive_ptr<stream>(new selected_stream(upstream().open(epoch, stop), first_, step_, most_));
  }

 private:
  std::uint64_t count(std::uint64_t whole) const {
    return whole <= first_ ? 0 : smaller(most_, (whole - first_ - 1) / step_ + 1);
  }
  std::uint64_t first_, step_, most_;
};

WEFT_DECL stage_ptr new_selected_stage(stage_ptr upstream, std::uint64_t first, std::uint64_t step,
                                       std::uint64_t most) {
  return stage_ptr(new selected_stage(std::move(upstream), first, step, most));
}

WEFT_DECL std::size_t known_size(const stage& s) {
  const auto known = s.size();
  if (!known)
    throw error(error_code::failed_precondition, "size",
                "the number of elements is unknown until all are read: call cache() first");
  return *known;
}

WEFT_DECL stage_ptr new_shard(stage_ptr upstream, element_count index, element_count count) {
  if (index.value() < 0 || index.value() >= count.value())
    throw error(
        error_code::invalid_argument, "shard",
        {"the index must be from 0 to count - 1, but is ", index.value(), ", and the count is ", count.value()});
  return new_selected_stage(std::move(upstream), checked_count("shard", index, 0), checked_count("shard", count, 1),
                            all_elements);
}

WEFT_DECL std::size_t size_of_share(const stage& s, double share) {
  if (!(share >= 0 && share <= 1))
    throw error(error_code::invalid_argument, "split", "the share of the first part must be from 0 to 1");
  return static_cast<std::size_t>(static_cast<double>(known_size(s)) * share + 0.5);
}

}  // namespace weft::data::detail

WEFT_COLD_END
#endif
