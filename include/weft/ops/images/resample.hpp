// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/ops/cpu/resample.hpp>
#include <weft/ops/eager.hpp>

/// The operation of resize_bilinear, resize_bicubic and resize_area (ops/images/resize.hpp).
WEFT_COLD_BEGIN
namespace weft {

namespace detail {

struct resample_attributes {
  attribute<std::size_t> axis;
  attribute<device::resize_filter> filter;
  attribute<resize_coordinates> how;
  attribute<bool> transposed;
};

/// Returns the resampling of a call. Throws out_of_range if pixels are requested from an axis without pixels.
inline device::resampling resampling_of(const prepare_context& p, const resample_attributes& a) {
  const std::int64_t from = p.inputs[0].extents[a.axis], to = p.outputs[0].extents[a.axis];
  const device::resampling r{a.filter, a.how, a.transposed ? to : from, a.transposed ? from : to};
  if (r.in == 0 && r.out > 0)
    throw error(error_code::out_of_range, "resize", {"images need at least one pixel to be resized to ", r.out});
  return r;
}

}  // namespace detail

/// Resamples along an axis. The extents determine the weights. The transpose is the gradient.
template <class T>
struct resample_op {
  static constexpr const char* name = "resample";
  static constexpr const char* onnx = "resample()";
  using attributes = detail::resample_attributes;

  static kernel* prepare(const prepare_context& p, const attributes& a) {
    return new detail::resample_kernel<T>(p, a.axis, detail::resampling_of(p, a), a.transposed);
  }
  static void gradient(gradient_context& g, attributes a) {
    a.transposed = !a.transposed;
    g.set_gradient(0, record<resample_op>({g.upstream()}, g.input(0).info(), a));
  }
};

}  // namespace weft
WEFT_COLD_END

#if WEFT_COMPILES_FOR_GPU
  #include <weft/ops/gpu/resample.hpp>
#endif
