// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <utility>

#include <weft/distributed/membership/server.hpp>
#include <weft/distributed/remote/task_service.hpp>
#include <weft/graph/graph.hpp>
#include <weft/transport/separate.hpp>

#if WEFT_DISTRIBUTED_DEFINITIONS
  #include <weft/distributed/remote/service/graph_host.hpp>
#endif

namespace weft {

/// A task_service of a server: graph_service tasks(here, g). All types of servers share one implementation.
template <typename Server = server>
class graph_service : public task_service {
 public:
  graph_service(Server& here, const graph& g, graph_service_options options = {})
      : task_service(here, g, std::move(options)) {}
};

}  // namespace weft
