// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <signal.h>
#include <sys/stat.h>

#include <cerrno>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include <weft/error.hpp>

[[noreturn]] inline void refuse_to_write(const std::string& path, int reason) {
  throw weft::error(weft::error_code::unavailable, "", path + " cannot be written: " + std::strerror(reason));
}

/// Tells what a program ends with, the exception that is being handled, and returns what its main does.
inline int tell_failure() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    std::fputs("error: out of memory\n", stderr);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
  }
  return 1;
}

/// Ends the program by a signal that it has handled, so that its parent sees which signal ended it.
[[noreturn]] inline void end_by_signal(int number) {
  std::fflush(nullptr);
  ::signal(number, SIG_DFL);
  ::raise(number);
  std::_Exit(128 + number);
}

/// Throws unavailable where the file cannot be written: before a run rather than after it. Leaves behind none that was
/// not there: the run may fail.
inline void check_writable(const std::string& path) {
  struct stat status{};
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

/// A number of JSON, which has none that is not finite: null stands for those.
inline std::string json_number(const char* format, double value) {
  if (!std::isfinite(value)) return "null";
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

/// Throws invalid_argument where a run's cost is not a number one can go on with, or be content with.
inline void check_cost(double cost, std::int64_t step, double learning_rate) {
  if (std::isfinite(cost)) return;
  char why[160];
  std::snprintf(why, sizeof why, "the cost is %f at step %lld; lower --learning_rate, which is %g", cost,
                static_cast<long long>(step), learning_rate);
  throw weft::error(weft::error_code::invalid_argument, "", why);
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
