// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <weft/encoding/crc32.hpp>
#include <weft/encoding/file.hpp>
#include <weft/error.hpp>

#ifdef WEFT_HAS_ZLIB
  #include <zlib.h>
#endif

namespace weft::detail {

/// Position and encoding of a stream of bytes in a file.
struct section_place {
  std::string name;  ///< for messages: the file and the record in it
  std::uint64_t offset = 0;
  std::uint64_t stored = 0;  ///< bytes in the file
  std::uint64_t bytes = 0;   ///< bytes after decompression
  bool deflated = false;
  std::optional<std::uint32_t> crc = {};  ///< CRC-32 of the decompressed bytes
};

/// Reads the bytes of one section of a file in order, decompresses them if necessary, and verifies the checksum if
/// there is one.
///
/// Throws data_loss if the section is outside the file or damaged; unimplemented if it is deflated and the program was
/// built without zlib.
class section_reader {
 public:
  section_reader(const input_file& file, section_place place)
      : file_(&file), place_(std::move(place)), left_(place_.bytes) {
    if (place_.offset > file.bytes() || place_.stored > file.bytes() - place_.offset)
      damaged(" is beyond the end of the file");
    // Deflate expands at most 258 bytes from two bits. Checking this here prevents allocations for impossible sizes.
    if (place_.deflated ? place_.bytes / 1032 > place_.stored : place_.bytes != place_.stored)
      damaged(" declares an impossible size");
    if (place_.deflated) start_inflating();
  }
  section_reader(const section_reader&) = delete;
  section_reader& operator=(const section_reader&) = delete;

  const std::string& name() const { return place_.name; }

  /// Number of bytes that have not been read yet.
  std::uint64_t left() const { return left_; }

  /// Number of bytes read so far.
  std::uint64_t at() const { return place_.bytes - left_; }

  /// Reads `count` bytes. Verifies the checksum after the last byte.
  void read(void* destination, std::size_t count) {
    if (count > left_) damaged(" is truncated");
    if (place_.deflated)
      inflate(destination, count);
    else
      file_->read(place_.offset + at(), destination, count);
    left_ -= count;
    if (!place_.crc) return;
    crc_ = crc32({static_cast<const std::byte*>(destination), count}, crc_);
    if (left_ == 0 && crc_ != *place_.crc) damaged(" does not have the CRC-32 in the archive");
  }

 private:
  [[noreturn]] void damaged(const char* how) const {
    throw error(error_code::data_loss, "read",
                {place_.name, how, " (", place_.stored, " bytes from byte ", place_.offset,
                 " on): it is damaged; fetch the file again"});
  }

#ifdef WEFT_HAS_ZLIB
  struct inflater {
    z_stream stream{};
    unsigned char input[1 << 16];
    std::uint64_t taken = 0;
    inflater() = default;
    inflater(const inflater&) = delete;
    inflater& operator=(const inflater&) = delete;
    ~inflater() { ::inflateEnd(&stream); }
  };

  void start_inflating() {
    inflater_ = std::make_unique<inflater>();
    if (::inflateInit2(&inflater_->stream, -15) != Z_OK)
      throw error(error_code::resource_exhausted, "read", {place_.name, ": out of memory for decompression"});
  }

  void inflate(void* destination, std::size_t count) {
    inflater& in = *inflater_;
    auto* to = static_cast<unsigned char*>(destination);
    while (count > 0) {
      const auto piece = static_cast<unsigned>(std::min<std::size_t>(count, 1u << 30));
      in.stream.next_out = to;
      in.stream.avail_out = piece;
      if (in.stream.avail_in == 0 && in.taken < place_.stored) {
        const auto more = static_cast<std::size_t>(std::min<std::uint64_t>(sizeof in.input, place_.stored - in.taken));
        file_->read(place_.offset + in.taken, in.input, more);
        in.taken += more;
        in.stream.next_in = in.input;
        in.stream.avail_in = static_cast<unsigned>(more);
      }
      const int state = ::inflate(&in.stream, Z_NO_FLUSH);
      const unsigned got = piece - in.stream.avail_out;
      to += got;
      count -= got;
      if (state != Z_OK && !(state == Z_STREAM_END && count == 0)) damaged(" has damaged compressed data");
    }
  }

  std::unique_ptr<inflater> inflater_;
#else
  void start_inflating() {
    throw error(error_code::unimplemented, "read",
                {place_.name,
                 " is compressed, but this program was built without zlib: save it uncompressed (numpy.savez), or "
                 "install zlib and link weft::data"});
  }
  void inflate(void*, std::size_t) {}
#endif

  const input_file* file_;
  section_place place_;
  std::uint64_t left_;
  std::uint32_t crc_ = 0;
};

}  // namespace weft::detail
