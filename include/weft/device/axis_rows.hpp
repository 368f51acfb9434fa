// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include <weft/tensor/shape.hpp>

namespace weft {

/// A tensor as rows along one axis, or along adjacent axes treated as one. Element `k` of row (o, i) is at
/// `(o * extent + k) * inner + i`.
struct axis_rows {
  std::size_t outer = 1, extent = 1, inner = 1;

  axis_rows() = default;
  axis_rows(const shape& s, std::size_t axis) : axis_rows(s, axis, axis + 1) {}
  /// Rows along axes [begin, end).
  axis_rows(const shape& s, std::size_t begin, std::size_t end) {
    for (std::size_t i = 0; i < s.rank; ++i)
      (i < begin ? outer : i < end ? extent : inner) *= static_cast<std::size_t>(s[i]);
  }
  std::size_t rows() const { return outer * inner; }

  /// Adjacent rows that are processed together: (outer, first) ... (outer, first + width - 1).
  struct group {
    std::size_t outer, first, width;
  };
  static constexpr std::size_t width = 256;  ///< maximum width of a group
  std::size_t groups() const { return outer * groups_across(); }
  group group_at(std::size_t i) const {
    const std::size_t first = i % groups_across() * width;
    return {i / groups_across(), first, inner - first < width ? inner - first : width};
  }
  /// Returns the position of a group's first row. The next row starts at the next element; the elements of a row are
  /// `inner` apart.
  std::size_t start(const group& g) const { return g.outer * extent * inner + g.first; }

 private:
  std::size_t groups_across() const { return (inner + width - 1) / width; }
};

}  // namespace weft
