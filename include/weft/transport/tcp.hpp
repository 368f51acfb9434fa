// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/error.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/event_loop.hpp>
#include <weft/transport/opaque.hpp>
#include <weft/transport/separate.hpp>
#include <weft/transport/tcp_stream.hpp>
#include <weft/transport/tcp_watch.hpp>
#include <weft/transport/tls.hpp>
#include <weft/transport/transport.hpp>

#if WEFT_DISTRIBUTED_DEFINITIONS
  #include <poll.h>
  #include <sys/socket.h>

  #include <algorithm>
  #include <array>
  #include <boost/asio/buffer.hpp>
  #include <boost/asio/ip/address.hpp>
  #include <boost/asio/local/connect_pair.hpp>
  #include <boost/system/system_error.hpp>
  #include <cerrno>
  #include <mutex>

  #include <weft/transport/asio.hpp>
  #include <weft/transport/host_lookup.hpp>
  #include <weft/transport/tls_session.hpp>
#endif

namespace weft {

class host_lookup;

/// TCP through Boost.Asio. Uses only loopback addresses unless allow_other_hosts() is called, and OpenSSL if it is
/// given a certificate. The sockets are non-blocking, and no thread runs their io_context: the thread that needs bytes
/// polls the socket itself, so no message waits until another thread wakes. If latency matters less, a watch waits in
/// an event_loop.
class tcp {
  using context_ptr = std::shared_ptr<detail::asio_context>;
  using source = detail::tcp_source;

 public:
  /// A connected stream of bytes; see byte_stream.
  using stream = detail::tcp_stream;
  /// Calls a handler of an event_loop when a source is ready.
  using watch = detail::tcp_watch;

  /// Accepts connections at an address.
  class listener : public source {
   public:
    listener() = default;
    listener(context_ptr context, detail::opaque_ptr<detail::asio_acceptor> acceptor, std::string host,
             std::optional<tls_credentials> tls);
    listener(listener&& other) noexcept { *this = std::move(other); }
    listener& operator=(listener&& other) noexcept {
      acceptor_ = std::move(other.acceptor_);
      context_ = std::move(other.context_);
      address_ = std::move(other.address_);
      tls_ = std::move(other.tls_);
      descriptor_ = std::exchange(other.descriptor_, -1);
      return *this;
    }

    /// The endpoint, with the port that was bound.
    const endpoint& address() const { return address_; }
    bool is_open() const { return descriptor_ >= 0; }

    /// Throws weft::error (resource_exhausted) if the process cannot open more files: the connecting peer then keeps
    /// waiting.
    bool accept(stream& accepted);

    void close() {
      acceptor_.reset();
      descriptor_ = -1;
    }

   private:
    context_ptr context_;
    detail::opaque_ptr<detail::asio_acceptor> acceptor_;
    endpoint address_;
    std::optional<tls_credentials> tls_;
  };

  /// Ends a wait: any thread calls notify().
  class signal : public source {
   public:
    /// Throws weft::error (resource_exhausted) if the process cannot open more files.
    explicit signal(tcp& owner);
    signal(const signal&) = delete;
    signal& operator=(const signal&) = delete;

    void notify();
    void clear();

   private:
    context_ptr context_;
    detail::opaque_ptr<detail::asio_signal> ends_;
  };

  /// A stream, listener or signal, and the events to wait for.
  struct wait_item {
    const source* from = nullptr;
    bool read = false, write = false;
  };

  using event_loop = weft::event_loop;

  /// Throws weft::error (resource_exhausted) if the process cannot open more files.
  tcp();
  tcp(const tcp& other);
  tcp(tcp&& other) noexcept;
  tcp& operator=(const tcp& other);
  tcp& operator=(tcp&& other) noexcept;
  ~tcp();

  /// Allows other hosts, for this handle and later copies. For callers that require all peers to prove a secret or to
  /// encrypt.
  void allow_other_hosts() { other_hosts_ = true; }

  /// Encrypts all later connections of this handle and its later copies; both sides must present a certificate.
  void use_tls(const tls_credentials& mine) { tls_ = mine; }

