// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <type_traits>

#include <weft/device/cpu/convolution.hpp>
#include <weft/device/cpu/depthwise_convolution.hpp>
#include <weft/device/kernel.hpp>
#include <weft/tensor/host_memory.hpp>

WEFT_COLD_BEGIN
namespace weft::device {

/// A grouped convolution, or one of its gradients: one convolution for each image and group, of copies in which a
/// group's channels are adjacent. Threads share the images; filter gradients have separate sums for each thread's
/// images, whose number depends only on the batch. half and bfloat16 are convolved and summed in float.
template <class T, convolution_kind Kind>
class grouped_convolution_kernel final : public kernel {
 public:
  /// Takes ownership of the epilogue, a kernel that reads the result and writes it in place.
  grouped_convolution_kernel(const convolution_shape& s, std::uint32_t a, std::uint32_t b, std::uint32_t out,
                             epilogue_kernel* epilogue)
      : batch_(size(s.batch)),
        groups_(size(s.groups)),
        image_{size(s.height * s.width), size(s.channels / s.groups)},
        filter_{size(s.window_height * s.window_width * (s.channels / s.groups)), size(s.filters / s.groups)},
        result_{size(s.out_height * s.out_width), size(s.filters / s.groups)},
        slots_{a, b, out},
        epilogue_(epilogue),
        lane_count_(batch_ < max_lanes ? batch_ : max_lanes) {
    convolution_shape one = s;
    one.batch = 1, one.channels /= s.groups, one.filters /= s.groups, one.groups = 1;
    const auto reserve = [&](std::size_t elements) {
      const std::size_t at = workspace_;
      workspace_ += (elements * sizeof(computed) + alignment - 1) / alignment * alignment;
      return at;
    };
    filters_ = reserve(of_filters ? 0 : groups_ * filter_.elements());
    for (std::size_t l = 0; l < lane_count_; ++l) {
      lane& to = lanes_[l];
      to.convolution = detail::make_convolution<computed>(Kind, one, 0, 1, 2, false);
      to.image = reserve(groups_ * image_.elements());
      to.result = reserve(groups_ * result_.elements());
      to.filter = reserve(of_filters ? filter_.elements() : 0);
      to.sums = reserve(of_filters ? groups_ * filter_.elements() : 0);
      to.inner = workspace_;
      workspace_ += (to.convolution->workspace_bytes() + alignment - 1) / alignment * alignment;
    }
  }
  ~grouped_convolution_kernel() override {
    for (lane& l : lanes_) delete l.convolution;
    delete epilogue_;
  }

  void run(const kernel_context& f) override {
    const T* const a = reinterpret_cast<const T*>(f.buffers[slots_[0]]);
    const T* const b = reinterpret_cast<const T*>(f.buffers[slots_[1]]);
    T* const out = reinterpret_cast<T*>(f.buffers[slots_[2]]);
    if constexpr (!of_filters) split(Kind == convolution_kind::forward ? b : a, at(f, filters_), filter_);
    f.threads->parallel_for(lane_count_, [&](std::size_t l) {
      const std::size_t first = batch_ * l / lane_count_, last = batch_ * (l + 1) / lane_count_;
      for (std::size_t n = first; n < last; ++n) convolve(f, a, b, out, lanes_[l], n, n == first);
    });
    if constexpr (of_filters) {
      if (batch_ == 0) {
        for (std::size_t i = 0; i < groups_ * filter_.elements(); ++i) out[i] = static_cast<T>(0);
        return;
      }
      computed* const sums = at(f, lanes_[0].sums);
      for (std::size_t l = 1; l < lane_count_; ++l) {
        const computed* const more = at(f, lanes_[l].sums);
        for (std::size_t i = 0; i < groups_ * filter_.elements(); ++i) sums[i] += more[i];
      }
      join(sums, out, filter_);
    }
    if (epilogue_) epilogue_->run(f);
  }

  std::size_t workspace_bytes() const override { return workspace_; }
  std::size_t memory_bytes() const override {
    std::size_t bytes = epilogue_ ? epilogue_->memory_bytes() : 0;
    for (std::size_t l = 0; l < lane_count_; ++l) bytes += lanes_[l].convolution->memory_bytes();
    return bytes;
  }
  std::string describe() const override {
    std::string text = str_cat({batch_, " images in ", groups_, " groups"});
    if (lane_count_ > 0) append(text, {", each ", lanes_[0].convolution->describe()});
    if (epilogue_) append(text, {", then ", epilogue_->describe()});
    return text;
  }

