// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include <weft/deadline.hpp>
#include <weft/device/step_watch.hpp>
#include <weft/error.hpp>
#include <weft/queue/stores.hpp>

namespace weft::detail {

/// Decides which calls of a queue proceed, and in which order, by TensorFlow's rules (core/kernels/queue_base.cc and
/// the queues next to it). Waiting enqueues form one line, waiting dequeues another. Only the first call of each line
/// is served, with as many elements as are available. A thread that changes the queue serves the waiting calls itself,
/// and wakes the complete ones, so no call overtakes another and no wake-up is lost.
template <class Store>
class queue_state {
 public:
  using element = typename Store::element;
  static constexpr std::size_t unbounded = SIZE_MAX;

  /// Until the queue is closed, it keeps at least `min_after_dequeue` elements.
  template <class... StoreArguments>
  queue_state(std::string name, std::size_t capacity, std::size_t min_after_dequeue, const StoreArguments&... s)
      : name_(std::move(name)), capacity_(capacity), min_after_dequeue_(min_after_dequeue), store_(s...) {}

  /// Moves the elements into the queue, one after the other as room becomes available. Throws cancelled if the queue is
  /// closed, or is closed with cancel_pending_enqueues meanwhile; deadline_exceeded. Elements that were moved by then
  /// stay in the queue.
  void enqueue(deadline until, element* elements, std::size_t count) {
    if (count == 0) return;
    std::unique_lock lock(mutex_);
    if (closed_ || closing_) throw closed_error();
    reserve(count, 0);
    if (producers_.empty() && consumers_.empty() && count <= room()) {
      for (std::size_t i = 0; i < count; ++i) store_.put(std::move(elements[i]));
      return;
    }
    waiter w(elements, count);
    producers_.add(w);
    serve();
    if (!wait(w, lock, until)) {
      producers_.remove(w);
      serve();
      if (!until.expired()) throw step_error();
      throw error(error_code::deadline_exceeded, name_,
                  {"timed out with ", w.left, " of ", count, " elements not enqueued: size ", store_.size(),
                   ", capacity ", capacity_, "; dequeue elements to make room"});
    }
    if (w.outcome == outcome_of_wait::cancelled)
      throw error(error_code::cancelled, name_,
                  {"the enqueue was cancelled by close(true), with ", w.left, " of ", count, " elements not enqueued"});
    if (w.outcome == outcome_of_wait::abandoned) throw abandoned_error();
  }

  /// Moves `count` elements into the array, which must be empty and have room for them. With `up_to`, moves fewer if
  /// the queue is closed and has fewer, but at least one. Throws out_of_range if the queue is closed with too few
  /// elements; deadline_exceeded. After an error, all elements are in the queue as before.
  void dequeue(deadline until, element_array<element>& to, std::size_t count, bool up_to = false) {
    if (count == 0) return;
    std::unique_lock lock(mutex_);
    if (consumers_.empty() && count <= available()) {
      for (std::size_t i = 0; i < count; ++i) store_.take(to);
      if (!producers_.empty()) serve();
      return;
    }
    if (Store::whole_batches && count > capacity_ && !closed_)
      throw error(error_code::invalid_argument, name_,
                  {"requested ", count, " elements at once, but the capacity is ", capacity_});
    waiter w(to, count, up_to);
    if (count > 1) reserve(0, count);
    consumers_.add(w);
    serve();
    if (!wait(w, lock, until)) {
      const std::size_t taken = to.size();
      give_back(w);
      consumers_.remove(w);
      serve();
      if (!until.expired()) throw step_error();
      throw error(error_code::deadline_exceeded, name_,
                  {"timed out waiting for ", count, count == 1 ? " element" : " elements", ", of which ", taken,
                   " arrived: enqueue more elements, or close the queue"});
    }
    if (w.outcome == outcome_of_wait::insufficient)
      throw error(error_code::out_of_range, name_,
                  {"is closed and has insufficient elements (requested ", count, ", current size ", w.size, ")"});
    if (w.outcome == outcome_of_wait::abandoned) throw abandoned_error();
  }

  /// Puts elements back that were dequeued but cannot be used.
  void restore(element_array<element>& taken) {
    const std::lock_guard lock(mutex_);
    store_.reserve(store_.size() + held_ + producers_.left() + taken.size());
    store_.restore(taken);
    serve();
  }

  void close(bool cancel_pending_enqueues) {
    const std::lock_guard lock(mutex_);
    if (cancel_pending_enqueues) {
      closed_ = true;
      while (!producers_.empty()) finish(producers_, outcome_of_wait::cancelled);
    } else if (closed_ || closing_) {
      throw error(error_code::cancelled, name_, "is already closed");
    }
    closing_ = true;
    serve();
  }

  void abandon() noexcept {
    const std::lock_guard lock(mutex_);
    closed_ = closing_ = abandoned_ = true;
    while (!producers_.empty()) finish(producers_, outcome_of_wait::abandoned);
    while (!consumers_.empty()) {
      give_back(*consumers_.first());
      finish(consumers_, outcome_of_wait::abandoned);
    }
  }

