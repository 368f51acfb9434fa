#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/membership/loss_watch.hpp>
#include <weft/distributed/membership/membership.hpp>
#include <weft/distributed/membership/peer_channel.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/distributed/parameter/parameter_spec.hpp>
#include <weft/distributed/parameter/shard_file.hpp>
#include <weft/distributed/parameter/shard_messages.hpp>
#include <weft/distributed/parameter/squares_message.hpp>
#include <weft/error.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/framing.hpp>

namespace weft::detail {

/// The connections by which parameter servers agree whose gradients make a step, and which shards make a checkpoint:
/// each of the others opens one to parameter server 0, tells it which gradients it holds and which shards it has
/// written, and hears the decisions and orders. One that drops is opened again, and both say again what they said last.
/// Nothing is opened before begin().
///
/// Invariant: a step is decided when all servers have made the one before, so that the last decision is the only one
/// that another server may lack. What is said of gradients in another epoch is not heard. Not locked: the serving
/// thread owns it.
class shard_links {
  using moment = deadline;

 public:
  shard_links(task_server& here, std::size_t workers) : here_(here), members_(here.members()), workers_(workers) {}

  /// Workers train by decisions from here on.
  void begin() {
    if (has_begun_) return;
    has_begun_ = true;
    mine_.steps.assign(workers_, -1);
    const std::string& job = here_.options().ps_job;
    for (const int task : here_.cluster().task_indices(job)) {
      if ((task == 0) == is_first()) continue;  // others talk to the first
      if (!is_first() && task != 0) continue;
      peers_.emplace_back(here_.cluster().rank({job, task}), task);
    }
  }
  bool has_begun() const { return has_begun_; }
  /// Servers also exchange the squares of gradients, of at most this many variables.
  void exchange_squares(std::size_t variables) {
    begin();
    max_squares_ = variables;
  }

  /// Servers write shards. `wait`: for a process that takes the place of one that is lost.
  void keep_shards(std::chrono::milliseconds wait) {
    keeps_shards_ = true;
    watch_.set_wait(wait);
  }
  /// Whether another process may take the place of a server.
  bool awaits_servers() const { return keeps_shards_ && watch_.keeps_places(); }
  /// Another epoch begins: what was said of gradients before does not count.
  void begin_epoch(run_epoch at) {
    at_ = at;
    decision_ = {};
    mine_ = {};
    mine_.steps.assign(workers_, -1);
    sums_ = own_squares_ = {};
    for (peer& each : peers_) {
      each.held = {};
      each.squares = {};
    }
  }

  /// Whether this is the server that decides.
  bool is_first() const { return here_.index() == 0; }

  // ---- what servers say ----

  /// At the first: whether all others hold this worker's gradients of the step.
  bool all_hold(std::size_t worker, std::int64_t step) const {
    return std::all_of(peers_.begin(), peers_.end(), [&](const peer& each) {
      return worker < each.held.steps.size() && each.held.steps[worker] == step;
    });
  }
  /// At the first: the names of those that do not.
  std::string who_lack(std::size_t worker, std::int64_t step) const {
    std::string names;
    for (const peer& each : peers_)
      if (worker >= each.held.steps.size() || each.held.steps[worker] != step)
        append(names, {names.empty() ? "" : ", ", name(each)});
    return names;
  }
  /// The first tells the others.
  void announce(decision_message decided) {
    decision_ = std::move(decided);
    for (peer& each : peers_) each.is_due = each.is_decision_due = true;
  }
  /// Training cannot go on; the first tells the others.
  void end(const error& why) {
    if (ended_) return;
    ended_ = why;
    for (peer& each : peers_) each.is_due = true;
  }

  /// Another server tells the first which gradients it holds.
  void report(held_message holds) {
    mine_ = std::move(holds);
    for (peer& each : peers_) each.is_due = true;
  }
  /// At another server: the decision that has come last.
  const decision_message& decision() const { return decision_; }
  /// Why training cannot go on, as the first says.
  const std::optional<error>& ended() const { return ended_; }

  /// The step is decided anew.
  void drop_decision() { decision_ = {}; }

  // ---- squares of gradients ----

  /// Another server sends its own to the first.
  void report(const squares_message& own) {
    own_squares_ = own;
    for (peer& each : peers_) each.are_squares_due = true;
  }
  /// The first sends the sums to the others.
  void announce(const squares_message& sums) {
    sums_ = sums;
    for (peer& each : peers_) each.are_squares_due = true;
  }
  /// At another server: the sums that arrived last.
  const squares_message& sums() const { return sums_; }
  /// At the first: calls visit(task, squares) for what each other server has sent last.
  template <typename Visit>
  void for_each_squares(Visit visit) const {
    for (const peer& each : peers_) visit(each.task, each.squares);
  }
  /// At the first: the names of the servers whose last squares satisfy the predicate.
  template <typename Predicate>
  std::string names_of(Predicate predicate) const {
    std::string names;
    for (const peer& each : peers_)
      if (predicate(each.squares)) append(names, {names.empty() ? "" : ", ", name(each)});
    return names;
  }

