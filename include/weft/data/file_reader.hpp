#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include <weft/error.hpp>

#ifdef WEFT_HAS_ZLIB
  #include <zlib.h>
#endif

namespace weft::data {

/// The bytes of a file from its beginning to its end. With zlib, a gzip file is unpacked on the way, and so is one of
/// zlib's own form where the reader asks for that: its first bytes could be those of another file.
///
/// Throws not_found, permission_denied or unavailable where the file cannot be read, data_loss where its compressed
/// form is damaged, and unimplemented for a gzip file in a program built without zlib.
class file_reader {
 public:
  explicit file_reader(std::string path) : path_(std::move(path)) {
    struct stat status {};
    // Not std::fopen: of a pipe it would wait for a writer.
    const int opened = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (opened < 0) fail_to_open(errno);
    file_ = ::fdopen(opened, "rb");
    if (!file_) {
      const int reason = errno;
      ::close(opened);
      fail_to_open(reason);
    }
    if (::fstat(opened, &status) != 0) fail_to_open(errno);
    if (!S_ISREG(status.st_mode)) {
      close();
      throw error(error_code::invalid_argument, "open", path_ + " is not a regular file");
    }
    bytes_ = static_cast<std::uint64_t>(status.st_size);
    const bool packed = std::fgetc(file_) == 0x1f && std::fgetc(file_) == 0x8b;
    std::rewind(file_);
    if (packed) open_packed();
  }
  file_reader(const file_reader&) = delete;
  file_reader& operator=(const file_reader&) = delete;
  ~file_reader() { close(); }

  const std::string& path() const { return path_; }

  /// The file's size, packed or not.
  std::uint64_t bytes() const { return bytes_; }

  /// No more bytes than this can come out of it, so a file that promises more is lying. Known before anything is
  /// unpacked.
  std::uint64_t max_bytes() const { return packed() ? bytes_ * max_expansion : bytes_; }

  /// Begins anew, and unpacks what zlib has packed (RFC 1950), as TensorFlow's records of the type ZLIB. Before it
  /// reads a file that is not one, it throws data_loss.
  void unpack_zlib() {
#ifdef WEFT_HAS_ZLIB
    std::rewind(file_);
    inflating_ = std::make_unique<inflating>();
#else
    open_packed();
#endif
  }

  /// Reads up to `count` bytes, fewer only where the content ends.
  std::size_t read(void* destination, std::size_t count) {
    auto* at = static_cast<unsigned char*>(destination);
    std::size_t done = 0;
    while (done < count) {
      const std::size_t got = read_some(at + done, count - done);
      if (got == 0) break;
      done += got;
    }
    return done;
  }

 private:
  // Deflate's own limit is 1032: 258 bytes from two bits.
  static constexpr std::uint64_t max_expansion = 1032;

#ifdef WEFT_HAS_ZLIB
  bool packed() const { return packed_ || inflating_; }

  /// zlib's state, and what it has been given.
  struct inflating {
    z_stream state{};
    bool ended = false;
    unsigned char input[1u << 16];

    inflating() {
      if (::inflateInit(&state) != Z_OK)
        throw error(error_code::resource_exhausted, "read", "no memory for zlib's state");
    }
    inflating(const inflating&) = delete;
    inflating& operator=(const inflating&) = delete;
    ~inflating() { ::inflateEnd(&state); }
  };

  std::size_t inflate_some(unsigned char* at, std::size_t count) {
    z_stream& z = inflating_->state;
    z.next_out = at;
    z.avail_out = count < (1u << 30) ? static_cast<unsigned>(count) : 1u << 30;
    const unsigned asked = z.avail_out;
    while (z.avail_out == asked && !inflating_->ended) {
      if (z.avail_in == 0) {
        z.next_in = inflating_->input;
        z.avail_in = static_cast<unsigned>(read_plain(inflating_->input, sizeof inflating_->input));
        if (z.avail_in == 0) damaged("ends in the middle of its compressed data");
      }
      const int state = ::inflate(&z, Z_NO_FLUSH);
      if (state == Z_STREAM_END)
        inflating_->ended = true;
      else if (state != Z_OK && state != Z_BUF_ERROR)
        damaged("is damaged: its compressed data cannot be unpacked");
    }
    return asked - z.avail_out;
  }

  void open_packed() {
    std::fclose(std::exchange(file_, nullptr));
    packed_ = ::gzopen(path_.c_str(), "rb");
    if (!packed_) fail_to_open(errno);
    ::gzbuffer(packed_, 1u << 17);
  }

  std::size_t read_some(unsigned char* at, std::size_t count) {
    if (inflating_) return inflate_some(at, count);
    if (!packed_) return read_plain(at, count);
    const int got = ::gzread(packed_, at, count < (1u << 30) ? static_cast<unsigned>(count) : 1u << 30);
    int state = Z_OK;
    ::gzerror(packed_, &state);
    if (state == Z_BUF_ERROR) damaged("ends in the middle of its compressed data");
    if (got < 0) damaged("is damaged: its compressed data cannot be unpacked");
    return static_cast<std::size_t>(got);
  }

  void close() {
    if (file_) std::fclose(file_);
    if (packed_) ::gzclose(packed_);
  }

  gzFile packed_ = nullptr;
  std::unique_ptr<inflating> inflating_;
#else
  bool packed() const { return false; }

  void open_packed() {
    close();
    throw error(error_code::unimplemented, "open",
                path_ +
                    " is compressed and this program was built without zlib: unpack it with gunzip, or install zlib "
                    "and link weft::data");
  }

  std::size_t read_some(unsigned char* at, std::size_t count) { return read_plain(at, count); }

  void close() {
    if (file_) std::fclose(file_);
  }
#endif

  std::size_t read_plain(unsigned char* at, std::size_t count) {
    const std::size_t got = std::fread(at, 1, count, file_);
    if (got == 0 && std::ferror(file_))
      throw error(error_code::unavailable, "read", path_ + " cannot be read: " + std::strerror(errno));
    return got;
  }

  [[noreturn]] void fail_to_open(int reason) {
    close();
    const auto code = reason == ENOENT || reason == ENOTDIR ? error_code::not_found
                      : reason == EACCES                    ? error_code::permission_denied
                                                            : error_code::unavailable;
    throw error(code, "open", path_ + " cannot be opened: " + std::strerror(reason));
  }

  [[noreturn]] void damaged(const char* how) const {
    throw error(error_code::data_loss, "read", path_ + " " + how + "; fetch the file again");
  }

  std::string path_;
  std::FILE* file_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace weft::data
