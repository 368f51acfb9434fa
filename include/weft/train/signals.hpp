// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <signal.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>

#include <weft/config.hpp>

namespace weft {

/// Returns "SIGINT" or "SIGTERM", for the signals that stop_signals receives.
constexpr const char* name_of_signal(int number) { return number == SIGINT ? "SIGINT" : "SIGTERM"; }

/// While it exists, the first SIGINT or SIGTERM does not end the program: received() returns its number, and the
/// program can save its state and end. A second signal of the same kind ends the program immediately.
///
/// The handlers run on a separate stack, which the constructor installs on its thread. A program's own handlers need
/// one too (SA_ONSTACK) if they interrupt steps that oneDNN computes.
///
/// Handlers that the program has installed are kept; their signals are not received here. Handlers belong to the
/// process: if several objects exist, all of them receive a signal.
class stop_signals {
 public:
  stop_signals() {
    use_signal_stack();
    if (users()++ > 0) return;
    number() = 0;
    for (std::size_t i = 0; i < ending.size(); ++i) {
      struct sigaction before{};
      if (::sigaction(ending[i], nullptr, &before) != 0 || before.sa_handler != SIG_DFL) continue;
      struct sigaction now{};
      now.sa_handler = receive;
      now.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART | SA_ONSTACK);
      ::sigaction(ending[i], &now, nullptr);
    }
  }
  stop_signals(const stop_signals&) = delete;
  stop_signals& operator=(const stop_signals&) = delete;
  ~stop_signals() {
    if (--users() > 0) return;
    for (const int each : ending) {
      struct sigaction now{};
      if (::sigaction(each, nullptr, &now) == 0 && now.sa_handler == receive) ::signal(each, SIG_DFL);
    }
  }

  /// The signal's number; 0 if none has arrived since the first of these objects was constructed.
  int received() const noexcept { return number().load(std::memory_order_relaxed); }

 private:
  static constexpr std::array ending{SIGINT, SIGTERM};

  // oneDNN's matrix products use the stack pointer as a pointer into the heap, where a signal's frame would overwrite
  // data. Handlers therefore need a separate stack on the thread that runs the steps.
  static void use_signal_stack() {
    stack_t now{};
    if (::sigaltstack(nullptr, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) return;
    constexpr std::size_t bytes = std::size_t{1} << 16;  // a frame has up to 12 KB
    static thread_local const std::unique_ptr<std::byte[]> stack(new std::byte[bytes]);
    now = {};
    now.ss_sp = stack.get();
    now.ss_size = bytes;
    ::sigaltstack(&now, nullptr);
  }
  static std::atomic<int>& number() {
    static std::atomic<int> received{0};
    return received;
  }
  static std::atomic<int>& users() {
    static std::atomic<int> alive{0};
    return alive;
  }
  static void receive(int which) { number().store(which, std::memory_order_relaxed); }
};

}  // namespace weft
