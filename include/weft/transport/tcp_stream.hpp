// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <weft/tensor/owned.hpp>
#include <weft/transport/frame_authentication.hpp>
#include <weft/transport/opaque.hpp>
#include <weft/transport/separate.hpp>
#include <weft/transport/tls.hpp>
#include <weft/transport/transport.hpp>

#if WEFT_DISTRIBUTED_DEFINITIONS
  #include <netinet/tcp.h>
  #include <sys/socket.h>

  #include <algorithm>
  #include <array>
  #include <boost/asio/buffer.hpp>

  #include <weft/error.hpp>
  #include <weft/transport/asio.hpp>
  #include <weft/transport/tls_session.hpp>
#endif

namespace weft::detail {

/// An object to wait for: a descriptor, and its TLS session.
class tcp_source {
 public:
  int descriptor() const { return descriptor_; }
  const tls_session* session() const { return session_.get(); }

 protected:
  int descriptor_ = -1;
  opaque_ptr<tls_session> session_;  // of an encrypted stream
};

/// A connection of tcp. No call blocks.
class tcp_stream : public tcp_source {
 public:
  tcp_stream() = default;
  tcp_stream(std::shared_ptr<asio_context> context, opaque_ptr<asio_socket> socket);
  tcp_stream(tcp_stream&& other) noexcept { *this = std::move(other); }
  tcp_stream& operator=(tcp_stream&& other) noexcept {
    close();
    socket_ = std::move(other.socket_);
    context_ = std::move(other.context_);
    descriptor_ = std::exchange(other.descriptor_, -1);
    authentication_ = std::move(other.authentication_);
    session_ = std::move(other.session_);
    return *this;
  }
  ~tcp_stream() { close(); }

  bool is_open() const { return descriptor_ >= 0; }
  /// The address of the other side, for messages; empty if the connection has ended.
  std::string remote_host() const;
  /// Returns true if both ends have the same address or loopback addresses, so that no byte leaves this host. The names
  /// in a cluster's specification do not prove this: one name can refer to several hosts, through a load balancer or
  /// NAT.
  bool stays_on_host() const;

  std::size_t read_some(std::span<const mutable_bytes> into);
  std::size_t write_some(std::span<const const_bytes> from);

  /// Sets the keys of the tags. All later frames have tags.
  void authenticate(frame_key sends, frame_key receives) {
    authentication_ = owned<frame_authentication>(new frame_authentication(sends, receives));
  }
  frame_authentication* authentication() const { return authentication_.get(); }

  /// Encrypts all bytes. Must be called before the first byte.
  void encrypt(const tls_credentials& mine, bool dials);
  bool is_encrypted() const { return static_cast<bool>(session_); }
  /// Returns true if the certificate of the other side names this task, or if the stream is not encrypted.
  bool certifies(std::string_view task) const;
  /// The names in the certificate of the other side, for messages.
  std::string certified_names() const;

  void close() {
    if (is_open()) close_socket();
  }

 private:
  void close_socket();
  void repeat_soon();
  asio_socket& open();

