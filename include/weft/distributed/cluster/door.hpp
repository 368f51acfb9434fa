// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <optional>
#include <string>
#include <utility>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/handshake.hpp>
#include <weft/error.hpp>
#include <weft/transport/any_transport.hpp>

namespace weft::detail {

/// An accepted connection and its handshake.
struct arrival {
  using moment = deadline::time_point;

  handshake talk;
  std::uint64_t number;  // ascending in the order of acceptance
  std::string host;      // the remote host, if the transport knows it
  moment since, until;
  bool is_welcome = false, is_settled = false;  // is_settled: answered later, and kept until then
  any_transport::event_loop::timer expiry;
  std::optional<any_transport::watch> watch;  // watches the handshake's stream; destroyed before it

  template <typename Answer>
  arrival(any_transport::event_loop& loop, std::uint64_t n, moment now, moment limit, Answer answer)
      : talk(answer()), number(n), since(now), until(limit), expiry(loop) {
    host = talk.stream().remote_host();
  }
};

/// Accepts connections and performs their handshakes. The number and the lifetime of unauthenticated connections are
/// limited: if there is no room for a new one, it evicts the oldest connection from the host with the most connections,
/// so one host cannot evict the slow handshakes of other hosts. Runs on the event loop's thread.
class door {
 public:
  using moment = deadline::time_point;
  using arrival_type = arrival;
  using handshake_type = handshake;
  using phase = typename handshake_type::phase;

  /// The decisions of the door's owner. An exception from a handler counts as a failure of the connection.
  struct owner {
    virtual handshake_type answer(any_transport::stream stream) = 0;
    /// Called when the peer has proved the secret and sent its name. Welcomes or rejects it, or sets is_settled to
    /// answer later.
    virtual void validate(arrival_type& each) = 0;
    /// Called when the peer has received its welcome. Takes its stream.
    virtual void admit(arrival_type& each) = 0;
    /// Called when a connection fails with `problem`. Returns true after a call of talk.reject(), so that the rejection
    /// is sent.
    virtual bool fail(arrival_type& each, const error& problem) = 0;
    /// Called when the listener cannot accept connections for now.
    virtual void cannot_accept(const error& problem) = 0;

   protected:
    ~owner() = default;
  };

  door(any_transport::event_loop& loop, any_transport::listener listener, std::size_t max_strangers,
       std::chrono::nanoseconds patience, owner& decides)
      : loop_(loop),
        listener_(std::move(listener)),
        max_strangers_(max_strangers),
        patience_(patience),
        decides_(decides),
        again_(loop) {}

  /// The address of the listener, with the actual port.
  const endpoint& address() const { return listener_.address(); }

  /// Resumes accepting, even after an exception.
  void resume() {
    if (!listening_) listening_.emplace(loop_, listener_, [this] { accept(); });
    if (detail::now() >= open_again_) listening_->arm(true, false);
  }

  /// Continues with a settled arrival, which the owner has answered.
  void go_on(arrival_type& settled) {
    const position it = find(settled);
    if (it != settled_.end()) go_on(it);
  }
  void drop(arrival_type& settled) {
    const position it = find(settled);
    if (it != settled_.end()) settled_.erase(it);
  }

  void close() {
    again_.cancel();
    listening_.reset();
    strangers_.clear();
    settled_.clear();
    listener_.close();
  }

 private:
  using position = typename std::list<arrival_type>::iterator;

  static constexpr int max_accepted = 16;  // per call, so that other handlers of the loop run in between
  static constexpr std::chrono::milliseconds shortest_stay{5};  // the minimum age of a connection that is evicted

