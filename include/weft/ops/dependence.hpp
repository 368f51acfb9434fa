// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include <weft/config.hpp>
#include <weft/ops/symbol.hpp>

namespace weft {

/// A set of primitives, the elementary operations of which second gradients consist.
struct primitive_set {
  std::uint64_t words[2]{};

  constexpr primitive_set() = default;
  template <class... More>
  WEFT_HOST_DEVICE constexpr explicit primitive_set(primitive first, More... more) {
    const primitive all[] = {first, more...};
    for (const primitive p : all) words[static_cast<unsigned>(p) / 64] |= mask_of(p);
  }
  WEFT_HOST_DEVICE constexpr bool has(primitive p) const { return words[static_cast<unsigned>(p) / 64] & mask_of(p); }
  WEFT_HOST_DEVICE friend constexpr primitive_set operator|(primitive_set a, primitive_set b) {
    a.words[0] |= b.words[0];
    a.words[1] |= b.words[1];
    return a;
  }

 private:
  WEFT_HOST_DEVICE static constexpr std::uint64_t mask_of(primitive p) {
    return std::uint64_t{1} << (static_cast<unsigned>(p) % 64);
  }
};

/// A value of which only its inputs and its operations are known. Evaluating a formula on such values yields the
/// operands that its gradient reads, so that a step need not keep the others, and the kernels that a second gradient
/// uses, so that no others are compiled.
struct dependence {
  std::uint32_t mask = 0;  ///< the operands, one bit for each
  primitive_set by;
  dependence() = default;
  WEFT_HOST_DEVICE constexpr dependence(double) {}
  WEFT_HOST_DEVICE constexpr explicit dependence(std::uint32_t bits, primitive_set primitives)
      : mask(bits), by(primitives) {}
  /// Formulas with branches are rejected when they are evaluated on symbols.
  WEFT_HOST_DEVICE constexpr explicit operator bool() const { return true; }
};

namespace detail {
/// The result of a primitive.
WEFT_HOST_DEVICE constexpr dependence depend(primitive p, dependence a, dependence b = {}, dependence c = {}) {
  return dependence(a.mask | b.mask | c.mask, a.by | b.by | c.by | primitive_set(p));
}
}  // namespace detail

}  // namespace weft
