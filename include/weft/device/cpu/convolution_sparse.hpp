// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <weft/device/convolution.hpp>
#include <weft/device/cpu/convolution_kernel.hpp>
#include <weft/device/cpu/dispatch.hpp>
#include <weft/device/kernel.hpp>
#include <weft/tensor/host_memory.hpp>
#include <weft/tensor/sequence.hpp>

// The upstream gradient of a convolution is mostly zeros if a max pool or a ReLU follows it: a max pool passes the
// gradient to one element of each 2x2 window. These kernels multiply only nonzero elements. They search these in every
// run, channel by channel, and run the dense kernels if there are too many. A step uses these kernels only if its plan
// finds a max pool or a ReLU directly after the convolution, because the gradient of a batch normalization has no
// zeros.
WEFT_QUIET_BEGIN
namespace weft::detail {

/// A nonzero element: the start of its window in the padded image, and its value.
template <class T>
struct window_element {
  std::int32_t at;
  T value;
};

/// The number of channels that are searched at a time, one cache line.
inline constexpr std::size_t sparse_channels = 16;

/// Lists of the nonzero elements of some channels, one for each; `counts` are their lengths.
template <class T>
struct sparse_lists {
  const T* from;
  std::size_t filters, channels, pixels;
  const std::int32_t* at;  // the window of each pixel
  window_element<T>* lists;
  std::size_t* counts;

  WEFT_INLINE void operator()() const {
    for (std::size_t c = 0; c < channels; ++c) counts[c] = 0;
    for (std::size_t p = 0; p < pixels; ++p) {
      const T* const values = from + p * filters;
      std::uint32_t found = 0;
      if (channels == sparse_channels)
        for (std::size_t c = 0; c < sparse_channels; ++c) found |= std::uint32_t{values[c] != T(0)} << c;
      else
        for (std::size_t c = 0; c < channels; ++c) found |= std::uint32_t{values[c] != T(0)} << c;
      for (; found; found &= found - 1) {
        const auto c = static_cast<std::size_t>(__builtin_ctz(found));
        lists[c * pixels + counts[c]++] = {at[p], values[c]};
      }
    }
  }
};

/// Returns the number of vectors in the next run of a window's row. Runs are few and long; the last may extend beyond
/// the row.
constexpr std::size_t sparse_group(std::size_t vectors) {
  return vectors >= 12 ? (vectors % 10 == 0 ? 10 : 12) : vectors > 10 ? 12 : vectors > 8 ? 10 : vectors > 4 ? 8 : 4;
}
constexpr std::size_t sparse_vectors(std::size_t vectors) {
  std::size_t n = 0;
  while (n < vectors) n += sparse_group(vectors - n);
  return n;
}

/// One channel of one image: applies the rows of the window, of `vectors` vectors each, to all elements of a list.
template <class T>
struct sparse_channel {
  const window_element<T>* list;
  std::size_t count, window_rows;
  std::ptrdiff_t row_step;  // in the padded image
  std::size_t row_elements;
  T* image;   // padded
  T* filter;  // consecutive rows, each padded to whole groups of vectors
  bool to_image;

  template <isa set>
  WEFT_INLINE void operator()(isa_constant<set>) const {
    constexpr std::size_t lanes = static_cast<std::size_t>(isa_constant<set>::template lanes<T>);
    const std::size_t vectors = (row_elements + lanes - 1) / lanes, row = sparse_vectors(vectors) * lanes;
    for (std::size_t r = 0; r < window_rows; ++r) {
      T* const of_image = image + static_cast<std::ptrdiff_t>(r) * row_step;
      T* const of_filter = filter + r * row;
      for (std::size_t done = 0; done < vectors;) {
        const std::size_t group = sparse_group(vectors - done), first = done * lanes;
        if (group == 12)
          run<12, lanes>(of_image + first, of_filter + first);
        else if (group == 10)
          run<10, lanes>(of_image + first, of_filter + first);
        else if (group == 8)
          run<8, lanes>(of_image + first, of_filter + first);
        else
          run<4, lanes>(of_image + first, of_filter + first);
        done += group;
      }
    }
  }

