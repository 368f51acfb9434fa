// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include <weft/device/cpu/dispatch.hpp>
#include <weft/error.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// Throws the system's error `reason` for the file `path`.
[[noreturn]] inline void fail_on_file(const char* what, const std::string& path, int reason) {
  const bool full = reason == ENOSPC || reason == EDQUOT || reason == EFBIG;
  const error_code code = reason == ENOENT || reason == ENOTDIR                    ? error_code::not_found
                          : reason == EACCES || reason == EPERM || reason == EROFS ? error_code::permission_denied
                          : full                                                   ? error_code::resource_exhausted
                                                                                   : error_code::unavailable;
  throw error(code, what,
              {path, " cannot be ", what == std::string_view("read") ? "read" : "written", ": ", std::strerror(reason),
               full ? "; make room, or write to another disk" : ""});
}

/// A file descriptor that is closed on destruction.
class descriptor {
 public:
  descriptor() = default;
  explicit descriptor(int fd) : fd_(fd) {}
  descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

inline std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

/// Makes created, renamed and deleted names in a folder durable.
inline void sync_folder(const std::string& path) {
  const descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) fail_on_file("write", path, errno);
  // Some file systems do not support fsync on folders and do not need it.
  if (::fsync(folder.get()) != 0 && errno != EINVAL) fail_on_file("write", path, errno);
}

/// Returns the path or, if it is a symbolic link, the final target, which need not exist.
inline std::string follow_links(std::string path) {
  for (int links = 0;; ++links) {
    char target[4096];
    const ssize_t size = ::readlink(path.c_str(), target, sizeof target);
    if (size < 0) return path;
    if (links == 40 || size == sizeof target) fail_on_file("write", path, ELOOP);
    const std::string next(target, static_cast<std::size_t>(size));
    path = next.starts_with('/') ? next : str_cat({folder_of(path), "/", next});
  }
}

/// Writes a file atomically: the bytes go to a temporary file in the same folder, which `commit` syncs to disk and
/// renames. Until then, and if the new file is not committed, the old file remains. A process that is killed leaves
/// `PATH.tmp-...`. A symbolic link remains, and its target is replaced. The new file gets the permissions of the file
/// that it replaces and, if the system allows it, its owner.
///
/// Throws invalid_argument if the path is a folder, a pipe, a socket or a device; not_found, permission_denied or
/// unavailable; resource_exhausted if the disk is full.
class atomic_file {
 public:
  /// Allocates `expected_bytes` on the disk at once; 0 if the size is not known.
  explicit atomic_file(std::string path, std::uint64_t expected_bytes = 0) : path_(std::move(path)) {
    struct stat before{};
    const bool replaces = ::stat(path_.c_str(), &before) == 0;
    if (!replaces && (errno != ENOENT || path_.empty())) fail_on_file("write", path_, errno);
    if (replaces && !S_ISREG(before.st_mode))
      throw error(error_code::invalid_argument, "write",
                  {path_, " must be a regular file, but is ",
                   S_ISDIR(before.st_mode)    ? "a folder"
                   : S_ISFIFO(before.st_mode) ? "a pipe"
                   : S_ISSOCK(before.st_mode) ? "a socket"
                                              : "a device",
                   ": write to another path"});
    path_ = follow_links(std::move(path_));
    static std::uint64_t number = 0;
    do {
      temporary_ = str_cat({path_, ".tmp-", ::getpid(), "-", __atomic_fetch_add(&number, 1, __ATOMIC_RELAXED)});
      // No other process may open the file before it has the permissions of the file that it replaces.
      file_ = descriptor(
          ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, replaces ? S_IRUSR | S_IWUSR : 0666));
    } while (!file_ && errno == EEXIST);
    if (!file_) fail_on_file("write", path_, errno);
    if (replaces) {
      // Only the superuser can change the owner. Doing so clears some permissions, so they are set afterwards.
      static_cast<void>(::fchown(file_.get(), before.st_uid, before.st_gid) == 0);
      static_cast<void>(::fchmod(file_.get(), before.st_mode & 0777) == 0);
    }
    if (expected_bytes == 0) return;
    if (::fallocate(file_.get(), 0, 0, static_cast<off_t>(expected_bytes)) == 0) return;
    if (const int reason = errno; reason == ENOSPC || reason == EDQUOT || reason == EFBIG) {
      ::unlink(temporary_.c_str());  // the destructor will not run
      fail_on_file("write", path_, reason);
    }
  }
  atomic_file(const atomic_file&) = delete;
  atomic_file& operator=(const atomic_file&) = delete;
  ~atomic_file() {
    if (file_) ::unlink(temporary_.c_str());
  }

  void write(const void* bytes, std::size_t size) {
    const auto* at = static_cast<const std::byte*>(bytes);
    while (size > 0) {
      const ssize_t written = ::write(file_.get(), at, size < piece ? size : piece);
      if (written < 0) {
        if (errno == EINTR) continue;
        fail_on_file("write", path_, errno);
      }
      // Starts writing to the disk now instead of at fsync.
      ::sync_file_range(file_.get(), at_, written, SYNC_FILE_RANGE_WRITE);
      at_ += written;
      at += written;
      size -= static_cast<std::size_t>(written);
    }
  }

  void commit() {
    if (::fsync(file_.get()) != 0) fail_on_file("write", path_, errno);
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_on_file("write", path_, errno);
    file_ = descriptor();
    sync_folder(folder_of(path_));
  }

  static constexpr std::size_t piece = std::size_t{8} << 20;

 private:
  std::string path_, temporary_;
  descriptor file_;
  off_t at_ = 0;
};

/// A file for random access.
///
/// Throws not_found, permission_denied or unavailable if the file cannot be read, and data_loss if it has become
/// shorter since it was opened.
class input_file {
 public:
  explicit input_file(std::string path) : path_(std::move(path)) {
    // O_NONBLOCK: opening a pipe would otherwise block until it has a writer.
    file_ = descriptor(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat status{};
    if (!file_ || ::fstat(file_.get(), &status) != 0) fail_on_file("read", path_, errno);
    if (!S_ISREG(status.st_mode)) throw error(error_code::invalid_argument, "read", {path_, " is not a regular file"});
    bytes_ = static_cast<std::uint64_t>(status.st_size);
  }

  const std::string& path() const { return path_; }
  std::uint64_t bytes() const { return bytes_; }
  const descriptor& open_descriptor() const { return file_; }

  void read(std::uint64_t offset, void* to, std::size_t size) const {
    auto* at = static_cast<std::byte*>(to);
    while (size > 0) {
      const ssize_t got = ::pread(file_.get(), at, size < most ? size : most, static_cast<off_t>(offset));
      if (got < 0) {
        if (errno == EINTR) continue;
        fail_on_file("read", path_, errno);
      }
      if (got == 0)
        throw error(error_code::data_loss, "read",
                    {path_, " ends at byte ", offset, ", but had ", bytes_, " bytes when it was opened"});
      at += got;
      offset += static_cast<std::uint64_t>(got);
      size -= static_cast<std::size_t>(got);
    }
  }

  /// Tells the system that the whole file is about to be read.
  void will_be_read() const { ::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_SEQUENTIAL); }

 private:
  static constexpr std::size_t most = std::size_t{1} << 30;

  std::string path_;
  descriptor file_;
  std::uint64_t bytes_ = 0;
};

}  // namespace weft::detail
WEFT_COLD_END
