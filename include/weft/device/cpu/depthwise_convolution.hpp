// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include <weft/device/cpu/convolution_kernel.hpp>
#include <weft/device/cpu/depthwise_part.hpp>
#include <weft/device/kernel.hpp>

WEFT_COLD_BEGIN
namespace weft::device {

/// A depthwise convolution or one of its gradients. Threads share the rows of the output. For the filters' gradient,
/// they share the elements of the window; one thread sums each element, so the order of the sums is fixed.
template <class T, convolution_kind Kind>
class depthwise_convolution_kernel final : public kernel {
 public:
  /// Takes ownership of the epilogue, a kernel that reads the result and writes it in place.
  depthwise_convolution_kernel(const convolution_shape& s, std::uint32_t a, std::uint32_t b, std::uint32_t out,
                               epilogue_kernel* epilogue)
      : shape_(s), a_(a), b_(b), out_(out), epilogue_(epilogue) {
    using enum convolution_kind;
    const std::int64_t parts = Kind == forward          ? s.batch * s.out_height
                               : Kind == input_gradient ? s.batch * s.height
                                                        : s.window_height * s.window_width;
    parts_ = static_cast<std::size_t>(parts);
    // A chunk has enough work for a thread; the number of chunks depends only on the shape.
    const std::int64_t all = s.batch * s.out_height * s.out_width * s.window_height * s.window_width * s.filters;
    const std::size_t worth = static_cast<std::size_t>(all >> 16);
    chunks_ = worth < 1 ? 1 : worth < parts_ ? worth : parts_;
    if (parts_ == 0) chunks_ = 0;
  }
  ~depthwise_convolution_kernel() override { delete epilogue_; }

  void run(const kernel_context& f) override {
    const T* const a = reinterpret_cast<const T*>(f.buffers[a_]);
    const T* const b = reinterpret_cast<const T*>(f.buffers[b_]);
    T* const out = reinterpret_cast<T*>(f.buffers[out_]);
    const auto chunk = [&](std::size_t c) {
      for (std::size_t i = parts_ * c / chunks_; i < parts_ * (c + 1) / chunks_; ++i)
        multiversioned(detail::depthwise_part<T, Kind>{shape_, a, b, out, static_cast<std::int64_t>(i)});
    };
    if (chunks_ == 1)
      chunk(0);
    else
      f.threads->parallel_for(chunks_, chunk);
    if (epilogue_) epilogue_->run(f);
  }

  std::size_t memory_bytes() const override { return epilogue_ ? epilogue_->memory_bytes() : 0; }

  std::string describe() const override {
    using enum convolution_kind;
    std::string text =
        detail::describe_convolution(Kind == forward          ? "depthwise convolution"
                                     : Kind == input_gradient ? "depthwise convolution, gradient of images"
                                                              : "depthwise convolution, gradient of filters",
                                     shape_);
    if (epilogue_) append(text, {", then ", epilogue_->describe()});
    return text;
  }

 private:
  convolution_shape shape_;
  std::uint32_t a_, b_, out_;
  epilogue_kernel* epilogue_;
  std::size_t parts_, chunks_;
};

}  // namespace weft::device
WEFT_COLD_END
