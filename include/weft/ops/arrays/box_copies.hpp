// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/cpu/strided_copy.hpp>
#include <weft/ops/check.hpp>
#include <weft/ops/eager.hpp>
#include <weft/ops/lowering.hpp>

/// Operations that only move elements: transpose.hpp, roll.hpp, concat.hpp with split, slice.hpp with pad, and others.
/// `Op::copies` maps boxes of the operands to boxes of the results, once for all kinds of devices.
namespace weft {

WEFT_COLD_BEGIN

/// The position of a box's elements in an operand or a result. Along one axis they start at `begin` and advance by
/// `step`, which may be negative; along the other axes they start at 0 and are consecutive.
struct box_walk {
  std::int64_t begin[max_rank]{}, step[max_rank];
  box_walk() {
    for (std::int64_t& s : step) s = 1;
  }
  box_walk(std::size_t axis, std::int64_t from, std::int64_t by = 1) : box_walk() {
    begin[axis] = from, step[axis] = by;
  }
};

/// Describes, box by box, the work of an operation that only moves elements.
class box_copies : public strided_copies {
 public:
  explicit box_copies(const prepare_context& p) : strided_copies(p.inputs[0].type), p_(p) {}

  /// Copies a box of the given extents from an operand to a result.
  void copy(const shape& extents, std::uint32_t operand, const box_walk& from, std::uint32_t result,
            const box_walk& to) {
    strided_region r;
    r.from = operand, r.to = result;
    r.extents = extents;
    r.ends[0] = whole(p_.inputs[operand].extents);
    r.ends[1] = whole(p_.outputs[result].extents);
    for (std::size_t i = 0; i < extents.rank; ++i) {
      r.from_offset += from.begin[i] * r.from_stride()[i], r.to_offset += to.begin[i] * r.to_stride()[i];
      r.ends[0].stride[i] *= from.step[i], r.ends[1].stride[i] *= to.step[i];
    }
    regions.push_back(r);
  }
  /// Sets all other elements of the results to a value, given by its bits.
  void fill_rest(std::uint64_t bits) { fills = true, fill = bits; }

 private:
  device::operand whole(const shape& s) const { return device::broadcast_operand(type, s, s); }

  const prepare_context& p_;
};

namespace detail {

template <class Op>
strided_copies copies_declared(const prepare_context& p) {
  if constexpr (has_attributes<Op>)
    return Op::copies(p, attributes_of<Op>(p.node));
  else
    return Op::copies(p);
}

/// Copies an operand of the given extents with its axes in another order.
strided_copies permuted(dtype, const shape& from, const shape& to, const std::int64_t* order);

#if WEFT_DEFINITIONS

WEFT_DECL kernel* prepare_copies(const prepare_context& p) {
  sequence<std::size_t> elements;
  for (std::size_t o = 0; o < p.node.outputs.size(); ++o) elements.push_back(p.outputs[o].extents.elements());
  return new device::strided_copy_kernel(
      p.node.op->name, p.node.op->copies(p), {p.input_slots, p.input_slots + p.node.inputs.size()},
      {p.output_slots, p.output_slots + p.node.outputs.size()}, static_cast<sequence<std::size_t>&&>(elements));
}

WEFT_DECL strided_copies permuted(dtype type, const shape& from, const shape& to, const std::int64_t* order) {
  const device::operand all_of = device::broadcast_operand(type, from, from);
  device::operand in_order{};
  for (std::size_t i = 0; i < to.rank; ++i) in_order.stride[i] = all_of.stride[order[i]];
  return {type, to, in_order, device::broadcast_operand(type, to, to)};
}

#endif

}  // namespace detail

WEFT_COLD_END

}  // namespace weft

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/box_copies.hpp>
#endif
