// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/sort_cub.hpp>
#include <weft/device/gpu/strided_copies.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/index/sort.hpp>

/// GPU kernels of sorts.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
inline namespace WEFT_GPU_FILE {

template <class Body, class T>
kernel* make_sort(const prepare_context& p, Body b, const sort_arguments<T>& s, const function& code,
                  std::size_t blocks, std::string what) {
  static_cast<sort_arguments<T>&>(b) = s;
  auto* k = new launch_kernel(static_cast<std::string&&>(what));
  auto& l = add_body(*k, b, code, blocks);
  l.point(offset_in(b, b.x), p.input_slots[0]);
  l.point_all(p.output_slots, b, b, &Body::values, &Body::indices);
  return k;
}

template <class T>
kernel* prepare_sort(const prepare_context& p, device& d) {
  using counting = sort_by_counting<T>;
  using small = sort_by_blocks<T, 4>;
  using large = sort_by_blocks<T, 16>;
  static const function by_counting = function_of<counting>("sort by counting");
  static const function by_small_blocks = function_of_teams<small>("sort by blocks");
  static const function by_large_blocks = function_of_teams<large>("sort by blocks");
  const auto a = attributes_of<sort_op<T>>(p.node);
  const std::size_t axis = a.axis;
  weft::detail::check_sort(p, axis);
  const shape& x = p.inputs[0].extents;
  check_size("sort", x);
  const axis_rows r(x, axis);
  sort_arguments<T> s{};
  s.rows = static_cast<std::uint32_t>(r.rows());
  s.extent = static_cast<std::uint32_t>(r.extent);
  s.first = static_cast<std::uint32_t>(p.outputs[0].extents[axis]);
  s.order = a.order;
  std::string what = "sort " + std::to_string(s.first) + " of " + std::to_string(s.extent);
  if (s.rows == 0 || s.first == 0) return new launch_kernel(what);
  s.inner = divisor(static_cast<std::uint32_t>(r.inner));
  if (s.extent <= counting::longest) {
    counting b{};
    std::uint32_t lanes_log = 2;
    while ((1u << lanes_log) < s.extent) ++lanes_log;
    b.rows_log = 8 - lanes_log;
    return make_sort(p, b, s, by_counting, (s.rows + (1u << b.rows_log) - 1) >> b.rows_log, what + " by counting");
  }
  if (s.extent <= small::longest) return make_sort(p, small{}, s, by_small_blocks, s.rows, what + " by blocks");
  if (s.extent <= large::longest) return make_sort(p, large{}, s, by_large_blocks, s.rows, what + " by blocks");
  return new long_sort_kernel<T>(what, s, d, p.input_slots[0], p.output_slots[0], p.output_slots[1]);
}

template <class T, bool Back>
kernel* prepare_along(const prepare_context& p, device&) {
  using w = along_work<T, Back>;
  const shape &whole = (Back ? p.outputs[0] : p.inputs[0]).extents, &part = p.inputs[1].extents;
  check_size(p.node.op->name, whole);
  const std::size_t axis = attributes_of<gather_along_op<T>>(p.node).axis;
  auto* k = new launch_kernel(str_cat({p.node.op->name, " ", part[axis], " of ", whole[axis]}));
  if (Back && part[axis] < whole[axis])
    add_each(*k, p, splat_work<T>{}, whole.elements(), nullptr, nullptr, &splat_work<T>::to);
  const w work{nullptr,
               nullptr,
               nullptr,
               static_cast<std::uint32_t>(whole[axis]),
               divisor_for(axis_rows(whole, axis).inner),
               divisor_for(static_cast<std::size_t>(part[axis]))};
  add_each(*k, p, work, part.elements(), &w::x, &w::indices, &w::y);
  return k;
}

}  // namespace WEFT_GPU_FILE

template <class T>
struct kernels<sort_op<T>> : installed<sort_op<T>, prepare_sort<T>>,
                             installed<gather_along_op<T>, prepare_along<T, false>>,
                             installed<scatter_along_op<T>, prepare_along<T, true>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
