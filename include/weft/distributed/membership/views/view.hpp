// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/distributed/membership/loss_policy.hpp>
#include <weft/distributed/membership/loss_watch.hpp>
#include <weft/distributed/membership/training_view.hpp>
#include <weft/distributed/membership/views/training_program.hpp>
#include <weft/distributed/membership/views/view_members.hpp>
#include <weft/distributed/membership/views/view_message.hpp>
#include <weft/error.hpp>

namespace weft {

namespace detail {

/// The agreement of workers on the next view, when a member of the present one is gone or another process waits to
/// join. Each epoch is one decision of Paxos (Lamport 1998); the acceptors of epoch e + 1 are the members of e. A
/// proposer requires a majority of them. Half of them suffice if they include the member of lowest index, and any
/// number if all others are dead. The live member of lowest index proposes; if two members propose, the higher ballot
/// wins.
///
/// A live member that another member has given up must leave; of two members that have given up each other, the one of
/// higher index. Each member reports which members it has given up, and a member connected to both sides forwards that
/// to all. Otherwise, members connected to both sides would propose a view that cannot work.
///
/// Takes events and returns messages; contains no sockets and no clocks. Must exist as long as its process trains,
/// because an acceptor must not forget its promises.
class view_agreement : private view_members {
 public:
  using view_members::current, view_members::has_heard, view_members::see, view_members::see_former,
      view_members::set_overdue, view_members::who_is_given_up, view_members::who_is_quiet;

  struct outgoing {
    int to;
    view_message what;
  };

  /// `job`: the workers' job, for messages.
  view_agreement(view_member self, int workers, training_program program, loss_policy policy,
                 std::string job = "worker")
      : view_members(self, workers, std::move(job)), policy_(policy), program_(std::move(program)) {}

  /// Starts a meeting after this process has left its group. `updates`: the number that it has made; -1: it has no
  /// values. `admits`: it has left to admit processes that wait to join. The meeting ends with decided() or with a
  /// failure().
  void begin(std::int64_t updates, bool admits = false) {
    updates_ = updates;
    decided_ = false;
    failure_.reset();
    waits_for_places_ = waits_for_members_ = waits_for_proof_ = true;
    waits_for_newcomers_ = admits;
    phase_ = phase::idle;
    forget_meeting();
  }
  bool decided() const { return decided_; }
  const std::optional<error>& failure() const { return failure_; }

  /// Ends the wait for live processes that have not asked to join yet; the functions below also end the waits for
  /// replacements of lost members and for members that still compute.
  void stop_waiting_for_newcomers() { waits_for_newcomers_ = false; }
  /// Ends the wait for the proof that a silent member is dead.
  void stop_waiting_for_proof() { waits_for_proof_ = false; }
  void stop_waiting_for_places() { waits_for_places_ = waits_for_newcomers_ = false; }
  void stop_waiting_for_members() { waits_for_places_ = waits_for_members_ = waits_for_newcomers_ = false; }
  /// Fails because the other workers have not answered for too long.
  void give_up() {
    if (decided_ || failure_) return;
    const std::string given_up = who_is_given_up();
    fail(error_code::unavailable, {"the workers did not agree in time on which workers continue", missing("; "),
                                   given_up.empty() ? "" : "; ", given_up});
  }

  void receive(const view_message& said) {
    if (said.from.index < 0 || said.from.index >= workers() || said.from.index == self_.index) return;
    known& of = at(said.from.index);
    if (of.process != said.from.incarnation) return;  // the sender was replaced, or is not connected yet
    if (said.policy != policy_) {
      if (current_.epoch == 0) refuse_policy(said.from.index, said.policy);  // after that, only the newcomer fails
      return;
    }
    // Before the first view, the group compares programs, and its error contains more details.
    if (said.program != program_ && !said.current.has(self_) && (said.current.epoch > 0 || current_.epoch > 0)) {
      if (current_.epoch == 0)
        fail(error_code::failed_precondition,
             {to_string(task_id{job_, said.from.index}),
              " and the other workers run a different program than this worker: ", program_.difference(said.program),
              "; start it with the same program and flags"});
      return;
    }
    // A message about an older view can arrive late.
    const bool is_news = said.current.epoch >= current_.epoch || said.current.epoch == 0;
    if (is_news && (!of.has_said || said.current.epoch >= of.said.epoch)) {
      of.updates = of.has_said ? std::max(of.updates, said.updates) : said.updates;
      of.said = said.current;
      of.has_said = true;
    }
    note_given_up(of, said.given_up);
    if (said.current.epoch > current_.epoch) return follow(said.current);
    if (said.current.epoch < current_.epoch) {
      send(said.from.index, view_message::kind::hello);
      return;
    }
    if (of.is == presence::alive)
      for (const given_up_member& each : said.seen_given_up) note_given_up(each);
    using kind = view_message::kind;
    switch (said.what) {
      case kind::hello:
        break;
      case kind::prepare:
        answer_prepare(said);
        break;
      case kind::propose:
        answer_proposal(said);
        break;
      case kind::report:
        if (said.ballot != ballot_ || phase_ != phase::preparing) break;
        of.has_reported = true;
        of.accepted_ballot = said.accepted_ballot;
        of.accepted = said.value;
        break;
      case kind::accepted:
        if (said.ballot == ballot_ && phase_ == phase::proposing) of.has_accepted = true;
        break;
      case kind::refused:
        if (said.ballot > promised_) promised_ = said.ballot;
        if (phase_ != phase::idle && said.ballot > ballot_) phase_ = phase::idle;
        break;
    }
  }

