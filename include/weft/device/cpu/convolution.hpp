// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <type_traits>

#include <weft/device/cpu/convolution_kernel.hpp>
#include <weft/device/cpu/convolution_sparse.hpp>
#include <weft/device/cpu/convolution_widened.hpp>
#if defined(WEFT_HAS_DNNL)
  #include <weft/device/cpu/convolution_dnnl.hpp>
#endif

// Chooses oneDNN if it is linked, supports the element type and has fast code for the shape, and Weft's own kernels
// otherwise. half, and bfloat16 on most processors, are convolved in float.
namespace weft::device {

namespace detail {

template <class T>
kernel* make_convolution(convolution_kind, const convolution_shape&, std::uint32_t a, std::uint32_t b,
                         std::uint32_t out, bool zeros_arrive, epilogue_kernel* epilogue = nullptr,
                         const content_version* filters = nullptr);

// A template, so that a program without convolutions compiles none.
template <class T>
kernel* make_convolution_of(convolution_kind k, const convolution_shape& s, bool zeros_arrive) {
  return make_convolution<T>(k, s, 0, 1, 2, zeros_arrive);
}

template <class T>
kernel* make_dense_convolution(convolution_kind k, const convolution_shape& s, std::uint32_t a, std::uint32_t b,
                               std::uint32_t out, [[maybe_unused]] bool zeros_arrive, epilogue_kernel* epilogue,
                               [[maybe_unused]] const content_version* filters) {
#if defined(WEFT_HAS_DNNL)
  constexpr bool is_float = std::is_same_v<T, float>;
  if constexpr (is_float || std::is_same_v<T, bfloat16>)
    if (kernel* fast = is_float || weft::detail::dnnl_multiplies_bfloat16_fast()
                           ? dnnl_convolution_kernel::make(k, dtype_of<T>, s, a, b, out, epilogue, filters)
                           : nullptr)
      return fast;
#endif
  if constexpr (is_storage_type<T>) {
    return new widened_convolution_kernel<T>(k, s, a, b, out, zeros_arrive, epilogue, make_convolution_of<float>);
  } else {
    if (k == convolution_kind::filter_gradient) return new convolution_filter_gradient_kernel<T>(s, a, b, out);
    if (k == convolution_kind::input_gradient) return new convolution_kernel<T>(s, true, b, a, out, nullptr);
    return new convolution_kernel<T>(s, false, a, b, out, epilogue);
  }
}

/// `a` and `b` are images and filters, filters and upstream gradient, or images and upstream gradient. `zeros_arrive`:
/// true if the upstream gradient may consist mostly of zeros. Takes ownership of the epilogue. `filters`: the version
/// of the filters that are read, if they have one (prepare_context::version_of).
template <class T>
kernel* make_convolution(convolution_kind k, const convolution_shape& s, std::uint32_t a, std::uint32_t b,
                         std::uint32_t out, bool zeros_arrive, epilogue_kernel* epilogue,
                         const content_version* filters) {
  kernel* const dense = make_dense_convolution<T>(k, s, a, b, out, zeros_arrive, epilogue, filters);
  if constexpr (!is_storage_type<T>)
    if (zeros_arrive && sparse_convolution_kernel<T>::handles(s)) {
      const bool of_images = k == convolution_kind::input_gradient;
      return new sparse_convolution_kernel<T>(s, of_images, a, b, out, dense);
    }
  return dense;
}

}  // namespace detail

using detail::make_convolution;

}  // namespace weft::device
