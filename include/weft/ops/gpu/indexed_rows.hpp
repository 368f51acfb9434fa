// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/axis_rows.hpp>
#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/indexing.hpp>
#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/device/index_at.hpp>
#include <weft/ops/gpu/fused.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/gpu/sum_rows.hpp>
#include <weft/ops/index/gather.hpp>

/// GPU kernels that gather and scatter rows by index.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

/// The arguments of both directions. Indices out of range move nothing.
template <class T>
struct indexed_rows_arguments : plain_body {
  const T* x;
  T* y;
  const void* indices;
  bool wide;
  divisor count, inner;  ///< the indices in a list; the elements of a row
  divisor sharing;       ///< outer positions that share a list
  bool per_element;
  std::uint32_t depth;           ///< the indices of a vector; 0 if they are not vectors
  std::uint32_t axes[max_rank];  ///< the extents that a vector indexes
  std::uint32_t rows;            ///< along the axis
  std::uint32_t work;            ///< elements of the result, or its columns

  /// Returns index k of the list of an outer position, or `rows` if it is out of range.
  WEFT_HOST_DEVICE std::uint32_t index(std::uint32_t outer, std::uint32_t k, std::uint32_t column) const {
    std::uint32_t at = sharing.divide(outer) * count.extent + k;
    if (per_element) at = at * inner.extent + column;
    if (depth == 0) return in_range(at, rows);
    std::uint32_t row = 0;
    for (std::uint32_t j = 0; j < depth; ++j) {
      const std::uint32_t n = in_range(at * depth + j, axes[j]);
      if (n == axes[j]) return rows;
      row = row * axes[j] + n;
    }
    return row;
  }

 private:
  WEFT_HOST_DEVICE std::uint32_t in_range(std::uint32_t at, std::uint32_t end) const {
    const std::int64_t n = weft::device::index_at(indices, wide, at);
    return n < 0 || n >= static_cast<std::int64_t>(end) ? end : static_cast<std::uint32_t>(n);
  }
};

template <class T>
struct gather_body : indexed_rows_arguments<T> {
  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    for (std::uint32_t i = at.block * this->threads + at.thread; i < this->work; i += at.blocks * this->threads) {
      const std::uint32_t row = this->inner.divide(i), outer = this->count.divide(row);
      const std::uint32_t column = i - row * this->inner.extent;
      const std::uint32_t from = this->index(outer, row - outer * this->count.extent, column);
      this->y[i] = from < this->rows ? this->x[(outer * this->rows + from) * this->inner.extent + column] : T();
    }
  }
};

/// Each thread handles one column of the result, and the rows of its block. No two threads write to one element, and
/// each element is combined in the order of the indices.
template <class T, combine How>
struct write_rows_body : indexed_rows_arguments<T> {
  std::uint32_t split;  ///< rows of a block
  const T* before;      ///< null to start from a number
  bool infinite;        ///< see start_of

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    const std::uint32_t c = at.block * this->threads + at.thread;
    if (c >= this->work) return;
    const std::uint32_t outer = this->inner.divide(c), column = c - outer * this->inner.extent;
    const std::uint32_t begin = at.block_y * split, end = this->rows - begin < split ? this->rows : begin + split;
    const std::uint32_t first = outer * this->rows * this->inner.extent + column;
    T* const to = this->y + first;
    const T* const from = this->x + outer * this->count.extent * this->inner.extent + column;
    for (std::uint32_t r = begin; r < end; ++r)
      to[r * this->inner.extent] =
          before ? before[first + r * this->inner.extent] : weft::device::start_of<T>(How, infinite);
    for (std::uint32_t k = 0; k < this->count.extent; ++k) {
      const std::uint32_t r = this->index(outer, k, column);
      if (r < begin || r >= end) continue;
      T& there = to[r * this->inner.extent];
      there = weft::device::combined<How>(there, from[k * this->inner.extent]);
    }
  }
};