  /// Throws weft::error (permission_denied) for a non-loopback address, unless other hosts are allowed.
  void check(const endpoint& where) const;

  /// Returns true if tasks that listen at these endpoints are on one machine, and can share memory.
  static bool same_host(const endpoint& one, const endpoint& other) {
    return one.host == other.host || (is_loopback(one.host) && is_loopback(other.host));
  }

  /// Listens at an address. For a host name, uses the first of its non-loopback addresses that this machine has. If
  /// there is none (many systems map their own name to loopback), uses all addresses of the machine. Waits at most five
  /// seconds for a name lookup.
  /// Throws weft::error: permission_denied for other hosts, already_exists for a port in use, not_found for an unknown
  /// host name, resource_exhausted if the process cannot open more files, unavailable otherwise.
  listener listen(const endpoint& where) { return listen(where, where); }

  /// Listens at `bound`; other tasks connect to `advertised`, with the port of `bound`.
  listener listen(const endpoint& advertised, const endpoint& bound);

  /// Takes ownership of a socket that already listens, for example from a program that assigns ports. Throws
  /// weft::error (invalid_argument) for another kind of descriptor, and the errors of check().
  listener adopt(int descriptor, const endpoint& advertised);

  /// A connection that is not established yet. It becomes writable when the attempt has succeeded or failed.
  class pending_stream : public source {
   public:
    /// Sets `*refused` to true if the address that was tried last has refused the connection, otherwise to false.
    /// `refused` must outlive this object.
    pending_stream(tcp& network, const endpoint& where, std::vector<std::string> addresses, bool* refused = nullptr);

    /// Moves the connection into `made` and returns true, or returns false if it must wait again. Throws the errors of
    /// connect() after it has tried all addresses of the host. The descriptor may change in a call.
    bool finish(stream& made);

    /// Tries the next address of the host. Throws weft::error (unavailable) if there is none.
    void time_out();

    /// The number of remaining addresses, including the current one.
    std::size_t addresses_left() const { return addresses_.size() - tried_; }

   private:
    void begin();
    bool is_connected();
    void give_up(const error& problem);
    void skip(const error& problem);

    tcp& network_;
    endpoint where_;
    std::vector<std::string> addresses_;
    std::size_t tried_ = 0;
    bool* refused_;
    detail::opaque_ptr<detail::asio_socket> socket_;
  };

  /// Starts to connect to a host. A name lookup takes at most `time`. Throws the errors of connect().
  std::unique_ptr<pending_stream> start_connect(const endpoint& where, std::chrono::milliseconds time = {},
                                                bool* refused = nullptr);

  /// Connects to the first of the host's addresses that answers.
  /// Throws weft::error: permission_denied for other hosts, not_found for an unknown host name, unavailable if no task
  /// accepts within `time`, resource_exhausted if the process cannot open more files.
  stream connect(const endpoint& where, std::chrono::milliseconds time = std::chrono::milliseconds(250));

  /// Looks up the host if it is a name, without waiting. Throws weft::error: not_found for an unknown host name,
  /// unavailable while there is no answer.
  void look_up(const endpoint& where);

  /// Returns true if the host answers that no process listens there: the process that did has ended. Returns false if
  /// the host does not answer.
  bool refuses(const endpoint& where, std::chrono::milliseconds time = std::chrono::milliseconds(250));

  bool wait(std::span<wait_item> items, std::chrono::nanoseconds time);

 private:
  static bool is_name(const std::string& host);
  stream connected(detail::opaque_ptr<detail::asio_socket> socket);

