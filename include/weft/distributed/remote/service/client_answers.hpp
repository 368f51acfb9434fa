// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/error.hpp>
#include <weft/transport/any_transport.hpp>
#include <weft/transport/framing.hpp>
#include <weft/transport/waiter.hpp>

namespace weft::detail {

/// Sends frames to the clients outside the cluster, each over a connection of its own. A client that reads slowly does
/// not delay the others: a sender that has waited for `patience` leaves a copy of the rest to a thread of this class.
/// Only a client that reads nothing for some time is dropped. All members are thread-safe.
class client_answers {
 public:
  using payload_type = std::vector<std::byte>;

  static constexpr std::size_t max_clients = 1024;

  /// `stalled`: a client that reads nothing for this time is dropped. `max_waiting`: see has_room().
  client_answers(any_transport network, wait_policy waiting, bool checksum, std::chrono::milliseconds stalled,
                 std::uint64_t max_waiting)
      : network_(std::move(network)),
        waiting_(waiting),
        checksum_(checksum),
        stalled_(stalled),
        max_waiting_(max_waiting),
        bell_(network_) {}
  ~client_answers() { stop(); }
  client_answers(const client_answers&) = delete;
  client_answers& operator=(const client_answers&) = delete;

  void stop() {
    std::thread last;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      last.swap(thread_);
    }
    bell_.notify();
    if (last.joinable()) detail::join(last);
  }

  /// A client has opened the connection on which it receives. Closes an earlier one: the client has connected again.
  void add(std::uint64_t incarnation, any_transport::stream answers) {
    auto made = std::make_shared<client>();
    made->answers = std::move(answers);
    const std::lock_guard lock(mutex_);
    const auto found = clients_.find(incarnation);
    if (stopping_ || (found == clients_.end() && clients_.size() >= max_clients)) return;
    if (!thread_.joinable()) thread_ = detail::start_thread([this] { run(); });
    made->number = ++last_number_;
    if (found == clients_.end())
      clients_.emplace(incarnation, std::move(made));
    else
      found->second.swap(made);
  }
  /// A client has opened the connection for its requests. Returns the number of its connections, or 0 if it has not
  /// opened the other one.
  std::uint64_t admit(std::uint64_t incarnation) {
    const std::lock_guard lock(mutex_);
    const auto found = clients_.find(incarnation);
    if (found == clients_.end() || std::exchange(found->second->asks, true)) return 0;
    return found->second->number;
  }
  bool has(std::uint64_t incarnation) const {
    const std::lock_guard lock(mutex_);
    const auto found = clients_.find(incarnation);
    return found != clients_.end() && found->second->asks;
  }
  /// Returns true if these connections of the client are open.
  bool has(std::uint64_t incarnation, std::uint64_t number) const {
    const std::lock_guard lock(mutex_);
    const auto found = clients_.find(incarnation);
    return found != clients_.end() && found->second->asks && found->second->number == number;
  }
  /// Returns true if the client has connected again since.
  bool is_replaced(std::uint64_t incarnation, std::uint64_t number) const {
    const std::lock_guard lock(mutex_);
    const auto found = clients_.find(incarnation);
    return found != clients_.end() && found->second->number != number;
  }
  /// Bytes have arrived from a client.
  void note_received(std::uint64_t incarnation) {
    const std::lock_guard lock(mutex_);
    if (const auto found = clients_.find(incarnation); found != clients_.end()) found->second->heard = detail::now();
  }
  /// Returns true if nothing has arrived from a client for this time.
  bool is_silent(std::uint64_t incarnation, std::chrono::milliseconds time) const {
    const std::lock_guard lock(mutex_);
    const auto found = clients_.find(incarnation);
    return found == clients_.end() || detail::now() - found->second->heard > time;
  }
  /// Closes these connections of the client. Newer ones stay open.
  void remove(std::uint64_t incarnation, std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = clients_.find(incarnation);
    if (found != clients_.end() && found->second->number == number) clients_.erase(found);
  }
  /// Drops clients whose second connection is overdue.
  void drop_late() {
    const std::lock_guard lock(mutex_);
    for (auto each = clients_.begin(); each != clients_.end();)
      each = !each->second->asks && each->second->comes.expired() ? clients_.erase(each) : std::next(each);
  }

