// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/server_options.hpp>
#include <weft/distributed/membership/membership.hpp>
#include <weft/distributed/membership/task_identity.hpp>
#include <weft/error.hpp>
#include <weft/tensor/owned.hpp>
#include <weft/transport/any_transport.hpp>

namespace weft::detail {

/// Opens the control connections to the tasks of lower rank that this task connects to, and opens them again after a
/// loss. Runs on the event loop's thread and never blocks: name lookups and connection attempts are asynchronous.
class dialer {
 public:
  using met = std::function<void(std::size_t rank, std::uint64_t incarnation, any_transport::stream)>;

  dialer(any_transport& network, any_transport::event_loop& loop, task_identity& identity, membership& members,
         const server_options& options, met when_met)
      : network_(network),
        loop_(loop),
        identity_(identity),
        members_(members),
        options_(options),
        when_met_(std::move(when_met)),
        again_(loop),
        dialled_(members.self()),
        redial_(members.self(), detail::now()) {}

  /// Dials the tasks that are due, even after an exception.
  void resume() {
    const moment now = detail::now();
    moment next = moment::max();
    for (std::size_t rank = 0; rank < dialled_.size(); ++rank) {
      const task_state state = members_.state(rank);
      if (!members_.connects_to(rank) || dialled_[rank] || state == task_state::alive) continue;
      if (now >= redial_[rank]) {
        redial_[rank] = now + std::chrono::milliseconds(state == task_state::awaited ? 20 : 250);
        dial(rank, now);
      }
      next = std::min(next, redial_[rank]);
    }
    look_up_others();
    if (next != moment::max())
      again_.start(std::chrono::ceil<std::chrono::nanoseconds>(next - now), [this] { resume(); });
  }

  void close() {
    again_.cancel();
    for (auto& each : dialled_) each.reset();
  }

 private:
  using moment = deadline::time_point;
  using handshake_type = typename task_identity::handshake_type;

  static constexpr std::chrono::milliseconds longest_connect{1000};  // the limit for one address of a host

  struct outbound_handshake {
    std::size_t rank;
    moment until;
    any_transport::event_loop::timer expiry;
    owned<any_transport::pending_stream> connecting;  // the connection attempt, before the handshake
    std::unique_ptr<handshake_type> talk;
    std::optional<any_transport::watch> watch;  // watches the attempt or the handshake; destroyed before it

    outbound_handshake(std::size_t to, any_transport::event_loop& loop) : rank(to), until{}, expiry(loop) {}
  };

  /// Looks up the host names of tasks of higher rank, which this task does not dial. If a name is unknown, the error of
  /// a wait for the task reports that.
  void look_up_others() {
    for (std::size_t rank = members_.self() + 1; rank < members_.size(); ++rank) {
      if (members_.state(rank) != task_state::awaited || !members_.connects_to(rank)) continue;
      try {
        network_.look_up(identity_.address_of(rank));
        if (members_.reason(rank).starts_with("lookup: ")) members_.set_note(rank, "");
      } catch (const error& problem) {
        members_.set_note(rank, problem.what());
      }
    }
  }

  void dial(std::size_t rank, moment now) {
    try {
      auto begun = std::make_unique<outbound_handshake>(rank, loop_);
      begun->connecting = network_.start_connect(identity_.address_of(rank));
      if (begun->connecting)
        wait_for_connection(*begun, now);
      else
        begin_handshake(*begun, network_.connect(identity_.address_of(rank)), now);
      dialled_[rank] = std::move(begun);
      if (dialled_[rank]->talk && !advance(*dialled_[rank], now)) dialled_[rank].reset();
    } catch (const error& problem) {
      note_absence(rank, problem);
    }
  }

  /// Records why a task cannot be reached, for the errors of waiting callers. A task that has not started or is gone
  /// needs no reason; it is dialed again.
  void note_absence(std::size_t rank, const error& problem) {
    const bool is_absent = problem.code() == error_code::unavailable && problem.operation() != "lookup";
    members_.set_note(rank, is_absent ? "" : problem.what());
  }

