// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/device/gpu/scan_cub.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/reduce/scan.hpp>
#include <weft/tensor/owned.hpp>

/// GPU kernels of scans.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class Body, class Scan>
launch_kernel::launch& add_scan(launch_kernel& k, const prepare_context& p, const scan_arguments<Scan>& a,
                                const function& code, std::size_t blocks) {
  Body b{};
  static_cast<scan_arguments<Scan>&>(b) = a;
  auto& l = add_body(k, b, code, blocks);
  b.scan.bind([&](int i, auto& pointer) {
    if (i < Scan::operands)
      l.point(offset_in(b, pointer), p.input_slots[i]);
    else if (!a.lasts)
      l.point(offset_in(b, pointer), p.output_slots[i - Scan::operands]);
  });
  return l;
}

/// Returns the part of a row for each block: at least a few tiles, and a few hundred parts over all rows.
inline std::uint32_t scanned_part(std::size_t rows, std::size_t extent, std::size_t tile) {
  constexpr std::size_t enough_blocks = 512, least_tiles = 4;
  const std::size_t parts = (enough_blocks + rows - 1) / rows, tiles = (extent + tile - 1) / tile;
  const std::size_t of_each = (tiles + parts - 1) / parts;
  return static_cast<std::uint32_t>(tile * (of_each > least_tiles ? of_each : least_tiles));
}

template <class Body, class Scan>
void add_scan_by_blocks(launch_kernel& k, const prepare_context& p, device& d, scan_arguments<Scan> a,
                        const function& code) {
  using state = typename Scan::state;
  using of_states = scan_by_teams<state_scan<Scan>, 256, 8>;
  static const function scan_of_states = function_of_teams<of_states>("scan of states");
  a.part = scanned_part(a.rows, a.extent, Body::tile);
  a.parts = divisor((a.extent + a.part - 1) / a.part);
  const std::size_t blocks = std::size_t{a.rows} * a.parts.extent;
  if (a.parts.extent == 1) {
    add_scan<Body>(k, p, a, code, blocks);
    return;
  }
  device_memory room(p.memory ? *p.memory : d, blocks * sizeof(state), "workspace of a scan");
  auto* const states = reinterpret_cast<state*>(room.data());
  a.lasts = states;
  add_scan<Body>(k, p, a, code, blocks);
  scan_arguments<state_scan<Scan>> b{};
  b.scan.x = states;
  b.rows = a.rows;
  b.extent = b.part = a.parts.extent;
  b.exclusive = true;
  add_body(k, of_states{b}, scan_of_states, b.rows);
  a.lasts = nullptr;
  a.firsts = states;
  add_scan<Body>(k, p, a, code, blocks);
  k.keep(static_cast<device_memory&&>(room));
}

template <class Op, class T>
kernel* prepare_scan(const prepare_context& p, device& d) {
  const auto how = attributes_of<Op>(p.node);
  using Scan = decltype(Op::template scan<scan_sum<T>>(how));
  using threads = scan_by_threads<Scan>;
  using warps = scan_by_teams<Scan, 32, 1>;
  using blocks = scan_by_teams<Scan, 256, 8>;
  static const function by_threads = function_of<threads>("scan by threads");
  static const function by_warps = function_of_teams<warps>("scan by warps");
  static const function by_blocks = function_of_teams<blocks>("scan by blocks");
  const shape& s = p.inputs[0].extents;
  check_size(p.node.op->name, s);
  owned<launch_kernel> k(new launch_kernel(str_cat({p.node.op->name, " of ", to_string(s)})));
  if (s.elements() == 0) return k.release();
  const axis_rows r(s, how.axis);
  scan_arguments<Scan> a{};
  static_cast<row_places&>(a) = row_places(r);
  a.scan = Op::template scan<scan_sum<T>>(how);
  a.exclusive = how.exclusive;
  a.reverse = how.reverse;
  a.part = a.extent;
  // One row for each thread if adjacent threads read adjacent rows and there are many rows, or if most of a warp would
  // be idle.
  if (r.extent <= 16 || (r.inner >= 8 && r.rows() >= 4096))
    add_scan<threads>(*k, p, a, by_threads, (r.rows() + threads::threads - 1) / threads::threads);
  else if (r.extent <= 256)
    add_scan<warps>(*k, p, a, by_warps, blocks_for_teams<warps>(r.rows()));
  else
    add_scan_by_blocks<blocks>(*k, p, d, a, by_blocks);
  return k.release();
}

}  // namespace detail

template <class Op>
  requires requires { typename Op::scanned_type; }
struct kernels<Op> : installed<Op, detail::prepare_scan<Op, typename Op::scanned_type>> {
  kernels() {
    if constexpr (requires { Op::compile_gradients(); }) Op::compile_gradients();
  }
};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
