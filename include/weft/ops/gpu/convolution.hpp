// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/device/gpu/math_policy.hpp>
#include <weft/device/gpu/window_kernels.hpp>
#include <weft/ops/gpu/box_copies.hpp>
#include <weft/ops/gpu/epilogue.hpp>
#include <weft/ops/gpu/install.hpp>
#include <weft/ops/images/convolution.hpp>
#include <weft/tensor/owned.hpp>
#if WEFT_GPU_USES_CUDNN
  #include <weft/device/gpu/convolution_cudnn.hpp>
#endif

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

/// GPU kernels of convolutions: cuDNN if available, otherwise built-in kernels.
namespace weft::gpu {
inline namespace WEFT_GPU_FILE {

template <class T, convolution_kind Kind>
kernel* make_convolution(const prepare_context& p, const convolution_shape& s, const product_fusion& f,
                         [[maybe_unused]] device& on) {
  owned<kernel> after(f.epilogue);
  const std::uint32_t a = p.input_slots[0], b = p.input_slots[1];
  std::string why = "this program was built without cuDNN";
  const auto plain = [&]([[maybe_unused]] owned<kernel>& epilogue,
                         [[maybe_unused]] const std::string& reason) -> kernel* {
#if WEFT_COMPILES_FOR_GPU
    return new direct_convolution_kernel<T, Kind>(s, p.layout, a, b, f.result, epilogue, reason);
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
        static_cast<owned<kernel>&&>(after), owned<kernel>(plain(nothing, "cuDNN does not support it"))};
    const cudnn_convolution_kernel::slots where{a, b, f.result, e.bias};
    if (kernel* k = cudnn_convolution_kernel::make(*libraries, Kind, s, dtype_of<T>, p.layout, where, around, why))
      return k;
    after = static_cast<owned<kernel>&&>(around.then);
  }
#endif
  if (kernel* k = plain(after, why)) return k;
  throw error(error_code::unimplemented, p.node.op->name, why + ", and no file of this program is compiled for GPUs");
}

template <class Op>
convolution_shape shape_of_call(const prepare_context& p) {
  return weft::detail::shape_of_call<Op::kind>(p, attributes_of<Op>(p.node));
}

/// The gain of cuDNN; built-in kernels take either layout.
template <class Op>
layout_offer convolution_with_channels_first([[maybe_unused]] const prepare_context& p, [[maybe_unused]] device& on) {
  using enum convolution_kind;
  if (p.outputs[0].extents.rank != 4) return {};  // one-dimensional
  constexpr auto kind = Op::kind;
  layout_offer offer{true, 0, kind == forward ? 2u : kind == input_gradient ? 1u : 0u, kind == filter_gradient};
  if (math.layouts != layout_policy::automatic) {
    offer.gain = math.layouts == layout_policy::channels_first ? layout_offer::always : -layout_offer::always;
    return offer;
  }
#if WEFT_GPU_USES_CUDNN
  if (auto* libraries = static_cast<cuda_libraries*>(on.library())) {
    const auto seconds = [&](image_layout l) {
      return cudnn_convolution_kernel::expected_seconds(
          *libraries, kind, shape_of_call<Op>(p), dtype_of<typename Op::element>, l,
          (p.memory ? *p.memory : on).free_bytes() / 2, on.info().multiply_adds_per_second);
    };
    const auto bounded = [](double s) { return s < layout_offer::always ? s : layout_offer::always; };
    offer.gain = bounded(seconds(image_layout::channels_last)) - bounded(seconds(image_layout::channels_first));
  }
#endif
  return offer;
}

template <class Op>
kernel* prepare_convolution_fused(const prepare_context& p, const product_fusion& f, device& on) {
  return make_convolution<typename Op::element, Op::kind>(p, shape_of_call<Op>(p), f, on);
}
template <class Op>
kernel* prepare_convolution(const prepare_context& p, device& on) {
  return prepare_convolution_fused<Op>(p, {p.output_slots[0]}, on);
}

template <class... Op>
bool install_convolutions() {
  return (install<Op>({.prepare = prepare_convolution<Op>,
                       .prepare_fused = prepare_convolution_fused<Op>,
                       .channels_first = convolution_with_channels_first<Op>}) &&
          ...);
}
template <template <class, convolution_kind> class Op, class T>
bool install_convolution() {
  using enum convolution_kind;
  return install_convolutions<Op<T, forward>, Op<T, input_gradient>, Op<T, filter_gradient>>();
}

#if !WEFT_COMPILES_FOR_GPU && WEFT_GPU_USES_CUDNN
inline const bool convolution_is_installed = install_convolution<convolution_operation, float>() &&
                                             install_convolution<convolution_operation, half>() &&
                                             install_convolution<convolution_operation, bfloat16>();
#endif

}  // namespace WEFT_GPU_FILE

#if WEFT_COMPILES_FOR_GPU
template <class T>
struct kernels<convolution_op<T>> : kernels<moves<T>> {
  kernels() { install_convolution<convolution_operation, T>(); }
};
#endif

}  // namespace weft::gpu

#pragma pop_macro("slots")
