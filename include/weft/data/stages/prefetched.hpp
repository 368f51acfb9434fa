// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <weft/data/ahead.hpp>
#include <weft/data/further_stage.hpp>
#include <weft/data/new_stages.hpp>
#include <weft/error.hpp>

#if WEFT_DEFINITIONS
WEFT_COLD_BEGIN
namespace weft::data::detail {

/// Produces elements ahead of time on one thread, or on the threads of the preceding map.
class prefetched_stage final : public further_stage {
 public:
  prefetched_stage(stage_ptr upstream, std::uint64_t count)
      : further_stage(std::move(upstream)),
        count_(count != all_elements ? as_size(count)
                                     : 2 * static_cast<std::size_t>(this->upstream().threads().count)) {
    constexpr std::size_t most = std::size_t{1} << 20;
    if (count_ == 0 || count_ > most)
      throw error(error_code::invalid_argument, "prefetch",
                  {"the count must be 1 to ", most, ", or -1 for automatic, but is ", count_});
  }

  bool has_rows() const override { return false; }
  thread_use threads() const override { return {}; }
  intrusive_ptr<stream> open(std::uint64_t epoch, stop_source* stop) const override {
    if (!upstream().has_rows())
      return intrusive_ptr<stream>(new ahead_stream(upstream(), epoch, stop, 1, count_, nullptr));
    const int threads = upstream().threads().count;
    const auto least = static_cast<std::size_t>(threads);
    return intrusive_ptr<stream>(new ahead_stream(upstream(), epoch, stop, threads, count_ < least ? least : count_));
  }

 private:
  std::size_t count_;
};

WEFT_DECL stage_ptr new_prefetched_stage(stage_ptr upstream, std::uint64_t count) {
  return stage_ptr(new prefetched_stage(std::move(upstream), count));
}

}  // namespace weft::data::detail

WEFT_COLD_END
#endif
