// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <vector>

#include <weft/tensor/dtype.hpp>

/// Functions of elements whose type is known at run time.
namespace tool {

/// Returns the number of elements of a tensor.
inline std::uint64_t count_of(const std::vector<std::int64_t>& extents) {
  std::uint64_t count = 1;
  for (const std::int64_t extent : extents) count *= static_cast<std::uint64_t>(extent);
  return count;
}

/// Calls `f` with an element of the type.
template <class F>
auto with_type(weft::dtype type, F f) {
  switch (type) {
    case weft::dtype::boolean:
      return f(bool());
    case weft::dtype::int8:
      return f(std::int8_t());
    case weft::dtype::int16:
      return f(std::int16_t());
    case weft::dtype::int32:
      return f(std::int32_t());
    case weft::dtype::int64:
      return f(std::int64_t());
    case weft::dtype::uint8:
      return f(std::uint8_t());
    case weft::dtype::uint16:
      return f(std::uint16_t());
    case weft::dtype::uint32:
      return f(std::uint32_t());
    case weft::dtype::uint64:
      return f(std::uint64_t());
    case weft::dtype::float16:
      return f(weft::half());
    case weft::dtype::bfloat16:
      return f(weft::bfloat16());
    case weft::dtype::float32:
      return f(float());
    default:
      return f(double());
  }
}

/// Returns an element as a number. Large 64-bit integers lose digits.
template <class T>
double number(T x) {
  if constexpr (weft::is_storage_type<T>)
    return static_cast<double>(static_cast<float>(x));
  else
    return static_cast<double>(x);
}

/// Returns a number as an element.
template <class T>
T element_of(double number) {
  if constexpr (weft::is_storage_type<T>)
    return T(static_cast<float>(number));
  else
    return static_cast<T>(number);
}

}  // namespace tool
