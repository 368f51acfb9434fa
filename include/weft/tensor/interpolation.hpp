// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/config.hpp>

namespace weft {

/// How a value between pixels is computed.
enum class interpolation : unsigned char {
  nearest,   ///< of the nearest pixel, and of the one with the even number if two are nearest
  bilinear,  ///< between the two nearest pixels along each axis
  bicubic,   ///< between the four nearest pixels along each axis, by cubic convolution
};

}  // namespace weft
