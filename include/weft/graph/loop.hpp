#pragma once

#include <type_traits>

#include <weft/graph/loop_gradient.hpp>
#include <weft/graph/loop_kernel.hpp>
#include <weft/graph/loop_operation.hpp>
#include <weft/ops/transpose.hpp>

/// The operands of while_loop and scan that are common to both.
namespace weft {

/// A value that each iteration reads, and none changes: `invariant(weights)`.
template <Expression X>
struct loop_invariant {
  X value;
};
/// An operand of while_loop or scan that its functions are given as it is, and that the body does not return. Its
/// gradient is the sum of those of all iterations.
template <Expression X>
[[nodiscard]] auto invariant(const X& x) {
  return loop_invariant<X>{x};
}

/// A body returns the loop variables in their order, of the same elements and extents.
template <class Variables, class Results>
struct loop_variables_change : mistake<!std::is_same_v<Variables, Results>> {};

WEFT_COLD_BEGIN

namespace detail {

/// The kernels for GPUs that gradients of loops need beside those of their subgraphs: they transpose matrices.
template <class... X>
void compile_loop_kernels() {
  if constexpr ((std::is_same_v<value_t<X>, float> || ...)) gpu::compile_kernels<gpu::moves, float>();
}

template <class X>
inline constexpr bool is_invariant = false;
template <class X>
inline constexpr bool is_invariant<loop_invariant<X>> = true;

}  // namespace detail

WEFT_COLD_END
}  // namespace weft
