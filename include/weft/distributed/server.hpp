#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <weft/distributed/cluster_spec.hpp>
#include <weft/distributed/membership.hpp>
#include <weft/distributed/messages.hpp>
#include <weft/distributed/parameter_service.hpp>
#include <weft/error.hpp>
#include <weft/transport/framing.hpp>
#include <weft/transport/tcp.hpp>
#include <weft/transport/transport.hpp>

namespace weft {

/// Compared when tasks meet: tasks of different versions do not work together.
inline constexpr const char* distributed_version = "0.1";

struct server_options {
  std::chrono::milliseconds heartbeat{250};    // a sign of life to every peer this often
  std::chrono::milliseconds dead_after{1750};  // a peer silent for so long is lost
  std::chrono::milliseconds handshake{5000};   // a connection must say who it is within this time
  std::optional<wait_policy> waiting;          // nothing: chosen from the number of tasks on this host and its cores
  bool shared_memory = true;                   // tasks of one host and user pass values through memory that both map
  bool checksum = true;                        // CRC32C over values that travel, too; headers always have one
  std::uint64_t most_parameter_bytes = std::uint64_t{16} << 30;  // what workers may make a parameter server hold
  std::string ps_job = "ps", worker_job = "worker";
  std::function<void(const error&)> on_lost;  // a peer was lost; called from the server's own thread
};

/// One task's presence in the cluster: it listens at the task's address, keeps one control connection with every other
/// task (the task of higher rank dials), and notices at once when a peer's process ends and within `dead_after` when it
/// falls silent. Strategies open further connections through it, and do their own input and output on their own
/// threads.
///
/// Destroy clients and all-reduce groups before the server that they use.
template <transport T = tcp, typename Clock = std::chrono::steady_clock>
class basic_server {
 public:
  using transport_type = T;
  using clock_type = Clock;
  using deadline_type = basic_deadline<Clock>;

