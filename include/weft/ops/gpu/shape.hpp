// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/arrays.hpp>
#include <weft/ops/arrays/shape.hpp>
#include <weft/ops/gpu/fused.hpp>

/// GPU kernels of shape_of and size.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

inline kernel* prepare_numbers(const prepare_context& p, const shape& numbers) {
  static const function code = function_of<numbers_body>("extents");
  auto* k = new launch_kernel("extents " + to_string(numbers));
  if (numbers.rank == 0) return k;
  numbers_body b{};
  b.count = numbers.rank;
  for (std::size_t i = 0; i < numbers.rank; ++i) b.numbers[i] = numbers[i];
  add_body(*k, b, code, 1).point(offset_in(b, b.to), p.output_slots[0]);
  return k;
}
inline kernel* prepare_shape(const prepare_context& p, device&) { return prepare_numbers(p, p.inputs[0].extents); }
inline kernel* prepare_size(const prepare_context& p, device&) {
  return prepare_numbers(p, shape(static_cast<std::int64_t>(p.inputs[0].extents.elements())));
}

inline const bool extents_are_installed =
    install<shape_op>({.prepare = prepare_shape}) && install<size_op>({.prepare = prepare_size});

}  // namespace detail
}  // namespace weft::gpu
WEFT_COLD_END
#endif
