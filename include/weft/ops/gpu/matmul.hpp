// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/matmul_tiled.hpp>
#include <weft/ops/gpu/epilogue.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/products/matmul.hpp>
#include <weft/tensor/owned.hpp>
#if WEFT_GPU_USES_CUBLASLT
  #include <weft/device/gpu/matmul_cublaslt.hpp>
#endif

/// GPU kernels of matrix products: cuBLASLt if available, otherwise a built-in kernel.
namespace weft::gpu {
inline namespace WEFT_GPU_FILE {

template <class T>
kernel* make_product(const prepare_context& p, const product_fusion& f, [[maybe_unused]] device& on) {
  owned<kernel> after(f.epilogue);
  const matmul_batch s = weft::detail::product_of(p, attributes_of<matmul_op<T>>(p.node));
  const std::uint32_t a = p.input_slots[0], b = p.input_slots[1];
#if WEFT_GPU_USES_CUBLASLT
  if (auto* libraries = static_cast<cuda_libraries*>(on.library())) {
    const bool tf32 = math.allow_tf32 && dtype_of<T> == dtype::float32;
    cublaslt_problem problem{s.each, dtype_of<T>, matmul_epilogue::none, f.accumulate, tf32, math.workspace_bytes};
    problem.batch = s.count;
    const known_epilogue e = recognise_epilogue<T>(f.following, f.result, static_cast<std::int64_t>(s.each.n));
    if (e.known && (!e.relu || math.fuse_relu) && (!e.has_bias || s.count == 1)) {
      problem.epilogue = !e.relu      ? matmul_epilogue::bias
                         : e.has_bias ? matmul_epilogue::bias_relu
                                      : matmul_epilogue::relu;
      owned<kernel> nothing_left;
      if (kernel* k = cublaslt_kernel::make(*libraries, problem, {a, b, f.result, e.bias}, f.factor, nothing_left))
        return k;
      problem.epilogue = matmul_epilogue::none;
    }
    if (kernel* k = cublaslt_kernel::make(*libraries, problem, {a, b, f.result}, f.factor, after)) return k;
  }
#endif
#if WEFT_COMPILES_FOR_GPU
  return new tiled_matmul_kernel<T>(s, a, b, f.result, static_cast<accumulator<T>>(f.factor), f.accumulate ? 1 : 0,
                                    after);
#else
  throw error(error_code::unimplemented, "matmul",
              "cuBLASLt has no algorithm for it, and no file of this program is compiled for GPUs");
#endif
}

template <class T>
kernel* prepare_matmul(const prepare_context& p, device& on) {
  return make_product<T>(p, {p.output_slots[0]}, on);
}

template <class T>
bool install_matmul() {
  return install<matmul_op<T>>({.prepare = prepare_matmul<T>, .prepare_fused = make_product<T>});
}

#if !WEFT_COMPILES_FOR_GPU && WEFT_GPU_USES_CUBLASLT
inline const bool matmul_is_installed =
    install_matmul<float>() && install_matmul<double>() && install_matmul<half>() && install_matmul<bfloat16>();
#endif

}  // namespace WEFT_GPU_FILE

#if WEFT_COMPILES_FOR_GPU
template <class T>
struct kernels<matmul_op<T>> {
  kernels() { install_matmul<T>(); }
};
// nvcc prints an element type in the form in which it first occurred, and cannot print the names of extents. These
// lines make the first occurrence plain.
static_assert(sizeof(matmul_op<float>) + sizeof(matmul_op<double>) + sizeof(matmul_op<half>) +
              sizeof(matmul_op<bfloat16>));
#endif

}  // namespace weft::gpu
