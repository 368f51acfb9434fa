#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/error.hpp>

namespace weft::detail {

/// Values that have come for one task and wait until its step receives them. Any thread may call.
template <typename Clock = std::chrono::steady_clock>
class mailbox {
 public:
  void put(std::uint32_t transfer, std::vector<std::byte> value) {
    {
      std::lock_guard lock(mutex_);
      values_.insert_or_assign(transfer, std::move(value));
    }
    changed_.notify_all();
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

  /// Throws deadline_exceeded, and what the step failed with.
  std::vector<std::byte> take(std::uint32_t transfer, basic_deadline<Clock> until, const std::string& from) {
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
      sleep<Clock>(changed_, lock, until.remaining(std::chrono::milliseconds(200)));
    }
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint32_t, std::vector<std::byte>> values_;
  std::optional<error> failure_;
};

}  // namespace weft::detail
