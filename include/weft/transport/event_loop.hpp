#pragma once

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include <weft/config.hpp>
#include <weft/error.hpp>

namespace weft {

/// The handlers of one thread: an io_context that runs until it is stopped. Handlers are called by the thread that runs
/// it, and by no other; a transport's `watch` calls one when a source is ready, a timer when its time has come.
class event_loop {
 public:
  using handler = std::function<void()>;

  /// Throws weft::error (resource_exhausted) where this process may open no more.
  event_loop() try : context_(1), works_(context_.get_executor()) {
    const boost::asio::steady_timer makes_the_reactor(context_);
  } catch (const boost::system::system_error& problem) {
    throw error(error_code::resource_exhausted, "event_loop", {"cannot be made: ", problem.code().message()});
  }
  event_loop(const event_loop&) = delete;
  event_loop& operator=(const event_loop&) = delete;

  /// Calls handlers until stop(). An exception from a handler comes out of here; called again, it goes on with the
  /// next.
  void run() { context_.run(); }

  /// Any thread may call these.
  void stop() { context_.stop(); }
  void post(handler what) { boost::asio::post(context_, std::move(what)); }

  boost::asio::io_context& context() { return context_; }

  /// Calls a handler once. Belongs to the loop's thread.
  class timer {
   public:
    explicit timer(event_loop& loop) : timer_(loop.context_) {}

    /// Calls `then` after this time, in place of what it was to call before.
    void start(std::chrono::nanoseconds after, handler then) {
      cancel();
      pending_ = std::make_shared<handler>(std::move(then));
      timer_.expires_after(std::clamp<std::chrono::nanoseconds>(after, std::chrono::nanoseconds(0), longest));
      timer_.async_wait([awaited = std::weak_ptr<handler>(pending_)](const boost::system::error_code&) {
        if (const auto due = awaited.lock()) (*due)();
      });
    }

    /// From here on it calls nothing, however long it has been due.
    void cancel() {
      pending_.reset();
      timer_.cancel();
    }

   private:
    static constexpr std::chrono::hours longest{24};

    std::shared_ptr<handler> pending_;
    boost::asio::steady_timer timer_;
  };

 private:
  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> works_;
};

}  // namespace weft
