// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/tensor/storage.hpp>

WEFT_COLD_BEGIN
namespace weft::plan {

/// Assigns offsets in one block of memory: buffers that are never alive at the same time can share memory. Callers
/// allocate and release buffers in the order in which a step will.
class memory_plan {
 public:
  /// Best fit: returns the smallest sufficient gap, otherwise extends the block. Rounds sizes up to whole cache lines.
  std::size_t allocate(std::size_t bytes) {
    bytes = round(bytes);
    std::size_t best = gaps_.size();
    for (std::size_t i = 0; i < gaps_.size(); ++i)
      if (gaps_[i].bytes >= bytes && (best == gaps_.size() || gaps_[i].bytes < gaps_[best].bytes)) best = i;
    if (best == gaps_.size()) {
      // Grows a gap at the very end instead of skipping it.
      if (!gaps_.empty() && gaps_.back().offset + gaps_.back().bytes == total_) {
        const std::size_t at = gaps_.back().offset;
        gaps_.pop_back();
        total_ = at + bytes;
        return at;
      }
      const std::size_t at = total_;
      total_ += bytes;
      return at;
    }
    const std::size_t at = gaps_[best].offset;
    gaps_[best].offset += bytes;
    gaps_[best].bytes -= bytes;
    if (gaps_[best].bytes == 0) gaps_.erase(best);
    return at;
  }

  void release(std::size_t offset, std::size_t bytes) {
    bytes = round(bytes);
    if (bytes == 0) return;
    std::size_t i = 0;
    while (i < gaps_.size() && gaps_[i].offset < offset) ++i;
    gaps_.insert(i, {offset, bytes});
    if (i + 1 < gaps_.size() && offset + bytes == gaps_[i + 1].offset) {
      gaps_[i].bytes += gaps_[i + 1].bytes;
      gaps_.erase(i + 1);
    }
    if (i > 0 && gaps_[i - 1].offset + gaps_[i - 1].bytes == offset) {
      gaps_[i - 1].bytes += gaps_[i].bytes;
      gaps_.erase(i);
    }
  }

  /// The size of the block in bytes.
  std::size_t total() const { return total_; }

 private:
  struct gap {
    std::size_t offset, bytes;
  };
  static std::size_t round(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

  sequence<gap> gaps_;  // sorted by offset
  std::size_t total_ = 0;
};

}  // namespace weft::plan

WEFT_COLD_END
