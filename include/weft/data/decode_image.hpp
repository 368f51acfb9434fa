// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <weft/data/file_reader.hpp>
#include <weft/data/image.hpp>
#include <weft/data/jpeg.hpp>
#include <weft/data/png.hpp>
#include <weft/error.hpp>

namespace weft::data {

/// Decodes a JPEG or PNG file; its first bytes determine the format (tf.io.decode_image). Throws the errors of
/// decode_jpeg and decode_png.
template <int Channels = 3>
image<Channels> decode_image(std::string_view file, const decode_options& how = {}) {
  if (detail::is_jpeg(file)) return decode_jpeg<Channels>(file, how);
  if (detail::is_png(file)) return decode_png<Channels>(file, how);
  throw error(error_code::invalid_argument, "decode_image",
              {how.name, file.empty() ? " is empty" : " is neither a JPEG file nor a PNG file"});
}

/// Reads the image in a file. Throws the errors of file_reader and decode_image, with the file's name.
template <int Channels = 3>
image<Channels> read_image(const std::string& path, decode_options how = {}) {
  file_reader file(path);
  // In a PNG file, a pixel takes at most 8 bytes, and the metadata is small.
  constexpr std::uint64_t beside = std::uint64_t{1} << 26;
  if (file.bytes() > beside && (file.bytes() - beside) / 8 > how.max_pixels)
    throw error(error_code::resource_exhausted, "read_image",
                {path, " has ", file.bytes(), " bytes, too many for an image of at most ", how.max_pixels,
                 " pixels; increase max_pixels"});
  std::string bytes(file.bytes(), '\0');
  bytes.resize(file.read(bytes.data(), bytes.size()));
  how.name = path;
  return decode_image<Channels>(bytes, how);
}

}  // namespace weft::data
