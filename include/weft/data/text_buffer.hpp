// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weft/data/file_reader.hpp>
#include <weft/error.hpp>

namespace weft::data::detail {

/// Reads the lines of a text file. The buffer grows only with the longest line.
class text_buffer {
 public:
  /// Throws the errors of file_reader.
  text_buffer(std::string path, std::size_t max_line_bytes)
      : file_(std::move(path)), max_line_bytes_(max_line_bytes), bytes_(block + slack) {
    refill();
    if (end_ >= 3 && std::memcmp(bytes_.data(), "\xef\xbb\xbf", 3) == 0) next_ = 3;  // UTF-8's byte order mark
  }

  const std::string& path() const { return file_.path(); }
  /// The number of the current line, from 1.
  std::uint64_t line() const { return line_; }

  /// Reads the next line, without its line end; it is valid until the next call. It is followed by a newline or 0, and
  /// eight bytes after it are readable. Throws invalid_argument if it is too long.
  bool next(std::string_view& line) {
    begin_ = next_;
    line_ = next_line_;
    return go_on(line);
  }

  /// Extends the line by its line end and the next line; returns false at the end of the file.
  bool extend(std::string_view& line) { return go_on(line); }

 private:
  static constexpr std::size_t block = std::size_t{1} << 18, slack = 8;

  bool go_on(std::string_view& line) {
    const std::size_t before = next_ - begin_;
    for (std::size_t seen = before;;) {  // bytes of the line
      const char* const from = bytes_.data() + begin_ + seen;
      const auto* const stop = static_cast<const char*>(std::memchr(from, '\n', end_ - begin_ - seen));
      seen = stop ? static_cast<std::size_t>(stop - bytes_.data()) - begin_ : end_ - begin_;
      if (seen > max_line_bytes_)
        throw error(error_code::invalid_argument, "read",
                    {path(), ":", line_, " is longer than ", max_line_bytes_, " bytes",
                     before > 0 ? ": a quote may be unclosed" : ""});
      if (!stop && refill()) continue;
      if (!stop && seen == before) return false;
      line = {bytes_.data() + begin_, seen};
      next_ = begin_ + seen + (stop ? 1 : 0);
      ++next_line_;
      return true;
    }
  }

  /// Moves the line to the front of the buffer, and reads more data after it.
  bool refill() {
    const std::size_t left = end_ - begin_;
    if (begin_ > 0) std::memmove(bytes_.data(), bytes_.data() + begin_, left);
    next_ -= begin_;
    begin_ = 0;
    end_ = left;
    if (bytes_.size() - slack - left < block / 2) bytes_.resize(2 * bytes_.size());
    const std::size_t got = file_.read_available(bytes_.data() + end_, bytes_.size() - slack - end_);
    if (got == 0) file_.check();  // lines before the damage are valid
    end_ += got;
    std::memset(bytes_.data() + end_, 0, slack);
    return got > 0;
  }

  file_reader file_;
  std::size_t max_line_bytes_;
  std::vector<char> bytes_;
  std::size_t begin_ = 0, next_ = 0, end_ = 0;  ///< start of the line, end of the line, end of the data
  std::uint64_t line_ = 0, next_line_ = 1;
};

}  // namespace weft::data::detail
