#pragma once

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>

#include <weft/error.hpp>

[[noreturn]] inline void refuse_to_write(const std::string& path, int reason) {
  throw weft::error(weft::error_code::unavailable, "", path + " cannot be written: " + std::strerror(reason));
}

/// Throws unavailable where the file cannot be written: before a run rather than after it.
inline void check_writable(const std::string& path) {
  std::FILE* out = std::fopen(path.c_str(), "a");
  if (!out) refuse_to_write(path, errno);
  std::fclose(out);
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
