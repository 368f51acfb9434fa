// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/arrays.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/reduce/argmax.hpp>
#include <weft/tensor/owned.hpp>

/// GPU kernel of argmax.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class T>
kernel* prepare_argmax(const prepare_context& p, device& d) {
  const std::size_t axis = attributes_of<argmax_op<T>>(p.node).axis;
  weft::detail::check_argmax(p, axis);
  using body_type = argmax_body<T>;
  static const function code = function_of<body_type>("argmax");
  const shape& s = p.inputs[0].extents;
  check_size("argmax", s);
  const axis_rows rows(s, axis);
  body_type b{};
  b.extent = static_cast<std::uint32_t>(rows.extent);
  b.results = static_cast<std::uint32_t>(rows.rows());
  owned<launch_kernel> k(new launch_kernel("argmax over " + std::to_string(b.extent)));
  if (b.results == 0) return k.release();
  b.inner = divisor(static_cast<std::uint32_t>(rows.inner));
  std::uint32_t lanes_log = 2;
  while (lanes_log < (rows.inner > 1 ? 3u : 8u) && (4u << lanes_log) < b.extent) ++lanes_log;
  b.results_log = 8 - lanes_log;
  const std::uint32_t blocks = (b.results + (1u << b.results_log) - 1) >> b.results_log;
  constexpr std::uint32_t elements_of_a_thread = 16;
  const row_shares shares(blocks, b.extent, elements_of_a_thread << lanes_log);
  const std::uint32_t splits = shares.count;
  b.split = shares.elements;
  argmax_of_found<T> all{nullptr, nullptr, nullptr, b.results, splits};
  const std::size_t found = std::size_t{splits} * b.results;
  if (splits > 1) {
    const std::size_t values = (found * sizeof(T) + 255) / 256 * 256;
    device_memory room(p.memory ? *p.memory : d, values + found * sizeof(std::int32_t), "workspace of argmax");
    all.found = b.found = reinterpret_cast<T*>(room.data());
    all.found_at = b.found_at = reinterpret_cast<std::int32_t*>(room.data() + values);
    k->keep(static_cast<device_memory&&>(room));
  }
  auto& l = add_body(*k, b, code, blocks);
  l.blocks_y = splits;
  l.point(offset_in(b, b.x), p.input_slots[0]);
  if (splits == 1) {
    l.point(offset_in(b, b.to), p.output_slots[0]);
    return k.release();
  }
  add_each(*k, p, all, b.results, nullptr, &argmax_of_found<T>::to);
  return k.release();
}

}  // namespace detail

template <class T>
struct kernels<argmax_op<T>> : installed<argmax_op<T>, detail::prepare_argmax<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
