// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/arrays.hpp>
#include <weft/ops/arrays/shape.hpp>
#include <weft/ops/gpu/install.hpp>

/// GPU kernels of shape_of and size.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

inline kernel* prepare_numbers(const prepare_context& p, const shape& numbers) {
  numbers_work work{};
  for (std::size_t i = 0; i < numbers.rank; ++i) work.numbers[i] = numbers[i];
  return make_each<32>(p, "extents " + to_string(numbers), work, numbers.rank, nullptr, &numbers_work::to);
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
