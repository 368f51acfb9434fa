// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "result_file.hpp"

/// Where a run's time went, by the name of what it was doing.
class time_table {
 public:
  using clock = std::chrono::steady_clock;

  /// Adds the time since the last mark to `what`. The first mark counts from the table's making.
  void mark(const char* what) {
    const auto now = clock::now();
    row(what) += now - last_;
    last_ = now;
  }

  double seconds(const char* what) { return std::chrono::duration<double>(row(what)).count(); }
  double total() const { return std::chrono::duration<double>(last_ - start_).count(); }

  void print(std::FILE* out) const {
    std::fputs("where the time went:\n", out);
    for (const auto& [what, time] : rows_) {
      const double seconds = std::chrono::duration<double>(time).count();
      std::fprintf(out, "  %-24s %8.2f s  %5.1f %%\n", what, seconds, 100 * seconds / total());
    }
  }

 private:
  clock::duration& row(const char* what) {
    for (auto& [name, time] : rows_)
      if (std::strcmp(name, what) == 0) return time;
    return rows_.emplace_back(what, clock::duration::zero()).second;
  }

  clock::time_point start_ = clock::now(), last_ = start_;
  std::vector<std::pair<const char*, clock::duration>> rows_;
};

/// The result of a run.
struct result {
  std::string strategy;
  std::int64_t workers = 1, lost = 0;  // lost: of these, where the run has gone on without them
  double steps_per_s = 0, images_per_s = 0, test_accuracy = 0, final_cost = 0, seconds = 0;
  std::optional<double> top_5_accuracy{};  // where it is measured
};

inline void print(const result& r, std::FILE* out) {
  std::fprintf(out, "test accuracy %.4f, ", r.test_accuracy);
  if (r.top_5_accuracy) std::fprintf(out, "top-5 %.4f, ", *r.top_5_accuracy);
  std::fprintf(out, "final cost %.4f\n", r.final_cost);
  const std::string some = r.lost == 0 ? "" : std::to_string(r.workers - r.lost) + " of ";
  std::fprintf(out, "%.0f steps/s, %.0f images/s, %.2f s of training, %s%lld worker%s, %s\n", r.steps_per_s,
               r.images_per_s, r.seconds, some.c_str(), static_cast<long long>(r.workers), r.workers == 1 ? "" : "s",
               r.strategy.c_str());
}

/// Writes the result as one JSON object on one line. Throws unavailable where the file cannot be written.
inline void write_json(const result& r, const std::string& path) {
  const auto number = json_number;
  const std::string top_5 =
      r.top_5_accuracy ? "\"top_5_accuracy\": " + number("%.4f", *r.top_5_accuracy) + ", " : std::string();
  write_file(path,
             "{\"strategy\": \"%s\", \"workers\": %lld, \"steps_per_s\": %s, \"images_per_s\": %s, "
             "\"test_accuracy\": %s, %s\"final_cost\": %s, \"seconds\": %s}\n",
             r.strategy.c_str(), static_cast<long long>(r.workers), number("%.1f", r.steps_per_s).c_str(),
             number("%.1f", r.images_per_s).c_str(), number("%.4f", r.test_accuracy).c_str(), top_5.c_str(),
             number("%.6g", r.final_cost).c_str(), number("%.3f", r.seconds).c_str());
}