  /// Fails before the first view, because another worker has another policy.
  void refuse_policy(int index, const loss_policy& its) {
    const bool is_first = !has_other_policy_;
    has_other_policy_ = true;
    if (is_first)
      fail(error_code::failed_precondition,
           {name_of(index), " and ", name_of(self_.index),
            " have different collective::on_loss policies: ", name_of(index), " ", policy_words(its), ", ",
            name_of(self_.index), " ", policy_words(policy_), "; give all workers the same policy"});
  }
  /// Returns true if policies differ, which all workers must learn.
  bool has_other_policy() const { return has_other_policy_; }
  void say_policy() {
    for (int index = 0; index < workers(); ++index)
      if (index != self_.index && at(index).is == presence::alive) send(index, view_message::kind::hello);
  }

  /// Advances the meeting as far as the known states allow.
  void advance() {
    if (decided_ || failure_) return;
    look_for_given_up();
    if (failure_) return;
    if (!leads()) {
      phase_ = phase::idle;
      return;
    }
    if (phase_ == phase::idle) {
      if (!all_are_heard()) return;
      ballot_ = (promised_ / round + 1) * round + static_cast<std::uint64_t>(self_.index);
      promised_ = ballot_;
      phase_ = phase::preparing;
      for (known& each : known_) each.has_reported = each.has_accepted = false;
      resend();
    }
    if (phase_ == phase::preparing) prepare();
    if (phase_ == phase::proposing) propose();
  }

  /// Sends messages again that may have been lost. Called at intervals, and after begin().
  void resend() {
    if (decided_ || failure_) return;
    for (int index = 0; index < workers(); ++index) {
      const known& of = at(index);
      if (index == self_.index || of.is != presence::alive) continue;
      if (is_excluded({index, of.process}))
        send(index, view_message::kind::hello);
      else if (phase_ == phase::preparing && is_member(index) && !of.has_reported)
        send(index, view_message::kind::prepare);
      else if (phase_ == phase::proposing && is_member(index) && !of.has_accepted)
        send(index, view_message::kind::propose);
      else
        send(index, view_message::kind::hello);
    }
  }

  /// Returns true if this meeting waits for a process in place of a member that is lost.
  bool awaits(int index) const {
    const view_member* const member = current_.find(index);
    return waits_for_places_ && member && !(*member == self_) && is_lost(*member);
  }
  /// Describes what this meeting still waits for.
  std::string whom_it_awaits() const {
    const std::string lost = names_of([&](const view_member& each) { return is_lost(each); });
    const std::string quiet =
        names_of([&](const view_member& each) { return is_alive(each) && !at(each.index).has_said; });
    std::string text;
    if (waits_for_places_ && !lost.empty()) text = not_replaced_yet(lost);
    if (!quiet.empty()) append(text, {text.empty() ? "" : "; ", quiet, " has not answered in time"});
    if (text.empty()) text = "the workers did not agree in time on which workers continue";
    return text;
  }

  std::vector<outgoing> take_messages() { return std::exchange(out_, {}); }

  /// Returns true if this process proposes, according to its own records.
  bool leads() const {
    if (current_.epoch == 0)
      return self_.index == 0 && std::none_of(known_.begin(), known_.end(),
                                              [](const known& each) { return each.has_said && each.said.epoch > 0; });
    for (const view_member& each : current_.members) {
      if (each.index == self_.index) return true;
      if (is_alive(each)) return false;
    }
    return false;
  }

 private:
  static constexpr std::uint64_t round = std::uint64_t{1} << 20;  // a ballot is a multiple of this plus the proposer's
                                                                  // index
  enum class phase : unsigned char { idle, preparing, proposing };

