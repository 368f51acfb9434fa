// SPDX-License-Identifier: BSL-1.0
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

/// A thread that reduces buckets of gradients in order, each as soon as it is released. A round consists of begin(),
/// release() when buckets are complete, and finish().
class bucket_thread {
 public:
  /// The thread calls `reduce(bucket, until)`. After deadline_exceeded, it calls it again to continue.
  bucket_thread(std::size_t buckets, std::function<void(std::size_t, deadline)> reduce)
      : buckets_(buckets), reduce_(std::move(reduce)), thread_([this] { run(); }) {}
  bucket_thread(const bucket_thread&) = delete;
  bucket_thread& operator=(const bucket_thread&) = delete;
  /// Takes at most as long as one waiting call of `reduce`.
  ~bucket_thread() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  /// Returns true between begin() and the end of the round. Like all member functions, for the thread that runs steps.
  bool under_way() const { return under_way_; }

  void begin() {
    std::lock_guard lock(mutex_);
    under_way_ = true;
    next_ = released_ = 0;
  }

  /// Marks the first `count` buckets as complete.
  void release(std::size_t count) {
    {
      std::lock_guard lock(mutex_);
      released_ = std::max(released_, count);
    }
    changed_.notify_all();
  }

  /// Ends a round in which no bucket has been released. Otherwise returns false and changes nothing.
  bool cancel() {
    std::lock_guard lock(mutex_);
    if (released_ == 0) under_way_ = false;
    return !under_way_;
  }

  /// Releases all buckets and waits until they are reduced. Throws the errors of `reduce`. After deadline_exceeded,
  /// finish() may be called again; after any other error, the round has ended.
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
  /// Time limit of each call of `reduce`, after which the thread checks for destruction and for a new deadline.
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
  std::size_t released_ = 0, next_ = 0;  // during a round, only the thread writes next_
  std::optional<deadline> until_;        // the deadline of finish(), while it waits
  std::optional<error> problem_;         // the thread pauses until finish() has thrown it
  bool under_way_ = false, stopping_ = false;
  std::thread thread_;
};

}  // namespace weft::detail
