// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
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
#include <weft/distributed/membership/exchange_loop.hpp>
#include <weft/distributed/remote/service/run_turns.hpp>
#include <weft/distributed/remote/service/service_request.hpp>
#include <weft/error.hpp>

namespace weft::detail {

/// Serves the requests of a task in three kinds of queues, each with a thread: runs to forward, requests that take
/// turns, and one queue for each session whose steps have queue operations, because a run of such a session can wait
/// for a later run of another session. One request at a time computes; see run_state.
class run_scheduler {
 public:
  /// The owner's state for the runs of one session's queue.
  struct session_state {
    virtual ~session_state() = default;
  };

  class owner {
   public:
    /// A request joins a queue. The scheduler is locked.
    virtual void note_queued(const service_request&) = 0;
    /// Returns true for this process.
    virtual bool is_own(const peer_process&) const = 0;
    /// Sends a run to other tasks. Returns false if the run must wait for one of them.
    virtual bool forward(service_request&) = 0;
    /// `state`: the state of the session's queue; null for other requests.
    virtual void execute(service_request&, std::unique_ptr<session_state>* state) = 0;
    /// Serves frame_kind::cancel_step, which takes no turn.
    virtual void end_cancelled(const service_request&) = 0;
    /// The client's session, or the scheduler, has ended before this request was served.
    virtual void drop(const service_request&, const peer_process& client) = 0;
    /// Receives in this thread until must_serve() returns true, at most for `time`. Returns false if another thread
    /// receives.
    virtual bool receive(std::chrono::milliseconds time) = 0;
    /// Ends receive().
    virtual void wake() = 0;
    /// Called once a second.
    virtual void clean_up() = 0;

   protected:
    ~owner() = default;
  };

  static constexpr std::size_t max_sessions = 1024;  // sessions with a queue
  static constexpr std::ptrdiff_t max_sessions_of_client = 128;

  explicit run_scheduler(owner& of) : owner_(of) {}
  ~run_scheduler() {
    stop();
    join_sessions();
  }
  run_scheduler(const run_scheduler&) = delete;
  run_scheduler& operator=(const run_scheduler&) = delete;

  void start() {
    in_turn_.thread = detail::start_thread([this] { serve(in_turn_); });
    try {
      forwarded_.thread = detail::start_thread([this] { serve(forwarded_); });
    } catch (const std::exception&) {
      stop();
      throw;
    }
  }
  /// Ends the threads, except those of sessions, which join_sessions() waits for once no thread adds requests.
  void stop() {
    stopping_ = true;
    {
      const std::lock_guard lock(mutex_);
      for (auto& [session, each] : sessions_) each->changed.notify_all();
    }
    if (in_turn_.thread.joinable()) {
      in_turn_.changed.notify_all();
      owner_.wake();
      detail::join(in_turn_.thread);
    }
    if (forwarded_.thread.joinable()) {
      forwarded_.changed.notify_all();
      detail::join(forwarded_.thread);
    }
  }
  void join_sessions() {
    session_map sessions;
    std::vector<std::unique_ptr<request_queue>> ended;
    {
      const std::lock_guard lock(mutex_);  // a session's thread may still receive the end of another session
      sessions.swap(sessions_);
      ended.swap(ended_);
    }
    for (auto& [session, each] : sessions) detail::join(each->thread);
    for (auto& each : ended) detail::join(each->thread);
  }
  /// Answers the requests that still wait after all threads have ended.
  void drop_waiting() {
    drop_waiting(in_turn_);
    drop_waiting(forwarded_);
  }

  // ---- requests ----

  /// Adds a request that is sent to other tasks.
  void forward(service_request&& next) {
    next.progress = run_progress(run_state::forwarding);
    const std::lock_guard lock(mutex_);
    push(forwarded_, std::move(next));
  }
  void add(service_request&& next) {
    next.progress = run_progress(run_state::queued);
    {
      const std::lock_guard lock(mutex_);
      last_is_own_ = owner_.is_own(next.client());
      push(in_turn_, std::move(next));
    }
    // The thread waits for requests in the receiving loop, where the condition variable does not wake it.
    owner_.wake();
  }
  /// Adds a run with queue operations. Throws resource_exhausted if too many sessions have such runs.
  void add_to_session(service_request&& next) {
    next.progress = run_progress(run_state::queued);
    join_ended();
    const std::lock_guard lock(mutex_);
    request_queue& into = queue_of(next);
    if (into.phase != queue_phase::open) throw run_was_cancelled();
    push(into, std::move(next));
  }

