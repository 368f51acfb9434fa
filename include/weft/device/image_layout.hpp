// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/tensor/dims.hpp>

namespace weft {

/// The memory layout of images of extents [batch, height, width, channels]: in that order (NHWC), or as [batch,
/// channels, height, width] (NCHW). Their extents, and all that a user sees, are the same.
enum class image_layout : unsigned char { channels_last, channels_first };

/// Returns true if the layouts of values of these extents differ or may differ; dynamic extents are negative.
inline bool has_layout(const shape& declared) {
  return declared.rank == 4 && declared[3] != 1 && (declared[1] != 1 || declared[2] != 1);
}

/// Returns the extents in memory order.
inline shape extents_in(image_layout layout, const shape& s) {
  return s.rank == 4 && layout == image_layout::channels_first ? shape(s[0], s[3], s[1], s[2]) : s;
}

}  // namespace weft
