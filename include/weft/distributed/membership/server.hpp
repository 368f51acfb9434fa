// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <concepts>
#include <string>
#include <utility>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/distributed/cluster/server_options.hpp>
#include <weft/distributed/cluster/task_environment.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/separate.hpp>
#include <weft/transport/tcp.hpp>

#if WEFT_DISTRIBUTED_DEFINITIONS
  #include <weft/distributed/membership/server_thread.hpp>
#endif

namespace weft {

namespace detail {

// Defined in distributed/parameter/, a layer above this folder.
class parameter_service;

template <typename, typename Service>
constexpr bool is_complete = requires { sizeof(Service); };
#if defined(WEFT_SEPARATE_DISTRIBUTED)
template <transport T>
constexpr bool serves_parameters = true;
#else
template <transport T>
constexpr bool serves_parameters = is_complete<T, parameter_service>;
#endif

}  // namespace detail

/// A task_server over a transport; see the page on transports.
template <transport T = tcp>
class basic_server : public task_server {
 public:
  /// Throws like task_server's constructor.
  basic_server(cluster_spec cluster, std::string job, int index, server_options options = server_options(),
               T network = {});

  /// Creates the server that the environment describes: server here(cluster_spec::from_environment()).
  template <std::same_as<task_environment> Environment>
  explicit basic_server(const Environment& here, server_options options = server_options(), T network = {});

  template <class = void>
  basic_server(const cluster_spec&, ...) = delete;  // server(cluster, "worker", 0, {...}), of server_options

  join_report join(deadline workers_come = std::chrono::seconds(60), deadline until = deadline::never()) {
    static_assert(detail::serves_parameters<T>, "join: include <weft/distributed/training/exchanges.hpp>");
    return task_server::join(workers_come, until);
  }
};

// Not inline: files that link weft::compiled_distributed do not instantiate the code behind a transport.
template <transport T>
basic_server<T>::basic_server(cluster_spec cluster, std::string job, int index, server_options options, T network)
    : task_server(std::move(cluster), std::move(job), index, std::move(options), any_transport(std::move(network))) {}

template <transport T>
template <std::same_as<task_environment> Environment>
basic_server<T>::basic_server(const Environment& here, server_options options, T network)
    : basic_server(here.cluster, here.job, here.index, here.complete(std::move(options)), std::move(network)) {}

#if defined(WEFT_SEPARATE_DISTRIBUTED)
extern template class basic_server<tcp>;
extern template basic_server<tcp>::basic_server(const task_environment&, server_options, tcp);
#endif

/// A server over TCP; see basic_server.
using server = basic_server<>;

}  // namespace weft
