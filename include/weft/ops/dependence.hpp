#pragma once

#include <cstdint>

#include <weft/tensor/host_device.hpp>

namespace weft {

/// A value of which only is known what it was computed from, one bit each. A formula that is run on these says which
/// operands its gradient reads, so that the others need not be kept.
struct dependence {
  std::uint32_t mask = 0;
  dependence() = default;
  WEFT_HOST_DEVICE constexpr dependence(double) {}
  WEFT_HOST_DEVICE constexpr explicit dependence(std::uint32_t bits, int) : mask(bits) {}
  /// A formula that branches is refused for symbols.
  WEFT_HOST_DEVICE constexpr explicit operator bool() const { return true; }
};

namespace detail {
WEFT_HOST_DEVICE constexpr dependence join(dependence a, dependence b) { return dependence(a.mask | b.mask, 0); }
}  // namespace detail

WEFT_HOST_DEVICE constexpr dependence operator+(dependence a, dependence b) { return detail::join(a, b); }
WEFT_HOST_DEVICE constexpr dependence operator-(dependence a, dependence b) { return detail::join(a, b); }
WEFT_HOST_DEVICE constexpr dependence operator*(dependence a, dependence b) { return detail::join(a, b); }
WEFT_HOST_DEVICE constexpr dependence operator/(dependence a, dependence b) { return detail::join(a, b); }
WEFT_HOST_DEVICE constexpr dependence operator<(dependence a, dependence b) { return detail::join(a, b); }
WEFT_HOST_DEVICE constexpr dependence operator<=(dependence a, dependence b) { return detail::join(a, b); }
WEFT_HOST_DEVICE constexpr dependence operator>(dependence a, dependence b) { return detail::join(a, b); }
WEFT_HOST_DEVICE constexpr dependence operator>=(dependence a, dependence b) { return detail::join(a, b); }
WEFT_HOST_DEVICE constexpr dependence operator==(dependence a, dependence b) { return detail::join(a, b); }
WEFT_HOST_DEVICE constexpr dependence operator!=(dependence a, dependence b) { return detail::join(a, b); }
WEFT_HOST_DEVICE constexpr dependence operator-(dependence a) { return a; }
WEFT_HOST_DEVICE constexpr dependence operator!(dependence a) { return a; }

}  // namespace weft
