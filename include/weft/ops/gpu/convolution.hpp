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
  std::string why = "this program has no cuDNN";
  const auto plain = [&]([[maybe_unused]] owned<kernel>& epilogue,
                         [[maybe_unused]] const std::string& reason) -> kernel* {
#if WEFT_COMPILES_FOR_GPU
    return new direct_convolution_kernel<T, Kind>(s, a, b, f.result, epilogue, reason);
#else
    return nullptr;
#endif
  };
#if WEFT_GPU_USES_CUDNN
  if (auto* libraries = static_cast<cuda_libraries*>(on.library())) {
    const known_epilogue e = recognise_epilogue<T>(f.following, f.result, s.filters);
    owned<kernel> nothing;
    cudnn_convolution_kernel::surroundings around{
        (p.memory ? *p.memory : on).free_bytes() / 2, e.known && e.has_bias && (!e.relu || math.fuse_relu), e.relu,
        static_cast<owned<kernel>&&>(after), owned<kernel>(plain(nothing, "cuDNN refuses it"))};
    const cudnn_convolution_kernel::slots where{a, b, f.result, e.bias};
    if (kernel* k = cudnn_convolution_kernel::make(*libraries, Kind, s, dtype_of<T>, where, around, why)) return k;
    after = static_cast<owned<kernel>&&>(around.then);
  }
#endif
  if (kernel* k = plain(after, why)) return k;
  throw error(error_code::unimplemented, p.c.op->name, why + ", and no file of this program is compiled for GPUs");
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
