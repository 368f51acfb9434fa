// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/data/file_reader.hpp>

#ifdef WEFT_HAS_ZLIB

  #include <zlib.h>

  #include <cstddef>
  #include <cstdint>
  #include <cstring>

  #include <weft/error.hpp>

WEFT_COLD_BEGIN
namespace weft::data::detail {

/// The state of zlib, and its input.
class inflater final : public unpacker {
 public:
  explicit inflater(packing how) : gzip_(how == packing::gzip) {
    if (::inflateInit2(&state_, gzip_ ? 31 : 15) != Z_OK)
      throw error(error_code::resource_exhausted, "read", "out of memory for zlib's state");
  }
  inflater(const inflater&) = delete;
  inflater& operator=(const inflater&) = delete;
  ~inflater() override { ::inflateEnd(&state_); }

  std::size_t read(file_reader& from, unsigned char* to, std::size_t count) override {
    state_.next_out = to;
    state_.avail_out = count < (1u << 30) ? static_cast<unsigned>(count) : 1u << 30;
    const unsigned asked = state_.avail_out;
    while (state_.avail_out == asked && !ended_) {
      if (state_.avail_in == 0 && !take_input(from)) {
        ended_ = true;
        if (!between_members_) fail(from, "ends in the middle of its compressed data");
        break;
      }
      if (between_members_ && !begin_member(from)) break;
      const int outcome = ::inflate(&state_, Z_NO_FLUSH);
      if (outcome == Z_STREAM_END) {
        between_members_ = true;
      } else if (outcome != Z_OK && outcome != Z_BUF_ERROR) {
        ended_ = true;
        fail(from, "has damaged compressed data");
      }
    }
    return asked - state_.avail_out;
  }

 private:
  /// Appends input after the bytes that zlib has not consumed; returns false at the end of the file.
  bool take_input(file_reader& from) {
    if (state_.avail_in > 0) std::memmove(input_, state_.next_in, state_.avail_in);
    const std::size_t got = from.read_plain(input_ + state_.avail_in, sizeof input_ - state_.avail_in);
    state_.next_in = input_;
    state_.avail_in += static_cast<unsigned>(got);
    taken_ += got;
    return got > 0;
  }

  /// Returns true if another gzip member follows. Trailing zeros are padding; any other bytes are a damaged member.
  bool begin_member(file_reader& from) {
    if (state_.avail_in < 2) take_input(from);
    between_members_ = false;
    ended_ = !gzip_ || state_.avail_in < 2 || state_.next_in[0] != 0x1f || state_.next_in[1] != 0x8b;
    if (!ended_) ::inflateReset(&state_);
    if (ended_ && !ends_in_zeros(from)) fail(from, "has bytes other than zeros after its compressed data");
    return !ended_;
  }
  /// Skips zeros; returns true if the rest of the file contains only zeros.
  bool ends_in_zeros(file_reader& from) {
    do
      for (; state_.avail_in > 0; --state_.avail_in, ++state_.next_in)
        if (*state_.next_in != 0) return false;
    while (take_input(from));
    return true;
  }

  void fail(file_reader& from, const char* how) { from.fail_to_unpack(how, taken_ - state_.avail_in); }

  bool gzip_, between_members_ = false, ended_ = false;
  std::uint64_t taken_ = 0;  ///< bytes of the file
  z_stream state_{};
  unsigned char input_[1u << 16];
};

/// True once the program's readers can decompress files.
inline const bool has_zlib = [] {
  new_unpacker = [](packing how) -> unpacker* { return new inflater(how); };
  return true;
}();

}  // namespace weft::data::detail
WEFT_COLD_END
#endif
