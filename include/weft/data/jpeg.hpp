// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <weft/data/image.hpp>
#include <weft/error.hpp>

#ifdef WEFT_HAS_JPEG
  #include <csetjmp>
  #include <cstdio>
  #include <cstdlib>

  #include <jpeglib.h>
  // requires jpeglib.h
  #include <jerror.h>
#endif

namespace weft::data {

/// Decodes a JPEG file (ITU-T T.81; tf.io.decode_jpeg) with libjpeg: baseline or progressive, grey, colour or CMYK, to
/// [height, width, Channels]. Converts between grey and colour as required. Throws data_loss, with the offset, if the
/// file is damaged or truncated, invalid_argument if it is not a JPEG file, resource_exhausted above `max_pixels`, and
/// unimplemented in a program built without libjpeg.
template <int Channels = 3>
image<Channels> decode_jpeg(std::string_view file, const decode_options& how = {});

/// Encodes height x width pixels of 1 (grey) or 3 (RGB) bytes as a JPEG file, with a quality of 1 to 100
/// (tf.io.encode_jpeg). Throws invalid_argument for other sizes, and unimplemented in a program built without libjpeg.
inline std::string encode_jpeg(const std::uint8_t* pixels, std::size_t height, std::size_t width, std::size_t channels,
                               int quality = 90);

/// Encodes an image, [height, width, 1 or 3], as a JPEG file.
template <Pixels Image>
std::string encode_jpeg(const Image& pixels, int quality = 90) {
  static_assert(channels_of<Image> == 1 || channels_of<Image> == 3, "encode_jpeg: the image must have 1 or 3 channels");
  return encode_jpeg(pixels.data(), detail::height_of(pixels.extents()), detail::width_of(pixels.extents()),
                     channels_of<Image>, quality);
}

namespace detail {

inline bool is_jpeg(std::string_view file) { return file.starts_with("\xff\xd8\xff"); }

#ifdef WEFT_HAS_JPEG

/// libjpeg reports errors through a function that must not return. Exceptions must not propagate through C, so the
/// function uses longjmp, only over frames of libjpeg and `guarded`.
struct jpeg_errors {
  jpeg_error_mgr manager;  // must be first: libjpeg accesses only this part
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX] = {};

  jpeg_errors() {
    ::jpeg_std_error(&manager);
    manager.error_exit = [](j_common_ptr state) { raise(state); };
    manager.output_message = [](j_common_ptr) {};
    manager.emit_message = [](j_common_ptr state, int level) {
      if (level >= 0) return;
      switch (state->err->msg_code) {  // missing data, which libjpeg would replace with grey
        case JWRN_ARITH_BAD_CODE:
        case JWRN_HIT_MARKER:
        case JWRN_HUFF_BAD_CODE:
        case JWRN_JPEG_EOF:
        case JWRN_MUST_RESYNC:
          raise(state);
        default:
          break;
      }
    };
  }
  jpeg_errors(const jpeg_errors&) = delete;
  jpeg_errors& operator=(const jpeg_errors&) = delete;

  [[noreturn]] static void raise(j_common_ptr state) {
    auto& self = *reinterpret_cast<jpeg_errors*>(state->err);
    self.manager.format_message(state, self.message);
    std::longjmp(self.jump, 1);
  }
  [[noreturn]] void raise(const char* why) {
    std::snprintf(message, sizeof message, "%s", why);
    std::longjmp(jump, 1);
  }

  /// Returns false if f ends with an error. f must not have objects to destroy.
  template <class F>
  bool guarded(F f) {
    if (setjmp(jump) != 0) return false;
    f();
    return true;
  }
};

class jpeg_decoder {
 public:
  jpeg_decoder(std::string_view file, const decode_options& how, int channels) : file_(file), how_(how) {
    if (!is_jpeg(file)) throw error(error_code::invalid_argument, "decode_jpeg", {how.name, " is not a JPEG file"});
    state_.err = &errors_.manager;
    try {
      guarded([&] {
        jpeg_create_decompress(&state_);  // a macro
        state_.client_data = this;
        set_source();
        ::jpeg_read_header(&state_, TRUE);
      });
      // One bit can encode a block of 8 x 8 samples, each of at most 4 x 4 pixels.
      check_image_size("decode_jpeg", how, state_.image_height, state_.image_width, file.size(), 8 * 1024);
      set_output(channels);
    } catch (...) {
      ::jpeg_destroy_decompress(&state_);
      throw;
    }
  }
  jpeg_decoder(const jpeg_decoder&) = delete;
  jpeg_decoder& operator=(const jpeg_decoder&) = delete;
  ~jpeg_decoder() { ::jpeg_destroy_decompress(&state_); }

