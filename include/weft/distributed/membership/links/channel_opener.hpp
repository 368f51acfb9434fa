// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <weft/deadline.hpp>
#include <weft/distributed/membership/exchange_loop.hpp>
#include <weft/distributed/membership/links/channel_inbox.hpp>
#include <weft/distributed/membership/membership.hpp>
#include <weft/distributed/membership/peer_channel.hpp>
#include <weft/distributed/membership/task_identity.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/error.hpp>
#include <weft/transport/any_transport.hpp>

namespace weft::detail {

/// Opens a channel to another task: connects and performs the handshake, on the calling thread. Connects again if the
/// task drops the connection but is alive. Serves one call.
class channel_opener {
  using handshake_type = typename task_identity::handshake_type;

 public:
  /// `name`: the channel; `rank`: the task.
  channel_opener(task_server& here, task_identity& identity, std::size_t rank, const std::string& name, deadline until)
      : here_(here),
        members_(here.members()),
        identity_(identity),
        loop_(here, here.waiting()),
        operation_(str_cat({"connect to ", to_string(here.members().task(rank))})),
        name_(name),
        until_(until) {
    peer_.rank = rank;
  }

  /// Throws weft::error: deadline_exceeded, unavailable with the peer's name, or the peer's rejection.
  peer_channel open() {
    for (;; ++attempt_, detail::sleep(std::chrono::milliseconds(20))) {
      members_.wait_for(until_, [&](const task_id& task) { return task == members_.task(peer_.rank); });
      peer_.incarnation = members_.incarnation(peer_.rank);
      if (!members_.alive(peer_.rank, peer_.incarnation))
        throw members_.diagnose(peer_.rank, peer_.incarnation, operation_, "is not running");
      any_transport::stream stream;
      if (!succeeds([&] { stream = here_.network().connect(identity_.address_of(peer_.rank)); })) continue;
      talk_ = identity_.dial(std::move(stream));
      was_dropped_ = false;
      loop_.run(operation_.c_str(), until_, *this);
      if (was_dropped_) continue;
      if (const std::optional<error>& why = talk_->refusal()) throw error(why->code(), operation_, why->sentence());
      // If the incarnations differ, the task has just been restarted; its control connection arrives soon.
      if (talk_->other()->incarnation == peer_.incarnation)
        return {peer_.rank, peer_.incarnation, std::move(talk_->stream())};
      if (until_.expired())
        throw error(error_code::deadline_exceeded, operation_, "it was started again and did not connect in time");
    }
  }

  // ---- the handshake as a message_exchange ----

  static constexpr bool survives_leaving = false;

  std::size_t advance() {
    std::size_t moved = 0;
    was_dropped_ = !succeeds([&] { moved = talk_->advance(); });
    if (was_dropped_ || talk_->at() != handshake_type::phase::challenged) return moved;
    if (!identity_.is_answered_by(peer_.rank, *talk_)) throw identity_.impostor_at(peer_.rank, *talk_);
    talk_->introduce(identity_.introduction_to(peer_.rank, name_, until_.remaining_us(), talk_->stream()));
    return moved + 1;
  }
  bool is_complete() const { return was_dropped_ || talk_->at() == handshake_type::phase::over; }
  error late() const {
    return error(error_code::deadline_exceeded, operation_, "received no answer to the handshake in time");
  }
  template <typename Visit>
  void for_each_stream(Visit visit) const {
    visit(talk_->stream(), true, talk_->is_sending());
  }
  template <typename Visit>
  void for_each_peer(Visit visit) const {
    visit(peer_, true);
  }

 private:
  static constexpr int max_attempts = 50;

  /// Calls `action`. Returns false if it must be repeated: a task with too many unauthenticated connections can drop
  /// this one before the proof.
  template <typename Action>
  bool succeeds(Action action) {
    try {
      action();
      return true;
    } catch (const error& problem) {
      const bool closed = problem.code() == error_code::unavailable;
      if (closed && attempt_ < max_attempts && !until_.expired())
        members_.await_verdict(peer_.rank, deadline(std::chrono::milliseconds(20)));
      if (!closed || attempt_ >= max_attempts || until_.expired() || !members_.alive(peer_.rank, peer_.incarnation))
        throw here_.diagnose(peer_.rank, peer_.incarnation, operation_, problem);
      return false;
    }
  }

  task_server& here_;
  membership& members_;
  task_identity& identity_;
  exchange_loop loop_;
  std::string operation_;
  std::string name_;
  deadline until_;
  peer_process peer_;
  int attempt_ = 0;
  std::unique_ptr<handshake_type> talk_;
  bool was_dropped_ = false;
};

}  // namespace weft::detail