  // ---- shards ----

  /// Another server tells the first where it is.
  void report(shard_status now) {
    status_ = std::move(now);
    for (peer& each : peers_) each.is_status_due = true;
  }
  /// At another server: the order that has come last.
  const std::optional<shard_order>& order() const { return order_; }
  /// At the first: calls visit(task, status, is_ordered) for the others, with nullptr where one has not said it.
  /// `is_ordered`: it was told in which epoch training is, since its process has come.
  template <typename Visit>
  void for_each_status(Visit visit) const {
    for (const peer& each : peers_) visit(each.task, each.status ? &*each.status : nullptr, each.order.has_value());
  }
  /// The first tells another. One that has just been started hears nothing before an epoch begins for it, too.
  void order(int task, const shard_order& said, bool begins) {
    for (peer& each : peers_) {
      if (each.task != task || (!begins && !each.order)) continue;
      each.order = said;
      each.is_status_due = true;
    }
  }
  /// The names of the servers that have not said where they are, or whose order has not come.
  std::string silent_servers() const {
    std::string names;
    for (const peer& each : peers_)
      if (!is_first() || !each.status) append(names, {names.empty() ? "" : ", ", name(each)});
    return names;
  }

  /// Why training cannot go on without another parameter server.
  std::optional<error> lost_server() {
    for (peer& each : peers_) {
      const task_state state = members_.state(each.rank, each.incarnation);
      const bool has_left = state == task_state::left;
      const bool says_why = has_left && members_.has_failed(each.rank);
      const bool may_return = awaits_servers() && !says_why;
      const auto member = static_cast<std::size_t>(each.task);
      const auto now = detail::now();
      watch_.note(member, state == task_state::lost || says_why || (may_return && has_left), now);
      if (!watch_.is_missing(member) || (may_return && !watch_.is_over(member, now))) continue;
      const error why = members_.diagnose(each.rank, each.incarnation, "push_pull", "is gone");
      if (may_return) return watch_.not_replaced(why, "push_pull");
      return says_why ? why
                      : error(why.code(), "push_pull",
                              {why.sentence(),
                               keeps_shards_ ? "; another process may take its place where the loss policy waits"
                                             : "; another process may take its place where all parameter servers "
                                               "write shards (server_options::shards) and the loss policy waits"});
    }
    return {};
  }

  // ---- input and output ----

  /// Opens what is not open, and moves what can be moved. Returns whether anything happened.
  bool serve() {
    if (!has_begun_) return false;
    bool moved = accept();
    for (peer& each : peers_) {
      if (!each.is_open && !open(each)) continue;
      try {
        moved |= advance(each);
      } catch (const error& problem) {
        close(each);
        if (problem.code() != error_code::unavailable)
          end(error(error_code::internal, "push_pull", {name(each), " broke the protocol: ", problem.sentence()}));
        moved = true;
      }
    }
    return moved;
  }
  /// Whether nothing that others are to hear is on its way.
  bool has_told_all() const {
    return std::none_of(peers_.begin(), peers_.end(),
                        [](const peer& each) { return each.is_open && (!each.out.idle() || each.is_anything_due()); });
  }
  template <typename Items>
  void add_to(Items& items) const {
    for (const peer& each : peers_)
      if (each.is_open) items.push_back({&each.stream, true, !each.out.idle()});
  }

 private:
  struct peer {
    std::size_t rank;
    int task;
    std::uint64_t incarnation = 0, number = 0;
    bool is_open = false, is_due = false;  // is_due: it is to hear what there is to say of gradients
    bool is_decision_due = false;          // and the last decision, also if training has ended with it
    bool is_status_due = false;            // and of shards
    bool are_squares_due = false;
    any_transport::stream stream{};
    frame_reader in{};
    frame_writer out{};
    std::vector<std::byte> came{}, sent{};
    held_message held{};
    squares_message squares{};
    std::optional<shard_status> status{};
    std::optional<shard_order> order{};
    std::optional<deadline::time_point> again{};  // when the connection is to be opened again

    peer(std::size_t of, int number_of_task) : rank(of), task(number_of_task) {}
    bool is_anything_due() const { return is_due || is_status_due || are_squares_due; }
  };

  std::string name(const peer& each) const { return to_string(members_.task(each.rank)); }
  std::uint64_t max_bytes() const {
    return std::max({max_control_bytes, shard_order::max_bytes(workers_), std::uint64_t{64} + 8 * max_squares_});
  }

  bool accept() {
    peer_channel next;
    bool any = false;
    while (is_first() && here_.take_channel(decision_channel, next))
      for (peer& each : peers_) {
        if (each.rank != next.rank || (each.incarnation == next.incarnation && next.number < each.number)) continue;
        const bool is_other = each.incarnation != 0 && each.incarnation != next.incarnation;
        if (is_other && !awaits_servers()) continue;  // what the first held is gone
        attach(each, std::move(next));
        any = true;
        break;
      }
    return any;
  }

