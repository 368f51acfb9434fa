// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/device/gpu/program.hpp>
#include <weft/device/gpu/strided_copies.hpp>
#include <weft/device/unsigned_of.hpp>
#include <weft/ops/arrays/box_copies.hpp>
#include <weft/ops/gpu/fused.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/tensor/owned.hpp>

/// GPU kernels of operations that only move elements: one launch for each box. A launch copies 16 bytes at a time if
/// whole rows stay contiguous, and squares of elements if the innermost axis changes.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class Body>
launch_kernel::launch& add_copy(launch_kernel& k, const prepare_context& p, const strided_region& r, Body& b,
                                const function& code, std::size_t blocks, std::size_t alignment = 1) {
  b.from_offset = static_cast<std::uint32_t>(r.from_offset);
  b.to_offset = static_cast<std::uint32_t>(r.to_offset);
  auto& l = add_body(k, b, code, blocks);
  l.point(offset_in(b, b.from), p.input_slots[r.from], alignment);
  l.point(offset_in(b, b.to), p.output_slots[r.to], alignment);
  return l;
}

inline constexpr std::uint32_t all_axes = ~std::uint32_t{0};

template <class T>
launch_kernel::launch& add_box(launch_kernel& k, const prepare_context& p, const strided_region& r,
                               std::size_t alignment = 1) {
  static const function code = function_of<strided_copy_body<T>>("copy of a box");
  strided_copy_body<T> b{};
  b.elements = static_cast<std::uint32_t>(r.extents.elements());
  fill_walk(b.where, r.extents, r.ends, all_axes);
  return add_copy(k, p, r, b, code, blocks_for(b.elements, 1), alignment);
}

template <class T>
void add_turned_box(launch_kernel& k, const prepare_context& p, const strided_region& r, std::size_t inner) {
  static const function code = function_of<transpose_body<T>>("transpose");
  const std::size_t last = r.extents.rank - 1;
  transpose_body<T> b{};
  b.rows = static_cast<std::uint32_t>(r.extents[last]);
  b.columns = static_cast<std::uint32_t>(r.extents[inner]);
  b.row_stride = static_cast<std::uint32_t>(r.from_stride()[last]);
  b.column_stride = static_cast<std::uint32_t>(r.to_stride()[inner]);
  b.tiles_across = divisor((b.columns + 31) / 32);
  b.tiles_down = divisor((b.rows + 31) / 32);
  fill_walk(b.outer, r.extents, r.ends, all_axes ^ (1u << inner) ^ (1u << last));
  const std::size_t squares = r.extents.elements() / b.rows / b.columns;
  add_copy(k, p, r, b, code, squares * b.tiles_across.extent * b.tiles_down.extent);
}

template <class T>
void add_strided_copies(launch_kernel& k, const prepare_context& p, const strided_copies& all) {
  for (std::size_t o = 0; all.fills && o < p.node.outputs.size(); ++o) {
    each<splat_work<T>> b{{}, p.outputs[o].extents.elements()};
    if (b.n == 0) continue;
    __builtin_memcpy(&b.work.element, &all.fill, sizeof b.work.element);
    static const function code = function_of<each<splat_work<T>>>("fill");
    add_body(k, b, code, b.blocks()).point(offset_in(b, b.work.to), p.output_slots[o]);
  }
  for (strided_region r : all.regions) {
    if (r.extents.elements() == 0) continue;
    r.merge_axes();
    if (const std::size_t inner = r.turned_from(); inner < r.extents.rank) {
      add_turned_box<T>(k, p, r, inner);
      continue;
    }
    constexpr int wide = 16 / sizeof(T);
    strided_region packs = r;
    const bool widened = packs.count_in(wide);
    if (widened) {
      auto& l = add_box<pack<T, wide>>(k, p, packs, 16);
      l.aligned_code = l.code, l.aligned_blocks = l.blocks;
      l.code = {};
    }
    add_box<T>(k, p, r).spare = widened;
  }
}

/// Copy functions by element size; the element type does not matter.
inline void (*copies_of_size[9])(launch_kernel&, const prepare_context&, const strided_copies&) = {};

inline kernel* make_copies(const prepare_context& p, const strided_copies& all, std::string what) {
  for (std::size_t k = 0; k < p.node.inputs.size(); ++k) check_size(p.node.op->name, p.inputs[k].extents);
  for (std::size_t o = 0; o < p.node.outputs.size(); ++o) check_size(p.node.op->name, p.outputs[o].extents);
  auto* const add = copies_of_size[size_of(all.type)];
  if (!add)
    throw error(error_code::unimplemented, p.node.op->name,
                {"no file of this program that is compiled for GPUs copies elements of ", name(all.type)});
  owned<launch_kernel> k(new launch_kernel(static_cast<std::string&&>(what)));
  add(*k, p, all);
  return k.release();
}

inline kernel* prepare_copies(const prepare_context& p, device&) {
  const strided_copies all = p.node.op->copies(p);
  return make_copies(p, all, all.describe(p.node.op->name));
}

inline kernel* prepare_copy_into_layout(const prepare_context& p, device&) {
  constexpr std::int64_t channels_forward[] = {0, 3, 1, 2}, channels_back[] = {0, 2, 3, 1};
  const shape &s = p.inputs[0].extents, turned = extents_in(image_layout::channels_first, s);
  const dtype type = p.inputs[0].type;
  using weft::detail::permuted;
  return p.layout == image_layout::channels_first ? make_copies(p, permuted(type, s, turned, channels_forward),
                                                                "images of " + to_string(s) + " to channels first")
                                                  : make_copies(p, permuted(type, turned, s, channels_back),
                                                                "images of " + to_string(s) + " to channels last");
}

}  // namespace detail

template <class T>
struct kernels<moves<T>> {
  kernels() {
    detail::copies_of_size[sizeof(T)] = detail::add_strided_copies<unsigned_of<sizeof(T)>>;
    copy_into_layout[sizeof(T)] = detail::prepare_copy_into_layout;
    preparation_of_copies = {.prepare = detail::prepare_copies};
  }
};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
