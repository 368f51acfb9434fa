// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include <weft/device/convolution.hpp>
#include <weft/device/cpu/convolution_reference.hpp>
#include <weft/device/cpu/loop_kernel.hpp>
#include <weft/device/kernel.hpp>
#include <weft/tensor/sequence.hpp>
#include <weft/tensor/storage.hpp>

namespace weft::device {

namespace detail {

inline std::string describe_convolution(const char* what, const convolution_shape& s) {
  std::string text = str_cat({what, " ", s.batch, "x", s.height, "x", s.width, "x", s.channels, " by ", s.window_height,
                              "x", s.window_width, "x", s.filters});
  if (s.stride_height != 1 || s.stride_width != 1) append(text, {" stride ", s.stride_height, "x", s.stride_width});
  if (s.dilation_height != 1 || s.dilation_width != 1)
    append(text, {" dilation ", s.dilation_height, "x", s.dilation_width});
  return text;
}

inline std::size_t multiply_adds(const convolution_shape& s) {
  return static_cast<std::size_t>(s.batch * s.out_height * s.out_width) * s.filter_elements();
}

// The work that justifies a separate chunk. Depends only on the shape, like every division of work.
inline constexpr std::size_t convolution_chunk = std::size_t{1} << 21;

inline std::size_t between(std::size_t least, std::size_t n, std::size_t most) {
  return n > most ? most : n < least ? least : n;
}

}  // namespace detail

/// A convolution by Weft's own kernels, or the gradient of its images. The latter is a convolution of the upstream
/// gradient, with its pixels spread by the stride, with reversed filters.
template <class T>
class convolution_kernel final : public kernel {
 public:
  /// Takes ownership of the epilogue, a kernel that reads the result and writes it in place.
  convolution_kernel(const convolution_shape& s, bool gradient, std::uint32_t in, std::uint32_t filters,
                     std::uint32_t out, epilogue_kernel* epilogue)
      : shape_(s), gradient_(gradient), in_(in), filters_(filters), out_(out), epilogue_(epilogue) {
    const std::int64_t reach_height = (s.window_height - 1) * s.dilation_height;
    const std::int64_t reach_width = (s.window_width - 1) * s.dilation_width;
    const std::int64_t stride_height = gradient ? 1 : s.stride_height, stride_width = gradient ? 1 : s.stride_width;
    if (gradient)
      image_ = {
          s.out_height,   s.out_width, s.filters, reach_height - s.pad_top, reach_width - s.pad_left, s.stride_height,
          s.stride_width, 0,           0};
    else
      image_ = {s.height, s.width, s.channels, s.pad_top, s.pad_left, 1, 1, 0, 0};
    out_height_ = gradient ? s.height : s.out_height;
    out_width_ = gradient ? s.width : s.out_width;
    columns_ = static_cast<std::size_t>(gradient ? s.channels : s.filters);
    image_.padded_height = (out_height_ - 1) * stride_height + reach_height + 1;
    image_.padded_width = (out_width_ - 1) * stride_width + reach_width + 1;
    row_step_ = stride_height;

    set_ = weft::detail::window_isa<T>(columns_);
    const std::size_t width = weft::detail::window_panel<T>(set_);
    depth_ = static_cast<std::size_t>(s.window_height * s.window_width * image_.channels);
    if (gradient || weft::detail::window_packs<T>(set_, columns_))
      packed_.resize((columns_ + width - 1) / width * width * depth_);

    const std::int64_t pitch = image_.pitch(), channels = image_.channels;
    if (s.dilation_width == 1)
      runs_ = {{1, size(s.window_height), size(s.window_width * channels)}, {0, s.dilation_height * pitch, 1}};
    else
      runs_ = {{size(s.window_height), size(s.window_width), size(channels)},
               {s.dilation_height * pitch, s.dilation_width * channels, 1}};
    for (std::int64_t y = 0; y < out_height_; ++y)
      for (std::int64_t x = 0; x < out_width_; ++x)
        offsets_.push_back(y * stride_height * pitch + x * stride_width * channels);

    // Divides by whole images if there are enough, otherwise by bands of rows.
    const std::size_t work = detail::multiply_adds(s) / detail::convolution_chunk, images = size(s.batch);
    if (images >= 8 || images == 0 || work < 2 * images)
      chunks_ = detail::between(1, work, images < 32 ? images : 32);
    else
      bands_ = detail::between(1, work / images, detail::between(1, 16 / images, size(out_height_))),
      chunks_ = images * bands_;
    if (images == 0) chunks_ = 0;
    if (image_.is_plain()) return;
    const std::size_t rows = bands_ == 1 ? size(image_.padded_height)
                                         : (size(out_height_) / bands_ + 1) * size(stride_height) + size(reach_height);
    scratch_elements_ = (rows * size(image_.padded_width * channels) + 15) / 16 * 16;
    scratch_.resize(scratch_elements_ * chunks_);
  }
  ~convolution_kernel() override { delete epilogue_; }