  /// Binds the address of /job:`job`/task:`index` and begins to look for the other tasks.
  /// Throws weft::error: not_found for a task that the cluster does not have, permission_denied for an address that the
  /// transport refuses, already_exists for one that is in use.
  basic_server(cluster_spec cluster, std::string job, int index, server_options options = {}, T network = {})
      : network_(std::move(network)),
        cluster_(std::move(cluster)),
        self_{std::move(job), index},
        options_(std::move(options)),
        incarnation_(random_incarnation()),
        rank_(cluster_.rank(self_)),
        members_(cluster_, rank_),
        doorbell_(network_),
        service_bell_(network_) {
    for (const task_id& task : cluster_.tasks()) T::check(cluster_.task_address(task.job, task.index));
    waiting_ = options_.waiting.value_or(wait_policy::for_tasks(cluster_.tasks_on_host_of(self_)));
    listener_ = network_.listen(cluster_.task_address(self_.job, self_.index));
    address_ = listener_.address();
    redial_.assign(members_.size(), Clock::now());
    thread_ = std::thread([this] { run(); });
  }

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
  /// failed_precondition with the reason when a peer refused this task.
  void wait_ready(deadline_type until = std::chrono::seconds(60)) {
    wait_ready(until, [](const task_id&) { return false; });
  }
  /// The same, but a task for which `dispensable(task_id)` holds may be lost.
  template <typename Dispensable>
  void wait_ready(deadline_type until, Dispensable dispensable) {
    members_.wait_for(
        until, [](const task_id&) { return true; }, dispensable);
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
      while (members_.state(rank) == task_state::alive && !stopping()) {
        if (until.expired())
          throw error(error_code::deadline_exceeded, "join", to_string(members_.task(rank)) + " is still there");
        members_.await_verdict(rank, deadline_type(std::chrono::milliseconds(200)));
      }
      if (members_.state(rank) == task_state::left) report.finished.push_back(to_string(members_.task(rank)));
      if (members_.state(rank) == task_state::lost)
        report.lost.push_back(to_string(members_.task(rank)) + " " + members_.reason(rank));
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
  /// Whether values may travel to the task with this rank through shared memory; the peer may still refuse.
  bool may_share_memory(std::size_t rank) const {
    const task_id& peer = members_.task(rank);
    return options_.shared_memory && same_host<T>(cluster_.task_address(peer.job, peer.index));
  }
  bool stopping() const { return stopping_.load(std::memory_order_acquire); }

  /// Opens a connection for a purpose of its own, `channel`, to the task with this rank. The calling thread does the
  /// handshake.
  /// Throws weft::error: deadline_exceeded, unavailable that names the peer, or the peer's refusal.
  typename T::stream open_channel(std::size_t rank, const std::string& channel, deadline_type until) {
    members_.wait_for(until, [&](const task_id& task) { return task == members_.task(rank); });
    const task_id& peer = members_.task(rank);
    const std::string operation = "connect to " + to_string(peer);
    if (members_.state(rank) != task_state::alive) throw members_.diagnose(rank, operation, "is not there");
    const auto named = [&](auto action) {
      try {
        return action();
      } catch (const error& problem) {
        throw diagnose(rank, operation, problem);
      }
    };
    typename T::stream stream = named([&] { return network_.connect(cluster_.task_address(peer.job, peer.index)); });
    const std::vector<std::byte> hello = hello_to(rank, channel).bytes();
    std::vector<std::byte> answer;
    frame_header header;
    header.kind = frame_kind::hello;
    header.deadline_us = until.remaining_us();
    frame_writer out;
    out.start(header, const_bytes(hello));
    frame_reader in;
    in.expect(detail::most_control_bytes);
    waiter<T, Clock> idle(network_, waiting_);
    while (!in.complete()) {
      const std::size_t moved = named([&] { return out.advance(stream) + in.advance(stream); });
      if (in.needs_destination()) {
        answer.resize(static_cast<std::size_t>(in.header().payload_length));
        in.payload_to(mutable_bytes(answer));
        continue;
      }
      if (until.expired()) throw error(error_code::deadline_exceeded, operation, "no answer to the handshake in time");
      if (moved > 0) {
        idle.moved();
        continue;
      }
      typename T::wait_item item{&stream, true, !out.idle()};
      idle.pause({&item, 1}, until);
      if (members_.state(rank) != task_state::alive) throw members_.diagnose(rank, operation, "is gone");
      if (stopping()) throw error(error_code::cancelled, operation, "this server was stopped");
    }
    if (in.header().kind == frame_kind::refuse) throw detail::read_error(answer, operation);
    if (in.header().kind != frame_kind::welcome)
      throw error(error_code::invalid_argument, operation, "the peer broke the protocol in the handshake");
    return stream;
  }

  /// Waits for the task with this rank to open the channel `channel` to this one. Throws as open_channel().
  typename T::stream accept_channel(std::size_t rank, const std::string& channel, deadline_type until) {
    const std::string operation = "wait for " + to_string(members_.task(rank));
    std::unique_lock lock(inbox_mutex_);
    for (;;) {
      for (auto each = inbox_.begin(); each != inbox_.end(); ++each)
        if (each->rank == rank && each->channel == channel) {
          typename T::stream found = std::move(each->stream);
          inbox_.erase(each);
          return found;
        }
      const task_state state = members_.state(rank);
      if (state == task_state::lost || state == task_state::left) throw members_.diagnose(rank, operation, "is gone");
      if (stopping()) throw error(error_code::cancelled, operation, "this server was stopped");
      if (until.expired())
        throw error(error_code::deadline_exceeded, operation,
                    "it has not opened its channel '" + channel + "' in time");
      detail::sleep(inbox_changed_, lock, std::chrono::milliseconds(20));
    }
  }

  /// The next connection that any task has opened for `channel`, if there is one.
  bool take_channel(const std::string& channel, std::pair<std::size_t, typename T::stream>& taken) {
    if (inbox_size_.load(std::memory_order_acquire) == 0) return false;
    std::lock_guard lock(inbox_mutex_);
    for (auto each = inbox_.begin(); each != inbox_.end(); ++each)
      if (each->channel == channel) {
        taken = {each->rank, std::move(each->stream)};
        inbox_.erase(each);
        inbox_size_ = inbox_.size();
        return true;
      }
    return false;
  }

  /// What to throw when a connection to this task failed with `problem`: who is gone, and why. The end of a connection
  /// is often heard before this server has judged the peer, so it is given a moment to do so.
  error diagnose(std::size_t rank, const std::string& operation, const error& problem) {
    if (problem.code() != error_code::unavailable)
      return error(problem.code(), operation, to_string(members_.task(rank)) + ": " + problem.sentence());
    members_.await_cause(rank, deadline_type(std::chrono::milliseconds(200)));
    return members_.diagnose(rank, operation, "has closed its connection");
  }

  /// Rings when a channel was opened or a peer's state changed.
  typename T::signal& service_bell() { return service_bell_; }

 private:
  using moment = typename Clock::time_point;

  static constexpr std::size_t most_strangers = 1024;  // connections whose handshakes are not complete

  struct waiting_channel {
    std::size_t rank;
    std::string channel;
    typename T::stream stream;
  };

  struct control_link {
    std::size_t rank;
    typename T::stream stream;
    frame_reader in;
    frame_writer out;
    std::vector<std::byte> message;  // payload of the frame that is arriving
    moment last_heard;
    bool closed = false;
  };

  /// A connection whose handshake is not complete.
  struct handshake {
    typename T::stream stream;
    moment until;
    std::optional<std::size_t> dialled;  // the peer's rank, where this side dialled
    frame_reader in;
    frame_writer out;
    std::vector<std::byte> sent, received;
    std::optional<detail::hello_message> accepted;  // the peer is welcome: what it said
    bool refused = false;
    bool over = false;
  };

  static std::uint64_t random_incarnation() {
    std::random_device source;
    return (std::uint64_t{source()} << 32 | source()) | 1u;
  }

  detail::hello_message hello_to(std::size_t rank, const std::string& channel) const {
    return {distributed_version, cluster_.hash(), to_string(cluster_), self_, members_.task(rank),
            incarnation_,        channel};
  }

  // ---- the server's own thread: doors, handshakes, heartbeats ----

  void run() {
    own_thread_ = std::this_thread::get_id();
    last_turn_ = next_beat_ = Clock::now();
    while (!stopping()) {
      try {
        turn();
      } catch (const std::exception&) {
        // There was no memory for it, most likely: what this turn left undone the next one does.
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    }
    farewell();
  }

  void turn() {
    const moment now = Clock::now();
    // If this thread itself was held up (the process was stopped, the machine asleep), the silence was ours.
    held_up_ = now - last_turn_;
    if (held_up_ > options_.dead_after / 2)
      for (control_link& link : links_) link.last_heard += held_up_;
    last_turn_ = now;
    accept_connections(now);
    dial_peers(now);
    for (handshake& each : handshakes_) attempt(each, now);
    std::erase_if(handshakes_, [](const handshake& each) { return each.over; });
    for (control_link& link : links_) listen_to(link, now);
    if (now >= next_beat_) {
      for (control_link& link : links_) beat(link);
      next_beat_ = now + options_.heartbeat;
    }
    std::erase_if(links_, [](const control_link& link) { return link.closed; });
    sleep(std::min(next_beat_, now + std::chrono::milliseconds(next_dial_needed() ? 20 : 250)) - now);
  }

  void sleep(typename Clock::duration time) {
    items_.clear();
    items_.push_back({&doorbell_, true, false});
    // Left out while nobody can be let in: who knocks would end every wait at once.
    if (handshakes_.size() < most_strangers && Clock::now() >= open_again_) items_.push_back({&listener_, true, false});
    for (const handshake& each : handshakes_) items_.push_back({&each.stream, true, !each.out.idle()});
    for (const control_link& link : links_) items_.push_back({&link.stream, true, !link.out.idle()});
    network_.wait(items_, std::chrono::duration_cast<std::chrono::nanoseconds>(time));
    doorbell_.clear();
  }

  void accept_connections(moment now) {
    if (now < open_again_) return;
    typename T::stream stream;
    try {
      while (handshakes_.size() < most_strangers && listener_.accept(stream)) {
        handshake& fresh = handshakes_.emplace_back();
        fresh.stream = std::move(stream);
        fresh.until = now + options_.handshake;
        fresh.in.expect(detail::most_control_bytes);
      }
    } catch (const error& problem) {
      open_again_ = now + std::chrono::milliseconds(100);  // too many open files: some may be closed by then
      for (std::size_t rank = rank_ + 1; rank < members_.size(); ++rank) members_.set_note(rank, problem.what());
    }
  }

  bool should_dial(std::size_t rank) const {
    const task_state state = members_.state(rank);
    return rank < rank_ && (state == task_state::awaited || state == task_state::lost) &&
           std::none_of(handshakes_.begin(), handshakes_.end(),
                        [&](const handshake& each) { return each.dialled == rank; });
  }

  bool next_dial_needed() const {
    for (std::size_t rank = 0; rank < rank_; ++rank)
      if (should_dial(rank)) return true;
    return false;
  }

  void dial_peers(moment now) {
    for (std::size_t rank = 0; rank < rank_; ++rank) {
      if (!should_dial(rank) || now < redial_[rank]) continue;
      redial_[rank] = now + std::chrono::milliseconds(members_.state(rank) == task_state::lost ? 250 : 20);
      try {
        const task_id& peer = members_.task(rank);
        typename T::stream stream = network_.connect(cluster_.task_address(peer.job, peer.index));
        handshake& fresh = handshakes_.emplace_back();
        fresh.stream = std::move(stream);
        fresh.until = now + options_.handshake;
        fresh.dialled = rank;
        fresh.sent = hello_to(rank, "").bytes();
        frame_header header;
        header.kind = frame_kind::hello;
        fresh.out.start(header, const_bytes(fresh.sent));
        fresh.in.expect(detail::most_control_bytes);
      } catch (const error& problem) {
        // Not there yet: tried again. What else may be the reason is told to who waits.
        if (problem.code() != error_code::unavailable) members_.set_note(rank, problem.what());
      }
    }
  }

  void attempt(handshake& each, moment now) {
    try {
      each.out.advance(each.stream);
      if ((each.accepted || each.refused) && each.out.idle()) return conclude(each, now);
      if (!each.accepted && !each.refused) {
        each.in.advance(each.stream);
        if (each.in.needs_destination()) {
          each.received.resize(static_cast<std::size_t>(each.in.header().payload_length));
          each.in.payload_to(mutable_bytes(each.received));
          each.in.advance(each.stream);
        }
        if (each.in.complete()) each.dialled ? judge_answer(each, now) : judge_hello(each, now);
      }
    } catch (const error& problem) {
      break_off(each, problem);
    } catch (const std::exception&) {
      each.over = true;  // no memory for it; a dialled peer is dialled again
    }
    if (each.over || now < each.until) return;
    each.over = true;
    if (each.dialled) members_.set_note(*each.dialled, "it takes a connection and does not answer");
  }

  /// The other side is gone, speaks another version of the protocol, or is no Weft task at all.
  void break_off(handshake& each, const error& problem) {
    each.over = true;
    const bool other_version = problem.code() == error_code::failed_precondition;
    if (each.dialled) {
      // Who is gone is dialled again.
      const std::string operation = "connect to " + to_string(members_.task(*each.dialled));
      if (other_version) return members_.refuse(error(problem.code(), operation, problem.sentence()));
      if (problem.code() != error_code::unavailable) members_.set_note(*each.dialled, problem.sentence());
    } else if (other_version && !each.refused) {
      refuse(each, problem);
      each.over = false;
    }
  }

  static void refuse(handshake& each, const error& why) {
    each.refused = true;
    each.sent = detail::error_bytes(why.code(), why.what());
    frame_header header;
    header.kind = frame_kind::refuse;
    each.out.start(header, const_bytes(each.sent));
  }

  void judge_hello(handshake& each, moment now) {
    if (each.in.header().kind != frame_kind::hello)
      throw error(error_code::invalid_argument, "handshake", "the first frame is no hello");
    const auto hello = detail::hello_message::read(each.received);
    if (const std::optional<error> problem = objection(hello)) {
      refuse(each, *problem);
    } else {
      each.sent = hello_to(cluster_.rank(hello.from), hello.channel).bytes();
      each.accepted = hello;
      frame_header header;
      header.kind = frame_kind::welcome;
      each.out.start(header, const_bytes(each.sent));
    }
    each.out.advance(each.stream);
    if (each.out.idle()) conclude(each, now);
  }

  /// Why the peer that says this cannot be let in, if it cannot.
  std::optional<error> objection(const detail::hello_message& hello) {
    const std::string who = to_string(hello.from);
    const auto refuse = [](error_code code, const std::string& why) { return error(code, "handshake", why); };
    if (hello.library_version != distributed_version)
      return refuse(error_code::failed_precondition, who + " runs Weft " + hello.library_version + ", " + name() +
                                                         " runs " + distributed_version +
                                                         "; run the same build on every task");
    if (hello.cluster_hash != cluster_.hash()) {
      const error problem = refuse(error_code::failed_precondition,
                                   who + " and " + name() + " were given different clusters: '" + hello.cluster +
                                       "' and '" + to_string(cluster_) + "'; give every task the same addresses");
      if (const auto rank = find(hello.from))
        members_.set_note(*rank, "it came with another cluster, '" + hello.cluster + "'");
      return problem;
    }
    if (!(hello.to == self_))
      return refuse(error_code::failed_precondition, who + " looked for " + to_string(hello.to) + " at " +
                                                         to_string(address_) + " but " + name() + " listens there");
    const auto rank = find(hello.from);
    if (!rank || *rank == rank_)
      return refuse(
          error_code::failed_precondition,
          who + " is " + (rank ? "this task itself; start every task with its own index" : "not in the cluster"));
    const bool other_incarnation = members_.incarnation(*rank) != hello.incarnation;
    if (members_.state(*rank) == task_state::alive && other_incarnation)
      return refuse(error_code::unavailable,
                    "another process is " + who + " already; stop it, or give this one its own index");
    if (members_.state(*rank) == task_state::lost && !other_incarnation)
      return refuse(error_code::aborted, who + " was given up (it " + members_.reason(*rank) + "); start it again");
    return {};
  }

  void judge_answer(handshake& each, moment now) {
    each.over = true;
    const std::size_t rank = *each.dialled;
    const std::string operation = "connect to " + to_string(members_.task(rank));
    if (each.in.header().kind == frame_kind::refuse) {
      error why = detail::read_error(each.received, operation);
      if (why.code() == error_code::unavailable)
        members_.set_note(rank, why.what());  // may pass: tried again
      else
        members_.refuse(std::move(why));
      return;
    }
    if (each.in.header().kind != frame_kind::welcome)
      throw error(error_code::invalid_argument, operation, "the peer broke the protocol");
    const auto welcome = detail::hello_message::read(each.received);
    if (!(welcome.from == members_.task(rank)) || welcome.cluster_hash != cluster_.hash())
      throw error(error_code::failed_precondition, operation, "another task answers there");
    if (members_.state(rank) == task_state::lost && members_.incarnation(rank) == welcome.incarnation) return;
    add_control_link(rank, welcome.incarnation, std::move(each.stream), now);
  }

  void conclude(handshake& each, moment now) {
    each.over = true;
    if (each.refused) return;
    const std::size_t rank = cluster_.rank(each.accepted->from);
    if (each.accepted->channel.empty()) {
      for (control_link& link : links_)
        if (link.rank == rank) link.closed = true;  // the same incarnation dialled again
      return add_control_link(rank, each.accepted->incarnation, std::move(each.stream), now);
    }
    {
      std::lock_guard lock(inbox_mutex_);
      std::erase_if(inbox_, [&](const waiting_channel& old) {
        return old.rank == rank && old.channel == each.accepted->channel;
      });
      inbox_.push_back({rank, each.accepted->channel, std::move(each.stream)});
      inbox_size_ = inbox_.size();
    }
    inbox_changed_.notify_all();
    service_bell_.notify();
  }

  void add_control_link(std::size_t rank, std::uint64_t incarnation, typename T::stream stream, moment now) {
    control_link& link = links_.emplace_back();
    link.rank = rank;
    link.stream = std::move(stream);
    link.last_heard = now;
    link.in.expect(detail::most_control_bytes);
    members_.set_alive(rank, incarnation);
    service_bell_.notify();
  }

  void listen_to(control_link& link, moment now) {
    if (link.closed) return;
    send_on(link);
    try {
      for (;;) {
        if (link.in.advance(link.stream) > 0) link.last_heard = now;
        if (link.in.needs_destination()) {
          link.message.resize(static_cast<std::size_t>(link.in.header().payload_length));
          link.in.payload_to(mutable_bytes(link.message));
          continue;
        }
        if (!link.in.complete()) break;
        const frame_kind kind = link.in.header().kind;
        if (kind == frame_kind::refuse)
          return lose(link, std::string("has given up this task, which ") +
                                detail::read_error(link.message, "control").sentence());
        if (kind == frame_kind::goodbye) {
          link.closed = true;
          members_.set_left(link.rank);
          return after_change();
        }
        if (kind != frame_kind::heartbeat || !link.message.empty())
          throw error(error_code::invalid_argument, "control", "a frame of the wrong kind");
        link.in.expect(detail::most_control_bytes);
      }
    } catch (const error& problem) {
      return lose(link, problem.code() == error_code::unavailable
                            ? "has closed its connection without a goodbye: the process ended or was killed"
                            : std::string("broke the protocol: ") + problem.what());
    }
    if (now - link.last_heard > options_.dead_after)
      lose(link, "has given no sign of life for " + milliseconds(now - link.last_heard) +
                     ": it is stopped, overloaded or cut off");
  }

  static std::string milliseconds(typename Clock::duration time) {
    return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(time).count()) + " ms";
  }

  void beat(control_link& link) {
    if (link.closed || !link.out.idle()) return;  // the last one has not left yet: the peer does not read
    frame_header header;
    header.kind = frame_kind::heartbeat;
    link.out.start(header);
    send_on(link);
  }

  void send_on(control_link& link) {
    try {
      link.out.advance(link.stream);
    } catch (const error&) {
      // A peer that is gone may have said goodbye first: what can still be read tells.
    }
  }

  void lose(control_link& link, std::string why) {
    tell_why(link, why);
    link.closed = true;
    link.stream.close();
    if (held_up_ > options_.dead_after) why += " (this task itself was held up for " + milliseconds(held_up_) + ")";
    const std::string sentence = members_.set_lost(link.rank, why);
    after_change();
    if (options_.on_lost) options_.on_lost(error(error_code::unavailable, name(), sentence));
  }

  /// A peer that was only silent for too long goes on some time, and is to know why it is alone then.
  void tell_why(control_link& link, const std::string& why) {
    try {
      send_on(link);
      if (!link.out.idle()) return;
      const std::vector<std::byte> sent = detail::error_bytes(error_code::aborted, why);
      frame_header header;
      header.kind = frame_kind::refuse;
      link.out.start(header, const_bytes(sent));
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
    frame_header header;
    header.kind = frame_kind::goodbye;
    const deadline_type until = std::chrono::milliseconds(200);
    for (control_link& link : links_) {
      try {
        while (!link.out.idle() && !until.expired())
          if (link.out.advance(link.stream) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        link.out.start(header);
        link.out.advance(link.stream);
      } catch (const error&) {
        // it is gone already
      }
    }
    links_.clear();
    handshakes_.clear();
    std::lock_guard lock(inbox_mutex_);
    inbox_.clear();
  }

  std::optional<std::size_t> find(const task_id& task) const {
    if (task.index < 0 || task.index >= cluster_.num_tasks(task.job)) return {};
    return cluster_.rank(task);
  }

  T network_;
  cluster_spec cluster_;
  task_id self_;
  server_options options_;
  std::uint64_t incarnation_;
  std::size_t rank_;
  membership members_;
  wait_policy waiting_;
  typename T::listener listener_;
  endpoint address_;
  typename T::signal doorbell_, service_bell_;

  std::mutex inbox_mutex_;
  std::condition_variable inbox_changed_;
  std::deque<waiting_channel> inbox_;
  std::atomic<std::size_t> inbox_size_{0};

  // used by the server's own thread only
  std::deque<handshake> handshakes_;
  std::deque<control_link> links_;
  std::vector<moment> redial_;
  moment last_turn_{}, next_beat_{}, open_again_{};
  typename Clock::duration held_up_{};  // how long this turn was in coming
  std::vector<typename T::wait_item> items_;

  std::atomic<bool> stopping_{false};
  std::mutex stop_mutex_;
  std::atomic<std::thread::id> own_thread_{};
  std::thread thread_;
};

using server = basic_server<>;

}  // namespace weft
