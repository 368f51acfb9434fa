// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/membership/links/peer_link.hpp>
#include <weft/distributed/membership/loss_policy.hpp>
#include <weft/distributed/membership/loss_watch.hpp>
#include <weft/distributed/membership/membership.hpp>
#include <weft/distributed/membership/peer_channel.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/distributed/membership/views/training_program.hpp>
#include <weft/distributed/membership/views/view.hpp>
#include <weft/error.hpp>
#include <weft/transport/any_transport.hpp>

namespace weft::detail {

/// Performs the agreement on a view (view.hpp) with the other workers, on the thread that trains. A worker sends on
/// channels that it opens itself, and receives on the channels of the other workers. Messages that are lost with a
/// channel are sent again.
class view_meeting {
 public:
  view_meeting(task_server& here, training_program program, loss_policy policy)
      : here_(here),
        policy_(policy),
        workers_(here.cluster().num_tasks(here.job())),
        agreement_({here.index(), here.incarnation()}, workers_, std::move(program), policy, here.job()),
        watch_(policy.wait),
        fates_(static_cast<std::size_t>(workers_)) {}

  const training_view& current() const { return agreement_.current(); }

  static constexpr const char* prefix = "view/";

  /// The channel on which a member of this epoch's view reports that it has left the group.
  static std::string channel_of(std::uint64_t epoch) { return str_cat({prefix, epoch}); }

  /// Returns true if a process of a worker outside the view waits to join.
  bool has_newcomers() const {
    bool found = false;
    here_.for_each_channel([&](std::size_t rank, std::uint64_t, const std::string& name) {
      const task_id& task = here_.members().task(rank);
      found |= name.starts_with(prefix) && task.job == here_.job() && !current().find(task.index);
    });
    return found;
  }

  /// Returns true if a member has left without an error.
  bool has_finished_member() const {
    const membership& members = here_.members();
    return std::any_of(current().members.begin(), current().members.end(), [&](const view_member& each) {
      const std::size_t rank = rank_of(each.index);
      return members.state(rank, each.incarnation) == task_state::left && !members.has_failed(rank, each.incarnation);
    });
  }

  /// Agrees with the other workers on the next view. `updates`: the number that this worker has made; -1: it has no
  /// values. `finishes`: it makes no more updates, and the meeting ends if a member has left without an error. `until`:
  /// the deadline of the present step or, before the first view, of the call. Throws weft::error: deadline_exceeded
  /// with the awaited workers (the next call continues); unavailable with the missing workers if too few remain, no
  /// process has replaced a lost worker, the run has ended, or there is no agreement in time; aborted if the other
  /// workers train without this one; cancelled if this server stops.
  training_view meet(std::int64_t updates, bool admits, bool finishes, deadline until) {
    const bool starts = current().epoch == 0;
    if (!std::exchange(is_under_way_, false)) {
      watch_.begin(detail::now());
      patience_ = std::max<duration>(until.remaining(std::chrono::duration_cast<duration>(std::chrono::hours(24))),
                                     longest_silence());
      here_.connect_to(here_.job());
      opened_in_ = current().epoch;
      agreement_.begin(updates, admits);
    }
    look();
    agreement_.resend();
    moment next_resend = detail::now() + resend_interval;
    for (;;) {
      if (here_.stopping()) throw error(error_code::cancelled, operation, "this server was stopped");
      bool moved = hear();
      look();
      const moment now = detail::now();
      const auto waited = watch_.elapsed(now);
      if (!starts) {
        check_given_up();
        if (finishes && has_finished_member()) throw error(error_code::unavailable, operation, "the run has ended");
        if (waited >= newcomers_time) agreement_.stop_waiting_for_newcomers();
        if (watch_.is_over(now)) agreement_.stop_waiting_for_places();
        if (watch_.is_over(now) && waited >= longest_silence()) agreement_.stop_waiting_for_proof();
        if (waited >= policy_.wait + patience_) agreement_.stop_waiting_for_members();
        if (waited >= policy_.wait + patience_ + longest_silence()) agreement_.give_up();
      } else if (until.expired()) {
        tell_who_is_missing(until);
      } else if (const auto why = here_.members().refusal()) {
        throw *why;
      } else {
        look_for_group();
        check_run_has_ended();
      }
      agreement_.advance();
      if (now >= next_resend) {
        agreement_.resend();
        next_resend = now + resend_interval;
      }
      moved |= say();
      if (const auto& why = agreement_.failure()) {
        if (agreement_.has_other_policy()) tell_policy();
        throw *why;
      }
      if (agreement_.decided()) break;
      if (!starts && until.expired()) {
        is_under_way_ = true;
        throw error(error_code::deadline_exceeded, operation, agreement_.whom_it_awaits());
      }
      // Workers whose wait was in vain end one after the other; these ends are not reported as new waits.
      if (starts ? waited >= quiet_time : waited <= policy_.wait / 2) report_wait(starts, until);
      if (!moved) detail::sleep(pause);
    }
    say_the_rest();
    peers_.clear();
    return current();
  }

