// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
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
#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/remote/client/client_dialer.hpp>
#include <weft/distributed/remote/client/client_runs.hpp>
#include <weft/distributed/remote/graph_client_options.hpp>
#include <weft/distributed/remote/receiving_loop.hpp>
#include <weft/distributed/remote/remote_channels.hpp>
#include <weft/distributed/remote/step_messages.hpp>
#include <weft/error.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/framing.hpp>
#include <weft/transport/random_bytes.hpp>
#include <weft/transport/waiter.hpp>

namespace weft::detail {

/// The implementation of graph_client: two connections to each task of the cluster, one for requests and one for
/// answers, which are opened again after a task was restarted.
class client_connections {
  using opened = client_dialer::opened;

 public:
  client_connections(std::string_view address, graph_client_options options, any_transport network)
      : network_(std::move(network)),
        options_(with_tls(std::move(options), network_)),
        dialer_(network_, options_),
        runs_(options_.max_parked_bytes),
        bell_(network_),
        loop_(*this, bell_, idle()) {
    learn(parse(address), deadline(options_.answer_timeout));
    thread_ = detail::start_thread([this] { receive(); });
  }
  ~client_connections() {
    stopping_ = true;
    bell_.notify();
    detail::join(thread_);
  }
  client_connections(const client_connections&) = delete;
  client_connections& operator=(const client_connections&) = delete;

  const cluster_spec& cluster() const { return cluster_; }
  const graph_client_options& options() const { return options_; }
  /// The rank of the task at the address.
  std::uint32_t home() const { return home_; }

  // ---- for remote_tasks ----

