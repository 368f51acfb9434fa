#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include <weft/config.hpp>
#include <weft/error.hpp>

WEFT_COLD_BEGIN
namespace weft::data {

namespace detail {

enum class packing { gzip, zlib };

/// Unpacks a file.
class unpacker {
 public:
  virtual ~unpacker() = default;
  /// Reads up to `count` bytes, at least one unless the content ends. Throws data_loss where the file is damaged.
  virtual std::size_t read(unsigned char* to, std::size_t count) = 0;
};

/// Null unless a file of the program was compiled with zlib: what else the program consists of, weft::compiled say,
/// need not know. Takes the file over, which is at its beginning.
inline unpacker* (*new_unpacker)(const std::string& path, std::FILE* file, packing) = nullptr;

/// What has been read from the file; 0 at its end.
std::size_t read_file(std::FILE* file, const std::string& path, unsigned char* to, std::size_t count);
[[noreturn]] void damaged_file(const std::string& path, const char* how);
[[noreturn]] void cannot_open(const std::string& path, int reason);

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

 private:
  // Deflate's own limit is 1032: 258 bytes from two bits.
  static constexpr std::uint64_t max_expansion = 1032;

  void unpack(detail::packing);
  void close();

  std::string path_;
  std::FILE* file_ = nullptr;  ///< the unpacker's once there is one
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
  struct stat status {};
  // Not std::fopen: of a pipe it would wait for a writer.
  const int opened = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (opened < 0) detail::cannot_open(path_, errno);
  const bool known = ::fstat(opened, &status) == 0;
  if (!known || !S_ISREG(status.st_mode) || !(file_ = ::fdopen(opened, "rb"))) {
    const int reason = errno;
    ::close(opened);
    if (known && !S_ISREG(status.st_mode))
      throw error(error_code::invalid_argument, "open", {path_, " is not a regular file"});
    detail::cannot_open(path_, reason);
  }
  bytes_ = static_cast<std::uint64_t>(status.st_size);
  const bool packed = std::fgetc(file_) == 0x1f && std::fgetc(file_) == 0x8b;
  std::rewind(file_);
  if (packed) unpack(detail::packing::gzip);
}

WEFT_DECL file_reader::~file_reader() { close(); }

WEFT_DECL void file_reader::unpack_zlib() { unpack(detail::packing::zlib); }

WEFT_DECL std::size_t file_reader::read(void* destination, std::size_t count) {
  auto* at = static_cast<unsigned char*>(destination);
  std::size_t done = 0;
  while (done < count) {
    const std::size_t got =
        unpacker_ ? unpacker_->read(at + done, count - done) : detail::read_file(file_, path_, at + done, count - done);
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
  unpacker_ = detail::new_unpacker(path_, file_, how);
  file_ = nullptr;
}

WEFT_DECL void file_reader::close() {
  if (file_) std::fclose(std::exchange(file_, nullptr));
  delete std::exchange(unpacker_, nullptr);
}

namespace detail {

WEFT_DECL std::size_t read_file(std::FILE* file, const std::string& path, unsigned char* to, std::size_t count) {
  const std::size_t got = std::fread(to, 1, count, file);
  if (got == 0 && std::ferror(file))
    throw error(error_code::unavailable, "read", {path, " cannot be read: ", std::strerror(errno)});
  return got;
}

WEFT_DECL void damaged_file(const std::string& path, const char* how) {
  throw error(error_code::data_loss, "read", {path, " ", how, "; fetch the file again"});
}

WEFT_DECL void cannot_open(const std::string& path, int reason) {
  const auto code = reason == ENOENT || reason == ENOTDIR ? error_code::not_found
                    : reason == EACCES                    ? error_code::permission_denied
                                                          : error_code::unavailable;
  throw error(code, "open", {path, " cannot be opened: ", std::strerror(reason)});
}

}  // namespace detail

}  // namespace weft::data
WEFT_COLD_END
#endif

#ifdef WEFT_HAS_ZLIB
  #include <weft/data/unpacker.hpp>
#endif