  bool open(peer& to) {
    if (is_first() || members_.state(to.rank) != task_state::alive) return false;
    if (to.incarnation != 0 && members_.incarnation(to.rank) != to.incarnation && !awaits_servers()) return false;
    const auto now = detail::now();
    if (to.again && now < *to.again) return false;
    try {
      attach(to, here_.open_channel(to.rank, decision_channel, moment(std::chrono::milliseconds(1000))));
      return true;
    } catch (const error&) {  // supervision says whether it is lost
      to.again = detail::now() + std::chrono::milliseconds(100);
      return false;
    }
  }

  void attach(peer& to, peer_channel opened) {
    to.stream = std::move(opened.stream);
    if (to.incarnation != opened.incarnation) {  // another process: it has said nothing yet
      to.held = {};
      to.squares = {};
      to.status.reset();
      to.order.reset();
      if (!is_first()) order_.reset();
    }
    to.incarnation = opened.incarnation;
    to.number = opened.number;
    to.in = {};
    to.out = {};
    to.in.expect(max_bytes());
    to.is_open = to.is_due = to.is_decision_due = to.is_status_due = to.are_squares_due = true;
  }
  void close(peer& with) {
    with.stream.close();
    with.is_open = false;
    with.again = detail::now() + std::chrono::milliseconds(20);
  }

  bool advance(peer& with) {
    bool moved = false;
    for (;;) {
      moved |= with.in.advance(with.stream, with.came) > 0;
      if (!with.in.complete()) break;
      take(with);
      with.in.expect(max_bytes());
    }
    moved |= with.out.advance(with.stream) > 0;
    while (with.out.idle() && with.is_anything_due() && say(with)) moved |= with.out.advance(with.stream) > 0;
    return moved;
  }

  void take(peer& from) {
    const frame_kind kind = from.in.header().kind;
    const bool is_of_epoch = from.in.header().tag == at_.bits;
    if (is_first() && kind == frame_kind::held) {
      held_message said = held_message::read(from.came, workers_);
      if (is_of_epoch) from.held = std::move(said);
    } else if (!is_first() && kind == frame_kind::decision) {
      decision_message said = decision_message::read(from.came, workers_);
      if (is_of_epoch) decision_ = std::move(said);
    } else if (kind == frame_kind::squares && max_squares_ != 0) {
      squares_message said = squares_message::read(from.came);
      if (is_of_epoch) (is_first() ? from.squares : sums_) = std::move(said);
    } else if (is_first() && kind == frame_kind::shard_status) {
      from.status = shard_status::read(from.came);
      if (!keeps_shards_)
        end(error(error_code::failed_precondition, "push_pull",
                  {name(from), " writes shards, and ", here_.name(),
                   " does not; set server_options::shards on all parameter servers, or on none"}));
    } else if (!is_first() && keeps_shards_ && kind == frame_kind::shard_order) {
      order_ = shard_order::read(from.came, workers_);
    } else if (!is_first() && kind == frame_kind::failure)
      ended_ = read_error(from.came, "push_pull");
    else
      message_reader::malformed();
  }

  /// Begins the next message, which is of shards where there is one; returns whether it has anything to say.
  bool say(peer& to) {
    frame_header header;
    header.tag = at_.bits;
    if (std::exchange(to.is_status_due, false) && !ended_) {
      if (is_first() && to.order) {
        header.kind = frame_kind::shard_order;
        to.sent = to.order->bytes();
      } else if (!is_first() && keeps_shards_) {
        header.kind = frame_kind::shard_status;
        to.sent = status_.bytes();
      }
      if (header.kind != frame_kind{}) {
        to.out.start(header, const_bytes(to.sent));
        return true;
      }
    }
    if (const squares_message& squares = is_first() ? sums_ : own_squares_;
        std::exchange(to.are_squares_due, false) && squares.step >= 0 && !ended_) {
      header.kind = frame_kind::squares;
      to.sent = squares.bytes();
      to.out.start(header, const_bytes(to.sent));
      return true;
    }
    if (!std::exchange(to.is_due, false)) return false;
    if (!is_first()) {
      header.kind = frame_kind::held;
      to.sent = mine_.bytes();
    } else if (std::exchange(to.is_decision_due, false) && decision_.step >= 0) {
      header.kind = frame_kind::decision;
      to.sent = decision_.bytes();
      to.is_due = ended_.has_value();
    } else if (ended_) {
      header.kind = frame_kind::failure;
      to.sent = error_bytes(ended_->code(), ended_->sentence());
    } else {
      return false;
    }
    to.out.start(header, const_bytes(to.sent));
    return true;
  }

  task_server& here_;
  membership& members_;
  std::size_t workers_;
  bool has_begun_ = false;
  std::vector<peer> peers_;
  decision_message decision_;
  held_message mine_;
  squares_message own_squares_, sums_;  // to and from the first
  std::size_t max_squares_ = 0;
  std::optional<error> ended_;
  bool keeps_shards_ = false;
  loss_watch watch_;  // members by task
  run_epoch at_;
  shard_status status_;
  std::optional<shard_order> order_;
};

}  // namespace weft::detail
