// SPDX-License-Identifier: BSL-1.0
#pragma once

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
#include <weft/distributed/cluster/cluster_spec.hpp>
#include <weft/distributed/cluster/door.hpp>
#include <weft/distributed/cluster/handshake.hpp>
#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/cluster/rejection_log.hpp>
#include <weft/distributed/cluster/secret.hpp>
#include <weft/distributed/cluster/wait_log.hpp>
#include <weft/encoding/sha256.hpp>
#include <weft/error.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/framing.hpp>

namespace weft::detail {

inline constexpr const char* rendezvous_job = "rendezvous";

/// The introduction of a task in a rendezvous. `size`: the number of tasks. `said`: the address of an arriving task or,
/// from rank 0, the digest of the list of addresses.
inline introduction rendezvous_words(int size, int from, int to, std::string said) {
  introduction words;
  words.library_version = "rendezvous 1";
  words.cluster_hash = static_cast<std::uint64_t>(size);
  words.cluster = std::move(said);
  words.from = {rendezvous_job, from};
  words.to = {rendezvous_job, to};
  return words;
}

inline std::string digest_of(const_bytes bytes) {
  sha256 digest;
  digest.update(bytes);
  return hexadecimal(digest.finish());
}

/// Returns "ranks 2, 5 and 7"; names at most ten.
inline std::string names_of_ranks(const std::vector<int>& ranks) {
  std::string names = ranks.size() == 1 ? "rank " : "ranks ";
  constexpr std::size_t few = 10;
  for (std::size_t i = 0; i < ranks.size() && i < few; ++i)
    append(names, {i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ", ranks[i]});
  if (ranks.size() > few) append(names, {" and ", ranks.size() - few, " more"});
  return names;
}

/// Rank 0 of a rendezvous. Waits for all other tasks, then sends the list of all addresses to each. A task that cannot
/// prove the secret receives no addresses. Runs entirely on the thread that calls run().
class rendezvous_host : door::owner {
 public:
  /// Listens at `first`. Throws like tcp::listen().
  rendezvous_host(any_transport network, const endpoint& first, const endpoint& own, int size,
                  const cluster_secret& secret)
      : first_(first),
        secret_(secret),
        seats_(static_cast<std::size_t>(size), nullptr),
        tasks_(seats_.size()),
        loop_(network),
        door_(loop_, network.listen(first), max_strangers, std::chrono::seconds(5), *this),
        expiry_(loop_),
        quiet_(loop_) {
    tasks_[0] = own;
  }

  /// Returns the addresses of all tasks, by rank. Throws weft::error: deadline_exceeded with the missing ranks,
  /// unavailable if a task ends before it has received the list.
  std::vector<endpoint> run(deadline until, start_report& report) {
    if (seats_.size() == 1) return tasks_;
    quiet_.start(start_report::quiet_time + std::chrono::milliseconds(1), [&] {
      if (!is_telling_)
        report.look([&] {
          return str_cat({names_of_ranks(missing()), " of ", seats_.size(), " at ", to_string(first_),
                          note_.empty() ? "" : "; ", note_});
        });
    });
    expiry_.start(until.remaining(std::chrono::hours(24)), [this] { give_up(); });
    door_.resume();
    loop_.run();
    door_.close();
    report.end();
    return tasks_;
  }

 private:
  using arrival_type = arrival;
  using talk = handshake;

  static constexpr std::size_t max_strangers = 256;

  /// The transfer of the list to one task.
  struct delivery {
    int rank;
    any_transport::stream stream;
    frame_writer out;                           // of the list, which all deliveries share
    std::optional<any_transport::watch> watch;  // watches the stream; destroyed before it

    delivery(int to, any_transport::stream connection) : rank(to), stream(std::move(connection)) {}
  };
  using position = std::list<delivery>::iterator;

  talk answer(any_transport::stream stream) override {
    handshake_nonce nonce;
    fill_random(nonce);
    return talk::listening(std::move(stream), secret_.proof(), nonce, to_string(task_id{rendezvous_job, 0}));
  }

  void validate(arrival_type& each) override {
    const introduction& its = *each.talk.other();
    const auto reject = [&](std::initializer_list<piece> why) {
      note_ = str_cat(why);
      each.talk.reject(error(error_code::failed_precondition, "rendezvous", note_));
      rejections_.report(error_code::failed_precondition, note_);
    };
    const int rank = its.from.index;
    if (its.cluster_hash != seats_.size())
      return reject({"rank ", rank, " expects ", its.cluster_hash, " tasks, but rank 0 expects ", seats_.size(),
                     "; start all tasks as one run"});
    if (its.from.job != rendezvous_job || rank < 1 || static_cast<std::size_t>(rank) >= seats_.size())
      return reject({"rank ", rank, " of ", seats_.size(), " must not connect to rank 0"});
    endpoint address = parse_endpoint(its.cluster);
    if (is_telling_) return reject({"rank ", rank, " connected after all tasks had met; start all tasks as one run"});
    arrival_type*& seat = seats_[static_cast<std::size_t>(rank)];
    loop_.post([this] { tell_all(); });  // if this is the last task
    if (seat) displace(*seat, rank);
    // Nothing below throws: a seat must not refer to an arrival that is dropped.
    seat = &each;
    tasks_[static_cast<std::size_t>(rank)] = std::move(address);
    each.is_settled = true;
  }

  /// Rejects an earlier arrival with the same rank.
  void displace(arrival_type& before, int rank) {
    try {
      before.talk.expect_nothing();  // throws if the task has closed that connection and connected again
      note_ = str_cat({"rank ", rank, " connected twice; start one process for each rank"});
      before.talk.reject(error(error_code::already_exists, "rendezvous",
                               {"another process connected to ", to_string(first_), " as rank ", rank, " of ",
                                seats_.size(), "; start one process for each rank"}));
    } catch (const error&) {
      // the earlier connection is closed
    }
    door_.drop(before);
  }

  /// Sends the list to a task that has received its welcome with the digest of the list.
  void admit(arrival_type& each) override {
    const position it =
        deliveries_.emplace(deliveries_.end(), each.talk.other()->from.index, std::move(each.talk.stream()));
    frame_header header;
    header.kind = frame_kind::values;
    it->out.start(header, std::as_bytes(std::span(list_)));
    it->watch.emplace(loop_, it->stream, [this, it] { deliver(it); });
    seats_[static_cast<std::size_t>(it->rank)] = nullptr;
    deliver(it);
  }

  bool fail(arrival_type& each, const error& problem) override {
    if (each.is_settled) {
      const int rank = each.talk.other()->from.index;
      if (is_telling_) lost(rank, problem);
      seats_[static_cast<std::size_t>(rank)] = nullptr;
      if (note_.empty()) note_ = str_cat({"rank ", rank, " connected and closed its connection again"});
    }
    const bool knows_secret = problem.code() == error_code::failed_precondition;
    if (problem.code() != error_code::unauthenticated && !knows_secret) return false;
    const std::string from = coming_from(each.talk.stream());
    note_ = str_cat({"a task with ", knows_secret ? "the same secret " : "a secret ",
                     knows_secret ? "that belongs to another run" : "other than this task's (" + secret_.origin() + ")",
                     " was rejected; it connected", from.empty() ? " to " + to_string(first_) : from});
    rejections_.report(problem.code(), note_);
    each.talk.reject(problem);
    return true;
  }

  void cannot_accept(const error& problem) override { note_ = problem.what(); }

  /// Sends the list of addresses if all tasks are connected.
  void tell_all() {
    if (is_telling_ || !missing().empty()) return;
    is_telling_ = true;
    for (const endpoint& each : tasks_) append(list_, {to_string(each), "\n"});
    const std::string digest = digest_of(std::as_bytes(std::span(list_)));
    for (std::size_t rank = 1; rank < seats_.size(); ++rank) {
      arrival_type& each = *seats_[rank];
      try {
        each.is_welcome = true;
        each.talk.welcome(rendezvous_words(static_cast<int>(seats_.size()), 0, static_cast<int>(rank), digest));
      } catch (const error& problem) {
        lost(static_cast<int>(rank), problem);
      }
      door_.go_on(each);
      throw_if_lost();
    }
  }

  void deliver(position it) {
    try {
      it->out.advance(it->stream);
    } catch (const error& problem) {
      lost(it->rank, problem);
      return;
    }
    if (!it->out.idle()) return it->watch->arm(false, true);
    it->watch.reset();
    delivered_.push_back(std::move(it->stream));
    deliveries_.erase(it);
    if (delivered_.size() + 1 == seats_.size()) loop_.stop();
  }

  /// Ends the rendezvous. An exception in a handler of the door would only end that connection.
  void lost(int rank, const error& problem) {
    if (!failure_) failure_ = error(problem.code(), "rendezvous", {"rank ", rank, ": ", problem.sentence()});
    loop_.post([this] { throw_if_lost(); });
  }
  void throw_if_lost() const {
    if (failure_) throw *failure_;
  }

  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (std::size_t rank = 1; rank < seats_.size(); ++rank)
      if (!seats_[rank]) ranks.push_back(static_cast<int>(rank));
    return ranks;
  }

  /// Rejects the tasks that have connected, with the reason, and throws.
  [[noreturn]] void give_up() {
    const error why = late();
    for (arrival_type* const seat : seats_) {
      if (!seat || is_telling_) continue;
      try {
        seat->talk.reject(why);
      } catch (const error&) {
        // the connection is closed
      }
    }
    throw why;
  }

  error late() const {
    const std::string start = str_cat({" of ", seats_.size()});
    if (is_telling_) {
      std::vector<int> slow;
      for (const delivery& each : deliveries_) slow.push_back(each.rank);
      for (std::size_t rank = 1; rank < seats_.size(); ++rank)
        if (seats_[rank]) slow.push_back(static_cast<int>(rank));
      return error(error_code::deadline_exceeded, "rendezvous",
                   {names_of_ranks(slow), start, " did not read the list of all tasks in time; check their logs"});
    }
    return error(error_code::deadline_exceeded, "rendezvous",
                 {names_of_ranks(missing()), start, " did not connect to ", to_string(first_), " in time",
                  note_.empty() ? "; start them, or check their logs if they ended" : "; ", note_});
  }

  endpoint first_;
  const cluster_secret& secret_;
  std::vector<arrival_type*> seats_;  // by rank: tasks that have connected but do not receive the list yet
  std::vector<endpoint> tasks_;
  std::string note_, list_;
  rejection_log rejections_{"rendezvous", {}};
  bool is_telling_ = false;
  std::optional<error> failure_;
  any_transport::event_loop loop_;
  std::list<delivery> deliveries_;
  std::vector<any_transport::stream> delivered_;  // closed when all tasks have the list
  door door_;
  any_transport::event_loop::timer expiry_, quiet_;
};

}  // namespace weft::detail