  client_runs& runs() { return runs_; }
  void fill_random(std::span<std::byte> bytes) { weft::fill_random(network_, bytes); }
  std::chrono::milliseconds answer_timeout() const { return options_.answer_timeout; }
  std::size_t tasks() const { return names_.size(); }
  std::string table_name(std::size_t task) const { return to_string(names_[task]); }
  peer_process self_as_client() const { return {tasks(), dialer_.incarnation()}; }
  void await_tasks(deadline until) {
    for (std::size_t t = 0; t < tasks(); ++t) {
      const std::lock_guard lock(links_[t]->mutex);
      if (links_[t]->open == 0) open(t, until);
    }
  }
  /// Returns the incarnation of the task's current process. If the connection is lost, connects to a new process of the
  /// task.
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
    return loop_.receive_until(urgency::step, time, done);
  }
  void check_there(std::size_t task, std::uint64_t incarnation) const {
    if (!is_there(task, incarnation))
      throw error(error_code::unavailable, "step",
                  {table_name(task),
                   " has closed its connection or does not answer: its process ended, or this client sent nothing for "
                   "too long"});
  }
  /// Does nothing: check_there() detects a connection that has ended.
  void check_connection(std::size_t, std::uint64_t, deadline::time_point) const {}
  bool has_lost_connection(std::size_t, std::uint64_t, deadline::time_point) const { return false; }
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
      send_frame(idle(), *to.asks, header, payload, options_.checksum, until, to.stall,
                 [&] { check_there(task, incarnation); });
    } catch (const error& problem) {
      to.open = 0;  // the frame may be incomplete
      if (problem.code() != error_code::unavailable) throw;
      check_there(task, incarnation);
    }
  }

 private:
  struct link {
    task_mutex mutex;  // for sending and connecting
    std::optional<any_transport::stream> asks;
    std::uint64_t connections = 0;  // opened so far
    std::atomic<std::uint64_t> incarnation{0};
    std::atomic<std::uint64_t> open{0};        // the number of the connection; 0: lost
    std::atomic<std::uint32_t> unanswered{0};  // heartbeats sent since bytes last arrived
    std::atomic<bool> is_sending{false};
    std::chrono::milliseconds stall{30'000};  // the task must read within this time
  };
  struct incoming {
    std::size_t task;
    std::uint64_t connection;
    any_transport::stream stream;
    frame_receiver in;
    std::chrono::milliseconds patience;
    deadline silence{client_silence};  // `patience` after the first bytes
  };
  waiter idle() const { return dialer_.idle(); }

  static graph_client_options with_tls(graph_client_options options, const any_transport& network) {
    if (!options.tls && network.can_encrypt()) options.tls = tls_credentials::from_environment();
    return options;
  }
  static endpoint parse(std::string_view address) {
    constexpr std::string_view scheme = "weft://";
    if (!address.starts_with(scheme))
      throw error(error_code::invalid_argument, "session",
                  {"the target '", printable(std::string(address), 256),
                   "' is not weft://host:port; give the address of a task of the cluster"});
    return parse_endpoint(address.substr(scheme.size()));
  }

  /// Opens both connections to a task, whose link is locked.
  void open(std::size_t task, deadline until) {
    const endpoint& where = cluster_.task_address(names_[task].job, names_[task].index);
    links_[task]->asks.reset();  // so that the task does not mistake it for the new one
    const client_dialer::expected who{cluster_, names_[task]};
    opened hears = dialer_.dial(where, &who, client_hears, until);
    opened asks = dialer_.dial(where, &who, client_asks, until);
    adopt(task, std::move(hears), std::move(asks));
  }
  void adopt(std::size_t task, opened hears, opened asks) {
    if (hears.of.incarnation != asks.of.incarnation)
      throw error(error_code::unavailable, "connect", {to_string(asks.of.from), " was just started again"});
    link& to = *links_[task];
    const bool is_near = is_loopback(cluster_.task_address(names_[task].job, names_[task].index).host);
    if (is_near) to.stall = std::chrono::seconds(5);
    to.asks = std::move(asks.to);
    to.incarnation = asks.of.incarnation;
    to.unanswered = 0;
    to.open = ++to.connections;
    const std::lock_guard lock(mutex_);
    fresh_.push_back(std::unique_ptr<incoming>(new incoming{task, to.connections, std::move(hears.to),
                                                            frame_receiver(options_.max_value_bytes),
                                                            is_near ? task_silence_on_host : client_silence}));
    bell_.notify();
  }

  /// Receives the description of the cluster from the task at an address.
  void learn(const endpoint& where, deadline until) {
    network_.check(where);
    opened hears = dialer_.dial(where, nullptr, client_hears, until);
    opened asks = dialer_.dial(where, nullptr, client_asks, until);
    frame_header header;
    header.kind = frame_kind::list_devices;
    send_frame(idle(), asks.to, header, {}, true, until, std::chrono::seconds(30), [] {});
    const task_message said = await_message(hears, until);
    if (said.jobs.size() != said.addresses.size() || said.jobs.empty()) message_reader::malformed();
    for (std::size_t j = 0; j < said.jobs.size(); ++j) cluster_.add_job(said.jobs[j], said.addresses[j]);
    if (cluster_.hash() != asks.of.cluster_hash || !cluster_.has_task(asks.of.from)) message_reader::malformed();
    names_ = cluster_.tasks();
    for (std::size_t t = 0; t < names_.size(); ++t) links_.push_back(std::make_unique<link>());
    home_ = static_cast<std::uint32_t>(cluster_.rank(asks.of.from));
    adopt(home_, std::move(hears), std::move(asks));
  }
  task_message await_message(opened& from, deadline until) {
    frame_reader in;
    std::vector<std::byte> payload;
    in.expect(max_step_message_bytes);
    waiter waits = idle();
    for (;;) {
      const std::size_t moved = in.advance(from.to, payload);
      if (in.complete()) return task_message::read(payload);
      if (until.expired())
        throw error(error_code::deadline_exceeded, "connect",
                    {to_string(from.of.from), " has not created a graph_service, which serves clients, within ",
                     options_.answer_timeout.count(), " ms (graph_client_options::answer_timeout)"});
      if (moved > 0) {
        waits.moved();
        continue;
      }
      any_transport::wait_item item{&from.to, true, false};
      waits.pause({&item, 1}, until);
    }
  }

  // ---- answers of tasks ----

  void receive() {
    deadline heartbeat(client_heartbeat);
    while (!stopping_) {
      if (heartbeat.expired()) {
        heartbeat = deadline(client_heartbeat);
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

  friend receiving_loop<client_connections, incoming>;

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
    if (from.silence.expired() && (open == 0 || to.unanswered >= from.patience / client_heartbeat))
      throw error(error_code::unavailable, "receive", "the task does not answer");
    return total > 0;
  }

  void handle(const incoming& from, const frame_header& header, const_bytes payload) {
    switch (header.kind) {
      case frame_kind::heartbeat:
        return;
      case frame_kind::step_ended:
        return runs_.end_part(from.task, table_name(from.task), header, end_message::read(payload));
      default:
        message_reader::malformed();
    }
  }

  void lose(const incoming& from) {
    std::uint64_t lost = from.connection;
    links_[from.task]->open.compare_exchange_strong(lost, 0);  // the client may have connected again
  }

  void send_heartbeats() {
    for (const auto& each : links_) {
      const std::unique_lock lock(each->mutex, std::try_to_lock);
      if (!lock) continue;  // another thread is sending
      if (each->open == 0) {
        each->asks.reset();  // a task that was paused and continues then cancels its runs for this client
        continue;
      }
      frame_header header;
      header.kind = frame_kind::heartbeat;
      try {
        send_frame(idle(), *each->asks, header, {}, false, deadline(std::chrono::milliseconds(100)),
                   std::chrono::milliseconds(100), [] {});
        ++each->unanswered;
      } catch (const error&) {
        each->open = 0;
      }
    }
  }

  any_transport network_;
  graph_client_options options_;
  client_dialer dialer_;
  cluster_spec cluster_;
  std::vector<task_id> names_;
  std::vector<std::unique_ptr<link>> links_;  // by rank
  std::uint32_t home_ = 0;
  client_runs runs_;

  std::mutex mutex_;
  std::vector<std::unique_ptr<incoming>> fresh_;  // connections that the receiving thread has not taken yet
  any_transport::signal bell_;
  std::atomic<bool> stopping_{false};

  receiving_loop<client_connections, incoming> loop_;
  std::thread thread_;
};

}  // namespace weft::detail
