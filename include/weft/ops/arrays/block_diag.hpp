// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/arrays/box_copies.hpp>

/// Block diagonal matrices. Not part of <weft/weft.hpp>.
namespace weft {

/// Returns matrices with the operands as blocks on the diagonal and 0 elsewhere (torch.block_diag,
/// scipy.linalg.block_diag): `block_diag(a, b)` of `[m, n]` and `[p, q]` is `[m + p, n + q]`. Leading axes must be
/// equal. All element types.
template <Expression First, Expression... Rest>
[[nodiscard]] auto block_diag(const First& first, const Rest&... rest);

namespace detail {

constexpr bool are_blocks(const shape& a, const shape& b) {
  if (a.rank != b.rank || a.rank < 2) return false;
  for (std::size_t i = 0; i + 2 < a.rank; ++i)
    if (a[i] != b[i]) return false;
  return true;
}

}  // namespace detail

/// Blocks must be matrices, with equal leading axes.
template <class A, class B>
struct blocks_are_not_matrices : mistake<!detail::are_blocks(A::spec, B::spec)> {};

WEFT_COLD_BEGIN

struct block_diag_op {
  static constexpr const char* name = "block_diag";
  static strided_copies copies(const prepare_context&);
  static void gradient(gradient_context&);
};

/// Takes the blocks, one for each output.
struct diagonal_blocks_op {
  static constexpr const char* name = "diagonal_blocks";
  static strided_copies copies(const prepare_context&);
  static void gradient(gradient_context&);
};

namespace detail {

inline strided_copies copy_blocks(const prepare_context& p, const value_info* blocks, std::size_t count, bool back) {
  box_copies all(p);
  box_walk at;
  const std::size_t rows = blocks[0].extents.rank - 2;
  for (std::uint32_t k = 0; k < count; ++k) {
    const shape& block = blocks[k].extents;
    back ? all.copy(block, 0, at, k, {}) : all.copy(block, k, {}, 0, at);
    at.begin[rows] += block[rows], at.begin[rows + 1] += block[rows + 1];
  }
  return all;
}

}  // namespace detail

inline strided_copies block_diag_op::copies(const prepare_context& p) {
  strided_copies all = detail::copy_blocks(p, p.inputs, p.node.inputs.size(), false);
  all.fills = true;
  return all;
}
inline void block_diag_op::gradient(gradient_context& g) {
  sequence<value_info> outputs;
  for (std::size_t k = 0; k < g.node.inputs.size(); ++k) outputs.push_back(g.input(k).info());
  const symbol blocks = record<diagonal_blocks_op>({g.upstream()}, outputs);
  for (std::uint32_t k = 0; k < g.node.inputs.size(); ++k) g.set_gradient(k, blocks.output(k));
}
inline strided_copies diagonal_blocks_op::copies(const prepare_context& p) {
  return detail::copy_blocks(p, p.outputs, p.node.outputs.size(), true);
}
inline void diagonal_blocks_op::gradient(gradient_context& g) {
  sequence<symbol> blocks;
  for (std::size_t k = 0; k < g.node.outputs.size(); ++k) {
    const symbol block = g.output(k);
    blocks.push_back(g.has_upstream(k) ? g.upstream(k) : fill(*block.builder(), block.info(), 0));
  }
  g.set_gradient(0, record<block_diag_op>(blocks, {g.input(0).info()}));
}

WEFT_COLD_END

namespace detail {

template <class T, class To, class First, class... Rest>
auto blocks_on_diagonal(const First& first, const Rest&... rest) {
  shape extents = extents_of(first);
  const std::size_t rows = extents.rank - 2;
  ((extents[rows] += extents_of(rest)[rows], extents[rows + 1] += extents_of(rest)[rows + 1]), ...);
  return call_operation<block_diag_op, T, To>(extents, {}, first, rest...);
}

}  // namespace detail

template <Expression First, Expression... Rest>
auto block_diag(const First& first, const Rest&... rest) {
  using T = value_t<First>;
  using D = dims_t<First>;
  using mistake = first_mistake<blocks_are_not_matrices<D, D>, blocks_are_not_matrices<D, dims_t<Rest>>...,
                                element_types_differ<T, value_t<Rest>>...>;
  static_assert(correct<mistake>,
                "block_diag: takes matrices of one type, with equal leading axes; expand_dims<0>(v) "
                "makes a vector a matrix");
  if constexpr (correct<mistake>) {
    constexpr std::size_t rows = D::rank - 2;
    using Tall = with_extent<D, rows, (extent_of<D, rows>() + ... + extent_of<dims_t<Rest>, rows>())>;
    using To = with_extent<Tall, rows + 1, (extent_of<D, rows + 1>() + ... + extent_of<dims_t<Rest>, rows + 1>())>;
    if constexpr (First::symbolic || (Rest::symbolic || ...)) gpu::compile_kernels<gpu::moves, T>();
    return detail::blocks_on_diagonal<T, To>(materialize(first), materialize(rest)...);
  } else {
    return detail::after_mistake<T, D>(first, rest...);
  }
}

template <auto...>
auto block_diag(...) WEFT_DELETED;  // takes matrices one by one: block_diag(a, b)

}  // namespace weft
