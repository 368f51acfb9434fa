// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/error.hpp>
#include <weft/tensor/mistake.hpp>

namespace weft {

/// Threads that end together (tf.train.Coordinator). Any thread or the owner can request a stop; join() throws the
/// first exception.
///
///     coordinator together;
///     together.start("reader", [&] { while (!together.should_stop()) read(); });
///     ...
///     together.request_stop();
///     together.join(5s);
///
/// All functions are thread-safe, except that only the owner may call join() and the destructor.
class coordinator {
 public:
  coordinator() = default;
  coordinator(const coordinator&) = delete;
  coordinator& operator=(const coordinator&) = delete;

  /// Requests a stop and waits for the threads without a time limit, because a thread cannot be ended from outside.
  ~coordinator() {
    request_stop();
    for (entry& e : threads_) e.thread.join();
  }

  /// Runs `work` in a new thread. If `work` throws, requests a stop with the exception. Throws failed_precondition
  /// after join().
  void start(std::string name, std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    if (joined_)
      throw error(error_code::failed_precondition, name, "the coordinator was already joined: create a new one");
    entry& e = threads_.emplace_back();
    e.name = std::move(name);
    ++running_;
    e.thread = std::thread([this, work = std::move(work), number = threads_.size() - 1] {
      try {
        work();
      } catch (...) {
        request_stop(std::current_exception());
      }
      const std::lock_guard ending(mutex_);
      threads_[number].ended = true;
      --running_;
      changed_.notify_all();
    });
  }

  bool should_stop() const noexcept { return stop_.load(std::memory_order_acquire); }

  /// Asks all threads to end. Only the first call has an effect: later exceptions are consequences of the stop and are
  /// dropped.
  void request_stop(std::exception_ptr why = nullptr) noexcept {
    std::vector<std::function<void()>> told;
    {
      const std::lock_guard lock(mutex_);
      if (should_stop()) return;
      why_ = std::move(why);
      stop_.store(true, std::memory_order_release);
      changed_.notify_all();
      told.swap(when_stopped_);
    }
    for (const auto& f : told) f();
  }

  /// Calls f when a stop is requested, on the requesting thread, or immediately if one has been. Use it to wake threads
  /// that block elsewhere, for example in a queue. f must not throw.
  void when_stopped(std::function<void()> f) {
    {
      const std::lock_guard lock(mutex_);
      if (!should_stop()) return when_stopped_.push_back(std::move(f));
    }
    f();
  }

  /// Waits for a stop or the deadline; returns should_stop(). For threads that act periodically.
  bool wait_for_stop(deadline until) {
    std::unique_lock lock(mutex_);
    while (!should_stop() && !until.expired()) detail::sleep(changed_, lock, until.remaining(std::chrono::hours(1)));
    return should_stop();
  }

  template <class = void>
  auto join(...) WEFT_DELETED;  // a wait has a deadline: threads.join(5s)
  /// Waits for the threads to end, and throws the first exception. If the deadline passes, throws deadline_exceeded
  /// with the names of the running threads; another join() or the destructor waits for them again.
  void join(deadline until) {
    std::unique_lock lock(mutex_);
    joined_ = true;
    while (running_ > 0 && !until.expired()) detail::sleep(changed_, lock, until.remaining(std::chrono::hours(1)));
    if (running_ > 0) {
      std::string names;
      for (const entry& e : threads_)
        if (!e.ended) names += (names.empty() ? "" : ", ") + e.name;
      throw error(error_code::deadline_exceeded, "coordinator",
                  {"these threads did not end before the deadline: ", names,
                   "; a thread must check should_stop() before each piece of work, and block only with a deadline"});
    }
    std::vector<entry> ended = std::exchange(threads_, {});
    lock.unlock();
    for (entry& e : ended) e.thread.join();
    if (const std::exception_ptr why = std::exchange(why_, nullptr)) std::rethrow_exception(why);
  }

 private:
  struct entry {
    std::string name;
    std::thread thread{};
    bool ended = false;
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> stop_{false};
  std::exception_ptr why_;
  std::vector<std::function<void()>> when_stopped_;
  std::vector<entry> threads_;
  std::size_t running_ = 0;
  bool joined_ = false;
};

}  // namespace weft
