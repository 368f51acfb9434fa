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

namespace math {

WEFT_HOST_DEVICE constexpr dependence exp(dependence x) { return x; }
WEFT_HOST_DEVICE constexpr dependence log(dependence x) { return x; }
WEFT_HOST_DEVICE constexpr dependence log1p(dependence x) { return x; }
WEFT_HOST_DEVICE constexpr dependence expm1(dependence x) { return x; }
WEFT_HOST_DEVICE constexpr dependence sqrt(dependence x) { return x; }
WEFT_HOST_DEVICE constexpr dependence tanh(dependence x) { return x; }
WEFT_HOST_DEVICE constexpr dependence sigmoid(dependence x) { return x; }
WEFT_HOST_DEVICE constexpr dependence abs(dependence x) { return x; }
WEFT_HOST_DEVICE constexpr dependence sign(dependence x) { return x; }
WEFT_HOST_DEVICE constexpr dependence floor(dependence x) { return x; }
WEFT_HOST_DEVICE constexpr dependence pow(dependence a, dependence b) { return weft::detail::join(a, b); }
WEFT_HOST_DEVICE constexpr dependence maximum(dependence a, dependence b) { return weft::detail::join(a, b); }
WEFT_HOST_DEVICE constexpr dependence minimum(dependence a, dependence b) { return weft::detail::join(a, b); }
WEFT_HOST_DEVICE constexpr dependence select(dependence p, dependence a, dependence b) {
  return weft::detail::join(p, weft::detail::join(a, b));
}

}  // namespace math
}  // namespace weft
