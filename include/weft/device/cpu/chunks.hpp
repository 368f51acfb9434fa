#pragma once

#include <cstddef>

#include <weft/device/kernel.hpp>

namespace weft::device {

/// Items of work, rows for the most part, in chunks of neighbours that threads take. How they are cut depends on the
/// work alone, not on the threads.
struct chunks {
  std::size_t items = 0, count = 0;

  chunks() = default;
  /// Cut so that a chunk has about `per_chunk` elements.
  chunks(std::size_t n, std::size_t elements, std::size_t per_chunk = 16384)
      : items(n), count(elements / per_chunk + 1) {
    if (count > items) count = items;
  }

  /// part(chunk, begin, end): items [begin, end) are that chunk's.
  template <class Part>
  void run(const kernel_context& f, const Part& part) const {
    if (count == 0) return;
    if (count == 1) return part(std::size_t{0}, std::size_t{0}, items);
    f.threads->parallel_for(count, [&](std::size_t c) { part(c, items * c / count, items * (c + 1) / count); });
  }
};

}  // namespace weft::device
