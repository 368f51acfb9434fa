#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/distributed/cluster/handshake.hpp>
#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/cluster/secret.hpp>
#include <weft/distributed/membership/task_identity.hpp>
#include <weft/distributed/remote/client_runs.hpp>
#include <weft/distributed/remote/receiving_loop.hpp>
#include <weft/distributed/remote/remote_channels.hpp>
#include <weft/distributed/remote/remote_tasks.hpp>
#include <weft/distributed/remote/step_messages.hpp>
#include <weft/error.hpp>
#include <weft/session/session.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/framing.hpp>
#include <weft/transport/random_bytes.hpp>
#include <weft/transport/separate.hpp>
#include <weft/transport/tcp.hpp>
#include <weft/transport/tls.hpp>
#include <weft/transport/waiter.hpp>

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

/// A process that is no task of a cluster and asks its tasks for steps. It records the graph that the tasks have
/// recorded, learns of all tasks from the one that it is given, and exchanges values with each task directly. If it
/// ends, only its own run ends.
///
///     graph_client cluster("weft://10.0.0.1:2222", {.secret = cluster_secret::from_file("secret")});
///     session s(g, {.target = cluster.target()});
///
/// A session makes one with the usual options by itself: `session s(g, {.target = "weft://10.0.0.1:2222"})`. Nodes that
/// name no task run in the task of the address. A client outlives its sessions.
class graph_client {
  using handshake_type = detail::handshake;

 public:
  /// Throws weft::error: invalid_argument for another address than weft://host:port, deadline_exceeded if no task
  /// answers there in answer_timeout, unauthenticated if it has another secret, failed_precondition if it refuses.
  explicit graph_client(std::string_view address, graph_client_options options = {},
                        any_transport network = detail::over_tcp());
  ~graph_client();
  graph_client(const graph_client&) = delete;
  graph_client& operator=(const graph_client&) = delete;

  const cluster_spec& cluster() const { return cluster_; }
  const graph_client_options& options() const { return options_; }

  /// For session_options::target.
  session_target target();

  /// What `.target = "weft://host:port"` makes: a client for one session.
  static plan::task_support* connect(const std::string& address, const graph& g);

 private:
  friend class detail::remote_tasks<graph_client>;

  using stream = any_transport::stream;

  struct link {
    detail::task_mutex mutex;  // of what is sent, and of connecting
    std::optional<stream> asks;
    std::uint64_t connections = 0;  // made until now
    std::atomic<std::uint64_t> incarnation{0};
    std::atomic<std::uint64_t> open{0};        // the number of the connection; 0: it is lost
    std::atomic<std::uint32_t> unanswered{0};  // heartbeats sent since bytes arrived
    std::atomic<bool> is_sending{false};
    std::chrono::milliseconds stall{30'000};  // the task must read within this time
  };
  struct incoming {
    std::size_t task;
    std::uint64_t connection;
    any_transport::stream stream;
    detail::frame_receiver in;
    std::chrono::milliseconds patience;
    deadline silence{detail::client_silence};  // `patience` after the first bytes
  };
  /// A connection, and what the task that answered said of itself.
  struct opened {
    stream to;
    detail::introduction of;
  };

  // ---- for remote_tasks ----

  detail::client_runs& runs() { return runs_; }
  void fill_random(std::span<std::byte> bytes) { weft::fill_random(network_, bytes); }
  std::chrono::milliseconds answer_timeout() const { return options_.answer_timeout; }
  std::size_t tasks() const { return names_.size(); }
  std::string table_name(std::size_t task) const { return to_string(names_[task]); }
  detail::peer_process self_as_client() const { return {tasks(), incarnation_}; }
  void await_tasks(deadline until) {
    for (std::size_t t = 0; t < tasks(); ++t) {
      const std::lock_guard lock(links_[t]->mutex);
      if (links_[t]->open == 0) open(t, until);
    }
  }
  /// The incarnation of the task's present process. Connects to a process that has come in the place of another.
  std::uint64_t process_of(std::size_t task) {
    link& to = *links_[task];
    if (to.open == 0) try {
        const std::lock_guard lock(to.mutex);
        if (to.open == 0) open(task, deadline(std::chrono::milliseconds(0)));
      } catch (const error& problem) {
        if (problem.code() != error_code::unavailable && problem.code() != error_code::deadline_exceeded) throw;
      }
    return to.incarnation;
  }
  bool is_there(std::size_t task, std::uint64_t incarnation) const {
    return links_[task]->open != 0 && links_[task]->incarnation == incarnation;
  }
  template <typename Done>
  bool receive_until(std::chrono::nanoseconds time, Done done) {
    return loop_.receive_until(detail::urgency::step, time, done);
  }
  void check_there(std::size_t task, std::uint64_t incarnation) const {
    if (!is_there(task, incarnation))
      throw error(error_code::unavailable, "step",
                  {table_name(task),
                   " has closed its connection or does not answer: its process has ended, or this client "
                   "was silent for too long"});
  }
  /// A connection that ends is lost, which check_there() notices.
  void check_connection(std::size_t, std::uint64_t, deadline::time_point) const {}
  void send_to_task(std::size_t task, std::uint64_t incarnation, const frame_header& header, const_bytes payload,
                    deadline until) {
    link& to = *links_[task];
    const std::lock_guard lock(to.mutex);
    check_there(task, incarnation);
    const struct sending {
      std::atomic<bool>& flag;
      explicit sending(std::atomic<bool>& f) : flag(f) { flag = true; }
      ~sending() { flag = false; }
    } now(to.is_sending);
    try {
      detail::send_frame(idle(), *to.asks, header, payload, options_.checksum, until, to.stall,
                         [&] { check_there(task, incarnation); });
    } catch (const error& problem) {
      to.open = 0;  // in the middle of a frame
      if (problem.code() != error_code::unavailable) throw;
      check_there(task, incarnation);
    }
  }

