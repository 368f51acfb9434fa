// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/config.hpp>

namespace weft::detail {

/// The values are part of the parameter-server protocol: do not renumber them.
enum class clip_kind : unsigned char { none, by_value, by_norm, by_global_norm };

/// A gradient's clipping method and bounds (train/clipping.hpp).
struct gradient_clip {
  clip_kind kind = clip_kind::none;
  double lowest = 0;   // by_value
  double highest = 0;  // by_value; otherwise the norm

  friend bool operator==(const gradient_clip& a, const gradient_clip& b) {
    return a.kind == b.kind && a.lowest == b.lowest && a.highest == b.highest;
  }
};

}  // namespace weft::detail
