#pragma once

#include <signal.h>

#include <array>
#include <atomic>
#include <cstddef>

#include <weft/config.hpp>

namespace weft {

/// While it lives, the first SIGINT or SIGTERM does not end the program: received() says which one has come, and the
/// program ends when it has saved what it must. A second one of the same kind ends it at once, as if nobody had asked.
///
/// Handlers that the program has installed itself stay, and then nothing is received here. The handlers belong to the
/// process: of several objects alive at once all receive the signal.
class stop_signals {
 public:
  stop_signals() {
    if (users()++ > 0) return;
    number() = 0;
    for (std::size_t i = 0; i < ending.size(); ++i) {
      struct sigaction before {};
      if (::sigaction(ending[i], nullptr, &before) != 0 || before.sa_handler != SIG_DFL) continue;
      struct sigaction now {};
      now.sa_handler = receive;
      now.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
      ::sigaction(ending[i], &now, nullptr);
    }
  }
  stop_signals(const stop_signals&) = delete;
  stop_signals& operator=(const stop_signals&) = delete;
  ~stop_signals() {
    if (--users() > 0) return;
    for (const int each : ending) {
      struct sigaction now {};
      if (::sigaction(each, nullptr, &now) == 0 && now.sa_handler == receive) ::signal(each, SIG_DFL);
    }
  }

  /// The signal's number; 0: none has come since the first of these objects was made.
  int received() const noexcept { return number().load(std::memory_order_relaxed); }

 private:
  static constexpr std::array ending{SIGINT, SIGTERM};

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
