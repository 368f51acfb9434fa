// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/distributed/cluster/server_options.hpp>
#include <weft/distributed/membership/join_report.hpp>
#include <weft/distributed/membership/membership.hpp>
#include <weft/distributed/membership/peer_channel.hpp>
#include <weft/error.hpp>
#include <weft/tensor/owned.hpp>
#include <weft/transport/any_transport.hpp>

namespace weft {

class task_server;

namespace detail {

class server_thread;
// Defined in distributed/parameter/, a layer above this folder.
join_report serve_parameters(task_server& here, deadline workers_come, deadline until);

}  // namespace detail

/// The part of a task in training. `needed`: other tasks need it. `finished`: it has made its last step with all
/// others.
enum class participation : unsigned char { none, needed, finished };

/// The presence of one task in the cluster. Listens at the task's address, and keeps one control connection with each
/// task that it works with (see server_options::device_filters); the task of higher rank dials. Detects the end of a
/// peer's process at once, and silence after heartbeat_timeout(rank), and notifies other tasks. Strategies open further
/// connections through this class, and do their input and output on their own threads.
///
/// Every connection begins with proofs of the cluster's secret (see handshake). The number and the lifetime of
/// unauthenticated connections are limited, and new ones evict old ones.
///
/// Destroy clients and all-reduce groups before the server that they use.
class task_server {
 public:
  /// Binds the address of /job:`job`/task:`index`, or server_options::bind, and starts to connect to the other tasks.
  /// Throws weft::error: not_found for a task that is not in the cluster or an unknown host name; permission_denied for
  /// an address beyond loopback without a given secret or certificates, and for a secret that other users can read;
  /// already_exists for an address in use; failed_precondition for a task on another host in a program without OpenSSL;
  /// invalid_argument for port 0 in a cluster of several tasks, a device filter that matches no task, a
  /// heartbeat_timeout that does not exceed the interval, a time out of range, or an option that the transport does not
  /// support; and whatever tls_credentials::from_environment() throws.
  task_server(cluster_spec cluster, std::string job, int index, server_options options, any_transport network);

  task_server(const task_server&) = delete;
  task_server& operator=(const task_server&) = delete;
  ~task_server();

  const cluster_spec& cluster() const { return cluster_; }
  const std::string& job() const { return members_.task(members_.self()).job; }
  int index() const { return members_.task(members_.self()).index; }
  /// "/job:worker/task:1"
  std::string name() const { return to_string(members_.task(members_.self())); }
  bool is_chief() const { return job() == options_.worker_job && index() == 0; }
  /// The address at which this server listens, with the actual port.
  const endpoint& address() const;
  std::uint64_t incarnation() const;

  /// Returns when all tasks that this one connects to are alive or have left. Throws weft::error: deadline_exceeded
  /// with the missing tasks, unavailable if a task was lost, failed_precondition with the reason if a peer rejected
  /// this task, unauthenticated if a peer has another secret.
  void wait_ready(deadline until = std::chrono::seconds(60));
  /// The same, but a task for which `dispensable(task_id)` holds may be lost.
  template <typename Dispensable>
  void wait_ready(deadline until, Dispensable dispensable) {
    with_reason([&] { members_.wait_for(until, [](const task_id&) { return true; }, dispensable); });
  }

  /// In a parameter server: serves until every worker has finished, has left or is lost, or stop() is called. After
  /// SIGINT or SIGTERM, with server_options::handle_signals, continues to serve the connected workers until they have
  /// left, so that the chief can save, but for at most server_options::stop_patience. join_report::signal then contains
  /// the signal. A second signal of the same kind ends the process at once.
  ///
  /// In any other task: waits until the chief has left or is lost. The chief is worker 0, or the cluster's first task
  /// if there are no workers. After a signal, waits for at most server_options::stop_patience, because the chief may
  /// need this task for its last step. The chief itself waits until all tasks that it connects to have left or are
  /// lost.
  ///
  /// Throws weft::error: deadline_exceeded with the tasks that have not connected by `workers_come`, or that still run
  /// at `until`.
  join_report join(deadline workers_come = std::chrono::seconds(60), deadline until = deadline::never());

  /// Sends a goodbye to all peers, closes all connections and frees the port. Ends join() in another thread. Can be
  /// called repeatedly. If called in on_lost, on the server's own thread, does not wait for the end of that thread.
  void stop();

  // ---- for strategies ----

