#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include <weft/error.hpp>

namespace weft::detail {

/// A file that is written under a temporary name beside its own, and has its own only when all of it is on the disk.
class output_file {
 public:
  explicit output_file(std::string path) : path_(std::move(path)) {
    static std::atomic<unsigned> count{0};
    temporary_ = str_cat({path_, ".tmp-", ::getpid(), "-", count++});
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file_ < 0) fail("created");
  }
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;
  ~output_file() {
    if (file_ < 0) return;
    ::close(file_);
    ::unlink(temporary_.c_str());
  }

  const std::string& path() const { return path_; }
  std::uint64_t bytes() const { return bytes_; }

  void write(std::span<const std::byte> from) {
    while (!from.empty()) {
      const ssize_t done = ::write(file_, from.data(), from.size());
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) fail("written");
      from = from.subspan(static_cast<std::size_t>(done));
      bytes_ += static_cast<std::uint64_t>(done);
    }
  }
  void write(const std::string& text) { write(std::as_bytes(std::span(text))); }

  /// Gives it its name. Without this call there is no file.
  void commit() {
    if (::fsync(file_) != 0) fail("written");
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("renamed");
    ::close(std::exchange(file_, -1));
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    const int reason = errno;
    const auto code = reason == ENOSPC || reason == EDQUOT                      ? error_code::resource_exhausted
                      : reason == EACCES || reason == EPERM || reason == EROFS ? error_code::permission_denied
                      : reason == ENOENT || reason == ENOTDIR                  ? error_code::not_found
                                                                               : error_code::unavailable;
    throw error(code, "write", {path_, " cannot be ", what, ": ", std::strerror(reason)});
  }

  std::string path_, temporary_;
  int file_ = -1;
  std::uint64_t bytes_ = 0;
};

}  // namespace weft::detail
