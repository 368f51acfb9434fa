// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/membership/links/peer_link.hpp>
#include <weft/distributed/membership/loss_watch.hpp>
#include <weft/distributed/membership/membership.hpp>
#include <weft/distributed/membership/peer_channel.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/distributed/parameter/parameter_spec.hpp>
#include <weft/distributed/parameter/shards/shard_file.hpp>
#include <weft/distributed/parameter/shards/shard_messages.hpp>
#include <weft/distributed/parameter/steps/squares_message.hpp>
#include <weft/error.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/framing.hpp>

namespace weft::detail {

/// The connections through which parameter servers agree on the gradients of a step and on the shards of a checkpoint.
/// Each of the other servers opens a connection to parameter server 0, reports the gradients that it holds and the
/// shards that it has written, and receives decisions and orders. A connection that drops is opened again, and both
/// sides repeat their last messages. Nothing is opened before begin().
///
/// Invariant: a step is decided when all servers have made the previous one, so another server can lack only the last
/// decision. Messages about gradients of another epoch or attempt are ignored. Not thread-safe: the serving thread owns
/// the object.
class shard_links {
 public:
  shard_links(task_server& here, std::size_t workers) : here_(here), members_(here.members()), workers_(workers) {}

  /// Allows connections from now on. Later calls have no effect.
  void begin() {
    if (has_begun_) return;
    has_begun_ = true;
    const std::string& job = here_.options().ps_job;
    for (const int task : here_.cluster().task_indices(job)) {
      if ((task == 0) == is_first()) continue;  // other servers connect only to server 0
      peers_.emplace_back(here_.cluster().rank({job, task}), task, is_first(), workers_);
    }
    if (const std::optional<error> why = std::exchange(ended_, {})) end(*why);
  }
  bool has_begun() const { return has_begun_; }
  /// Servers also exchange the squares of gradients, of at most this many variables.
  void exchange_squares(std::size_t variables) {
    begin();
    exchanges_squares_ = true;
    for (peer& each : peers_)
      each.link.allow(std::max(max_bytes(workers_), std::uint64_t{64} + 8 * std::uint64_t{variables}));
  }

  /// Servers write shards. `wait` is the time to wait for a process that replaces a lost server.
  void keep_shards(std::chrono::milliseconds wait) {
    keeps_shards_ = true;
    watch_.set_wait(wait);
  }
  /// Returns true if another process may take the place of a lost server.
  bool awaits_servers() const { return keeps_shards_ && watch_.keeps_places(); }
  /// Begins another epoch: discards the messages about gradients of earlier epochs.
  void begin_epoch(run_epoch at) {
    at_ = at;
    attempt_ = 0;
    decision_ = {};
    sums_ = {};
    for (peer& each : peers_) {
      each.held = {};
      each.squares = {};
      each.link.reset(is_first() ? frame_kind::decision : frame_kind::held);
      each.link.reset(frame_kind::squares);
    }
  }

  /// Returns true if this is the server that decides, parameter server 0.
  bool is_first() const { return here_.index() == 0; }

  // ---- gradients and decisions ----

  /// On server 0, returns true if all others hold the gradients of this worker for the step.
  bool all_hold(std::size_t worker, std::int64_t step) const {
    return std::all_of(peers_.begin(), peers_.end(), [&](const peer& each) {
      return worker < each.held.steps.size() && each.held.steps[worker] == step;
    });
  }
  /// On server 0, returns the names of the servers that lack these gradients.
  std::string who_lack(std::size_t worker, std::int64_t step) const {
    return names_where(
        [&](const peer& each) { return worker >= each.held.steps.size() || each.held.steps[worker] != step; });
  }
  /// On server 0, sends the decision to the others.
  void announce(std::int64_t step, std::vector<std::size_t> workers) {
    decision_ = {step, attempt_, std::move(workers)};
    set_for_all(frame_kind::decision, decision_.bytes());
  }
  /// Ends training. Server 0 sends the reason to the others.
  void end(const error& why) {
    if (ended_) return;
    set_ended(why);
    if (is_first()) set_for_all(frame_kind::failure, error_bytes(why.code(), why.sentence()));
  }

  /// On other servers, reports to server 0 which gradients this server holds: the step of each worker's.
  void report_held(std::int64_t next_step, std::vector<std::int64_t> steps) {
    set_for_all(frame_kind::held, held_message{next_step, attempt_, std::move(steps)}.bytes());
  }
  /// The last decision, which server 0 made and the others received.
  const decision_message& decision() const { return decision_; }
  /// Why training cannot continue, if it cannot.
  const std::optional<error>& ended() const { return ended_; }

