#pragma once

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <weft/error.hpp>
#include <weft/transport/endpoint.hpp>
#include <weft/transport/frame_authentication.hpp>
#include <weft/transport/tls.hpp>
#include <weft/transport/transport.hpp>

namespace weft::detail {

/// What a wait is for: a descriptor, and the TLS session on it.
class tcp_source {
 public:
  int descriptor() const { return descriptor_; }
  const tls_session* session() const { return session_.get(); }

 protected:
  int descriptor_ = -1;
  std::unique_ptr<tls_session> session_;  // of a stream that is encrypted
};

/// Whether this process, or the system, lacks what another connection takes.
inline bool is_exhausted(const boost::system::error_code& problem) {
  namespace errc = boost::system::errc;
  return problem == errc::too_many_files_open || problem == errc::too_many_files_open_in_system ||
         problem == errc::no_buffer_space || problem == errc::not_enough_memory;
}

/// Why a connection has failed.
inline error connect_failure(const endpoint& where, const boost::system::error_code& problem) {
  if (is_exhausted(problem))
    return error(error_code::resource_exhausted, "connect",
                 {"cannot open a connection to ", to_string(where), ": ", problem.message()});
  if (problem == boost::asio::error::connection_refused || problem == boost::asio::error::timed_out)
    return error(error_code::unavailable, "connect",
                 {"nobody listens at ", to_string(where), " (", problem.message(), ")"});
  return error(error_code::unavailable, "connect", {to_string(where), ": ", problem.message()});
}

/// Throws the error of a socket that cannot be opened.
[[noreturn]] inline void fail_to_open(const boost::system::error_code& problem) {
  throw error(is_exhausted(problem) ? error_code::resource_exhausted : error_code::unavailable, "tcp",
              {"cannot open a socket: ", problem.message()});
}

inline void close_on_exec(int descriptor) { ::fcntl(descriptor, F_SETFD, FD_CLOEXEC); }

/// A connection of tcp. No call blocks.
class tcp_stream : public tcp_source {
  using protocol = boost::asio::ip::tcp;
  using failure = boost::system::error_code;
  using context_ptr = std::shared_ptr<boost::asio::io_context>;

 public:
  tcp_stream() = default;
  tcp_stream(context_ptr context, protocol::socket socket) : context_(std::move(context)), socket_(std::move(socket)) {
    descriptor_ = socket_->native_handle();
    failure ignored;
    socket_->non_blocking(true, ignored);
    socket_->set_option(protocol::no_delay(true), ignored);
    close_on_exec(descriptor_);
    if (!socket_->remote_endpoint(ignored).address().is_loopback()) {
      repeat_soon();
      return;
    }
    // Loopback loses nothing: the pacing timers of some congestion controllers only cost time there.
    ::setsockopt(descriptor_, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    const int bytes = 1 << 20;  // larger ones wander through the cache, smaller ones block more often: measured
    ::setsockopt(descriptor_, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  }
  tcp_stream(tcp_stream&& other) noexcept { *this = std::move(other); }
  tcp_stream& operator=(tcp_stream&& other) noexcept {
    close();
    socket_.reset();
    context_ = std::move(other.context_);
    socket_ = std::move(other.socket_);
    other.socket_.reset();
    descriptor_ = std::exchange(other.descriptor_, -1);
    authentication_ = std::move(other.authentication_);
    session_ = std::move(other.session_);
    return *this;
  }
  ~tcp_stream() { close(); }

  bool is_open() const { return descriptor_ >= 0; }
  /// The address of the other side, for messages; empty where the connection has ended.
  std::string remote_host() const {
    failure ended;
    const protocol::endpoint remote = is_open() ? socket_->remote_endpoint(ended) : protocol::endpoint();
    return is_open() && !ended ? remote.address().to_string() : std::string();
  }

  std::size_t read_some(std::span<const mutable_bytes> into) {
    if (session_) return session_->read_some(into);
    std::array<boost::asio::mutable_buffer, max_buffers> buffers;
    const std::size_t count = std::min(into.size(), max_buffers);
    for (std::size_t i = 0; i < count; ++i) buffers[i] = {into[i].data(), into[i].size()};
    failure problem;
    const std::size_t moved = count == 1 ? open().read_some(boost::asio::mutable_buffers_1(buffers[0]), problem)
                                         : open().read_some(std::span(buffers).first(count), problem);
    return result(moved, problem);
  }

  std::size_t write_some(std::span<const const_bytes> from) {
    if (session_) return session_->write_some(from);
    std::array<boost::asio::const_buffer, max_buffers> buffers;
    const std::size_t count = std::min(from.size(), max_buffers);
    for (std::size_t i = 0; i < count; ++i) buffers[i] = {from[i].data(), from[i].size()};
    failure problem;
    const std::size_t moved = count == 1 ? open().write_some(boost::asio::const_buffers_1(buffers[0]), problem)
                                         : open().write_some(std::span(buffers).first(count), problem);
    return result(moved, problem);
  }

  /// Frames have tags from here on, made and verified with these keys.
  void authenticate(frame_key sends, frame_key receives) {
    authentication_ = std::make_unique<frame_authentication>(sends, receives);
  }
  frame_authentication* authentication() const { return authentication_.get(); }

  /// All bytes are encrypted, from the first one on.
  void encrypt(const tls_credentials& mine, bool dials) {
    session_ = std::make_unique<tls_session>(mine, descriptor_, dials);
  }
  bool is_encrypted() const { return session_ != nullptr; }
  /// Whether the other's certificate names this task; where nothing is encrypted, there is none to say otherwise.
  bool certifies(std::string_view task) const { return !session_ || session_->certifies(task); }
  /// The names in the other's certificate, for messages.
  std::string certified_names() const { return session_ ? session_->certified_names() : std::string(); }

  void close() {
    if (!is_open()) return;
    failure ignored;
    socket_->close(ignored);
    descriptor_ = -1;
    session_.reset();
  }

 private:
  /// A link between hosts may fail for seconds. TCP doubles its time to repeat what was lost, up to minutes, and so
  /// is silent for long after the link is back. An option that this system does not know has no effect.
  void repeat_soon() {
#if defined(__linux__)
    constexpr int rto_max_ms = 44;             // TCP_RTO_MAX_MS, of Linux 6.15
    const int at_most = 1000, linear = 1;      // linear: earlier systems double it later where little is on its way
    const unsigned patience = 15 * 60 * 1000;  // else the bound on the time ends a connection after half a minute
    ::setsockopt(descriptor_, IPPROTO_TCP, rto_max_ms, &at_most, sizeof at_most);
    ::setsockopt(descriptor_, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &linear, sizeof linear);
    ::setsockopt(descriptor_, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
#endif
  }

  protocol::socket& open() {
    if (!is_open()) throw error(error_code::failed_precondition, "tcp", "this side of the connection is closed");
    return *socket_;
  }

  static std::size_t result(std::size_t moved, const failure& problem) {
    if (!problem) return moved;
    if (problem == boost::asio::error::would_block || problem == boost::asio::error::try_again ||
        problem == boost::asio::error::interrupted)
      return 0;
    if (problem == boost::asio::error::eof || problem == boost::asio::error::connection_reset ||
        problem == boost::asio::error::broken_pipe)
      throw error(error_code::unavailable, "tcp", "the other side closed the connection");
    throw error(error_code::unavailable, "tcp", problem.message());
  }

  context_ptr context_;
  std::optional<protocol::socket> socket_;
  std::unique_ptr<frame_authentication> authentication_;
};

}  // namespace weft::detail