  void run(const kernel_context& f) override {
    const T* filters = reinterpret_cast<const T*>(f.buffers[filters_]);
    if (!packed_.empty()) {
      const std::size_t taps = size(shape_.window_height * shape_.window_width);
      if (packed_.size() < 16384)
        for (std::size_t tap = 0; tap < taps; ++tap) pack(filters, tap, taps);
      else
        f.threads->parallel_for(taps, [&](std::size_t tap) { pack(filters, tap, taps); });
      filters = packed_.data();
    }
    const T* const in = reinterpret_cast<const T*>(f.buffers[in_]);
    T* const out = reinterpret_cast<T*>(f.buffers[out_]);
    const std::size_t items = size(shape_.batch) * bands_;
    const auto chunk = [&](std::size_t c) {
      const std::size_t begin = items * c / chunks_, end = items * (c + 1) / chunks_;
      for (std::size_t i = begin; i < end; ++i) run_band(in, filters, out, i / bands_, i % bands_, c);
      if (epilogue_ && bands_ == 1) epilogue_->run_part(f, begin, end, items);
    };
    if (chunks_ == 1)
      chunk(0);
    else
      f.threads->parallel_for(chunks_, chunk);
    if (epilogue_ && bands_ > 1) epilogue_->run(f);
  }

  std::size_t memory_bytes() const override {
    return packed_.memory_bytes() + scratch_.memory_bytes() + (epilogue_ ? epilogue_->memory_bytes() : 0);
  }
  std::string describe() const override {
    std::string text =
        detail::describe_convolution(gradient_ ? "convolution, gradient of images" : "convolution", shape_);
    if (epilogue_) append(text, {", then ", epilogue_->describe()});
    return text;
  }

 private:
  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

  void run_band(const T* in, const T* filters, T* out, std::size_t image, std::size_t band, std::size_t chunk) {
    const std::size_t first = size(out_height_) * band / bands_, last = size(out_height_) * (band + 1) / bands_;
    const std::size_t pixels = (last - first) * size(out_width_), skipped = first * size(out_width_);
    if (pixels == 0) return;
    const T* base = in + image * size(image_.height * image_.width * image_.channels);
    if (!image_.is_plain()) {
      T* const padded = scratch_.data() + chunk * scratch_elements_;
      const auto row = static_cast<std::int64_t>(first) * row_step_;
      const std::int64_t rows =
          static_cast<std::int64_t>(last - 1) * row_step_ + image_.padded_height - (out_height_ - 1) * row_step_ - row;
      image_.copy(base, padded, row, rows);
      base = padded - offsets_[skipped];
    }
    const std::size_t width = weft::detail::window_panel<T>(set_);
    const bool packed = !packed_.empty();
    multiversioned(set_, weft::detail::window_product<T>{
                             runs_, pixels, columns_, base, offsets_.data() + skipped, filters,
                             packed ? width : columns_, packed ? width * depth_ : width,
                             out + (image * size(out_height_ * out_width_) + skipped) * columns_, columns_, false});
  }

