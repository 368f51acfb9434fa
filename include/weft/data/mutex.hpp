// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <pthread.h>
#include <time.h>

#include <weft/data/time_limit.hpp>

namespace weft::data::detail {

// Uses pthreads: <mutex> and <condition_variable> would add a quarter of a second to the compile time of a program.

class mutex {
 public:
  mutex() = default;
  mutex(const mutex&) = delete;
  mutex& operator=(const mutex&) = delete;
  ~mutex() { ::pthread_mutex_destroy(&mutex_); }

  void lock() { ::pthread_mutex_lock(&mutex_); }
  void unlock() { ::pthread_mutex_unlock(&mutex_); }

 private:
  friend class condition;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

/// Holds a mutex, unless it is null, until it is destroyed or unlocked.
class unique_lock {
 public:
  explicit unique_lock(mutex& held) : unique_lock(&held) {}
  explicit unique_lock(mutex* held) : held_(held) {
    if (held_) held_->lock();
  }
  unique_lock(const unique_lock&) = delete;
  unique_lock& operator=(const unique_lock&) = delete;
  ~unique_lock() { unlock(); }

  void unlock() {
    if (held_) held_->unlock();
    held_ = nullptr;
  }

 private:
  mutex* held_;
};

/// A condition variable on the monotonic clock, because the system clock can be set back.
class condition {
 public:
  condition() {
    pthread_condattr_t attributes;
    ::pthread_condattr_init(&attributes);
    ::pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    ::pthread_cond_init(&changed_, &attributes);
    ::pthread_condattr_destroy(&attributes);
  }
  condition(const condition&) = delete;
  condition& operator=(const condition&) = delete;
  ~condition() { ::pthread_cond_destroy(&changed_); }

  void notify_one() { ::pthread_cond_signal(&changed_); }
  void notify_all() { ::pthread_cond_broadcast(&changed_); }

  /// Waits until notified or the limit; can return earlier. The mutex must be held.
  void wait(mutex& held, const time_limit& within = time_limit::never()) {
    if (within.is_never()) {
      ::pthread_cond_wait(&changed_, &held.mutex_);
    } else {
      const timespec at = within.at();
      ::pthread_cond_timedwait(&changed_, &held.mutex_, &at);
    }
  }

 private:
  pthread_cond_t changed_;
};

}  // namespace weft::data::detail
