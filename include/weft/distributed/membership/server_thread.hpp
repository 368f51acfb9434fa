// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/distributed/cluster/server_options.hpp>
#include <weft/distributed/membership/join_chief.hpp>
#include <weft/distributed/membership/links/admission.hpp>
#include <weft/distributed/membership/links/channel_inbox.hpp>
#include <weft/distributed/membership/links/channel_opener.hpp>
#include <weft/distributed/membership/links/control_links.hpp>
#include <weft/distributed/membership/links/dialer.hpp>
#include <weft/distributed/membership/peer_channel.hpp>
#include <weft/distributed/membership/task_identity.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/error.hpp>
#include <weft/printable.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/separate.hpp>
#include <weft/transport/tls.hpp>

namespace weft {

namespace detail {

/// Sets tls from the environment, and rejects options that the transport does not support. Without use_tls(), nothing
/// would check certificates, and tasks with certificates require no secret.
inline server_options with_tls(server_options options, const any_transport& network) {
  if (network.can_encrypt()) {
    if (!options.tls) options.tls = tls_credentials::from_environment();
  } else if (options.tls) {
    throw error(error_code::invalid_argument, "server",
                "server_options::tls is set, but the transport has no use_tls(): use weft::tcp, or set "
                "server_options::secret instead");
  }
  if (!network.can_adopt() && (options.bind || options.listening))
    throw error(error_code::invalid_argument, "server",
                {"server_options::", options.bind ? "bind" : "listening",
                 " is set, but the transport has no listen(where, bound) and adopt(): use weft::tcp, or the task's "
                 "own address"});
  return options;
}

/// Returns the default interval. Sending and receiving a heartbeat takes about 10 us, and all heartbeats of a host can
/// use a tenth of a core. All tasks of a cluster compute the same interval.
inline std::chrono::milliseconds usual_heartbeat(const cluster_spec& cluster) {
  std::size_t together = 1;
  for (const task_id& task : cluster.tasks()) together = std::max(together, cluster.tasks_on_host_of(task));
  const std::chrono::microseconds all(static_cast<std::int64_t>(10 * together * cluster.tasks().size()));
  return std::max(std::chrono::milliseconds(250), std::chrono::duration_cast<std::chrono::milliseconds>(10 * all));
}

/// Returns the timeouts by rank. On one host, silence means a stopped process; between hosts, it can be a link that
/// recovers.
inline std::vector<std::chrono::milliseconds> heartbeat_timeouts(const task_server& here, any_transport& network,
                                                                 std::chrono::milliseconds interval) {
  const std::optional<std::chrono::milliseconds>& given = here.options().heartbeat_timeout;
  constexpr std::chrono::milliseconds least_between_hosts{10'000};
  const bool within_process = network.is_within_process();
  if (given && *given <= interval)
    throw error(error_code::invalid_argument, here.name(),
                {"server_options::heartbeat_timeout is ", given->count(), " ms and must exceed the ", interval.count(),
                 " ms between two heartbeats; choose a longer timeout, or a shorter heartbeat_interval for all tasks"});
  std::vector<std::chrono::milliseconds> by_rank;
  for (std::size_t rank = 0; rank < here.cluster().tasks().size(); ++rank) {
    const bool is_near = within_process || here.is_on_this_host(rank);
    const std::chrono::milliseconds usual = 7 * interval;
    by_rank.push_back(given.value_or(is_near ? usual : std::max(usual, least_between_hosts)));
  }
  return by_rank;
}

/// Returns a limit for unauthenticated connections that leaves most file descriptors to the tasks of the cluster.
inline std::size_t few_of_the_descriptors() {
  rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::numeric_limits<std::size_t>::max();
  return std::max<std::size_t>(limit.rlim_cur / 16, 2);
}

/// The thread of a task_server, with its control connections, its dialer and its admission of peers.
class server_thread {
 public:
  server_thread(task_server& here, std::chrono::milliseconds interval)
      : here_(here),
        identity_(here.cluster_, here.members_.task(here.members_.self()), here.members_, here.options_, here.network_),
        interval_(interval),
        is_gone_(here.members_.size(), false),
        inbox_(here.members_),
        loop_(here.network_),
        heartbeat_timer_(loop_),
        links_(loop_, identity_, here.members_, here.options_, interval, here.heartbeat_timeouts_, [this] { wake(); }),
        dialer_(here.network_, loop_, identity_, here.members_, here.options_,
                [this](std::size_t rank, std::uint64_t incarnation, any_transport::stream stream) {
                  links_.meet(rank, incarnation, std::move(stream));
                }),
        admission_(
            loop_, identity_, here.members_, inbox_, here.options_,
            std::min(here.options_.max_strangers, few_of_the_descriptors()), listen(),
            [this](peer_channel dialled) { links_.accept(std::move(dialled)); },
            [this] { here_.service_bell_.notify(); }),
        address_(admission_.address()) {}
  server_thread(const server_thread&) = delete;
  server_thread& operator=(const server_thread&) = delete;

  task_identity& identity() { return identity_; }
  channel_inbox& inbox() { return inbox_; }
  const endpoint& address() const { return address_; }

  /// Starts the thread. Called after the server has stored this object, because handlers can call the server.
  void start() {
    thread_ = std::thread([this] { run(); });
  }
  /// Dials the tasks that connect_to() has added.
  void dial() {
    loop_.post([this] { dialer_.resume(); });
  }
  void stop() {
    inbox_.stop();
    loop_.stop();
    here_.service_bell_.notify();
    if (own_thread_ == std::this_thread::get_id()) return;
    std::lock_guard lock(stop_mutex_);
    if (thread_.joinable()) thread_.join();
  }

 private:
  static constexpr std::chrono::milliseconds longest_turn{250};

  /// Checks the cluster and the options, then binds this task's address.
  any_transport::listener listen() {
    if (identity_.secret().is_given() || here_.options_.tls) here_.network_.allow_other_hosts();
    if (here_.options_.tls) {
      if (here_.cluster_.num_tasks("client") > 0)
        throw error(error_code::invalid_argument, here_.name(),
                    "a job must not be named 'client', because its certificates would admit clients of the cluster; "
                    "choose another name");
      here_.network_.use_tls(*here_.options_.tls);
    }
    for (std::size_t rank = 0; rank < here_.members_.size(); ++rank) here_.network_.check(identity_.address_of(rank));
    if (here_.members_.size() > 1) here_.cluster_.check_ports();
    for (std::size_t rank = 0; rank < here_.members_.size(); ++rank)
      if (!has_openssl && rank != here_.members_.self() && identity_.authenticates(rank))
        throw error(error_code::failed_precondition, here_.name(),
                    {to_string(here_.members_.task(rank)),
                     " is on another host, and authentication between hosts requires OpenSSL, but this program was "
                     "built without it; ",
                     build_with_openssl});
    check_filters();
    for (std::size_t rank = 0; rank < here_.members_.size(); ++rank)
      if (works_with(rank)) here_.members_.set_connects_to(rank);
    const endpoint where = identity_.address_of(here_.members_.self());
    if (here_.options_.listening) return here_.network_.adopt(here_.options_.listening->release(), where);
    if (here_.options_.bind) {
      const endpoint& bound = *here_.options_.bind;
      return here_.network_.listen(where, {bound.host, bound.port ? bound.port : where.port});
    }
    return here_.network_.listen(where);
  }

  static bool passes(const task_id& task, const std::string& filter) {
    const std::string name = to_string(task);
    return name == filter || name.starts_with(str_cat({filter, "/"}));
  }

  void check_filters() const {
    for (const std::string& filter : here_.options_.device_filters) {
      const auto& all = here_.cluster_.tasks();
      if (std::none_of(all.begin(), all.end(), [&](const task_id& task) { return passes(task, filter); }))
        throw error(error_code::invalid_argument, here_.name(),
                    {"the device filter '", printable(filter),
                     "' names no task of the cluster; write \"/job:ps\" or \"/job:worker/task:0\""});
    }
  }

  /// Returns true if this task connects to the other one without a request.
  bool works_with(std::size_t rank) const {
    const task_id& other = here_.members_.task(rank);
    if (!here_.options_.device_filters.empty())
      return std::any_of(here_.options_.device_filters.begin(), here_.options_.device_filters.end(),
                         [&](const std::string& filter) { return passes(other, filter); });
    return here_.job() == here_.options_.ps_job || other.job == here_.options_.ps_job ||
           !here_.cluster_.has_job(here_.options_.ps_job);
  }

  void run() {
    own_thread_ = std::this_thread::get_id();
    while (!here_.stopping()) {
      try {
        heartbeat();
        loop_.run();
      } catch (const std::exception&) {
        // Probably out of memory. The next heartbeat resumes unfinished work.
        detail::sleep(std::chrono::milliseconds(20));
      }
    }
    dialer_.close();
    admission_.close();
    std::string failure;
    {
      std::lock_guard lock(here_.failure_mutex_);
      failure = here_.failure_.empty() && here_.participation_ == participation::needed ? membership::without_finish
                                                                                        : here_.failure_;
    }
    links_.close(failure, failure.empty() && here_.participation_ == participation::finished);
    inbox_.clear();
  }

  void heartbeat() {
    const std::chrono::milliseconds again = std::min(interval_, longest_turn);
    heartbeat_timer_.start(again, [this] { heartbeat(); });
    links_.heartbeat(again);
    dialer_.resume();
    admission_.resume();
    inbox_.drop_stale(detail::now());
  }

  /// Reports that a peer's state has changed.
  void wake() {
    if (here_.options_.on_worker_change) tell_changes();
    inbox_.notify();
    here_.service_bell_.notify();
  }

  void tell_changes() {
    const int workers = here_.cluster_.num_tasks(here_.options_.worker_job);
    for (std::size_t rank = 0; rank < here_.members_.size(); ++rank) {
      if (here_.members_.task(rank).job != here_.options_.worker_job || rank == here_.members_.self()) continue;
      const task_state state = here_.members_.state(rank);
      const bool gone = state == task_state::left || state == task_state::lost;
      if (gone == is_gone_[rank]) continue;
      is_gone_[rank] = gone;
      const auto present = workers - static_cast<int>(std::count(is_gone_.begin(), is_gone_.end(), true));
      here_.options_.on_worker_change({here_.members_.task(rank), !gone, gone && here_.members_.has_failed(rank),
                                       here_.members_.reason(rank), present, workers});
    }
  }

  task_server& here_;
  task_identity identity_;
  std::chrono::milliseconds interval_;  // between two heartbeats
  std::vector<bool> is_gone_;           // by rank, as last reported to on_worker_change
  channel_inbox inbox_;
  any_transport::event_loop loop_;
  any_transport::event_loop::timer heartbeat_timer_;
  control_links links_;
  dialer dialer_;
  admission admission_;
  endpoint address_;

  std::mutex stop_mutex_;
  std::atomic<std::thread::id> own_thread_{};
  std::thread thread_;
};

}  // namespace detail

WEFT_DISTRIBUTED_DECL task_server::task_server(cluster_spec cluster, std::string job, int index, server_options options,
                                               any_transport network)
    : network_(std::move(network)),
      cluster_(std::move(cluster)),
      options_(detail::with_tls(detail::checked_times(std::move(options)), network_)),
      members_(cluster_, cluster_.rank({job, index})),
      waiting_(options_.waiting.value_or(wait_policy::for_tasks(cluster_.tasks_on_host_of({std::move(job), index})))),
      service_bell_(network_) {
  const std::chrono::milliseconds interval = options_.heartbeat_interval.value_or(detail::usual_heartbeat(cluster_));
  heartbeat_timeouts_ = detail::heartbeat_timeouts(*this, network_, interval);
  members_.waits().set(name(), options_.on_wait);
  thread_ = owned<detail::server_thread>(new detail::server_thread(*this, interval));
  thread_->start();
}

WEFT_DISTRIBUTED_DECL task_server::~task_server() { stop(); }

WEFT_DISTRIBUTED_DECL const endpoint& task_server::address() const { return thread_->address(); }
WEFT_DISTRIBUTED_DECL std::uint64_t task_server::incarnation() const { return thread_->identity().incarnation(); }

WEFT_DISTRIBUTED_DECL void task_server::wait_ready(deadline until) {
  wait_ready(until, [](const task_id&) { return false; });
}

WEFT_DISTRIBUTED_DECL join_report task_server::join(deadline workers_come, deadline until) {
  if (job() == options_.ps_job) {
    join_report report;
    with_reason([&] { report = detail::serve_parameters(*this, workers_come, until); });
    // A server that other tasks have declared lost is replaced, so its goodbye must not end training.
    if (report.interrupted && report.interrupted->code() != error_code::aborted) set_failure(*report.interrupted);
    return report;
  }
  return detail::chief_wait(*this).run(workers_come, until);
}

WEFT_DISTRIBUTED_DECL void task_server::stop() {
  stopping_ = true;
  members_.stop();
  thread_->stop();
}

WEFT_DISTRIBUTED_DECL void task_server::connect_to(std::size_t rank) {
  if (members_.set_connects_to(rank)) thread_->dial();
}
WEFT_DISTRIBUTED_DECL peer_channel task_server::open_channel(std::size_t rank, const std::string& name,
                                                             deadline until) {
  connect_to(rank);
  return detail::channel_opener(*this, thread_->identity(), rank, name, until).open();
}
WEFT_DISTRIBUTED_DECL peer_channel task_server::accept_channel(std::size_t rank, const std::string& name,
                                                               deadline until) {
  connect_to(rank);
  return thread_->inbox().wait_for(rank, name, until);
}
WEFT_DISTRIBUTED_DECL bool task_server::take_channel(const std::string& name, peer_channel& taken) {
  return thread_->inbox().take(name, taken);
}
WEFT_DISTRIBUTED_DECL bool task_server::take_channel_of(const std::string& prefix, peer_channel& taken) {
  return thread_->inbox().take_of_prefix(prefix, taken);
}
WEFT_DISTRIBUTED_DECL bool task_server::take_client(detail::client_channel& taken) {
  return thread_->inbox().take_client(taken);
}
WEFT_DISTRIBUTED_DECL void task_server::for_each_channel(
    const std::function<void(std::size_t, std::uint64_t, const std::string&)>& visit) const {
  thread_->inbox().for_each(visit);
}

WEFT_DISTRIBUTED_DECL error task_server::diagnose(std::size_t rank, std::uint64_t incarnation,
                                                  const std::string& operation, const error& problem) {
  if (problem.code() != error_code::unavailable)
    return error(problem.code(), operation, {to_string(members_.task(rank)), ": ", problem.sentence()});
  members_.await_cause(rank, incarnation, deadline(std::chrono::milliseconds(200)));
  return members_.diagnose(rank, incarnation, operation, "has closed its connection");
}

}  // namespace weft