  context_ptr context_;
  std::shared_ptr<host_lookup> names_;  // set in the constructor: nvcc 13 aborts at an initializer here
  bool other_hosts_ = false;
  std::optional<tls_credentials> tls_;
};

static_assert(transport<tcp>);

namespace detail {

any_transport over_tcp();

}  // namespace detail

#if WEFT_DISTRIBUTED_DEFINITIONS

WEFT_DISTRIBUTED_DECL tcp::tcp() try
    : context_(std::make_shared<detail::asio_context>(1)), names_(std::make_shared<host_lookup>()) {
  const detail::asio_socket makes_the_reactor(*context_);
} catch (const boost::system::system_error& problem) {
  detail::fail_to_open(problem.code());
}

WEFT_DISTRIBUTED_DECL tcp::tcp(const tcp&) = default;
WEFT_DISTRIBUTED_DECL tcp::tcp(tcp&&) noexcept = default;
WEFT_DISTRIBUTED_DECL tcp& tcp::operator=(const tcp&) = default;
WEFT_DISTRIBUTED_DECL tcp& tcp::operator=(tcp&&) noexcept = default;
WEFT_DISTRIBUTED_DECL tcp::~tcp() = default;

WEFT_DISTRIBUTED_DECL tcp::listener::listener(context_ptr context, detail::opaque_ptr<detail::asio_acceptor> acceptor,
                                              std::string host, std::optional<tls_credentials> tls)
    : context_(std::move(context)), acceptor_(std::move(acceptor)), tls_(std::move(tls)) {
  descriptor_ = acceptor_->native_handle();
  acceptor_->non_blocking(true);
  detail::close_on_exec(descriptor_);
  address_ = {std::move(host), acceptor_->local_endpoint().port()};
}

WEFT_DISTRIBUTED_DECL bool tcp::listener::accept(stream& accepted) {
  detail::asio_failure problem;
  detail::asio_socket socket(*context_);
  acceptor_->accept(socket, problem);
  if (detail::is_exhausted(problem)) throw error(error_code::resource_exhausted, "accept", problem.message());
  if (problem) return false;  // no connection waits, or it has been closed
  accepted = stream(context_, detail::opaque_ptr<detail::asio_socket>(new detail::asio_socket(std::move(socket))));
  if (tls_) accepted.encrypt(*tls_, false);
  return true;
}

WEFT_DISTRIBUTED_DECL tcp::signal::signal(tcp& owner)
    : context_(owner.context_), ends_(new detail::asio_signal(*context_)) {
  detail::asio_failure problem;
  boost::asio::local::connect_pair(ends_->notified, ends_->notifier, problem);
  if (!problem) ends_->notified.non_blocking(true, problem);
  if (!problem) ends_->notifier.non_blocking(true, problem);
  if (problem) detail::fail_to_open(problem);
  descriptor_ = ends_->notified.native_handle();
  detail::close_on_exec(descriptor_);
  detail::close_on_exec(ends_->notifier.native_handle());
}

WEFT_DISTRIBUTED_DECL void tcp::signal::notify() {
  std::lock_guard lock(ends_->notifying);
  detail::asio_failure full_is_fine;
  ends_->notifier.write_some(boost::asio::buffer("!", 1), full_is_fine);
}

WEFT_DISTRIBUTED_DECL void tcp::signal::clear() {
  std::array<char, 64> drain;
  detail::asio_failure empty;
  while (ends_->notified.read_some(boost::asio::buffer(drain), empty) == drain.size()) {
  }
}

WEFT_DISTRIBUTED_DECL void tcp::check(const endpoint& where) const {
  if (other_hosts_ || is_loopback(where.host)) return;
  throw error(error_code::permission_denied, "tcp",
              {to_string(where),
               " is not a loopback address, and other hosts can join only with a secret or certificates; for all "
               "tasks, set WEFT_SECRET, WEFT_SECRET_FILE or server_options::secret, or, to encrypt connections too, "
               "WEFT_TLS_CERT, WEFT_TLS_KEY and WEFT_TLS_CA, or server_options::tls"});
}

WEFT_DISTRIBUTED_DECL tcp::listener tcp::listen(const endpoint& advertised, const endpoint& bound) {
  check(advertised);
  check(bound);
  std::vector<std::string> addresses = names_->find(bound.host, std::chrono::seconds(5));
  if (is_name(bound.host)) {
    const bool ipv6 = is_ipv6_address(addresses[0]);
    std::erase_if(addresses, [](const std::string& each) { return is_loopback(each); });
    addresses.emplace_back(ipv6 ? "::" : "0.0.0.0");
  }
  detail::asio_failure problem;
  for (const std::string& each : addresses) {
    detail::opaque_ptr<detail::asio_acceptor> acceptor(new detail::asio_acceptor(*context_));
    const detail::asio_tcp::endpoint local(boost::asio::ip::make_address(each), bound.port);
    problem.clear();
    acceptor->open(local.protocol(), problem);
    if (!problem) acceptor->set_option(detail::asio_acceptor::reuse_address(true), problem);
    if (!problem) acceptor->bind(local, problem);
    if (!problem) acceptor->listen(boost::asio::socket_base::max_listen_connections, problem);
    if (!problem) return listener(context_, std::move(acceptor), advertised.host, tls_);
    if (problem != boost::system::errc::address_not_available) break;
  }
  if (problem == boost::asio::error::address_in_use)
    throw error(error_code::already_exists, "listen",
                {to_string(bound), " is in use by another process; stop that process or choose another port"});
  throw error(detail::is_exhausted(problem) ? error_code::resource_exhausted : error_code::unavailable, "listen",
              {to_string(bound), ": ", problem.message(),
               problem == boost::system::errc::address_not_available
                   ? "; this host does not have the address: start the task on the host that has it, or set "
                     "server_options::bind"
                   : ""});
}

WEFT_DISTRIBUTED_DECL tcp::listener tcp::adopt(int descriptor, const endpoint& advertised) {
  check(advertised);
  int listens = 0;
  socklen_t size = sizeof listens;
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0 ||
      ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&local), &length) != 0 ||
      (local.ss_family != AF_INET && local.ss_family != AF_INET6))
    throw error(error_code::invalid_argument, "listen", {"descriptor ", descriptor, " is not a listening TCP socket"});
  return listener(
      context_,
      detail::opaque_ptr<detail::asio_acceptor>(new detail::asio_acceptor(
          *context_, local.ss_family == AF_INET ? detail::asio_tcp::v4() : detail::asio_tcp::v6(), descriptor)),
      advertised.host, tls_);
}

