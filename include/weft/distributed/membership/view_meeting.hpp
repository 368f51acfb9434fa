#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/membership/loss_policy.hpp>
#include <weft/distributed/membership/membership.hpp>
#include <weft/distributed/membership/server.hpp>
#include <weft/distributed/membership/view.hpp>
#include <weft/error.hpp>
#include <weft/transport/framing.hpp>

namespace weft::detail {

/// Carries out the agreement on a view (view.hpp) with the other workers, on the calling thread: that which trains. A
/// worker says what it has to say on channels that it opens itself, and what the others say comes on theirs. A message
/// that is lost with its channel is said again.
template <transport T, typename Clock>
class view_meeting {
 public:
  using deadline_type = basic_deadline<Clock>;

  /// `program`: what all workers must have in common, as a number.
  view_meeting(basic_server<T, Clock>& here, std::uint64_t program, loss_policy policy)
      : here_(here),
        policy_(policy),
        workers_(here.cluster().num_tasks(here.job())),
        agreement_({here.index(), here.incarnation()}, workers_, program, policy, here.job()),
        fates_(static_cast<std::size_t>(workers_)) {}

  const training_view& current() const { return agreement_.current(); }

  /// The channel by which a member of this epoch's view says that it has left the group.
  static std::string channel_of(std::uint64_t epoch) { return str_cat({prefix, epoch}); }

  /// Whether a process waits to take part that is of no worker of the view.
  bool has_newcomers() const {
    bool found = false;
    here_.for_each_channel([&](std::size_t rank, std::uint64_t, const std::string& name) {
      const task_id& task = here_.members().task(rank);
      found |= name.starts_with(prefix) && task.job == here_.job() && !current().find(task.index);
    });
    return found;
  }

  /// Agrees with the others on the next view. `updates`: that this worker has made; -1: it has no values. `until`: of
  /// the step that is under way or, before the first view, of all. Throws weft::error: unavailable that names who is
  /// missing, where too few are left, where nobody has taken a lost worker's place, or in the end; aborted where the
  /// others train on without this worker; cancelled when this server stops; before the first view deadline_exceeded.
  training_view meet(std::int64_t updates, bool admits, deadline_type until) {
    const moment began = Clock::now();
    const auto patience = std::max<duration>(
        until.remaining(std::chrono::duration_cast<duration>(std::chrono::hours(24))), longest_silence());
    const moment places = began + policy_.wait, members = places + patience;
    const bool starts = current().epoch == 0;
    here_.connect_to(here_.job());
    opened_in_ = current().epoch;
    agreement_.begin(updates, admits);
    look();
    agreement_.resend();
    moment next_resend = began + resend_interval;
    for (;;) {
      if (here_.stopping()) throw error(error_code::cancelled, operation, "this server was stopped");
      bool moved = hear();
      look();
      const moment now = Clock::now();
      if (!starts) {
        check_given_up();
        if (now >= began + newcomers_time) agreement_.stop_waiting_for_newcomers();
        if (now >= places) agreement_.stop_waiting_for_places();
        if (now >= places && now >= began + longest_silence()) agreement_.stop_waiting_for_proof();
        if (now >= members) agreement_.stop_waiting_for_members();
        if (now >= members + longest_silence()) agreement_.give_up();
      } else if (until.expired()) {
        tell_who_is_missing(until);
      } else if (const auto why = here_.members().refusal()) {
        throw *why;
      }
      agreement_.advance();
      if (now >= next_resend) {
        agreement_.resend();
        next_resend = now + resend_interval;
      }
      moved |= say();
      if (const auto& why = agreement_.failure()) throw *why;
      if (agreement_.decided()) break;
      if (!moved) sleep<Clock>(pause);
    }
    const deadline_type last(std::chrono::duration_cast<duration>(std::chrono::seconds(1)));
    while (!last.expired() && !here_.stopping() && !all_is_said()) {
      look();
      say();
      sleep<Clock>(pause);
    }
    incoming_.clear();
    outgoing_.clear();
    return current();
  }

