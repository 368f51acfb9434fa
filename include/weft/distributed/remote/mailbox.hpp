// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/error.hpp>
#include <weft/transport/any_transport.hpp>

namespace weft::detail {

/// Counts the bytes of values that wait in a process for their steps. Any thread may call.
class parked_bytes {
 public:
  explicit parked_bytes(std::uint64_t limit = UINT64_MAX) : limit_(limit) {}

  /// Returns false if this many more bytes exceed the limit.
  bool add(std::uint64_t bytes) {
    if (now_.fetch_add(bytes) + bytes <= limit_) return true;
    now_ -= bytes;
    return false;
  }
  void remove(std::uint64_t bytes) { now_ -= bytes; }
  std::uint64_t limit() const { return limit_; }
  std::uint64_t now() const { return now_; }

 private:
  std::atomic<std::uint64_t> now_{0};
  const std::uint64_t limit_;
};

/// The values that one task receives in one run. A value whose step already waits for it is read into the step's
/// memory. A value that arrives earlier is read into memory of its own; when the step requests it, the bytes received
/// by then are copied. All members are thread-safe.
class mailbox {
 public:
  /// Bytes that a waiting value counts in addition to its size; otherwise, values of 0 bytes would have no limit.
  static constexpr std::size_t value_overhead = 128;

 private:
  struct value {
    std::size_t size = 0, come = 0;
    std::byte* place = nullptr;        // null: the bytes are dropped
    std::unique_ptr<std::byte[]> own;  // the place, unless that is the step's memory
    parked_bytes* counted = nullptr;
    bool is_read = false;  // a thread writes to the place
    bool is_whole = false;

    value() = default;
    value(const value&) = delete;
    value& operator=(const value&) = delete;
    ~value() { release(); }
    void release() {
      own.reset();
      if (counted) counted->remove(size + value_overhead);
      counted = nullptr;
    }
  };

 public:
  /// A value in transit, owned by the thread that receives it. If it ends before the value is complete, the value is
  /// dropped.
  class arrival {
   public:
    arrival() = default;
    arrival(arrival&& other) noexcept { swap(other); }
    arrival& operator=(arrival&& other) noexcept {
      arrival taken(std::move(other));
      swap(taken);
      return *this;
    }
    ~arrival() {
      if (box_) box_->drop(transfer_, value_);
    }

    /// Calls `read(place)`, which writes the next bytes to `place` and returns their number. A null place means that
    /// the bytes are no longer needed.
    template <typename Read>
    void read(Read read) {
      if (!box_) {
        read(nullptr);
        return;
      }
      const struct reading {
        explicit reading(arrival& a) : of(a), place(of.box_->begin_read(of.transfer_, of.value_)) {}
        ~reading() { of.box_->end_read(*of.value_); }
        arrival& of;
        std::byte* place;
      } now{*this};
      value_->come += read(now.place);
    }
    /// Completes the value: all bytes have arrived.
    void finish() {
      if (!box_) return;
      box_->finish(*value_);
      box_.reset();
      value_.reset();
    }

   private:
    friend class mailbox;
    arrival(std::shared_ptr<mailbox> box, std::uint32_t transfer, std::shared_ptr<value> v)
        : box_(std::move(box)), transfer_(transfer), value_(std::move(v)) {}
    void swap(arrival& other) noexcept {
      box_.swap(other.box_);
      std::swap(transfer_, other.transfer_);
      value_.swap(other.value_);
    }

    std::shared_ptr<mailbox> box_;
    std::uint32_t transfer_ = 0;
    std::shared_ptr<value> value_;
  };