  std::shared_ptr<asio_context> context_;
  opaque_ptr<asio_socket> socket_;
  owned<frame_authentication> authentication_;
};

#if WEFT_DISTRIBUTED_DEFINITIONS

WEFT_DISTRIBUTED_DECL tcp_stream::tcp_stream(std::shared_ptr<asio_context> context, opaque_ptr<asio_socket> socket)
    : context_(std::move(context)), socket_(std::move(socket)) {
  descriptor_ = socket_->native_handle();
  asio_failure ignored;
  socket_->non_blocking(true, ignored);
  socket_->set_option(asio_tcp::no_delay(true), ignored);
  close_on_exec(descriptor_);
  if (!socket_->remote_endpoint(ignored).address().is_loopback()) {
    repeat_soon();
    return;
  }
  // Loopback loses no packets, so the pacing timers of some congestion controllers only cost time.
  ::setsockopt(descriptor_, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
  const int bytes = 1 << 20;  // measured: larger buffers leave the cache, smaller ones block more often
  ::setsockopt(descriptor_, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

WEFT_DISTRIBUTED_DECL std::string tcp_stream::remote_host() const {
  asio_failure ended;
  const asio_tcp::endpoint remote = is_open() ? socket_->remote_endpoint(ended) : asio_tcp::endpoint();
  return is_open() && !ended ? remote.address().to_string() : std::string();
}

WEFT_DISTRIBUTED_DECL bool tcp_stream::stays_on_host() const {
  if (!is_open()) return false;
  asio_failure ended;
  const auto remote = socket_->remote_endpoint(ended).address();
  if (ended) return false;
  const auto local = socket_->local_endpoint(ended).address();
  return !ended && (remote == local || (remote.is_loopback() && local.is_loopback()));
}

/// Returns the number of bytes moved. Throws weft::error (unavailable) if the connection has ended.
inline std::size_t moved_bytes(std::size_t moved, const asio_failure& problem) {
  if (!problem) return moved;
  if (problem == boost::asio::error::would_block || problem == boost::asio::error::try_again ||
      problem == boost::asio::error::interrupted)
    return 0;
  if (problem == boost::asio::error::eof || problem == boost::asio::error::connection_reset ||
      problem == boost::asio::error::broken_pipe)
    throw error(error_code::unavailable, "tcp", "the other side closed the connection");
  throw error(error_code::unavailable, "tcp", problem.message());
}

WEFT_DISTRIBUTED_DECL std::size_t tcp_stream::read_some(std::span<const mutable_bytes> into) {
  if (session_) return session_->read_some(into);
  std::array<boost::asio::mutable_buffer, max_buffers> buffers;
  const std::size_t count = std::min(into.size(), max_buffers);
  for (std::size_t i = 0; i < count; ++i) buffers[i] = {into[i].data(), into[i].size()};
  asio_failure problem;
  const std::size_t moved = count == 1 ? open().read_some(boost::asio::mutable_buffers_1(buffers[0]), problem)
                                       : open().read_some(std::span(buffers).first(count), problem);
  return moved_bytes(moved, problem);
}

WEFT_DISTRIBUTED_DECL std::size_t tcp_stream::write_some(std::span<const const_bytes> from) {
  if (session_) return session_->write_some(from);
  std::array<boost::asio::const_buffer, max_buffers> buffers;
  const std::size_t count = std::min(from.size(), max_buffers);
  for (std::size_t i = 0; i < count; ++i) buffers[i] = {from[i].data(), from[i].size()};
  asio_failure problem;
  const std::size_t moved = count == 1 ? open().write_some(boost::asio::const_buffers_1(buffers[0]), problem)
                                       : open().write_some(std::span(buffers).first(count), problem);
  return moved_bytes(moved, problem);
}

WEFT_DISTRIBUTED_DECL void tcp_stream::encrypt(const tls_credentials& mine, bool dials) {
  session_.reset(new tls_session(mine, descriptor_, dials));
}

WEFT_DISTRIBUTED_DECL bool tcp_stream::certifies(std::string_view task) const {
  return !session_ || session_->certifies(task);
}

WEFT_DISTRIBUTED_DECL std::string tcp_stream::certified_names() const {
  return session_ ? session_->certified_names() : std::string();
}

WEFT_DISTRIBUTED_DECL void tcp_stream::close_socket() {
  asio_failure ignored;
  socket_->close(ignored);
  descriptor_ = -1;
  session_.reset();
}

/// A link between hosts may fail for seconds. TCP doubles its retransmission timeout, up to minutes, and so stays
/// silent long after the link has recovered. Keepalive probes end a connection that only receives if the other host has
/// disappeared. Systems ignore options that they do not support.
WEFT_DISTRIBUTED_DECL void tcp_stream::repeat_soon() {
  #if defined(__linux__)
  constexpr int rto_max_ms = 44;         // TCP_RTO_MAX_MS, since Linux 6.15
  const int at_most = 1000, linear = 1;  // linear: older systems start doubling later if few packets are in flight
  const int yes = 1, idle = 60, between = 30;
  const unsigned patience = 15 * 60 * 1000;  // otherwise the bound on retransmissions ends a connection after half a
                                             // minute
  ::setsockopt(descriptor_, IPPROTO_TCP, rto_max_ms, &at_most, sizeof at_most);
  ::setsockopt(descriptor_, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &linear, sizeof linear);
  ::setsockopt(descriptor_, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
  ::setsockopt(descriptor_, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  ::setsockopt(descriptor_, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  ::setsockopt(descriptor_, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
  #endif
}

WEFT_DISTRIBUTED_DECL asio_socket& tcp_stream::open() {
  if (!is_open()) throw error(error_code::failed_precondition, "tcp", "this side of the connection is closed");
  return *socket_;
}

#endif

}  // namespace weft::detail
