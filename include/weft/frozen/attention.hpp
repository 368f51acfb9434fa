// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/cpu/attention_tile.hpp>

/// Attention of frozen models.
namespace weft::frozen {

/// The elements of memory that an attention needs.
template <class T>
constexpr std::size_t attention_elements(const device::attention_problem& s) {
  using tile = weft::detail::attention_tile<T>;
  const auto width = static_cast<std::size_t>(s.width), values = static_cast<std::size_t>(s.value_width);
  const std::size_t scores = weft::detail::matmul_packed_elements<T>(tile::most_keys * tile::most_queries, width),
                    sums = weft::detail::matmul_packed_elements<T>(values, tile::most_keys * tile::most_queries);
  return tile::elements(width) + (scores > sums ? scores : sums);
}

/// Computes an attention. Operands that are not given are null; `logs` can be null. Lengths are clipped to the number
/// of keys.
template <class T>
void attention(const device::attention_problem& s, const T* queries, const T* keys, const T* values, const T* bias,
               const bool* mask, const std::int32_t* lengths, const std::int32_t* positions, T* result, T* logs,
               T* scratch) {
  const weft::detail::attention_call<T> call{s, queries, keys, values, bias, mask, lengths, positions, result, logs};
  T* const packed = scratch + weft::detail::attention_tile<T>::elements(static_cast<std::size_t>(s.width));
  for (std::size_t i = 0; i < call.blocks(); ++i) call.run(i, scratch, packed);
}

}  // namespace weft::frozen
