// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <unistd.h>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <exception>
#include <string>

extern "C" void __sanitizer_set_death_callback(void (*)()) __attribute__((weak));

/// A crash that ends the process in the middle of a program prints first which program that was.
namespace random_programs {

namespace crash {

inline char running[1 << 14];
inline volatile std::size_t running_length = 0;

inline void say_what_runs() {
  const std::size_t length = running_length;
  running_length = 0;  // once
  if (length == 0) return;
  constexpr char words[] = "\nThe process ends in the middle of this program:\n";
  if (write(2, words, sizeof words - 1) < 0 || write(2, running, length) < 0) return;
}

inline constexpr int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGINT};
inline struct sigaction before[std::size(signals)];

inline void on_signal(int number) {
  say_what_runs();
  for (std::size_t i = 0; i < std::size(signals); ++i)
    if (signals[i] == number) sigaction(number, &before[i], nullptr);
  raise(number);  // which whoever listened before is told when this returns
}

inline std::terminate_handler terminate_before;
[[noreturn]] inline void on_terminate() {
  say_what_runs();
  std::set_terminate(terminate_before);
  std::terminate();
}

}  // namespace crash

/// The program that runs from now on; nothing: none.
inline void running(const std::string& text) {
  const std::size_t n = text.size() < sizeof crash::running ? text.size() : sizeof crash::running;
  crash::running_length = 0;
  std::memcpy(crash::running, text.data(), n);
  crash::running_length = n;
}

/// While it lives, signals, std::terminate and a sanitizer's end print the program that runs.
class crash_report {
 public:
  crash_report() {
    struct sigaction how{};
    how.sa_handler = crash::on_signal;
    for (std::size_t i = 0; i < std::size(crash::signals); ++i) sigaction(crash::signals[i], &how, &crash::before[i]);
    crash::terminate_before = std::set_terminate(crash::on_terminate);
    if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(crash::say_what_runs);
  }
  ~crash_report() {
    running("");
    std::set_terminate(crash::terminate_before);
    for (std::size_t i = 0; i < std::size(crash::signals); ++i)
      sigaction(crash::signals[i], &crash::before[i], nullptr);
  }
  crash_report(const crash_report&) = delete;
  crash_report& operator=(const crash_report&) = delete;
};

}  // namespace random_programs
