// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include <weft/distributed/cluster/secret.hpp>
#include <weft/transport/tls.hpp>

namespace weft {

/// Options of a graph_client.
struct graph_client_options {
  /// Each task must answer within this time, first the task at the address. Raise it if the client may start before its
  /// cluster.
  std::chrono::milliseconds answer_timeout{2'000};
  std::chrono::milliseconds connect_timeout{60'000};        ///< time to wait for the cluster's other tasks
  std::chrono::milliseconds step_timeout{600'000};          ///< a run of a step ends within this time, or fails
  std::uint64_t max_value_bytes = std::uint64_t{4} << 30;   ///< largest value that the client receives
  std::uint64_t max_parked_bytes = std::uint64_t{8} << 30;  ///< limit for received values that wait to be fetched
  bool checksum = true;                                     ///< also protects values by a CRC-32C
  bool authenticate = false;  ///< authenticates frames to tasks on this host, too; on other hosts it always does
  /// The cluster's secret. Default: the secret in the environment, or else the secret of this user; with tls, no secret
  /// is required.
  std::optional<cluster_secret> secret = {};
  /// A certificate for weft:/job:client/task:0. Default: tls_credentials::from_environment().
  std::optional<tls_credentials> tls = {};
};

}  // namespace weft
