// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <weft/distributed/cluster/message_fields.hpp>
#include <weft/distributed/membership/loss_policy.hpp>
#include <weft/distributed/membership/training_view.hpp>
#include <weft/distributed/membership/views/training_program.hpp>
#include <weft/transport/separate.hpp>

namespace weft::detail {

/// A live process has declared another live process dead: they never train together again.
struct given_up_member {
  view_member by, whom;

  friend bool operator==(const given_up_member&, const given_up_member&) = default;
};

/// A message of the agreement on the next view. Each message contains the sender's view, so a worker that missed a
/// decision learns it from any other worker.
struct view_message {
  enum class kind : std::uint8_t { hello, prepare, report, propose, accepted, refused };

  kind what{};
  view_member from;
  std::uint64_t ballot = 0;
  std::uint64_t accepted_ballot = 0;  // in a report
  training_program program;
  std::int64_t updates = -1;  // number of updates that the sender has made; -1: it has no values yet
  loss_policy policy;
  training_view current;
  training_view value;                         // in a proposal, or accepted by the sender of a report
  std::vector<view_member> given_up;           // the sender has declared them dead, but they may be alive
  std::vector<given_up_member> seen_given_up;  // pairs of other workers, reported by one of them or by a third worker

  /// Received ballots are below this bound, so that later ones cannot overflow.
  static constexpr std::uint64_t max_ballot = std::uint64_t{1} << 62;
  static constexpr std::size_t max_seen_given_up = 256;  // further ones wait for the next meeting

  void fields(message_fields& io);
  std::vector<std::byte> bytes() const { return write_message(*this); }
  static view_message read(const_bytes from, int workers) {
    return read_message<view_message>(from, static_cast<std::size_t>(workers));
  }
};

#if WEFT_DISTRIBUTED_DEFINITIONS

WEFT_DISTRIBUTED_DECL void view_message::fields(message_fields& io) {
  const auto member = [&](view_member& each) { io.peer(each.index).number(each.incarnation); };
  io.one_of(what, kind::hello, kind::refused).number(from.index).number(from.incarnation);
  io.number(ballot, 0, max_ballot - 1).number(accepted_ballot, 0, max_ballot - 1).number(updates);
  program.fields(io);
  io.duration(policy.wait, longest_loss_wait).one_of(policy.then, loss_action::stop, loss_action::take_over);
  for (training_view* const v : {&current, &value}) {
    io.number(v->epoch).number(v->updates).number(v->source).flag(v->brings_values);
    int before = -1;  // members ascend
    io.list(v->members, io.peers(), [&](view_member& each) {
      member(each);
      io.must_hold(each.index > before);
      before = each.index;
    });
    io.must_hold((v->epoch != 0) == !v->members.empty());
    if (v->members.empty()) continue;
    io.must_hold(v->find(v->source) != nullptr);
    int replica = 0;  // a member owns its own replica
    io.for_each_peer(v->owners, [&](int& owner) {
      io.number(owner).must_hold(v->find(owner) && (owner == replica || !v->find(replica)));
      ++replica;
    });
  }
  io.list(given_up, io.peers(), member);
  io.list(seen_given_up, max_seen_given_up, [&](given_up_member& each) {
    member(each.by);
    member(each.whom);
    io.must_hold(each.by.index != each.whom.index);
  });
}

#endif

}  // namespace weft::detail
