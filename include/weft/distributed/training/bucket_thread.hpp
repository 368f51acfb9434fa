#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <weft/deadline.hpp>
#include <weft/error.hpp>

namespace weft::detail {

/// A thread that reduces buckets of gradients, one after the other in their order, each as soon as it may. One round
/// after the other: begin(), release() as buckets are complete, finish().
class bucket_thread {
 public:
  /// `reduce(bucket, until)` is called in the thread. After deadline_exceeded it is called again, and goes on.
  bucket_thread(std::size_t buckets, std::function<void(std::size_t, deadline)> reduce)
      : buckets_(buckets), reduce_(std::move(reduce)), thread_([this] { run(); }) {}
  bucket_thread(const bucket_thread&) = delete;
  bucket_thread& operator=(const bucket_thread&) = delete;
  /// Takes no longer than a call of `reduce` that waits.
  ~bucket_thread() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  /// Whether a round has begun and not been finished. Asked, like all else, by the thread that runs steps.
  bool under_way() const { return under_way_; }

  void begin() {
    std::lock_guard lock(mutex_);
    under_way_ = true;
    next_ = released_ = 0;
  }

  /// The first `count` buckets are complete.
  void release(std::size_t count) {
    {
      std::lock_guard lock(mutex_);
      released_ = std::max(released_, count);
    }
    changed_.notify_all();
  }

  /// Ends a round of which no bucket is released; false, and nothing has changed, where one is.
  bool cancel() {
    std::lock_guard lock(mutex_);
    if (released_ == 0) under_way_ = false;
    return !under_way_;
  }

  /// Releases all buckets and waits for them. Throws what `reduce` has thrown: after deadline_exceeded it may be called
  /// again, and after all else the round has ended.
  void finish(deadline until) {
    std::unique_lock lock(mutex_);
    released_ = buckets_;
    until_ = until;
    if (problem_ && problem_->code() == error_code::deadline_exceeded) problem_.reset();
    changed_.notify_all();
    while (!problem_ && next_ < buckets_) detail::sleep(changed_, lock, slice);
    until_.reset();
    if (!problem_) {
      under_way_ = false;
      return;
    }
    const error problem = *problem_;
    if (problem.code() != error_code::deadline_exceeded) {
      under_way_ = false;
      problem_.reset();
      next_ = released_ = buckets_;
    }
    throw problem;
  }

 private:
  /// How long a call waits before it looks whether this object ends, or a deadline has been given.
  static constexpr std::chrono::milliseconds slice{100};

  void run() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      if (problem_ || next_ >= released_) {
        detail::sleep(changed_, lock, std::chrono::seconds(1));
        continue;
      }
      const deadline until(until_ ? std::min(deadline(slice).at(), until_->at()) : deadline(slice).at());
      std::optional<error> problem;
      lock.unlock();
      try {
        reduce_(next_, until);
      } catch (const error& thrown) {
        problem = thrown;
      } catch (const std::exception& thrown) {
        problem = error(error_code::internal, "exchange", thrown.what());
      }
      lock.lock();
      if (!problem)
        ++next_;
      else if (problem->code() != error_code::deadline_exceeded || (until_ && until_->expired()))
        problem_ = problem;
      changed_.notify_all();
    }
  }

  const std::size_t buckets_;
  const std::function<void(std::size_t, deadline)> reduce_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t released_ = 0, next_ = 0;  // next_: written by the thread alone while a round is under way
  std::optional<deadline> until_;        // of finish(), while it waits
  std::optional<error> problem_;         // the thread waits until it has been thrown
  bool under_way_ = false, stopping_ = false;
  std::thread thread_;
};

}  // namespace weft::detail
