// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <weft/data/image.hpp>
#include <weft/encoding/png_writer.hpp>
#include <weft/error.hpp>

#ifdef WEFT_HAS_PNG
  #include <csetjmp>
  #include <cstdio>
  #include <cstring>

  #include <png.h>
#endif

namespace weft::data {

/// Decodes a PNG file (tf.io.decode_png) of any kind with libpng to [height, width, Channels]. Keeps the upper 8 of 16
/// bits, drops alpha, and converts between grey and colour as required. Throws data_loss, with the offset, if the file
/// is damaged or truncated, invalid_argument if it is not a PNG file, resource_exhausted above `max_pixels`, and
/// unimplemented in a program built without libpng.
template <int Channels = 3>
image<Channels> decode_png(std::string_view file, const decode_options& how = {});

/// Encodes an image, [height, width, channels] of 1, 3 or 4 channels, as a PNG file (tf.io.encode_png).
template <Pixels Image>
std::string encode_png(const Image& pixels) {
  static_assert(channels_of<Image> == 1 || channels_of<Image> == 3 || channels_of<Image> == 4,
                "encode_png: the image must have 1, 3 or 4 channels");
  return encode_png(pixels.data(), detail::height_of(pixels.extents()), detail::width_of(pixels.extents()),
                    channels_of<Image>);
}

namespace detail {

inline bool is_png(std::string_view file) { return file.starts_with("\x89PNG\r\n\x1a\n"); }

#ifdef WEFT_HAS_PNG

/// libpng's errors use longjmp, only over frames of libpng and `guarded`; no exception propagates through C.
class png_decoder {
 public:
  png_decoder(std::string_view file, const decode_options& how, int channels)
      : file_(file), how_(how), channels_(channels) {
    if (!is_png(file)) throw error(error_code::invalid_argument, "decode_png", {how.name, " is not a PNG file"});
    png_ = ::png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, [](png_structp, png_const_charp) {});
    if (png_) info_ = ::png_create_info_struct(png_);
    if (!info_) {
      ::png_destroy_read_struct(&png_, nullptr, nullptr);
      throw error(error_code::resource_exhausted, "decode_png", "out of memory for libpng's state");
    }
    try {
      guarded([&] {
        ::png_set_read_fn(png_, this, take);
        ::png_set_user_limits(png_, 0x7fffffff, 0x7fffffff);  // max_pixels is the limit instead
        // Keep only chunks with pixels: others can expand a thousandfold.
        ::png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
        ::png_read_info(png_, info_);
      });
      height_ = ::png_get_image_height(png_, info_);
      width_ = ::png_get_image_width(png_, info_);
      // Deflate expands a byte to at most 1032 bytes, of 8 pixels each.
      check_image_size("decode_png", how, height_, width_, file.size(), 8 * 1032);
    } catch (...) {
      close();
      throw;
    }
  }
  png_decoder(const png_decoder&) = delete;
  png_decoder& operator=(const png_decoder&) = delete;
  ~png_decoder() { close(); }

  std::size_t height() const { return height_; }
  std::size_t width() const { return width_; }

  void read(std::uint8_t* to) {
    const bool has_colour = ::png_get_color_type(png_, info_) & PNG_COLOR_MASK_COLOR;
    // An interlaced image arrives in passes, so its colours are buffered if the result is grey.
    std::vector<std::uint8_t> colours(has_colour && channels_ == 1 ? 3 * height_ * width_ : 0);
    std::uint8_t* const begin = colours.empty() ? to : colours.data();
    const std::size_t row = width_ * (colours.empty() ? static_cast<std::size_t>(channels_) : 3);
    guarded([&] {
      ::png_set_expand(png_);
      ::png_set_strip_16(png_);
      ::png_set_strip_alpha(png_);
      if (!has_colour && channels_ == 3) ::png_set_gray_to_rgb(png_);
      const int passes = ::png_set_interlace_handling(png_);
      ::png_read_update_info(png_, info_);
      if (::png_get_rowbytes(png_, info_) != row) ::png_error(png_, "rows have an unexpected size");
      for (int pass = 0; pass < passes; ++pass)
        for (std::size_t y = 0; y < height_; ++y) ::png_read_row(png_, begin + y * row, nullptr);
      ::png_read_end(png_, nullptr);
    });
    for (std::size_t i = 0; 3 * i < colours.size(); ++i)
      to[i] = luma(colours[3 * i], colours[3 * i + 1], colours[3 * i + 2]);
  }

 private:
  /// Throws if f ends with an error. f must not have objects to destroy.
  template <class F>
  void guarded(F f) {
    if (setjmp(jump_) == 0) {
      f();
      return;
    }
    throw error(error_code::data_loss, "decode_png", {how_.name, " is damaged near offset ", at_, ": ", message_});
  }

  static void on_error(png_structp png, png_const_charp why) {
    auto& self = *static_cast<png_decoder*>(::png_get_error_ptr(png));
    std::snprintf(self.message_, sizeof self.message_, "%s", why);
    std::longjmp(self.jump_, 1);
  }
  static void take(png_structp png, png_bytep to, std::size_t count) {
    auto& self = *static_cast<png_decoder*>(::png_get_io_ptr(png));
    if (count > self.file_.size() - self.at_) ::png_error(png, "the file is truncated");
    std::memcpy(to, self.file_.data() + self.at_, count);
    self.at_ += count;
  }
  void close() { ::png_destroy_read_struct(&png_, &info_, nullptr); }

  std::string_view file_;
  const decode_options& how_;
  int channels_;
  std::size_t at_ = 0, height_ = 0, width_ = 0;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf jump_;
  char message_[128] = {};
};

#endif

}  // namespace detail

template <int Channels>
image<Channels> decode_png([[maybe_unused]] std::string_view file, [[maybe_unused]] const decode_options& how) {
  static_assert(Channels == 1 || Channels == 3, "decode_png: Channels must be 1 (grey) or 3");
#ifdef WEFT_HAS_PNG
  detail::png_decoder decoder(file, how, Channels);
  image<Channels> pixels(shape(decoder.height(), decoder.width(), Channels), uninitialized{});
  decoder.read(pixels.data());
  return pixels;
#else
  throw error(error_code::unimplemented, "decode_png",
              "this program was built without libpng: install it (Debian: libpng-dev) and link weft::data");
#endif
}

}  // namespace weft::data
