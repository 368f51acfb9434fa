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
// In distributed/parameter/, which stands above this folder.
join_report serve_parameters(task_server& here, deadline workers_come, deadline until);

}  // namespace detail

/// Whether others need this task. `finished`: it has made its last step together with all others.
enum class participation : unsigned char { none, needed, finished };

/// One task's presence in the cluster: it listens at the task's address, keeps one control connection with each task
/// that it works with (the task of higher rank dials; see server_options::device_filters), and notices at once when a
/// peer's process ends and within heartbeat_timeout(rank) when it falls silent; what it sees it tells the others.
/// Strategies open further connections through it, and do their own input and output on their own threads.
///
/// A connection proves to know the cluster's secret before anything is said on it (see handshake). Those that have not
/// are few, and short-lived: a process that fills their places loses the oldest of them.
///
/// Destroy clients and all-reduce groups before the server that they use.
class task_server {
 public:
  /// Binds the address of /job:`job`/task:`index`, or server_options::bind, and begins to look for the other tasks.
  /// Throws weft::error: not_found for a task that the cluster does not have or a host name that nobody knows,
  /// permission_denied for an address beyond loopback where nobody has given a secret or certificates, and for a secret
  /// that others could read, already_exists for an address that is in use, invalid_argument for port 0 where others
  /// must know the port, a device filter that names no task, a heartbeat_timeout that does not exceed the interval or a
  /// time that is out of range; and what tls_credentials::from_environment() throws.
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
  /// Where this server listens, with the port that was really bound.
  const endpoint& address() const;
  std::uint64_t incarnation() const;

  /// Returns when every task that this one connects to has been met.
  /// Throws weft::error: deadline_exceeded that lists the tasks that are missing, unavailable for a task that was lost,
  /// failed_precondition with the reason when a peer refused this task, unauthenticated where one has another secret.
  void wait_ready(deadline until = std::chrono::seconds(60));
  /// The same, but a task for which `dispensable(task_id)` holds may be lost.
  template <typename Dispensable>
  void wait_ready(deadline until, Dispensable dispensable) {
    with_reason([&] { members_.wait_for(until, [](const task_id&) { return true; }, dispensable); });
  }

  /// A parameter server serves here until every worker has said done, has left or is lost, or stop() is called. At
  /// SIGINT or SIGTERM, if server_options::handle_signals, it serves the workers that are there until they have left,
  /// so that the chief can save, for server_options::stop_patience at most; join_report::signal then says which has
  /// come, and the program ends as it sees fit. A second signal of the kind ends the process at once.
  ///
  /// Any other task waits here until the chief has left or is lost: worker 0, or the cluster's first task if there are
  /// no workers. After a signal it waits for server_options::stop_patience at most, since the chief may need it for its
  /// last step. The chief itself waits until all tasks that it connects to have left or are lost.
  ///
  /// Throws weft::error: deadline_exceeded that names the tasks that have not connected by `workers_come`, or that
  /// still run at `until`.
  join_report join(deadline workers_come = std::chrono::seconds(60), deadline until = deadline::never());

  /// Says goodbye to all peers, closes everything and frees the port. Ends join() in another thread. May be called
  /// again. In on_lost, on the server's own thread, it does not wait for the end of that thread.
  void stop();

  // ---- for strategies ----

  any_transport& network() { return network_; }
  membership& members() { return members_; }
  const server_options& options() const { return options_; }
  wait_policy waiting() const { return waiting_; }
  /// How long the task with this rank may be silent before it is lost.
  std::chrono::milliseconds heartbeat_timeout(std::size_t rank) const { return heartbeat_timeouts_[rank]; }
  /// Whether values may travel to the task with this rank through shared memory; the peer may still refuse.
  bool may_share_memory(std::size_t rank) const { return options_.shared_memory && is_on_this_host(rank); }
  /// As far as the addresses tell.
  bool is_on_this_host(std::size_t rank) const {
    return network_.same_host(address_of(members_.self()), address_of(rank));
  }
  endpoint address_of(std::size_t rank) const {
    const task_id& task = members_.task(rank);
    return cluster_.task_address(task.job, task.index);
  }
  /// This task works with that one, whatever its filters say, as that one does with it.
  void connect_to(std::size_t rank);
  /// The same for all tasks of a job.
  void connect_to(const std::string& job) {
    for (const int index : cluster_.task_indices(job)) connect_to(cluster_.rank({job, index}));
  }
  bool stopping() const { return stopping_.load(std::memory_order_acquire); }

  /// Opens a connection for a purpose of its own, `name`, to the task with this rank. The calling thread does the
  /// handshake.
  /// Throws weft::error: deadline_exceeded, unavailable that names the peer, or the peer's refusal.
  peer_channel open_channel(std::size_t rank, const std::string& name, deadline until);

  /// Waits for the task with this rank to open the channel `name` to this one. Throws as open_channel().
  peer_channel accept_channel(std::size_t rank, const std::string& name, deadline until);

  /// The next connection that any task has opened for the channel `name`, if there is one.
  bool take_channel(const std::string& name, peer_channel& taken);

  /// The same of the channels whose names begin so.
  bool take_channel_of(const std::string& prefix, peer_channel& taken);
  /// The next connection of a client, a process that is no task of the cluster, if there is one.
  bool take_client(detail::client_channel& taken);
  /// Calls visit(rank, incarnation, name) for each channel that others have opened and nobody has taken yet.
  void for_each_channel(const std::function<void(std::size_t, std::uint64_t, const std::string&)>& visit) const;

  /// The error to throw when a connection to this incarnation of a task failed with `problem`: which task is gone, and
  /// why. The end of a connection is often heard before this server has judged the peer, so it is given a moment to do
  /// so.
  error diagnose(std::size_t rank, std::uint64_t incarnation, const std::string& operation, const error& problem);

  /// Sets why this task could not go on, if it leaves now: its goodbye tells the others, which would otherwise take its
  /// leaving for the cause of their own trouble.
  void set_failure(const error& why) {
    std::lock_guard lock(failure_mutex_);
    failure_ = why.what();
  }
  void clear_failure() {
    std::lock_guard lock(failure_mutex_);
    failure_.clear();
  }
  /// Why this task must be started again, if others have declared it lost and closed their connections.
  std::optional<error> given_up() const {
    for (std::size_t rank = 0; rank < members_.size(); ++rank)
      if (members_.verdict_of(rank) == membership::verdict::given_up && members_.state(rank) == task_state::lost)
        return error(error_code::aborted, name(),
                     {to_string(members_.task(rank)), " ", members_.reason(rank), "; start this task again"});
    return {};
  }
  /// What the goodbye of this task says of its training, unless it says why the task has failed.
  void set_participation(participation now) { participation_ = now; }

  /// Does it; where it fails, this task's goodbye says why.
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

  /// Rings when a channel was opened or a peer's state changed.
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
