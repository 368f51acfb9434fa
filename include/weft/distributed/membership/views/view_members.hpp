// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/distributed/membership/training_view.hpp>
#include <weft/distributed/membership/views/view_message.hpp>
#include <weft/error.hpp>

namespace weft::detail {

/// The state of another worker's process, as known to this process.
enum class presence : unsigned char {
  awaited,  // not connected yet, or unknown
  alive,
  silent,    // its connection has ended, but it may still train, cut off from this process
  given_up,  // silent, and rejected by this process from now on
  dead,      // the process has certainly ended, or has sent a goodbye
};

/// A worker's record of the members of its view and of the processes that wait to join: which are alive, what they have
/// sent in this meeting, and which have given up others.
class view_members {
 public:
  /// `job`: the workers' job, for messages.
  view_members(view_member self, int workers, std::string job)
      : self_(self), job_(std::move(job)), known_(static_cast<std::size_t>(workers)) {}

  const training_view& current() const { return current_; }

  /// Records the present process of a worker, and its state.
  void see(int index, std::uint64_t incarnation, presence what) {
    known& of = at(index);
    if (of.process != incarnation) of.has_said = of.has_reported = of.has_accepted = false;
    of.process = incarnation;
    of.is = what;
    if (what == presence::dead) note_dead(index, incarnation);
  }
  /// The same for a process that another one has replaced.
  void see_former(int index, std::uint64_t incarnation, presence what) {
    if (what == presence::dead) note_dead(index, incarnation);
  }
  /// Records whether this lost member has had no replacement for as long as the policy waits.
  void set_overdue(int index, bool overdue) { at(index).is_overdue = overdue; }
  /// Returns true if this worker's present process has sent a message in this meeting.
  bool has_heard(int index) const { return at(index).has_said; }

  /// Lists the live workers that have given up others: "a has given up b, c has given up d".
  std::string who_is_given_up() const {
    std::string text;
    for (int index = 0; index < workers(); ++index)
      if (at(index).is == presence::alive && at(index).has_said)
        for (const auto& each : at(index).has_given_up)
          append(text, {text.empty() ? "" : ", ", name_of(index), " declared ", name_of(each.who.index), " lost"});
    return text;
  }
  /// Lists the workers that have sent nothing in this meeting: "a, b".
  std::string who_is_quiet() const {
    std::string names;
    for (int index = 0; index < workers(); ++index)
      if (index != self_.index && !at(index).has_said) append(names, {names.empty() ? "" : ", ", name_of(index)});
    return names;
  }

 protected:
  struct known {
    std::uint64_t process = 0;
    presence is = presence::awaited;
    std::uint64_t dead = 0;  // the last process that has certainly ended
    // In this meeting:
    bool has_said = false, has_reported = false, has_accepted = false;
    bool is_overdue = false;
    training_view said;         // its view
    std::uint64_t said_at = 0;  // the number of its last message, counted over all senders
    struct given_up {
      view_member who;
      std::uint64_t since;  // the number of the message that first reported it
    };
    std::vector<given_up> has_given_up;
    std::int64_t updates = -1;
    std::uint64_t accepted_ballot = 0;
    training_view accepted;
  };

  int workers() const { return static_cast<int>(known_.size()); }
  known& at(int index) { return known_[static_cast<std::size_t>(index)]; }
  const known& at(int index) const { return known_[static_cast<std::size_t>(index)]; }

  void note_dead(int index, std::uint64_t incarnation) { at(index).dead = incarnation; }
  bool is_heard(const view_member& one) const {
    const known& of = at(one.index);
    return one == self_ || (of.process == one.incarnation && of.is == presence::alive);
  }
  bool is_alive(const view_member& one) const { return is_heard(one) && !is_excluded(one); }

  void note_given_up(const given_up_member& what) {
    if (!current_.has(what.by) || !current_.has(what.whom)) return;
    if (seen_given_up_.size() == view_message::max_seen_given_up) return;
    if (std::find(seen_given_up_.begin(), seen_given_up_.end(), what) == seen_given_up_.end())
      seen_given_up_.push_back(what);
  }
  void note_given_up(known& of, const std::vector<view_member>& whom) {
    of.said_at = ++messages_;
    std::vector<known::given_up> now;
    for (const view_member& each : whom) {
      const auto before = std::find_if(of.has_given_up.begin(), of.has_given_up.end(),
                                       [&](const known::given_up& other) { return other.who == each; });
      now.push_back({each, before == of.has_given_up.end() ? messages_ : before->since});
    }
    of.has_given_up = std::move(now);
  }

