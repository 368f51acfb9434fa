#pragma once

#include <cstddef>

#include <weft/tensor/dims.hpp>

namespace weft {

/// A tensor as rows along one axis: element `k` of row (o, i) lies at `(o * extent + k) * inner + i`.
struct axis_rows {
  std::size_t outer = 1, extent = 1, inner = 1;

  axis_rows() = default;
  axis_rows(const shape& s, std::size_t axis) {
    for (std::size_t i = 0; i < s.rank; ++i)
      (i < axis ? outer : i == axis ? extent : inner) *= static_cast<std::size_t>(s[i]);
  }
  std::size_t rows() const { return outer * inner; }
};

}  // namespace weft