  std::size_t height() const { return state_.output_height; }
  std::size_t width() const { return state_.output_width; }

  void read(std::uint8_t* to) {
    const std::size_t row = width() * static_cast<std::size_t>(channels_);
    std::vector<std::uint8_t> inks(state_.out_color_space == JCS_CMYK ? 4 * width() : 0);
    std::uint8_t* const four = inks.data();
    guarded([&] {
      ::jpeg_start_decompress(&state_);
      while (state_.output_scanline < state_.output_height) {
        std::uint8_t* const at = to + state_.output_scanline * row;
        JSAMPROW rows[4] = {four ? four : at, at + row, at + 2 * row, at + 3 * row};
        const unsigned left = state_.output_height - state_.output_scanline;
        ::jpeg_read_scanlines(&state_, rows, four ? 1 : left < 4 ? left : 4);
        if (four) from_inks(four, at);
      }
      ::jpeg_finish_decompress(&state_);
    });
  }

 private:
  /// Throws if f ends with an error. The reported offset is libjpeg's read position.
  template <class F>
  void guarded(F f) {
    if (errors_.guarded(f)) return;
    const std::size_t offset = file_.size() - source_.bytes_in_buffer;
    throw error(error_code::data_loss, "decode_jpeg",
                {how_.name, " is damaged near offset ", offset, ": ", errors_.message});
  }

  static jpeg_decoder& of(j_decompress_ptr state) { return *static_cast<jpeg_decoder*>(state->client_data); }

  void set_source() {
    source_.next_input_byte = reinterpret_cast<const JOCTET*>(file_.data());
    source_.bytes_in_buffer = file_.size();
    source_.init_source = [](j_decompress_ptr) {};
    source_.fill_input_buffer = [](j_decompress_ptr state) -> boolean {
      of(state).errors_.raise("the file is truncated");
    };
    source_.skip_input_data = [](j_decompress_ptr state, long count) {
      jpeg_source_mgr& source = *state->src;
      if (count <= 0) return;
      if (static_cast<unsigned long>(count) > source.bytes_in_buffer) of(state).errors_.raise("the file is truncated");
      source.next_input_byte += count;
      source.bytes_in_buffer -= static_cast<std::size_t>(count);
    };
    source_.resync_to_restart = ::jpeg_resync_to_restart;
    source_.term_source = [](j_decompress_ptr) {};
    state_.src = &source_;
    // A small file can contain thousands of empty scans, each of which traverses the whole image.
    progress_.progress_monitor = [](j_common_ptr state) {
      auto* const decompress = reinterpret_cast<j_decompress_ptr>(state);
      if (decompress->input_scan_number > max_scans) of(decompress).errors_.raise("the file has more than 500 scans");
    };
    state_.progress = &progress_;
  }

  void set_output(int channels) {
    channels_ = channels;
    switch (state_.jpeg_color_space) {
      case JCS_GRAYSCALE:
      case JCS_YCbCr:
      case JCS_RGB:
        state_.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
        break;
      case JCS_CMYK:
      case JCS_YCCK:
        state_.out_color_space = JCS_CMYK;
        break;
      default:
        throw error(error_code::unimplemented, "decode_jpeg",
                    {how_.name, " has ", state_.num_components, " components in an unknown color space"});
    }
    if (how_.min_height > 0 || how_.min_width > 0)
      for (const unsigned part : {8u, 4u, 2u})
        if (state_.image_height / part >= how_.min_height && state_.image_width / part >= how_.min_width) {
          state_.scale_num = 1, state_.scale_denom = part;
          break;
        }
    ::jpeg_calc_output_dimensions(&state_);
  }

