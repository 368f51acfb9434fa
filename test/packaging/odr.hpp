// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>

#include <weft/weft.hpp>

/// The layout of a public type, as the including translation unit sees it.
struct layout {
  std::size_t size, alignment;
  bool operator==(const layout&) const = default;
};

template <class... Types>
constexpr auto layouts_of() {
  return std::array{layout{sizeof(Types), alignof(Types)}...};
}

/// Every public type that crosses a function call between translation units.
constexpr auto layouts() {
  return layouts_of<weft::error, weft::shape, weft::storage, weft::half, weft::bfloat16, weft::tensor<float>,
                    weft::tensor<double, weft::dims<2, weft::dyn<"n">>>, weft::tensor_view<const float, weft::dims<3>>,
                    weft::node<float, weft::dims<4>>, weft::graph, weft::session, weft::session_options,
                    weft::prepared_step, weft::thread_pool>();
}

using all_layouts = decltype(layouts());
