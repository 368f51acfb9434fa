// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weft/error.hpp>

namespace weft {

/// The display of a run's progress: one line that is overwritten, a new line every few seconds, or nothing. `automatic`
/// selects a bar on a terminal and lines elsewhere.
enum class progress_mode : unsigned char { automatic, bar, lines, none };

/// Parses "auto", "bar", "lines" or "none". Throws invalid_argument for any other word.
inline progress_mode parse_progress_mode(std::string_view word) {
  if (word == "auto") return progress_mode::automatic;
  if (word == "bar") return progress_mode::bar;
  if (word == "lines") return progress_mode::lines;
  if (word == "none") return progress_mode::none;
  throw error(error_code::invalid_argument, "progress",
              "the mode must be auto, bar, lines or none, but is \"" + std::string(word) + "\"");
}

/// The size of a run, and how to display its progress.
struct progress_options {
  std::int64_t steps = 0;            ///< in total; 0 if unknown
  std::int64_t steps_per_epoch = 0;  ///< 0: no epochs
  std::int64_t items_per_step = 0;   ///< 0: no rate is displayed
  const char* items = "images";
  progress_mode mode = progress_mode::automatic;
  std::FILE* out = stderr;
  std::size_t columns = 0;  ///< width of the bar's line; 0: the terminal's
  std::chrono::milliseconds bar_interval{100};
  std::chrono::milliseconds line_interval{3000};
};

namespace detail {

/// While a bar is displayed, ends its line before an otherwise unhandled signal such as Ctrl-C ends the program, so
/// that the shell's prompt begins a new line.
class line_ended_by_signals {
 public:
  explicit line_ended_by_signals(int descriptor) {
    int nobody = -1;
    if (!drawn_on().compare_exchange_strong(nobody, descriptor)) return;  // another bar handles the signals
    ours_ = true;
    for (const int number : ending) {
      struct sigaction before{};
      if (::sigaction(number, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) continue;
      struct sigaction now{};
      now.sa_handler = end_line;
      now.sa_flags = static_cast<int>(SA_RESETHAND);
      ::sigaction(number, &now, nullptr);
    }
  }
  line_ended_by_signals(const line_ended_by_signals&) = delete;
  line_ended_by_signals& operator=(const line_ended_by_signals&) = delete;
  ~line_ended_by_signals() {
    if (!ours_) return;
    for (const int number : ending) {
      struct sigaction now{};
      if (::sigaction(number, nullptr, &now) == 0 && now.sa_handler == end_line) ::signal(number, SIG_DFL);
    }
    drawn_on() = -1;
  }

 private:
  static constexpr int ending[] = {SIGINT, SIGTERM, SIGHUP};

  static std::atomic<int>& drawn_on() {
    static std::atomic<int> descriptor{-1};
    return descriptor;
  }

  static void end_line(int number) {
    const int descriptor = drawn_on().exchange(-1);
    if (descriptor >= 0 && ::write(descriptor, "\n", 1) < 0) {
      // The terminal is closed.
    }
    ::raise(number);  // the default action ends the program
  }

  bool ours_ = false;
};

}  // namespace detail

/// Displays a run's step, epoch, cost, speed and remaining time.
///
///     progress shown({.steps = steps, .steps_per_epoch = batches, .items_per_step = 100});
///     ... shown.update(step, cost);
///
/// An update that displays nothing takes about 25 nanoseconds.
template <class Clock = std::chrono::steady_clock>
class basic_progress {
 public:
  explicit basic_progress(progress_options options)
      : options_(options), start_(Clock::now()), measured_from_(start_), last_(start_) {
    if (options_.mode == progress_mode::automatic)
      options_.mode = ::isatty(::fileno(options_.out)) ? progress_mode::bar : progress_mode::lines;
    interval_ = options_.mode == progress_mode::bar ? options_.bar_interval : options_.line_interval;
    next_ = start_ + options_.bar_interval;
    if (options_.mode == progress_mode::bar && ::isatty(::fileno(options_.out)))
      signals_.emplace(::fileno(options_.out));
  }
  basic_progress(const basic_progress&) = delete;
  basic_progress& operator=(const basic_progress&) = delete;
  ~basic_progress() { finish(); }

  /// Records that `step` steps are done, by all workers of a cluster, and that this process's last one had `cost`.
  void update(std::int64_t step, double cost) {
    if (options_.mode == progress_mode::none) return;
    const auto now = Clock::now();
    if (first_ < 0) {
      // Speed is measured from the end of the first step, because that step also plans, and other workers can have made
      // steps before it.
      first_ = last_step_ = step;
      measured_from_ = last_ = now;
    }
    step_ = step;
    cost_ = cost;
    if (now >= next_) show(now);
  }

  /// Displays the final state and ends the line. The destructor calls it.
  void finish() {
    if (finished_) return;
    finished_ = true;
    if (options_.mode == progress_mode::none || first_ < 0) return signals_.reset();
    show(Clock::now());
    if (options_.mode == progress_mode::bar) std::fputc('\n', options_.out);
    std::fflush(options_.out);
    signals_.reset();
  }