  /// Converts CMYK as Pillow does. Adobe's programs store inverted values.
  void from_inks(const std::uint8_t* from, std::uint8_t* to) const {
    const unsigned inverted = state_.saw_Adobe_marker ? 0 : 255;
    for (std::size_t x = 0; x < state_.output_width; ++x, from += 4, to += channels_) {
      unsigned light[3];
      const unsigned key = from[3] ^ inverted;
      for (int c = 0; c < 3; ++c) {
        const unsigned ink = (255 - (from[c] ^ inverted)) * key + 128;
        light[c] = key - ((ink + (ink >> 8)) >> 8);
      }
      if (channels_ == 1)
        to[0] = luma(light[0], light[1], light[2]);
      else
        for (int c = 0; c < 3; ++c) to[c] = static_cast<std::uint8_t>(light[c]);
    }
  }

  static constexpr int max_scans = 500;
  std::string_view file_;
  const decode_options& how_;
  jpeg_errors errors_;
  jpeg_source_mgr source_{};
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct state_{};
  int channels_ = 3;
};

class jpeg_encoder {
 public:
  jpeg_encoder() { state_.err = &errors_.manager; }
  jpeg_encoder(const jpeg_encoder&) = delete;
  jpeg_encoder& operator=(const jpeg_encoder&) = delete;
  ~jpeg_encoder() {
    ::jpeg_destroy_compress(&state_);
    std::free(made_);
  }

  std::string encode(const std::uint8_t* pixels, unsigned height, unsigned width, int channels, int quality) {
    const bool done = errors_.guarded([&] {
      jpeg_create_compress(&state_);
      ::jpeg_mem_dest(&state_, &made_, &size_);
      state_.image_height = height, state_.image_width = width;
      state_.input_components = channels;
      state_.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
      ::jpeg_set_defaults(&state_);
      ::jpeg_set_quality(&state_, quality, TRUE);
      ::jpeg_start_compress(&state_, TRUE);
      while (state_.next_scanline < height) {
        JSAMPROW row =
            const_cast<JSAMPROW>(pixels) + std::size_t{state_.next_scanline} * width * static_cast<unsigned>(channels);
        ::jpeg_write_scanlines(&state_, &row, 1);
      }
      ::jpeg_finish_compress(&state_);
    });
    if (!done) throw error(error_code::resource_exhausted, "encode_jpeg", {errors_.message});
    return std::string(reinterpret_cast<const char*>(made_), size_);
  }

 private:
  jpeg_errors errors_;
  jpeg_compress_struct state_{};
  unsigned char* made_ = nullptr;
  unsigned long size_ = 0;
};

#endif

[[noreturn]] inline void without_libjpeg(const char* what) {
  throw error(error_code::unimplemented, what,
              "this program was built without libjpeg: install it (Debian: libjpeg-dev) and link weft::data");
}

}  // namespace detail

template <int Channels>
image<Channels> decode_jpeg([[maybe_unused]] std::string_view file, [[maybe_unused]] const decode_options& how) {
  static_assert(Channels == 1 || Channels == 3, "decode_jpeg: Channels must be 1 (grey) or 3");
#ifdef WEFT_HAS_JPEG
  detail::jpeg_decoder decoder(file, how, Channels);
  image<Channels> pixels(shape(decoder.height(), decoder.width(), Channels), uninitialized{});
  decoder.read(pixels.data());
  return pixels;
#else
  detail::without_libjpeg("decode_jpeg");
#endif
}

inline std::string encode_jpeg([[maybe_unused]] const std::uint8_t* pixels, std::size_t height, std::size_t width,
                               std::size_t channels, int quality) {
  if (height == 0 || width == 0 || height > 65500 || width > 65500 || (channels != 1 && channels != 3))
    throw error(error_code::invalid_argument, "encode_jpeg",
                {"the image must have 1 to 65500 pixels a side, and 1 or 3 channels, but is ", height, " x ", width,
                 " x ", channels});
  if (quality < 1 || quality > 100)
    throw error(error_code::invalid_argument, "encode_jpeg", {"the quality must be 1 to 100, but is ", quality});
#ifdef WEFT_HAS_JPEG
  return detail::jpeg_encoder().encode(pixels, static_cast<unsigned>(height), static_cast<unsigned>(width),
                                       static_cast<int>(channels), quality);
#else
  detail::without_libjpeg("encode_jpeg");
#endif
}

}  // namespace weft::data