  /// Number of means that the servers have refused in this epoch, because they were not finite. The workers then send
  /// other gradients for the step.
  std::uint64_t attempt() const { return attempt_; }
  /// Begins another attempt of the step: discards the last decision and all messages of earlier attempts. All servers
  /// do this for the same means. Server 0 is the first, and needs a message of the new attempt from each other server
  /// before it can send one, so no server receives a message of an attempt that it has not begun.
  void begin_attempt() {
    ++attempt_;
    decision_ = {};
    for (peer& each : peers_) {
      if (is_first()) each.link.reset(frame_kind::decision);
      each.held = {};
    }
  }

  // ---- squares of gradients ----

  /// On server 0, sends the sums to the other servers. On other servers, sends the squares of this server to server 0.
  void send(const squares_message& squares) {
    if (!ended_) set_for_all(frame_kind::squares, squares.bytes());
  }
  /// On other servers, the sums that arrived last.
  const squares_message& sums() const { return sums_; }
  /// On server 0, calls visit(task, squares) with the last squares of each other server.
  template <typename Visit>
  void for_each_squares(Visit visit) const {
    for (const peer& each : peers_) visit(each.task, each.squares);
  }
  /// On server 0, returns the names of the servers whose last squares satisfy the predicate.
  template <typename Predicate>
  std::string names_of(Predicate predicate) const {
    return names_where([&](const peer& each) { return predicate(each.squares); });
  }

  // ---- shards ----

  /// On other servers, reports the shard status to server 0.
  void report(const shard_status& now) {
    if (!ended_) set_for_all(frame_kind::shard_status, now.bytes());
  }
  /// On other servers, the order that arrived last.
  const std::optional<shard_order>& order() const { return order_; }
  /// On server 0, calls visit(task, status, is_ordered) for each other server. `status` is null if the server has not
  /// reported it. `is_ordered`: its process has received an order.
  template <typename Visit>
  void for_each_status(Visit visit) const {
    for (const peer& each : peers_) visit(each.task, each.status ? &*each.status : nullptr, each.is_ordered);
  }
  /// On server 0, sends an order to another server. A server that has just been started receives none until an order
  /// begins an epoch (`begins`).
  void order(int task, const shard_order& said, bool begins) {
    for (peer& each : peers_) {
      if (each.task != task || ended_ || (!begins && !each.is_ordered)) continue;
      each.is_ordered = true;
      each.link.set(frame_kind::shard_order, said.bytes(), at_.bits);
    }
  }
  /// The names of the servers that have not reported their status; on other servers, the name of server 0.
  std::string silent_servers() const {
    return names_where([&](const peer& each) { return !is_first() || !each.status; });
  }

  /// The reason why training cannot continue, if a parameter server is gone.
  std::optional<error> lost_server() {
    for (peer& each : peers_) {
      const task_state state = members_.state(each.link.rank(), each.link.incarnation());
      const bool has_left = state == task_state::left;
      const bool says_why = has_left && members_.has_failed(each.link.rank());
      const bool may_return = awaits_servers() && !says_why;
      const auto member = static_cast<std::size_t>(each.task);
      const auto now = detail::now();
      watch_.note(member, state == task_state::lost || says_why || (may_return && has_left), now);
      if (!watch_.is_missing(member) || (may_return && !watch_.is_over(member, now))) continue;
      const error why = members_.diagnose(each.link.rank(), each.link.incarnation(), "push_pull", "is gone");
      if (may_return) return watch_.not_replaced(why, "push_pull");
      return says_why ? why
                      : error(why.code(), "push_pull",
                              {why.sentence(),
                               keeps_shards_ ? "; another process can take its place if the loss policy waits"
                                             : "; another process can take its place if all parameter servers write "
                                               "shards (server_options::shards) and the loss policy waits"});
    }
    return {};
  }

  // ---- input and output ----

  /// Opens closed connections, and sends and receives messages. Returns true if anything happened.
  bool serve() {
    if (!has_begun_) return false;
    bool moved = accept();
    for (peer& each : peers_) {
      if (!open(each)) continue;
      try {
        while (each.link.receive()) {
          take(each);
          moved = true;
        }
        moved |= each.link.say();
      } catch (const error& problem) {
        each.link.drop();
        if (problem.code() != error_code::unavailable)
          end(error(error_code::internal, "push_pull", {name(each), " broke the protocol: ", problem.sentence()}));
        moved = true;
      }
    }
    return moved;
  }
  /// Returns true if all messages to other servers have been sent.
  bool has_told_all() const {
    return std::all_of(peers_.begin(), peers_.end(), [](const peer& each) { return each.link.has_said_all(); });
  }
  template <typename Items>
  void add_to(Items& items) const {
    for (const peer& each : peers_)
      if (each.link.is_open()) items.push_back({&each.link.stream(), true, !each.link.has_said_all()});
  }

 private:
  struct peer {
    int task;
    peer_link link;
    held_message held{};
    squares_message squares{};
    std::optional<shard_status> status{};
    bool is_ordered = false;  // its process has received an order

