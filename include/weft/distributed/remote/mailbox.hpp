#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/error.hpp>

namespace weft::detail {

/// Values that have come for one task and wait until its step receives them. Any thread may call.
template <typename Clock = std::chrono::steady_clock>
class mailbox {
 public:
  /// Returns whether it is kept: a second value of a number is not, nor one that comes after close().
  bool put(std::uint32_t transfer, std::vector<std::byte> value) {
    {
      std::lock_guard lock(mutex_);
      if (closed_ || !values_.emplace(transfer, std::move(value)).second) return false;
    }
    changed_.notify_all();
    return true;
  }
  /// Drops what has come. Returns how many bytes that was.
  std::size_t close() {
    std::lock_guard lock(mutex_);
    std::size_t bytes = 0;
    for (const auto& [transfer, value] : values_) bytes += value.size();
    values_.clear();
    closed_ = true;
    return bytes;
  }
  /// Ends the waits of this step with an error. The first one counts.
  void fail(const error& why) {
    {
      std::lock_guard lock(mutex_);
      if (!failure_) failure_ = why;
    }
    changed_.notify_all();
  }
  std::optional<error> failure() const {
    std::lock_guard lock(mutex_);
    return failure_;
  }
  void clear() {
    std::lock_guard lock(mutex_);
    values_.clear();
    failure_.reset();
  }

  /// Throws deadline_exceeded, what the step failed with, and what check() throws, which is called now and then.
  template <typename Check>
  std::vector<std::byte> take(std::uint32_t transfer, basic_deadline<Clock> until, const std::string& from,
                              Check check) {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (const auto found = values_.find(transfer); found != values_.end()) {
        std::vector<std::byte> value = std::move(found->second);
        values_.erase(found);
        return value;
      }
      if (failure_) throw *failure_;
      if (until.expired())
        throw error(error_code::deadline_exceeded, "receive", {"no value has come from ", from, " in time"});
      if (!sleep_once(lock, until)) continue;
      lock.unlock();
      check();
      lock.lock();
    }
  }

 private:
  static constexpr std::chrono::milliseconds between_checks{20};

  /// Returns whether it has slept for as long as it may.
  bool sleep_once(std::unique_lock<std::mutex>& lock, basic_deadline<Clock> until) {
    const auto began = Clock::now();
    sleep<Clock>(changed_, lock, until.remaining(between_checks));
    return Clock::now() - began >= between_checks;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint32_t, std::vector<std::byte>> values_;
  std::optional<error> failure_;
  bool closed_ = false;
};

}  // namespace weft::detail
