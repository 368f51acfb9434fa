// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include <weft/device/convolution.hpp>
#include <weft/device/gpu/each.hpp>
#include <weft/device/gpu/indexing.hpp>
#include <weft/device/image_layout.hpp>
#include <weft/device/kernel.hpp>
#include <weft/tensor/dtype.hpp>
#include <weft/tensor/owned.hpp>

#if WEFT_COMPILES_FOR_GPU

/// Pools and plain convolutions. Tests compare libraries with the convolutions, which are also used without a library.
/// A thread computes one element of the result and reads all its inputs, in the CPU's order: no two threads write to
/// the same place, and the bits are the same in every run. half and bfloat16 are summed in float and rounded once.
namespace weft::gpu {
inline namespace WEFT_GPU_FILE {

/// The distances between adjacent elements of an image, along each axis.
template <class Int>
struct image_strides {
  Int image, row, column, channel;

  image_strides() = default;
  image_strides(image_layout l, Int height, Int width, Int channels)
      : image(height * width * channels),
        row(l == image_layout::channels_first ? width : width * channels),
        column(l == image_layout::channels_first ? 1 : channels),
        channel(l == image_layout::channels_first ? height * width : 1) {}
  WEFT_HOST_DEVICE Int at(Int n, Int r, Int c, Int k) const { return n * image + r * row + c * column + k * channel; }
};

/// The extents of a pool, in the 32-bit arithmetic of kernels.
struct pool_extents {
  std::int32_t height, width, channels, out_height, out_width;
  std::int32_t window_height, window_width, stride_height, stride_width, pad_top, pad_left;
  bool counts_padding;
  image_layout layout;
  image_strides<std::int32_t> images, results;

  pool_extents(const char* operation, const convolution_shape& s, image_layout l)
      : height(narrow(s.height)),
        width(narrow(s.width)),
        channels(narrow(s.channels)),
        out_height(narrow(s.out_height)),
        out_width(narrow(s.out_width)),
        window_height(narrow(s.window_height)),
        window_width(narrow(s.window_width)),
        stride_height(narrow(s.stride_height)),
        stride_width(narrow(s.stride_width)),
        pad_top(narrow(s.pad_top)),
        pad_left(narrow(s.pad_left)),
        counts_padding(s.counts_padding),
        layout(l),
        images(l, height, width, channels),
        results(l, out_height, out_width, channels) {
    check_size(operation,
               shape(s.batch, s.height + s.pad_top + s.pad_bottom, s.width + s.pad_left + s.pad_right, s.channels));
  }

 private:
  static std::int32_t narrow(std::int64_t n) { return static_cast<std::int32_t>(n); }
};

template <class T, pool_kind Kind>
struct pool {
  static constexpr bool spreads = Kind == pool_kind::max_gradient || Kind == pool_kind::average_gradient;
  using sum_type = accumulator<T>;

  pool_extents s;
  const T* a;  ///< images, or the upstream gradient of an average
  const T* b;  ///< the upstream gradient of a maximum, or the values to choose from
  T* out;
  // The divisors of a thread's index, from the innermost axis outwards, and of positions of windows.
  bool channels_first = s.layout == image_layout::channels_first;
  divisor columns = by(spreads ? s.width : s.out_width), rows = by(spreads ? s.height : s.out_height);
  divisor inner = channels_first ? columns : by(s.channels), middle = channels_first ? rows : columns,
          outer = channels_first ? by(s.channels) : rows;
  divisor stride_height = by(s.stride_height), stride_width = by(s.stride_width);

  WEFT_HOST_DEVICE void operator()(std::size_t i) const {
    const pixel p = pixel_at(static_cast<std::uint32_t>(i));
    if constexpr (spreads) {
      // The windows over this pixel, in order.
      const bool adaptive = s.window_height == 0;
      const std::int32_t y0 =
          adaptive ? quotient(p.row, s.out_height, s.height) : first(p.row + s.pad_top, s.window_height, stride_height);
      const std::int32_t x0 = adaptive ? quotient(p.column, s.out_width, s.width)
                                       : first(p.column + s.pad_left, s.window_width, stride_width);
      sum_type sum = 0;
      for (std::int32_t y = y0; y < s.out_height && top_of(y) <= p.row; ++y)
        for (std::int32_t x = x0; x < s.out_width && left_of(x) <= p.column; ++x) sum += share(p, y, x);
      out[i] = static_cast<T>(sum);
    } else {
      const window w = window_at(p.row, p.column);
      if constexpr (Kind == pool_kind::average) {
        sum_type sum = 0;
        for (std::int32_t r = w.row0; r < w.row1; ++r) {
          sum_type row = 0;
          for (std::int32_t c = w.column0; c < w.column1; ++c)
            row += static_cast<sum_type>(a[at(p.image, r, c, p.channel)]);
          sum += row;
        }
        out[i] = static_cast<T>(sum / count(w));
      } else {
        const std::int32_t best = maximum_of(w, p.image, p.channel);
        out[i] = Kind == pool_kind::max ? a[best] : b[best];
      }
    }
  }

 private:
  struct pixel {
    std::int32_t image, row, column, channel;
  };
  struct window {
    std::int32_t row0, row1, column0, column1;
  };

  static divisor by(std::int32_t n) { return divisor(static_cast<std::uint32_t>(n > 0 ? n : 1)); }

  /// Returns the position of a thread's element.
  WEFT_HOST_DEVICE pixel pixel_at(std::uint32_t i) const {
    const std::uint32_t x = inner.divide(i), y = middle.divide(x), image = outer.divide(y);
    const auto a = static_cast<std::int32_t>(y - image * outer.extent),
               b = static_cast<std::int32_t>(x - y * middle.extent),
               c = static_cast<std::int32_t>(i - x * inner.extent), n = static_cast<std::int32_t>(image);
    return channels_first ? pixel{n, b, c, a} : pixel{n, a, b, c};
  }
  WEFT_HOST_DEVICE static std::int32_t first(std::int32_t padded, std::int32_t extent, const divisor& stride) {
    return padded < extent ? 0
                           : static_cast<std::int32_t>(stride.divide(static_cast<std::uint32_t>(padded - extent))) + 1;
  }
  WEFT_HOST_DEVICE std::int32_t at(std::int32_t n, std::int32_t r, std::int32_t c, std::int32_t k) const {
    return s.images.at(n, r, c, k);
  }
  WEFT_HOST_DEVICE static std::int32_t quotient(std::int32_t i, std::int32_t n, std::int32_t by) {
    return static_cast<std::int32_t>(std::int64_t{i} * n / by);
  }
  WEFT_HOST_DEVICE std::int32_t top_of(std::int32_t y) const {
    return s.window_height == 0 ? quotient(y, s.height, s.out_height) : y * s.stride_height - s.pad_top;
  }
  WEFT_HOST_DEVICE std::int32_t left_of(std::int32_t x) const {
    return s.window_height == 0 ? quotient(x, s.width, s.out_width) : x * s.stride_width - s.pad_left;
  }
  WEFT_HOST_DEVICE window window_at(std::int32_t y, std::int32_t x) const {
    const std::int32_t top = top_of(y), left = left_of(x);
    if (s.window_height == 0)
      return {top, s.height - quotient(s.out_height - 1 - y, s.height, s.out_height), left,
              s.width - quotient(s.out_width - 1 - x, s.width, s.out_width)};
    const std::int32_t bottom = top + s.window_height, right = left + s.window_width;
    return {top < 0 ? 0 : top, bottom < s.height ? bottom : s.height, left < 0 ? 0 : left,
            right < s.width ? right : s.width};
  }
  /// Returns the divisor of an average.
  WEFT_HOST_DEVICE sum_type count(const window& w) const {
    return static_cast<sum_type>(s.counts_padding ? s.window_height * s.window_width
                                                  : (w.row1 - w.row0) * (w.column1 - w.column0));
  }
  /// Keeps the first of equal elements. NaN wins, so that it propagates; of several NaNs, the last one wins.
  WEFT_HOST_DEVICE std::int32_t maximum_of(const window& w, std::int32_t n, std::int32_t k) const {
    std::int32_t where = at(n, w.row0, w.column0, k);
    sum_type best = static_cast<sum_type>(a[where]);
    for (std::int32_t r = w.row0; r < w.row1; ++r)
      for (std::int32_t c = w.column0; c < w.column1; ++c) {
        const std::int32_t here = at(n, r, c, k);
        const sum_type value = static_cast<sum_type>(a[here]);
        const bool larger = value > best || value != value;
        best = larger ? value : best;
        where = larger ? here : where;
      }
    return where;
  }
  /// Returns the contribution of one window to a pixel.
  WEFT_HOST_DEVICE sum_type share(const pixel& p, std::int32_t y, std::int32_t x) const {
    const std::int32_t from = s.results.at(p.image, y, x, p.channel);
    const window w = window_at(y, x);
    if constexpr (Kind == pool_kind::average_gradient)
      return static_cast<sum_type>(a[from]) / count(w);
    else
      return maximum_of(w, p.image, p.channel) == at(p.image, p.row, p.column, p.channel)
                 ? static_cast<sum_type>(b[from])
                 : sum_type(0);
  }
};

/// The position of an element: image, row, column, channel.
struct pixel {
  std::int64_t image, row, column, channel;
};

WEFT_HOST_DEVICE inline pixel pixel_at(std::size_t i, std::int64_t rows, std::int64_t columns, std::int64_t channels) {
  if (i <= 0xffffffffu) {  // 32-bit divisions are several times faster
    const auto c = static_cast<std::uint32_t>(channels), w = static_cast<std::uint32_t>(columns),
               h = static_cast<std::uint32_t>(rows);
    auto rest = static_cast<std::uint32_t>(i);
    const std::uint32_t channel = rest % c;
    rest /= c;
    const std::uint32_t column = rest % w;
    rest /= w;
    return {rest / h, rest % h, column, channel};
  }
  const auto all = static_cast<std::int64_t>(i);
  return {all / channels / columns / rows, all / channels / columns % rows, all / channels % columns, all % channels};
}

/// `a` and `b` are images and filters, filters and upstream gradient, or images and upstream gradient.
template <class T, convolution_kind Kind>
struct direct_convolution {
  // Wide accumulators: a plain kernel must be accurate rather than fast.
  using sum_type = std::conditional_t<is_storage_type<T>, float, double>;

  convolution_shape s;
  image_strides<std::int64_t> images, results;
  const T *a, *b;
  T* out;
  std::int64_t group_channels = s.channels / s.groups, group_filters = s.filters / s.groups;

  std::size_t elements() const {
    return Kind == convolution_kind::filter_gradient ? s.filter_elements()
           : Kind == convolution_kind::forward       ? static_cast<std::size_t>(s.batch) * s.out_elements()
                                                     : static_cast<std::size_t>(s.batch) * s.image_elements();
  }

  WEFT_HOST_DEVICE void operator()(std::size_t i) const {
    sum_type sum = 0;
    std::size_t to = i;
    if constexpr (Kind == convolution_kind::forward) {
      const pixel p = pixel_at(i, s.out_height, s.out_width, s.filters);
      to = result(p.image, p.row, p.column, p.channel);
      const std::int64_t first = p.channel / group_filters * group_channels;
      for (std::int64_t r = 0; r < s.window_height; ++r)
        for (std::int64_t q = 0; q < s.window_width; ++q) {
          const std::int64_t row = row_of(p.row, r), column = column_of(p.column, q);
          if (!inside(row, column)) continue;
          for (std::int64_t c = 0; c < group_channels; ++c)
            sum += product(a[image(p.image, row, column, first + c)], b[filter(r, q, c, p.channel)]);
        }
    } else if constexpr (Kind == convolution_kind::input_gradient) {
      const pixel p = pixel_at(i, s.height, s.width, s.channels);
      to = image(p.image, p.row, p.column, p.channel);
      const std::int64_t group = p.channel / group_channels, c = p.channel - group * group_channels;
      const std::int64_t first = group * group_filters;
      for (std::int64_t r = 0; r < s.window_height; ++r)
        for (std::int64_t q = 0; q < s.window_width; ++q) {
          const std::int64_t down = p.row + s.pad_top - r * s.dilation_height;
          const std::int64_t across = p.column + s.pad_left - q * s.dilation_width;
          if (down < 0 || across < 0 || down % s.stride_height || across % s.stride_width) continue;
          const std::int64_t y = down / s.stride_height, x = across / s.stride_width;
          if (y >= s.out_height || x >= s.out_width) continue;
          for (std::int64_t k = first; k < first + group_filters; ++k)
            sum += product(a[filter(r, q, c, k)], b[result(p.image, y, x, k)]);
        }
    } else {
      const pixel p = pixel_at(i, s.window_width, group_channels, s.filters);  // row, column, channel and filter of the
                                                                               // window
      const std::int64_t r = p.image, q = p.row, k = p.channel;
      const std::int64_t c = k / group_filters * group_channels + p.column;
      for (std::int64_t n = 0; n < s.batch; ++n)
        for (std::int64_t y = 0; y < s.out_height; ++y)
          for (std::int64_t x = 0; x < s.out_width; ++x) {
            const std::int64_t row = row_of(y, r), column = column_of(x, q);
            if (inside(row, column)) sum += product(a[image(n, row, column, c)], b[result(n, y, x, k)]);
          }
    }
    out[to] = static_cast<T>(sum);
  }

 private:
  WEFT_HOST_DEVICE static sum_type product(T x, T y) { return static_cast<sum_type>(x) * static_cast<sum_type>(y); }
  WEFT_HOST_DEVICE std::int64_t row_of(std::int64_t y, std::int64_t r) const {
    return y * s.stride_height - s.pad_top + r * s.dilation_height;
  }
  WEFT_HOST_DEVICE std::int64_t column_of(std::int64_t x, std::int64_t q) const {
    return x * s.stride_width - s.pad_left + q * s.dilation_width;
  }
  WEFT_HOST_DEVICE bool inside(std::int64_t row, std::int64_t column) const {
    return row >= 0 && row < s.height && column >= 0 && column < s.width;
  }
  WEFT_HOST_DEVICE std::size_t image(std::int64_t n, std::int64_t r, std::int64_t c, std::int64_t k) const {
    return static_cast<std::size_t>(images.at(n, r, c, k));
  }
  WEFT_HOST_DEVICE std::size_t result(std::int64_t n, std::int64_t y, std::int64_t x, std::int64_t k) const {
    return static_cast<std::size_t>(results.at(n, y, x, k));
  }
  WEFT_HOST_DEVICE std::size_t filter(std::int64_t r, std::int64_t q, std::int64_t c, std::int64_t k) const {
    return static_cast<std::size_t>(((r * s.window_width + q) * group_channels + c) * s.filters + k);
  }
};

template <class T, convolution_kind Kind>
class direct_convolution_kernel final : public kernel {
 public:
  /// The optional epilogue reads the result and writes it in place. `why` states why no library is used.
  direct_convolution_kernel(const convolution_shape& s, image_layout layout, std::uint32_t a, std::uint32_t b,
                            std::uint32_t out, owned<kernel>& epilogue, std::string why)
      : shape_(s),
        layout_(layout),
        a_(a),
        b_(b),
        out_(out),
        epilogue_(static_cast<owned<kernel>&&>(epilogue)),
        why_(static_cast<std::string&&>(why)) {}

  void run(const kernel_context& f) override {
    const convolution_shape& s = shape_;
    const direct_convolution<T, Kind> work{s,
                                           {layout_, s.height, s.width, s.channels},
                                           {layout_, s.out_height, s.out_width, s.filters},
                                           reinterpret_cast<const T*>(f.buffers[a_]),
                                           reinterpret_cast<const T*>(f.buffers[b_]),
                                           reinterpret_cast<T*>(f.buffers[out_])};
    launch_each(*f.queue, name(), work, work.elements());
    if (epilogue_) epilogue_->run(f);
  }
  std::string describe() const override {
    std::string text = std::string(name()) + (layout_ == image_layout::channels_first ? ", channels first" : "") +
                       ", plain kernel: " + why_;
    if (epilogue_) text += ", then " + epilogue_->describe();
    return text;
  }

 private:
  static const char* name() {
    constexpr const char* names[] = {"conv2d", "conv2d_input_gradient", "conv2d_filter_gradient"};
    return names[static_cast<int>(Kind)];
  }

  convolution_shape shape_;
  image_layout layout_;
  std::uint32_t a_, b_, out_;
  owned<kernel> epilogue_;
  std::string why_;
};

}  // namespace WEFT_GPU_FILE
}  // namespace weft::gpu

#endif
