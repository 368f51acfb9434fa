#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/distributed/cluster/server_options.hpp>
#include <weft/distributed/membership/admission.hpp>
#include <weft/distributed/membership/channel_inbox.hpp>
#include <weft/distributed/membership/channel_opener.hpp>
#include <weft/distributed/membership/control_links.hpp>
#include <weft/distributed/membership/dialer.hpp>
#include <weft/distributed/membership/join_chief.hpp>
#include <weft/distributed/membership/join_report.hpp>
#include <weft/distributed/membership/membership.hpp>
#include <weft/distributed/membership/task_identity.hpp>
#include <weft/error.hpp>
#include <weft/printable.hpp>
#include <weft/transport/tcp.hpp>
#include <weft/transport/tls.hpp>
#include <weft/transport/transport.hpp>

namespace weft {

namespace detail {

// In distributed/parameter/, which stands above this folder.
template <typename Server>
class parameter_service;

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
template <transport T = tcp, typename Clock = std::chrono::steady_clock>
class basic_server {
 public:
  using transport_type = T;
  using clock_type = Clock;
  using deadline_type = basic_deadline<Clock>;

  using channel = peer_channel<T>;

  /// Binds the address of /job:`job`/task:`index`, or server_options::bind, and begins to look for the other tasks.
  /// Throws weft::error: not_found for a task that the cluster does not have or a host name that nobody knows,
  /// permission_denied for an address beyond loopback where nobody has given a secret or certificates, and for a secret
  /// that others could read, already_exists for an address that is in use, invalid_argument for port 0 where others
  /// must know the port, a device filter that names no task, a heartbeat_timeout that does not exceed the interval or a
  /// time that is out of range; and what tls_credentials::from_environment() throws.
  basic_server(cluster_spec cluster, std::string job, int index, server_options options = server_options(),
               T network = {});

  /// The same from what the environment tells: server here(cluster_spec::from_environment()).
  template <std::same_as<task_environment> Environment>
  explicit basic_server(const Environment& here, server_options options = server_options(), T network = {});

  template <class = void>
  basic_server(const cluster_spec&, ...) = delete;  // server(cluster, "worker", 0, {...}), of server_options
  basic_server(const basic_server&) = delete;
  basic_server& operator=(const basic_server&) = delete;
  ~basic_server();

  const cluster_spec& cluster() const { return cluster_; }
  const std::string& job() const { return identity_.self().job; }
  int index() const { return identity_.self().index; }
  /// "/job:worker/task:1"
  std::string name() const { return identity_.name(); }
  bool is_chief() const { return job() == options_.worker_job && index() == 0; }
  /// Where this server listens, with the port that was really bound.
  const endpoint& address() const { return address_; }
  std::uint64_t incarnation() const { return identity_.incarnation(); }

