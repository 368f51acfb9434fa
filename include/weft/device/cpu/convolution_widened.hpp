// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/device/convolution.hpp>
#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/cpu/loop_kernel.hpp>
#include <weft/device/cpu/widen.hpp>
#include <weft/device/kernel.hpp>
#include <weft/tensor/dtype.hpp>
#include <weft/tensor/host_memory.hpp>

WEFT_COLD_BEGIN
namespace weft::device {

/// A convolution of half or bfloat16, or one of its gradients, by the kernels for float: some images at a time are
/// widened, convolved, and rounded. The gradient of the filters is summed over all images in float and rounded once.
/// The epilogue reads rounded values, as it would in a separate kernel. The division of the batch depends only on the
/// shape.
template <class T>
class widened_convolution_kernel final : public kernel {
 public:
  using kind = convolution_kind;

  /// `of_floats` creates a kernel that reads slots 0 and 1 and writes slot 2: images, filters and result; filters,
  /// upstream gradient and images; or images, upstream gradient and filters. Takes ownership of the epilogue.
  widened_convolution_kernel(kind k, const convolution_shape& s, std::uint32_t a, std::uint32_t b, std::uint32_t out,
                             bool zeros_arrive, epilogue_kernel* epilogue,
                             kernel* (*of_floats)(kind, const convolution_shape&, bool zeros_arrive))
      : kind_(k), batch_(static_cast<std::size_t>(s.batch)), slots_{a, b, out}, epilogue_(epilogue) {
    const std::size_t image = s.image_elements(), result = s.out_elements(), filters = s.filter_elements();
    // From 8 to 16 MB of images and results at a time, or four to seven images, which libraries divide.
    const std::size_t fits = (std::size_t{1} << 21) / (image + result + 1), least = fits < 4 ? 4 : fits;
    parts_ = batch_ < least ? 1 : batch_ / least;
    convolution_shape part = s;
    part.batch = static_cast<std::int64_t>((batch_ + parts_ - 1) / parts_);
    larger_ = of_floats(k, part, zeros_arrive);
    const std::size_t images = static_cast<std::size_t>(part.batch);
    if (batch_ % parts_ != 0) {
      --part.batch;
      smaller_ = of_floats(k, part, zeros_arrive);
    }
    if (k == kind::forward)
      of_image_[0] = image, whole_[1] = filters, of_image_[2] = result;
    else if (k == kind::input_gradient)
      whole_[0] = filters, of_image_[1] = result, of_image_[2] = image;
    else
      of_image_[0] = image, of_image_[1] = result, whole_[2] = filters;
    const auto reserve = [&](std::size_t elements) {
      const std::size_t at = workspace_;
      workspace_ += (elements * sizeof(float) + alignment - 1) / alignment * alignment;
      return at;
    };
    for (int i = 0; i < 3; ++i) floats_[i] = reserve(whole_[i] + of_image_[i] * images);
    if (k == kind::filter_gradient && parts_ > 1) sums_ = reserve(filters);
    of_kernel_ = workspace_;
    const std::size_t larger = larger_->workspace_bytes(), smaller = smaller_ ? smaller_->workspace_bytes() : 0;
    workspace_ += larger > smaller ? larger : smaller;
  }
  ~widened_convolution_kernel() override {
    delete larger_;
    delete smaller_;
    delete epilogue_;
  }

  void run(const kernel_context& f) override {
    std::byte* buffers[] = {f.workspace + floats_[0], f.workspace + floats_[1], f.workspace + floats_[2]};
    const kernel_context inner{buffers, f.threads, nullptr, f.workspace + of_kernel_};
    const auto floats = [&](int i) { return reinterpret_cast<float*>(buffers[i]); };
    float* const sums = reinterpret_cast<float*>(f.workspace + sums_);
    for (int i = 0; i < 2; ++i)
      if (whole_[i]) weft::detail::widen(whole_[i], at(f, i), floats(i), f.threads);
    for (std::size_t p = 0; p < parts_; ++p) {
      const std::size_t begin = batch_ * p / parts_, end = batch_ * (p + 1) / parts_, images = end - begin;
      for (int i = 0; i < 2; ++i)
        if (of_image_[i])
          weft::detail::widen(images * of_image_[i], at(f, i) + begin * of_image_[i], floats(i), f.threads);
      (smaller_ && images < batch_ / parts_ + 1 ? smaller_ : larger_)->run(inner);
      if (kind_ == kind::filter_gradient) {
        if (parts_ > 1) add(sums, floats(2), p == 0);
      } else {
        weft::detail::narrow(images * of_image_[2], floats(2), at(f, 2) + begin * of_image_[2], f.threads);
        if (epilogue_ && images != 0) epilogue_->run_part(f, begin, end, batch_);
      }
    }
    if (kind_ == kind::filter_gradient)
      weft::detail::narrow(whole_[2], parts_ > 1 ? sums : floats(2), at(f, 2), f.threads);
  }

  std::size_t workspace_bytes() const override { return workspace_; }
  std::size_t memory_bytes() const override {
    return larger_->memory_bytes() + (smaller_ ? smaller_->memory_bytes() : 0) +
           (epilogue_ ? epilogue_->memory_bytes() : 0);
  }
  std::string describe() const override {
    std::string text = str_cat({name(dtype_of<T>), " in float, "});
    if (parts_ > 1) append(text, {"in ", parts_, " parts as "});
    append(text, {larger_->describe()});
    if (epilogue_) append(text, {", then ", epilogue_->describe()});
    return text;
  }

 private:
  T* at(const kernel_context& f, int i) const { return reinterpret_cast<T*>(f.buffers[slots_[i]]); }

  void add(float* to, const float* from, bool first) const {
    if (first) {
      __builtin_memcpy(to, from, whole_[2] * sizeof(float));
      return;
    }
    multiversioned_up_to_avx2([to, from, n = whole_[2]] {
      WEFT_VECTORIZE
      for (std::size_t i = 0; i < n; ++i) to[i] += from[i];
    });
  }

  kind kind_;
  std::size_t batch_, parts_;
  std::uint32_t slots_[3];
  epilogue_kernel* epilogue_;
  kernel *larger_, *smaller_ = nullptr;
  // The elements of each operand for one image, and of the operand that all images share.
  std::size_t of_image_[3] = {}, whole_[3] = {};
  std::size_t workspace_ = 0;                     // in bytes
  std::size_t floats_[3], sums_ = 0, of_kernel_;  // offsets in the workspace
};

}  // namespace weft::device

WEFT_COLD_END
