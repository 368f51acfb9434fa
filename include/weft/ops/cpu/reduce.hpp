// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/ops/check.hpp>
#include <weft/ops/lowering.hpp>

/// Immediate reductions of tensors on the CPU.
namespace weft::detail {

inline shape without_reduced(const shape& space, std::int64_t reduced) {
  shape extents;
  for (std::size_t i = 0; i < space.rank; ++i)
    if (!((reduced >> i) & 1)) extents.push_back(space[i]);
  return extents;
}

inline void eager_reduce(const fused_reduction& r, device::reduce_op how, std::int64_t reduced, const tensor_leaves& x,
                         const iteration_space& space, dtype type, void* to, std::size_t results) {
  const shape& extents = space.extents;
  r.arithmetic->fill_identity(how, to, results);
  const bool memory_bound = r.body->signature.memory_bound, all = reduced + 1 == std::int64_t{1} << extents.rank;
  if (space.plain && all && device::loop::is_one_call(extents.elements(), memory_bound))
    return version(r.reduce)(x.data, &to, extents.elements(), x.literals);
  bool kept[max_rank];
  kept_axes(reduced, extents.rank, kept);
  loop_over(x, memory_bound, extents, device::reduced_operand(type, extents, kept), to, results, how, r.arithmetic,
            evaluation(*r.body), version(r.reduce));
}

template <class T, class D, class Dev, class S, device::reduce_op How, class Expr>
auto eager_reduce(const Expr& e, std::int64_t reduced, bool mean) {
  const tensor_leaves leaves(e);
  const auto& r = weft::reduced<S, How, false>;
  const iteration_space space(leaves, *r.body);
  check_moved_from<dims_t<Expr>>("reduction", space.extents);
  auto result = make_tensor<T, D, Dev>(without_reduced(space.extents, reduced), uninitialized{});
  const std::size_t results = result.elements();
  T* data = result.data();
  eager_reduce(r, How, reduced, leaves, space, dtype_of<T>, data, results);
  if (mean)
    r.arithmetic->divide(static_cast<double>(space.extents.elements()) / static_cast<double>(results), data, data,
                         results);
  return result;
}

}  // namespace weft::detail