  /// Returns when every task that this one connects to has been met.
  /// Throws weft::error: deadline_exceeded that lists the tasks that are missing, unavailable for a task that was lost,
  /// failed_precondition with the reason when a peer refused this task, unauthenticated where one has another secret.
  void wait_ready(deadline_type until = std::chrono::seconds(60));
  /// The same, but a task for which `dispensable(task_id)` holds may be lost.
  template <typename Dispensable>
  void wait_ready(deadline_type until, Dispensable dispensable) {
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
  join_report join(deadline_type workers_come = std::chrono::seconds(60), deadline_type until = deadline_type::never());

  /// Says goodbye to all peers, closes everything and frees the port. Ends join() in another thread. May be called
  /// again. In on_lost, on the server's own thread, it does not wait for the end of that thread.
  void stop();

  // ---- for strategies ----

  T& network() { return network_; }
  membership& members() { return members_; }
  const server_options& options() const { return options_; }
  wait_policy waiting() const { return waiting_; }
  /// How long the task with this rank may be silent before it is lost.
  std::chrono::milliseconds heartbeat_timeout(std::size_t rank) const { return heartbeat_timeouts_[rank]; }
  /// Whether values may travel to the task with this rank through shared memory; the peer may still refuse.
  bool may_share_memory(std::size_t rank) const { return options_.shared_memory && is_on_this_host(rank); }
  /// As far as the addresses tell.
  bool is_on_this_host(std::size_t rank) const { return identity_.is_on_this_host(rank); }
  endpoint address_of(std::size_t rank) const { return identity_.address_of(rank); }
  /// This task works with that one, whatever its filters say, as that one does with it.
  void connect_to(std::size_t rank) {
    if (members_.set_connects_to(rank)) loop_.post([this] { dialer_.resume(); });
  }
  /// The same for all tasks of a job.
  void connect_to(const std::string& job) {
    for (const int index : cluster_.task_indices(job)) connect_to(cluster_.rank({job, index}));
  }
  bool stopping() const { return stopping_.load(std::memory_order_acquire); }

  /// Opens a connection for a purpose of its own, `name`, to the task with this rank. The calling thread does the
  /// handshake.
  /// Throws weft::error: deadline_exceeded, unavailable that names the peer, or the peer's refusal.
  channel open_channel(std::size_t rank, const std::string& name, deadline_type until);

  /// Waits for the task with this rank to open the channel `name` to this one. Throws as open_channel().
  channel accept_channel(std::size_t rank, const std::string& name, deadline_type until) {
    connect_to(rank);
    return inbox_.wait_for(rank, name, until);
  }

  /// The next connection that any task has opened for the channel `name`, if there is one.
  bool take_channel(const std::string& name, channel& taken) { return inbox_.take(name, taken); }

  /// The same of the channels whose names begin so.
  bool take_channel_of(const std::string& prefix, channel& taken) { return inbox_.take_of_prefix(prefix, taken); }
  /// The next connection of a client, a process that is no task of the cluster, if there is one.
  bool take_client(detail::client_channel<T>& taken) { return inbox_.take_client(taken); }
  /// Calls visit(rank, incarnation, name) for each channel that others have opened and nobody has taken yet.
  template <typename Visit>
  void for_each_channel(Visit visit) const {
    inbox_.for_each(visit);
  }

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
  typename T::signal& service_bell() { return service_bell_; }

 private:
  static constexpr std::chrono::milliseconds longest_turn{250};

  join_report serve_parameters(deadline_type workers_come, deadline_type until) {
    using service = detail::parameter_service<basic_server>;
    constexpr bool is_included = requires { sizeof(service); };
    static_assert(is_included, "join: include <weft/distributed/training/exchanges.hpp>");
    if constexpr (is_included) return service(*this).run(workers_come, until);
  }

  /// Rejects options that the transport cannot honour. Without use_tls() nobody would check a certificate, and tasks
  /// with certificates need no secret.
  static server_options with_tls(server_options options) {
    if constexpr (detail::speaks_tls<T>) {
      if (!options.tls) options.tls = tls_credentials::from_environment();
    } else if (options.tls) {
      throw error(error_code::invalid_argument, "server",
                  "server_options::tls is set, but the transport has no use_tls(): use weft::tcp, or set "
                  "server_options::secret instead");
    }
    constexpr bool adopts = requires(T& network, const endpoint& where) { network.adopt(0, where); };
    if (!adopts && (options.bind || options.listening))
      throw error(error_code::invalid_argument, "server",
                  {"server_options::", options.bind ? "bind" : "listening",
                   " is set, but the transport has no listen(where, bound) and adopt(): use weft::tcp, or the task's "
                   "own address"});
    return options;
  }

  /// A sign of life, sent and heard, takes some 10 us: those of a host's tasks may take a tenth of a core. The same for
  /// all tasks of a cluster.
  static std::chrono::milliseconds usual_heartbeat(const cluster_spec& cluster) {
    std::size_t together = 1;
    for (const task_id& task : cluster.tasks()) together = std::max(together, cluster.tasks_on_host_of(task));
    const std::chrono::microseconds all(static_cast<std::int64_t>(10 * together * cluster.tasks().size()));
    return std::max(std::chrono::milliseconds(250), std::chrono::duration_cast<std::chrono::milliseconds>(10 * all));
  }

  /// By rank. On one host silence means that a process is stopped; between hosts it may be a link that comes back.
  std::vector<std::chrono::milliseconds> timeouts() const {
    constexpr std::chrono::milliseconds least_between_hosts{10'000};
    constexpr bool within_process = requires { T::within_process; };
    if (options_.heartbeat_timeout && *options_.heartbeat_timeout <= heartbeat_interval_)
      throw error(
          error_code::invalid_argument, name(),
          {"server_options::heartbeat_timeout is ", options_.heartbeat_timeout->count(), " ms and must exceed the ",
           heartbeat_interval_.count(),
           " ms between two heartbeats; choose a longer timeout, or a shorter heartbeat_interval for all tasks"});
    std::vector<std::chrono::milliseconds> by_rank;
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      const bool is_near = within_process || identity_.is_on_this_host(rank);
      const std::chrono::milliseconds usual = 7 * heartbeat_interval_;
      by_rank.push_back(options_.heartbeat_timeout.value_or(is_near ? usual : std::max(usual, least_between_hosts)));
    }
    return by_rank;
  }

  /// Strangers leave most of what a process may open to those that belong here.
  static std::size_t few_of_the_descriptors() {
    rlimit limit;
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
      return std::numeric_limits<std::size_t>::max();
    return std::max<std::size_t>(limit.rlim_cur / 16, 2);
  }

  /// Binds this task's address, after all that may be wrong with the cluster has been looked at.
  typename T::listener listen() {
    if constexpr (requires { network_.allow_other_hosts(); })
      if (identity_.secret().is_given() || options_.tls) network_.allow_other_hosts();
    if constexpr (detail::speaks_tls<T>)
      if (options_.tls) {
        if (cluster_.num_tasks("client") > 0)
          throw error(
              error_code::invalid_argument, name(),
              "certificates of a job named 'client' would admit clients of the cluster; name the job otherwise");
        network_.use_tls(*options_.tls);
      }
    for (std::size_t rank = 0; rank < members_.size(); ++rank) network_.check(identity_.address_of(rank));
    if (members_.size() > 1) cluster_.check_ports();
    for (std::size_t rank = 0; rank < members_.size(); ++rank)
      if (!has_openssl && rank != members_.self() && identity_.authenticates(rank))
        throw error(error_code::failed_precondition, name(),
                    {to_string(members_.task(rank)),
                     " is on another host, and what travels there is authenticated by OpenSSL, without which this "
                     "program was built; ",
                     build_with_openssl});
    check_filters();
    for (std::size_t rank = 0; rank < members_.size(); ++rank)
      if (works_with(rank)) members_.set_connects_to(rank);
    const endpoint where = identity_.address_of(members_.self());
    if constexpr (requires { network_.adopt(0, where); }) {
      if (options_.listening) return network_.adopt(options_.listening->release(), where);
      if (options_.bind) {
        const endpoint& bound = *options_.bind;
        return network_.listen(where, {bound.host, bound.port ? bound.port : where.port});
      }
    }
    return network_.listen(where);
  }

  static bool passes(const task_id& task, const std::string& filter) {
    const std::string name = to_string(task);
    return name == filter || name.starts_with(str_cat({filter, "/"}));
  }

  void check_filters() const {
    for (const std::string& filter : options_.device_filters) {
      const auto& all = cluster_.tasks();
      if (std::none_of(all.begin(), all.end(), [&](const task_id& task) { return passes(task, filter); }))
        throw error(error_code::invalid_argument, name(),
                    {"the device filter '", printable(filter),
                     "' names no task of the cluster; write \"/job:ps\" or \"/job:worker/task:0\""});
    }
  }

  /// Without being asked.
  bool works_with(std::size_t rank) const {
    const task_id& other = members_.task(rank);
    if (!options_.device_filters.empty())
      return std::any_of(options_.device_filters.begin(), options_.device_filters.end(),
                         [&](const std::string& filter) { return passes(other, filter); });
    return job() == options_.ps_job || other.job == options_.ps_job || !cluster_.has_job(options_.ps_job);
  }

  // ---- the server's own thread ----

  void run() {
    own_thread_ = std::this_thread::get_id();
    while (!stopping()) {
      try {
        heartbeat();
        loop_.run();
      } catch (const std::exception&) {
        // There was no memory for it, most likely: the next heartbeat resumes what was left undone.
        detail::sleep<Clock>(std::chrono::milliseconds(20));
      }
    }
    dialer_.close();
    admission_.close();
    std::string failure;
    {
      std::lock_guard lock(failure_mutex_);
      failure = failure_.empty() && participation_ == participation::needed ? membership::without_finish : failure_;
    }
    links_.close(failure, failure.empty() && participation_ == participation::finished);
    inbox_.clear();
  }

  void heartbeat() {
    const std::chrono::milliseconds again = std::min(heartbeat_interval_, longest_turn);
    heartbeat_timer_.start(again, [this] { heartbeat(); });
    links_.heartbeat(again);
    dialer_.resume();
    admission_.resume();
    inbox_.drop_stale(Clock::now());
  }

  /// A channel was opened, or a peer's state has changed.
  void wake() {
    if (options_.on_worker_change) tell_changes();
    inbox_.notify();
    service_bell_.notify();
  }

  void tell_changes() {
    const int workers = cluster_.num_tasks(options_.worker_job);
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      if (members_.task(rank).job != options_.worker_job || rank == members_.self()) continue;
      const task_state state = members_.state(rank);
      const bool gone = state == task_state::left || state == task_state::lost;
      if (gone == is_gone_[rank]) continue;
      is_gone_[rank] = gone;
      const auto present = workers - static_cast<int>(std::count(is_gone_.begin(), is_gone_.end(), true));
      options_.on_worker_change(
          {members_.task(rank), !gone, gone && members_.has_failed(rank), members_.reason(rank), present, workers});
    }
  }

