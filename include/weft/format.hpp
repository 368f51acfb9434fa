// SPDX-License-Identifier: BSL-1.0
#pragma once

// Makes std::format("{}", x) print the same text as `std::cout << x`, if the standard library has <format> (g++ 13,
// libc++ 19). Format specifications are those of strings: `{:>20}`.

#include <version>
#include <weft/weft.hpp>

#if defined(__cpp_lib_format)
  #include <format>
  #include <string_view>

namespace weft::detail {

template <class X>
struct formatter : std::formatter<std::string_view, char> {
  template <class Context>
  auto format(const X& x, Context& context) const {
    const std::string text = to_string(x);
    return std::formatter<std::string_view, char>::format(std::string_view(text), context);
  }
};

}  // namespace weft::detail

template <class X>
  requires(weft::is_printable<X>)
struct std::formatter<X, char> : weft::detail::formatter<X> {};

// Specialized by name, because C++23 formats ranges.
template <class T, class Dims, class Device>
struct std::formatter<weft::tensor<T, Dims, Device>, char> : weft::detail::formatter<weft::tensor<T, Dims, Device>> {};
template <class T, class Dims>
struct std::formatter<weft::tensor_view<T, Dims>, char> : weft::detail::formatter<weft::tensor_view<T, Dims>> {};

#endif
