// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include <weft/ops/arrays/range.hpp>
#include <weft/ops/elementwise/functions.hpp>
#include <weft/ops/lowering.hpp>

/// Steps and padding of sequences, over symbols.
WEFT_COLD_BEGIN
namespace weft::detail {

/// Returns the indices 0 to count - 1, of int32, in the graph of a symbol.
inline symbol record_steps(const symbol& like, std::int64_t count) {
  gpu::compile_kernels<range_op, std::int32_t>();
  return record_range<std::int32_t>(*like.builder(), {dtype::int32, shape(count)}, 0, 1);
}

/// Replaces padding with 0. Multiplying by 0 would keep a NaN. `valid`, of bool, broadcasts to x.
template <class T>
symbol without_padding(const symbol& valid, const symbol& x) {
  return record_untyped(weft::select(node<bool>(valid), node<T>(x), T(0)), x.extents());
}

}  // namespace weft::detail
WEFT_COLD_END
