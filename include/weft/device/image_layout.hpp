#pragma once

#include <weft/tensor/dims.hpp>

namespace weft {

/// How images of extents [batch, height, width, channels] lie in memory: in that order (NHWC), or as [batch, channels,
/// height, width] (NCHW). Their extents, and what a user sees of them, are the same.
enum class image_layout : unsigned char { channels_last, channels_first };

/// Whether values of these extents lie differently in the two, or may: dynamic extents are negative.
inline bool has_layout(const shape& declared) {
  return declared.rank == 4 && declared[3] != 1 && (declared[1] != 1 || declared[2] != 1);
}

/// The extents in the order in which the elements lie.
inline shape extents_in(image_layout layout, const shape& s) {
  return s.rank == 4 && layout == image_layout::channels_first ? shape(s[0], s[3], s[1], s[2]) : s;
}

}  // namespace weft
