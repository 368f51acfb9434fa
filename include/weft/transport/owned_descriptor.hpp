// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <unistd.h>

#include <atomic>

#include <weft/config.hpp>

namespace weft {

/// A file descriptor that the destructor closes, unless release() was called. Shared by pointer.
class owned_descriptor {
 public:
  explicit owned_descriptor(int number) : number_(number) {}
  owned_descriptor(const owned_descriptor&) = delete;
  owned_descriptor& operator=(const owned_descriptor&) = delete;
  ~owned_descriptor() {
    if (const int number = release(); number >= 0) ::close(number);
  }

  /// Returns the descriptor and transfers its ownership to the caller; -1 after the first call.
  int release() const { return number_.exchange(-1); }
  int get() const { return number_; }

 private:
  mutable std::atomic<int> number_;
};

}  // namespace weft
