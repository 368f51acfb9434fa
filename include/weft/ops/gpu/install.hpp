// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/each.hpp>
#include <weft/device/gpu/launch_kernel.hpp>
#include <weft/ops/operation.hpp>

// The libraries that the kernels of this file use: none in an emulation.
#if defined(WEFT_HAS_CUBLASLT) && !defined(WEFT_GPU_EMULATION)
  #define WEFT_GPU_USES_CUBLASLT 1
#else
  #define WEFT_GPU_USES_CUBLASLT 0
#endif
#if defined(WEFT_HAS_CUDNN) && !defined(WEFT_GPU_EMULATION)
  #define WEFT_GPU_USES_CUDNN 1
#else
  #define WEFT_GPU_USES_CUDNN 0
#endif

namespace weft::gpu {
inline namespace WEFT_GPU_FILE {

/// Registers the GPU preparation of an operation. If two files register one, the file compiled for GPUs wins, since it
/// has kernels in addition to all that the other file has.
template <class Op>
bool install(const preparation& how) {
  preparation& slot = preparation_of<Op>;
  if (WEFT_COMPILES_FOR_GPU || !slot.prepare) slot = how;
  return true;
}

template <class Op, kernel* (*Prepare)(const prepare_context&, device&)>
struct installed {
  installed() { install<Op>({.prepare = Prepare}); }
};

#if WEFT_COMPILES_FOR_GPU
/// Adds a launch that runs `work(0)` ... `work(n - 1)` in any order. `pointers` are the members of the work to which
/// each step assigns the addresses of the operands and then those of the results; nullptr skips one. Returns null if
/// n is 0.
template <unsigned Threads = 256, class Work, class... Pointers>
launch_kernel::launch* add_each(launch_kernel& k, const prepare_context& p, const Work& work, std::size_t n,
                                Pointers... pointers) {
  if (n == 0) return nullptr;
  const each<Work, Threads> body{work, n};
  auto& l = add_body(k, body, function_of<each<Work, Threads>>(p.node.op->name), body.blocks());
  std::size_t i = 0;
  const auto point = [&](auto pointer) {
    const std::size_t operands = p.node.inputs.size();
    if constexpr (!std::is_null_pointer_v<decltype(pointer)>)
      l.point(offset_in(body, body.work.*pointer), i < operands ? p.input_slots[i] : p.output_slots[i - operands]);
    ++i;
  };
  (point(pointers), ...);
  return &l;
}
/// Returns a kernel of one such launch.
template <unsigned Threads = 256, class Work, class... Pointers>
launch_kernel* make_each(const prepare_context& p, std::string description, const Work& work, std::size_t n,
                         Pointers... pointers) {
  auto* k = new launch_kernel(static_cast<std::string&&>(description));
  add_each<Threads>(*k, p, work, n, pointers...);
  return k;
}
#endif

}  // namespace WEFT_GPU_FILE
}  // namespace weft::gpu
