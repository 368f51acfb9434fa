// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft {
enum class progress_mode : unsigned char;
}

[[noreturn]] void refuse(const std::string& why);

void check_range(const char* flag, std::int64_t value, std::int64_t least, std::int64_t most);

/// The flags of a program, under headings. A flag that is not given leaves its variable unchanged. A wrong flag throws
/// weft::error. Boost.Program_options is compiled in command_line.cpp alone.
class command_line {
 public:
  explicit command_line(const char* purpose);
  ~command_line();
  command_line(const command_line&) = delete;
  command_line& operator=(const command_line&) = delete;

  /// Lists the following flags under this heading. A heading that exists already keeps its flags.
  void heading(const std::string& text);

  void add(const char* flag, std::string& to, const char* meaning);
  void add(const char* flag, std::string& to, const std::vector<std::string>& words, const char* meaning);
  /// Adds a flag for one of the words; without the flag, `to` is empty.
  void add(const char* flag, std::optional<std::string>& to, const std::vector<std::string>& words,
           const char* meaning);
  /// Adds a flag for text; `check` throws if the text is wrong.
  void add(const char* flag, std::string& to, void (*check)(const std::string&), const char* meaning);
  void add(const char* flag, std::int64_t& to, std::int64_t least, std::int64_t most, const char* meaning);
  /// Adds a flag for an integer; without the flag, `to` is empty.
  void add(const char* flag, std::optional<std::int64_t>& to, std::int64_t least, std::int64_t most,
           const char* meaning);
  /// Adds a flag for a number above 0.
  void add(const char* flag, double& to, const char* meaning);
  /// Adds a flag for a number above 0; without the flag, `to` is empty.
  void add(const char* flag, std::optional<double>& to, double below, const char* meaning);
  /// Adds a flag for a number of at least 0.
  void add_from_0(const char* flag, double& to, double below, const char* meaning);
  /// Adds a flag without a value, which sets `to` to true.
  void add(const char* flag, bool& to, const char* meaning);
  /// Adds a flag for the display of progress, by default "auto".
  void add(const char* flag, weft::progress_mode& to, const char* meaning);

  /// Returns false if --help was given, after printing the help.
  bool parse(int argc, char** argv) const;

 private:
  struct options;
  std::unique_ptr<options> options_;
};

/// The largest number of threads that the examples accept.
std::int64_t max_threads();

/// Throws if the test accuracy is below the required one.
void check_accuracy(double accuracy, double to_reach);
