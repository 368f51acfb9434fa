#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <utility>

#include <weft/distributed/channel_inbox.hpp>
#include <weft/distributed/membership.hpp>
#include <weft/distributed/server_options.hpp>
#include <weft/distributed/task_identity.hpp>
#include <weft/error.hpp>
#include <weft/transport/transport.hpp>

namespace weft::detail {

/// Accepts connections, and admits tasks of this cluster: their channels to the inbox, their control connections to
/// who asked for them. Connections that have not proved to belong here are few and short-lived: one that takes the last
/// place evicts the oldest. Works on the event loop's thread.
template <transport T, typename Clock>
class admission {
 public:
  using on_channel = std::function<void()>;
  using admit_control = std::function<void(peer_channel<T>)>;

  admission(typename T::event_loop& loop, task_identity<T>& identity, membership& members,
            channel_inbox<T, Clock>& inbox, const server_options& options, std::size_t max_strangers,
            typename T::listener listener, admit_control admits, on_channel opened)
      : loop_(loop),
        identity_(identity),
        members_(members),
        inbox_(inbox),
        options_(options),
        max_strangers_(max_strangers),
        listener_(std::move(listener)),
        admits_(std::move(admits)),
        opened_(std::move(opened)),
        again_(loop) {}

  /// Where it listens, with the port that was really bound.
  const endpoint& address() const { return listener_.address(); }

  /// Goes on accepting, whatever has come in between.
  void resume() {
    if (!listening_) listening_.emplace(loop_, listener_, [this] { accept(); });
    if (Clock::now() >= open_again_) listening_->arm(true, false);
  }

  void close() {
    again_.cancel();
    listening_.reset();
    arrivals_.clear();
    listener_.close();
  }

 private:
  using moment = typename Clock::time_point;
  using phase = typename task_identity<T>::handshake_type::phase;

  static constexpr int max_accepted = 16;  // in one turn, so that the others of the loop have theirs
  static constexpr std::chrono::milliseconds shortest_stay{5};  // of a stranger, however many come after it

  /// A connection that came, and has not yet said who it is.
  struct arrival {
    typename task_identity<T>::handshake_type talk;
    std::uint64_t number;
    moment since, until;
    bool is_welcome = false;
    typename T::event_loop::timer expiry;
    std::optional<typename T::watch> watch;  // of the handshake's stream: ends first

    arrival(typename T::stream stream, admission& of, moment now)
        : talk(of.identity_.answer(std::move(stream))),
          number(++of.connections_),
          since(now),
          until(now + of.options_.handshake_timeout),
          expiry(of.loop_) {}
  };
  using position = typename std::list<arrival>::iterator;

  void accept() {
    // What has come of those who are here counts before one of them is evicted.
    if (arrivals_.size() >= max_strangers_)
      for (position it = arrivals_.begin(); it != arrivals_.end();) go_on(it++);
    const moment now = Clock::now();
    try {
      typename T::stream stream;
      for (int accepted = 0; accepted < max_accepted; ++accepted) {
        // A task has proved itself within shortest_stay; what has not may be evicted.
        if (arrivals_.size() >= max_strangers_ && now < arrivals_.front().since + shortest_stay)
          return pause(arrivals_.front().since + shortest_stay - now);
        if (!listener_.accept(stream)) break;
        if (arrivals_.size() >= max_strangers_) arrivals_.pop_front();
        const position it = arrivals_.emplace(arrivals_.end(), std::move(stream), *this, now);
        try {
          it->watch.emplace(loop_, it->talk.stream(), [this, it] { go_on(it); });
          it->expiry.start(it->until - now, [this, it] { go_on(it); });
        } catch (...) {
          arrivals_.erase(it);  // nothing would ever look at it
          throw;
        }
        go_on(it);  // a task speaks first, and at once
      }
    } catch (const error& problem) {
      // Too many open files: some may be closed by then.
      for (std::size_t rank = members_.self() + 1; rank < members_.size(); ++rank)
        members_.set_note(rank, problem.what());
      return pause(std::chrono::milliseconds(100));
    }
    listening_->arm(true, false);
  }