  /// A value starts arriving. Its bytes are dropped if its number has arrived before or if the run has ended. The run
  /// fails if this process has no memory for the value, or holds more than `parked` allows.
  static arrival open(const std::shared_ptr<mailbox>& box, std::uint32_t transfer, std::size_t size,
                      parked_bytes& parked) {
    if (!box) return {};
    std::shared_ptr<value> made = std::make_shared<value>();
    made->size = size;
    bool has_place = false;
    {
      const std::lock_guard lock(box->mutex_);
      if (box->closed_ || box->values_.find(transfer) != box->values_.end()) return {};
      const auto waits = box->wanted_.find(transfer);
      if (waits != box->wanted_.end() && waits->second.size == size) {
        made->place = waits->second.to;
        waits->second.arriving = made;
        has_place = true;  // the place may be null for a value of 0 bytes
      } else if (parked.add(size + value_overhead)) {
        made->counted = &parked;
        made->own.reset(new (std::nothrow) std::byte[size]);
        made->place = made->own.get();
        has_place = made->place != nullptr;
      }
      if (has_place) {
        box->values_.emplace(transfer, made);
        return {box, transfer, std::move(made)};
      }
    }
    if (made->counted)
      box->fail(error(error_code::resource_exhausted, "receive", {"cannot allocate ", size, " bytes for a value"}));
    else
      box->fail(error(error_code::resource_exhausted, "receive",
                      {"values that wait for their steps exceed ", parked.limit(), " bytes (max_parked_bytes)"}));
    return {};
  }
  /// Stores a whole value at once.
  static void put(arrival to, const_bytes all) {
    to.read([&](std::byte* place) {
      if (place && !all.empty()) std::memcpy(place, all.data(), all.size());
      return all.size();
    });
    to.finish();
  }