  /// Finds members that have given up this process, or a process that has sent messages since and therefore is not
  /// dead.
  void look_for_given_up() {
    for (const view_member& each : current_.members) {
      const known& of = at(each.index);
      if (each == self_ || !is_heard(each) || !of.has_said) continue;
      for (const auto& [who, since] : of.has_given_up)
        if (who == self_ || (current_.has(who) && is_heard(who) && at(who.index).said_at > since))
          note_given_up({each, who});
    }
    if (const view_member* const by = excluding(self_))
      fail(error_code::aborted, {"the other workers continue without this one: ", name_of(by->index),
                                 " declared it lost; start this worker again"});
  }
  /// Returns true if all members that this meeting waits for have answered.
  bool all_are_heard() {
    if (current_.epoch == 0) {
      for (int index = 0; index < workers(); ++index)
        if (index != self_.index && (at(index).is != presence::alive || !at(index).has_said)) return false;
      return true;
    }
    bool computes = false, unclear = false, misses = false;
    for (const view_member& each : current_.members) {
      if (each == self_) continue;
      if (is_alive(each)) {
        computes |= !at(each.index).has_said;
      } else {
        misses |= !is_newcomer(each.index);
        unclear |= !is_dead(each);
      }
    }
    if (computes && waits_for_members_) return false;
    if (misses && waits_for_places_) return false;
    if (waits_for_newcomers_)
      for (int index = 0; index < workers(); ++index)
        if (index != self_.index && at(index).is == presence::alive && !at(index).has_said) return false;
    if (!is_quorum([&](int index) { return at(index).is == presence::alive && at(index).has_said; })) {
      if (waits_for_proof_ && unclear) return false;
      fail_as_minority();
      return false;
    }
    if (misses && policy_.then == loss_action::stop) {
      fail_after_wait();
      return false;
    }
    return true;
  }

  /// Returns true if a live member of the meeting has not answered yet. A quorum does not require it, but it should
  /// learn the decision in case the other members end before they can send it.
  template <typename Holds>
  bool somebody_is_to_answer(Holds holds) const {
    for (int index = 0; index < workers(); ++index)
      if (index != self_.index && is_member(index) && at(index).is == presence::alive && at(index).has_said &&
          !is_excluded({index, at(index).process}) && !holds(index))
        return true;
    return false;
  }

  void prepare() {
    const auto reported = [&](int index) { return at(index).has_reported; };
    if (somebody_is_to_answer(reported)) return;
    if (!is_quorum(reported)) return void(phase_ = phase::idle);
    value_ = next_view();
    if (failure_) return;
    // Before the first view nobody trains, so values that were accepted earlier are not binding.
    std::uint64_t highest = current_.epoch > 0 ? accepted_ballot_ : 0;
    if (highest > 0) value_ = accepted_;
    for (int index = 0; current_.epoch > 0 && index < workers(); ++index)
      if (index != self_.index && is_member(index) && reported(index) && at(index).accepted_ballot > highest) {
        highest = at(index).accepted_ballot;
        value_ = at(index).accepted;
      }
    phase_ = phase::proposing;
    accepted_ballot_ = ballot_;
    accepted_ = value_;
    resend();
  }

  void propose() {
    const auto accepted = [&](int index) { return at(index).has_accepted; };
    if (somebody_is_to_answer(accepted)) return;
    if (!is_quorum(accepted)) {
      if (!is_quorum([&](int index) { return at(index).is == presence::alive && at(index).has_said; }))
        phase_ = phase::idle;
      return;
    }
    follow(value_);
  }

  training_view next_view() {
    training_view next;
    next.epoch = current_.epoch + 1;
    std::int64_t most = updates_;
    const auto takes_part = [&](int index) {
      if (index != self_.index && is_member(index))
        return at(index).has_reported && !is_excluded({index, at(index).process});
      return index == self_.index || is_newcomer(index);
    };
    const auto updates_of = [&](int index) { return index == self_.index ? updates_ : at(index).updates; };
    const auto process_of = [&](int index) { return index == self_.index ? self_.incarnation : at(index).process; };
    for (int index = 0; index < workers(); ++index)
      if (takes_part(index) && (is_member(index) || current_.epoch == 0)) most = std::max(most, updates_of(index));
    if (most < 0 && current_.epoch > 0)
      fail(error_code::unavailable,
           {"the last worker that had the current variables is gone; start all workers again"});
    bool has_source = false;
    std::vector<replica_part> parts(known_.size(), replica_part::lost);
    for (int index = 0; index < workers(); ++index) {
      if (!takes_part(index)) continue;
      parts[static_cast<std::size_t>(index)] = replica_part::computes;
      next.members.push_back({index, process_of(index)});
      const bool is_whole = is_member(index) && updates_of(index) == most;
      if (is_whole && !std::exchange(has_source, true)) next.source = index;
      next.brings_values |= !is_whole;
    }
    next.updates = std::max<std::int64_t>(most, 0);
    next.owners = assign_replicas(current_.owners, parts);
    return next;
  }

