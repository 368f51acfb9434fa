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

/// Settings of a cluster that the environment does not give.
struct environment_options {
  int ps = 0;  ///< how many tasks are parameter servers, those of the first ranks; TF_CONFIG says so itself
  /// Belongs to a host's first task, the next port to the next task, under Slurm and PBS and with from_hosts(); 0:
  /// comes from the job's number.
  std::uint16_t port = 0;
  std::string folder = {};  ///< that all tasks see, to meet in; empty: that of WEFT_RENDEZVOUS
  std::string host = {};    ///< by which others reach this task; empty: that of WEFT_HOST, or else found out
  std::optional<cluster_secret> secret = {};   ///< nothing: cluster_secret::of_user()
  std::chrono::milliseconds patience{60'000};  ///< for the other tasks to come, where they have to meet first
  std::string ps_job = "ps", worker_job = "worker";
  /// Receives the report of a wait for the others, and of its end. Nothing: a line on stderr.
  std::function<void(const wait_change&)> on_wait = {};
};

/// A process's place in a cluster, as its environment tells it: what a server is made of.
struct task_environment {
  cluster_spec cluster;
  std::string job;
  int index = 0;
  std::string source;                                      ///< what told it, "TF_CONFIG", "Slurm", ..., for messages
  std::shared_ptr<const owned_descriptor> listening = {};  ///< where the task has bound its port already
  std::optional<cluster_secret> secret = {};               ///< that of environment_options

  /// `options` with what the environment has decided.
  server_options complete(server_options options = {}) const {
    if (listening) options.listening = listening;
    if (secret && !options.secret) options.secret = secret;
    return options;
  }
};

}  // namespace weft
