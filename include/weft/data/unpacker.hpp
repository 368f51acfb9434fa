#pragma once

// Included by file_reader.hpp in programs with zlib.

#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <string>

#include <weft/data/file_reader.hpp>
#include <weft/error.hpp>

WEFT_COLD_BEGIN
namespace weft::data::detail {

/// The file is read through its descriptor: its path may have become that of another file.
class gzip_unpacker final : public unpacker {
 public:
  gzip_unpacker(const std::string& path, std::FILE* file) : path_(path) {
    const int descriptor = ::dup(::fileno(file));
    std::fclose(file);
    if (descriptor < 0) cannot_open(path_, errno);
    ::lseek(descriptor, 0, SEEK_SET);
    file_ = ::gzdopen(descriptor, "rb");
    if (!file_) {
      ::close(descriptor);
      cannot_open(path_, ENOMEM);
    }
    ::gzbuffer(file_, 1u << 17);
  }
  ~gzip_unpacker() override { ::gzclose(file_); }

  std::size_t read(unsigned char* to, std::size_t count) override {
    const int got = ::gzread(file_, to, count < (1u << 30) ? static_cast<unsigned>(count) : 1u << 30);
    int state = Z_OK;
    ::gzerror(file_, &state);
    if (state == Z_BUF_ERROR) damaged_file(path_, "ends in the middle of its compressed data");
    if (got < 0) damaged_file(path_, "is damaged: its compressed data cannot be unpacked");
    return static_cast<std::size_t>(got);
  }

 private:
  const std::string& path_;
  gzFile file_;
};

/// Unpacks zlib's own form.
class zlib_unpacker final : public unpacker {
 public:
  zlib_unpacker(const std::string& path, std::FILE* file) : path_(path), file_(file) {
    if (::inflateInit(&state_) == Z_OK) return;
    std::fclose(file);
    throw error(error_code::resource_exhausted, "read", "no memory for zlib's state");
  }
  ~zlib_unpacker() override {
    ::inflateEnd(&state_);
    std::fclose(file_);
  }

  std::size_t read(unsigned char* to, std::size_t count) override {
    state_.next_out = to;
    state_.avail_out = count < (1u << 30) ? static_cast<unsigned>(count) : 1u << 30;
    const unsigned asked = state_.avail_out;
    while (state_.avail_out == asked && !ended_) {
      if (state_.avail_in == 0) {
        state_.next_in = input_;
        state_.avail_in = static_cast<unsigned>(read_file(file_, path_, input_, sizeof input_));
        if (state_.avail_in == 0) damaged_file(path_, "ends in the middle of its compressed data");
      }
      const int outcome = ::inflate(&state_, Z_NO_FLUSH);
      if (outcome == Z_STREAM_END)
        ended_ = true;
      else if (outcome != Z_OK && outcome != Z_BUF_ERROR)
        damaged_file(path_, "is damaged: its compressed data cannot be unpacked");
    }
    return asked - state_.avail_out;
  }

 private:
  const std::string& path_;
  std::FILE* file_;
  z_stream state_{};
  bool ended_ = false;
  unsigned char input_[1u << 16];
};

/// True once readers of this program unpack files.
inline const bool has_zlib = [] {
  new_unpacker = [](const std::string& path, std::FILE* file, packing how) -> unpacker* {
    if (how == packing::gzip) return new gzip_unpacker(path, file);
    return new zlib_unpacker(path, file);
  };
  return true;
}();

}  // namespace weft::data::detail
WEFT_COLD_END