  /// Returns false if more than `max_waiting` bytes would wait for the client with a frame of `bytes`: the sender must
  /// then wait before it calls send(). Returns true for a client that has left, which send() reports.
  bool has_room(std::uint64_t incarnation, std::size_t bytes) const {
    const std::shared_ptr<client> to = find(incarnation);
    if (!to || !to->has_backlog) return true;
    const std::lock_guard lock(to->mutex);
    return to->waiting == 0 || to->waiting + cost(bytes) <= max_waiting_;
  }

  /// Sends a frame, or leaves a copy to the thread if the client does not read. Throws unavailable if the client has
  /// left, and the errors of `check`.
  template <typename Check>
  void send(std::uint64_t incarnation, const frame_header& header, const_bytes payload, Check check) {
    const std::shared_ptr<client> to = find(incarnation);
    if (!to) throw gone();
    {
      const std::lock_guard sends(to->sends);
      if (to->has_backlog) {  // the frame joins the queue
        push(*to, {header, {payload.begin(), payload.end()}});
      } else {
        try {
          if (!send_now(*to, incarnation, header, payload, check)) detach(*to, payload.size());
        } catch (...) {
          if (to->has_backlog)
            bell_.notify();
          else
            remove(incarnation, to->number);  // the frame may be incomplete
          throw;
        }
      }
    }
    // After the unlock: the thread skips a client whose `sends` is locked, and a post() may have rung before.
    if (to->has_backlog) bell_.notify();
  }
  /// Leaves the answer to a request to the thread; never blocks. Drops a client that keeps sending requests without
  /// reading the answers.
  void post(std::uint64_t incarnation, const frame_header& header, payload_type payload) {
    const std::shared_ptr<client> to = find(incarnation);
    if (!to) throw gone();
    try {
      push(*to, {header, std::move(payload), true});
    } catch (...) {
      remove(incarnation, to->number);
      throw;
    }
    bell_.notify();
  }
  /// Posts a heartbeat, unless other frames wait: any frame replaces a heartbeat.
  void post_heartbeat(std::uint64_t incarnation) {
    const std::shared_ptr<client> to = find(incarnation);
    if (!to || to->has_backlog) return;
    frame_header header;
    header.kind = frame_kind::heartbeat;
    push(*to, {header, {}});
    bell_.notify();
  }

 private:
  static constexpr std::chrono::milliseconds patience{50};
  static constexpr std::size_t max_posted = 1024;              // answers that wait for one client
  static constexpr std::size_t steady = std::size_t{1} << 20;  // bytes to read per `patience` of waiting

  struct frame {
    frame_header header;
    payload_type payload;
    bool is_posted = false;
  };

  struct client {
    detail::task_mutex sends;  // guards `answers`, `out`, `current`, `bytes` and `stalls`
    any_transport::stream answers;
    frame_writer out;
    frame current;  // owns the payload that `out` sends
    std::size_t bytes = 0;
    deadline stalls = deadline::never();

    std::mutex mutex;  // guards `queue`, `waiting` and `posted`
    std::deque<frame> queue;
    std::size_t waiting = 0;               // bytes of the queue and of the frame in `out`
    std::size_t posted = 0;                // frames of the queue
    std::atomic<bool> has_backlog{false};  // then only the thread sends

    std::uint64_t number = 0;  // a client that connects again gets a new number
    bool asks = false;         // both connections are open
    deadline::time_point heard = detail::now();
    deadline comes = deadline(std::chrono::seconds(10));
  };

  static error gone() { return error(error_code::unavailable, "send", "the client is gone"); }

  std::shared_ptr<client> find(std::uint64_t incarnation) const {
    const std::lock_guard lock(mutex_);
    const auto found = clients_.find(incarnation);
    return found == clients_.end() ? nullptr : found->second;
  }

