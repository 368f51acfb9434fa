// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <weft/distributed/cluster/environment_variable.hpp>
#include <weft/error.hpp>
#include <weft/printable.hpp>

namespace weft::detail {

/// Reads Slurm's lists of hosts, such as "login,node[01-04,7],rack[1-2]n[1-8]". A name can have several brackets. A
/// number with leading zeros keeps its width. Throws weft::error (invalid_argument).
class host_list_reader {
 public:
  static std::vector<std::string> read(const environment_variable& list) { return host_list_reader(list).all(); }

 private:
  static constexpr std::size_t max_name = 253;  // the longest DNS name
  static constexpr std::size_t max_text = std::size_t{1} << 20;

  explicit host_list_reader(const environment_variable& list) : list_(list), text_(list.value) {}

  std::vector<std::string> all() {
    if (text_.size() > max_text) list_.fail({"is longer than ", max_text, " characters"});
    for (;;) {
      one();
      if (at_ == text_.size()) return std::move(found_);
      ++at_;  // the comma at which one() has stopped
    }
  }

  /// Reads one element of the list: all names that its brackets expand to.
  void one() {
    const std::size_t begin = at_;
    std::vector<std::string> names{""};
    for (; at_ < text_.size() && text_[at_] != ','; ++at_) {
      const char c = text_[at_];
      if (c == '[') {
        names = combined(names, bracket());
      } else {
        const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                          c == '-' || c == '_';
        if (!fits) list_.fail_at(at_, c == ']' ? "']' without '['" : "host names cannot contain this character");
        for (std::string& each : names) each += c;
      }
      if (names[0].size() > max_name) list_.fail_at(begin, "a host name is too long");
    }
    if (at_ == begin) list_.fail_at(at_, "a host name is expected");
    check_count(found_.size() + names.size());
    found_.insert(found_.end(), names.begin(), names.end());
  }

  /// Reads the numbers in brackets; stops at the closing bracket.
  std::vector<std::string> bracket() {
    const std::size_t close = text_.find(']', at_);
    if (close == std::string_view::npos) list_.fail_at(at_, "'[' without ']'");
    std::vector<std::string> numbers;
    for (std::size_t begin = at_ + 1; begin <= close;) {
      const std::size_t end = std::min(text_.find(',', begin), close);
      const std::size_t dash = std::min(text_.find('-', begin), end);
      const std::uint64_t first = list_.number(begin, dash, max_number);
      const std::uint64_t last = dash == end ? first : list_.number(dash + 1, end, max_number);
      if (last < first) list_.fail_at(begin, "a range must ascend");
      check_count(static_cast<std::size_t>(std::min<std::uint64_t>(last - first, max_number)) + 1 + numbers.size());
      const std::size_t width = dash - begin;
      if (width > max_name) list_.fail_at(begin, "a host name is too long");
      for (std::uint64_t n = first; n <= last; ++n) {
        std::string digits = std::to_string(n);
        if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
        numbers.push_back(std::move(digits));
      }
      begin = end + 1;
    }
    at_ = close;
    return numbers;
  }

  std::vector<std::string> combined(const std::vector<std::string>& fronts, const std::vector<std::string>& backs) {
    check_count(fronts.size() * backs.size());
    std::vector<std::string> all;
    for (const std::string& front : fronts)
      for (const std::string& back : backs) all.push_back(front + back);
    return all;
  }

  void check_count(std::size_t count) const {
    if (count > max_environment_tasks) list_.fail({"names more than ", max_environment_tasks, " hosts, the limit"});
  }

  static constexpr std::uint64_t max_number = 999'999'999'999;

  const environment_variable& list_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<std::string> found_;
};

/// Reads Slurm's counts, one for each host: "2(x3),1" is 2, 2, 2, 1. Throws weft::error (invalid_argument).
inline std::vector<int> read_counts(const environment_variable& list) {
  std::vector<int> counts;
  std::uint64_t sum = 0;
  const std::string& text = list.value;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::size_t times_at = std::min(text.find("(x", begin), end);
    const std::uint64_t count = list.number(begin, times_at, max_environment_tasks);
    std::uint64_t times = 1;
    if (times_at != end) {
      if (text[end - 1] != ')') list.fail_at(end - 1, "'(x' without ')'");
      times = list.number(times_at + 2, end - 1, max_environment_tasks);
    }
    sum += count * times;
    if (sum > max_environment_tasks || counts.size() + times > max_environment_tasks)
      list.fail({"counts more than ", max_environment_tasks, " tasks, the limit"});
    counts.insert(counts.end(), times, static_cast<int>(count));
    begin = end + 1;
  }
  return counts;
}

}  // namespace weft::detail
