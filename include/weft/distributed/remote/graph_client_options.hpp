#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include <weft/distributed/cluster/secret.hpp>
#include <weft/transport/tls.hpp>

namespace weft {

/// Options of a graph_client.
struct graph_client_options {
  /// Each task must answer within this time, first the one at the address. A client that may start before its cluster
  /// needs longer.
  std::chrono::milliseconds answer_timeout{2'000};
  std::chrono::milliseconds connect_timeout{60'000};        ///< the client waits so long for the cluster's other tasks
  std::chrono::milliseconds step_timeout{600'000};          ///< a run of a step ends within this time, or fails
  std::uint64_t max_value_bytes = std::uint64_t{4} << 30;   ///< of one value that arrives
  std::uint64_t max_parked_bytes = std::uint64_t{8} << 30;  ///< of values that wait here to be fetched
  bool checksum = true;                                     ///< CRC32C over values that travel, too
  bool authenticate = false;  ///< tags on the frames to tasks of this host, too; those to other hosts have them
  /// The cluster's secret; nothing: that of the environment or of this user, or with tls none.
  std::optional<cluster_secret> secret = {};
  /// A certificate of weft:/job:client/task:0; nothing: tls_credentials::from_environment().
  std::optional<tls_credentials> tls = {};
};

}  // namespace weft