 private:
  using moment = deadline::time_point;
  using duration = deadline::duration;

  /// Reports the workers that the meeting waits for, if the policy waits, until training continues or ends.
  void report_wait(bool starts, deadline until) {
    membership& members = here_.members();
    awaited_tasks tasks;
    for (int index = 0; index < workers_; ++index) {
      const std::size_t rank = rank_of(index);
      const view_member* const former = current().find(index);
      if (index == here_.index() || !(starts ? !agreement_.has_heard(index) : former && agreement_.awaits(index)))
        continue;
      const std::string why = members.reason(rank, former ? former->incarnation : 0);
      tasks.add_lost(members.task(rank), why.empty() && starts ? "has not connected" : why);
    }
    const auto left = std::chrono::ceil<std::chrono::seconds>(until.remaining(std::chrono::hours(24)));
    members.waits().begin(tasks, starts ? left : policy_.wait, !starts);
  }

  void say_the_rest() {
    const deadline last(std::chrono::duration_cast<duration>(std::chrono::seconds(1)));
    while (!last.expired() && !here_.stopping() && !all_is_said()) {
      look();
      say();
      detail::sleep(pause);
    }
  }
  /// Resends the policy for half a second: a peer drops messages from a sender that has left.
  void tell_policy() {
    const deadline last(std::chrono::duration_cast<duration>(std::chrono::milliseconds(500)));
    while (!last.expired() && !here_.stopping() && is_anybody_there()) {
      look();
      agreement_.say_policy();  // a peer that has not connected to this process yet ignores the message
      say();
      detail::sleep(std::chrono::milliseconds(50));
    }
  }
  bool is_anybody_there() const {
    for (int index = 0; index < workers_; ++index)
      if (index != here_.index() && here_.members().state(rank_of(index)) == task_state::alive) return true;
    return false;
  }

  /// Detects a worker without a policy, which opens the channel of a group at once and sends nothing here.
  void look_for_group() {
    if (policy_ == loss_policy{} || watch_.elapsed(detail::now()) < newcomers_time) return;
    here_.for_each_channel([&](std::size_t rank, std::uint64_t, const std::string& name) {
      const task_id& task = here_.members().task(rank);
      if (name == group_channel && task.job == here_.job() && !agreement_.has_heard(task.index))
        agreement_.refuse_policy(task.index, {});
    });
  }

  /// Throws if this process was started as a replacement when the other workers were about to end. If they begin
  /// another run at once, their new processes connect soon.
  void check_run_has_ended() const {
    const membership& members = here_.members();
    for (int index = 0; index < workers_; ++index)
      if (const std::size_t rank = rank_of(index);
          members.has_finished(rank) &&
          watch_.is_missing_for(static_cast<std::size_t>(index), std::chrono::seconds(2), detail::now()))
        throw error(error_code::unavailable, operation,
                    {"training ended without ", here_.name(), ": ", to_string(members.task(rank)),
                     " finished it with all workers that were alive"});
  }

