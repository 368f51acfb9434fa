#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <weft/data/stage.hpp>

namespace weft::data::detail {

/// Lets threads make elements before they are asked for, `window` of them at most; they are delivered in their order,
/// whichever thread made them. An exception is delivered in its place and is the last that comes. The destructor asks
/// everything upstream to stop and waits for functions that are running, for nothing else.
class ahead_stream final : public stream {
 public:
  /// The function that changes the element of this number, on any of the threads.
  using change = std::function<void(std::uint64_t, element&, element&)>;

  /// The rows of a table, each made by a thread.
  ahead_stream(const stage& upstream, std::uint64_t epoch, const std::stop_token& stop, int threads, std::size_t window)
      : ahead_stream(stop, threads, window) {
    find_rows_ = [this, &upstream, epoch] { rows_ = upstream.rows(epoch, halt_.get_token()); };
  }
  /// The elements of a stream, one after the other; the changes that are made to them at the same time.
  ahead_stream(const stage& upstream, std::uint64_t epoch, const std::stop_token& stop, int threads, std::size_t window,
               change changes)
      : ahead_stream(stop, threads, window) {
    changes_ = std::move(changes);
    elements_ = upstream.open(epoch, halt_.get_token());
  }
  ~ahead_stream() override {
    halt();
    for (std::thread& each : threads_) each.join();
  }

  bool next(element& to, const deadline& within) override {
    if (threads_.empty()) start();
    std::unique_lock lock(mutex_);
    slot& s = slots_[delivered_ % slots_.size()];
    while (s.state == nothing) {
      check_stop(halt_.get_token());
      if (within.expired())
        throw error(
            error_code::deadline_exceeded, "dataset",
            {"element ", first_ + delivered_, " has not been made in time; another call goes on waiting for it"});
      wait(made_, lock, within);
    }
    if (s.state == failed) std::rethrow_exception(s.failure);
    if (s.state == ended) return false;
    std::swap(to, s.made);
    s.state = nothing;
    ++delivered_;
    lock.unlock();
    room_.notify_one();
    return true;
  }

  void skip(std::uint64_t count) override {
    first_ += count;
    if (elements_) to_skip_ += count;  // by the threads, since they are waited for with a deadline
  }

 private:
  enum state { nothing, ready, failed, ended };
  struct slot {
    detail::element made;
    std::exception_ptr failure;
    detail::ahead_stream::state state = nothing;
  };

  ahead_stream(const std::stop_token& stop, int threads, std::size_t window)
      : count_(static_cast<std::size_t>(threads < 1 ? 1 : threads)), slots_(window < 1 ? 1 : window) {
    from_above_.emplace(stop, [this] { halt(); });
  }

  void start() {
    try {
      for (std::size_t i = 0; i < count_; ++i) threads_.emplace_back([this] { work(); });
    } catch (const std::system_error& why) {  // those that have started make all elements
      if (threads_.empty())
        throw error(error_code::resource_exhausted, "dataset", {"no thread can be started: ", why.what()});
    }
  }

  void halt() {
    halt_.request_stop();
    { const std::lock_guard lock(mutex_); }  // nobody is between looking and sleeping
    room_.notify_all();
    made_.notify_all();
  }

  static void wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, const deadline& within) {
    if (within.at() == deadline::time_point::max())
      changed.wait(lock);
    else
      weft::detail::sleep(changed, lock, within.remaining());
  }

  /// The number of an element to be made; nothing if there is to be none.
  std::optional<std::uint64_t> claim() {
    std::unique_lock lock(mutex_);
    while (!over_ && !halt_.stop_requested() && claimed_ - delivered_ >= slots_.size()) room_.wait(lock);
    if (over_ || halt_.stop_requested()) return {};
    return claimed_++;
  }

  void work() {
    element taken, given;
    for (;;) {
      std::unique_lock turn(turn_, std::defer_lock);
      if (elements_) turn.lock();
      const auto claimed = claim();
      if (!claimed) return;
      state outcome = ready;
      std::exception_ptr failure;
      slot& s = slots_[*claimed % slots_.size()];  // nobody else's until it is marked
      try {
        if (to_skip_ > 0) elements_->skip(std::exchange(to_skip_, 0));
        if (find_rows_) {
          std::call_once(found_rows_, find_rows_);  // may fill a cache, which is waited for with a deadline
          if (const std::uint64_t at = first_ + *claimed; at < rows_->size())
            rows_->read(static_cast<std::size_t>(at), s.made);
          else
            outcome = ended;
        } else if (changes_) {
          if (elements_->next(taken, deadline::never())) {
            turn.unlock();
            changes_(first_ + *claimed, taken, s.made);
          } else {
            outcome = ended;
          }
        } else if (!elements_->next(s.made, deadline::never())) {
          outcome = ended;
        }
      } catch (...) {
        outcome = failed;
        failure = std::current_exception();
      }
      {
        const std::lock_guard lock(mutex_);
        s.failure = std::move(failure);
        s.state = outcome;
        if (outcome != ready) over_ = true;
      }
      if (outcome != ready) room_.notify_all();
      made_.notify_one();
    }
  }

  std::size_t count_;
  std::stop_source halt_;
  std::function<void()> find_rows_;
  std::once_flag found_rows_;
  std::shared_ptr<const table> rows_;
  std::unique_ptr<stream> elements_;
  change changes_;
  std::uint64_t first_ = 0, to_skip_ = 0;
  std::mutex turn_, mutex_;
  std::condition_variable room_, made_;
  std::vector<slot> slots_;
  std::uint64_t claimed_ = 0, delivered_ = 0;
  bool over_ = false;
  std::vector<std::thread> threads_;
  std::optional<std::stop_callback<std::function<void()>>> from_above_;  // last: it may be called at once
};

inline std::unique_ptr<stream> stage::open(std::uint64_t epoch, std::stop_token stop) const {
  if (threads() > 1)
    return std::make_unique<ahead_stream>(*this, epoch, stop, threads(), 2 * static_cast<std::size_t>(threads()));
  return std::make_unique<table_stream>(rows(epoch, stop), stop);
}

}  // namespace weft::data::detail