  void pause(typename Clock::duration time) {
    open_again_ = Clock::now() + time;
    again_.start(std::chrono::ceil<std::chrono::nanoseconds>(time), [this] {
      open_again_ = {};
      resume();
    });
  }

  void go_on(position it) {
    if (advance(it, Clock::now()))
      it->watch->arm(true, it->talk.is_sending());
    else
      arrivals_.erase(it);
  }

  /// Returns whether there is more to do for it.
  bool advance(position it, moment now) {
    arrival& each = *it;
    try {
      each.talk.advance();
      if (each.talk.at() == phase::introduced) validate(each);
      if (each.talk.at() == phase::over && each.is_welcome) {
        admit(each, now);
        return false;
      }
      return each.talk.at() != phase::over && now < each.until;
    } catch (const error& problem) {
      return reject(it, problem, now);
    } catch (const std::exception&) {
      return false;  // no memory for it
    }
  }

  void validate(arrival& each) {
    const introduction& its = *each.talk.other();
    if (const auto problem = identity_.objection_to(its, each.talk.stream(), address()))
      return each.talk.refuse(*problem);
    const std::size_t rank = *identity_.find(its.from);
    if (!its.channel.empty())
      if (const std::size_t waiting = inbox_.count_others(rank, its.channel); waiting >= options_.max_channels)
        return each.talk.refuse(
            error(error_code::resource_exhausted, "handshake",
                  {to_string(its.from), " has ", waiting, " channels that nobody has accepted; at most ",
                   options_.max_channels, " may wait (server_options::max_channels)"}));
    each.talk.welcome(identity_.introduction_to(rank, its.channel, 0));
    each.is_welcome = true;
  }

  void admit(arrival& each, moment now) {
    const introduction& its = *each.talk.other();
    const std::size_t rank = *identity_.find(its.from);
    each.watch.reset();
    peer_channel<T> opened{rank, its.incarnation, std::move(each.talk.stream()), each.number};
    if (its.channel.empty()) return admits_(std::move(opened));
    constexpr std::uint64_t longest = 600'000'000;  // ten minutes
    const std::chrono::microseconds waits(
        static_cast<std::int64_t>(its.waits_us == 0 ? longest : std::min(its.waits_us, longest)));
    inbox_.put(std::move(opened), its.channel, now + std::chrono::duration_cast<typename Clock::duration>(waits));
    opened_();
  }

  /// A stranger, or a task of another version, is told no more than that: what it does not know of this task it is not
  /// to learn. Others are gone, or speak no language of this one. Returns whether there is more to do for it.
  bool reject(position it, const error& problem, moment now) {
    const error_code code = problem.code();
    if (options_.tls && code != error_code::unavailable)
      members_.set_note(str_cat({"a task that came was rejected: ", problem.sentence()}));
    else if (code == error_code::unauthenticated)
      members_.set_note(str_cat({"a task with another secret than ", identity_.secret().origin(), " was rejected"}));
    else if (code == error_code::failed_precondition)
      members_.set_note(str_cat({"a task that came was rejected: ", problem.sentence()}));
    if (code != error_code::unauthenticated && code != error_code::failed_precondition) return false;
    try {
      it->talk.reject(code);
      // It reads that, and goes.
      it->until = std::min<moment>(it->until, now + std::chrono::milliseconds(250));
      it->expiry.start(it->until - now, [this, it] { go_on(it); });
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  typename T::event_loop& loop_;
  task_identity<T>& identity_;
  membership& members_;
  channel_inbox<T, Clock>& inbox_;
  const server_options& options_;
  std::size_t max_strangers_;
  typename T::listener listener_;
  admit_control admits_;
  on_channel opened_;
  std::optional<typename T::watch> listening_;
  typename T::event_loop::timer again_;
  moment open_again_{};
  std::list<arrival> arrivals_;
  std::uint64_t connections_ = 0;  // that have come
};

}  // namespace weft::detail
