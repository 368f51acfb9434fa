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

/// The flags of a program, under headings. The variable that a flag sets has its value already if the flag is not
/// given. A wrong flag throws weft::error. Boost.Program_options is compiled in command_line.cpp alone.
class command_line {
 public:
  explicit command_line(const char* purpose);
  ~command_line();
  command_line(const command_line&) = delete;
  command_line& operator=(const command_line&) = delete;

  /// Flags that are added from here on belong under it, beside those that are there.
  void heading(const std::string& text);

  void add(const char* flag, std::string& to, const char* meaning);
  void add(const char* flag, std::string& to, const std::vector<std::string>& words, const char* meaning);
  /// Adds a flag for one of some words that is nothing unless given.
  void add(const char* flag, std::optional<std::string>& to, const std::vector<std::string>& words,
           const char* meaning);
  /// Adds a flag for text that `check` throws at if it is wrong.
  void add(const char* flag, std::string& to, void (*check)(const std::string&), const char* meaning);
  void add(const char* flag, std::int64_t& to, std::int64_t least, std::int64_t most, const char* meaning);
  /// Adds a flag for a whole number that is nothing unless given.
  void add(const char* flag, std::optional<std::int64_t>& to, std::int64_t least, std::int64_t most,
           const char* meaning);
  /// Adds a flag for a number above 0.
  void add(const char* flag, double& to, const char* meaning);
  /// Adds a flag for a number above 0 that is nothing unless given.
  void add(const char* flag, std::optional<double>& to, double below, const char* meaning);
  /// Adds a flag for a number that may be 0.
  void add_from_0(const char* flag, double& to, double below, const char* meaning);
  /// Adds a flag for what is, or is not.
  void add(const char* flag, bool& to, const char* meaning);
  /// Adds the flag for how progress is shown: "auto" unless given.
  void add(const char* flag, weft::progress_mode& to, const char* meaning);

  /// Returns false where --help was asked for and given.
  bool parse(int argc, char** argv) const;

 private:
  struct options;
  std::unique_ptr<options> options_;
};

/// More threads than that have never made anything faster.
std::int64_t max_threads();

/// Throws where it is below what is to be reached, when all else is done.
void check_accuracy(double accuracy, double to_reach);
