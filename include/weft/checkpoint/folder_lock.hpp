// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <weft/encoding/file.hpp>
#include <weft/error.hpp>
#include <weft/printable.hpp>
#include <weft/text.hpp>

WEFT_COLD_BEGIN
namespace weft::detail {

/// Prevents other processes from writing to a folder. The kernel releases the lock when the process ends for any
/// reason, so no stale lock remains. Objects of one process share a lock.
///
/// The lock is flock() on the file PATH, which contains the holder's host, process and start time. On NFS the server
/// arbitrates between hosts. On file systems without locks, nothing is locked.
class WEFT_API folder_lock {
 public:
  /// Throws failed_precondition, with the holder's host, process and time, if another process has the lock, and
  /// not_found, permission_denied or unavailable if the file cannot be written.
  explicit folder_lock(const std::string& path) {
    // Another process can remove the folder and with it the locked file, so compare and retry. The retries are limited
    // because some file systems never report the same inode twice.
    for (int attempt = 0; attempt < 100; ++attempt) {
      const std::lock_guard guard(mutex());
      file_ = open(path);
      if (is_file_at(path)) return;
    }
  }

  /// Returns true if the locked file is still the one at this path.
  bool is_file_at(const std::string& path) const {
    struct stat mine{};
    struct stat there{};
    return ::fstat(file_->get(), &mine) == 0 && ::lstat(path.c_str(), &there) == 0 && mine.st_dev == there.st_dev &&
           mine.st_ino == there.st_ino;
  }

 private:
  using key = std::pair<dev_t, ino_t>;

  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  static std::map<key, std::weak_ptr<descriptor>>& held() {
    static std::map<key, std::weak_ptr<descriptor>> all;
    return all;
  }

  static std::shared_ptr<descriptor> open(const std::string& path) {
    // O_NOFOLLOW: sign() would overwrite the target of a symbolic link.
    constexpr int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW;
    auto file = std::make_shared<descriptor>(::open(path.c_str(), flags, 0666));
    if (!*file && errno == ELOOP)
      throw error(error_code::failed_precondition, "save",
                  {path, " must be a regular file, but is a symbolic link: remove it"});
    struct stat status{};
    if (!*file || ::fstat(file->get(), &status) != 0) fail_on_file("write", path, errno);
    std::weak_ptr<descriptor>& known = held()[{status.st_dev, status.st_ino}];
    if (auto same = known.lock()) return same;
    int result;
    do result = ::flock(file->get(), LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    if (result != 0 && errno == EWOULDBLOCK)
      throw error(error_code::failed_precondition, "save",
                  {folder_of(path), " is in use by ", holder(file->get()),
                   ", which saves checkpoints there: stop that run, or choose another folder"});
    known = file;
    if (result == 0) sign(file->get());
    return file;
  }

  /// Writes the holder into the lock file. A file with several hard links is not written: it can be a file that must
  /// not be overwritten. The file can belong to another user who shares the folder.
  static void sign(int file) {
    struct stat status{};
    if (::fstat(file, &status) != 0 || status.st_nlink != 1) return;
    char host[256] = "an unknown host", since[32] = "";
    ::gethostname(host, sizeof host - 1);
    const std::time_t now = std::time(nullptr);
    struct tm parts{};
    if (::gmtime_r(&now, &parts)) std::strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%SZ", &parts);
    const std::string text = str_cat({"process ", ::getpid(), " on ", host, " since ", since, "\n"});
    // Failure is harmless: only messages use the text.
    if (::ftruncate(file, 0) == 0 && ::pwrite(file, text.data(), text.size(), 0) < 0) return;
  }
  static std::string holder(int file) {
    char text[512];
    const ssize_t size = ::pread(file, text, sizeof text, 0);
    std::string who(text, size > 0 ? static_cast<std::size_t>(size) : 0);
    who.resize(std::min(who.find('\n'), who.size()));
    return who.empty() ? "another process" : printable(who);
  }

  std::shared_ptr<descriptor> file_;
};

}  // namespace weft::detail
WEFT_COLD_END