  // ---- connections ----

  waiter idle() const { return {network_, wait_policy::for_tasks(2)}; }

  static graph_client_options with_tls(graph_client_options options, const any_transport& network) {
    if (!options.tls && network.can_encrypt()) options.tls = tls_credentials::from_environment();
    return options;
  }
  cluster_secret usual_secret() const {
    if (options_.secret) return *options_.secret;
    if (!options_.tls) return detail::usual_secret(network_);
    if (auto given = cluster_secret::from_environment()) return *given;
    return cluster_secret("tasks that have certificates");
  }
  static endpoint parse(std::string_view address) {
    constexpr std::string_view scheme = "weft://";
    if (!address.starts_with(scheme))
      throw error(error_code::invalid_argument, "session",
                  {"the target '", printable(std::string(address), 256),
                   "' is not weft://host:port: name the address of one task of the cluster"});
    return parse_endpoint(address.substr(scheme.size()));
  }

  /// `task`: who is expected there; null: whoever listens.
  opened dial(const endpoint& where, const task_id* task, const char* channel, deadline until) {
    const std::string operation = str_cat({"connect to ", task ? to_string(*task) : to_string(where)});
    for (;;) try {
        return dial_once(where, task, channel, until, operation);
      } catch (const error& problem) {
        // Nobody listens there yet, or strangers crowd the door.
        if (problem.code() != error_code::unavailable) throw;
        if (until.expired())
          throw error(error_code::deadline_exceeded, operation,
                      {problem.sentence(), task ? ""
                                                : "; name the address of a task that is running, or raise "
                                                  "graph_client_options::answer_timeout"});
        detail::sleep(std::chrono::milliseconds(20));
      }
  }
  opened dial_once(const endpoint& where, const task_id* task, const char* channel, deadline until,
                   const std::string& operation) {
    const auto fail = [&](error_code code, std::initializer_list<piece> why) -> void {
      throw error(code, operation, why);
    };
    if (!has_openssl && detail::authenticates(network_, options_, is_loopback(where.host)))
      fail(error_code::failed_precondition, {"the task is on another host, and what travels there is authenticated by "
                                             "OpenSSL, without which this program was built; ",
                                             build_with_openssl});
    detail::handshake_nonce nonce;
    fill_random(nonce);
    stream fresh = network_.connect(where);
    handshake_type talk = task ? handshake_type::dialling(std::move(fresh), secret_.proof(), nonce)
                               : handshake_type::dialling_anyone(std::move(fresh), secret_.proof(), nonce);
    // An attempt has some time of its own, so that a task which is there answers whatever is left.
    const deadline ends(
        std::max<deadline::duration>(until.remaining(options_.answer_timeout), std::chrono::milliseconds(500)));
    waiter waits = idle();
    for (;;) {
      std::size_t moved = talk.advance();
      if (talk.at() == handshake_type::phase::challenged) {
        if (!talk.knows_secret())
          fail(error_code::unauthenticated,
               {"the process that listens at ", to_string(where), " is of another secret than this client's (",
                secret_.origin(), "): give both the same secret"});
        if (!talk.proves(task ? to_string(*task) : std::string()))
          fail(error_code::failed_precondition, {"the process that listens at ", to_string(where), " is not ",
                                                 to_string(*task), "; give every task the same addresses"});
        talk.introduce({distributed_version,
                        task ? cluster_.hash() : 0,
                        {},
                        {},
                        task ? *task : task_id{},
                        incarnation_,
                        0,
                        until.remaining_us(),
                        channel,
                        detail::authenticates(network_, options_, talk.stream().stays_on_host())});
        moved = 1;
      }
      if (talk.at() == handshake_type::phase::over) break;
      if (ends.expired()) {
        // A process that listens has time to start, but one that has been reached has started.
        const bool is_reached = !talk.is_sending();
        fail(is_reached ? error_code::deadline_exceeded : error_code::unavailable,
             {"the process that listens at ", to_string(where), " has not answered the handshake within ",
              options_.answer_timeout.count(),
              " ms: it is paused or overloaded (graph_client_options::answer_timeout)"});
      }
      if (moved > 0) {
        waits.moved();
        continue;
      }
      any_transport::wait_item item{&talk.stream(), true, talk.is_sending()};
      waits.pause({&item, 1}, ends);
    }
    if (const std::optional<error>& why = talk.refusal()) throw error(why->code(), operation, why->sentence());
    if (!talk.stream().certifies(to_string(talk.other()->from)))
      fail(error_code::permission_denied, {"the task there shows a certificate of ", talk.stream().certified_names()});
    return {std::move(talk.stream()), *talk.other()};
  }

