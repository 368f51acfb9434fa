// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <utility>

#include <weft/data/mutex.hpp>
#include <weft/data/stage.hpp>
#include <weft/data/stop_source.hpp>
#include <weft/error.hpp>

#if WEFT_DEFINITIONS
WEFT_COLD_BEGIN
namespace weft::data::detail {

/// Produces up to `window` elements ahead of time on threads, and delivers them in order. An exception is delivered in
/// its element's place and ends the stream. The destructor asks all upstream stages to stop, and waits only for
/// functions that are running.
class ahead_stream final : public stream, stop_source::listener {
 public:
  /// Reads the rows of a table concurrently.
  ahead_stream(const stage& upstream, std::uint64_t epoch, stop_source* stop, int threads, std::size_t window)
      : ahead_stream(&upstream, epoch, stop, threads, window) {}
  /// Reads the elements of a stream one at a time; `f`, if not null, is applied to them concurrently.
  ahead_stream(const stage& upstream, std::uint64_t epoch, stop_source* stop, int threads, std::size_t window,
               const change* f)
      : ahead_stream(nullptr, epoch, stop, threads, window) {
    change_ = f;
    elements_ = upstream.open(epoch, &halt_);
  }
  ~ahead_stream() override {
    halt();
    for (const pthread_t each : threads_) ::pthread_join(each, nullptr);
    if (from_above_) from_above_->remove(*this);
  }

  bool next(element& to, const time_limit& within) override {
    if (threads_.empty()) start();
    unique_lock lock(mutex_);
    slot& s = slots_[delivered_ % slots_.size()];
    while (s.state == nothing) {
      check_stop(&halt_);
      if (within.expired())
        throw error(error_code::deadline_exceeded, "dataset",
                    {"element ", first_ + delivered_,
                     " was not ready before the deadline; call again to continue waiting for it"});
      made_.wait(mutex_, within);
    }
    if (s.state == failed) std::rethrow_exception(s.failure);
    if (s.state == ended) return false;
    to.swap(s.made);
    s.state = nothing;
    ++delivered_;
    lock.unlock();
    room_.notify_one();
    return true;
  }

  void skip(std::uint64_t count) override {
    first_ += count;
    if (elements_) to_skip_ += count;  // on the threads, because waits for them have a deadline
  }

 private:
  enum state { nothing, ready, failed, ended };
  struct slot {
    detail::element made;
    std::exception_ptr failure;
    detail::ahead_stream::state state = nothing;
  };

  ahead_stream(const stage* rows_of, std::uint64_t epoch, stop_source* stop, int threads, std::size_t window)
      : count_(threads < 1 ? 1 : static_cast<std::size_t>(threads)),
        epoch_(epoch),
        rows_of_(rows_of),
        slots_(window < 1 ? 1 : window),
        from_above_(stop) {
    threads_.reserve(count_);
    if (stop) stop->add(*this);
  }

  void start() {
    while (threads_.size() < count_) {
      pthread_t thread;
      const int problem = ::pthread_create(
          &thread, nullptr,
          [](void* self) -> void* {
            static_cast<ahead_stream*>(self)->work();
            return nullptr;
          },
          this);
      if (problem == 0) {
        threads_.push_back(thread);
        continue;
      }
      // The threads that have started produce all elements.
      if (!threads_.empty()) return;
      throw error(error_code::resource_exhausted, "dataset", {"cannot start a thread: ", std::strerror(problem)});
    }
  }

  void stop_requested() override { halt(); }
  void halt() {
    halt_.request();
    {
      const unique_lock lock(mutex_);
    }  // no thread is between testing the condition and waiting
    room_.notify_all();
    made_.notify_all();
  }

  /// Returns the number of the next element to produce, or nothing if the stream ends.
  optional_count claim() {
    const unique_lock lock(mutex_);
    while (!over_ && !halt_.requested() && claimed_ - delivered_ >= slots_.size()) room_.wait(mutex_);
    if (over_ || halt_.requested()) return {};
    return claimed_++;
  }

  /// Returns the table. The first thread to call it opens the table, which can fill a cache.
  const table& rows() {
    const unique_lock lock(finding_);
    if (!rows_) rows_ = rows_of_->rows(epoch_, &halt_);
    return *rows_;
  }

  void work() {
    element taken;
    for (const table* table = nullptr;;) {
      state outcome = ready;
      std::exception_ptr failure;
      slot* s;
      {
        // Threads take turns to read from a stream.
        unique_lock turn(elements_ ? &turn_ : nullptr);
        const auto claimed = claim();
        if (!claimed) return;
        const std::uint64_t at = first_ + *claimed;
        s = &slots_[*claimed % slots_.size()];  // owned by this thread until its state is set
        try {
          if (rows_of_) {
            if (!table) table = &rows();
            if (at < table->size())
              table->read(static_cast<std::size_t>(at), s->made);
            else
              outcome = ended;
          } else {
            if (to_skip_ > 0) elements_->skip(std::exchange(to_skip_, 0));
            if (!elements_->next(change_ ? taken : s->made, time_limit::never())) {
              outcome = ended;
            } else if (change_) {
              turn.unlock();
              (*change_)({epoch_, at}, taken, s->made);
            }
          }
        } catch (...) {
          outcome = failed;
          failure = std::current_exception();
        }
        const unique_lock lock(mutex_);
        s->failure = std::move(failure);
        s->state = outcome;
        if (outcome != ready) over_ = true;
      }
      if (outcome != ready) room_.notify_all();
      made_.notify_one();
    }
  }

  std::size_t count_;
  std::uint64_t epoch_;
  stop_source halt_;
  const stage* rows_of_;
  mutex finding_;
  intrusive_ptr<const table> rows_;
  intrusive_ptr<stream> elements_;
  const change* change_ = nullptr;
  std::uint64_t first_ = 0, to_skip_ = 0;
  mutex turn_, mutex_;
  condition room_, made_;
  sequence<slot> slots_;
  std::uint64_t claimed_ = 0, delivered_ = 0;
  bool over_ = false;
  sequence<pthread_t> threads_;
  stop_source* from_above_;
};

/// Produces the rows of a stage on threads.
inline intrusive_ptr<stream> open_ahead(const stage& upstream, std::uint64_t epoch, stop_source* stop, int threads) {
  return intrusive_ptr<stream>(new ahead_stream(upstream, epoch, stop, threads, 2 * static_cast<std::size_t>(threads)));
}

}  // namespace weft::data::detail
WEFT_COLD_END
#endif
