// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/door.hpp>
#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/cluster/rejection_log.hpp>
#include <weft/distributed/cluster/server_options.hpp>
#include <weft/distributed/membership/links/channel_inbox.hpp>
#include <weft/distributed/membership/membership.hpp>
#include <weft/distributed/membership/peer_channel.hpp>
#include <weft/distributed/membership/task_identity.hpp>
#include <weft/error.hpp>
#include <weft/transport/any_transport.hpp>

namespace weft::detail {

/// Admits the peers of a server: passes the channels of tasks and clients to the inbox, and control connections to a
/// handler. Runs on the event loop's thread.
class admission : door::owner {
 public:
  using on_channel = std::function<void()>;
  using admit_control = std::function<void(peer_channel)>;

  admission(any_transport::event_loop& loop, task_identity& identity, membership& members, channel_inbox& inbox,
            const server_options& options, std::size_t max_strangers, any_transport::listener listener,
            admit_control admits, on_channel opened)
      : identity_(identity),
        members_(members),
        inbox_(inbox),
        options_(options),
        admits_(std::move(admits)),
        opened_(std::move(opened)),
        rejections_(identity.name(), options.on_rejected),
        door_(loop, std::move(listener), max_strangers, options.handshake_timeout, *this) {}

  /// The address of the listener, with the actual port.
  const endpoint& address() const { return door_.address(); }

  /// Resumes accepting, even after an exception.
  void resume() { door_.resume(); }
  void close() { door_.close(); }

 private:
  using arrival_type = arrival;

  handshake answer(any_transport::stream stream) override { return identity_.answer(std::move(stream)); }

  void validate(arrival_type& each) override {
    const introduction& its = *each.talk.other();
    if (is_client(its)) return validate_client(each, its);
    if (const auto problem = identity_.objection_to(its, each.talk.stream(), address())) {
      each.talk.reject(*problem);
      const error_code code = problem->code();
      if (code == error_code::failed_precondition || code == error_code::permission_denied)
        rejections_.report(code, problem->sentence());
      return;
    }
    const std::size_t rank = *identity_.find(its.from);
    if (!its.channel.empty())
      if (const std::size_t waiting = inbox_.count_others(rank, its.channel); waiting >= options_.max_channels)
        return each.talk.reject(
            error(error_code::resource_exhausted, "handshake",
                  {to_string(its.from), " has ", waiting, " channels that were not accepted; at most ",
                   options_.max_channels, " can wait (server_options::max_channels)"}));
    each.talk.welcome(identity_.introduction_to(rank, its.channel, 0, each.talk.stream()));
    each.is_welcome = true;
  }

  void validate_client(arrival_type& each, const introduction& its) {
    auto problem = identity_.objection_to_client(its, each.talk.stream());
    if (!problem && inbox_.count_clients() >= options_.max_strangers)
      problem = error(error_code::resource_exhausted, "handshake",
                      {"too many connections of clients wait for a graph_service of ", identity_.name(),
                       " (server_options::max_strangers); create a graph_service in that task"});
    if (problem) {
      each.talk.reject(*problem);
      rejections_.report(problem->code(), problem->sentence());
      return;
    }
    each.talk.welcome(identity_.introduction_to_client(its, each.talk.stream()));
    each.is_welcome = true;
  }

  void admit(arrival_type& each) override {
    const introduction& its = *each.talk.other();
    if (is_client(its)) {
      inbox_.put_client({its.channel == client_asks, its.incarnation, std::move(each.talk.stream())},
                        detail::now() + std::chrono::minutes(1));
      return opened_();
    }
    const std::size_t rank = *identity_.find(its.from);
    peer_channel opened{rank, its.incarnation, std::move(each.talk.stream()), each.number};
    if (its.channel.empty()) return admits_(std::move(opened));
    constexpr std::uint64_t longest = 600'000'000;  // ten minutes
    const std::chrono::microseconds waits(
        static_cast<std::int64_t>(its.waits_us == 0 ? longest : std::min(its.waits_us, longest)));
    inbox_.put(std::move(opened), its.channel, detail::now() + waits);
    opened_();
  }

  /// A stranger or a task of another version receives only an error code, so it learns nothing else about this task.
  /// All other peers are gone or do not speak the protocol, and receive nothing.
  bool fail(arrival_type& each, const error& problem) override {
    const error_code code = problem.code();
    const std::string from = coming_from(each.talk.stream());
    if ((options_.tls && code != error_code::unavailable) || code == error_code::failed_precondition)
      note(code, str_cat({"a task that connected", from, " was rejected: ", problem.sentence()}));
    else if (code == error_code::unauthenticated)
      note(code, str_cat({"a task with a secret other than this task's (", identity_.secret().origin(),
                          ") was rejected; it connected", from.empty() ? " to " + to_string(address()) : from}));
    if (options_.tls && code == error_code::unauthenticated)
      if (const std::string why = options_.tls->date_problem(); !why.empty())
        members_.refuse_all(error(code, identity_.name(), why));
    if (code != error_code::unauthenticated && code != error_code::failed_precondition) return false;
    each.talk.reject(problem);
    return true;
  }

  void cannot_accept(const error& problem) override {
    for (std::size_t rank = members_.self() + 1; rank < members_.size(); ++rank)
      members_.set_note(rank, problem.what());
  }

  void note(error_code code, const std::string& why) {
    members_.set_note(why);
    rejections_.report(code, why);
  }

  task_identity& identity_;
  membership& members_;
  channel_inbox& inbox_;
  const server_options& options_;
  admit_control admits_;
  on_channel opened_;
  rejection_log rejections_;
  door door_;
};

}  // namespace weft::detail