  // Packs filters into panels of columns, the last one padded with zeros; for the gradient, reversed and transposed.
  void pack(const T* filters, std::size_t tap, std::size_t taps) {
    const std::size_t width = weft::detail::window_panel<T>(set_), inner = size(image_.channels);
    const T* const from = filters + tap * inner * columns_;
    for (std::size_t j = 0; j < columns_; j += width) {
      T* const to = packed_.data() + j * depth_ + (gradient_ ? taps - 1 - tap : tap) * inner * width;
      const std::size_t n = columns_ - j < width ? columns_ - j : width;
      if (gradient_) {
        // In squares, so that both sides stay in the first-level cache.
        for (std::size_t p0 = 0; p0 < inner; p0 += 16)
          for (std::size_t c = 0; c < n; ++c)
            for (std::size_t p = p0; p < inner && p < p0 + 16; ++p) to[p * width + c] = from[(j + c) * inner + p];
      } else {
        for (std::size_t p = 0; p < inner; ++p)
          __builtin_memcpy(to + p * width, from + p * columns_ + j, n * sizeof(T));
      }
    }
  }

  convolution_shape shape_;
  bool gradient_;
  std::uint32_t in_, filters_, out_;
  epilogue_kernel* epilogue_;
  weft::detail::padded_image image_{};
  weft::detail::window_runs runs_{};
  std::int64_t out_height_, out_width_, row_step_;
  std::size_t columns_, depth_, chunks_ = 1, bands_ = 1, scratch_elements_ = 0;
  isa set_;
  sequence<std::ptrdiff_t> offsets_;
  sequence<T> packed_, scratch_;
};

/// The gradient of the filters by Weft's own kernels, as a matrix product: the elements of the window are its rows, and
/// the pixels its depth. Chunks cover different rows or, if there are few rows, different images with separate sums.
template <class T>
class convolution_filter_gradient_kernel final : public kernel {
 public:
  convolution_filter_gradient_kernel(const convolution_shape& s, std::uint32_t images, std::uint32_t upstream,
                                     std::uint32_t out)
      : shape_(s), images_(images), upstream_(upstream), out_(out) {
    image_ = {s.height, s.width, s.channels, s.pad_top, s.pad_left, 1, 1, 0, 0};
    image_.padded_height = (s.out_height - 1) * s.stride_height + (s.window_height - 1) * s.dilation_height + 1;
    image_.padded_width = (s.out_width - 1) * s.stride_width + (s.window_width - 1) * s.dilation_width + 1;
    columns_ = size(s.filters);
    rows_ = size(s.window_height * s.window_width * s.channels);
    pixels_ = size(s.out_height * s.out_width);
    set_ = weft::detail::window_isa<T>(columns_);
    const std::size_t width = weft::detail::window_panel<T>(set_);
    const std::int64_t pitch = image_.pitch();
    runs_ = {{1, size(s.out_height), size(s.out_width)}, {0, s.stride_height * pitch, s.stride_width * s.channels}};
    for (std::int64_t r = 0; r < s.window_height; ++r)
      for (std::int64_t q = 0; q < s.window_width; ++q)
        for (std::int64_t c = 0; c < s.channels; ++c)
          offsets_.push_back(r * s.dilation_height * pitch + q * s.dilation_width * s.channels + c);

    const std::size_t work = detail::multiply_adds(s) / detail::convolution_chunk,
                      tall = weft::detail::window_rows(set_);
    const std::size_t by_rows = rows_ / (12 * tall), images_at_most = size(s.batch) < 8 ? size(s.batch) : 8;
    if (by_rows >= 2) {
      row_chunks_ = detail::between(1, work, detail::between(4, by_rows, 32));
    } else {
      image_chunks_ = detail::between(1, work, images_at_most ? images_at_most : 1);
      if (image_chunks_ > 1) partials_.resize((image_chunks_ - 1) * rows_ * columns_);
    }
    const std::size_t chunks = row_chunks_ * image_chunks_;
    if (!image_.is_plain()) scratch_elements_ = (image_.elements() + 15) / 16 * 16;
    scratch_.resize(scratch_elements_ * chunks);
    if (weft::detail::window_packs<T>(set_, columns_))
      panel_elements_ = (columns_ + width - 1) / width * width * pixels_;
    panels_.resize(panel_elements_ * chunks);
  }

