// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include <weft/config.hpp>
#include <weft/error.hpp>
#include <weft/text.hpp>

WEFT_COLD_BEGIN
namespace weft::data {

class file_reader;

namespace detail {

enum class packing { gzip, zlib };

/// Decompresses a file.
class unpacker {
 public:
  virtual ~unpacker() = default;
  /// Reads up to `count` bytes, and at least one unless the content ends or is damaged.
  virtual std::size_t read(file_reader& from, unsigned char* to, std::size_t count) = 0;
};

/// Null unless a file of the program was compiled with zlib; other files, such as weft::compiled's, need no zlib.
inline WEFT_API unpacker* (*new_unpacker)(packing) = nullptr;

class inflater;

}  // namespace detail

/// Reads a file sequentially. With zlib, gzip files are decompressed automatically. The zlib format is decompressed
/// only on request, because its first bytes are not distinctive.
///
/// Throws not_found, permission_denied or unavailable if the file cannot be read, data_loss if its compressed data is
/// damaged, and unimplemented for a gzip file in a program built without zlib.
class file_reader {
 public:
  explicit file_reader(std::string path);
  file_reader(const file_reader&) = delete;
  file_reader& operator=(const file_reader&) = delete;
  ~file_reader();

  const std::string& path() const { return path_; }

  /// The size of the file as stored, compressed or not.
  std::uint64_t bytes() const { return bytes_; }

  /// An upper bound of the decompressed size, known before reading: a header that promises more is invalid.
  std::uint64_t max_bytes() const { return unpacker_ ? bytes_ * max_expansion : bytes_; }

  /// Restarts and decompresses the zlib format (RFC 1950), as in TensorFlow's records of type ZLIB. The next read
  /// throws data_loss if the file has another format.
  void unpack_zlib();

  /// Reads up to `count` bytes; fewer only at the end of the content.
  std::size_t read(void* destination, std::size_t count);

  /// Reads up to `count` bytes; fewer also if the rest is damaged, which `check` detects.
  std::size_t read_available(void* destination, std::size_t count);

  /// The reason why decompression failed, with the byte in the file; empty if it did not fail.
  const std::string& failure() const { return failure_; }
  /// Throws data_loss if decompression has failed.
  void check() const;

 private:
  friend class detail::inflater;

  // Deflate's limit is 1032: two bits can encode 258 bytes.
  static constexpr std::uint64_t max_expansion = 1032;

  void unpack(detail::packing);
  std::size_t read_plain(unsigned char* at, std::size_t count);
  void fail_to_unpack(const char* how, std::uint64_t at);
  [[noreturn]] void fail_to_open(int reason);
  void close();

  std::string path_, failure_;
  std::FILE* file_ = nullptr;
  detail::unpacker* unpacker_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace weft::data
WEFT_COLD_END

#if WEFT_DEFINITIONS

  #include <fcntl.h>
  #include <sys/stat.h>
  #include <unistd.h>

  #include <cerrno>
  #include <cstring>
  #include <utility>

WEFT_COLD_BEGIN
namespace weft::data {

WEFT_DECL file_reader::file_reader(std::string path) : path_(std::move(path)) {
  struct stat status{};
  // Not std::fopen, which waits for a writer if the file is a pipe.
  const int opened = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (opened < 0) fail_to_open(errno);
  const bool known = ::fstat(opened, &status) == 0;
  if (!known || !S_ISREG(status.st_mode) || !(file_ = ::fdopen(opened, "rb"))) {
    const int reason = errno;
    ::close(opened);
    if (known && !S_ISREG(status.st_mode))
      throw error(error_code::invalid_argument, "open", {path_, " is not a regular file"});
    fail_to_open(reason);
  }
  bytes_ = static_cast<std::uint64_t>(status.st_size);
  const bool is_gzip = std::fgetc(file_) == 0x1f && std::fgetc(file_) == 0x8b;
  std::rewind(file_);
  if (is_gzip) unpack(detail::packing::gzip);
}

WEFT_DECL file_reader::~file_reader() { close(); }

WEFT_DECL void file_reader::unpack_zlib() { unpack(detail::packing::zlib); }

WEFT_DECL std::size_t file_reader::read(void* destination, std::size_t count) {
  const std::size_t got = read_available(destination, count);
  if (got < count) check();
  return got;
}

WEFT_DECL std::size_t file_reader::read_available(void* destination, std::size_t count) {
  auto* at = static_cast<unsigned char*>(destination);
  std::size_t done = 0;
  while (done < count) {
    const std::size_t got =

        unpacker_ ? unpacker_->read(*this, at + done, count - done) : read_plain(at + done, count - done);
    if (got == 0) break;
    done += got;
  }
  return done;
}

WEFT_DECL void file_reader::unpack(detail::packing how) {
  if (!detail::new_unpacker) {
    close();
    throw error(error_code::unimplemented, "open",
                {path_,
                 " is compressed, but this program was built without zlib: unpack it with gunzip, or install zlib and "
                 "link weft::data"});
  }
  std::rewind(file_);
  delete std::exchange(unpacker_, nullptr);
  unpacker_ = detail::new_unpacker(how);
}

WEFT_DECL std::size_t file_reader::read_plain(unsigned char* at, std::size_t count) {
  const std::size_t got = std::fread(at, 1, count, file_);
  if (got == 0 && std::ferror(file_))
    throw error(error_code::unavailable, "read", {path_, " cannot be read: ", std::strerror(errno)});
  return got;
}

WEFT_DECL void file_reader::check() const {
  if (!failure_.empty()) throw error(error_code::data_loss, "read", {path_, " ", failure_, "; fetch the file again"});
}

WEFT_DECL void file_reader::fail_to_unpack(const char* how, std::uint64_t at) {
  failure_ = str_cat({how, " at byte ", at, " of ", bytes_});
}

WEFT_DECL void file_reader::fail_to_open(int reason) {
  close();
  const auto code = reason == ENOENT || reason == ENOTDIR ? error_code::not_found
                    : reason == EACCES                    ? error_code::permission_denied
                                                          : error_code::unavailable;
  throw error(code, "open", {path_, " cannot be opened: ", std::strerror(reason)});
}

WEFT_DECL void file_reader::close() {
  if (file_) std::fclose(std::exchange(file_, nullptr));
  delete std::exchange(unpacker_, nullptr);
}

}  // namespace weft::data
WEFT_COLD_END
#endif

#include <weft/data/unpacker.hpp>
