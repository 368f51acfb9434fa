// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/argmax.hpp>
#include <weft/device/cpu/layer_normalization.hpp>
#include <weft/device/cpu/softmax.hpp>

/// Operations of frozen models on rows: softmax, normalization, argmax and gather.
namespace weft::frozen {

/// Computes y = softmax(x) for each row.
template <class T>
void softmax(const T* x, T* y, std::int64_t rows, std::int64_t columns) {
  device::softmax_rows(x, y, static_cast<std::size_t>(rows), static_cast<std::size_t>(columns));
}
/// Computes y = log(softmax(x)) for each row. `scratch`: memory for one row.
template <class T>
void log_softmax(const T* x, T* y, std::int64_t rows, std::int64_t columns, T* scratch) {
  device::log_softmax_rows(x, y, scratch, static_cast<std::size_t>(rows), static_cast<std::size_t>(columns));
}

/// Normalizes rows by their moments, which are written to `reciprocals` and, if centred, `means`.
template <class T, bool Centred>
void normalize(const T* x, const T* scale, const T* offset, T* y, T* reciprocals, T* means, std::int64_t rows,
               std::int64_t columns, double epsilon) {
  multiversioned(device::normalize_rows<T, Centred>{static_cast<std::size_t>(rows), static_cast<std::size_t>(columns),
                                                    epsilon, x, scale, offset, y, reciprocals, means});
}

/// The index of the largest element along an axis, with `inner` elements after it.
template <class T>
void argmax(const T* x, std::int32_t* to, std::int64_t outer, std::int64_t extent, std::int64_t inner) {
  device::argmax_rows(x, to, static_cast<std::size_t>(outer), static_cast<std::size_t>(extent),
                      static_cast<std::size_t>(inner));
}

/// Copies the row of each index along an axis. An index that is out of range yields zeros.
template <class Index>
void gather(const std::byte* x, const Index* indices, std::byte* y, std::int64_t outer, std::int64_t extent,
            std::int64_t row_bytes, std::int64_t count) {
  for (std::int64_t o = 0; o < outer; ++o, x += extent * row_bytes)
    for (std::int64_t k = 0; k < count; ++k, y += row_bytes)
      if (const auto i = static_cast<std::int64_t>(indices[k]); i >= 0 && i < extent)
        __builtin_memcpy(y, x + i * row_bytes, static_cast<std::size_t>(row_bytes));
      else
        __builtin_memset(y, 0, static_cast<std::size_t>(row_bytes));
}

}  // namespace weft::frozen
