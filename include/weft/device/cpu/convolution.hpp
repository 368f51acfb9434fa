#pragma once

#include <type_traits>

#include <weft/device/cpu/convolution_kernel.hpp>
#include <weft/device/cpu/convolution_sparse.hpp>
#if defined(WEFT_HAS_DNNL)
  #include <weft/device/cpu/convolution_dnnl.hpp>
#endif

// Who convolves: oneDNN, where it is there, knows the element type and has fast code for the shape; else Weft's own
// kernels.
namespace weft::device {

/// result = images convolved with filters, then the epilogue, which is taken over.
template <class T>
kernel* make_convolution(const convolution_shape& s, std::uint32_t images, std::uint32_t filters, std::uint32_t out,
                         loop_kernel* epilogue) {
#if defined(WEFT_HAS_DNNL)
  if constexpr (std::is_same_v<T, float>)
    if (kernel* k = dnnl_convolution_kernel::make(convolution_kind::forward, s, images, filters, out, epilogue))
      return k;
#endif
  return new convolution_kernel<T>(s, false, images, filters, out, epilogue);
}

namespace detail {

template <class T>
kernel* make_dense_gradient(bool of_images, const convolution_shape& s, std::uint32_t a, std::uint32_t upstream,
                            std::uint32_t out) {
#if defined(WEFT_HAS_DNNL)
  using kind = convolution_kind;
  if constexpr (std::is_same_v<T, float>)
    if (kernel* k = dnnl_convolution_kernel::make(of_images ? kind::input_gradient : kind::filter_gradient, s, a,
                                                  upstream, out, nullptr))
      return k;
#endif
  if (of_images) return new convolution_kernel<T>(s, true, upstream, a, out, nullptr);
  return new convolution_filter_gradient_kernel<T>(s, a, upstream, out);
}

template <class T>
kernel* make_gradient(bool of_images, const convolution_shape& s, std::uint32_t a, std::uint32_t upstream,
                      std::uint32_t out) {
  kernel* const dense = make_dense_gradient<T>(of_images, s, a, upstream, out);
  if (!sparse_convolution_kernel<T>::handles(s)) return dense;
  return new sparse_convolution_kernel<T>(s, of_images, a, upstream, out, dense);
}

}  // namespace detail

template <class T>
kernel* make_convolution_input_gradient(const convolution_shape& s, std::uint32_t filters, std::uint32_t upstream,
                                        std::uint32_t out) {
  return detail::make_gradient<T>(true, s, filters, upstream, out);
}

template <class T>
kernel* make_convolution_filter_gradient(const convolution_shape& s, std::uint32_t images, std::uint32_t upstream,
                                         std::uint32_t out) {
  return detail::make_gradient<T>(false, s, images, upstream, out);
}

}  // namespace weft::device