  static constexpr const char* operation = "exchange";
  static constexpr const char* group_channel = "all_reduce";  // all_reduce_options::channel, in a layer above this
                                                              // folder
  static constexpr std::chrono::milliseconds pause{5}, resend_interval{250}, newcomers_time{1000}, quiet_time{3000};
  static constexpr std::chrono::milliseconds time_to_open{2000}, between_probes{100};

  /// A worker's messages arrive on the connection that it has opened; messages to it leave on this worker's connection.
  struct peer {
    peer_link hears, says;

    explicit peer(std::size_t rank) : hears(rank), says(rank) {}
  };
  struct fate {
    std::uint64_t incarnation = 0;
    bool is_proven = false;
    moment probed{};
  };

  std::size_t rank_of(int index) const { return here_.cluster().rank({here_.job(), index}); }

  /// Returns the time by which workers can differ in detecting a silent worker.
  duration longest_silence() const {
    std::chrono::milliseconds longest{1000};
    for (int index = 0; index < workers_; ++index) longest = std::max(longest, here_.heartbeat_timeout(rank_of(index)));
    return std::chrono::duration_cast<duration>(2 * longest + std::chrono::seconds(1));
  }

  /// Passes the states of all workers to the agreement.
  void look() {
    const membership& members = here_.members();
    for (int index = 0; index < workers_; ++index) {
      if (index == here_.index()) continue;
      const std::size_t rank = rank_of(index);
      const std::uint64_t incarnation = members.incarnation(rank);
      const presence is = presence_of(index, rank, incarnation);
      agreement_.see(index, incarnation, is);
      const moment now = detail::now();
      const auto member = static_cast<std::size_t>(index);
      watch_.note(member, is != presence::alive, now);
      // Members detect a loss at different times.
      agreement_.set_overdue(index, watch_.is_missing_for(member, policy_.wait - std::chrono::seconds(1), now));
      const view_member* const former = current().find(index);
      if (former && former->incarnation != incarnation && members.state(rank, former->incarnation) == task_state::left)
        agreement_.see_former(index, former->incarnation, presence::dead);
    }
  }

  /// Throws if this worker was only silent and the other workers have given it up. They do not accept this process
  /// again: without a majority it would wait in vain, and keep a new process from taking its place. If two halves have
  /// given up each other, the half with the lowest worker remains.
  void check_given_up() const {
    std::size_t lost = 0, told = 0;
    std::string who;
    for (const view_member& each : current().members) {
      const std::size_t rank = rank_of(each.index);
      const membership& members = here_.members();
      if (each.index == here_.index() || members.incarnation(rank) != each.incarnation) continue;
      const membership::verdict said = members.verdict_of(rank);
      if (said == membership::verdict::none || members.state(rank) != task_state::lost) continue;
      ++lost;
      if (said == membership::verdict::given_up) ++told;
      append(who, {who.empty() ? "" : ", ", to_string(members.task(rank))});
    }
    const std::size_t all = current().members.size();
    const bool is_lowest = all > 0 && current().members.front().index == here_.index();
    if ((told > 0 && 2 * told >= all) || 2 * lost > all || (lost > 0 && 2 * lost == all && !is_lowest))
      throw error(error_code::aborted, operation,
                  {here_.name(), " sent nothing for too long and was declared lost by ", who, "; start it again"});
  }

  presence presence_of(int index, std::size_t rank, std::uint64_t incarnation) {
    switch (here_.members().state(rank, incarnation)) {
      case task_state::awaited:
        return presence::awaited;
      case task_state::alive:
        return presence::alive;
      case task_state::left:
        return presence::dead;
      case task_state::lost:
        break;
    }
    const membership& members = here_.members();
    if (!members.has_closed(rank) && !members.is_hearsay(rank))
      return members.verdict_of(rank) == membership::verdict::given_up ? presence::silent : presence::given_up;
    fate& its = fates_[static_cast<std::size_t>(index)];
    if (its.incarnation != incarnation) its = {incarnation, false, {}};
    if (!its.is_proven && here_.members().has_closed(rank)) {
      const moment now = detail::now();
      if (its.probed == moment{} || now >= its.probed + between_probes) {
        its.probed = now;
        its.is_proven = here_.network().refuses(here_.address_of(rank));
      }
    }
    return its.is_proven ? presence::dead : presence::silent;
  }