  /// The memory that a frame takes while it waits.
  static std::size_t cost(std::size_t payload) { return sizeof(frame) + payload; }

  void push(client& to, frame next) {
    const std::size_t bytes = cost(next.payload.size());
    const bool is_posted = next.is_posted;
    const std::lock_guard lock(to.mutex);
    if (is_posted && to.posted >= max_posted)
      throw error(error_code::resource_exhausted, "send", "the client does not read the values that it requested");
    to.queue.push_back(std::move(next));
    to.posted += is_posted;
    to.waiting += bytes;
    to.has_backlog = true;
  }

  /// Returns false if the client reads nothing or slowly: less than `steady` in each `patience` of waiting.
  template <typename Check>
  bool send_now(client& to, std::uint64_t incarnation, const frame_header& header, const_bytes payload, Check check) {
    to.out.start(header, payload, checksum_);
    waiter idle(network_, waiting_);
    deadline::duration waited{};
    std::size_t sent = 0;
    while (true) {
      const std::size_t moved = to.out.advance(to.answers);
      if (to.out.idle()) return true;
      if (moved > 0) {
        idle.moved();
        sent += moved;
        if (sent >= steady) sent = 0, waited = {};
        continue;
      }
      if (waited >= patience) return false;
      const auto began = detail::now();
      any_transport::wait_item item{&to.answers, false, true};
      if (idle.pause({&item, 1}, deadline(patience - waited))) {
        try {
          check();
        } catch (...) {
          detach(to, payload.size());  // the client still receives whole frames
          throw;
        }
        if (!has(incarnation, to.number)) throw gone();
      }
      waited += detail::now() - began;
    }
  }
  void detach(client& to, std::size_t bytes) {
    to.out.detach();
    to.bytes = cost(bytes);
    to.stalls = deadline(stalled_);
    const std::lock_guard lock(to.mutex);
    to.waiting += to.bytes;
    to.has_backlog = true;
  }

  /// Sends as much as the client reads now. Returns false when nothing is left.
  bool advance(client& to) {
    while (true) {
      if (to.out.advance(to.answers) > 0) to.stalls = deadline(stalled_);
      if (!to.out.idle()) {
        if (to.stalls.expired()) throw error(error_code::deadline_exceeded, "send", "the client does not read");
        return true;
      }
      const std::lock_guard lock(to.mutex);
      to.waiting -= std::exchange(to.bytes, 0);
      to.current = {};
      if (to.queue.empty()) {
        to.has_backlog = false;
        return false;
      }
      to.current = std::move(to.queue.front());
      to.queue.pop_front();
      to.posted -= to.current.is_posted;
      to.bytes = cost(to.current.payload.size());
      to.out.start(to.current.header, to.current.payload, checksum_);
      to.stalls = deadline(stalled_);
    }
  }

  void run() {
    while (!stopping_) try {
        send_backlogs();
      } catch (const std::exception&) {  // no memory
        detail::sleep(std::chrono::milliseconds(10));
      }
  }
  void send_backlogs() {
    std::vector<std::pair<std::uint64_t, std::shared_ptr<client>>> late;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& each : clients_)
        if (each.second->has_backlog) late.push_back(each);
    }
    std::vector<any_transport::wait_item> items{{&bell_, true, false}};
    for (const auto& [incarnation, to] : late) {
      const std::unique_lock sends(to->sends, std::try_to_lock);
      if (!sends) continue;  // the sender rings the bell when it is done
      try {
        if (advance(*to)) items.push_back({&to->answers, false, true});
      } catch (const std::exception&) {
        remove(incarnation, to->number);
      }
    }
    if (network_.wait(items, late.empty() ? std::chrono::milliseconds(500) : std::chrono::milliseconds(50)))
      bell_.clear();
  }

  any_transport network_;
  wait_policy waiting_;
  bool checksum_;
  std::chrono::milliseconds stalled_;
  std::uint64_t max_waiting_;
  any_transport::signal bell_;
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<client>> clients_;  // by incarnation
  std::uint64_t last_number_ = 0;
  std::thread thread_;
};

}  // namespace weft::detail
