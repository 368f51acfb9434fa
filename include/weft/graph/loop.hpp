// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <type_traits>

#include <weft/graph/loop_gradient.hpp>
#include <weft/graph/loop_kernel.hpp>
#include <weft/graph/loop_operation.hpp>
#include <weft/ops/arrays/transpose.hpp>

/// Operands that while_loop and scan share.
namespace weft {

/// Passes a value to the body of while_loop or scan that is the same in all iterations. The body receives it but does
/// not return it. A body can use the value without this, as all others of the graph.
template <Expression X>
[[nodiscard]] auto invariant(const X& x) {
  return loop_invariant<X>{x};
}

/// The body must return the loop variables in order, with unchanged element types and extents.
template <class Variables, class Results>
struct loop_variables_change : mistake<!std::is_same_v<Variables, Results>> {};

WEFT_COLD_BEGIN

namespace detail {

/// Instantiates the GPU kernels that gradients of loops require in addition to those of their subgraphs: transposes of
/// matrices.
template <class... X>
void compile_loop_kernels() {
  if constexpr ((std::is_same_v<value_t<X>, float> || ...)) gpu::compile_kernels<gpu::moves, float>();
}

}  // namespace detail

WEFT_COLD_END
}  // namespace weft