  /// Opens both connections to a task, whose link is locked.
  void open(std::size_t task, deadline until) {
    const endpoint& where = cluster_.task_address(names_[task].job, names_[task].index);
    links_[task]->asks.reset();  // the task must not take it for the new one
    opened hears = dial(where, &names_[task], detail::client_hears, until);
    opened asks = dial(where, &names_[task], detail::client_asks, until);
    adopt(task, std::move(hears), std::move(asks));
  }
  void adopt(std::size_t task, opened hears, opened asks) {
    if (hears.of.incarnation != asks.of.incarnation)
      throw error(error_code::unavailable, "connect", {to_string(asks.of.from), " was started again just now"});
    link& to = *links_[task];
    const bool is_near = is_loopback(cluster_.task_address(names_[task].job, names_[task].index).host);
    if (is_near) to.stall = std::chrono::seconds(5);
    to.asks = std::move(asks.to);
    to.incarnation = asks.of.incarnation;
    to.unanswered = 0;
    to.open = ++to.connections;
    const std::lock_guard lock(mutex_);
    fresh_.push_back(std::unique_ptr<incoming>(
        new incoming{task, to.connections, std::move(hears.to), detail::frame_receiver(options_.max_value_bytes),
                     is_near ? detail::task_silence_on_host : detail::client_silence}));
    bell_.notify();
  }

  /// Learns of the cluster from the task that listens at an address.
  void learn(const endpoint& where, deadline until) {
    network_.check(where);
    opened hears = dial(where, nullptr, detail::client_hears, until);
    opened asks = dial(where, nullptr, detail::client_asks, until);
    frame_header header;
    header.kind = frame_kind::list_devices;
    detail::send_frame(idle(), asks.to, header, {}, true, until, std::chrono::seconds(30), [] {});
    const detail::task_message said = await_message(hears, until);
    if (said.jobs.size() != said.addresses.size() || said.jobs.empty()) detail::message_reader::malformed();
    for (std::size_t j = 0; j < said.jobs.size(); ++j) cluster_.add_job(said.jobs[j], said.addresses[j]);
    if (cluster_.hash() != asks.of.cluster_hash || !cluster_.has_task(asks.of.from))
      detail::message_reader::malformed();
    names_ = cluster_.tasks();
    for (std::size_t t = 0; t < names_.size(); ++t) links_.push_back(std::make_unique<link>());
    home_ = static_cast<std::uint32_t>(cluster_.rank(asks.of.from));
    adopt(home_, std::move(hears), std::move(asks));
  }
  detail::task_message await_message(opened& from, deadline until) {
    frame_reader in;
    std::vector<std::byte> payload;
    in.expect(detail::max_step_message_bytes);
    waiter waits = idle();
    for (;;) {
      const std::size_t moved = in.advance(from.to, payload);
      if (in.complete()) return detail::task_message::read(payload);
      if (until.expired())
        throw error(error_code::deadline_exceeded, "connect",
                    {to_string(from.of.from), " has not made a graph_service, which serves clients, within ",
                     options_.answer_timeout.count(), " ms (graph_client_options::answer_timeout)"});
      if (moved > 0) {
        waits.moved();
        continue;
      }
      any_transport::wait_item item{&from.to, true, false};
      waits.pause({&item, 1}, until);
    }
  }

  // ---- what tasks answer ----

  void receive() {
    deadline heartbeat(detail::client_heartbeat);
    while (!stopping_) {
      if (heartbeat.expired()) {
        heartbeat = deadline(detail::client_heartbeat);
        send_heartbeats();
      }
      try {
        loop_.receive_when_idle(heartbeat);
      } catch (const std::exception&) {  // no memory
        detail::sleep(std::chrono::milliseconds(10));
      }
    }
  }

  // ---- for receiving_loop ----

  friend detail::receiving_loop<graph_client, incoming>;