  /// Clears what the last meeting has recorded.
  void forget_meeting() {
    for (known& each : known_) {
      each.said = {};
      each.has_said = each.has_reported = each.has_accepted = each.is_overdue = false;
      each.has_given_up.clear();
    }
  }

  bool has_given_up(const view_member& one, const view_member& whom) const {
    if (one == self_) return at(whom.index).process == whom.incarnation && at(whom.index).is == presence::given_up;
    return std::find(seen_given_up_.begin(), seen_given_up_.end(), given_up_member{one, whom}) != seen_given_up_.end();
  }
  /// Returns a remaining member that has given up `one`; null if `one` remains.
  const view_member* excluding(const view_member& one) const {
    if (seen_given_up_.empty()) return nullptr;
    const view_member* by = nullptr;
    std::vector<char> leaves(known_.size());
    for (const view_member& each : current_.members)
      for (const given_up_member& what : seen_given_up_) {
        if (!(what.whom == each) || leaves[static_cast<std::size_t>(what.by.index)] || is_dead(what.by)) continue;
        if (what.by.index > each.index && has_given_up(each, what.by)) continue;
        leaves[static_cast<std::size_t>(each.index)] = 1;
        if (each == one) by = &what.by;
      }
    return by;
  }
  bool is_excluded(const view_member& one) const { return excluding(one) != nullptr; }
  std::string name_of(int index) const { return to_string(task_id{job_, index}); }
  /// Returns true if a process has certainly ended: its end was observed, or its place is taken by another process that
  /// has no view yet, which is possible only after the end.
  bool is_dead(const view_member& one) const {
    const known& of = at(one.index);
    return of.dead == one.incarnation || (of.process != one.incarnation && of.has_said && of.said.epoch == 0);
  }
  /// Returns true if a process takes part in decisions; before the first view, all do.
  bool is_member(int index) const {
    return current_.epoch == 0 || current_.has({index, at(index).process}) || index == self_.index;
  }
  /// Returns true if a process waits to join.
  bool is_newcomer(int index) const {
    const known& of = at(index);
    return index != self_.index && of.is == presence::alive && of.has_said && of.said.epoch == 0 &&
           !current_.has({index, of.process});
  }

  template <typename Holds>
  bool is_quorum(Holds holds) const {
    if (current_.epoch == 0) {
      for (int index = 0; index < workers(); ++index)
        if (index != self_.index && !holds(index)) return false;
      return true;
    }
    std::size_t with = 0;
    bool others_are_dead = true, has_lowest = false;
    for (const view_member& each : current_.members) {
      const bool is_with = each == self_ || (at(each.index).process == each.incarnation && holds(each.index));
      with += is_with;
      if (is_with && each == current_.members.front()) has_lowest = true;
      if (!is_with && !is_dead(each)) others_are_dead = false;
    }
    const std::size_t all = current_.members.size();
    return others_are_dead || 2 * with > all || (2 * with == all && has_lowest);
  }

  template <typename Holds>
  std::string names_of(Holds holds) const {
    std::string names;
    for (const view_member& each : current_.members)
      if (!(each == self_) && holds(each)) append(names, {names.empty() ? "" : ", ", name_of(each.index)});
    return names;
  }
  bool is_lost(const view_member& each) const { return !is_alive(each) && !is_newcomer(each.index); }
  /// Returns "missing: a, b; no answer from c", after `before` if there is anything to list. A replaced member is
  /// missing, too: its replacement does not decide on this view.
  std::string missing(const char* before = "") const {
    const std::string lost = names_of([&](const view_member& each) { return !is_alive(each); });
    const std::string quiet =
        names_of([&](const view_member& each) { return is_alive(each) && !at(each.index).has_said; });
    std::string text;
    if (!lost.empty()) append(text, {before, "missing: ", lost});
    if (!quiet.empty()) append(text, {text.empty() ? before : "; ", "no answer from ", quiet});
    return text;
  }

  view_member self_;
  std::string job_;
  std::vector<known> known_;  // by index
  training_view current_;
  std::vector<given_up_member> seen_given_up_;  // pairs of members of the present view
  std::uint64_t messages_ = 0;                  // the number of received messages
};

}  // namespace weft::detail
