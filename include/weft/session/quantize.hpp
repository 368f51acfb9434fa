// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/cpu/math.hpp>

/// The integers of quantized weights, for frozen models and ONNX files.
WEFT_COLD_BEGIN
namespace weft::detail {

/// Quantizes one channel: calls `put(i, integer)` for each of `count` weights `at(i)`, and returns the scale by which
/// the integers, -127 to 127, are multiplied.
template <class At, class Put>
float quantize_channel(std::size_t count, const At& at, const Put& put) {
  float most = 0;
  for (std::size_t i = 0; i < count; ++i)
    if (const float x = math::abs(at(i)); x > most) most = x;
  const float scale = most >= 127 * __FLT_MIN__ ? most / 127 : 1;
  for (std::size_t i = 0; i < count; ++i) put(i, static_cast<std::int8_t>(__builtin_rintf(at(i) / scale)));
  return scale;
}

}  // namespace weft::detail
WEFT_COLD_END