  /// Drops the runs of a client that have not been forwarded yet.
  void drop_forwarded(const peer_process& client) {
    const std::lock_guard lock(mutex_);
    std::erase_if(forwarded_.waiting,
                  [&](const service_request& each) { return each.message && each.client() == client; });
  }
  /// Drops the runs of a session that have not been forwarded yet, and ends its queue.
  void end_session(std::uint64_t session) {
    const std::lock_guard lock(mutex_);
    std::erase_if(forwarded_.waiting,
                  [&](const service_request& each) { return each.message && each.header.tag == session; });
    if (const auto found = sessions_.find(session); found != sessions_.end()) end(found);
  }
  template <typename Gone>
  void end_sessions_of(Gone is_gone) {
    const std::lock_guard lock(mutex_);
    for (auto each = sessions_.begin(); each != sessions_.end();)
      each = is_gone(each->second->client) ? end(each) : std::next(each);
  }
  /// Joins the threads of sessions that have ended.
  void join_ended() {
    std::vector<std::unique_ptr<request_queue>> over;
    {
      const std::lock_guard lock(mutex_);
      const auto first = std::partition(ended_.begin(), ended_.end(),
                                        [](const auto& each) { return each->phase != queue_phase::closed; });
      std::move(first, ended_.end(), std::back_inserter(over));
      ended_.erase(first, ended_.end());
    }
    for (const auto& each : over) detail::join(each->thread);
  }

  // ---- turns ----

  run_turns& turns() { return turns_; }
  /// Returns true if receive() must return.
  bool must_serve() const { return stopping_ || has_waiting(); }
  /// Returns true if requests wait for their turn.
  bool has_waiting() const {
    const std::lock_guard lock(mutex_);
    return !in_turn_.waiting.empty();
  }
  /// Adds time for which the current request has waited for a client that reads slowly.
  void note_stalled(deadline::duration time) {
    const std::lock_guard lock(mutex_);
    stalled_ += time;
  }
  /// Returns true if a request of another client has waited for slow readers for this time.
  bool others_have_waited(const peer_process& client, deadline::duration time) const {
    const std::lock_guard lock(mutex_);
    return std::any_of(in_turn_.waiting.begin(), in_turn_.waiting.end(), [&](const service_request& each) {
      return each.client() != client && stalled_ - each.stalled_before >= time;
    });
  }

 private:
  enum class queue_phase : std::uint8_t { open, closing, closed };

  struct request_queue {
    std::deque<service_request> waiting;
    std::condition_variable changed;
    std::size_t refused = 0;  // consecutive requests that had to wait
    std::thread thread;
    // Of a session.
    peer_process client{};
    std::unique_ptr<session_state> state = {};
    std::atomic<queue_phase> phase{queue_phase::open};
  };
  using session_map = std::map<std::uint64_t, std::unique_ptr<request_queue>>;

  /// The mutex is locked.
  void push(request_queue& to, service_request&& next) {
    owner_.note_queued(next);
    next.stalled_before = stalled_;
    to.waiting.push_back(std::move(next));
    to.changed.notify_one();
  }

  // ---- threads ----

