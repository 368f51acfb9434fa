#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>

#include <weft/error.hpp>

[[noreturn]] inline void refuse_to_write(const std::string& path, int reason) {
  throw weft::error(weft::error_code::unavailable, "", path + " cannot be written: " + std::strerror(reason));
}

/// Throws unavailable where the file cannot be written: before a run rather than after it. Leaves behind none that was
/// not there: the run may fail.
inline void check_writable(const std::string& path) {
  struct stat status {};
  const bool was_there = ::lstat(path.c_str(), &status) == 0;
  std::FILE* out = std::fopen(path.c_str(), "a");
  if (!out) refuse_to_write(path, errno);
  std::fclose(out);
  if (!was_there) std::remove(path.c_str());
}

/// Throws unavailable where what was printed has not been written: to a full disk, say.
inline void check_output() {
  if (std::fflush(stdout) != 0) refuse_to_write("the output", errno);
  if (std::ferror(stdout)) refuse_to_write("the output", EIO);
}

/// Writes the file, as std::printf does. Throws unavailable where it cannot be written.
[[gnu::format(printf, 2, 3)]] inline void write_file(const std::string& path, const char* format, ...) {
  std::FILE* out = std::fopen(path.c_str(), "w");
  if (!out) refuse_to_write(path, errno);
  std::va_list values;
  va_start(values, format);
  const bool written = std::vfprintf(out, format, values) >= 0;
  va_end(values);
  const int reason = errno;
  if (std::fclose(out) != 0) refuse_to_write(path, errno);
  if (!written) refuse_to_write(path, reason);
}
