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

template <convolution_kind Kind>
convolution_shape shape_of_call(const prepare_context& p) {
  const auto how = attributes_of<convolution_op<float>>(p.node);  // all three operations have these, for any type
  const shape &a = p.inputs[0].extents, &b = p.inputs[1].extents, &out = p.outputs[0].extents;
  if constexpr (Kind == convolution_kind::forward) return weft::detail::convolution_of(how, a, b, out);
  if constexpr (Kind == convolution_kind::input_gradient) return weft::detail::convolution_of(how, out, a, b);
  return weft::detail::convolution_of(how, a, out, b);
}

/// The gain of cuDNN; built-in kernels take either layout.
template <class T, convolution_kind Kind, convolution_shape (*ShapeOf)(const prepare_context&) = shape_of_call<Kind>>
layout_offer convolution_with_channels_first([[maybe_unused]] const prepare_context& p, [[maybe_unused]] device& on) {
  using enum convolution_kind;
  if (p.outputs[0].extents.rank != 4) return {};  // one-dimensional
  layout_offer offer{true, 0, Kind == forward ? 2u : Kind == input_gradient ? 1u : 0u, Kind == filter_gradient};
  if (math.layouts != layout_policy::automatic) {
    offer.gain = math.layouts == layout_policy::channels_first ? layout_offer::always : -layout_offer::always;
    return offer;
  }
#if WEFT_GPU_USES_CUDNN
  if (auto* libraries = static_cast<cuda_libraries*>(on.library())) {
    const auto seconds = [&](image_layout l) {
      return cudnn_convolution_kernel::expected_seconds(*libraries, Kind, ShapeOf(p), dtype_of<T>, l,
                                                        (p.memory ? *p.memory : on).free_bytes() / 2,
                                                        on.info().multiply_adds_per_second);
    };
    const auto bounded = [](double s) { return s < layout_offer::always ? s : layout_offer::always; };
    offer.gain = bounded(seconds(image_layout::channels_last)) - bounded(seconds(image_layout::channels_first));
  }
#endif
  return offer;
}

template <class T, convolution_kind Kind, convolution_shape (*ShapeOf)(const prepare_context&)>
kernel* prepare_convolution_fused(const prepare_context& p, const product_fusion& f, device& on) {
  return make_convolution<T, Kind>(p, ShapeOf(p), f, on);
}
template <class T, convolution_kind Kind, convolution_shape (*ShapeOf)(const prepare_context&)>
kernel* prepare_convolution(const prepare_context& p, device& on) {
  return prepare_convolution_fused<T, Kind, ShapeOf>(p, {p.output_slots[0]}, on);
}

template <class Op, class T, convolution_kind Kind,
          convolution_shape (*ShapeOf)(const prepare_context&) = shape_of_call<Kind>>
bool install_convolution_kind() {
  return install<Op>({.prepare = prepare_convolution<T, Kind, ShapeOf>,
                      .prepare_fused = prepare_convolution_fused<T, Kind, ShapeOf>,
                      .channels_first = convolution_with_channels_first<T, Kind, ShapeOf>});
}

template <class T>
bool install_convolution() {
  using enum convolution_kind;
  return install_convolution_kind<convolution_op<T>, T, forward>() &&
         install_convolution_kind<convolution_input_gradient_op<T>, T, input_gradient>() &&
         install_convolution_kind<convolution_filter_gradient_op<T>, T, filter_gradient>();
}

#if !WEFT_COMPILES_FOR_GPU && WEFT_GPU_USES_CUDNN
inline const bool convolution_is_installed =
    install_convolution<float>() && install_convolution<half>() && install_convolution<bfloat16>();
#endif

}  // namespace WEFT_GPU_FILE

#if WEFT_COMPILES_FOR_GPU
template <class T>
struct kernels<convolution_op<T>> : kernels<moves<T>> {
  kernels() { install_convolution<T>(); }
};
#endif

}  // namespace weft::gpu

#pragma pop_macro("slots")
