// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <weft/device/kernel.hpp>

namespace weft::device {

/// Work items, usually rows, in chunks of adjacent items for threads. The division depends on the work, not on the
/// number of threads.
struct chunks {
  std::size_t items = 0, count = 0;

  chunks() = default;
  /// Divides the items into chunks of about `per_chunk` elements.
  chunks(std::size_t n, std::size_t elements, std::size_t per_chunk = 16384)
      : items(n), count(elements / per_chunk + 1) {
    if (count > items) count = items;
  }

  /// Calls part(chunk, begin, end) for the items [begin, end) of each chunk.
  template <class Part>
  void run(const kernel_context& f, const Part& part) const {
    if (count == 0) return;
    if (count == 1) return part(std::size_t{0}, std::size_t{0}, items);
    f.threads->parallel_for(count, [&](std::size_t c) { part(c, items * c / count, items * (c + 1) / count); });
  }
};

}  // namespace weft::device
