// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/device/cpu/loop.hpp>
#include <weft/frozen/map.hpp>

/// Reductions of frozen models.
namespace weft::frozen {

/// The bytes of memory that `reduce` needs.
inline std::size_t scratch_bytes(const device::loop& body, std::size_t results) {
  const auto whole_lines = [](std::size_t bytes) { return (bytes + 63) / 64 * 64; };
  return whole_lines(body.scratch_bytes()) + whole_lines(results * size_of(body.output_type(0)));
}

/// Combines the elements of the expression S, in the chunks of a session's kernel, and divides the result unless
/// `divisor` is 1. At most three operands, so that the loop allocates nothing.
template <class S, device::reduce_op How, std::size_t Inputs>
void reduce(const shape& space, const device::operand (&walks)[Inputs], const device::operand& result,
            const void* const (&in)[Inputs], void* out, std::int64_t results, double divisor, std::byte* scratch,
            const std::uint64_t* literals = nullptr) {
  using T = typename S::value_type;
  static_assert(Inputs <= 3);
  static constexpr device::block_function map[3] = WEFT_LOOP_VERSIONS(weft::detail::map_loop<S>);
  static constexpr device::block_function combine[3] = WEFT_LOOP_VERSIONS(weft::detail::reduce_loop<S, How>);
  constexpr skeleton::signature signature = weft::detail::signature_of<S>;
  const device::reduce_op how = How;
  const device::arithmetic* const arithmetic = &device::arithmetic_of<T>;
  const device::loop body(space, Inputs, walks, 1, &result, &how, &arithmetic,
                          signature.operations ? version(map) : nullptr, version(combine), signature.memory_bound);
  const auto count = static_cast<std::size_t>(results);
  const std::size_t chunks = body.chunks();
  const bool apart = chunks != 1 && body.chunks_share_output(0);
  void* const partial = scratch + (body.scratch_bytes() + 63) / 64 * 64;
  arithmetic->fill_identity(How, out, count);
  for (std::size_t c = 0; c < chunks; ++c) {
    void* const to = apart ? partial : out;
    if (apart) arithmetic->fill_identity(How, partial, count);
    body.run(in, &to, literals, c, chunks, scratch);
    if (apart) arithmetic->merge_tile(How, partial, out, 1, count, 0, 1);
  }
  if (divisor != 1) arithmetic->divide(divisor, out, out, count);
}

}  // namespace weft::frozen
