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

/// A connection that came, in its handshake.
struct arrival {
  using moment = deadline::time_point;

  handshake talk;
  std::uint64_t number;  // a later one has a larger number
  std::string host;      // of the other side, if the transport knows it
  moment since, until;
  bool is_welcome = false, is_settled = false;  // is_settled: it is answered later, and stays until then
  any_transport::event_loop::timer expiry;
  std::optional<any_transport::watch> watch;  // of the handshake's stream: ends first

  template <typename Answer>
  arrival(any_transport::event_loop& loop, std::uint64_t n, moment now, moment limit, Answer answer)
      : talk(answer()), number(n), since(now), until(limit), expiry(loop) {
    host = talk.stream().remote_host();
  }
};

/// Accepts connections and runs their handshakes. Connections that have not yet proved that they belong here are few
/// and short-lived: a new one that finds no place evicts the oldest one from the host that has most of them, so that
/// one host cannot evict the slow handshakes of others. Works on the event loop's thread.
class door {
 public:
  using moment = deadline::time_point;
  using arrival_type = arrival;
  using handshake_type = handshake;
  using phase = typename handshake_type::phase;

  /// The decisions of the door's owner. An exception from a handler counts as a failure of that connection.
  struct owner {
    virtual handshake_type answer(any_transport::stream stream) = 0;
    /// The arrival knows the secret and has said which task it is: welcomes it, refuses it, or sets is_settled.
    virtual void validate(arrival_type& each) = 0;
    /// The arrival has been told that it is welcome. Its stream is the owner's.
    virtual void admit(arrival_type& each) = 0;
    /// A connection ends with this. Whether it is to be told of it: talk.reject() has been called.
    virtual bool fail(arrival_type& each, const error& problem) = 0;
    /// No more connections can be accepted for now.
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

  /// Where it listens, with the port that was really bound.
  const endpoint& address() const { return listener_.address(); }

  /// Goes on accepting, whatever has come in between.
  void resume() {
    if (!listening_) listening_.emplace(loop_, listener_, [this] { accept(); });
    if (detail::now() >= open_again_) listening_->arm(true, false);
  }

  /// The owner has answered one that has settled.
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

  static constexpr int max_accepted = 16;  // in one turn, so that the others of the loop have theirs
  static constexpr std::chrono::milliseconds shortest_stay{5};  // of a stranger, however many come after it

  void accept() {
    // Input that has come from strangers counts before one of them is evicted.
    if (strangers_.size() >= max_strangers_)
      for (position it = strangers_.begin(); it != strangers_.end();) go_on(it++);
    const moment now = detail::now();
    try {
      any_transport::stream stream;
      for (int accepted = 0; accepted < max_accepted; ++accepted) {
        // A task of the same site proves itself within shortest_stay.
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
          strangers_.erase(it);  // nothing would ever look at it
          throw;
        }
        go_on(it);  // a task speaks first, and at once
      }
    } catch (const error& problem) {
      // Too many open files: some may be closed by then.
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

  /// Returns whether there is more to do for it.
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
      return false;  // no memory for it
    }
  }

  bool reject(position it, const error& problem, moment now) {
    try {
      if (!decides_.fail(*it, problem) || it->is_settled) return false;
      // It reads that, and goes.
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
  std::uint64_t connections_ = 0;  // that have come
};

}  // namespace weft::detail