WEFT_DISTRIBUTED_DECL tcp::pending_stream::pending_stream(tcp& network, const endpoint& where,
                                                          std::vector<std::string> addresses, bool* refused)
    : network_(network), where_(where), addresses_(std::move(addresses)), refused_(refused) {
  begin();
}

WEFT_DISTRIBUTED_DECL bool tcp::pending_stream::finish(stream& made) {
  for (;;) try {
      if (!is_connected()) return false;
      made = network_.connected(std::move(socket_));
      return true;
    } catch (const error& problem) {
      give_up(problem);
    }
}

WEFT_DISTRIBUTED_DECL void tcp::pending_stream::time_out() {
  give_up(detail::connect_failure(where_, boost::asio::error::timed_out));
}

WEFT_DISTRIBUTED_DECL void tcp::pending_stream::begin() {
  for (;;) try {
      const detail::asio_tcp::endpoint remote(boost::asio::ip::make_address(addresses_[tried_]), where_.port);
      detail::asio_failure problem;
      descriptor_ = -1;
      socket_.reset(new detail::asio_socket(*network_.context_));
      socket_->open(remote.protocol(), problem);
      if (!problem) socket_->non_blocking(true, problem);
      if (!problem) descriptor_ = socket_->native_handle();
      // Asio's connect() would wait even on a non-blocking socket.
      if (!problem && ::connect(descriptor_, remote.data(), static_cast<socklen_t>(remote.size())) != 0)
        problem = detail::asio_failure(errno, boost::system::system_category());
      if (refused_) *refused_ = problem == boost::asio::error::connection_refused;
      if (problem && problem != boost::asio::error::in_progress && problem != boost::asio::error::would_block)
        throw detail::connect_failure(where_, problem);
      return;
    } catch (const error& problem) {
      skip(problem);
    }
}