 private:
  using moment = typename Clock::time_point;
  using duration = typename Clock::duration;

  static constexpr const char* operation = "exchange";
  static constexpr const char* prefix = "view/";
  static constexpr std::chrono::milliseconds pause{5}, resend_interval{250}, newcomers_time{1000};
  static constexpr std::chrono::milliseconds time_to_open{2000}, between_probes{100};

  struct incoming_link {
    int index;
    std::uint64_t incarnation;
    typename T::stream stream;
    frame_reader in;
    std::vector<std::byte> message;
  };
  struct outgoing_link {
    int index;
    std::uint64_t incarnation = 0;
    typename T::stream stream;
    frame_writer out;
    std::vector<std::byte> leaving;
    std::deque<std::vector<std::byte>> waiting;
    moment opens_again{};
    bool is_open = false;
  };
  struct fate {
    std::uint64_t incarnation = 0;
    bool is_proven = false;
    moment probed{};
  };

  std::size_t rank_of(int index) const { return here_.cluster().rank({here_.job(), index}); }

  /// As long as workers may differ in when they notice that one is silent.
  duration longest_silence() const {
    std::chrono::milliseconds longest{1000};
    for (int index = 0; index < workers_; ++index) longest = std::max(longest, here_.heartbeat_timeout(rank_of(index)));
    return std::chrono::duration_cast<duration>(2 * longest + std::chrono::seconds(1));
  }

  /// Tells the agreement who is there.
  void look() {
    const membership& members = here_.members();
    for (int index = 0; index < workers_; ++index) {
      if (index == here_.index()) continue;
      const std::size_t rank = rank_of(index);
      const std::uint64_t incarnation = members.incarnation(rank);
      agreement_.see(index, incarnation, presence_of(index, rank, incarnation));
      const view_member* const former = current().find(index);
      if (former && former->incarnation != incarnation && members.state(rank, former->incarnation) == task_state::left)
        agreement_.see_former(index, former->incarnation, presence::dead);
    }
  }