 private:
  using time_point = typename Clock::time_point;

  void show(time_point now) {
    next_ = now + interval_;
    // Shows the recent speed during the run, and the average speed at its end.
    const bool whole = finished_ || step_ == last_step_;
    const double seconds = std::chrono::duration<double>(now - (whole ? measured_from_ : last_)).count();
    const auto steps = static_cast<double>(step_ - (whole ? first_ : last_step_));
    if (!finished_) {
      last_ = now;
      last_step_ = step_;
    }
    const double rate = seconds > 0 ? steps / seconds : 0;
    const std::string text = describe(rate, std::chrono::duration<double>(now - start_).count());
    if (options_.mode == progress_mode::bar) {
      // Returns to the start of the line, and erases the rest of the previous text.
      std::fprintf(options_.out, "\r%s\x1b[K", text.c_str());
      std::fflush(options_.out);
    } else {
      std::fprintf(options_.out, "%s\n", text.c_str());
      std::fflush(options_.out);
    }
  }

  /// One column less than the line: a longer text would wrap and could not be overwritten.
  std::size_t room() const {
    if (options_.mode != progress_mode::bar) return std::string::npos;
    winsize terminal{};
    std::size_t columns = options_.columns;
    if (columns == 0 && ::ioctl(::fileno(options_.out), TIOCGWINSZ, &terminal) == 0) columns = terminal.ws_col;
    return columns > 0 ? columns - 1 : std::string::npos;
  }

  std::string describe(double rate, double elapsed) const {
    enum worth : int { bar, batch, step_time, epoch, speed, most };
    std::vector<std::pair<int, std::string>> parts;  // if space is short, the lowest priority is dropped first
    const auto add = [&parts](worth what, const char* format, auto... values) {
      char part[96];
      std::snprintf(part, sizeof part, format, values...);
      parts.emplace_back(what, part);
    };
    if (options_.mode == progress_mode::bar && options_.steps > 0) {
      constexpr std::int64_t width = 16;
      const std::int64_t done = step_ < options_.steps ? step_ * width / options_.steps : width;
      parts.emplace_back(bar, '[' + std::string(static_cast<std::size_t>(done), '=') +
                                  std::string(static_cast<std::size_t>(width - done), ' ') + "] ");
    }
    add(most, "step %lld", static_cast<long long>(step_));
    if (options_.steps > 0) add(most, "/%lld", static_cast<long long>(options_.steps));
    if (options_.steps_per_epoch > 0) {
      const std::int64_t before = step_ > 0 ? step_ - 1 : 0;  // the current step belongs to this epoch
      add(epoch, "  epoch %lld", static_cast<long long>(before / options_.steps_per_epoch + 1));
      add(batch, "  batch %lld/%lld", static_cast<long long>(step_ > 0 ? before % options_.steps_per_epoch + 1 : 0),
          static_cast<long long>(options_.steps_per_epoch));
    }
    parts.emplace_back(most, "  cost " + format_number("%.*f", 4, cost_));
    if (rate > 0) {
      const double us = 1e6 / rate;
      const bool short_step = us < 1000;
      parts.emplace_back(step_time, "  " + format_number("%.*f", short_step ? 0 : 2, short_step ? us : us / 1000) +
                                        (short_step ? " us/step" : " ms/step"));
      if (options_.items_per_step > 0)
        parts.emplace_back(
            speed, "  " + thousands(rate * static_cast<double>(options_.items_per_step)) + ' ' + options_.items + "/s");
    }
    if (finished_)
      parts.emplace_back(most, "  took " + clock_time(elapsed));
    else if (rate > 0 && options_.steps > step_)
      parts.emplace_back(most, "  left " + clock_time(static_cast<double>(options_.steps - step_) / rate));
    return joined(parts, most, room());
  }

  static std::string joined(const std::vector<std::pair<int, std::string>>& parts, int most, std::size_t room) {
    std::string text;
    for (int least = 0; least <= most; ++least) {
      text.clear();
      for (const auto& [worth, part] : parts)
        if (worth >= least) text += part;
      if (text.size() <= room) break;
    }
    return text.substr(0, room);
  }

  /// Formats 1234567 as 1,234,567.
  static std::string thousands(double value) {
    std::string digits = std::to_string(std::llround(value));
    for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
    return digits;
  }

  /// Formats 3725 seconds as 1:02:05, and 8 as 0:08.
  static std::string clock_time(double seconds) {
    const auto s = static_cast<long long>(seconds + 0.5);
    char text[40];
    if (s >= 3600)
      std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    else
      std::snprintf(text, sizeof text, "%lld:%02lld", s / 60, s % 60);
    return text;
  }

  progress_options options_;
  time_point start_, measured_from_, last_, next_;
  std::chrono::milliseconds interval_{};
  std::int64_t first_ = -1, step_ = 0, last_step_ = 0;
  double cost_ = 0;
  bool finished_ = false;
  std::optional<detail::line_ended_by_signals> signals_;
};

/// See basic_progress.
using progress = basic_progress<>;

}  // namespace weft