 private:
  template <std::size_t group, std::size_t lanes>
  WEFT_INLINE void run(T* of_image, T* of_filter) const {
    typedef T vector __attribute__((vector_size(lanes * sizeof(T))));
    typedef T unaligned __attribute__((vector_size(lanes * sizeof(T)), aligned(alignof(T)), may_alias));
    vector part[group];
#pragma GCC unroll 12
    for (std::size_t v = 0; v < group; ++v) part[v] = *reinterpret_cast<const unaligned*>(of_filter + v * lanes);
    if (to_image) {
      for (std::size_t i = 0; i < count; ++i) {
        T* const to = of_image + list[i].at;
        const T value = list[i].value;
#pragma GCC unroll 12
        for (std::size_t v = 0; v < group; ++v) {
          auto& element = *reinterpret_cast<unaligned*>(to + v * lanes);
          element = element + value * part[v];
        }
      }
    } else {
      for (std::size_t i = 0; i < count; ++i) {
        const T* const from = of_image + list[i].at;
        const T value = list[i].value;
#pragma GCC unroll 12
        for (std::size_t v = 0; v < group; ++v)
          part[v] += value * *reinterpret_cast<const unaligned*>(from + v * lanes);
      }
#pragma GCC unroll 12
      for (std::size_t v = 0; v < group; ++v) *reinterpret_cast<unaligned*>(of_filter + v * lanes) = part[v];
    }
  }
};

template <class T>
std::size_t count_nonzero(const T* x, std::size_t n) {
  std::size_t total = 0;
  multiversioned_up_to_avx2([&] {
    for (std::size_t i = 0; i < n;) {
      const std::size_t end = n - i > 65536 ? i + 65536 : n;
      std::int32_t some = 0;
      for (; i < end; ++i) some += x[i] != T(0);
      total += static_cast<std::size_t>(some);
    }
  });
  return total;
}

}  // namespace weft::detail

namespace weft::device {

/// A gradient of a convolution that skips zeros in its upstream gradient; runs another kernel if there are few zeros.
template <class T>
class sparse_convolution_kernel final : public kernel {
 public:
  /// Returns true if skipping zeros can pay off: the work for each element must exceed the cost of the search. Measured
  /// on AVX-512: windows of 5x5x32 gain a third, windows of 3x3x64 nothing.
  static bool handles(const convolution_shape& s) {
    return s.dilation_width == 1 && s.window_width * s.channels >= 64 && s.batch >= 8 &&
           s.window_height * s.window_width * s.channels >= 768 &&
           detail::multiply_adds(s) >= 8 * detail::convolution_chunk && s.image_elements() < (std::size_t{1} << 28);
  }

