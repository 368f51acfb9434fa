#pragma once

#include <cstdint>

namespace weft {

/// A value of which only is known what it was computed from, one bit each. A formula that is run on these says which
/// operands its gradient reads, so that the others need not be kept.
struct dependence {
  std::uint32_t mask = 0;
  dependence() = default;
  dependence(double) {}
  explicit dependence(std::uint32_t bits, int) : mask(bits) {}
};

namespace detail {
inline dependence join(dependence a, dependence b) { return dependence(a.mask | b.mask, 0); }
}  // namespace detail

inline dependence operator+(dependence a, dependence b) { return detail::join(a, b); }
inline dependence operator-(dependence a, dependence b) { return detail::join(a, b); }
inline dependence operator*(dependence a, dependence b) { return detail::join(a, b); }
inline dependence operator/(dependence a, dependence b) { return detail::join(a, b); }
inline dependence operator<(dependence a, dependence b) { return detail::join(a, b); }
inline dependence operator<=(dependence a, dependence b) { return detail::join(a, b); }
inline dependence operator>(dependence a, dependence b) { return detail::join(a, b); }
inline dependence operator>=(dependence a, dependence b) { return detail::join(a, b); }
inline dependence operator==(dependence a, dependence b) { return detail::join(a, b); }
inline dependence operator-(dependence a) { return a; }
inline dependence operator!(dependence a) { return a; }

namespace math {

inline dependence exp(dependence x) { return x; }
inline dependence log(dependence x) { return x; }
inline dependence log1p(dependence x) { return x; }
inline dependence expm1(dependence x) { return x; }
inline dependence sqrt(dependence x) { return x; }
inline dependence tanh(dependence x) { return x; }
inline dependence sigmoid(dependence x) { return x; }
inline dependence abs(dependence x) { return x; }
inline dependence sign(dependence x) { return x; }
inline dependence pow(dependence a, dependence b) { return weft::detail::join(a, b); }
inline dependence maximum(dependence a, dependence b) { return weft::detail::join(a, b); }
inline dependence minimum(dependence a, dependence b) { return weft::detail::join(a, b); }
inline dependence select(dependence p, dependence a, dependence b) {
  return weft::detail::join(p, weft::detail::join(a, b));
}

}  // namespace math
}  // namespace weft