  /// A worker that was only silent learns that the others have given it up. They do not meet this process again: where
  /// too few are left for a majority it waits in vain, and a new process cannot take its place. Two halves that have
  /// given up each other would both end, so that of the lowest worker stays.
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
                  {here_.name(), " was silent for too long and is given up by ", who, "; start it again"});
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
      const moment now = Clock::now();
      if (its.probed == moment{} || now >= its.probed + between_probes) {
        its.probed = now;
        its.is_proven = refuses(here_.address_of(rank));
      }
    }
    return its.is_proven ? presence::dead : presence::silent;
  }

  /// Whether nobody listens there any more, as far as the host itself says.
  bool refuses(const endpoint& where) {
    if constexpr (requires(T& network) { network.refuses(where); }) {
      return here_.network().refuses(where);
    } else {
      try {
        here_.network().connect(where);
        return false;
      } catch (const error& problem) {
        return problem.code() == error_code::unavailable;
      }
    }
  }

  /// Takes what has come. Returns whether something has.
  bool hear() {
    bool moved = false;
    for (typename basic_server<T, Clock>::channel opened; here_.take_channel_of(prefix, opened);) {
      const task_id& from = here_.members().task(opened.rank);
      if (from.job != here_.job()) continue;
      incoming_.remove_if([&](const incoming_link& each) { return each.index == from.index; });
      incoming_link& made =
          incoming_.emplace_back(incoming_link{from.index, opened.incarnation, std::move(opened.stream), {}, {}});
      made.in.expect(max_control_bytes);
      moved = true;
    }
    for (auto each = incoming_.begin(); each != incoming_.end();) {
      bool is_whole = true;
      try {
        moved |= read(*each);
      } catch (const error&) {
        is_whole = false;  // it is gone, or has opened another
      }
      each = is_whole ? std::next(each) : incoming_.erase(each);
    }
    return moved;
  }

  bool read(incoming_link& link) {
    bool moved = false;
    for (int frames = 0; frames < 16; ++frames) {
      link.in.advance(link.stream, link.message);
      if (!link.in.complete()) break;
      moved = true;
      if (link.in.header().kind != frame_kind::group) message_reader::malformed();
      view_message said = view_message::read(link.message, workers_);
      if (said.from.index != link.index || said.from.incarnation != link.incarnation) message_reader::malformed();
      link.message.clear();
      link.in.expect(max_control_bytes);
      // What it says shows that it is there, even where this server has not met the new process yet.
      agreement_.receive(said);
    }
    return moved;
  }

  /// Sends what the agreement has to say, as far as the connections take it.
  bool say() {
    bool moved = false;
    for (auto& each : agreement_.take_messages()) {
      outgoing_link& link = link_to(each.to);
      if (link.waiting.size() < 64) link.waiting.push_back(each.what.bytes());
    }
    for (outgoing_link& link : outgoing_) try {
        if (!link.is_open && !link.waiting.empty()) open(link);
        while (link.is_open && (!link.out.idle() || !link.waiting.empty())) {
          if (link.out.idle()) {
            link.leaving = std::move(link.waiting.front());
            link.waiting.pop_front();
            frame_header header;
            header.kind = frame_kind::group;
            link.out.start(header, const_bytes(link.leaving));
          }
          if (link.out.advance(link.stream) == 0 && !link.out.idle()) break;
          moved = true;
        }
      } catch (const error&) {  // it is gone, or does not answer: said again, if it is there
        link.is_open = false;
        link.out = {};
        link.opens_again = Clock::now() + between_probes;
      }
    return moved;
  }

  outgoing_link& link_to(int index) {
    for (outgoing_link& each : outgoing_)
      if (each.index == index) return each;
    outgoing_link& made = outgoing_.emplace_back();
    made.index = index;
    return made;
  }

  void open(outgoing_link& link) {
    const std::size_t rank = rank_of(link.index);
    if (here_.members().state(rank) != task_state::alive) return link.waiting.clear();
    if (Clock::now() < link.opens_again) return;
    auto opened = here_.open_channel(rank, channel_of(opened_in_), deadline_type(time_to_open));
    link.incarnation = opened.incarnation;
    link.stream = std::move(opened.stream);
    link.out = {};
    link.is_open = true;
  }

  bool all_is_said() const {
    return std::all_of(outgoing_.begin(), outgoing_.end(), [&](const outgoing_link& each) {
      const bool is_there = here_.members().state(rank_of(each.index)) == task_state::alive;
      return !is_there || (each.waiting.empty() && (!each.is_open || each.out.idle()));
    });
  }

  /// Before the first view all workers are needed.
  [[noreturn]] void tell_who_is_missing(deadline_type until) {
    const membership& members = here_.members();
    here_.members().wait_for(until, [&](const task_id& task) { return task.job == here_.job(); });
    for (int index = 0; index < workers_; ++index)
      if (const std::size_t rank = rank_of(index); members.state(rank) == task_state::left)
        throw members.diagnose(rank, members.incarnation(rank), operation, "is gone");
    const std::string given_up = agreement_.who_is_given_up(), quiet = agreement_.who_is_quiet();
    throw error(error_code::deadline_exceeded, operation,
                {"the workers have not agreed in time on who trains", given_up.empty() ? "" : ": ", given_up,
                 quiet.empty() ? "" : "; nothing was heard of ", quiet,
                 given_up.empty() && quiet.empty() ? "; give all of them the same collective::on_loss"
                                                   : "; start those again that were given up or have ended"});
  }

  basic_server<T, Clock>& here_;
  loss_policy policy_;
  int workers_;
  view_agreement agreement_;
  std::vector<fate> fates_;      // by index: of processes whose connections have ended
  std::uint64_t opened_in_ = 0;  // the epoch in which channels are opened
  std::list<incoming_link> incoming_;
  std::list<outgoing_link> outgoing_;
};

}  // namespace weft::detail
