// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/cpu/slice_at.hpp>
#include <weft/ops/fused.hpp>

/// Slices that start at a computed index; see slice in ops/arrays/slice.hpp.
WEFT_COLD_BEGIN
namespace weft {

/// Takes as much of the axis as the output has. Inputs: x, and the index of the first element.
template <class T>
struct slice_at_op {
  static constexpr const char* name = "slice_at";
  static constexpr const char* onnx = "slice_at()";
  using attributes = axis_attribute;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::slice_at_kernel(p, a.axis, false);
  }
  static void gradient(gradient_context&, const attributes&);
};

/// The transpose of slice_at: places the part among zeros.
template <class T>
struct pad_at_op {
  static constexpr const char* name = "pad_at";
  using attributes = axis_attribute;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::slice_at_kernel(p, a.axis, true);
  }
  static void gradient(gradient_context& g, const attributes& a) {
    if (g.needs_gradient(0))
      g.set_gradient(0, record<slice_at_op<T>>({g.upstream(), g.input(1)}, g.input(0).info(), a));
  }
};

template <class T>
void slice_at_op<T>::gradient(gradient_context& g, const attributes& a) {
  if constexpr (is_differentiable<T>)
    if (g.needs_gradient(0)) g.set_gradient(0, record<pad_at_op<T>>({g.upstream(), g.input(1)}, g.input(0).info(), a));
}

}  // namespace weft
WEFT_COLD_END

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/slice_at.hpp>
#endif
