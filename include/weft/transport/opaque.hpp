// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <weft/tensor/owned.hpp>

namespace weft::detail {

// Classes that contain objects of Boost.Asio and OpenSSL. Files that leave the definitions to
// weft::compiled_distributed include neither library.
struct asio_acceptor;
struct asio_context;
struct asio_loop;
struct asio_signal;
struct asio_socket;
struct asio_timer;
class tls_session;

/// Deletes such an object.
struct opaque_delete {
  void operator()(asio_acceptor* what) const;
  void operator()(asio_loop* what) const;
  void operator()(asio_signal* what) const;
  void operator()(asio_socket* what) const;
  void operator()(asio_timer* what) const;
  void operator()(tls_session* what) const;
};

template <typename T>
using opaque_ptr = owned<T, opaque_delete>;

}  // namespace weft::detail
