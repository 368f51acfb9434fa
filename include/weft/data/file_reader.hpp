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

/// Unpacks a file.
class unpacker {
 public:
  virtual ~unpacker() = default;
  /// Reads up to `count` bytes, at least one unless the content ends or cannot be unpacked.
  virtual std::size_t read(file_reader& from, unsigned char* to, std::size_t count) = 0;
};

/// Null unless a file of the program was compiled with zlib: the others, that of weft::compiled say, need not know.
inline WEFT_API unpacker* (*new_unpacker)(packing) = nullptr;

class inflater;

}  // namespace detail

/// The bytes of a file from its beginning to its end. With zlib, a gzip file is unpacked on the way, and so is one of
/// zlib's own form where the reader asks for that: its first bytes could be those of another file.
///
/// Throws not_found, permission_denied or unavailable where the file cannot be read, data_loss where its compressed
/// form is damaged, and unimplemented for a gzip file in a program built without zlib.
class file_reader {
 public:
  explicit file_reader(std::string path);
  file_reader(const file_reader&) = delete;
  file_reader& operator=(const file_reader&) = delete;
  ~file_reader();

  const std::string& path() const { return path_; }

  /// The file's size, packed or not.
  std::uint64_t bytes() const { return bytes_; }

  /// No more bytes than this can come out of it, so a file that promises more is lying. Known before anything is
  /// unpacked.
  std::uint64_t max_bytes() const { return unpacker_ ? bytes_ * max_expansion : bytes_; }

  /// Begins anew, and unpacks what zlib has packed (RFC 1950), as TensorFlow's records of the type ZLIB. Before it
  /// reads a file that is not one, it throws data_loss.
  void unpack_zlib();

  /// Reads up to `count` bytes, fewer only where the content ends.
  std::size_t read(void* destination, std::size_t count);

  /// The same, and fewer too where the rest cannot be unpacked; `check` tells the difference.
  std::size_t read_available(void* destination, std::size_t count);

  /// Why no more can be unpacked, with the byte of the file; empty where nothing is wrong.
  const std::string& failure() const { return failure_; }
  /// Throws data_loss where no more can be unpacked.
  void check() const;

 private:
  friend class detail::inflater;

  // Deflate's own limit is 1032: 258 bytes from two bits.
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
  // Not std::fopen: of a pipe it would wait for a writer.
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
                 " is compressed and this program was built without zlib: unpack it with gunzip, or install zlib and "
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