  void wait_for_connection(outbound_handshake& each, moment now) {
    each.until = now + longest_connect;
    each.expiry.start(longest_connect, [this, rank = each.rank] { go_on(rank); });
    watch(each, *each.connecting);
    each.watch->arm(false, true);
  }

  void begin_handshake(outbound_handshake& each, any_transport::stream stream, moment now) {
    each.talk = identity_.dial(std::move(stream));
    each.until = now + options_.handshake_timeout;
    each.expiry.start(options_.handshake_timeout, [this, rank = each.rank] { go_on(rank); });
    watch(each, each.talk->stream());
  }

  void watch(outbound_handshake& each, const any_transport::source& source) {
    each.watch.emplace(loop_, source, [this, rank = each.rank] { go_on(rank); });
  }

  void go_on(std::size_t rank) {
    outbound_handshake& each = *dialled_[rank];
    const moment now = detail::now();
    const bool goes_on = each.talk ? advance(each, now) : connect(each, now);
    if (goes_on) return;
    dialled_[rank].reset();
    resume();
  }

  /// Returns true if the attempt continues.
  bool connect(outbound_handshake& each, moment now) {
    try {
      each.watch.reset();
      any_transport::stream stream;
      if (each.connecting->finish(stream)) {
        begin_handshake(each, std::move(stream), now);
        return advance(each, now);
      }
      if (now >= each.until) each.connecting->time_out();
      wait_for_connection(each, now);
      return true;
    } catch (const error& problem) {
      note_absence(each.rank, problem);
    } catch (const std::exception&) {
      // out of memory: dialed again
    }
    return false;
  }

  /// Returns true if the handshake continues.
  bool advance(outbound_handshake& each, moment now) {
    using phase = typename handshake_type::phase;
    handshake_type& talk = *each.talk;
    const std::string operation = str_cat({"connect to ", to_string(members_.task(each.rank))});
    try {
      talk.advance();
      if (talk.at() == phase::challenged) {
        if (!identity_.is_answered_by(each.rank, talk)) {
          const error why = identity_.impostor_at(each.rank, talk);
          members_.refuse(each.rank, why);
          talk.reject(why);
          return false;
        }
        talk.introduce(identity_.introduction_to(each.rank, "", 0, talk.stream()));
        talk.advance();
      }
      if (talk.at() == phase::over) {
        each.watch.reset();
        conclude(each, operation);
        return false;
      }
      each.watch->arm(true, talk.is_sending());
    } catch (const error& problem) {
      // A task that is gone is dialed again. Another version or secret is final; other errors may be temporary.
      if (problem.code() == error_code::failed_precondition || problem.code() == error_code::unauthenticated)
        members_.refuse(each.rank, error(problem.code(), operation, problem.sentence()));
      else if (problem.code() != error_code::unavailable)
        members_.set_note(each.rank, problem.sentence());
      return false;
    } catch (const std::exception&) {
      return false;  // out of memory: dialed again
    }
    if (now < each.until) return true;
    members_.set_note(each.rank, "it accepts connections but does not answer");
    return false;
  }

  void conclude(outbound_handshake& each, const std::string& operation) {
    if (const std::optional<error>& why = each.talk->refusal()) {
      const bool may_pass = why->code() == error_code::unavailable || why->code() == error_code::aborted;
      if (why->code() == error_code::aborted) members_.set_verdict(each.rank, membership::verdict::given_up_again);
      if (may_pass)
        members_.set_note(each.rank, why->sentence());  // dialed again
      else
        members_.refuse(each.rank, error(why->code(), operation, why->sentence()));
      return;
    }
    const std::uint64_t incarnation = each.talk->other()->incarnation;
    if (members_.is_given_up(each.rank, incarnation)) return;
    when_met_(each.rank, incarnation, std::move(each.talk->stream()));
  }

  any_transport& network_;
  any_transport::event_loop& loop_;
  task_identity& identity_;
  membership& members_;
  const server_options& options_;
  met when_met_;
  any_transport::event_loop::timer again_;
  std::vector<std::unique_ptr<outbound_handshake>> dialled_;
  std::vector<moment> redial_;
};

}  // namespace weft::detail