    peer(std::size_t rank, int number_of_task, bool at_first, std::size_t workers)
        : task(number_of_task),
          link(rank,
               at_first
                   ? std::initializer_list<frame_kind>{frame_kind::shard_order, frame_kind::squares,
                                                       frame_kind::decision, frame_kind::failure}
                   : std::initializer_list<frame_kind>{frame_kind::shard_status, frame_kind::squares, frame_kind::held},
               max_bytes(workers)) {}
  };

  static std::uint64_t max_bytes(std::size_t workers) {
    return std::max(max_control_bytes, shard_order::max_bytes(workers));
  }
  std::string name(const peer& each) const { return to_string(members_.task(each.link.rank())); }

  template <typename Predicate>
  std::string names_where(Predicate predicate) const {
    std::string names;
    for (const peer& each : peers_)
      if (predicate(each)) append(names, {names.empty() ? "" : ", ", name(each)});
    return names;
  }

  void set_for_all(frame_kind kind, const std::vector<std::byte>& payload) {
    for (peer& each : peers_) each.link.set(kind, payload, at_.bits);
  }

  bool accept() {
    peer_channel next;
    bool any = false;
    while (is_first() && here_.take_channel(decision_channel, next))
      for (peer& each : peers_) {
        if (each.link.rank() != next.rank) continue;
        if (each.link.incarnation() == next.incarnation || may_meet(each, next.incarnation))
          any |= attach(each, [&] { return each.link.take(std::move(next)); });
        break;
      }
    return any;
  }

  bool open(peer& to) {
    if (is_first()) return to.link.is_open();
    const std::size_t rank = to.link.rank();
    const bool is_alive = members_.state(rank) == task_state::alive;
    // The host of a process that was replaced may not have closed the connection.
    if (to.link.is_open() && is_alive && awaits_servers() && members_.incarnation(rank) != to.link.incarnation())
      to.link.drop();
    if (to.link.is_open()) return true;
    return is_alive && may_meet(to, members_.incarnation(rank)) &&
           attach(to, [&] { return to.link.open(here_, decision_channel, std::chrono::milliseconds(1000)); });
  }

  /// Shards are not written any more.
  void set_ended(const error& why) {
    ended_ = why;
    for (peer& each : peers_) each.link.reset(is_first() ? frame_kind::shard_order : frame_kind::shard_status);
  }

  /// Another process of the task lacks the state of the earlier one, so it is accepted only if servers can be replaced.
  bool may_meet(const peer& each, std::uint64_t incarnation) const {
    return each.link.incarnation() == 0 || each.link.incarnation() == incarnation || awaits_servers();
  }

  /// Connects. Resets the state of the peer if another process has taken its place.
  template <typename Connect>
  bool attach(peer& to, Connect connect) {
    const std::uint64_t before = to.link.incarnation();
    if (!connect()) return false;
    if (to.link.incarnation() == before) return true;
    to.held = {};
    to.squares = {};
    to.status.reset();
    to.is_ordered = false;
    if (is_first())
      to.link.reset(frame_kind::shard_order);
    else
      order_.reset();
    return true;
  }

  void take(peer& from) {
    const frame_kind kind = from.link.header().kind;
    const bool is_of_epoch = from.link.header().tag == at_.bits;
    const std::vector<std::byte>& came = from.link.payload();
    if (is_first() && kind == frame_kind::held) {
      held_message said = held_message::read(came, workers_);
      if (is_of_epoch && said.attempt == attempt_) from.held = std::move(said);
    } else if (!is_first() && kind == frame_kind::decision) {
      decision_message said = decision_message::read(came, workers_);
      if (is_of_epoch && said.attempt == attempt_) decision_ = std::move(said);
    } else if (kind == frame_kind::squares && exchanges_squares_) {
      squares_message said = squares_message::read(came);
      if (is_of_epoch) (is_first() ? from.squares : sums_) = std::move(said);
    } else if (is_first() && kind == frame_kind::shard_status) {
      from.status = shard_status::read(came);
      if (!keeps_shards_)
        end(error(error_code::failed_precondition, "push_pull",
                  {name(from), " writes shards, but ", here_.name(),
                   " does not; set server_options::shards on all parameter servers, or on none"}));
    } else if (!is_first() && keeps_shards_ && kind == frame_kind::shard_order) {
      order_ = shard_order::read(came, workers_);
    } else if (!is_first() && kind == frame_kind::failure)
      set_ended(read_error(came, "push_pull"));
    else
      message_reader::malformed();
  }

  task_server& here_;
  membership& members_;
  std::size_t workers_;
  bool has_begun_ = false;
  std::vector<peer> peers_;
  decision_message decision_;
  std::optional<error> ended_;
  bool keeps_shards_ = false, exchanges_squares_ = false;
  squares_message sums_;  // from server 0
  loss_watch watch_;      // servers by task
  run_epoch at_;
  std::uint64_t attempt_ = 0;  // in the epoch
  std::optional<shard_order> order_;
};

}  // namespace weft::detail