template <class Body>
kernel* make_indexed_rows(const prepare_context& p, Body b, const axis_rows& r, const weft::detail::index_lists& lists,
                          std::size_t blocks, unsigned splits, const function& code) {
  check_size(p.node.op->name, p.inputs[0].extents);
  check_size(p.node.op->name, p.outputs[0].extents);
  check_size(p.node.op->name, p.inputs[1].extents);
  const std::size_t count = lists.count;
  auto* k = new launch_kernel(str_cat({p.node.op->name, " ", count, " of ", r.extent, " rows"}));
  if (b.work == 0) return k;
  b.wide = p.inputs[1].type == dtype::int64;
  b.rows = static_cast<std::uint32_t>(r.extent);
  b.inner = divisor(static_cast<std::uint32_t>(r.inner));
  b.count = divisor(static_cast<std::uint32_t>(count > 0 ? count : 1));
  if (count == 0) b.count.extent = 0;
  b.sharing = divisor(static_cast<std::uint32_t>(lists.sharing > 0 ? lists.sharing : 1));
  b.per_element = lists.per_element;
  b.depth = lists.axes.rank;
  for (std::size_t j = 0; j < lists.axes.rank; ++j) b.axes[j] = static_cast<std::uint32_t>(lists.axes[j]);
  auto& l = add_body(*k, b, code, blocks);
  l.blocks_y = splits;
  l.point_all(p.input_slots, b, b, &Body::x, &Body::indices);
  l.point(offset_in(b, b.y), p.output_slots[0]);
  if constexpr (requires { b.before; })
    if (p.node.inputs.size() > 2) l.point(offset_in(b, b.before), p.input_slots[2]);
  return k;
}

template <class T>
kernel* make_gather(const prepare_context& p, const axis_rows& r, const weft::detail::index_lists& lists) {
  static const function code = function_of<gather_body<T>>("gather");
  gather_body<T> b{};
  b.work = static_cast<std::uint32_t>(p.outputs[0].extents.elements());
  return make_indexed_rows(p, b, r, lists, blocks_for(b.work, 1), 1, code);
}
template <class T, combine How>
kernel* make_write_rows(const prepare_context& p, const axis_rows& r, const weft::detail::index_lists& lists) {
  static const function code = function_of<write_rows_body<T, How>>("scatter");
  write_rows_body<T, How> b{};
  b.work = r.extent > 0 ? static_cast<std::uint32_t>(r.rows()) : 0;
  const std::size_t blocks = (b.work + b.threads - 1) / b.threads;
  const row_shares shares(blocks, r.extent, 1);
  b.split = shares.elements;
  b.infinite = lists.rule == index_rule::ascending;
  return make_indexed_rows(p, b, r, lists, blocks, shares.count, code);
}

template <class T>
kernel* prepare_gather(const prepare_context& p, device&) {
  const axis_rows rows(p.inputs[0].extents, attributes_of<gather_op<T>>(p.node).axis);
  return make_gather<T>(p, rows, {rows, p.inputs[1].extents});
}
template <class T>
kernel* prepare_scatter_add(const prepare_context& p, device&) {
  const axis_rows rows(p.outputs[0].extents, attributes_of<scatter_add_op<T>>(p.node).axis);
  return make_write_rows<T, combine::add>(p, rows, {rows, p.inputs[1].extents});
}
template <class T>
kernel* prepare_batch_gather(const prepare_context& p, device&) {
  const auto a = attributes_of<batch_gather_op<T>>(p.node);
  return make_gather<T>(p, axis_rows(p.inputs[0].extents, a.axis, a.axis + a.depth),
                        {p.inputs[0].extents, p.inputs[1].extents, a});
}
template <class T, combine How>
kernel* prepare_batch_write(const prepare_context& p, const batch_gather_attributes& a) {
  return make_write_rows<T, How>(p, axis_rows(p.outputs[0].extents, a.axis, a.axis + a.depth),
                                 {p.outputs[0].extents, p.inputs[1].extents, a});
}
template <class T>
kernel* prepare_batch_scatter_add(const prepare_context& p, device&) {
  return prepare_batch_write<T, combine::add>(p, attributes_of<batch_scatter_add_op<T>>(p.node));
}

}  // namespace detail

template <class T>
struct kernels<gather_op<T>> : installed<gather_op<T>, detail::prepare_gather<T>> {
  kernels() {
    if constexpr (is_differentiable<T>) install<scatter_add_op<T>>({.prepare = detail::prepare_scatter_add<T>});
    if constexpr (scatter_add_op<T>::row_sums != nullptr) kernels<sum_rows_op<T>>();
  }
};

template <class T>
struct kernels<batch_gather_op<T>> : installed<batch_gather_op<T>, detail::prepare_batch_gather<T>> {
  kernels() {
    if constexpr (is_differentiable<T>)
      install<batch_scatter_add_op<T>>({.prepare = detail::prepare_batch_scatter_add<T>});
  }
};

/// Sums of rows that a program computes itself, not as a gradient: also of integers.
template <class T>
struct kernels<batch_scatter_add_op<T>> : installed<batch_scatter_add_op<T>, detail::prepare_batch_scatter_add<T>> {
  kernels() {
    if constexpr (is_differentiable<T>) install<batch_gather_op<T>>({.prepare = detail::prepare_batch_gather<T>});
  }
};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