  /// Takes ownership of the kernel for dense gradients. `other` is the slot of the filters or of the images.
  sparse_convolution_kernel(const convolution_shape& s, bool to_images, std::uint32_t other, std::uint32_t upstream,
                            std::uint32_t out, kernel* dense)
      : shape_(s), to_images_(to_images), other_(other), upstream_(upstream), out_(out), dense_(dense) {
    image_ = {s.height, s.width, s.channels, s.pad_top, s.pad_left, 1, 1, 0, 0};
    image_.padded_height = (s.out_height - 1) * s.stride_height + (s.window_height - 1) * s.dilation_height + 1;
    image_.padded_width = (s.out_width - 1) * s.stride_width + s.window_width;
    if (image_.padded_height < s.height + s.pad_top) image_.padded_height = s.height + s.pad_top;
    if (image_.padded_width < s.width + s.pad_left) image_.padded_width = s.width + s.pad_left;
    pitch_ = image_.padded_width * s.channels;
    row_elements_ = size(s.window_width * s.channels);
    lanes_ = (detected_isa() == isa::avx512 ? 64 : detected_isa() == isa::avx2 ? 32 : 16) / sizeof(T);
    row_ = weft::detail::sparse_vectors((row_elements_ + lanes_ - 1) / lanes_) * lanes_;
    filter_ = size(s.window_height) * row_;
    pixels_ = size(s.out_height * s.out_width);
    // The last group of a window's last row may extend beyond the image.
    padded_ = (image_.elements() + 12 * lanes_ + 15) / 16 * 16;
    const std::size_t images = size(s.batch), most = to_images ? 16 : 8;
    chunks_ = images < most ? images : most;
    for (std::int64_t y = 0; y < s.out_height; ++y)
      for (std::int64_t x = 0; x < s.out_width; ++x)
        at_.push_back(static_cast<std::int32_t>(y * s.stride_height * pitch_ + x * s.stride_width * s.channels));
    nonzero_.resize(chunks_);
    const auto reserve = [&](std::size_t bytes) {
      const std::size_t at = workspace_;
      workspace_ += (bytes + alignment - 1) / alignment * alignment;
      return at;
    };
    filters_ = reserve(filter_ * size(s.filters) * (to_images ? 1 : chunks_) * sizeof(T));
    padded_images_ = reserve(padded_ * chunks_ * sizeof(T));
    lists_ = reserve(pixels_ * weft::detail::sparse_channels * chunks_ * sizeof(weft::detail::window_element<T>));
    if (workspace_ < dense->workspace_bytes()) workspace_ = dense->workspace_bytes();
  }
  ~sparse_convolution_kernel() override { delete dense_; }

  void run(const kernel_context& f) override {
    const T* const upstream = reinterpret_cast<const T*>(f.buffers[upstream_]);
    const std::size_t images = size(shape_.batch);
    f.threads->parallel_for(chunks_, [&](std::size_t c) {
      const std::size_t begin = images * c / chunks_, end = images * (c + 1) / chunks_;
      nonzero_[c] =
          weft::detail::count_nonzero(upstream + begin * shape_.out_elements(), (end - begin) * shape_.out_elements());
    });
    std::size_t nonzero = 0;
    for (std::size_t c = 0; c < chunks_; ++c) nonzero += nonzero_[c];
    // The inverse of the cost of an element relative to a dense product.
    if (static_cast<double>(nonzero) > (to_images_ ? 0.22 : 0.3) * static_cast<double>(images * shape_.out_elements()))
      return dense_->run(f);

    T* const filters = reinterpret_cast<T*>(f.workspace + filters_);
    if (to_images_) {
      pack(reinterpret_cast<const T*>(f.buffers[other_]), filters);
      T* const out = reinterpret_cast<T*>(f.buffers[out_]);
      f.threads->parallel_for(chunks_, [&](std::size_t c) {
        for (std::size_t n = images * c / chunks_; n < images * (c + 1) / chunks_; ++n)
          image_gradient(f, upstream + n * shape_.out_elements(), out + n * shape_.image_elements(), filters, c);
      });
    } else {
      const T* const in = reinterpret_cast<const T*>(f.buffers[other_]);
      f.threads->parallel_for(chunks_, [&](std::size_t c) {
        T* const sums = filters + c * filter_ * size(shape_.filters);
        __builtin_memset(sums, 0, filter_ * size(shape_.filters) * sizeof(T));
        T* const padded = padded_image_of(f, c);
        __builtin_memset(padded, 0, padded_ * sizeof(T));
        for (std::size_t n = images * c / chunks_; n < images * (c + 1) / chunks_; ++n) {
          image_.copy(in + n * shape_.image_elements(), padded, 0, image_.padded_height);
          channels(f, upstream + n * shape_.out_elements(), padded, sums, c);
        }
      });
      T* const out = reinterpret_cast<T*>(f.buffers[out_]);
      const std::size_t rows = size(shape_.window_height);
      f.threads->parallel_for(rows, [&](std::size_t r) { unpack(filters, out, r); });
    }
  }

  std::size_t workspace_bytes() const override { return workspace_; }
  std::size_t memory_bytes() const override { return dense_->memory_bytes() + at_.memory_bytes(); }
  std::string describe() const override {
    return str_cat({dense_->describe(), ", or skipping zeros of the incoming gradient"});
  }

 private:
  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