 private:
  using computed = std::conditional_t<is_storage_type<T>, float, T>;
  static constexpr bool of_filters = Kind == convolution_kind::filter_gradient;
  static constexpr std::size_t max_lanes = 16;

  /// One group's part of an operand.
  struct part {
    std::size_t rows, width;
    std::size_t elements() const { return rows * width; }
  };
  /// Convolves some of the images, one after another; the numbers are the offsets of its copies in the workspace.
  struct lane {
    kernel* convolution = nullptr;
    std::size_t image = 0, result = 0, filter = 0, sums = 0, inner = 0;
  };

  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
  static computed* at(const kernel_context& f, std::size_t offset) {
    return reinterpret_cast<computed*>(f.workspace + offset);
  }

  void convolve(const kernel_context& f, const T* a, const T* b, T* out, const lane& by, std::size_t n, bool is_first) {
    using enum convolution_kind;
    const std::size_t image = n * groups_ * image_.elements(), result = n * groups_ * result_.elements();
    if constexpr (Kind != input_gradient) split(a + image, at(f, by.image), image_);
    if constexpr (Kind != forward) split(b + result, at(f, by.result), result_);
    for (std::size_t g = 0; g < groups_; ++g) {
      computed* const of_image = at(f, by.image) + g * image_.elements();
      computed* const of_result = at(f, by.result) + g * result_.elements();
      computed* const filter = of_filters ? at(f, by.filter) : at(f, filters_) + g * filter_.elements();
      std::byte* const buffers[] = {reinterpret_cast<std::byte*>(Kind == input_gradient ? filter : of_image),
                                    reinterpret_cast<std::byte*>(Kind == forward ? filter : of_result),
                                    reinterpret_cast<std::byte*>(Kind == forward          ? of_result
                                                                 : Kind == input_gradient ? of_image
                                                                                          : filter)};
      by.convolution->run({buffers, f.threads, nullptr, f.workspace + by.inner});
      if constexpr (of_filters) {
        computed* const sums = at(f, by.sums) + g * filter_.elements();
        for (std::size_t i = 0; i < filter_.elements(); ++i) sums[i] = is_first ? filter[i] : sums[i] + filter[i];
      }
    }
    if constexpr (Kind == forward) join(at(f, by.result), out + result, result_);
    if constexpr (Kind == input_gradient) join(at(f, by.image), out + image, image_);
  }

  static void copy(computed* to, const T* from, std::size_t n) {
    if constexpr (is_storage_type<T>)
      for (std::size_t k = 0; k < n; ++k) to[k] = static_cast<computed>(from[k]);
    else
      __builtin_memcpy(to, from, n * sizeof(T));
  }
  static void copy_back(T* to, const computed* from, std::size_t n) {
    if constexpr (is_storage_type<T>)
      for (std::size_t k = 0; k < n; ++k) to[k] = static_cast<T>(from[k]);
    else
      __builtin_memcpy(to, from, n * sizeof(T));
  }
  /// Convert between rows that contain all groups and consecutive groups.
  void split(const T* from, computed* to, const part& p) const {
    for (std::size_t r = 0; r < p.rows; ++r)
      for (std::size_t g = 0; g < groups_; ++g, from += p.width) copy(to + (g * p.rows + r) * p.width, from, p.width);
  }
  void join(const computed* from, T* to, const part& p) const {
    for (std::size_t r = 0; r < p.rows; ++r)
      for (std::size_t g = 0; g < groups_; ++g, to += p.width)
        copy_back(to, from + (g * p.rows + r) * p.width, p.width);
  }

  std::size_t batch_, groups_;
  part image_, filter_, result_;
  std::uint32_t slots_[3];
  epilogue_kernel* epilogue_;
  std::size_t lane_count_;
  std::size_t workspace_ = 0, filters_ = 0;  // its size in bytes; the offset of the copied filters
  lane lanes_[max_lanes];
};

/// `a` and `b` are images and filters, filters and upstream gradient, or images and upstream gradient. Takes ownership
/// of the epilogue of a forward convolution.
template <class T, convolution_kind Kind>
kernel* make_grouped_convolution(const convolution_shape& s, std::uint32_t a, std::uint32_t b, std::uint32_t out,
                                 epilogue_kernel* epilogue = nullptr) {
  if constexpr (!is_storage_type<T>)
    if (s.groups == s.channels) return new depthwise_convolution_kernel<T, Kind>(s, a, b, out, epilogue);
  return new grouped_convolution_kernel<T, Kind>(s, a, b, out, epilogue);
}

}  // namespace weft::device
WEFT_COLD_END
