// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
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

/// Returns true for the steps before the length of their sequence, of bool with the extents `all`, which have sequences
/// and steps along two axes and are 1 along the others.
inline symbol record_valid_steps(const symbol& lengths, const shape& all, std::size_t sequences, std::size_t steps) {
  shape of_steps = all, of_lengths = all;
  of_steps[sequences] = of_lengths[steps] = 1;
  const node<std::int32_t> step(reshape(record_steps(lengths, all[steps]), of_steps)),
      end(reshape(lengths, of_lengths));
  return record_untyped(step < end, all);
}

/// Replaces padding with 0. Multiplying by 0 would keep a NaN. `valid`, of bool, broadcasts to x.
template <class T>
symbol without_padding(const symbol& valid, const symbol& x) {
  return record_untyped(weft::select(node<bool>(valid), node<T>(x), T(0)), x.extents());
}

}  // namespace weft::detail
WEFT_COLD_END
