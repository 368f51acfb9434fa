// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <fcntl.h>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <boost/asio/wait_traits.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <mutex>

#include <weft/error.hpp>
#include <weft/transport/endpoint.hpp>
#include <weft/transport/opaque.hpp>
#include <weft/transport/separate.hpp>

// The Boost.Asio objects of the transport. Each names the executor of an io_context, because the default,
// any_io_executor, is the part of Asio that takes longest to compile.
namespace weft::detail {

using asio_executor = boost::asio::io_context::executor_type;
using asio_failure = boost::system::error_code;
using asio_tcp = boost::asio::ip::tcp;
using asio_descriptor = boost::asio::posix::basic_stream_descriptor<asio_executor>;

struct asio_context : boost::asio::io_context {
  using boost::asio::io_context::io_context;
};

struct asio_acceptor : boost::asio::basic_socket_acceptor<asio_tcp, asio_executor> {
  using basic_socket_acceptor::basic_socket_acceptor;
};

struct asio_socket : boost::asio::basic_stream_socket<asio_tcp, asio_executor> {
  using basic_stream_socket::basic_stream_socket;
};

struct asio_timer
    : boost::asio::basic_waitable_timer<std::chrono::steady_clock, boost::asio::wait_traits<std::chrono::steady_clock>,
                                        asio_executor> {
  using basic_waitable_timer::basic_waitable_timer;
};

/// An io_context that runs until it is stopped, even without work.
struct asio_loop {
  boost::asio::io_context context{1};
  boost::asio::executor_work_guard<asio_executor> works{context.get_executor()};
};

/// The two ends of a connection within this process.
struct asio_signal {
  using socket = boost::asio::basic_stream_socket<boost::asio::local::stream_protocol, asio_executor>;

  explicit asio_signal(boost::asio::io_context& context) : notified(context), notifier(context) {}

  socket notified, notifier;
  std::mutex notifying;
};

#if WEFT_DISTRIBUTED_DEFINITIONS

WEFT_DISTRIBUTED_DECL void opaque_delete::operator()(asio_acceptor* what) const { delete what; }
WEFT_DISTRIBUTED_DECL void opaque_delete::operator()(asio_loop* what) const { delete what; }
WEFT_DISTRIBUTED_DECL void opaque_delete::operator()(asio_signal* what) const { delete what; }
WEFT_DISTRIBUTED_DECL void opaque_delete::operator()(asio_socket* what) const { delete what; }
WEFT_DISTRIBUTED_DECL void opaque_delete::operator()(asio_timer* what) const { delete what; }

#endif

/// Returns true if the process or the system lacks resources for another connection.
inline bool is_exhausted(const asio_failure& problem) {
  namespace errc = boost::system::errc;
  return problem == errc::too_many_files_open || problem == errc::too_many_files_open_in_system ||
         problem == errc::no_buffer_space || problem == errc::not_enough_memory;
}

/// Returns the error for a failed connection attempt.
inline error connect_failure(const endpoint& where, const asio_failure& problem) {
  if (is_exhausted(problem))
    return error(error_code::resource_exhausted, "connect",
                 {"cannot open a connection to ", to_string(where), ": ", problem.message()});
  if (problem == boost::asio::error::connection_refused || problem == boost::asio::error::timed_out)
    return error(error_code::unavailable, "connect",
                 {"no process listens at ", to_string(where), " (", problem.message(), ")"});
  return error(error_code::unavailable, "connect", {to_string(where), ": ", problem.message()});
}

/// Throws the error of a socket that cannot be opened.
[[noreturn]] inline void fail_to_open(const asio_failure& problem) {
  throw error(is_exhausted(problem) ? error_code::resource_exhausted : error_code::unavailable, "tcp",
              {"cannot open a socket: ", problem.message()});
}

inline void close_on_exec(int descriptor) { ::fcntl(descriptor, F_SETFD, FD_CLOEXEC); }

}  // namespace weft::detail