  void answer_prepare(const view_message& said) {
    if (said.ballot < promised_) return send(said.from.index, view_message::kind::refused, promised_);
    if (said.ballot > promised_ && phase_ != phase::idle) phase_ = phase::idle;
    promised_ = said.ballot;
    send(said.from.index, view_message::kind::report, said.ballot);
  }

  void answer_proposal(const view_message& said) {
    if (said.ballot < promised_ || said.value.epoch != current_.epoch + 1)
      return send(said.from.index, view_message::kind::refused, promised_);
    promised_ = accepted_ballot_ = said.ballot;
    accepted_ = said.value;
    send(said.from.index, view_message::kind::accepted, said.ballot);
  }

  /// Adopts a view that has been decided.
  void follow(training_view next) {  // a copy, because the argument can be value_
    if (!next.has(self_)) {
      // A process that starts late waits until the others admit it; a member that was left out fails.
      if (current_.epoch > 0)
        fail(error_code::aborted, {"the other workers continue without this one (", to_string(next),
                                   "): they received no message from it in time; start this worker again"});
      return;
    }
    current_ = next;
    decided_ = true;
    phase_ = phase::idle;
    promised_ = accepted_ballot_ = ballot_ = 0;
    accepted_ = value_ = {};
    seen_given_up_.clear();
    for (const view_member& each : next.members)
      if (each.index != self_.index) send(each.index, view_message::kind::hello);
  }

  void send(int to, view_message::kind what, std::uint64_t ballot = 0) {
    view_message made;
    made.what = what;
    made.from = self_;
    made.ballot = ballot ? ballot : ballot_;
    made.program = program_;
    made.policy = policy_;
    made.updates = updates_;
    made.current = current_;
    made.seen_given_up = seen_given_up_;
    for (int index = 0; index < workers(); ++index)
      if (at(index).is == presence::given_up && (current_.epoch == 0 || is_member(index)))
        made.given_up.push_back({index, at(index).process});
    if (what == view_message::kind::propose) made.value = value_;
    if (what == view_message::kind::report) {
      made.accepted_ballot = accepted_ballot_;
      made.value = accepted_;
    }
    out_.push_back({to, std::move(made)});
  }

  void fail(error_code code, std::initializer_list<piece> why) { failure_ = error(code, "exchange", str_cat(why)); }
  /// Members that were lost during the wait had waited in vain, too, so the error names only overdue ones.
  void fail_after_wait() {
    const std::string overdue =
        names_of([&](const view_member& each) { return is_lost(each) && at(each.index).is_overdue; });
    const std::string lost = names_of([&](const view_member& each) { return is_lost(each); });
    fail(error_code::unavailable, {not_replaced(policy_.wait, overdue.empty() ? lost : overdue)});
  }
  /// If members have ended, workers that waited together with this one end one after the other, for the same reason.
  void fail_as_minority() {
    const auto holds = [&](auto what) { return std::any_of(current_.members.begin(), current_.members.end(), what); };
    if (policy_.then == loss_action::stop && !waits_for_places_ &&
        holds([&](const view_member& each) { return is_dead(each); }) &&
        holds([&](const view_member& each) { return is_lost(each) && at(each.index).is_overdue; }))
      return fail_after_wait();
    fail(error_code::unavailable,
         {"this worker reaches too few of the ", current_.members.size(), " workers of its view to continue (",
          missing(), "), and the others may continue without it; start this worker again"});
  }

  loss_policy policy_;
  training_program program_;
  std::int64_t updates_ = -1;
  bool decided_ = false, waits_for_places_ = true, waits_for_members_ = true, waits_for_proof_ = true,
       waits_for_newcomers_ = false, has_other_policy_ = false;
  std::optional<error> failure_;

  // State of the acceptor of the next epoch.
  std::uint64_t promised_ = 0, accepted_ballot_ = 0;
  training_view accepted_;

  // State of the proposer.
  phase phase_ = phase::idle;
  std::uint64_t ballot_ = 0;
  training_view value_;

  std::vector<outgoing> out_;
};

}  // namespace detail
}  // namespace weft