  void run(const kernel_context& f) override {
    const T* const images = reinterpret_cast<const T*>(f.buffers[images_]);
    const T* const upstream = reinterpret_cast<const T*>(f.buffers[upstream_]);
    T* const out = reinterpret_cast<T*>(f.buffers[out_]);
    const std::size_t chunks = row_chunks_ * image_chunks_, batch = size(shape_.batch), elements = rows_ * columns_;
    if (batch == 0) {
      for (std::size_t i = 0; i < elements; ++i) out[i] = 0;
      return;
    }
    const auto chunk = [&](std::size_t c) {
      const std::size_t by_row = c % row_chunks_, by_image = c / row_chunks_;
      // Tiles are not divided, except at the end.
      const std::size_t tall = weft::detail::window_rows(set_), tiles = (rows_ + tall - 1) / tall;
      const std::size_t begin = tiles * by_row / row_chunks_ * tall, last = tiles * (by_row + 1) / row_chunks_ * tall;
      T* const to = by_image == 0 ? out : partials_.data() + (by_image - 1) * elements;
      const std::size_t first = batch * by_image / image_chunks_;
      for (std::size_t n = first; n < batch * (by_image + 1) / image_chunks_; ++n)
        add_image(images, upstream, to, n, begin, last < rows_ ? last : rows_, c, n != first);
    };
    if (chunks == 1)
      chunk(0);
    else
      f.threads->parallel_for(chunks, chunk);
    for (std::size_t c = 1; c < image_chunks_; ++c) {
      const T* const partial = partials_.data() + (c - 1) * elements;
      for (std::size_t i = 0; i < elements; ++i) out[i] += partial[i];
    }
  }

  std::size_t memory_bytes() const override {
    return partials_.memory_bytes() + scratch_.memory_bytes() + panels_.memory_bytes();
  }
  std::string describe() const override {
    return detail::describe_convolution("convolution, gradient of filters", shape_);
  }

 private:
  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

  void add_image(const T* images, const T* upstream, T* to, std::size_t n, std::size_t begin, std::size_t end,
                 std::size_t chunk, bool add) {
    const T* base = images + n * shape_.image_elements();
    if (!image_.is_plain()) {
      T* const padded = scratch_.data() + chunk * scratch_elements_;
      image_.copy(base, padded, 0, image_.padded_height);
      base = padded;
    }
    const T* b = upstream + n * shape_.out_elements();
    const std::size_t width = weft::detail::window_panel<T>(set_);
    std::size_t ldb = columns_, panel_stride = width;
    if (panel_elements_ != 0) {
      T* const panels = panels_.data() + chunk * panel_elements_;
      for (std::size_t j = 0; j < columns_; j += width) {
        const std::size_t wide = columns_ - j < width ? columns_ - j : width;
        for (std::size_t p = 0; p < pixels_; ++p)
          __builtin_memcpy(panels + j * pixels_ + p * width, b + p * columns_ + j, wide * sizeof(T));
      }
      b = panels, ldb = width, panel_stride = width * pixels_;
    }
    multiversioned(set_, weft::detail::window_product<T>{runs_, end - begin, columns_, base, offsets_.data() + begin, b,
                                                         ldb, panel_stride, to + begin * columns_, columns_, add});
  }

  convolution_shape shape_;
  std::uint32_t images_, upstream_, out_;
  weft::detail::padded_image image_{};
  weft::detail::window_runs runs_{};
  std::size_t columns_, rows_, pixels_, row_chunks_ = 1, image_chunks_ = 1, scratch_elements_ = 0, panel_elements_ = 0;
  isa set_;
  sequence<std::ptrdiff_t> offsets_;
  sequence<T> partials_, scratch_, panels_;
};

}  // namespace weft::device