  /// Drops all values that have arrived or arrive from now on. A step that still waits fails.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      values_.clear();
      closed_ = true;
      if (!failure_) failure_ = error(error_code::aborted, "step", "the run has ended");
    }
    changed_.notify_all();
  }
  /// Ends the waits of this step with an error. Later errors are ignored.
  void fail(const error& why) { end_waits(why, false); }
  /// Like fail(), for an error outside this task: the client has cancelled the run or is gone.
  void cancel(const error& why) { end_waits(why, true); }
  /// Returns true if the step was cancelled before it failed in this task.
  bool was_cancelled() const {
    const std::lock_guard lock(mutex_);
    return cancelled_;
  }
  std::optional<error> failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  /// Throws the error with which the step has failed, if any.
  void check() const {
    if (const auto why = failure()) throw *why;
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    values_.clear();
    failure_.reset();
    cancelled_ = false;
  }

  /// For waits in which only other threads receive.
  struct others_receive {
    template <typename Done>
    bool operator()(Done) const {
      return false;
    }
  };

  /// Waits until a value of this size is in its place. `receive(done)` receives in this thread until done() returns
  /// true or for some milliseconds; it returns false at once if another thread receives. Throws deadline_exceeded,
  /// data_loss for a value of another size, the error of the step, and errors of check(), which is called periodically.
  template <typename Check, typename Receive = others_receive>
  void take(std::uint32_t transfer, std::byte* to, std::size_t size, deadline until, const std::string& from,
            Check check, Receive receive = {}) {
    std::unique_lock lock(mutex_);
    const wish mine(*this, lock, transfer, {to, size});
    wait(lock, transfer, until, from, check, receive, [&](const value& v) {
      if (v.size != size)
        throw error(error_code::data_loss, "receive", {"a value from ", from, " has ", v.size, " bytes, not ", size});
      return v.is_whole;
    });
    const auto found = values_.find(transfer);
    const std::shared_ptr<value> come = found->second;
    values_.erase(found);
    if (!come->own || size == 0) return;
    lock.unlock();
    std::memcpy(to, come->own.get(), size);
    lock.lock();
  }
  /// Waits for a value of any size and returns it.
  template <typename Check, typename Receive = others_receive>
  std::vector<std::byte> take(std::uint32_t transfer, deadline until, const std::string& from, Check check,
                              Receive receive = {}) {
    std::unique_lock lock(mutex_);
    wait(lock, transfer, until, from, check, receive, [](const value& v) { return v.is_whole; });
    const auto found = values_.find(transfer);
    const std::shared_ptr<value> come = found->second;
    values_.erase(found);
    return {come->own.get(), come->own.get() + come->size};
  }

 private:
  void end_waits(const error& why, bool cancels) {
    {
      const std::lock_guard lock(mutex_);
      if (!failure_) {
        failure_ = why;
        cancelled_ = cancels;
      }
    }
    changed_.notify_all();
  }

  static constexpr std::chrono::milliseconds between_checks{20};

  struct wanted {
    std::byte* to;
    std::size_t size;
    // The value that is read into the memory. values_ does not keep it if the mailbox is closed meanwhile.
    std::shared_ptr<value> arriving = {};
  };
  /// Registers a step's memory for a value. After the destructor, no thread writes to that memory.
  struct wish {
    wish(mailbox& box, std::unique_lock<std::mutex>& held, std::uint32_t number, wanted what)
        : of(box), lock(held), transfer(number) {
      of.wanted_[transfer] = what;
    }
    wish(const wish&) = delete;
    wish& operator=(const wish&) = delete;
    ~wish() {
      const auto mine = of.wanted_.find(transfer);
      std::shared_ptr<value> arriving = std::move(mine->second.arriving);
      of.wanted_.erase(mine);
      if (!arriving) {
        const auto found = of.values_.find(transfer);
        if (found == of.values_.end()) return;
        arriving = found->second;
      }
      arriving->place = nullptr;
      while (arriving->is_read) detail::sleep(of.changed_, lock, between_checks);
    }
    mailbox& of;
    std::unique_lock<std::mutex>& lock;
    std::uint32_t transfer;
  };

  // Not a generic lambda in wait(): clang 19 does not emit its code, and the program does not link.
  template <typename Call>
  static auto unlocked(std::unique_lock<std::mutex>& lock, const Call& call) {
    lock.unlock();
    const struct relock {
      std::unique_lock<std::mutex>& of;
      ~relock() { of.lock(); }
    } again{lock};
    return call();
  }
  template <typename Check, typename Receive, typename Ready>
  void wait(std::unique_lock<std::mutex>& lock, std::uint32_t transfer, deadline until, const std::string& from,
            Check check, Receive receive, Ready ready) {
    const auto is_ready = [&] {
      const auto found = values_.find(transfer);
      return found != values_.end() && ready(*found->second);
    };
    for (;;) {
      if (is_ready()) return;
      if (failure_) throw *failure_;
      if (until.expired())
        throw error(error_code::deadline_exceeded, "receive", {"received no value from ", from, " in time"});
      const bool received = unlocked(lock, [&] {
        return receive([&] {
          const std::lock_guard held(mutex_);
          return failure_ || is_ready();
        });
      });
      if (failure_ || is_ready()) continue;
      if (!received && !sleep_once(lock, until)) continue;
      unlocked(lock, check);
    }
  }
  /// Returns true if it has slept for the whole interval.
  bool sleep_once(std::unique_lock<std::mutex>& lock, deadline until) {
    const auto began = detail::now();
    detail::sleep(changed_, lock, until.remaining(between_checks));
    return detail::now() - began >= between_checks;
  }

  // ---- for arrivals ----

  /// Returns the destination of a value's next bytes. If its step waits for it by now, the bytes received earlier move
  /// to the step's memory.
  std::byte* begin_read(std::uint32_t transfer, const std::shared_ptr<value>& of) {
    value& v = *of;
    std::byte* to = nullptr;
    {
      const std::lock_guard lock(mutex_);
      v.is_read = true;
      const auto waits = wanted_.find(transfer);
      if (!closed_ && waits != wanted_.end() && v.own && waits->second.size == v.size) {
        to = waits->second.to;
        waits->second.arriving = of;
      }
      if (!to) return v.place ? v.place + v.come : nullptr;
    }
    std::memcpy(to, v.own.get(), v.come);
    const std::lock_guard lock(mutex_);
    v.release();
    const auto waits = wanted_.find(transfer);  // a step that stops waiting still waits for the end of this read
    v.place = waits != wanted_.end() && waits->second.arriving == of ? to : nullptr;
    return to + v.come;
  }
  void end_read(value& v) {
    {
      const std::lock_guard lock(mutex_);
      v.is_read = false;
      if (v.place) return;
    }
    changed_.notify_all();
  }
  void finish(value& v) {
    {
      const std::lock_guard lock(mutex_);
      v.is_whole = true;
    }
    changed_.notify_all();
  }
  void drop(std::uint32_t transfer, const std::shared_ptr<value>& v) {
    const std::lock_guard lock(mutex_);
    if (const auto found = values_.find(transfer); found != values_.end() && found->second == v) values_.erase(found);
    if (const auto waits = wanted_.find(transfer); waits != wanted_.end() && waits->second.arriving == v)
      waits->second.arriving.reset();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint32_t, std::shared_ptr<value>> values_;
  std::map<std::uint32_t, wanted> wanted_;
  std::optional<error> failure_;
  bool closed_ = false, cancelled_ = false;
};

}  // namespace weft::detail
