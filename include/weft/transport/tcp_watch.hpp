#pragma once

#include <poll.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/system/error_code.hpp>
#include <memory>
#include <utility>

#include <weft/transport/event_loop.hpp>
#include <weft/transport/tcp_stream.hpp>
#include <weft/transport/tls.hpp>

namespace weft::detail {

/// Calls a handler on the loop's thread when a source is ready. Must end before the source is closed or moved.
class tcp_watch {
 public:
  tcp_watch(event_loop& loop, const tcp_source& from, event_loop::handler when_ready)
      : loop_(loop),
        from_(from),
        descriptor_(loop.context(), from.descriptor()),
        state_(std::make_shared<state>(state{std::move(when_ready)})) {}
  tcp_watch(const tcp_watch&) = delete;
  tcp_watch& operator=(const tcp_watch&) = delete;
  ~tcp_watch() { descriptor_.release(); }

  /// For the next time only. Nothing changes where it waits already.
  void arm(bool read, bool write) {
    using asio_descriptor = boost::asio::posix::stream_descriptor;
    if (const tls_session* const session = from_.session()) {
      if (read && session->has_more()) return post();
      const short events = session->events(read, write);
      read = (events & POLLIN) != 0;
      write = (events & POLLOUT) != 0;
    }
    if (read) wait(asio_descriptor::wait_read, &state::reads);
    if (write) wait(asio_descriptor::wait_write, &state::writes);
  }

 private:
  struct state {
    event_loop::handler when_ready;
    bool reads = false, writes = false, is_posted = false;  // whether it waits
  };

  void wait(boost::asio::posix::stream_descriptor::wait_type what, bool state::* waits) {
    if (state_.get()->*waits) return;
    descriptor_.async_wait(what, [awaited = std::weak_ptr<state>(state_), waits](const boost::system::error_code&) {
      const auto here = awaited.lock();
      if (!here) return;
      here.get()->*waits = false;
      here->when_ready();
    });
    state_.get()->*waits = true;
  }

  /// It is ready without the socket.
  void post() {
    if (state_->is_posted) return;
    loop_.post([awaited = std::weak_ptr<state>(state_)] {
      const auto here = awaited.lock();
      if (!here) return;
      here->is_posted = false;
      here->when_ready();
    });
    state_->is_posted = true;
  }

  event_loop& loop_;
  const tcp_source& from_;
  boost::asio::posix::stream_descriptor descriptor_;
  std::shared_ptr<state> state_;
};

}  // namespace weft::detail
