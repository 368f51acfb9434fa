// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/graph/graph.hpp>
#include <weft/tensor/random.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

inline void store(dtype type, double x, void* to, std::size_t i) {
  switch (type) {
    case dtype::boolean:
      static_cast<bool*>(to)[i] = x != 0;
      break;
    case dtype::int8:
      static_cast<std::int8_t*>(to)[i] = static_cast<std::int8_t>(x);
      break;
    case dtype::int16:
      static_cast<std::int16_t*>(to)[i] = static_cast<std::int16_t>(x);
      break;
    case dtype::int32:
      static_cast<std::int32_t*>(to)[i] = static_cast<std::int32_t>(x);
      break;
    case dtype::int64:
      static_cast<std::int64_t*>(to)[i] = static_cast<std::int64_t>(x);
      break;
    case dtype::uint8:
      static_cast<std::uint8_t*>(to)[i] = static_cast<std::uint8_t>(x);
      break;
    case dtype::uint16:
      static_cast<std::uint16_t*>(to)[i] = static_cast<std::uint16_t>(x);
      break;
    case dtype::uint32:
      static_cast<std::uint32_t*>(to)[i] = static_cast<std::uint32_t>(x);
      break;
    case dtype::uint64:
      static_cast<std::uint64_t*>(to)[i] = static_cast<std::uint64_t>(x);
      break;
    case dtype::float16:
      static_cast<half*>(to)[i] = static_cast<float>(x);
      break;
    case dtype::bfloat16:
      static_cast<bfloat16*>(to)[i] = static_cast<float>(x);
      break;
    case dtype::float32:
      static_cast<float*>(to)[i] = static_cast<float>(x);
      break;
    case dtype::float64:
      static_cast<double*>(to)[i] = x;
      break;
  }
}

inline double draw(const initializer& init, const random_stream& numbers, std::size_t i, dtype type) {
  switch (init.kind) {
    case initializer::kind_type::uniform:
      return is_floating(type) ? numbers.uniform(i, init.a, init.b, type)
                               : __builtin_floor(numbers.uniform(i, init.a, init.b, type));
    case initializer::kind_type::normal:
      return init.a + init.b * numbers.normal(i);
    case initializer::kind_type::truncated_normal:
      return init.a + init.b * numbers.truncated_normal(i);
    default:
      return init.a;
  }
}

/// Fills a matrix with standard normal numbers and orthonormalizes it by modified Gram-Schmidt along its shorter side.
/// The result is uniformly distributed, because the triangular factor has a positive diagonal (Mezzadri, Notices AMS
/// 2007).
inline void initialize_orthogonal(double gain, const value_info& info, const random_stream& numbers, void* to) {
  const std::size_t n = info.extents.elements();
  if (n == 0) return;
  const auto columns = static_cast<std::size_t>(info.extents[info.extents.rank - 1]), rows = n / columns;
  const bool by_rows = rows <= columns;
  const std::size_t count = by_rows ? rows : columns, length = by_rows ? columns : rows;
  const auto element = [&](std::size_t v, std::size_t k) { return by_rows ? v * columns + k : k * columns + v; };
  const storage memory(n * sizeof(double));  // the vectors, stored contiguously
  auto* const vectors = reinterpret_cast<double*>(memory.data());
  const auto dot = [&](const double* a, const double* b) {
    double lanes[4] = {}, sum = 0;
    std::size_t k = 0;
    for (; k + 4 <= length; k += 4)
      for (std::size_t l = 0; l < 4; ++l) lanes[l] += a[k + l] * b[k + l];
    for (; k < length; ++k) sum += a[k] * b[k];
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]) + sum;
  };
  for (std::size_t v = 0; v < count; ++v) {
    double* const x = vectors + v * length;
    for (std::size_t k = 0; k < length; ++k) x[k] = numbers.normal(element(v, k));
    for (std::size_t u = 0; u < v; ++u) {
      const double* const y = vectors + u * length;
      const double along = dot(x, y);
      for (std::size_t k = 0; k < length; ++k) x[k] -= along * y[k];
    }
    const double scale = 1 / __builtin_sqrt(dot(x, x));
    for (std::size_t k = 0; k < length; ++k) x[k] *= scale;
    for (std::size_t k = 0; k < length; ++k) store(info.type, gain * x[k], to, element(v, k));
  }
}

/// Writes a variable's initial value. Returns false if it has none. Depends only on the graph's seed and the variable's
/// name, and thus not on other nodes or on the tasks that hold the variables.
inline bool initialize(const initializer& init, const value_info& info, std::uint64_t seed, const std::string& name,
                       void* to) {
  const std::size_t n = info.extents.elements();
  if (init.kind == initializer::kind_type::none) {
    __builtin_memset(to, 0, info.bytes());
    return false;
  }
  if (init.kind == initializer::kind_type::value) {
    if (init.data.bytes() != info.bytes())
      throw error(error_code::invalid_argument, name,
                  {"the initial value must have as many elements as the variable, ", n, ", but has ",
                   init.data.bytes() / size_of(info.type)});
    __builtin_memcpy(to, init.data.data(), info.bytes());
    return true;
  }
  hasher h;
  h.add(name);
  const random_stream numbers(seed, h.result());
  if (init.kind == initializer::kind_type::orthogonal) {
    initialize_orthogonal(init.a, info, numbers, to);
    return true;
  }
  for (std::size_t i = 0; i < n; ++i) store(info.type, draw(init, numbers, i, info.type), to, i);
  return true;
}

}  // namespace weft::detail

WEFT_COLD_END
