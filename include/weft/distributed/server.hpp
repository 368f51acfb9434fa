#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <weft/distributed/cluster_spec.hpp>
#include <weft/distributed/handshake.hpp>
#include <weft/distributed/membership.hpp>
#include <weft/distributed/messages.hpp>
#include <weft/distributed/parameter_service.hpp>
#include <weft/distributed/secret.hpp>
#include <weft/error.hpp>
#include <weft/transport/framing.hpp>
#include <weft/transport/owned_descriptor.hpp>
#include <weft/transport/tcp.hpp>
#include <weft/transport/tls.hpp>
#include <weft/transport/transport.hpp>

namespace weft {

/// Compared when tasks meet: tasks of different versions do not work together.
inline constexpr const char* distributed_version = "0.2";

struct server_options {
  std::optional<std::chrono::milliseconds> heartbeat_interval;  // between signs of life, to every peer; nothing: 250
                                                                // ms, more where a host has dozens of tasks
  std::optional<std::chrono::milliseconds>
      heartbeat_timeout;                              // a peer silent for so long is lost; nothing: 7 intervals
  std::chrono::milliseconds handshake_timeout{5000};  // a connection must say who it is within this time
  std::chrono::milliseconds stalled{30'000};  // a message that is on its way moves within this time, or is given up
  std::chrono::milliseconds idle_worker{600'000};  // a worker that asks a parameter server for nothing for so long is
                                                   // not waited for at the end
  std::optional<wait_policy> waiting;  // nothing: chosen from the number of tasks on this host and its cores
  bool shared_memory = true;           // tasks of one host and user pass values through memory that both map
  bool checksum = true;                // CRC32C over values that travel, too; headers always have one
  bool authenticate = false;  // tags on the frames between tasks of one host, too; those between hosts have them
  nonfinite_gradients not_finite = nonfinite_gradients::refuse;  // the parameter servers' counts, or each worker's own
                                                                 // where there are none
  std::uint64_t max_parameter_bytes = std::uint64_t{16} << 30;   // what workers may make a parameter server hold
  std::size_t max_strangers = 64;        // connections that have not yet proved to belong here, at one time
  std::size_t max_channels = 16;         // of one peer, that nobody has taken up yet
  std::optional<cluster_secret> secret;  // what tasks prove to know; nothing: cluster_secret::of_user(), or with tls none
  std::optional<tls_credentials> tls;    // by which all is encrypted; nothing: tls_credentials::from_environment()
  std::optional<endpoint> bind;  // where to listen, if not at the task's own address, {"0.0.0.0"} say; port 0: the
                                 // address's
  std::shared_ptr<const owned_descriptor> listening;  // a socket that listens already, in place of one that is bound
  std::string ps_job = "ps", worker_job = "worker";
  std::function<void(const error&)> on_lost;  // a peer was lost; called from the server's own thread
};

/// One task's presence in the cluster: it listens at the task's address, keeps one control connection with every other
/// task (the task of higher rank dials), and notices at once when a peer's process ends and within heartbeat_timeout()
/// when it falls silent; what it sees it tells the others. Strategies open further connections through it, and do their
/// own input and output on their own threads.
///
/// A connection proves to know the cluster's secret before anything is said on it (see handshake). Those that have not
/// are few, and short-lived: whoever fills their places loses the oldest of them.
///
/// Destroy clients and all-reduce groups before the server that they use.
template <transport T = tcp, typename Clock = std::chrono::steady_clock>
class basic_server {
 public:
  using transport_type = T;
  using clock_type = Clock;
  using deadline_type = basic_deadline<Clock>;

  /// A connection for one purpose, and to which incarnation of the peer it leads.
  struct channel {
    std::size_t rank = 0;
    std::uint64_t incarnation = 0;
    typename T::stream stream;
    std::uint64_t number = 0;  // of one that has come here: a later one has a larger number
  };

  /// Binds the address of /job:`job`/task:`index`, or server_options::bind, and begins to look for the other tasks.
  /// Throws weft::error: not_found for a task that the cluster does not have or a host name that nobody knows,
  /// permission_denied for an address beyond loopback where nobody has given a secret or certificates, and for a secret
  /// that others could read, already_exists for an address that is in use, invalid_argument for port 0 where others must
  /// know the port; and what tls_credentials::from_environment() throws.
  basic_server(cluster_spec cluster, std::string job, int index, server_options options = {}, T network = {})
      : network_(std::move(network)),
        cluster_(std::move(cluster)),
        self_{std::move(job), index},
        options_(with_tls(std::move(options))),
        secret_(options_.secret ? *options_.secret : usual_secret()),
        incarnation_(random_incarnation(network_)),
        rank_(cluster_.rank(self_)),
        members_(cluster_, rank_),
        heartbeat_interval_(options_.heartbeat_interval.value_or(usual_heartbeat(cluster_))),
        heartbeat_timeout_(options_.heartbeat_timeout.value_or(7 * heartbeat_interval_)),
        max_strangers_(std::min(options_.max_strangers, few_of_the_descriptors())),
        doorbell_(network_),
        service_bell_(network_) {
    if constexpr (requires { network_.allow_other_hosts(); })
      if (secret_.is_given() || options_.tls) network_.allow_other_hosts();
    if constexpr (speaks_tls)
      if (options_.tls) network_.use_tls(*options_.tls);
    for (const task_id& task : cluster_.tasks()) network_.check(cluster_.task_address(task.job, task.index));
    if (members_.size() > 1) cluster_.check_ports();
    for (std::size_t rank = 0; rank < members_.size(); ++rank)
      if (!has_openssl && rank != rank_ && authenticates(rank))
        throw error(error_code::failed_precondition, name(),
                    {to_string(members_.task(rank)),
                     " is on another host, and what travels there is authenticated by OpenSSL, without which this "
                     "program was built; install libssl-dev and build it again"});
    waiting_ = options_.waiting.value_or(wait_policy::for_tasks(cluster_.tasks_on_host_of(self_)));
    listener_ = open_door(cluster_.task_address(self_.job, self_.index));
    address_ = listener_.address();
    redial_.assign(members_.size(), Clock::now());
    thread_ = std::thread([this] { run(); });
  }

  /// The same from what the environment tells: server here(cluster_spec::from_environment()).
  template <std::same_as<task_environment> Environment>
  explicit basic_server(const Environment& here, server_options options = {}, T network = {})
      : basic_server(here.cluster, here.job, here.index, here.complete(std::move(options)), std::move(network)) {}

  basic_server(const basic_server&) = delete;
  basic_server& operator=(const basic_server&) = delete;
  ~basic_server() { stop(); }

  const cluster_spec& cluster() const { return cluster_; }
  const std::string& job() const { return self_.job; }
  int index() const { return self_.index; }
  /// "/job:worker/task:1"
  std::string name() const { return to_string(self_); }
  bool is_chief() const { return self_.job == options_.worker_job && self_.index == 0; }
  /// Where this server listens, with the port that was really bound.
  const endpoint& address() const { return address_; }
  std::uint64_t incarnation() const { return incarnation_; }

  /// Returns when every task of the cluster has been met.
  /// Throws weft::error: deadline_exceeded that lists the tasks that are missing, unavailable for a task that was lost,
  /// failed_precondition with the reason when a peer refused this task, unauthenticated where one has another secret.
  void wait_ready(deadline_type until = std::chrono::seconds(60)) {
    wait_ready(until, [](const task_id&) { return false; });
  }
  /// The same, but a task for which `dispensable(task_id)` holds may be lost.
  template <typename Dispensable>
  void wait_ready(deadline_type until, Dispensable dispensable) {
    with_reason([&] {
      members_.wait_for(
          until, [](const task_id&) { return true; }, dispensable);
    });
  }

  /// A parameter server serves here until every worker has said done, has left or is lost, or stop() is called. Another
  /// task waits here until all others have left or are lost.
  /// Throws weft::error (deadline_exceeded) that names workers which had not come until `workers_come`, or when `until`
  /// is reached.
  join_report join(deadline_type workers_come = std::chrono::seconds(60),
                   deadline_type until = deadline_type::never()) {
    if (self_.job == options_.ps_job) return detail::parameter_service<basic_server>(*this).run(workers_come, until);
    members_.wait_for(workers_come, [](const task_id&) { return true; });
    join_report report;
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      if (rank == rank_) continue;
      const auto lost = [&](std::uint64_t incarnation) {
        report.lost.push_back(str_cat({to_string(members_.task(rank)), " ", members_.reason(rank, incarnation)}));
      };
      std::uint64_t awaited = members_.incarnation(rank);
      while (members_.state(rank) == task_state::alive && !stopping()) {
        if (until.expired())
          throw error(error_code::deadline_exceeded, "join", {to_string(members_.task(rank)), " is still running"});
        members_.await_verdict(rank, deadline_type(std::chrono::milliseconds(200)));
        const std::uint64_t now = members_.incarnation(rank);  // another process may have come in its place
        if (now != awaited && members_.state(rank, awaited) == task_state::lost) lost(awaited);
        awaited = now;
      }
      if (members_.state(rank, awaited) == task_state::left) report.finished.push_back(to_string(members_.task(rank)));
      if (members_.state(rank, awaited) == task_state::lost) lost(awaited);
    }
    return report;
  }

  /// Says goodbye to all peers, closes everything and frees the port. Ends join() in another thread. May be called
  /// again. In on_lost, on the server's own thread, it does not wait for the end of that thread.
  void stop() {
    stopping_ = true;
    members_.stop();
    inbox_changed_.notify_all();
    doorbell_.notify();
    service_bell_.notify();
    if (own_thread_ == std::this_thread::get_id()) return;
    std::lock_guard lock(stop_mutex_);
    if (thread_.joinable()) thread_.join();
  }

  // ---- for strategies ----

  T& network() { return network_; }
  membership& members() { return members_; }
  const server_options& options() const { return options_; }
  wait_policy waiting() const { return waiting_; }
  std::chrono::milliseconds heartbeat_timeout() const { return heartbeat_timeout_; }
  /// Whether values may travel to the task with this rank through shared memory; the peer may still refuse.
  bool may_share_memory(std::size_t rank) const { return options_.shared_memory && is_on_this_host(rank); }
  /// As far as the addresses tell.
  bool is_on_this_host(std::size_t rank) const {
    const task_id& peer = members_.task(rank);
    return same_host<T>(cluster_.task_address(self_.job, self_.index), cluster_.task_address(peer.job, peer.index));
  }
  bool stopping() const { return stopping_.load(std::memory_order_acquire); }

  /// Opens a connection for a purpose of its own, `name`, to the task with this rank. The calling thread does the
  /// handshake.
  /// Throws weft::error: deadline_exceeded, unavailable that names the peer, or the peer's refusal.
  channel open_channel(std::size_t rank, const std::string& name, deadline_type until) {
    for (int attempt = 0;; ++attempt, detail::sleep<Clock>(std::chrono::milliseconds(20))) {
      members_.wait_for(until, [&](const task_id& task) { return task == members_.task(rank); });
      const task_id& peer = members_.task(rank);
      const std::string operation = str_cat({"connect to ", to_string(peer)});
      const std::uint64_t incarnation = members_.incarnation(rank);
      if (!members_.alive(rank, incarnation)) throw members_.diagnose(rank, incarnation, operation, "is not there");
      // Where strangers crowd its door a task may drop this connection, too, before it has proved anything.
      const auto succeeds = [&](auto action) {
        try {
          action();
          return true;
        } catch (const error& problem) {
          const bool closed = problem.code() == error_code::unavailable;
          if (closed && attempt < max_attempts && !until.expired())
            members_.await_verdict(rank, deadline_type(std::chrono::milliseconds(20)));
          if (!closed || attempt >= max_attempts || until.expired() || !members_.alive(rank, incarnation))
            throw diagnose(rank, incarnation, operation, problem);
          return false;
        }
      };
      typename T::stream stream;
      if (!succeeds([&] { stream = network_.connect(cluster_.task_address(peer.job, peer.index)); })) continue;
      handshake_type talk = handshake_type::dialling(std::move(stream), secret_.proof(), nonce());
      waiter<T, Clock> idle(network_, waiting_);
      bool dropped = false;
      while (talk.at() != handshake_type::phase::over) {
        std::size_t moved = 0;
        dropped = !succeeds([&] { moved = talk.advance(); });
        if (dropped) break;
        if (talk.at() == handshake_type::phase::challenged) {
          if (!is_task(rank, talk)) throw stranger_at(rank, talk);
          talk.introduce(introduction_to(rank, name, until.remaining_us()));
          continue;
        }
        if (talk.at() == handshake_type::phase::over) break;
        if (until.expired())
          throw error(error_code::deadline_exceeded, operation, "received no answer to the handshake in time");
        if (moved > 0) {
          idle.moved();
          continue;
        }
        typename T::wait_item item{&talk.stream(), true, talk.is_sending()};
        idle.pause({&item, 1}, until);
        if (!members_.alive(rank, incarnation)) throw members_.diagnose(rank, incarnation, operation, "is gone");
        if (stopping()) throw error(error_code::cancelled, operation, "this server was stopped");
      }
      if (dropped) continue;
      if (talk.refusal()) throw error(talk.refusal()->code(), operation, talk.refusal()->sentence());
      // It has just been started again where the numbers differ: its control connection comes soon.
      if (talk.other()->incarnation == incarnation) return {rank, incarnation, std::move(talk.stream())};
      if (until.expired())
        throw error(error_code::deadline_exceeded, operation, "it was started again and has not come back in time");
    }
  }

  /// Waits for the task with this rank to open the channel `name` to this one. Throws as open_channel().
  channel accept_channel(std::size_t rank, const std::string& name, deadline_type until) {
    const std::string operation = str_cat({"wait for ", to_string(members_.task(rank))});
    std::uint64_t awaited = 0;
    std::unique_lock lock(inbox_mutex_);
    for (;;) {
      if (awaited == 0) awaited = members_.incarnation(rank);
      channel found;
      if (take(found, [&](const waiting_channel& each) { return each.rank == rank && each.name == printable(name); }))
        return found;
      const task_state state = members_.state(rank, awaited);
      if (state == task_state::lost || state == task_state::left)
        throw members_.diagnose(rank, awaited, operation, "is gone");
      if (stopping()) throw error(error_code::cancelled, operation, "this server was stopped");
      if (until.expired())
        throw error(error_code::deadline_exceeded, operation, {"it has not opened its channel '", name, "' in time"});
      detail::sleep<Clock>(inbox_changed_, lock, std::chrono::milliseconds(20));
    }
  }

  /// The next connection that any task has opened for the channel `name`, if there is one.
  bool take_channel(const std::string& name, channel& taken) {
    if (inbox_size_.load(std::memory_order_acquire) == 0) return false;
    std::lock_guard lock(inbox_mutex_);
    return take(taken, [&](const waiting_channel& each) { return each.name == name; });
  }

  /// What to throw when a connection to this incarnation of a task failed with `problem`: who is gone, and why. The end
  /// of a connection is often heard before this server has judged the peer, so it is given a moment to do so.
  error diagnose(std::size_t rank, std::uint64_t incarnation, const std::string& operation, const error& problem) {
    if (problem.code() != error_code::unavailable)
      return error(problem.code(), operation, {to_string(members_.task(rank)), ": ", problem.sentence()});
    members_.await_cause(rank, incarnation, deadline_type(std::chrono::milliseconds(200)));
    return members_.diagnose(rank, incarnation, operation, "has closed its connection");
  }

  /// What this task could not go on for, if it leaves now: its goodbye tells the others, who would otherwise take its
  /// leaving for the cause of their own trouble.
  void set_failure(const error& why) {
    std::lock_guard lock(failure_mutex_);
    failure_ = why.what();
  }
  void clear_failure() {
    std::lock_guard lock(failure_mutex_);
    failure_.clear();
  }

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
  using moment = typename Clock::time_point;
  using handshake_type = detail::handshake<typename T::stream>;

  static constexpr int max_accepted = 16;  // connections in one turn: those who are here already come first
  static constexpr int max_heard = 64;     // frames of one peer in one turn
  static constexpr int max_attempts = 50;  // to open a channel at the door of a task that is there
  static constexpr std::chrono::milliseconds shortest_stay{5};  // of a stranger, however many come after it
  static constexpr std::chrono::milliseconds longest_dial{25};  // for it keeps the others waiting

  /// A connection that came, and has not yet said who it is.
  struct arrival {
    handshake_type talk;
    std::uint64_t number;
    moment since, until;
    bool welcome = false;

    arrival(typename T::stream stream, const basic_server& here, std::uint64_t number, moment now)
        : talk(handshake_type::listening(std::move(stream), here.secret_.proof(), here.nonce(), here.name())),
          number(number),
          since(now),
          until(now + here.options_.handshake_timeout) {}
  };

  /// A control connection that this side dials.
  struct call {
    std::size_t rank;
    handshake_type talk;
    moment until;

    call(std::size_t rank, typename T::stream stream, const basic_server& here, moment until)
        : rank(rank),
          talk(handshake_type::dialling(std::move(stream), here.secret_.proof(), here.nonce())),
          until(until) {}
  };

  /// A connection that a task has opened and nobody has taken up yet.
  struct waiting_channel {
    std::size_t rank;
    std::uint64_t incarnation;
    std::string name;
    moment until;  // who opened it waits no longer
    typename T::stream stream;
    std::uint64_t number;
  };

  struct control_link {
    std::size_t rank;
    std::uint64_t incarnation;
    typename T::stream stream;
    moment last_heard;
    bool met = false;  // a frame has come: before, who dialled may have given up in the middle of it
    bool closed = false;
    frame_reader in;
    frame_writer out;
    std::vector<std::byte> message, sent;  // payloads of the frames that arrive and leave
    std::deque<std::size_t> untold;        // ranks of tasks of whose end the peer is to be told

    control_link(std::size_t rank, std::uint64_t incarnation, typename T::stream stream, moment now)
        : rank(rank), incarnation(incarnation), stream(std::move(stream)), last_heard(now) {
      in.expect(detail::max_control_bytes);
    }
  };

  static constexpr bool speaks_tls = requires(T & network, const tls_credentials& mine) { network.use_tls(mine); };

  static server_options with_tls(server_options options) {
    if (speaks_tls && !options.tls) options.tls = tls_credentials::from_environment();
    return options;
  }

  /// That of tasks that were not given one. Certificates make it needless: it is one that everybody knows then.
  cluster_secret usual_secret() const {
    if (!options_.tls) return detail::usual_secret<T>();
    if (auto given = cluster_secret::from_environment()) return *given;
    return cluster_secret("tasks that have certificates");
  }

  /// A sign of life, sent and heard, takes some 10 us: those of a host's tasks may take a tenth of a core. The same for
  /// all tasks of a cluster.
  static std::chrono::milliseconds usual_heartbeat(const cluster_spec& cluster) {
    std::size_t together = 1;
    for (const task_id& task : cluster.tasks()) together = std::max(together, cluster.tasks_on_host_of(task));
    const std::chrono::microseconds all(static_cast<std::int64_t>(10 * together * cluster.tasks().size()));
    return std::max(std::chrono::milliseconds(250), std::chrono::duration_cast<std::chrono::milliseconds>(10 * all));
  }

  static std::uint64_t random_incarnation(T& network) {
    std::array<std::byte, 8> bytes;
    fill_random(network, bytes);
    return detail::get_little<std::uint64_t>(bytes.data()) | 1u;
  }

  detail::handshake_nonce nonce() const {
    detail::handshake_nonce random;
    fill_random(network_, random);
    return random;
  }

  typename T::listener open_door(const endpoint& where) {
    if constexpr (requires { network_.adopt(0, where); }) {
      if (options_.listening) return network_.adopt(options_.listening->release(), where);
      if (options_.bind) {
        const endpoint& bound = *options_.bind;
        auto door = network_.listen(where, {bound.host, bound.port ? bound.port : where.port});
        return door;
      }
    }
    return network_.listen(where);
  }

  /// Strangers leave most of what a process may open to those who belong here.
  static std::size_t few_of_the_descriptors() {
    rlimit limit;
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
      return std::numeric_limits<std::size_t>::max();
    return std::max<std::size_t>(static_cast<std::size_t>(limit.rlim_cur) / 16, 2);
  }

  detail::introduction introduction_to(std::size_t rank, const std::string& channel, std::uint64_t waits_us) const {
    const std::uint64_t known = members_.incarnation(rank);
    return {distributed_version,
            cluster_.hash(),
            to_string(cluster_),
            self_,
            members_.task(rank),
            incarnation_,
            members_.is_given_up(rank, known) ? known : 0,
            waits_us,
            channel,
            authenticates(rank)};
  }

  /// Whether frames to and from this task have tags.
  bool authenticates(std::size_t rank) const {
    if constexpr (requires(typename T::stream & stream) { stream.authentication(); })
      return !options_.tls && (options_.authenticate || !is_on_this_host(rank));
    else
      return false;
  }

  /// Whether that task has answered: it knows the secret, and its certificate, where it has shown one, names it.
  bool is_task(std::size_t rank, handshake_type& talk) const {
    const std::string name = to_string(members_.task(rank));
    return talk.proves(name) && is_certified(talk.stream(), name);
  }

  static bool is_certified(const typename T::stream& stream, const std::string& name) {
    if constexpr (speaks_tls)
      return stream.certifies(name);
    else
      return true;
  }

  /// Somebody else answers in a task's place: a task of the same secret, which its proof tells, or a stranger.
  error stranger_at(std::size_t rank, handshake_type& talk) const {
    const task_id& peer = members_.task(rank);
    const std::string operation = str_cat({"connect to ", to_string(peer)});
    const std::string where = to_string(cluster_.task_address(peer.job, peer.index));
    if constexpr (speaks_tls)
      if (!is_certified(talk.stream(), to_string(peer)))
        return error(error_code::permission_denied, operation,
                     {"the process that listens at ", where, " shows a certificate of ",
                      talk.stream().certified_names(), "; that of ", to_string(peer), " names weft:", to_string(peer),
                      " in its subjectAltName"});
    for (std::size_t other = 0; other < members_.size(); ++other)
      if (talk.proves(to_string(members_.task(other))))
        return error(error_code::failed_precondition, operation,
                     {to_string(members_.task(other)), " listens at ", where,
                      "; give every task the same addresses, and each its own index"});
    return error(
        error_code::unauthenticated, operation,
        {"the process that listens at ", where, " does not know this task's secret (", secret_.origin(),
         "): it is another user's, or of another cluster; start all tasks as one user, or give them one secret"});
  }

  template <typename Fits>
  bool take(channel& to, Fits fits) {
    for (auto each = inbox_.begin(); each != inbox_.end(); ++each) {
      if (!fits(*each) || !members_.alive(each->rank, each->incarnation)) continue;
      to = {each->rank, each->incarnation, std::move(each->stream), each->number};
      inbox_.erase(each);
      inbox_size_ = inbox_.size();
      return true;
    }
    return false;
  }

  // ---- the server's own thread: doors, handshakes, heartbeats ----

  void run() {
    own_thread_ = std::this_thread::get_id();
    due_ = next_beat_ = Clock::now();
    while (!stopping()) {
      try {
        poll_once();
      } catch (const std::exception&) {
        // There was no memory for it, most likely: what this turn left undone the next one does.
        detail::sleep<Clock>(std::chrono::milliseconds(20));
      }
    }
    farewell();
  }

  void poll_once() {
    const moment now = Clock::now();
    // If this thread itself was held up (the process was stopped, the machine asleep), the silence was ours.
    held_up_ = std::max(now - due_, Clock::duration::zero());
    if (held_up_ > heartbeat_timeout_ / 2)
      for (control_link& link : links_) link.last_heard += held_up_;
    // Those who are known come before those who are not.
    for (control_link& link : links_) listen_to(link, now);
    if (now >= next_beat_) {
      for (control_link& link : links_) send_heartbeat(link);
      next_beat_ = now + heartbeat_interval_;
    }
    links_.remove_if([](const control_link& link) { return link.closed; });
    dial_peers(now);
    calls_.remove_if([&](call& each) { return !go_on(each, now); });
    arrivals_.remove_if([&](arrival& each) { return !go_on(each, now); });
    accept_connections(now);
    forget_channels(now);
    moment next = std::min({next_beat_, next_dial_, now + std::chrono::milliseconds(250)});
    if (open_again_ > now) next = std::min(next, open_again_);
    due_ = std::max(next, now);
    sleep(next - now);
  }

  void sleep(typename Clock::duration time) {
    items_.clear();
    items_.push_back({&doorbell_, true, false});
    // Left out while nobody can be let in: who knocks would end every wait at once.
    if (Clock::now() >= open_again_) items_.push_back({&listener_, true, false});
    for (arrival& each : arrivals_) items_.push_back({&each.talk.stream(), true, each.talk.is_sending()});
    for (call& each : calls_) items_.push_back({&each.talk.stream(), true, each.talk.is_sending()});
    for (const control_link& link : links_) items_.push_back({&link.stream, true, !link.out.idle()});
    network_.wait(items_,
                  std::chrono::duration_cast<std::chrono::nanoseconds>(std::max(time, Clock::duration::zero())));
    doorbell_.clear();
  }

  void accept_connections(moment now) {
    if (now < open_again_) return;
    try {
      typename T::stream stream;
      for (int accepted = 0; accepted < max_accepted; ++accepted) {
        // Whoever has had its time, and belongs here, is in by then; the others make room for who comes.
        if (arrivals_.size() >= max_strangers_ && now < arrivals_.front().since + shortest_stay) {
          open_again_ = arrivals_.front().since + shortest_stay;
          return;
        }
        if (!listener_.accept(stream)) return;
        if (arrivals_.size() >= max_strangers_) arrivals_.pop_front();
        arrivals_.emplace_back(std::move(stream), *this, ++connections_, now);
      }
    } catch (const error& problem) {
      open_again_ = now + std::chrono::milliseconds(100);  // too many open files: some may be closed by then
      for (std::size_t rank = rank_ + 1; rank < members_.size(); ++rank) members_.set_note(rank, problem.what());
    }
  }

  // ---- those who come ----

  /// Returns whether there is more to do for it.
  bool go_on(arrival& each, moment now) {
    using phase = typename handshake_type::phase;
    try {
      each.talk.advance();
      if (each.talk.at() == phase::introduced) judge(each);
      if (each.talk.at() == phase::over && each.welcome) let_in(each, now);
      return each.talk.at() != phase::over && now < each.until;
    } catch (const error& problem) {
      return turn_away(each, problem, now);
    } catch (const std::exception&) {
      return false;  // no memory for it
    }
  }

  /// A stranger, or a task of another version, is told no more than that: what it does not know of this task it is not
  /// to learn. Others are gone, or speak no language of this one. Returns whether there is more to do for it.
  bool turn_away(arrival& each, const error& problem, moment now) {
    const error_code code = problem.code();
    if (options_.tls && code != error_code::unavailable)
      members_.set_note(str_cat({"a task that came was rejected: ", problem.sentence()}));
    else if (code == error_code::unauthenticated)
      members_.set_note(str_cat({"a task with another secret than ", secret_.origin(), " was rejected"}));
    else if (code == error_code::failed_precondition)
      members_.set_note(str_cat({"a task that came was rejected: ", problem.sentence()}));
    if (code != error_code::unauthenticated && code != error_code::failed_precondition) return false;
    try {
      each.talk.turn_away(code);
      each.until = std::min(each.until, now + std::chrono::milliseconds(250));  // it reads that, and goes
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  void judge(arrival& each) {
    const detail::introduction& its = *each.talk.other();
    if constexpr (speaks_tls)
      if (!is_certified(each.talk.stream(), to_string(its.from))) {
        const std::string why = str_cat({"a task that says it is ", to_string(its.from), " shows a certificate of ",
                                         each.talk.stream().certified_names()});
        members_.set_note(why);
        return each.talk.refuse(error(error_code::permission_denied, "handshake",
                                      {why, "; start every task with its own index and its own certificate"}));
      }
    if (const std::optional<error> problem = objection(its)) return each.talk.refuse(*problem);
    each.talk.welcome(introduction_to(cluster_.rank(its.from), its.channel, 0));
    each.welcome = true;
  }

  void let_in(arrival& each, moment now) {
    const detail::introduction& its = *each.talk.other();
    const std::size_t rank = cluster_.rank(its.from);
    if (its.channel.empty()) {
      // It has given up in the middle of any other.
      links_.remove_if([&](const control_link& other) { return other.rank == rank && !other.met; });
      links_.emplace_back(rank, its.incarnation, std::move(each.talk.stream()), now);
      return;
    }
    {
      std::lock_guard lock(inbox_mutex_);
      // One that its peer has given up may be heard of after the next that it has opened.
      const auto of_same = [&](const waiting_channel& old) { return old.rank == rank && old.name == its.channel; };
      if (std::any_of(inbox_.begin(), inbox_.end(), [&](const waiting_channel& other) {
            return of_same(other) && other.incarnation == its.incarnation && other.number > each.number;
          }))
        return;
      inbox_.remove_if(of_same);
      constexpr std::uint64_t longest = 600'000'000;  // ten minutes
      const std::chrono::microseconds waits(
          static_cast<std::int64_t>(its.waits_us == 0 ? longest : std::min(its.waits_us, longest)));
      inbox_.push_back({rank, its.incarnation, its.channel,
                        now + std::chrono::duration_cast<typename Clock::duration>(waits),
                        std::move(each.talk.stream()), each.number});
      inbox_size_ = inbox_.size();
    }
    inbox_changed_.notify_all();
    service_bell_.notify();
  }

  /// Why the peer that says this cannot be let in, if it cannot. It knows the secret.
  std::optional<error> objection(const detail::introduction& its) {
    const std::string who = to_string(its.from);
    const auto refuse = [](error_code code, std::initializer_list<piece> why) { return error(code, "handshake", why); };
    if (its.library_version != distributed_version)
      return refuse(error_code::failed_precondition, {who, " runs Weft ", its.library_version, ", ", name(), " runs ",
                                                      distributed_version, "; run the same build on every task"});
    if (its.cluster_hash != cluster_.hash()) {
      if (const auto rank = find(its.from))
        members_.set_note(*rank, str_cat({"it came with another cluster, '", its.cluster, "'"}));
      return refuse(error_code::failed_precondition,
                    {who, " and ", name(), " were given different clusters: '", its.cluster, "' and '",
                     to_string(cluster_), "'; give every task the same addresses"});
    }
    if (!(its.to == self_))
      return refuse(error_code::failed_precondition,
                    {who, " looked for ", to_string(its.to), " at ", to_string(address_), ", and ", name(),
                     " listens there; give every task the same addresses"});
    const auto rank = find(its.from);
    if (!rank || *rank == rank_)
      return refuse(error_code::failed_precondition, {who, " is ",
                                                      rank ? "this task itself; start every task with its own index"
                                                           : "not in the cluster; give every task the same addresses"});
    if (its.given_up == incarnation_)  // this task learns it on the connection that the two had
      return refuse(error_code::aborted, {name(), " is given up by ", who});
    if (members_.state(*rank) == task_state::alive && members_.incarnation(*rank) != its.incarnation)
      return refuse(error_code::unavailable,
                    {"another process is ", who, " already; stop it, or give this one its own index"});
    if (members_.is_given_up(*rank, its.incarnation))
      return refuse(error_code::aborted,
                    {who, " was given up (it ", members_.reason(*rank, its.incarnation), "); start it again"});
    if (!its.channel.empty()) {
      std::lock_guard lock(inbox_mutex_);
      const auto waiting = std::count_if(inbox_.begin(), inbox_.end(), [&](const waiting_channel& each) {
        return each.rank == *rank && each.name != its.channel;
      });
      if (static_cast<std::size_t>(waiting) >= options_.max_channels)
        return refuse(error_code::resource_exhausted,
                      {who, " has ", waiting, " channels that nobody has accepted; at most ", options_.max_channels,
                       " may wait (server_options::max_channels)"});
    }
    return {};
  }

  /// Channels whose opener waits no longer, or is another one by now.
  void forget_channels(moment now) {
    if (inbox_size_.load(std::memory_order_relaxed) == 0) return;
    std::lock_guard lock(inbox_mutex_);
    inbox_.remove_if([&](const waiting_channel& each) {
      const task_state state = members_.state(each.rank);
      const bool same = members_.incarnation(each.rank) == each.incarnation;
      return now >= each.until ||
             (same ? state == task_state::left || state == task_state::lost : state == task_state::alive);
    });
    inbox_size_ = inbox_.size();
  }

  // ---- those whom this side dials ----

  bool should_dial(std::size_t rank) const {
    return rank < rank_ && members_.state(rank) != task_state::alive &&
           std::none_of(calls_.begin(), calls_.end(), [&](const call& each) { return each.rank == rank; });
  }

  void dial_peers(moment now) {
    next_dial_ = moment::max();
    for (std::size_t i = 0; i < rank_; ++i) {
      const std::size_t rank = (dial_from_ + i) % rank_;
      if (!should_dial(rank)) continue;
      // Hosts that do not answer take their time: the rest in the next turn, so that the others hear from this task.
      if (Clock::now() - now > 4 * longest_dial) {
        dial_from_ = rank;
        next_dial_ = now;
        break;
      }
      if (now >= redial_[rank]) {
        const bool missing = members_.state(rank) == task_state::awaited;
        redial_[rank] = now + std::chrono::milliseconds(missing ? 20 : 250);
        dial(rank, now);
      }
      next_dial_ = std::min(next_dial_, redial_[rank]);
    }
  }

  void dial(std::size_t rank, moment now) {
    try {
      const task_id& peer = members_.task(rank);
      calls_.emplace_back(rank, network_.connect(cluster_.task_address(peer.job, peer.index), longest_dial), *this,
                          now + options_.handshake_timeout);
    } catch (const error& problem) {
      // Not there yet, or no more, whatever it has answered before: tried again. What else may be the reason is told to
      // who waits.
      const bool absent = problem.code() == error_code::unavailable && problem.operation() != "lookup";
      members_.set_note(rank, absent ? "" : problem.what());
    }
  }

  bool go_on(call& each, moment now) {
    using phase = typename handshake_type::phase;
    try {
      each.talk.advance();
      if (each.talk.at() == phase::challenged) {
        if (!is_task(each.rank, each.talk)) {
          const error why = stranger_at(each.rank, each.talk);
          members_.refuse(each.rank, why);
          each.talk.turn_away(why.code() == error_code::permission_denied ? why.code() : error_code::unauthenticated);
          return false;
        }
        each.talk.introduce(introduction_to(each.rank, "", 0));
        each.talk.advance();
      }
      if (each.talk.at() == phase::over) {
        judge_answer(each, now);
        return false;
      }
    } catch (const error& problem) {
      // Who is gone is dialled again. A task of another version is never the right one; what it says is no proof.
      const std::string operation = str_cat({"connect to ", to_string(members_.task(each.rank))});
      if (problem.code() == error_code::failed_precondition || problem.code() == error_code::unauthenticated)
        members_.refuse(each.rank, error(problem.code(), operation, problem.sentence()));
      else if (problem.code() != error_code::unavailable)
        members_.set_note(each.rank, problem.sentence());
      return false;
    } catch (const std::exception&) {
      return false;  // no memory for it: dialled again
    }
    if (now < each.until) return true;
    members_.set_note(each.rank, "it accepts a connection and does not answer");
    return false;
  }

  void judge_answer(call& each, moment now) {
    const std::string operation = str_cat({"connect to ", to_string(members_.task(each.rank))});
    if (const std::optional<error>& why = each.talk.refusal()) {
      const bool passing = why->code() == error_code::unavailable || why->code() == error_code::aborted;
      if (passing)
        members_.set_note(each.rank, why->sentence());  // tried again
      else
        members_.refuse(each.rank, error(why->code(), operation, why->sentence()));
      return;
    }
    const detail::introduction& its = *each.talk.other();
    if (members_.is_given_up(each.rank, its.incarnation)) return;
    control_link& link = links_.emplace_back(each.rank, its.incarnation, std::move(each.talk.stream()), now);
    send_heartbeat(link);  // first: whoever is told that the two have met may end this task at once
    meet(link);
  }

  // ---- control connections ----

  /// From here on the two know of each other.
  void meet(control_link& link) {
    link.met = true;
    for (control_link& other : links_)
      if (&other != &link && other.rank == link.rank) other.closed = true;
    members_.set_alive(link.rank, link.incarnation);
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      const task_state state = members_.state(rank);
      if (state == task_state::lost || state == task_state::left) link.untold.push_back(rank);
    }
    after_change();
  }

  void listen_to(control_link& link, moment now) {
    if (link.closed) return;
    send_on(link);
    try {
      for (int heard = 0; heard < max_heard;) {
        link.in.advance(link.stream);
        if (link.in.needs_destination()) {
          link.message.resize(static_cast<std::size_t>(link.in.header().payload_length));
          link.in.payload_to(mutable_bytes(link.message));
          continue;
        }
        if (!link.in.complete()) break;
        link.last_heard = now;
        ++heard;
        if (!link.met) meet(link);
        if (!act_on(link)) return;
        link.message.clear();
        link.in.expect(detail::max_control_bytes);
      }
    } catch (const error& problem) {
      return mark_lost(link, problem.code() == error_code::unavailable
                                 ? "has closed its connection without a goodbye: the process ended or was killed"
                                 : str_cat({"broke the protocol: ", problem.what()}));
    }
    if (now - link.last_heard > heartbeat_timeout_)
      mark_lost(link, str_cat({"has given no sign of life for ", milliseconds(now - link.last_heard),
                               ": it is stopped, overloaded or cut off"}));
  }

  /// On a frame of a peer. Returns whether the connection goes on.
  bool act_on(control_link& link) {
    switch (link.in.header().kind) {
      case frame_kind::heartbeat:
        if (!link.message.empty()) detail::message_reader::malformed();
        return true;
      case frame_kind::notice:
        hear_of(detail::notice::read(link.message), link.rank);
        return true;
      case frame_kind::refuse:
        // In words that others may repeat.
        mark_lost(link, str_cat({"has given up ", name(), ", which ",
                                 detail::read_error(link.message, "control").sentence()}));
        return false;
      case frame_kind::goodbye: {
        link.closed = true;
        const std::string why = link.message.empty() ? "" : detail::read_error(link.message, "").sentence();
        members_.set_left(link.rank, why);
        tell_others(link.rank);
        after_change();
        return false;
      }
      default:
        throw error(error_code::invalid_argument, "control", "the peer has sent a frame of the wrong kind");
    }
  }

  /// Another task knows what became of a third one.
  void hear_of(const detail::notice& said, std::size_t from) {
    const auto rank = find(said.about);
    if (!rank || *rank == rank_) return;
    const std::string seen = str_cat({", as ", to_string(members_.task(from)), " has seen"});
    const bool from_another = said.why.ends_with(" has seen");  // it has only heard of it, too
    const std::string why = str_cat({said.why, from_another ? "" : seen});
    if (!members_.hear(*rank, said.incarnation, said.left ? task_state::left : task_state::lost, why)) return;
    after_change();
    if (!said.left && options_.on_lost)
      options_.on_lost(error(error_code::unavailable, name(), {to_string(said.about), " ", why}));
  }

  void tell_others(std::size_t rank) {
    for (control_link& link : links_) {
      if (link.closed || link.rank == rank) continue;
      if (std::find(link.untold.begin(), link.untold.end(), rank) == link.untold.end()) link.untold.push_back(rank);
      send_on(link);
    }
  }

  static std::string milliseconds(typename Clock::duration time) {
    return str_cat({std::chrono::duration_cast<std::chrono::milliseconds>(time).count(), " ms"});
  }

  void send_heartbeat(control_link& link) {
    if (link.closed || !link.out.idle()) return;  // the last one has not left yet: the peer does not read
    frame_header header;
    header.kind = frame_kind::heartbeat;
    link.out.start(header);
    send_on(link);
  }

  void send_on(control_link& link) {
    try {
      link.out.advance(link.stream);
      while (link.out.idle() && link.met && !link.untold.empty()) {
        const std::size_t rank = link.untold.front();
        link.untold.pop_front();
        const task_state state = members_.state(rank);
        if (state != task_state::lost && state != task_state::left) continue;  // it is back
        link.sent = detail::notice{members_.task(rank), members_.incarnation(rank), state == task_state::left,
                                   members_.reason(rank)}
                        .bytes();
        frame_header header;
        header.kind = frame_kind::notice;
        link.out.start(header, const_bytes(link.sent));
        link.out.advance(link.stream);
      }
    } catch (const error&) {
      // A peer that is gone may have said goodbye first: what can still be read tells.
    }
  }

  void mark_lost(control_link& link, std::string why) {
    link.closed = true;
    tell_why(link, why);
    if (!link.met) return;  // it has not come yet, and may try again
    link.stream.close();
    if (held_up_ > heartbeat_timeout_)
      append(why, {" (", name(), " itself was held up for ", milliseconds(held_up_), ")"});
    const std::string sentence = members_.set_lost(link.rank, why);
    tell_others(link.rank);
    after_change();
    if (options_.on_lost) options_.on_lost(error(error_code::unavailable, name(), sentence));
  }

  /// A peer that was only silent for too long goes on some time, and is to know why it is alone then.
  void tell_why(control_link& link, const std::string& why) {
    try {
      link.untold.clear();
      send_on(link);
      if (!link.out.idle()) return;
      link.sent = detail::error_bytes(error_code::aborted, why);
      frame_header header;
      header.kind = frame_kind::refuse;
      link.out.start(header, const_bytes(link.sent));
      link.out.advance(link.stream);
    } catch (const error&) {
      // it is gone
    }
  }

  void after_change() {
    inbox_changed_.notify_all();
    service_bell_.notify();
  }

  void farewell() {
    listener_.close();
    std::string failure;
    {
      std::lock_guard lock(failure_mutex_);
      failure = failure_;
    }
    const std::vector<std::byte> why =
        failure.empty() ? std::vector<std::byte>{} : detail::error_bytes(error_code::aborted, failure);
    frame_header header;
    header.kind = frame_kind::goodbye;
    const deadline_type until = std::chrono::milliseconds(200);
    const auto send = [&](control_link& link) {
      try {
        do {
          if (link.out.advance(link.stream) == 0 && !link.out.idle())
            detail::sleep<Clock>(std::chrono::milliseconds(1));
        } while (!link.out.idle() && !until.expired());
      } catch (const error&) {
        // it is gone already
      }
    };
    for (control_link& link : links_) {
      if (link.closed) continue;
      send(link);  // what it is in the middle of
      if (!link.out.idle()) continue;
      link.out.start(header, const_bytes(why));
      send(link);
    }
    links_.clear();
    calls_.clear();
    arrivals_.clear();
    std::lock_guard lock(inbox_mutex_);
    inbox_.clear();
  }

  std::optional<std::size_t> find(const task_id& task) const {
    if (!cluster_.has_task(task)) return {};
    return cluster_.rank(task);
  }

  mutable T network_;
  cluster_spec cluster_;
  task_id self_;
  server_options options_;
  cluster_secret secret_;
  std::uint64_t incarnation_;
  std::size_t rank_;
  membership members_;
  std::chrono::milliseconds heartbeat_interval_, heartbeat_timeout_;
  std::size_t max_strangers_;
  wait_policy waiting_;
  typename T::listener listener_;
  endpoint address_;
  typename T::signal doorbell_, service_bell_;

  std::mutex inbox_mutex_;
  std::condition_variable inbox_changed_;
  std::list<waiting_channel> inbox_;
  std::atomic<std::size_t> inbox_size_{0};

  std::mutex failure_mutex_;
  std::string failure_;

  // used by the server's own thread only; connections that are under way do not move
  std::list<arrival> arrivals_;
  std::list<call> calls_;
  std::list<control_link> links_;
  std::uint64_t connections_ = 0;  // that have come
  std::size_t dial_from_ = 0;
  std::vector<moment> redial_;
  moment due_{}, next_beat_{}, next_dial_{}, open_again_{};  // due_: the next turn
  typename Clock::duration held_up_{};                       // how late the last turn was
  std::vector<typename T::wait_item> items_;

  std::atomic<bool> stopping_{false};
  std::mutex stop_mutex_;
  std::atomic<std::thread::id> own_thread_{};
  std::thread thread_;
};

using server = basic_server<>;

}  // namespace weft
