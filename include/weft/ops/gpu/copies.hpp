#pragma once

#include <weft/device/gpu/body.hpp>
#include <weft/device/gpu/indexing.hpp>
#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/device/unsigned_of.hpp>
#include <weft/ops/copies.hpp>
#include <weft/ops/gpu/fused.hpp>
#include <weft/ops/gpu/install.hpp>

/// Operations that only move elements, prepared for a GPU: a launch for each box.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class T>
struct strided_copy_body {
  static constexpr unsigned threads = 256;
  static constexpr int phases = 1;
  using block_memory = nothing;
  using thread_memory = nothing;

  const T* from;
  T* to;
  std::uint32_t elements, from_offset, to_offset;
  walk<2> where;  ///< of both

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    for (std::uint32_t i = at.block * threads + at.thread; i < elements; i += at.blocks * threads) {
      std::uint32_t offsets[] = {from_offset, to_offset};
      where.add_offsets(i, offsets);
      to[offsets[1]] = from[offsets[0]];
    }
  }
};

template <class T>
struct splat_body {
  static constexpr unsigned threads = 256;
  static constexpr int phases = 1;
  using block_memory = nothing;
  using thread_memory = nothing;

  T* to;
  std::uint32_t elements;
  T element;

  template <int>
  WEFT_HOST_DEVICE void run(const place& at, nothing&, nothing&) const {
    for (std::uint32_t i = at.block * threads + at.thread; i < elements; i += at.blocks * threads) to[i] = element;
  }
};

template <class T>
void add_strided_copies(launch_kernel& k, const prepare_context& p, const strided_copies& all) {
  using copy = strided_copy_body<T>;
  using splat = splat_body<T>;
  static const function copy_code = function_of<copy>("copy of a box"), splat_code = function_of<splat>("fill");
  for (std::size_t o = 0; all.fills && o < p.c.outputs.size(); ++o) {
    splat b{nullptr, static_cast<std::uint32_t>(p.outputs[o].extents.elements()), {}};
    if (b.elements == 0) continue;
    __builtin_memcpy(&b.element, &all.fill, sizeof b.element);
    add_body(k, b, splat_code, blocks_for(b.elements, 1)).point(offset_in(b, b.to), p.output_slots[o]);
  }
  for (strided_region r : all.regions) {
    if (r.extents.elements() == 0) continue;
    r.merge_axes();
    copy b{};
    b.elements = static_cast<std::uint32_t>(r.extents.elements());
    b.from_offset = static_cast<std::uint32_t>(r.from_offset);
    b.to_offset = static_cast<std::uint32_t>(r.to_offset);
    for (std::size_t axis = r.extents.rank; axis-- > 0; ++b.where.rank) {
      b.where.extents[b.where.rank] = divisor(static_cast<std::uint32_t>(r.extents[axis]));
      b.where.strides[b.where.rank][0] = static_cast<std::int32_t>(r.from_stride[axis]);
      b.where.strides[b.where.rank][1] = static_cast<std::int32_t>(r.to_stride[axis]);
    }
    auto& l = add_body(k, b, copy_code, blocks_for(b.elements, 1));
    l.point(offset_in(b, b.from), p.input_slots[r.from]);
    l.point(offset_in(b, b.to), p.output_slots[r.to]);
  }
}

/// By the size of the elements, which move alike, whatever their type.
inline void (*copies_of_size[9])(launch_kernel&, const prepare_context&, const strided_copies&) = {};

template <class Op>
kernel* prepare_copies(const prepare_context& p, device&) {
  const strided_copies all = Op::copies(p, attributes_of<Op>(p.c));
  for (std::size_t k = 0; k < p.c.inputs.size(); ++k) check_size(Op::name, p.inputs[k].extents);
  for (std::size_t o = 0; o < p.c.outputs.size(); ++o) check_size(Op::name, p.outputs[o].extents);
  auto* const add = copies_of_size[size_of(all.type)];
  if (!add)
    throw error(error_code::unimplemented, Op::name,
                {"no file of this program that is compiled for GPUs moves elements of ", name(all.type)});
  owned<launch_kernel> k(new launch_kernel(str_cat({Op::name, " in ", all.regions.size(), " boxes"})));
  add(*k, p, all);
  return k.release();
}

}  // namespace detail

template <class T>
struct kernels<moves<T>> : installed<slice_op, detail::prepare_copies<slice_op>>,
                           installed<pad_op, detail::prepare_copies<pad_op>>,
                           installed<concat_op, detail::prepare_copies<concat_op>>,
                           installed<split_op, detail::prepare_copies<split_op>> {
  kernels() { detail::copies_of_size[sizeof(T)] = detail::add_strided_copies<unsigned_of<sizeof(T)>>; }
};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