  void accept() {
    // Before evicting strangers, processes the input that has arrived from them.
    if (strangers_.size() >= max_strangers_)
      for (position it = strangers_.begin(); it != strangers_.end();) go_on(it++);
    const moment now = detail::now();
    try {
      any_transport::stream stream;
      for (int accepted = 0; accepted < max_accepted; ++accepted) {
        // A task of the cluster authenticates within shortest_stay.
        const bool is_full = strangers_.size() >= max_strangers_;
        const position victim = is_full ? oldest_of_most_frequent_host() : strangers_.end();
        if (is_full && now < victim->since + shortest_stay) return pause(victim->since + shortest_stay - now);
        if (!listener_.accept(stream)) break;
        if (is_full) strangers_.erase(victim);
        const moment until = now + std::chrono::duration_cast<deadline::duration>(patience_);
        const position it = strangers_.emplace(strangers_.end(), loop_, ++connections_, now, until,
                                               [&] { return decides_.answer(std::move(stream)); });
        try {
          it->watch.emplace(loop_, it->talk.stream(), [this, it] { go_on(it); });
          it->expiry.start(it->until - now, [this, it] { go_on(it); });
        } catch (...) {
          strangers_.erase(it);  // without a watch or timer, nothing would ever remove it
          throw;
        }
        go_on(it);  // a peer sends its first message immediately
      }
    } catch (const error& problem) {
      // Too many open files, for example: try again when some may be closed.
      decides_.cannot_accept(problem);
      return pause(std::chrono::milliseconds(100));
    }
    listening_->arm(true, false);
  }

  position oldest_of_most_frequent_host() {
    position found = strangers_.begin();
    std::ptrdiff_t most = 0;
    for (position it = strangers_.begin(); it != strangers_.end(); ++it) {
      const auto count = std::count_if(it, strangers_.end(), [&](const auto& each) { return each.host == it->host; });
      if (count > most) found = it, most = count;
    }
    return found;
  }

  void pause(deadline::duration time) {
    open_again_ = detail::now() + time;
    again_.start(std::chrono::ceil<std::chrono::nanoseconds>(time), [this] {
      open_again_ = {};
      resume();
    });
  }

  void go_on(position it) {
    const bool had_settled = it->is_settled;
    if (!advance(it, detail::now())) {
      (had_settled ? settled_ : strangers_).erase(it);
      return;
    }
    if (it->is_settled && !had_settled) {
      it->expiry.cancel();
      settled_.splice(settled_.end(), strangers_, it);
    }
    it->watch->arm(true, it->talk.is_sending());
  }

  /// Returns true if the handshake continues.
  bool advance(position it, moment now) {
    arrival_type& each = *it;
    try {
      if (each.talk.at() != phase::over) each.talk.advance();
      if (each.talk.at() == phase::introduced) each.is_settled ? each.talk.expect_nothing() : decides_.validate(each);
      if (each.talk.at() == phase::over && each.is_welcome) {
        each.watch.reset();
        decides_.admit(each);
        return false;
      }
      return each.talk.at() != phase::over && (each.is_settled || now < each.until);
    } catch (const error& problem) {
      return reject(it, problem, now);
    } catch (const std::exception&) {
      return false;  // out of memory for this connection
    }
  }

  bool reject(position it, const error& problem, moment now) {
    try {
      if (!decides_.fail(*it, problem) || it->is_settled) return false;
      // The peer has this long to read the rejection and close.
      it->until = std::min<moment>(it->until, now + std::chrono::milliseconds(250));
      it->expiry.start(it->until - now, [this, it] { go_on(it); });
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  position find(const arrival_type& settled) {
    return std::find_if(settled_.begin(), settled_.end(), [&](const arrival_type& each) { return &each == &settled; });
  }

  any_transport::event_loop& loop_;
  any_transport::listener listener_;
  std::size_t max_strangers_;
  std::chrono::nanoseconds patience_;
  owner& decides_;
  std::optional<any_transport::watch> listening_;
  any_transport::event_loop::timer again_;
  moment open_again_{};
  std::list<arrival_type> strangers_, settled_;
  std::uint64_t connections_ = 0;  // the number of accepted connections
};

}  // namespace weft::detail
