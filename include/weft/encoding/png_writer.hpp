// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <weft/encoding/crc32.hpp>
#include <weft/error.hpp>

#ifdef WEFT_HAS_ZLIB
  #include <zlib.h>
#endif

namespace weft::data {

/// Returns a PNG file (W3C, Portable Network Graphics, 2nd edition; tf.io.encode_png) of height x width pixels of 1
/// (grey), 3 (RGB) or 4 (RGBA) bytes, row by row from the top. Without zlib, the data is stored uncompressed.
inline std::string encode_png(const std::uint8_t* pixels, std::size_t height, std::size_t width, std::size_t channels);

namespace detail {

template <class Word>
void append_big_endian(std::string& to, Word word) {
  for (std::size_t i = sizeof word; i-- > 0;) to += static_cast<char>((word >> (8 * i)) & 0xff);
}

inline void append_png_chunk(std::string& to, std::string_view type, std::string_view data) {
  append_big_endian(to, static_cast<std::uint32_t>(data.size()));
  const std::size_t begin = to.size();
  to.append(type).append(data);
  append_big_endian(to, crc32(std::as_bytes(std::span(to).subspan(begin))));
}

/// Returns the bytes in zlib format (RFC 1950).
inline std::string compressed(const std::string& bytes) {
#ifdef WEFT_HAS_ZLIB
  uLongf size = ::compressBound(bytes.size());
  std::string packed(size, '\0');
  if (::compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                  bytes.size(), 6) != Z_OK)
    throw error(error_code::resource_exhausted, "encode_png", "out of memory for zlib's state");
  packed.resize(size);
  return packed;
#else
  std::string stored = "\x78\x01";
  std::size_t at = 0;
  do {  // a block has a 16-bit length
    const std::size_t size = bytes.size() - at < 65535 ? bytes.size() - at : 65535;
    stored += at + size == bytes.size() ? '\1' : '\0';
    for (const std::size_t word : {size, ~size}) {
      stored += static_cast<char>(word & 0xff);
      stored += static_cast<char>((word >> 8) & 0xff);
    }
    stored.append(bytes, at, size);
    at += size;
  } while (at < bytes.size());
  std::uint32_t a = 1, b = 0;  // Adler-32
  for (const char c : bytes) {
    a = (a + static_cast<unsigned char>(c)) % 65521;
    b = (b + a) % 65521;
  }
  append_big_endian(stored, (b << 16) | a);
  return stored;
#endif
}

}  // namespace detail

inline std::string encode_png(const std::uint8_t* pixels, std::size_t height, std::size_t width, std::size_t channels) {
  const std::size_t row = width * channels;
  constexpr std::size_t most = (std::size_t{1} << 31) - 1;
  const bool fits = height > 0 && width > 0 && height <= most / (row + 1);
  if (!fits || (channels != 1 && channels != 3 && channels != 4))
    throw error(error_code::invalid_argument, "encode_png",
                {"an image must have at least one pixel, 1, 3 or 4 channels, and less than 2 GiB, but is ", height,
                 " x ", width, " x ", channels});
  std::string header;
  detail::append_big_endian(header, static_cast<std::uint32_t>(width));
  detail::append_big_endian(header, static_cast<std::uint32_t>(height));
  header += '\x8';                                               // bits per channel
  header += channels == 1 ? '\0' : channels == 3 ? '\2' : '\6';  // colour type
  header.append(3, '\0');                                        // deflate, filters by row, not interlaced
  std::string rows;
  rows.reserve(height * (row + 1));
  for (std::size_t y = 0; y < height; ++y) {
    rows += '\0';  // filter type: none
    rows.append(reinterpret_cast<const char*>(pixels + y * row), row);
  }
  std::string image = "\x89PNG\r\n\x1a\n";
  detail::append_png_chunk(image, "IHDR", header);
  detail::append_png_chunk(image, "IDAT", detail::compressed(rows));
  detail::append_png_chunk(image, "IEND", {});
  return image;
}

}  // namespace weft::data