  std::int64_t size() const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::int64_t>(store_.size());
  }
  bool is_closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }
  std::size_t waiting() const {
    const std::lock_guard lock(mutex_);
    return producers_.size() + consumers_.size();
  }
  const std::string& name() const noexcept { return name_; }

 private:
  enum class outcome_of_wait : unsigned char { none, served, insufficient, cancelled, abandoned };

  /// A waiting call, stored in the call's own stack frame.
  struct waiter {
    waiter(element* elements, std::size_t count) : from(elements), left(count) {}
    waiter(element_array<element>& elements, std::size_t count, bool some) : to(&elements), left(count), up_to(some) {}

    element* from = nullptr;               ///< the next element to enqueue
    element_array<element>* to = nullptr;  ///< the destination of dequeued elements
    std::size_t left;                      ///< the number of elements still to enqueue or dequeue
    bool up_to = false;
    outcome_of_wait outcome = outcome_of_wait::none;
    std::size_t size = 0;  ///< of the queue, when it had too few elements
    waiter *next = nullptr, *previous = nullptr;
    std::condition_variable changed;
  };

  class line {
   public:
    bool empty() const { return !first_; }
    waiter* first() const { return first_; }
    std::size_t size() const {
      std::size_t n = 0;
      for (const waiter* w = first_; w; w = w->next) ++n;
      return n;
    }
    /// The number of elements still to enqueue or dequeue.
    std::size_t left() const {
      std::size_t n = 0;
      for (const waiter* w = first_; w; w = w->next) n += w->left;
      return n;
    }
    void add(waiter& w) {
      w.previous = last_;
      (last_ ? last_->next : first_) = &w;
      last_ = &w;
    }
    void remove(waiter& w) {
      (w.previous ? w.previous->next : first_) = w.next;
      (w.next ? w.next->previous : last_) = w.previous;
    }

   private:
    waiter *first_ = nullptr, *last_ = nullptr;
  };

  /// Reserves memory for all elements that can be in the store at once, including `in` elements to enqueue and `out` to
  /// dequeue: elements taken by a call that still waits can then be put back without allocating. There cannot be more
  /// of them than elements in the queue and in the waiting calls, nor more than the capacity plus the elements that
  /// these calls hold.
  void reserve(std::size_t in, std::size_t out) {
    const std::size_t all = store_.size() + held_ + producers_.left() + in;
    const std::size_t held = held_ + consumers_.left() + out, most = std::max(capacity_, store_.size());
    store_.reserve(all > held && all - held > most ? most + held : all);
  }
  std::size_t room() const { return store_.size() < capacity_ ? capacity_ - store_.size() : 0; }
  std::size_t available() const {
    const std::size_t stay = closed_ ? 0 : min_after_dequeue_;
    return store_.size() > stay ? store_.size() - stay : 0;
  }

  /// Ends the first call of a line. The waiter may be destroyed as soon as the mutex is free.
  void finish(line& of, outcome_of_wait outcome) noexcept {
    waiter& w = *of.first();
    of.remove(w);
    if (w.to) held_ -= w.to->size();
    w.outcome = outcome;
    w.changed.notify_one();
  }
  void give_back(waiter& w) {
    held_ -= w.to->size();
    w.left += w.to->size();
    store_.restore(*w.to);
  }

  bool put(waiter& w) {
    const std::size_t count = std::min(w.left, room());
    for (std::size_t i = 0; i < count; ++i) store_.put(std::move(*w.from++));
    w.left -= count;
    return count > 0;
  }
  bool take(waiter& w) {
    if (Store::whole_batches && available() < w.left) return false;
    const std::size_t count = std::min(w.left, available());
    for (std::size_t i = 0; i < count; ++i) store_.take(*w.to);
    w.left -= count;
    held_ += count;
    return count > 0;
  }

  /// Serves all calls that can proceed.
  void serve() {
    for (bool any = true; any;) {
      any = false;
      while (!producers_.empty()) {
        any |= put(*producers_.first());
        if (producers_.first()->left > 0) break;
        finish(producers_, outcome_of_wait::served);
      }
      // Enqueues that were waiting before the close have finished.
      if (closing_ && producers_.empty()) closed_ = true;
      while (!consumers_.empty()) {
        waiter& w = *consumers_.first();
        if (closed_ && store_.size() < w.left) {
          give_back(w);
          w.size = store_.size();
          if (w.up_to && w.size > 0)
            w.left = w.size;
          else {
            finish(consumers_, outcome_of_wait::insufficient);
            continue;
          }
        }
        any |= take(w);
        if (w.left > 0) break;
        finish(consumers_, outcome_of_wait::served);
      }
    }
  }

  /// Returns false if the deadline passes first, or if the thread's watch ends the wait: the waiter is then still in
  /// its line.
  static bool wait(waiter& w, std::unique_lock<std::mutex>& lock, deadline until) {
    step_watch* const watch = watch_of_thread;
    while (w.outcome == outcome_of_wait::none) {
      if (until.expired() || (watch && watch->is_over())) return false;
      sleep(w.changed, lock, until.remaining(watch ? std::chrono::milliseconds(20) : std::chrono::hours(1)));
    }
    return true;
  }
  error step_error() const { return error(error_code::cancelled, name_, "the waiting step was cancelled"); }

  error closed_error() const {
    return abandoned_ ? abandoned_error() : error(error_code::cancelled, name_, "is closed");
  }
  error abandoned_error() const {
    return error(error_code::cancelled, name_, "no longer exists: its container has been reset");
  }

  const std::string name_;
  const std::size_t capacity_, min_after_dequeue_;
  mutable std::mutex mutex_;
  Store store_;
  line producers_, consumers_;
  std::size_t held_ = 0;  // elements taken by calls that wait for more
  bool closing_ = false;  // closes after the enqueues that are already waiting
  bool closed_ = false;
  bool abandoned_ = false;
};

}  // namespace weft::detail
