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
#include <weft/text.hpp>

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
    const bool is_gzip = std::fgetc(file_) == 0x1f && std::fgetc(file_) == 0x8b;
    std::rewind(file_);
    if (is_gzip) open_packed();
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
    inflating_ = std::make_unique<inflating>(false);
#else
    open_packed();
#endif
  }

  /// Reads up to `count` bytes, fewer only where the content ends.
  std::size_t read(void* destination, std::size_t count) {
    const std::size_t got = read_available(destination, count);
    if (got < count) check();
    return got;
  }

  /// The same, and fewer too where the rest cannot be unpacked; `check` tells the difference.
  std::size_t read_available(void* destination, std::size_t count) {
    auto* at = static_cast<unsigned char*>(destination);
    std::size_t done = 0;
    while (done < count) {
      const std::size_t got = read_some(at + done, count - done);
      if (got == 0) break;
      done += got;
    }
    return done;
  }

  /// Why no more can be unpacked, with the byte of the file; empty where nothing is wrong.
  const std::string& failure() const { return failure_; }
  /// Throws data_loss where no more can be unpacked.
  void check() const {
    if (!failure_.empty()) throw error(error_code::data_loss, "read", {path_, " ", failure_, "; fetch the file again"});
  }

 private:
  // Deflate's own limit is 1032: 258 bytes from two bits.
  static constexpr std::uint64_t max_expansion = 1032;

#ifdef WEFT_HAS_ZLIB
  bool packed() const { return inflating_ != nullptr; }

  /// zlib's state, and what it has been given.
  struct inflating {
    z_stream state{};
    bool gzip, between_members = false, ended = false;
    std::uint64_t taken = 0;  ///< bytes of the file
    unsigned char input[1u << 16];

    explicit inflating(bool as_gzip) : gzip(as_gzip) {
      if (::inflateInit2(&state, gzip ? 31 : 15) != Z_OK)
        throw error(error_code::resource_exhausted, "read", "no memory for zlib's state");
    }
    inflating(const inflating&) = delete;
    inflating& operator=(const inflating&) = delete;
    ~inflating() { ::inflateEnd(&state); }
  };

  void open_packed() { inflating_ = std::make_unique<inflating>(true); }

  std::size_t read_some(unsigned char* at, std::size_t count) {
    if (!inflating_) return read_plain(at, count);
    if (!failure_.empty()) return 0;
    z_stream& z = inflating_->state;
    z.next_out = at;
    z.avail_out = count < (1u << 30) ? static_cast<unsigned>(count) : 1u << 30;
    const unsigned asked = z.avail_out;
    while (z.avail_out == asked && !inflating_->ended) {
      if (z.avail_in == 0 && !take_input()) {
        inflating_->ended = true;
        if (!inflating_->between_members) fail_to_unpack("ends in the middle of its compressed data");
        break;
      }
      if (inflating_->between_members && !begin_member()) break;
      const int state = ::inflate(&z, Z_NO_FLUSH);
      if (state == Z_STREAM_END) {
        inflating_->between_members = inflating_->gzip;
        inflating_->ended = !inflating_->gzip;
      } else if (state != Z_OK && state != Z_BUF_ERROR) {
        inflating_->ended = true;
        fail_to_unpack("is damaged: its compressed data cannot be unpacked");
      }
    }
    return asked - z.avail_out;
  }

  /// Reads more behind what zlib has not taken yet; false at the end of the file.
  bool take_input() {
    z_stream& z = inflating_->state;
    if (z.avail_in > 0) std::memmove(inflating_->input, z.next_in, z.avail_in);
    const std::size_t got = read_plain(inflating_->input + z.avail_in, sizeof inflating_->input - z.avail_in);
    z.next_in = inflating_->input;
    z.avail_in += static_cast<unsigned>(got);
    inflating_->taken += got;
    return got > 0;
  }

  /// Whether another member of a gzip file follows. Other bytes, padding say, are passed over, as gzip does.
  bool begin_member() {
    z_stream& z = inflating_->state;
    if (z.avail_in < 2) take_input();
    inflating_->between_members = false;
    inflating_->ended = z.avail_in < 2 || z.next_in[0] != 0x1f || z.next_in[1] != 0x8b;
    if (!inflating_->ended) ::inflateReset(&z);
    return !inflating_->ended;
  }

  void fail_to_unpack(const char* how) {
    failure_ = str_cat({how, " at byte ", inflating_->taken - inflating_->state.avail_in, " of ", bytes_});
  }

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

#endif

  void close() {
    if (file_) std::fclose(std::exchange(file_, nullptr));
  }

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

  std::string path_, failure_;
  std::FILE* file_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace weft::data
