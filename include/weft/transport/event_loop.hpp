// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include <weft/transport/opaque.hpp>
#include <weft/transport/separate.hpp>

#if WEFT_DISTRIBUTED_DEFINITIONS
  #include <algorithm>
  #include <boost/asio/post.hpp>
  #include <boost/system/system_error.hpp>
  #include <utility>

  #include <weft/error.hpp>
  #include <weft/transport/asio.hpp>
#endif

namespace weft {

/// An io_context that runs handlers until it is stopped, all on the thread that calls run(). A transport's `watch`
/// calls a handler when a source is ready, and a timer when its time is over.
class event_loop {
 public:
  using handler = std::function<void()>;

  /// Throws weft::error (resource_exhausted) if the process cannot open more files.
  event_loop();
  event_loop(const event_loop&) = delete;
  event_loop& operator=(const event_loop&) = delete;

  /// Calls handlers until stop(). An exception from a handler propagates to the caller, which can call run() again to
  /// continue with the next handler.
  void run();

  /// Thread-safe.
  void stop();
  void post(handler what);

  /// Calls a handler once. Only the loop's thread may use it.
  class timer {
   public:
    explicit timer(event_loop& loop) : loop_(&loop) {}

    /// Calls `then` after this time. Replaces an earlier start().
    void start(std::chrono::nanoseconds after, handler then);

    /// Cancels the call, even if it is already due.
    void cancel();

   private:
    static constexpr std::chrono::hours longest{24};

    event_loop* loop_;
    std::shared_ptr<handler> pending_;
    detail::opaque_ptr<detail::asio_timer> timer_;  // null until start()
  };

  /// Calls a handler when a descriptor is ready, and never after its destruction. Only the loop's thread may use it,
  /// and it must be destroyed before the descriptor is closed.
  class descriptor_watch {
   public:
    descriptor_watch(event_loop& loop, int descriptor, handler when_ready);
    descriptor_watch(const descriptor_watch&) = delete;
    descriptor_watch& operator=(const descriptor_watch&) = delete;
    ~descriptor_watch();

    /// Requests one call of the handler. Has no effect while the watch is armed.
    void arm(bool read, bool write);

    /// Calls the handler soon. For a source that is ready although its descriptor is not.
    void post();

   private:
    struct state;

    event_loop& loop_;
    std::shared_ptr<state> state_;
  };

 private:
  detail::opaque_ptr<detail::asio_loop> loop_;
};

#if WEFT_DISTRIBUTED_DEFINITIONS

WEFT_DISTRIBUTED_DECL event_loop::event_loop() try : loop_(new detail::asio_loop) {
  const detail::asio_timer makes_the_reactor(loop_->context);
} catch (const boost::system::system_error& problem) {
  throw error(error_code::resource_exhausted, "event_loop", {"cannot be created: ", problem.code().message()});
}

WEFT_DISTRIBUTED_DECL void event_loop::run() { loop_->context.run(); }
WEFT_DISTRIBUTED_DECL void event_loop::stop() { loop_->context.stop(); }
WEFT_DISTRIBUTED_DECL void event_loop::post(handler what) { boost::asio::post(loop_->context, std::move(what)); }

WEFT_DISTRIBUTED_DECL void event_loop::timer::start(std::chrono::nanoseconds after, handler then) {
  cancel();
  if (!timer_) timer_.reset(new detail::asio_timer(loop_->loop_->context));
  pending_ = std::make_shared<handler>(std::move(then));
  timer_->expires_after(std::clamp<std::chrono::nanoseconds>(after, std::chrono::nanoseconds(0), longest));
  timer_->async_wait([awaited = std::weak_ptr<handler>(pending_)](const detail::asio_failure&) {
    if (const auto due = awaited.lock()) (*due)();
  });
}

WEFT_DISTRIBUTED_DECL void event_loop::timer::cancel() {
  pending_.reset();
  if (timer_) timer_->cancel();
}

struct event_loop::descriptor_watch::state {
  state(event_loop& loop, int number, handler calls)
      : when_ready(std::move(calls)), descriptor(loop.loop_->context, number) {}

  static void wait(const std::shared_ptr<state>& here, detail::asio_descriptor::wait_type what, bool state::* waits) {
    if (here.get()->*waits) return;
    here->descriptor.async_wait(what, [awaited = std::weak_ptr<state>(here), waits](const detail::asio_failure&) {
      const auto still = awaited.lock();
      if (!still) return;
      still.get()->*waits = false;
      still->when_ready();
    });
    here.get()->*waits = true;
  }

  handler when_ready;
  bool reads = false, writes = false, is_posted = false;  // pending waits
  detail::asio_descriptor descriptor;
};

WEFT_DISTRIBUTED_DECL event_loop::descriptor_watch::descriptor_watch(event_loop& loop, int descriptor,
                                                                     handler when_ready)
    : loop_(loop), state_(std::make_shared<state>(loop, descriptor, std::move(when_ready))) {}

WEFT_DISTRIBUTED_DECL event_loop::descriptor_watch::~descriptor_watch() { state_->descriptor.release(); }

WEFT_DISTRIBUTED_DECL void event_loop::descriptor_watch::arm(bool read, bool write) {
  if (read) state::wait(state_, detail::asio_descriptor::wait_read, &state::reads);
  if (write) state::wait(state_, detail::asio_descriptor::wait_write, &state::writes);
}

WEFT_DISTRIBUTED_DECL void event_loop::descriptor_watch::post() {
  if (state_->is_posted) return;
  loop_.post([awaited = std::weak_ptr<state>(state_)] {
    const auto here = awaited.lock();
    if (!here) return;
    here->is_posted = false;
    here->when_ready();
  });
  state_->is_posted = true;
}

#endif

}  // namespace weft