  T network_;
  cluster_spec cluster_;
  server_options options_;
  membership members_;
  detail::task_identity<T> identity_;
  std::chrono::milliseconds heartbeat_interval_;
  std::vector<std::chrono::milliseconds> heartbeat_timeouts_;  // by rank
  wait_policy waiting_;
  typename T::signal service_bell_;

  std::mutex failure_mutex_;
  std::string failure_;
  std::atomic<participation> participation_{participation::none};

  // Belongs to the server's own thread, but for the inbox.
  std::vector<bool> is_gone_;  // of each worker, as on_worker_change was told
  detail::channel_inbox<T, Clock> inbox_;
  typename T::event_loop loop_;
  typename T::event_loop::timer heartbeat_timer_;
  detail::control_links<T, Clock> links_;
  detail::dialer<T, Clock> dialer_;
  detail::admission<T, Clock> admission_;
  endpoint address_;

  std::atomic<bool> stopping_{false};
  std::mutex stop_mutex_;
  std::atomic<std::thread::id> own_thread_{};
  std::thread thread_;
};

template <transport T, typename Clock>
basic_server<T, Clock>::basic_server(cluster_spec cluster, std::string job, int index, server_options options,
                                     T network)
    : network_(std::move(network)),
      cluster_(std::move(cluster)),
      options_(with_tls(detail::checked_times(std::move(options)))),
      members_(cluster_, cluster_.rank({job, index})),
      identity_(cluster_, {std::move(job), index}, members_, options_, network_),
      heartbeat_interval_(options_.heartbeat_interval.value_or(usual_heartbeat(cluster_))),
      heartbeat_timeouts_(timeouts()),
      waiting_(options_.waiting.value_or(wait_policy::for_tasks(cluster_.tasks_on_host_of(identity_.self())))),
      service_bell_(network_),
      is_gone_(members_.size(), false),
      inbox_(members_),
      heartbeat_timer_(loop_),
      links_(loop_, identity_, members_, options_, heartbeat_interval_, heartbeat_timeouts_, [this] { wake(); }),
      dialer_(network_, loop_, identity_, members_, options_,
              [this](std::size_t rank, std::uint64_t incarnation, typename T::stream stream) {
                links_.meet(rank, incarnation, std::move(stream));
              }),
      admission_(
          loop_, identity_, members_, inbox_, options_, std::min(options_.max_strangers, few_of_the_descriptors()),
          listen(), [this](channel dialled) { links_.accept(std::move(dialled)); }, [this] { service_bell_.notify(); }),
      address_(admission_.address()) {
  members_.waits().set(identity_.name(), options_.on_wait);
  thread_ = std::thread([this] { run(); });
}

template <transport T, typename Clock>
template <std::same_as<task_environment> Environment>
basic_server<T, Clock>::basic_server(const Environment& here, server_options options, T network)
    : basic_server(here.cluster, here.job, here.index, here.complete(std::move(options)), std::move(network)) {}

template <transport T, typename Clock>
basic_server<T, Clock>::~basic_server() {
  stop();
}

template <transport T, typename Clock>
void basic_server<T, Clock>::wait_ready(deadline_type until) {
  wait_ready(until, [](const task_id&) { return false; });
}

template <transport T, typename Clock>
join_report basic_server<T, Clock>::join(deadline_type workers_come, deadline_type until) {
  if (job() == options_.ps_job) {
    join_report report;
    with_reason([&] { report = serve_parameters(workers_come, until); });
    // A server that others have given up leaves its place to another process: its goodbye ends nothing.
    if (report.interrupted && report.interrupted->code() != error_code::aborted) set_failure(*report.interrupted);
    return report;
  }
  return detail::chief_wait<basic_server>(*this).run(workers_come, until);
}

template <transport T, typename Clock>
void basic_server<T, Clock>::stop() {
  stopping_ = true;
  members_.stop();
  inbox_.stop();
  loop_.stop();
  service_bell_.notify();
  if (own_thread_ == std::this_thread::get_id()) return;
  std::lock_guard lock(stop_mutex_);
  if (thread_.joinable()) thread_.join();
}

template <transport T, typename Clock>
auto basic_server<T, Clock>::open_channel(std::size_t rank, const std::string& name, deadline_type until) -> channel {
  connect_to(rank);
  return detail::channel_opener<basic_server>(*this, identity_, rank, name, until).open();
}

template <transport T, typename Clock>
error basic_server<T, Clock>::diagnose(std::size_t rank, std::uint64_t incarnation, const std::string& operation,
                                       const error& problem) {
  if (problem.code() != error_code::unavailable)
    return error(problem.code(), operation, {to_string(members_.task(rank)), ": ", problem.sentence()});
  members_.await_cause(rank, incarnation, deadline_type(std::chrono::milliseconds(200)));
  return members_.diagnose(rank, incarnation, operation, "has closed its connection");
}

#if defined(WEFT_SEPARATE_DISTRIBUTED)
extern template class basic_server<tcp>;
extern template basic_server<tcp>::basic_server(const task_environment&, server_options, tcp);
#endif

/// A server over TCP; see basic_server.
using server = basic_server<>;

}  // namespace weft
