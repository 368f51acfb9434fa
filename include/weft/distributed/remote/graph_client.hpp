// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/distributed/remote/graph_client_options.hpp>
#include <weft/plan/task_support.hpp>
#include <weft/session/session.hpp>
#include <weft/tensor/owned.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/separate.hpp>
#include <weft/transport/tcp.hpp>

#if WEFT_DISTRIBUTED_DEFINITIONS
  #include <weft/distributed/remote/client/client_connections.hpp>
  #include <weft/distributed/remote/remote_tasks.hpp>
#endif

namespace weft {

namespace detail {
class client_connections;
}

/// A client outside a cluster that requests steps from the cluster's tasks. Its process records the same graph as the
/// tasks. The client receives the addresses of all tasks from the task at the given address, and exchanges values with
/// each task directly. If the client ends, only its own run ends.
///
///     graph_client cluster("weft://10.0.0.1:2222", {.secret = cluster_secret::from_file("secret")});
///     session s(g, {.target = cluster.target()});
///
/// A session can create a client with default options: `session s(g, {.target = "weft://10.0.0.1:2222"})`. Nodes
/// without a task run in the task at the address. A client must outlive its sessions.
class graph_client {
 public:
  /// Throws weft::error: invalid_argument if the address is not weft://host:port, deadline_exceeded if no task answers
  /// there within answer_timeout, unauthenticated if the task has another secret, failed_precondition if the task
  /// rejects the client.
  explicit graph_client(std::string_view address, graph_client_options options = {},
                        any_transport network = detail::over_tcp());
  ~graph_client();
  graph_client(const graph_client&) = delete;
  graph_client& operator=(const graph_client&) = delete;

  const cluster_spec& cluster() const;
  const graph_client_options& options() const;

  /// For session_options::target.
  session_target target();

  /// Creates a client for one session, for `.target = "weft://host:port"`.
  static plan::task_support* connect(const std::string& address, const graph& g);

 private:
  owned<detail::client_connections> connections_;
};

#if WEFT_DISTRIBUTED_DEFINITIONS

WEFT_DISTRIBUTED_DECL graph_client::graph_client(std::string_view address, graph_client_options options,
                                                 any_transport network)
    : connections_(new detail::client_connections(address, std::move(options), std::move(network))) {}
WEFT_DISTRIBUTED_DECL graph_client::~graph_client() = default;

WEFT_DISTRIBUTED_DECL const cluster_spec& graph_client::cluster() const { return connections_->cluster(); }
WEFT_DISTRIBUTED_DECL const graph_client_options& graph_client::options() const { return connections_->options(); }

WEFT_DISTRIBUTED_DECL session_target graph_client::target() {
  return {[](void* to, const graph& g) -> plan::task_support* {
            auto& of = *static_cast<detail::client_connections*>(to);
            return new detail::remote_tasks<detail::client_connections>(of, g, of.home());
          },
          connections_.get()};
}

WEFT_DISTRIBUTED_DECL plan::task_support* graph_client::connect(const std::string& address, const graph& g) {
  struct of_session {
    explicit of_session(const std::string& where) : client(where, {}, detail::over_tcp()) {}
    detail::client_connections client;
  };
  struct owning final : private of_session, public detail::remote_tasks<detail::client_connections> {
    owning(const std::string& where, const graph& of)
        : of_session(where), detail::remote_tasks<detail::client_connections>(this->client, of, this->client.home()) {}
  };
  return new owning(address, g);
}

#endif

namespace detail {

/// Enables `.target = "weft://host:port"` in programs that include this file.
inline const bool targets_have_addresses = (plan::connect_to_address = &graph_client::connect, true);

}  // namespace detail
}  // namespace weft
