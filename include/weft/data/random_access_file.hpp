#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include <weft/error.hpp>

namespace weft::data {

namespace detail {

[[noreturn]] inline void fail_to_open(const std::string& path, int reason) {
  const auto code = reason == ENOENT || reason == ENOTDIR ? error_code::not_found
                    : reason == EACCES                    ? error_code::permission_denied
                                                          : error_code::unavailable;
  throw error(code, "open", {path, " cannot be opened: ", std::strerror(reason)});
}

}  // namespace detail

/// A regular file, of which bytes are read in any order, by any number of threads.
class random_access_file {
 public:
  /// Throws not_found, permission_denied or unavailable where the file cannot be opened, invalid_argument where it is a
  /// folder, a pipe or a device.
  explicit random_access_file(std::string path) : path_(std::move(path)) {
    // A pipe would be waited for without O_NONBLOCK.
    file_ = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file_ < 0) detail::fail_to_open(path_, errno);
    struct stat status {};
    const int reason = ::fstat(file_, &status) == 0 ? 0 : errno;
    if (reason == 0 && S_ISREG(status.st_mode)) {
      bytes_ = static_cast<std::uint64_t>(status.st_size);
      return;
    }
    ::close(file_);
    if (reason != 0) detail::fail_to_open(path_, reason);
    throw error(error_code::invalid_argument, "open", path_ + " is not a regular file");
  }
  random_access_file(random_access_file&& other) noexcept
      : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)), bytes_(other.bytes_) {}
  random_access_file& operator=(random_access_file&&) = delete;
  ~random_access_file() {
    if (file_ >= 0) ::close(file_);
  }

  const std::string& path() const { return path_; }

  /// Its size when it was opened.
  std::uint64_t bytes() const { return bytes_; }

  /// The file's descriptor, which is then the caller's to close.
  int release() { return std::exchange(file_, -1); }

  /// Reads `count` bytes from `offset` on. Throws data_loss where the file ends before, unavailable where it cannot be
  /// read.
  void read(std::uint64_t offset, void* destination, std::size_t count) const {
    if (offset > bytes_ || count > bytes_ - offset) ends_early(offset, count);
    auto* to = static_cast<unsigned char*>(destination);
    while (count > 0) {
      const ssize_t got = ::pread(file_, to, count, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0)
        throw error(error_code::unavailable, "read", {path_, " cannot be read: ", std::strerror(errno)});
      if (got == 0) ends_early(offset, count);  // somebody has cut it since
      to += got;
      offset += static_cast<std::uint64_t>(got);
      count -= static_cast<std::size_t>(got);
    }
  }

 private:
  [[noreturn]] void ends_early(std::uint64_t offset, std::size_t count) const {
    throw error(error_code::data_loss, "read",
                {path_, " ends before byte ", offset, " + ", count, ": it is cut; fetch the file again"});
  }

  std::string path_;
  int file_ = -1;
  std::uint64_t bytes_ = 0;
};

}  // namespace weft::data