  bool stopping() const { return stopping_; }
  void take_new() {
    const std::lock_guard lock(mutex_);
    for (auto& each : fresh_) loop_.add(std::move(each));
    fresh_.clear();
  }

  bool advance(incoming& from) {
    link& to = *links_[from.task];
    const std::uint64_t open = to.open;
    if (open != from.connection && open != 0) throw error(error_code::unavailable, "receive", "the connection is lost");
    const std::size_t total = from.in.advance(
        from.stream, [&](const frame_header& header) { return runs_.open(header); },
        [&](const frame_header& header, const_bytes payload) { handle(from, header, payload); });
    // While a value is sent, the task receives no heartbeats that it could answer.
    if (total > 0 || to.is_sending) {
      from.silence = deadline(from.patience);
      to.unanswered = 0;
    }
    // If this process was stopped, time has passed in which it sent no heartbeats.
    if (from.silence.expired() && (open == 0 || to.unanswered >= from.patience / detail::client_heartbeat))
      throw error(error_code::unavailable, "receive", "the task does not answer");
    return total > 0;
  }

  void handle(const incoming& from, const frame_header& header, const_bytes payload) {
    switch (header.kind) {
      case frame_kind::heartbeat:
        return;
      case frame_kind::step_ended:
        return runs_.end_part(from.task, table_name(from.task), header, detail::end_message::read(payload));
      default:
        detail::message_reader::malformed();
    }
  }

  void lose(const incoming& from) {
    std::uint64_t lost = from.connection;
    links_[from.task]->open.compare_exchange_strong(lost, 0);  // the client may have connected again
  }

  void send_heartbeats() {
    for (const auto& each : links_) {
      const std::unique_lock lock(each->mutex, std::try_to_lock);
      if (!lock || each->open == 0) continue;  // bytes are on their way in any case
      frame_header header;
      header.kind = frame_kind::heartbeat;
      try {
        detail::send_frame(idle(), *each->asks, header, {}, false, deadline(std::chrono::milliseconds(100)),
                           std::chrono::milliseconds(100), [] {});
        ++each->unanswered;
      } catch (const error&) {
        each->open = 0;
      }
    }
  }

  any_transport network_;
  graph_client_options options_;
  cluster_secret secret_;
  std::uint64_t incarnation_ = 0;
  cluster_spec cluster_;
  std::vector<task_id> names_;
  std::vector<std::unique_ptr<link>> links_;  // by rank
  std::uint32_t home_ = 0;
  detail::client_runs runs_;

  std::mutex mutex_;
  std::vector<std::unique_ptr<incoming>> fresh_;  // connections that the thread has not taken up
  any_transport::signal bell_;
  std::atomic<bool> stopping_{false};

  detail::receiving_loop<graph_client, incoming> loop_;
  std::thread thread_;
};

#if WEFT_DISTRIBUTED_DEFINITIONS

WEFT_DISTRIBUTED_DECL graph_client::graph_client(std::string_view address, graph_client_options options,
                                                 any_transport network)
    : network_(std::move(network)),
      options_(with_tls(std::move(options), network_)),
      secret_(usual_secret()),
      runs_(options_.max_parked_bytes),
      bell_(network_),
      loop_(*this, bell_, idle()) {
  fill_random(std::as_writable_bytes(std::span(&incarnation_, 1)));
  incarnation_ |= 1u;
  if (secret_.is_given() || options_.tls) network_.allow_other_hosts();
  if (options_.tls) network_.use_tls(*options_.tls);
  learn(parse(address), deadline(options_.answer_timeout));
  thread_ = detail::start_thread([this] { receive(); });
}

WEFT_DISTRIBUTED_DECL graph_client::~graph_client() {
  stopping_ = true;
  bell_.notify();
  detail::join(thread_);
}

WEFT_DISTRIBUTED_DECL session_target graph_client::target() {
  return {[](void* to, const graph& g) -> plan::task_support* {
            auto& of = *static_cast<graph_client*>(to);
            return new detail::remote_tasks<graph_client>(of, g, of.home_);
          },
          this};
}

WEFT_DISTRIBUTED_DECL plan::task_support* graph_client::connect(const std::string& address, const graph& g) {
  struct of_session {
    explicit of_session(const std::string& where) : client(where) {}
    graph_client client;
  };
  struct owning final : private of_session, public detail::remote_tasks<graph_client> {
    owning(const std::string& where, const graph& of)
        : of_session(where), detail::remote_tasks<graph_client>(this->client, of, this->client.home_) {}
  };
  return new owning(address, g);
}

#endif

namespace detail {

/// Programs that include this file understand `.target = "weft://host:port"`.
inline const bool targets_have_addresses = (plan::connect_to_address = &graph_client::connect, true);

}  // namespace detail
}  // namespace weft