  any_transport& network() { return network_; }
  membership& members() { return members_; }
  const server_options& options() const { return options_; }
  wait_policy waiting() const { return waiting_; }
  /// The silence after which the task with this rank is lost.
  std::chrono::milliseconds heartbeat_timeout(std::size_t rank) const { return heartbeat_timeouts_[rank]; }
  /// Returns true if values may travel to the task with this rank through shared memory. The peer can still decline.
  bool may_share_memory(std::size_t rank) const { return options_.shared_memory && is_on_this_host(rank); }
  /// Returns true if the task's address is on this host.
  bool is_on_this_host(std::size_t rank) const {
    return network_.same_host(address_of(members_.self()), address_of(rank));
  }
  endpoint address_of(std::size_t rank) const {
    const task_id& task = members_.task(rank);
    return cluster_.task_address(task.job, task.index);
  }
  /// Connects to the task with this rank even if the device filters exclude it.
  void connect_to(std::size_t rank);
  /// The same for all tasks of a job.
  void connect_to(const std::string& job) {
    for (const int index : cluster_.task_indices(job)) connect_to(cluster_.rank({job, index}));
  }
  bool stopping() const { return stopping_.load(std::memory_order_acquire); }

  /// Opens a connection named `name` to the task with this rank. The calling thread performs the handshake. Throws
  /// weft::error: deadline_exceeded, unavailable with the peer's name, or the peer's rejection.
  peer_channel open_channel(std::size_t rank, const std::string& name, deadline until);

  /// Waits for the task with this rank to open the channel `name` to this one. Throws like open_channel().
  peer_channel accept_channel(std::size_t rank, const std::string& name, deadline until);

  /// Takes the next connection that a task has opened for the channel `name`. Returns false if there is none.
  bool take_channel(const std::string& name, peer_channel& taken);

  /// The same for channels whose names begin with `prefix`.
  bool take_channel_of(const std::string& prefix, peer_channel& taken);
  /// Takes the next connection of a client, a process outside the cluster. Returns false if there is none.
  bool take_client(detail::client_channel& taken);
  /// Calls visit(rank, incarnation, name) for each channel that other tasks have opened and no thread has taken yet.
  void for_each_channel(const std::function<void(std::size_t, std::uint64_t, const std::string&)>& visit) const;

  /// Returns the error for a connection to this incarnation of a task that has failed with `problem`: which task is
  /// gone, and why. Waits up to 200 ms, because a connection often ends before this server has found the reason.
  error diagnose(std::size_t rank, std::uint64_t incarnation, const std::string& operation, const error& problem);

  /// Sets the error that ends this task, for its goodbye. Without it, other tasks would report this task's departure as
  /// the cause of their own errors.
  void set_failure(const error& why) {
    std::lock_guard lock(failure_mutex_);
    failure_ = why.what();
  }
  void clear_failure() {
    std::lock_guard lock(failure_mutex_);
    failure_.clear();
  }
  /// Returns the reason why this task must be restarted, if other tasks have declared it lost.
  std::optional<error> given_up() const {
    for (std::size_t rank = 0; rank < members_.size(); ++rank)
      if (members_.verdict_of(rank) == membership::verdict::given_up && members_.state(rank) == task_state::lost)
        return error(error_code::aborted, name(),
                     {to_string(members_.task(rank)), " ", members_.reason(rank), "; start this task again"});
    return {};
  }
  /// Sets the part in training that this task's goodbye reports, unless set_failure() has set an error.
  void set_participation(participation now) { participation_ = now; }

  /// Calls `action`. If it throws, the error becomes the reason in this task's goodbye.
  template <typename Action>
  void with_reason(Action action) {
    try {
      action();
    } catch (const error& problem) {
      set_failure(problem);
      throw;
    }
    clear_failure();
  }

  /// Notified when a channel is opened or a peer's state changes.
  any_transport::signal& service_bell() { return service_bell_; }

 private:
  friend detail::server_thread;

  any_transport network_;
  cluster_spec cluster_;
  server_options options_;
  membership members_;
  wait_policy waiting_;
  std::vector<std::chrono::milliseconds> heartbeat_timeouts_;  // by rank
  any_transport::signal service_bell_;
  std::mutex failure_mutex_;
  std::string failure_;
  std::atomic<participation> participation_{participation::none};
  std::atomic<bool> stopping_{false};
  owned<detail::server_thread> thread_;
};

}  // namespace weft