  void serve(request_queue& own) {
    while (!stopping_ && own.phase == queue_phase::open) try {
        serve_once(own);
      } catch (const error&) {           // usually, the client is gone
      } catch (const std::exception&) {  // no memory
        detail::sleep(std::chrono::milliseconds(10));
      }
  }
  void serve_once(request_queue& own) {
    if (&own == &in_turn_ && clean_up_.expired()) {
      clean_up_ = deadline(std::chrono::seconds(1));
      owner_.clean_up();
      join_ended();
    }
    std::unique_lock lock(mutex_);
    if (own.waiting.empty()) return await(own, lock);
    service_request next = std::move(own.waiting.front());
    own.waiting.pop_front();
    lock.unlock();
    if (perform(own, next)) {
      own.refused = 0;
      return;
    }
    lock.lock();
    own.waiting.push_back(std::move(next));
    if (++own.refused < own.waiting.size()) return;
    own.refused = 0;
    detail::sleep(own.changed, lock, std::chrono::milliseconds(5));
  }
  /// Returns false if the request must wait: other requests are served first.
  bool perform(request_queue& own, service_request& next) {
    if (&own == &forwarded_) return owner_.forward(next);
    if (next.header.kind == frame_kind::cancel_step) {
      owner_.end_cancelled(next);
      return true;
    }
    const run_turn here(turns_, next.progress);
    owner_.execute(next, &own == &in_turn_ ? nullptr : &own.state);
    return true;
  }
  /// Waits for a request, but not for long. The thread of in_turn_ receives its next request by itself, unless this
  /// process makes the requests.
  void await(request_queue& own, std::unique_lock<std::mutex>& lock) {
    if (&own == &in_turn_ && !last_is_own_) {
      lock.unlock();
      const bool received = owner_.receive(std::chrono::milliseconds(100));
      lock.lock();
      if (received || !own.waiting.empty() || stopping_) return;
    }
    last_is_own_ = false;
    detail::sleep(own.changed, lock, std::chrono::milliseconds(100));
  }

  void drop_waiting(request_queue& of) {
    std::deque<service_request> left;
    {
      const std::lock_guard lock(mutex_);
      left.swap(of.waiting);
    }
    for (service_request& each : left) try {
        if (&of == &forwarded_ && !each.message)
          owner_.forward(each);  // a reply
        else if (each.header.kind != frame_kind::cancel_step)
          owner_.drop(each, each.client());
      } catch (const std::exception&) {  // the client is gone
      }
  }

  // ---- sessions; the mutex is locked ----

  request_queue& queue_of(const service_request& first) {
    const std::uint64_t session = first.header.tag;
    if (stopping_) throw service_has_ended();
    if (const auto found = sessions_.find(session); found != sessions_.end()) return *found->second;
    const peer_process client = first.client();
    const auto count =
        std::count_if(sessions_.begin(), sessions_.end(), [&](auto& each) { return each.second->client == client; });
    // An ended session counts until its thread has ended.
    if (sessions_.size() + ended_.size() >= max_sessions || count >= max_sessions_of_client)
      throw error(error_code::resource_exhausted, "step", "too many sessions use queues");
    request_queue* const own = sessions_.emplace(session, std::make_unique<request_queue>()).first->second.get();
    own->client = client;
    try {
      own->thread = detail::start_thread([this, own] { serve_session(*own); });
    } catch (const std::exception&) {
      sessions_.erase(session);
      throw error(error_code::resource_exhausted, "step", "cannot start a thread for a session that uses queues");
    }
    return *own;
  }
  /// Returns the next session.
  session_map::iterator end(session_map::iterator which) {
    which->second->phase = queue_phase::closing;
    which->second->changed.notify_all();
    ended_.push_back(std::move(which->second));
    return sessions_.erase(which);
  }
  /// Runs on the session's thread, without the mutex.
  void serve_session(request_queue& own) {
    serve(own);
    std::deque<service_request> left;
    {
      const std::lock_guard lock(mutex_);
      left.swap(own.waiting);
      own.phase = queue_phase::closing;
    }
    for (const service_request& each : left) try {
        owner_.drop(each, own.client);
      } catch (const std::exception&) {  // the client is gone
      }
    left.clear();
    own.phase = queue_phase::closed;
  }

  owner& owner_;
  std::atomic<bool> stopping_{false};
  run_turns turns_;

  mutable std::mutex mutex_;
  request_queue in_turn_, forwarded_;
  session_map sessions_;                               // by number
  std::vector<std::unique_ptr<request_queue>> ended_;  // queues of ended sessions
  bool last_is_own_ = false;                           // this process made the last request in in_turn_
  deadline::duration stalled_{};  // total time that requests in in_turn_ have waited for clients that read slowly
  deadline clean_up_{std::chrono::seconds(1)};
};

}  // namespace weft::detail