WEFT_DISTRIBUTED_DECL bool tcp::pending_stream::is_connected() {
  wait_item item{this, false, true};
  if (!network_.wait({&item, 1}, {})) return false;
  int pending = 0;
  socklen_t size = sizeof pending;
  ::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &pending, &size);
  detail::asio_failure problem(pending, boost::system::system_category());
  // The system may assign a port without a listener to this socket itself, which then connects to itself.
  if (detail::asio_failure lost; !problem && socket_->local_endpoint(lost) == socket_->remote_endpoint(lost))
    problem = boost::asio::error::connection_refused;
  if (refused_) *refused_ = problem == boost::asio::error::connection_refused;
  if (problem) throw detail::connect_failure(where_, problem);
  return true;
}

WEFT_DISTRIBUTED_DECL void tcp::pending_stream::give_up(const error& problem) {
  skip(problem);
  begin();
}

WEFT_DISTRIBUTED_DECL void tcp::pending_stream::skip(const error& problem) {
  socket_.reset();
  if (problem.code() == error_code::unavailable && tried_ + 1 < addresses_.size()) {
    ++tried_;
    return;
  }
  if (is_name(where_.host)) network_.names_->forget(where_.host);
  throw problem;
}

WEFT_DISTRIBUTED_DECL std::unique_ptr<tcp::pending_stream> tcp::start_connect(const endpoint& where,
                                                                              std::chrono::milliseconds time,
                                                                              bool* refused) {
  check(where);
  return std::make_unique<pending_stream>(*this, where, names_->find(where.host, time), refused);
}

WEFT_DISTRIBUTED_DECL tcp::stream tcp::connect(const endpoint& where, std::chrono::milliseconds time) {
  const deadline until = time;
  const std::unique_ptr<pending_stream> pending = start_connect(where, time);
  for (stream made;;) {
    if (pending->finish(made)) return made;
    // The last address gets all of the remaining time; earlier ones get half of it.
    const auto left = until.remaining();
    wait_item item{pending.get(), false, true};
    if (!wait({&item, 1}, pending->addresses_left() == 1 ? left : left / 2)) pending->time_out();
  }
}

WEFT_DISTRIBUTED_DECL void tcp::look_up(const endpoint& where) {
  if (is_name(where.host)) names_->find(where.host, std::chrono::milliseconds(0));
}

WEFT_DISTRIBUTED_DECL bool tcp::refuses(const endpoint& where, std::chrono::milliseconds time) {
  bool refused = false;
  try {
    const deadline until = time;
    const std::unique_ptr<pending_stream> pending = start_connect(where, time, &refused);
    for (stream made; !pending->finish(made);) {
      wait_item item{pending.get(), false, true};
      if (!wait({&item, 1}, until.remaining())) return false;
    }
    return false;
  } catch (const error&) {
    return refused;
  }
}

WEFT_DISTRIBUTED_DECL bool tcp::wait(std::span<wait_item> items, std::chrono::nanoseconds time) {
  constexpr std::size_t few = 64;
  std::array<pollfd, few> on_stack;
  std::vector<pollfd> on_heap(items.size() > few ? items.size() : 0);
  pollfd* polled = on_heap.empty() ? on_stack.data() : on_heap.data();
  bool has_more = false;  // OpenSSL has already read data from a socket
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto& [from, read, write] = items[i];
    polled[i] = {from->descriptor(), static_cast<short>((read ? POLLIN : 0) | (write ? POLLOUT : 0)), 0};
    if (!from->session()) continue;
    polled[i].events = from->session()->events(read, write);
    has_more |= read && from->session()->has_more();
  }
  if (has_more) return true;
  const auto whole = std::chrono::ceil<std::chrono::milliseconds>(time).count();
  return ::poll(polled, items.size(), static_cast<int>(std::max<long>(whole, 0))) > 0;
}

WEFT_DISTRIBUTED_DECL bool tcp::is_name(const std::string& host) {
  detail::asio_failure no_address;
  boost::asio::ip::make_address(host, no_address);
  return no_address && host != "localhost";
}

WEFT_DISTRIBUTED_DECL tcp::stream tcp::connected(detail::opaque_ptr<detail::asio_socket> socket) {
  stream made(context_, std::move(socket));
  if (tls_) made.encrypt(*tls_, true);
  return made;
}

namespace detail {

WEFT_DISTRIBUTED_DECL any_transport over_tcp() { return tcp(); }

}  // namespace detail

#endif

}  // namespace weft