  /// Receives channels and messages. Returns true if any have arrived.
  bool hear() {
    bool moved = false;
    for (peer_channel opened; here_.take_channel_of(prefix, opened);) {
      if (here_.members().task(opened.rank).job != here_.job()) continue;
      peer_with(opened.rank).says.take(std::move(opened));
      moved = true;
    }
    for (peer& each : peers_) try {
        for (int frames = 0; frames < 16 && each.says.is_open() && each.says.receive(); ++frames) {
          take(each.says);
          moved = true;
        }
      } catch (const error&) {
        each.says.drop();  // the worker is gone, or has opened another channel
      }
    return moved;
  }

  void take(const peer_link& from) {
    if (from.header().kind != frame_kind::group) message_reader::malformed();
    const view_message said = view_message::read(from.payload(), workers_);
    if (rank_of(said.from.index) != from.rank() || said.from.incarnation != from.incarnation())
      message_reader::malformed();
    // A message proves that its sender is alive, even if this server has not met the new process yet.
    agreement_.receive(said);
  }

  /// Sends the messages of the agreement, as far as the connections accept bytes.
  bool say() {
    bool moved = false;
    for (auto& each : agreement_.take_messages())
      peer_with(rank_of(each.to)).hears.post(frame_kind::group, each.what.bytes());
    for (peer& each : peers_) {
      peer_link& to = each.hears;
      if (!to.is_open() && to.has_posted()) {
        if (here_.members().state(to.rank()) == task_state::alive)
          to.open(here_, channel_of(opened_in_), time_to_open);
        else
          to.clear_posted();
      }
      try {
        moved |= to.is_open() && to.say();
      } catch (const error&) {
        to.drop();  // gone or unresponsive; the message is sent again if the worker is alive
      }
    }
    return moved;
  }

  peer& peer_with(std::size_t rank) {
    for (peer& each : peers_)
      if (each.hears.rank() == rank) return each;
    return peers_.emplace_back(rank);
  }

  bool all_is_said() const {
    return std::all_of(peers_.begin(), peers_.end(), [&](const peer& each) {
      const bool is_there = here_.members().state(each.hears.rank()) == task_state::alive;
      return !is_there || (!each.hears.has_posted() && each.hears.has_said_all());
    });
  }

  /// Before the first view, all workers are required.
  [[noreturn]] void tell_who_is_missing(deadline until) {
    const membership& members = here_.members();
    here_.members().wait_for(until, [&](const task_id& task) { return task.job == here_.job(); });
    for (int index = 0; index < workers_; ++index)
      if (const std::size_t rank = rank_of(index); members.state(rank) == task_state::left)
        throw members.diagnose(rank, members.incarnation(rank), operation, "is gone");
    const std::string given_up = agreement_.who_is_given_up(), quiet = agreement_.who_is_quiet();
    throw error(
        error_code::deadline_exceeded, operation,
        {"the workers did not agree in time on which workers train", given_up.empty() ? "" : ": ", given_up,
         quiet.empty() ? "" : "; no message from ", quiet,
         given_up.empty() && quiet.empty() ? "; give all of them the same collective::on_loss"
                                           : "; start the workers again that were declared lost or have ended"});
  }

  task_server& here_;
  loss_policy policy_;
  int workers_;
  view_agreement agreement_;
  loss_watch watch_;             // absences in this meeting; members by index
  std::vector<fate> fates_;      // by index, for processes whose connections have ended
  std::uint64_t opened_in_ = 0;  // the epoch in which channels are opened
  bool is_under_way_ = false;
  duration patience_{};
  std::list<peer> peers_;
};

}  // namespace weft::detail
