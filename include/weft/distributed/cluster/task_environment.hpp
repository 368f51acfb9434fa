// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/distributed/cluster/secret.hpp>
#include <weft/distributed/cluster/server_options.hpp>
#include <weft/transport/owned_descriptor.hpp>

namespace weft {

/// Settings of a cluster that the environment does not define.
struct environment_options {
  int ps = 0;  ///< number of parameter servers, which have the first ranks; ignored with TF_CONFIG
  /// The port of a host's first task under Slurm and PBS and with from_hosts(); further tasks use the ports after it.
  /// 0: derived from the job's number.
  std::uint16_t port = 0;
  std::string folder = {};  ///< a folder that all tasks can access, for the rendezvous; default: WEFT_RENDEZVOUS
  std::string host = {};    ///< the name or address of this task's host for other tasks; default: WEFT_HOST, or
                            ///< detected
  std::optional<cluster_secret> secret = {};   ///< default: cluster_secret::of_user()
  std::chrono::milliseconds patience{60'000};  ///< the longest wait for the other tasks in a rendezvous
  std::string ps_job = "ps", worker_job = "worker";
  /// Called when a wait for other tasks begins or ends. Default: a line on stderr.
  std::function<void(const wait_change&)> on_wait = {};
};

/// The cluster and a process's place in it, as found in the environment; the arguments of a server.
struct task_environment {
  cluster_spec cluster;
  std::string job;
  int index = 0;
  std::string source;                                      ///< the source of these values for messages: "TF_CONFIG",
                                                           ///< "Slurm", ...
  std::shared_ptr<const owned_descriptor> listening = {};  ///< the socket, if the task has bound its port already
  std::optional<cluster_secret> secret = {};               ///< copied from environment_options

  /// Returns `options` with the socket and the secret of this environment.
  server_options complete(server_options options = {}) const {
    if (listening) options.listening = listening;
    if (secret && !options.secret) options.secret = secret;
    return options;
  }
};

}  // namespace weft
