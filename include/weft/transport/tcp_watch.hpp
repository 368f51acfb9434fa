// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/transport/event_loop.hpp>
#include <weft/transport/separate.hpp>
#include <weft/transport/tcp_stream.hpp>

#if WEFT_DISTRIBUTED_DEFINITIONS
  #include <poll.h>

  #include <utility>

  #include <weft/transport/tls_session.hpp>
#endif

namespace weft::detail {

/// Calls a handler on the loop's thread when a source is ready. Must be destroyed before the source is closed or moved.
class tcp_watch {
 public:
  tcp_watch(event_loop& loop, const tcp_source& from, event_loop::handler when_ready);
  tcp_watch(const tcp_watch&) = delete;
  tcp_watch& operator=(const tcp_watch&) = delete;

  /// Requests one call of the handler. Has no effect while the watch is armed.
  void arm(bool read, bool write);

 private:
  const tcp_source& from_;
  event_loop::descriptor_watch watch_;
};

#if WEFT_DISTRIBUTED_DEFINITIONS

WEFT_DISTRIBUTED_DECL tcp_watch::tcp_watch(event_loop& loop, const tcp_source& from, event_loop::handler when_ready)
    : from_(from), watch_(loop, from.descriptor(), std::move(when_ready)) {}

WEFT_DISTRIBUTED_DECL void tcp_watch::arm(bool read, bool write) {
  if (const tls_session* const session = from_.session()) {
    if (read && session->has_more()) return watch_.post();
    const short events = session->events(read, write);
    read = (events & POLLIN) != 0;
    write = (events & POLLOUT) != 0;
  }
  watch_.arm(read, write);
}

#endif

}  // namespace weft::detail
