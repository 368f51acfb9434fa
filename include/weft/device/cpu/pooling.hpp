// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include <weft/device/convolution.hpp>
#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/cpu/loop_kernel.hpp>
#include <weft/device/cpu/pool_image.hpp>
#include <weft/device/cpu/widen.hpp>
#include <weft/device/kernel.hpp>
#include <weft/tensor/dtype.hpp>
#include <weft/tensor/sequence.hpp>

namespace weft::device {

/// A pool, divided by rows of its result, or its gradient, divided by images. half and bfloat16 are computed image by
/// image in float and rounded once. A following gradient runs on a few images at a time while they are in the cache.
template <class T, pool_kind Kind>
class pooling_kernel final : public kernel {
 public:
  /// Takes ownership of the epilogue, a kernel that reads the result and writes it in place.
  pooling_kernel(const convolution_shape& s, std::uint32_t a, std::uint32_t b, std::uint32_t out,
                 epilogue_kernel* epilogue = nullptr)
      : shape_(s), a_(a), b_(b), out_(out), epilogue_(epilogue) {
    const auto items = static_cast<std::size_t>(by_rows ? s.batch * s.out_height : s.batch);
    chunks_ = static_cast<std::size_t>(s.batch) * s.image_elements() / 32768 + 1;
    constexpr std::size_t most = is_storage_type<T> ? 16 : 64;
    if (chunks_ > most) chunks_ = most;
    if (chunks_ > items) chunks_ = items;
    if (is_storage_type<T>) floats_.resize(chunks_ * floats_of_image());
    in_pieces_ = epilogue_ && epilogue_->prepare_pieces(chunks_);
  }
  ~pooling_kernel() override { delete epilogue_; }

  void run(const kernel_context& f) override {
    const T* const a = reinterpret_cast<const T*>(f.buffers[a_]);
    const T* const b = reinterpret_cast<const T*>(f.buffers[b_]);
    T* const out = reinterpret_cast<T*>(f.buffers[out_]);
    if constexpr (by_rows)
      run_rows(f, a, b, out);
    else
      run_images(f, a, b, out);
  }

  std::size_t memory_bytes() const override {
    return floats_.memory_bytes() + (epilogue_ ? epilogue_->memory_bytes() : 0);
  }
  std::string describe() const override {
    constexpr const char* names[] = {"max pool", "gradient of max pool", "choice of max pool", "average pool",
                                     "gradient of average pool"};
    std::string text = str_cat({names[static_cast<int>(Kind)], " ", shape_.batch, "x", shape_.height, "x", shape_.width,
                                "x", shape_.channels, shape_.is_adaptive() ? " to " : " by ",
                                shape_.is_adaptive() ? shape_.out_height : shape_.window_height, "x",
                                shape_.is_adaptive() ? shape_.out_width : shape_.window_width});
    if (epilogue_) append(text, {", then ", epilogue_->describe()});
    return text;
  }

 private:
  static constexpr bool spreads = Kind == pool_kind::max_gradient || Kind == pool_kind::average_gradient;
  static constexpr bool by_rows = !spreads && !is_storage_type<T>;
  static constexpr bool reads_b = Kind == pool_kind::max_gradient || Kind == pool_kind::max_choice;

  // The numbers of elements in one image.
  std::size_t a_elements() const {
    return Kind == pool_kind::average_gradient ? shape_.out_elements() : shape_.image_elements();
  }
  std::size_t b_elements() const {
    return Kind == pool_kind::max_choice ? shape_.image_elements() : shape_.out_elements();
  }
  std::size_t elements() const { return spreads ? shape_.image_elements() : shape_.out_elements(); }
  std::size_t floats_of_image() const { return a_elements() + elements() + (reads_b ? b_elements() : 0); }

  void run_images(const kernel_context& f, const T* a, const T* b, T* out) {
    const auto images = static_cast<std::size_t>(shape_.batch);
    const auto chunk = [&](std::size_t c) {
      for (std::size_t n = images * c / chunks_; n < images * (c + 1) / chunks_; ++n)
        run_image(a + n * a_elements(), b + n * b_elements(), out + n * elements(), c);
      if (in_pieces_) epilogue_->run_piece(f, c, images * c / chunks_, images * (c + 1) / chunks_, images);
    };
    if (in_pieces_) epilogue_->clear_pieces(f);
    if (chunks_ == 1)
      chunk(0);
    else
      f.threads->parallel_for(chunks_, chunk);
    if (in_pieces_)
      epilogue_->merge_pieces(f, chunks_);
    else if (epilogue_)
      epilogue_->run(f);
  }

  /// Processes rows of windows, counted over all images.
  void run_rows(const kernel_context& f, const T* a, const T* b, T* out) {
    const auto height = static_cast<std::size_t>(shape_.out_height),
               rows = static_cast<std::size_t>(shape_.batch) * height;
    const auto chunk = [&](std::size_t c) {
      const std::size_t last = rows * (c + 1) / chunks_;
      for (std::size_t r = rows * c / chunks_, next; r < last; r = next) {
        const std::size_t n = r / height;
        next = (n + 1) * height < last ? (n + 1) * height : last;
        multiversioned_up_to_avx2(detail::pool_image<T, Kind>{
            shape_, a + n * a_elements(), b + n * b_elements(), out + n * elements(),
            static_cast<std::int64_t>(r - n * height), static_cast<std::int64_t>(next - n * height)});
      }
    };
    if (chunks_ == 1)
      chunk(0);
    else
      f.threads->parallel_for(chunks_, chunk);
  }

  void run_image(const T* a, const T* b, T* out, std::size_t chunk) {
    if constexpr (is_storage_type<T>) {
      float* const wide_a = floats_.data() + chunk * floats_of_image();
      float *const wide_out = wide_a + a_elements(), *const wide_b = wide_out + elements();
      weft::detail::widen(a_elements(), a, wide_a, nullptr);
      if (reads_b) weft::detail::widen(b_elements(), b, wide_b, nullptr);
      multiversioned_up_to_avx2(
          detail::pool_image<float, Kind>{shape_, wide_a, wide_b, wide_out, 0, shape_.out_height});
      weft::detail::narrow(elements(), wide_out, out, nullptr);
    } else {
      multiversioned_up_to_avx2(detail::pool_image<T, Kind>{shape_, a, b, out, 0, shape_.out_height});
    }
  }

  convolution_shape shape_;
  std::uint32_t a_, b_, out_;
  epilogue_kernel* epilogue_;
  std::size_t chunks_;
  bool in_pieces_;
  sequence<float> floats_;  // for half and bfloat16: an image for each chunk
};

}  // namespace weft::device
