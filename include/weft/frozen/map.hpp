// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <weft/device/cpu/tile.hpp>
#include <weft/ops/elementwise/formulas.hpp>
#include <weft/ops/fused_loops.hpp>

/// Elementwise expressions of frozen models.
namespace weft::frozen {

/// Returns the version of a loop for this processor.
template <class Function>
Function version(const Function (&versions)[3]) {
  return versions[static_cast<std::size_t>(detected_isa())];
}

/// The quotient of integers, rounded towards 0, and 0 if the divisor is 0: a frozen model cannot throw.
struct quotient {
  static constexpr const char* name = "divide";
  static constexpr bool cheap = true;
  template <class V>
  static constexpr V apply(V a, V b) {
    if (b == V(0)) return V(0);
    if (V(-1) < V(0) && b == V(-1)) return static_cast<V>(std::uint64_t{0} - static_cast<std::uint64_t>(a));
    return static_cast<V>(a / b);
  }
};

/// Computes n elements of the expression S, whose operands are contiguous. `literals`: the numbers in it, as bits.
template <class S, std::size_t Inputs>
void map(const void* const (&in)[Inputs], void* out, std::int64_t n, const std::uint64_t* literals = nullptr) {
  static constexpr weft::detail::loop_arguments* versions[3] = WEFT_LOOP_VERSIONS(weft::detail::map_loop<S>);
  version(versions)(in, &out, static_cast<std::size_t>(n), literals);
}

/// The same for a number of elements that is known, so that the code has no other ends of its loop.
template <class S, std::size_t Count, std::size_t Inputs>
void map(const void* const (&in)[Inputs], void* out, const std::uint64_t* literals = nullptr) {
  static constexpr weft::detail::loop_arguments* versions[3] = WEFT_LOOP_VERSIONS(weft::detail::map_loop<S, Count>);
  version(versions)(in, &out, Count, literals);
}

/// An operand of rows and columns: its address, the size of an element, and the distances between rows and between
/// columns, in elements. The latter is 0 or 1.
struct operand_rows {
  const void* data;
  std::size_t size;
  std::int64_t row_stride, column_stride;
};

/// Computes rows x columns elements of an expression. Operands that are not contiguous are copied tile by tile. The
/// result's rows are `out_stride` elements of `out_size` bytes apart.
template <class S, std::size_t Inputs>
void map_rows(const operand_rows (&operands)[Inputs], void* result, std::size_t out_size, std::int64_t out_stride,
              std::int64_t rows, std::int64_t columns, const std::uint64_t* literals = nullptr) {
  constexpr std::int64_t tile = 512;  // elements, at most 4 KiB
  alignas(64) std::byte staging[Inputs][tile * 8 + device::detail::slack];
  const void* in[Inputs];
  bool staged[Inputs]{};
  std::int64_t high = columns < tile && out_stride == columns ? tile / (columns ? columns : 1) : 1;
  if (high > rows) high = rows;
  const std::int64_t wide = columns < tile ? columns : tile;
  auto* const to = static_cast<std::byte*>(result);
  for (std::int64_t c = 0; c < columns; c += wide) {
    const std::int64_t across = columns - c < wide ? columns - c : wide;
    for (bool& s : staged) s = false;
    for (std::int64_t r = 0; r < rows; r += high) {
      const std::int64_t down = rows - r < high ? rows - r : high;
      for (std::size_t k = 0; k < Inputs; ++k) {
        const operand_rows& o = operands[k];
        const auto size = static_cast<std::int64_t>(o.size);
        const std::byte* const from =
            static_cast<const std::byte*>(o.data) + (r * o.row_stride + c * o.column_stride) * size;
        if (o.column_stride == 1 && (down == 1 || (o.row_stride == columns && across == columns))) {
          in[k] = from;
          continue;
        }
        in[k] = staging[k];
        if (staged[k]) continue;  // the same rows as in the previous, larger tile
        device::detail::fill_tile(o.size, staging[k], from, static_cast<std::size_t>(down),
                                  static_cast<std::size_t>(across), o.row_stride, o.column_stride);
        staged[k] = o.row_stride == 0;
      }
      map<S>(in, to + (r * out_stride + c) * static_cast<std::int64_t>(out_size), down * across, literals);
    }
  }
}

/// Writes n copies of an element of `size` bytes.
inline void fill(void* to, std::uint64_t bits, std::size_t size, std::int64_t n) {
  device::detail::splat(size, to, &bits, static_cast<std::size_t>(n));
}

/// Writes the first n numbers of an arithmetic sequence, as device::range_element does.
template <class T>
void range(T start, T delta, T* to, std::int64_t n) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i)
    if constexpr (std::is_integral_v<T>)
      to[i] = static_cast<T>(static_cast<unsigned long long>(start) + static_cast<unsigned long long>(delta) * i);
    else
      to[i] = start + static_cast<T>(i) * delta;
}

}  // namespace weft::frozen
