#pragma once

#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/device/gpu/scan_cub.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/scan.hpp>

/// cumsum, prepared for a GPU.
#if WEFT_COMPILES_FOR_GPU
WEFT_COLD_BEGIN
namespace weft::gpu {
namespace detail {

template <class Body, class T>
void add_scan(launch_kernel& k, const prepare_context& p, const scan_arguments<T>& a, const function& code,
              std::size_t blocks) {
  Body b{a};
  auto& l = add_body(k, b, code, blocks);
  l.point(offset_in(b, b.x), p.input_slots[0]);
  l.point(offset_in(b, b.y), p.output_slots[0]);
}

template <class T>
kernel* prepare_cumsum(const prepare_context& p, device&) {
  using threads = scan_by_threads<T>;
  using warps = scan_by_teams<T, 32, 1>;
  using blocks = scan_by_teams<T, 256, 8>;
  static const function by_threads = function_of<threads>("cumsum by threads");
  static const function by_warps = function_of_teams<warps>("cumsum by warps");
  static const function by_blocks = function_of_teams<blocks>("cumsum by blocks");
  const shape& s = p.inputs[0].extents;
  check_size("cumsum", s);
  auto* k = new launch_kernel("cumsum of " + to_string(s));
  if (s.elements() == 0) return k;
  const axis_rows r(s, static_cast<std::size_t>(p.c.attributes[0]));
  scan_arguments<T> a{row_places(r), nullptr, nullptr, false, false};
  a.exclusive = p.c.attributes[1] != 0;
  a.reverse = p.c.attributes[2] != 0;
  // By threads where these read side by side and are many, or where a warp would have nothing to do.
  if (r.extent <= 16 || (r.inner >= 8 && r.rows() >= 4096))
    add_scan<threads>(*k, p, a, by_threads, (r.rows() + threads::threads - 1) / threads::threads);
  else if (r.extent <= 256)
    add_scan<warps>(*k, p, a, by_warps, blocks_for_teams<warps>(r.rows()));
  else
    add_scan<blocks>(*k, p, a, by_blocks, r.rows());
  return k;
}

}  // namespace detail

template <class T>
struct family_kernels<scans, T> : installed<weft::detail::prepare_cumsum<T>, detail::prepare_cumsum<T>> {};

}  // namespace weft::gpu
WEFT_COLD_END
#endif
