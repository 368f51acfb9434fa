// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <weft/data/ahead.hpp>
#include <weft/data/further_stage.hpp>
#include <weft/data/new_stages.hpp>

#if WEFT_DEFINITIONS
WEFT_COLD_BEGIN
namespace weft::data::detail {

class mapped_table final : public table {
 public:
  mapped_table(const sequence<feature>& features, intrusive_ptr<const table> rows, const change& f, std::uint64_t epoch)
      : table(features), rows_(std::move(rows)), f_(f), epoch_(epoch) {}

  std::size_t size() const override { return rows_->size(); }
  void read(std::size_t index, element& to) const override {
    element from;
    rows_->read(index, from);
    f_({epoch_, index}, from, to);
  }

 private:
  intrusive_ptr<const table> rows_;
  const change& f_;
  std::uint64_t epoch_;
};

class mapped_stream final : public stream {
 public:
  mapped_stream(intrusive_ptr<stream> elements, const change& f, std::uint64_t epoch)
      : elements_(std::move(elements)), f_(f), at_{epoch, 0} {}

  bool next(element& to, const time_limit& within) override {
    if (!elements_->next(from_, within)) return false;
    f_({at_.epoch, at_.element++}, from_, to);
    return true;
  }
  void skip(std::uint64_t count) override {
    elements_->skip(count);
    at_.element += count;
  }

 private:
  intrusive_ptr<stream> elements_;
  const change& f_;
  position at_;
  element from_;
};

class mapped_stage final : public further_stage {
 public:
  mapped_stage(stage_ptr upstream, sequence<feature> features, intrusive_ptr<const change> f, int threads)
      : further_stage(std::move(upstream), std::move(features)),
        f_(std::move(f)),
        threads_(checked_threads("map", threads)) {}

  thread_use threads() const override {
    const thread_use before = upstream().threads();
    return threads_ > before.count ? thread_use{threads_, open_ahead} : before;
  }
  intrusive_ptr<const table> rows(std::uint64_t epoch, stop_source* stop) const override {
    return intrusive_ptr<const table>(new mapped_table(features(), upstream().rows(epoch, stop), *f_, epoch));
  }
  intrusive_ptr<stream> open(std::uint64_t epoch, stop_source* stop) const override {
    if (has_rows()) return stage::open(epoch, stop);
    if (threads_ == 1) return intrusive_ptr<stream>(new mapped_stream(upstream().open(epoch, stop), *f_, epoch));
    return intrusive_ptr<stream>(
        new ahead_stream(upstream(), epoch, stop, threads_, 2 * static_cast<std::size_t>(threads_), f_.get()));
  }

 private:
  intrusive_ptr<const change> f_;
  int threads_;
};

WEFT_DECL stage_ptr new_mapped_stage(stage_ptr upstream, sequence<feature> features, intrusive_ptr<const change> f,
                                     int threads) {
  return stage_ptr(new mapped_stage(std::move(upstream), std::move(features), std::move(f), threads));
}

}  // namespace weft::data::detail

WEFT_COLD_END
#endif
