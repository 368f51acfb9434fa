// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <weft/tensor/dtype.hpp>

/// Elements of arrays by their type at run time, for the stand-ins of libraries.
namespace standin {

template <class T>
double element_of(const void* data, std::int64_t i) {
  if constexpr (weft::is_storage_type<T>)
    return static_cast<float>(static_cast<const T*>(data)[i]);
  else
    return static_cast<const T*>(data)[i];
}

inline double read(weft::dtype type, const void* data, std::int64_t i) {
  switch (type) {
    case weft::dtype::float16:
      return element_of<weft::half>(data, i);
    case weft::dtype::bfloat16:
      return element_of<weft::bfloat16>(data, i);
    case weft::dtype::float64:
      return element_of<double>(data, i);
    default:
      return element_of<float>(data, i);
  }
}

inline void write(weft::dtype type, void* data, std::int64_t i, double x) {
  switch (type) {
    case weft::dtype::float16:
      static_cast<weft::half*>(data)[i] = weft::half(static_cast<float>(x));
      break;
    case weft::dtype::bfloat16:
      static_cast<weft::bfloat16*>(data)[i] = weft::bfloat16(static_cast<float>(x));
      break;
    case weft::dtype::float64:
      static_cast<double*>(data)[i] = x;
      break;
    default:
      static_cast<float*>(data)[i] = static_cast<float>(x);
  }
}

}  // namespace standin