  T* padded_image_of(const kernel_context& f, std::size_t chunk) const {
    return reinterpret_cast<T*>(f.workspace + padded_images_) + chunk * padded_;
  }

  void channels(const kernel_context& f, const T* upstream, T* padded, T* filters, std::size_t chunk) {
    auto* const lists = reinterpret_cast<weft::detail::window_element<T>*>(f.workspace + lists_) +
                        chunk * pixels_ * weft::detail::sparse_channels;
    const std::size_t all = size(shape_.filters);
    for (std::size_t first = 0; first < all; first += weft::detail::sparse_channels) {
      const std::size_t some =
          all - first < weft::detail::sparse_channels ? all - first : weft::detail::sparse_channels;
      std::size_t counts[weft::detail::sparse_channels];
      multiversioned_up_to_avx2(
          weft::detail::sparse_lists<T>{upstream + first, all, some, pixels_, at_.data(), lists, counts});
      for (std::size_t c = 0; c < some; ++c)
        multiversioned(weft::detail::sparse_channel<T>{lists + c * pixels_, counts[c], size(shape_.window_height),
                                                       shape_.dilation_height * pitch_, row_elements_, padded,
                                                       filters + (first + c) * filter_, to_images_});
    }
  }

  void image_gradient(const kernel_context& f, const T* upstream, T* out, T* filters, std::size_t chunk) {
    T* const padded = padded_image_of(f, chunk);
    __builtin_memset(padded, 0, padded_ * sizeof(T));
    channels(f, upstream, padded, filters, chunk);
    const std::size_t row = size(shape_.width * shape_.channels);
    for (std::int64_t y = 0; y < shape_.height; ++y)
      __builtin_memcpy(out + size(y) * row, padded + (y + shape_.pad_top) * pitch_ + shape_.pad_left * shape_.channels,
                       row * sizeof(T));
  }

  // Converts [height, width, channels, filters] to rows for each filter, each padded with zeros.
  void pack(const T* filters, T* packed) const {
    const std::size_t count = size(shape_.filters);
    for (std::size_t r = 0; r < size(shape_.window_height); ++r)
      for (std::size_t i0 = 0; i0 < row_elements_; i0 += 16)
        for (std::size_t o = 0; o < count; ++o)
          for (std::size_t i = i0; i < row_elements_ && i < i0 + 16; ++i)
            packed[o * filter_ + r * row_ + i] = filters[(r * row_elements_ + i) * count + o];
    for (std::size_t row = 0; row < count * size(shape_.window_height); ++row)
      for (std::size_t i = row_elements_; i < row_; ++i) packed[row * row_ + i] = 0;
  }

  // Converts back and sums the chunks' results in order.
  void unpack(T* filters, T* out, std::size_t r) const {
    const std::size_t count = size(shape_.filters), chunk = filter_ * count;
    for (std::size_t o = 0; o < count; ++o) {
      T* const sums = filters + o * filter_ + r * row_;
      for (std::size_t c = 1; c < chunks_; ++c) {
        WEFT_VECTORIZE
        for (std::size_t i = 0; i < row_elements_; ++i) sums[i] += sums[c * chunk + i];
      }
    }
    for (std::size_t i0 = 0; i0 < row_elements_; i0 += 16)
      for (std::size_t o = 0; o < count; ++o)
        for (std::size_t i = i0; i < row_elements_ && i < i0 + 16; ++i)
          out[(r * row_elements_ + i) * count + o] = filters[o * filter_ + r * row_ + i];
  }

  convolution_shape shape_;
  bool to_images_;
  std::uint32_t other_, upstream_, out_;
  kernel* dense_;
  weft::detail::padded_image image_{};
  std::int64_t pitch_;
  std::size_t row_elements_, lanes_, row_, filter_, pixels_, padded_, chunks_;
  std::size_t workspace_ = 0, filters_, padded_images_, lists_;  // its size in bytes; the offsets of these in it
  sequence<std::int32_t> at_;
  sequence<std::size_t> nonzero_;
};

}  // namespace weft::device
WEFT_QUIET_END
