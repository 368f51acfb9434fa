#pragma once

#include <weft/device/gpu/window_kernels.hpp>
#include <weft/ops/convolution.hpp>
#include <weft/ops/gpu/epilogue.hpp>
#include <weft/ops/gpu/install.hpp>
#if WEFT_GPU_USES_CUDNN
  #include <weft/device/gpu/convolution_cudnn.hpp>
#endif

/// Convolutions on GPUs: cuDNN where the device has it, else plain kernels.
namespace weft::gpu {
inline namespace WEFT_GPU_FILE {

template <class T, convolution_kind Kind>
kernel* make_convolution(const prepare_context& p, const convolution_shape& s, const product_fusion& f,
                         [[maybe_unused]] device& on) {
  owned<kernel> after(f.epilogue);
  const std::uint32_t a = p.input_slots[0], b = p.input_slots[1];
#if WEFT_GPU_USES_CUDNN
  if (auto* libraries = static_cast<cuda_libraries*>(on.library())) {
    const known_epilogue e = recognise_epilogue<T>(f.following, f.result, s.filters);
    cudnn_convolution_kernel::epilogue then{e.known && e.has_bias, e.relu, static_cast<owned<kernel>&&>(after)};
    if (kernel* k = cudnn_convolution_kernel::make(*libraries, Kind, s, dtype_of<T>, {a, b, f.result, e.bias}, then))
      return k;
    after = static_cast<owned<kernel>&&>(then.then);
  }
#endif
#if WEFT_COMPILES_FOR_GPU
  return new direct_convolution_kernel<T, Kind>(s, a, b, f.result, after);
#else
  throw error(error_code::unimplemented, p.c.op->name,
              "cuDNN has no algorithm for it, and no file of this program is compiled for GPUs");
#endif
}

template <class T>
kernel* prepare_convolution_fused(const prepare_context& p, const product_fusion& f, device& on) {
  const auto s = weft::detail::convolution_of(p.c, p.inputs[0].extents, p.inputs[1].extents, p.outputs[0].extents);
  return make_convolution<T, convolution_kind::forward>(p, s, f, on);
}
template <class T>
kernel* prepare_convolution(const prepare_context& p, device& on) {
  return prepare_convolution_fused<T>(p, {p.output_slots[0]}, on);
}
template <class T>
kernel* prepare_convolution_input_gradient(const prepare_context& p, device& on) {
  const auto s = weft::detail::convolution_of(p.c, p.outputs[0].extents, p.inputs[0].extents, p.inputs[1].extents);
  return make_convolution<T, convolution_kind::input_gradient>(p, s, {p.output_slots[0]}, on);
}
template <class T>
kernel* prepare_convolution_filter_gradient(const prepare_context& p, device& on) {
  const auto s = weft::detail::convolution_of(p.c, p.inputs[0].extents, p.outputs[0].extents, p.inputs[1].extents);
  return make_convolution<T, convolution_kind::filter_gradient>(p, s, {p.output_slots[0]}, on);
}

template <class T>
bool install_convolution() {
  namespace d = weft::detail;
  return install<d::prepare_convolution<T>>(
             {.prepare = prepare_convolution<T>, .prepare_fused = prepare_convolution_fused<T>}) &&
         install<d::prepare_convolution_input_gradient<T>>({.prepare = prepare_convolution_input_gradient<T>}) &&
         install<d::prepare_convolution_filter_gradient<T>>({.prepare = prepare_convolution_filter_gradient<T>});
}

#if !WEFT_COMPILES_FOR_GPU && WEFT_GPU_USES_CUDNN
inline const bool convolution_is_installed = install_convolution<float>();
#endif

}  // namespace WEFT_GPU_FILE

#if WEFT_COMPILES_FOR_GPU
template <class T>
struct family_kernels<convolutions, T> {
  family_kernels() { install_convolution<T>(); }
};
#endif

}  // namespace weft::gpu
