// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string>
#include <system_error>

#include <weft/error.hpp>
#include <weft/printable.hpp>

namespace weft::detail {

/// The largest number of tasks or hosts that an environment variable may specify.
inline constexpr std::size_t max_environment_tasks = std::size_t{1} << 16;

/// An environment variable. Errors contain its name and value.
struct environment_variable {
  std::string name, value;

  [[noreturn]] void fail(std::initializer_list<piece> why) const {
    throw error(error_code::invalid_argument, "environment", {name, "='", printable(value, 200), "' ", str_cat(why)});
  }
  [[noreturn]] void fail_at(std::size_t at, piece why) const { fail({"is wrong at character ", at + 1, ": ", why}); }

  /// Returns the value, or its part from `begin` to `end`, as a whole number. Throws weft::error (invalid_argument).
  std::uint64_t number(std::uint64_t max) const { return number(0, value.size(), max); }
  std::uint64_t number(std::size_t begin, std::size_t end, std::uint64_t max) const {
    std::uint64_t n = 0;
    const auto [stop, problem] = std::from_chars(value.data() + begin, value.data() + end, n);
    if (begin == end || problem == std::errc::invalid_argument || stop != value.data() + end)
      fail_at(problem == std::errc{} ? static_cast<std::size_t>(stop - value.data()) : begin,
              "a whole number is expected");
    if (problem != std::errc{} || n > max) fail_at(begin, str_cat({"a number of at most ", max, " is expected"}));
    return n;
  }
};

inline std::optional<environment_variable> variable_of(const char* name) {
  const char* const value = std::getenv(name);
  if (!value || !*value) return {};
  return environment_variable{name, value};
}

/// Returns the first of these variables that is set.
inline std::optional<environment_variable> first_variable_of(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (auto found = variable_of(name)) return found;
  return {};
}

inline environment_variable needed_variable(const char* name, const std::string& because) {
  if (auto found = variable_of(name)) return *found;
  throw error(error_code::invalid_argument, "environment", {name, " is not set, but ", because, "; set it too"});
}

inline environment_variable needed_variable(std::initializer_list<const char*> names, const std::string& because) {
  if (auto found = first_variable_of(names)) return *found;
  return needed_variable(*names.begin(), because);
}

}  // namespace weft::detail
