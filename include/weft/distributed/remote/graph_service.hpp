#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/device/gpu/device.hpp>
#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/membership/server.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/distributed/remote/client_runs.hpp>
#include <weft/distributed/remote/mailbox.hpp>
#include <weft/distributed/remote/parked_runs.hpp>
#include <weft/distributed/remote/remote_channels.hpp>
#include <weft/distributed/remote/remote_tasks.hpp>
#include <weft/distributed/remote/request_limits.hpp>
#include <weft/distributed/remote/step_messages.hpp>
#include <weft/distributed/remote/task_part.hpp>
#include <weft/distributed/remote/variable_table.hpp>
#include <weft/error.hpp>
#include <weft/queue/queue_state.hpp>
#include <weft/queue/resources.hpp>
#include <weft/session/session.hpp>
#include <weft/train/signals.hpp>
#include <weft/transport/random_bytes.hpp>
#include <weft/transport/separate.hpp>

namespace weft {

/// Options of a graph_service.
struct graph_service_options {
  /// The task's devices and threads. Where nodes run that name no device, and soft placement, the client's session
  /// says.
  session_options session = {};
  std::chrono::milliseconds step_timeout{600'000};    ///< a run of a step ends within this time, or fails
  std::chrono::milliseconds connect_timeout{60'000};  ///< a new session waits so long for the tasks
  /// Limits the size of one value that arrives, and of all values that wait for one client that reads slowly.
  std::uint64_t max_value_bytes = std::uint64_t{4} << 30;
  std::uint64_t max_parked_bytes = std::uint64_t{8} << 30;  ///< of values that wait here for their steps
};

/// One task's share of a graph that spans the tasks of a cluster, and the way for sessions of this process to ask all
/// of them for steps. The tasks run the same program, and record the same graph before the first step; each makes one
/// of these, on which the others' steps run from then on.
///
///     server here(cluster, job, index);
///     graph_service tasks(here, g);
///     if (here.is_chief()) {
///       session s(g, {.target = tasks.target()});
///       ...
///     } else {
///       here.join();
///     }
///
/// Each session places the nodes of its graph by its own pins and options. Variables belong to their task and live as
/// long as its graph_service. Sessions whose graphs place a variable of one name in one task share it. Runs of several
/// sessions take turns.
class task_service {
  using mailbox = detail::mailbox;

 public:
  task_service(task_server& here, const graph& g, graph_service_options options = {});
  ~task_service();
  task_service(const task_service&) = delete;
  task_service& operator=(const task_service&) = delete;

  /// For session_options::target: nodes that name no task run in this one.
  session_target target() { return target(here_.members().self()); }
  /// The same with the task of this rank in place of this one.
  session_target target(std::size_t rank);

  /// Waits while this task serves the steps of sessions elsewhere: until SIGINT or SIGTERM, if
  /// server_options::handle_signals, until server::stop(), or for as long as `until` says. A second signal of the kind
  /// ends the process at once. Returns the signal's number; 0: none has come. Throws aborted if other tasks have
  /// declared this one lost, because it was stopped or disconnected for too long: it must be started again.
  /// server::join() returns after the chief has left or is lost. This does not, so sessions continue when a lost task
  /// is back.
  int serve(deadline until = deadline::never());

  /// Serves the steps of another graph, too: that of another program, of which this task runs a part. Graphs of
  /// sessions of this process are added without a call.
  void add_graph(const graph& g) {
    const std::lock_guard lock(mutex_);
    for (const graph& known : graphs_)
      if (&known.self() == &g.self()) return;
    graphs_.push_back(g.share());
  }

  task_server& here() { return here_; }
  const graph_service_options& options() const { return options_; }

 private:
  friend class detail::remote_tasks<task_service>;

  using run_key = detail::run_key;

  /// What a target refers to.
  struct home {
    task_service* of;
    std::uint32_t rank;
  };

  struct job {
    detail::peer_process from;
    frame_header header;
    std::vector<std::byte> payload;
    std::shared_ptr<const detail::run_message> message = {};  // of a run
    detail::request_limits::ticket admitted = {};
    deadline waits{std::chrono::seconds(10)};  // for tasks that it is passed on to
    deadline::duration stalled_before{};       // `stalled_` when it joined the queue
  };
  struct queue {
    std::deque<job> all;
    std::condition_variable changed;
    std::atomic<bool> ended{false};
    std::size_t refused = 0;  // requests in turn that had to wait
  };

  std::size_t tasks() const { return here_.members().size(); }

  // ---- for remote_tasks ----

  std::chrono::milliseconds answer_timeout() const { return options_.connect_timeout; }
  detail::client_runs& runs() { return runs_; }
  void fill_random(std::span<std::byte> bytes) { weft::fill_random(here_.network(), bytes); }
  detail::peer_process self_as_client() const { return {here_.members().self(), here_.incarnation()}; }
  std::string table_name(std::size_t task) const { return to_string(here_.members().task(task)); }
  void await_tasks(deadline until) {
    here_.members().wait_for(until, [](const task_id&) { return true; });
  }
  /// The incarnation of the task's present process.
  std::uint64_t process_of(std::size_t task) const {
    return task == here_.members().self() ? here_.incarnation() : here_.members().incarnation(task);
  }
  bool is_there(std::size_t task, std::uint64_t incarnation) const {
    return task == here_.members().self() || here_.members().alive(task, incarnation);
  }
  /// Throws unavailable that names the task if it is gone.
  void check_there(std::size_t task, std::uint64_t incarnation) const {
    if (stopping_ || here_.stopping()) throw error(error_code::cancelled, "step", "this server was stopped");
    if (!is_there(task, incarnation)) throw here_.members().diagnose(task, incarnation, "step", "is gone");
  }
  template <typename Done>
  bool receive_until(std::chrono::nanoseconds time, Done done) {
    return channels_.receive_until(detail::urgency::step, time, done);
  }
  void send_to_task(std::size_t task, std::uint64_t incarnation, const frame_header& header, const_bytes payload,
                    deadline until) {
    channels_.send({task, incarnation}, header, payload, until);
  }

  // ---- frames, on whatever thread ----

  mailbox::arrival open(const detail::peer_process& from, const frame_header& header) {
    if (from.rank != tasks() && header.request == tasks()) return runs_.open(header);
    if (header.request != here_.members().self()) detail::message_reader::malformed();
    return mailbox::open(find({header.tag, header.step}, from), header.weight,
                         static_cast<std::size_t>(header.payload_length), parked_);
  }

  void handle(const detail::peer_process& from, const frame_header& header, std::vector<std::byte> payload) {
    const bool of_client = from.rank == tasks();
    switch (header.kind) {
      case frame_kind::run_step:
        return ask(from, header, std::move(payload));
      case frame_kind::read_variable:
      case frame_kind::write_variable:
        return admit(jobs_, {from, header, std::move(payload)}, from);
      case frame_kind::step_ended:
        if (of_client) detail::message_reader::malformed();
        return runs_.end_part(from.rank, table_name(from.rank), header, detail::end_message::read(payload));
      case frame_kind::cancel_step: {
        const detail::end_message why = detail::end_message::read(payload);
        if (!why.failed) detail::message_reader::malformed();
        if (const auto box = find({header.tag, header.step}, from))
          box->cancel(error(static_cast<error_code>(why.code), why.operation, why.sentence));
        return admit(jobs_, {from, header, {}}, from);
      }
      case frame_kind::list_devices:
        return tell_of_task(from, header);
      case frame_kind::end_session:
        return end_session(header.tag);
      case frame_kind::reset:
        return reset(from, header, std::move(payload));
      default:
        detail::message_reader::malformed();
    }
  }

  void ask(const detail::peer_process& from, const frame_header& header, std::vector<std::byte>&& payload) {
    auto message = std::make_shared<const detail::run_message>(detail::run_message::read(payload, tasks()));
    if (from.rank == tasks() && (message->client_rank != tasks() || message->client_incarnation != from.incarnation))
      detail::message_reader::malformed();  // a client asks for itself alone
    const detail::peer_process client = client_of(*message);
    job next{from, header, std::move(payload), std::move(message)};
    if (next.message->waits || here_.members().self() != 0) next.payload = {};  // it is not passed on
    if (next.message->waits) return admit_in_lane(std::move(next));
    if (here_.members().self() != 0) return admit(jobs_, std::move(next), client);
    // A session of this process forwards its runs itself; the thread that receives must not wait for other tasks.
    if (from.rank != here_.members().self()) return admit(forwarded_, std::move(next), client);
    forward(next, true);
  }
  static detail::peer_process client_of(const detail::run_message& message) {
    return {message.client_rank, message.client_incarnation};
  }

  /// Puts a request into a queue, or answers the client whose limits it exceeds.
  void admit(queue& to, job&& next, const detail::peer_process& client) {
    if (!take_ticket(next, client)) return;
    add(to, std::move(next));
  }
  bool take_ticket(job& next, const detail::peer_process& client) {
    std::size_t bytes = sizeof(job) + next.payload.size();
    if (next.message) bytes += next.message->extents.size() * sizeof(shape);
    try {
      next.admitted = limits_.admit(client, bytes);
      return true;
    } catch (const error& e) {
      if (next.header.kind != frame_kind::cancel_step) post_end(client, next.header, detail::end_message::of(e, false));
      return false;
    }
  }
  void add(queue& to, job&& next) {
    {
      const std::lock_guard lock(mutex_);
      push(to, std::move(next));
    }
    // The executor waits for requests in the receiving loop, where the condition variable does not wake it.
    if (&to == &jobs_) channels_.wake();
  }
  /// The mutex is locked.
  void push(queue& to, job&& next) {
    if (next.message && &to != &forwarded_) boxes_.ask({next.header.tag, next.header.step}, client_of(*next.message));
    // The first task passes runs on, also those of this process.
    const detail::peer_process by = next.message ? client_of(*next.message) : next.from;
    if (&to == &jobs_) jobs_are_own_ = by.rank == here_.members().self();
    next.stalled_before = stalled_;
    to.all.push_back(std::move(next));
    to.changed.notify_one();
  }

  void tell_of_task(const detail::peer_process& from, const frame_header& header) {
    using memory = detail::task_message::memory;
    if (header.weight > static_cast<std::uint32_t>(memory::lost)) detail::message_reader::malformed();
    detail::task_message said;
    // Clients that meet the tasks at the same time must not take each other's marks for those of an earlier process.
    const auto wanted = static_cast<memory>(header.weight);
    auto before = static_cast<std::uint8_t>(wanted == memory::used ? memory::met : memory::unused);
    if (wanted != memory::unused) memory_.compare_exchange_strong(before, static_cast<std::uint8_t>(wanted));
    said.cpus = static_cast<std::uint32_t>(options_.session.devices);
    said.gpus = gpus();
    said.variables = static_cast<memory>(memory_.load());
    for (const std::string& name : here_.cluster().jobs()) {
      said.jobs.push_back(name);
      std::string& list = said.addresses.emplace_back();
      for (const int index : here_.cluster().task_indices(name))
        append(list, {list.empty() ? "" : ",", index, "@", to_string(here_.cluster().task_address(name, index))});
    }
    post(from, value_header(header), said.bytes());
  }

  /// Ends waits in queues at once. The variables are forgotten between two runs.
  void reset(const detail::peer_process& from, const frame_header& header, std::vector<std::byte> payload) {
    for (const std::string& name : detail::read_message<detail::reset_message>(payload).containers)
      detail::resource_table::of_process().reset(name);
    admit(jobs_, {from, header, std::move(payload)}, from);
  }

  /// Whether a process that asks for steps, or takes part in them, has ended.
  bool is_gone(const detail::peer_process& peer) const {
    if (peer.rank == tasks()) return !channels_.has_client(peer.incarnation);
    if (peer.rank == here_.members().self()) return peer.incarnation != here_.incarnation();
    return !here_.members().alive(peer.rank, peer.incarnation);
  }

  /// The mailbox of a run, which may not have begun here yet; null if it has ended.
  std::shared_ptr<mailbox> find(const run_key& key, const detail::peer_process& from) {
    const std::lock_guard lock(mutex_);
    return boxes_.find(key, from, from.rank == tasks(), [&](const auto& peer) { return is_gone(peer); });
  }
  bool is_over(const run_key& key) const {
    const std::lock_guard lock(mutex_);
    return boxes_.is_over(key);
  }
  void forget(const run_key& key, const detail::peer_process& client) {
    const std::lock_guard lock(mutex_);
    boxes_.end(key, client);
  }
  /// Drops what clients and tasks have left behind that have ended. The mutex is locked.
  void drop_orphans() {
    boxes_.drop_orphans([&](const auto& peer) { return is_gone(peer); });
    std::erase_if(losses_, [&](const auto& each) { return is_gone(each.first); });
    std::erase_if(users_, [&](const auto& each) { return is_gone(each.second.client); });
    for (auto each = lanes_.begin(); each != lanes_.end();)
      each = is_gone(each->second->client) ? end_lane(each) : std::next(each);
  }
  /// Once a second, on the executor's thread.
  void clean_up() {
    if (!clean_up_.expired()) return;
    clean_up_ = deadline(std::chrono::seconds(1));
    {
      const std::lock_guard lock(mutex_);
      drop_orphans();
    }
    join_ended_lanes();
  }
  /// Joins the threads of lanes that have ended.
  void join_ended_lanes() {
    std::vector<std::unique_ptr<lane>> over;
    {
      const std::lock_guard lock(mutex_);
      for (auto each = ended_lanes_.begin(); each != ended_lanes_.end();) {
        if ((*each)->has_ended) {
          over.push_back(std::move(*each));
          each = ended_lanes_.erase(each);
        } else {
          ++each;
        }
      }
    }
    for (const auto& each : over) detail::join(each->thread);
  }

  frame_header value_header(const frame_header& asked) const {
    frame_header header;
    header.kind = frame_kind::transfer;
    header.tag = asked.tag;
    header.step = asked.step;
    header.request = tasks();
    return header;
  }
  /// Sends without waiting for the other process: for the thread that receives. Another task may have to be dialled, by
  /// the thread that forwards.
  void post(const detail::peer_process& to, const frame_header& header, std::vector<std::byte> payload) try {
    if (to.rank == tasks()) return channels_.post_to_client(to.incarnation, header, std::move(payload));
    if (to.rank == here_.members().self()) return channels_.send(to, header, payload, std::chrono::seconds(10));
    // The limits of the receiver's own requests do not apply: the reply may be that a request exceeds them.
    add(forwarded_, {to, header, std::move(payload)});
  } catch (const error&) {  // it is gone, or does not read; the request may have come from another process
  }

  /// A connection from a task has ended. Until the task is known to be lost, too, values may be lost that runs wait
  /// for. Runs of a client end with its connection, because the client does not wait for them after it has connected
  /// again.
  void lose(const detail::peer_process& from) noexcept try {
    const std::lock_guard lock(mutex_);
    if (from.rank == tasks()) {
      std::erase_if(forwarded_.all, [&](const job& each) { return each.message && client_of(*each.message) == from; });
      return boxes_.cancel_of(from, error(error_code::unavailable, "step", "the client is gone"));
    }
    if (losses_.size() < max_losses) losses_.insert_or_assign(from, detail::now());
  } catch (const std::bad_alloc&) {
  }
  /// Throws unavailable if the connection from a task that is alive has ended since a run began, or shortly before.
  void check_connection(std::size_t task, std::uint64_t incarnation, deadline::time_point began) const {
    constexpr std::chrono::seconds to_notice{1};  // in which a lost task is detected, and a request overtakes values
    const std::lock_guard lock(mutex_);
    const auto loss = losses_.find({task, incarnation});
    if (loss == losses_.end() || loss->second + to_notice < began || detail::now() < loss->second + to_notice) return;
    throw error(error_code::unavailable, "receive",
                {"the connection from ", table_name(task), " has ended, and with it values of this step may be lost"});
  }

  static std::uint32_t gpus() {
    return gpu::installed_platform ? static_cast<std::uint32_t>(gpu::installed_platform->count()) : 0;
  }

  // ---- threads ----

  /// Does the requests of a queue in turn. `what` returns false for one that has to wait: others come first.
  template <typename Do>
  void work(queue& from, Do what) {
    while (!stopping_ && !from.ended) try {
        work_once(from, what);
      } catch (const error&) {           // the client is gone, most likely
      } catch (const std::exception&) {  // no memory
        detail::sleep(std::chrono::milliseconds(10));
      }
  }
  template <typename Do>
  void work_once(queue& from, Do what) {
    if (&from == &jobs_) clean_up();
    std::unique_lock lock(mutex_);
    if (from.all.empty()) return await_request(from, lock);
    job next = std::move(from.all.front());
    from.all.pop_front();
    lock.unlock();
    if (what(next)) {
      from.refused = 0;
      return;
    }
    lock.lock();
    from.all.push_back(std::move(next));
    if (++from.refused < from.all.size()) return;
    from.refused = 0;
    detail::sleep(from.changed, lock, std::chrono::milliseconds(5));
  }

  /// Waits for a while. The executor receives its next request by itself, unless this process makes the requests.
  void await_request(queue& from, std::unique_lock<std::mutex>& lock) {
    if (&from == &jobs_ && !jobs_are_own_) {
      lock.unlock();
      const bool received = channels_.receive_until(detail::urgency::next_request, std::chrono::milliseconds(100), [&] {
        const std::lock_guard held(mutex_);
        return stopping_ || !jobs_.all.empty();
      });
      lock.lock();
      if (received || !from.all.empty() || stopping_) return;
    }
    jobs_are_own_ = false;
    detail::sleep(from.changed, lock, std::chrono::milliseconds(100));
  }

  /// Waits until this task has met a process that the client knows already. `check` is called now and then.
  template <typename Check>
  void await_process(std::size_t task, std::uint64_t incarnation, deadline until, Check check) {
    while (process_of(task) != incarnation) {
      check();
      if (until.expired())
        throw error(error_code::deadline_exceeded, "send", {table_name(task), " has not come back in time"});
      detail::sleep(std::chrono::milliseconds(5));
    }
  }

  /// One run at a time computes in this task.
  class turn {
   public:
    void take() {
      std::unique_lock lock(mutex_);
      for (const std::uint64_t mine = next_++; now_ != mine;)
        detail::sleep(changed_, lock, std::chrono::milliseconds(50));
    }
    void give() {
      {
        const std::lock_guard lock(mutex_);
        ++now_;
      }
      changed_.notify_all();
    }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t next_ = 0, now_ = 0;
  };
  struct in_turn {
    turn& of;
    explicit in_turn(turn& t) : of(t) { of.take(); }
    ~in_turn() { of.give(); }
  };

  /// The first task passes each run on to the other tasks, so that all tasks receive all runs in the same order.
  /// Returns false if it does not know a process yet that the client knows, and must not wait.
  bool forward(job& next, bool may_wait) {
    if (!next.message) {  // a reply
      channels_.send(next.from, next.header, next.payload, std::chrono::seconds(10));
      return true;
    }
    const detail::run_message& message = *next.message;
    const run_key key{next.header.tag, next.header.step};
    const detail::peer_process client = client_of(message);
    const std::size_t self = here_.members().self();
    const bool is_own = next.from.rank == self;
    const auto check = [&] {
      const auto box = find(key, next.from);
      if (!box) throw was_cancelled();
      box->check();
      check_client(client);
    };
    if (!may_wait && !next.waits.expired())
      for (std::size_t k = 0; k < message.participants.size(); ++k) {
        const std::uint32_t t = message.participants[k];
        if (t == self || process_of(t) == message.processes[k]) continue;
        try {
          check();
        } catch (const error&) {
          break;  // the run fails without the others
        }
        return false;
      }
    const in_turn here(forwarding_);
    bool own = false;
    for (std::size_t k = 0; k < message.participants.size(); ++k) {
      const std::uint32_t t = message.participants[k];
      own = own || t == self;
      if (t == self) continue;
      // A session of this process knows the same processes as this task, and must not wait for one that is gone.
      if (is_own && !is_there(t, message.processes[k])) continue;
      try {
        const deadline until(std::chrono::seconds(10));
        if (is_own) await_process(t, message.processes[k], until, check);
        channels_.send({t, message.processes[k]}, next.header, next.payload, until);
      } catch (const error& e) {
        // The client may be connected to the task, and would wait for it. A run that was cancelled has been reported.
        if (!is_over(key)) post_end(client, next.header, detail::end_message::of(e, false));
      }
    }
    if (own)
      add(jobs_, std::move(next));
    else
      forget(key, client);
    return true;
  }

  void execute(job& next) {
    if (next.header.kind == frame_kind::cancel_step) return end_unknown(next);
    const in_turn here(turn_);
    if (next.message) return run(next, nullptr);
    detail::end_message how;
    try {
      if (next.header.kind == frame_kind::reset)
        for (const std::string& name : detail::read_message<detail::reset_message>(next.payload).containers)
          variables_.reset(name);
      else
        access_variable(next);
      if (next.header.kind == frame_kind::read_variable) return;
    } catch (const error& e) {
      how = detail::end_message::of(e, false);
    } catch (const std::bad_alloc&) {
      how = detail::end_message::of(no_memory(), false);
    }
    send_end(next.from, next.header, how);
  }

  static error no_memory() { return error(error_code::resource_exhausted, "step", "no memory"); }
  static error was_cancelled() { return error(error_code::aborted, "step", "the run has been cancelled"); }

  /// A client cancels a run. If the run never came, because the first task ended before it passed the run on, this task
  /// has nothing to end, and says so: the client waits for all tasks.
  void end_unknown(const job& cancelled) {
    const run_key key{cancelled.header.tag, cancelled.header.step};
    {
      const std::lock_guard lock(mutex_);
      if (!boxes_.is_unasked(key)) return;  // the run has ended, or its end is sent
    }
    forget(key, cancelled.from);
    send_end(cancelled.from, cancelled.header, detail::end_message::of(was_cancelled(), true));
  }

  static frame_header end_header(const frame_header& asked) {
    frame_header header;
    header.kind = frame_kind::step_ended;
    header.tag = asked.tag;
    header.step = asked.step;
    return header;
  }
  void send_end(const detail::peer_process& to, const frame_header& asked, const detail::end_message& how) {
    channels_.send(to, end_header(asked), how.bytes(), deadline(std::chrono::seconds(10)));
  }
  void post_end(const detail::peer_process& to, const frame_header& asked, const detail::end_message& how) {
    post(to, end_header(asked), how.bytes());
  }

  struct lane;
  using lane_map = std::map<std::uint64_t, std::unique_ptr<lane>>;  // by session

  /// `by`: the lane of a run that takes no turn.
  void run(job& next, lane* by) {
    const detail::run_message& message = *next.message;
    const run_key key{next.header.tag, next.header.step};
    const detail::peer_process client = client_of(message);
    detail::end_message how;
    std::shared_ptr<mailbox> box;
    try {
      box = find(key, next.from);
      if (!box) throw was_cancelled();
      box->check();
      const std::chrono::microseconds asked(
          static_cast<std::int64_t>(std::min<std::uint64_t>(next.header.deadline_us, std::uint64_t{1} << 50)));
      // Shared: while the run gives up its turn, the placement may be dropped.
      const std::shared_ptr<served> placed =
          serve(message.placement, message.registers ? &message.registration : nullptr);
      served& of = *placed;
      note_use(key.session, client, of.key);
      runner& in = runner_of(by ? by->in : of.runs, of);
      in.current = {key,
                    &message,
                    box,
                    client,
                    deadline(by ? asked : std::min<std::chrono::microseconds>(options_.step_timeout, asked)),
                    detail::now()};
      for (const detail::small_values::value& each : message.fed.all())
        if (each.to == here_.members().self())
          mailbox::put(mailbox::open(box, each.number, each.bytes.size(), parked_), each.bytes);
      const struct at_end {
        runner& of;
        ~at_end() {
          of.current = {};
          of.fetched.clear();
        }
      } ends{in};
      run_part(of, in, message);
      how.fetched = std::move(in.fetched);
    } catch (const error& e) {
      how = detail::end_message::of(e, !box || box->was_cancelled());
    } catch (const std::bad_alloc&) {
      how = detail::end_message::of(no_memory(), false);
    } catch (const std::exception& e) {
      how = detail::end_message::of(error(error_code::internal, "step", e.what()), false);
    }
    forget(key, client);
    send_end(client, next.header, how);
  }

  // ---- this task's share, on the executor's thread and those of lanes ----

  struct current_run {
    run_key key{};
    const detail::run_message* message = nullptr;
    std::shared_ptr<mailbox> box;
    detail::peer_process client;
    deadline until{std::chrono::seconds(0)};
    deadline::time_point began{};
  };

  class own_support;

  /// A session of this task's variables, and its steps.
  struct runner {
    current_run current;
    std::shared_ptr<session> variables;
    own_support* support = nullptr;
    std::vector<std::pair<std::uint32_t, std::shared_ptr<detail::variable_table::variable>>> own;  // of this task
    std::uint64_t placement = 0, resets = 0;       // what it was made for
    std::map<std::uint64_t, prepared_step> steps;  // by signature
    std::mutex fetching;
    detail::small_values fetched;  // that travel with the end of the run
  };

  class own_links final : public detail::task_links {
   public:
    own_links(task_service& of, runner& in) : of_(of), in_(in), run_(in.current) {}
    void send(const detail::transfer_key& key, const std::byte* value, std::size_t bytes) override {
      if (key.to == of_.tasks()) {  // the client waits for the end of this part in any case
        const std::lock_guard lock(in_.fetching);
        if (in_.fetched.add(key.to, key.number, {value, bytes})) return;
      }
      frame_header header;
      header.kind = frame_kind::transfer;
      header.tag = run_.key.session;
      header.step = run_.key.number;
      header.request = key.to;
      header.weight = key.number;
      const bool to_client = key.to == of_.tasks();
      const std::uint64_t incarnation = to_client ? run_.client.incarnation : process_of(key.to);
      if (to_client && !of_.channels_.has_room(run_.client, bytes)) {
        const pause here(*this);
        of_.await_room(run_.client, bytes, run_.until, run_.message->participants.size(), !run_.message->waits,
                       [&] { run_.box->check(); });
      }
      if (!to_client)
        of_.await_process(key.to, incarnation, run_.until, [&] {
          run_.box->check();
          of_.check_client(run_.client);
        });
      of_.channels_.send(to_client ? run_.client : detail::peer_process{key.to, incarnation}, header, {value, bytes},
                         run_.until);
    }
    void receive(const detail::transfer_key& key, std::byte* to, std::size_t bytes) override {
      const bool from_client = key.from == of_.tasks();
      const std::uint64_t incarnation = from_client ? 0 : process_of(key.from);
      const pause here(*this);
      run_.box->take(
          key.number, to, bytes, run_.until, from_client ? "the client" : of_.table_name(key.from),
          [&] {
            if (!from_client) {
              of_.check_met(key.from, incarnation);
              of_.check_connection(key.from, incarnation, run_.began);
            }
            of_.check_client(run_.client);
            if (!run_.message->waits) of_.check_stall(run_.client);
          },
          [&](auto done) { return of_.receive_until(std::chrono::milliseconds(20), done); });
    }
    void watch(void* of, void (*operation)(void*), bool waits) override {
      struct run_watch final : detail::step_watch {
        explicit run_watch(own_links& l) : links(l) { detail::watch_of_thread = this; }
        ~run_watch() { detail::watch_of_thread = nullptr; }
        bool is_over() override {
          return links.of_.stopping_ || links.run_.until.expired() || links.run_.box->failure().has_value() ||
                 links.of_.is_gone(links.run_.client);
        }
        own_links& links;
      } watched(*this);
      if (!waits) return operation(of);  // it computes, and keeps its turn
      const pause here(*this);
      operation(of);
    }

   private:
    /// Lets other runs compute while this one waits.
    class pause {
     public:
      explicit pause(own_links& of) : of_(of) {
        if (of_.run_.message->waits && of_.waiting_++ == 0) of_.of_.turn_.give();
      }
      ~pause() {
        if (of_.run_.message->waits && --of_.waiting_ == 0) of_.of_.turn_.take();
      }

     private:
      own_links& of_;
    };

    std::uint64_t process_of(std::uint32_t task) const {
      const auto& all = run_.message->participants;
      for (std::size_t k = 0; k < all.size(); ++k)
        if (all[k] == task) return run_.message->processes[k];
      detail::message_reader::malformed();
    }

    task_service& of_;
    runner& in_;
    const current_run& run_;
    std::atomic<int> waiting_{0};
  };

  void check_client(const detail::peer_process& client) {
    if (stopping_ || here_.stopping()) throw error(error_code::cancelled, "step", "this server was stopped");
    if (client.rank == tasks()) {
      if (is_gone(client)) throw error(error_code::unavailable, "step", "the client is gone");
    } else {
      check_there(client.rank, client.incarnation);
    }
  }
  /// Throws unavailable if a client is silent while other requests wait for the end of its run.
  void check_stall(const detail::peer_process& client) {
    {
      const std::lock_guard lock(mutex_);
      if (client.rank != tasks() || jobs_.all.empty()) return;
    }
    if (channels_.is_silent(client.incarnation, detail::client_stall))
      throw error(error_code::unavailable, "step",
                  {"the client has been silent for ", detail::client_stall.count(),
                   " ms during its run, while other requests wait"});
  }
  /// Waits until a client has read enough of earlier values to receive this many bytes. `check` is called now and then.
  /// A request that `has_turn` throws resource_exhausted before requests of other clients have waited for slow readers
  /// for client_stall: here or, if the run is `on` several tasks, perhaps elsewhere. The client stays connected.
  template <typename Check>
  void await_room(const detail::peer_process& client, std::size_t bytes, deadline until, std::size_t on, bool has_turn,
                  Check check) {
    deadline::duration waited{};
    while (!channels_.has_room(client, bytes)) {
      check_client(client);
      check();
      if (until.expired())
        throw error(error_code::deadline_exceeded, "send", "the client has not read its values in time");
      if (has_turn && (others_have_waited(client) || (on > 1 && waited >= detail::client_stall)))
        throw error(
            error_code::resource_exhausted, "send",
            {"the client reads slowly, and its run holds up other requests or tasks while ", options_.max_value_bytes,
             " bytes of values wait for it: fetch less in one step, or raise "
             "graph_service_options::max_value_bytes"});
      const auto began = detail::now();
      detail::sleep(std::chrono::milliseconds(5));
      const auto passed = detail::now() - began;
      waited += passed;
      const std::lock_guard lock(mutex_);
      if (has_turn) stalled_ += passed;
    }
  }
  /// Returns true if a request of another client has waited for slow readers for client_stall.
  bool others_have_waited(const detail::peer_process& client) const {
    const std::lock_guard lock(mutex_);
    return std::any_of(jobs_.all.begin(), jobs_.all.end(), [&](const job& each) {
      return (each.message ? client_of(*each.message) : each.from) != client &&
             stalled_ - each.stalled_before >= detail::client_stall;
    });
  }
  /// Throws unavailable that names the task if its process has ended. One that this task has not met yet has not.
  void check_met(std::size_t task, std::uint64_t incarnation) {
    if (process_of(task) == incarnation) check_there(task, incarnation);
  }

  class own_support final : public plan::task_support {
   public:
    own_support(task_service& of, runner& in, const detail::step_registration& from, const graph& g)
        : of_(of),
          graph_(g),
          container_(from.container),
          links_(of, in),
          self_(static_cast<std::uint32_t>(of.here_.members().self())),
          table_(of.table_of(from)) {
      for (const auto& p : from.placed) placed_.insert(placed_.end(), p.count, p.on);
    }
    std::uint32_t self() const override { return self_; }
    const device_spec& name_of(std::uint32_t task) const override { return table_.name_of(task); }
    plan::device_number place(const plan::placement&, std::uint32_t, const char*&) const override { refuse(); }
    bool has_placed(std::uint32_t node, plan::device_number& on) const override {
      on = node < placed_.size() ? placed_[node] : plan::device_number{false, 0, table_.client()};
      return true;
    }
    bool find_variable(std::uint32_t node, const value_info& info, plan::variable_state& v) const override {
      const plan::device_number where = v.where;
      const auto found = of_.variables_.find(container_, graph_[node].name, info, where);
      if (!found) return false;
      v = found->state;
      v.where = where;  // it may be on another CPU device of this task
      return true;
    }
    bool moved(const device_spec& asked, plan::device_number d) const override { return table_.moved(asked, d); }
    plan::task_step* new_step() override { return new detail::task_part(table_, links_, expected); }
    void read_variable(std::uint32_t, plan::device_number, void*) override { refuse(); }
    void write_variable(std::uint32_t, plan::device_number, const void*) override { refuse(); }
    sequence<std::string> devices() const override { return table_.devices(); }

    std::uint64_t expected = 0;  // the signature of the step that is compiled

   private:
    [[noreturn]] static void refuse() {
      throw error(error_code::internal, "session", "a variable of another task is requested");
    }
    task_service& of_;
    const graph& graph_;
    std::string container_;
    std::vector<plan::device_number> placed_;
    own_links links_;
    std::uint32_t self_;
    detail::task_table table_;
  };

  struct known_step {
    plan::step_request request;
    std::uint64_t last_used = 0;
  };

  /// A graph with its placement, as one session or several sessions have it.
  struct served {
    std::uint64_t key;
    graph nodes;
    detail::step_registration config;  // without a request
    std::unique_ptr<runner> runs = nullptr;
    bool is_restarted = false;                       // the client knows an earlier process of this task
    std::map<std::uint64_t, known_step> steps = {};  // by signature
    std::uint64_t last_used = 0;
  };

  /// A session, and the placements that its graph has had most recently.
  struct user {
    detail::peer_process client;
    std::vector<std::uint64_t> placements;  // the latest is the last one
  };

  /// The runs of one session that takes no turns, on a thread of its own.
  struct lane {
    detail::peer_process client;
    queue jobs;
    std::unique_ptr<runner> in;
    std::thread thread;
    std::atomic<bool> has_ended{false};
  };

  void admit_in_lane(job&& next) {
    const detail::peer_process client = client_of(*next.message);
    if (!take_ticket(next, client)) return;
    const frame_header asked = next.header;
    join_ended_lanes();
    try {
      const std::lock_guard lock(mutex_);
      lane& into = lane_of(next);
      if (into.jobs.ended) throw was_cancelled();
      push(into.jobs, std::move(next));
    } catch (const error& e) {
      post_end(client, asked, detail::end_message::of(e, false));
    }
  }
  /// The mutex is locked.
  lane& lane_of(const job& first) {
    if (stopping_) throw was_cancelled();
    if (const auto found = lanes_.find(first.header.tag); found != lanes_.end()) return *found->second;
    const detail::peer_process client = client_of(*first.message);
    const auto count =
        std::count_if(lanes_.begin(), lanes_.end(), [&](auto& each) { return each.second->client == client; });
    // A lane of an ended session counts until its thread has ended.
    if (lanes_.size() + ended_lanes_.size() >= max_lanes || count >= max_lanes_of_client)
      throw error(error_code::resource_exhausted, "step", "too many sessions use queues");
    lane* const own = lanes_.emplace(first.header.tag, std::make_unique<lane>()).first->second.get();
    own->client = client;
    try {
      own->thread = detail::start_thread([this, own] { serve_lane(*own); });
    } catch (const std::exception&) {
      lanes_.erase(first.header.tag);
      throw error(error_code::resource_exhausted, "step", "no thread for a session that uses queues");
    }
    return *own;
  }
  void serve_lane(lane& own) {
    work(own.jobs, [&](job& next) {
      const in_turn here(turn_);
      run(next, &own);
      return true;
    });
    std::deque<job> left;
    {
      const std::lock_guard lock(mutex_);
      left.swap(own.jobs.all);
      own.jobs.ended = true;
    }
    for (const job& each : left) try {
        forget({each.header.tag, each.header.step}, own.client);
        send_end(own.client, each.header, detail::end_message::of(was_cancelled(), true));
      } catch (const std::exception&) {  // the client is gone
      }
    left.clear();
    own.has_ended = true;
  }
  void end_session(std::uint64_t session) {
    const std::lock_guard lock(mutex_);
    boxes_.end_session(session);
    users_.erase(session);
    if (const auto found = lanes_.find(session); found != lanes_.end()) end_lane(found);
  }
  /// Returns the next lane. The mutex is locked.
  typename lane_map::iterator end_lane(typename lane_map::iterator which) {
    queue& jobs = which->second->jobs;
    jobs.ended = true;
    jobs.changed.notify_all();
    ended_lanes_.push_back(std::move(which->second));
    return lanes_.erase(which);
  }

  detail::task_table table_of(const detail::step_registration& from) const {
    sequence<detail::task_devices> all;
    for (std::size_t t = 0; t < tasks(); ++t) {
      const std::string name = table_name(t);
      all.push_back({parse_device(name.data(), name.size()), from.cpus[t], from.gpus[t]});
    }
    return {std::move(all), 0};
  }

  /// Throws failed_precondition unless the client knows this task's devices: its nodes are placed on them.
  void check_devices(const detail::step_registration& from) const {
    const std::size_t self = here_.members().self();
    const auto cpus = static_cast<std::uint32_t>(options_.session.devices);
    if (from.cpus[self] == cpus && from.gpus[self] == gpus()) return;
    throw error(
        error_code::failed_precondition, "step",
        {"the session knows this task with ", from.cpus[self], " CPU and ", from.gpus[self],
         " GPU devices, but it has ", cpus, " and ", gpus(), " since it was started again: make a new session"});
  }

  /// A local session of a graph and its placement, for the runs of one thread. A reset of its container makes another
  /// one necessary.
  runner& runner_of(std::unique_ptr<runner>& in, served& of) {
    if (in && in->placement == of.key && in->resets == variables_.resets(of.config.container)) return *in;
    in.reset();
    auto made = std::make_unique<runner>();
    session_options options = options_.session;
    struct making {
      task_service& service;
      runner& in;
      served& of;
    } support{*this, *made, of};
    options.target = {[](void* to, const graph& g) -> plan::task_support* {
                        auto& s = *static_cast<making*>(to);
                        return s.in.support = new own_support(s.service, s.in, s.of.config, g);
                      },
                      &support};
    made->variables = std::make_shared<session>(of.nodes.self(), options);
    made->placement = of.key;
    made->resets = variables_.resets(of.config.container);
    const graph& g = of.nodes.self();
    const auto self = static_cast<std::uint32_t>(here_.members().self());
    const bool are_lost = !variables_.has_reset(of.config.container) &&
                          (memory_ == static_cast<std::uint8_t>(detail::task_message::memory::lost) || of.is_restarted);
    for (std::uint32_t n = 0; n < g.size(); ++n) {
      if (!is_operation<variable_op>(g[n].def.op)) continue;
      plan::variable_state& state = made->variables->state_of(n);
      if (state.where.task != self) continue;
      const value_info info = made->variables->variable_info(n);
      const std::string& container = of.config.container;
      auto shared = variables_.find(container, g[n].name, info, state.where);
      if (!shared) {
        if (are_lost) state.initialized = false;  // its value was lost with another process
        shared =
            variables_.add(container, g[n].name, {info, state, are_lost, state.where.gpu ? made->variables : nullptr});
      }
      made->own.emplace_back(n, std::move(shared));
    }
    in = std::move(made);
    return *in;
  }

  /// Returns the graph and the placement that a client requests, new if no session has requested them before.
  std::shared_ptr<served> serve(std::uint64_t key, const detail::step_registration* from) {
    if (from && from->key() != key) detail::message_reader::malformed();
    if (const auto found = served_.find(key); found != served_.end()) {
      if (from) from->check(found->second->nodes.self(), tasks());
      found->second->last_used = ++uses_;
      return found->second;
    }
    if (!from) throw forgotten();
    const graph g = graph_of(*from);
    from->check(g.self(), tasks());
    check_devices(*from);
    make_room();
    auto made = std::make_shared<served>(served{key, g.share(), *from});
    made->config.request = {};
    made->config.restarted = {};
    const auto self = static_cast<std::uint32_t>(here_.members().self());
    made->is_restarted = std::find(from->restarted.begin(), from->restarted.end(), self) != from->restarted.end();
    runner_of(made->runs, *made);
    made->last_used = ++uses_;
    return served_.emplace(key, std::move(made)).first->second;
  }
  static error forgotten() {
    return error(error_code::aborted, "step",
                 "this task does not know the step: it was started again, or has served many other steps since; run "
                 "the step once more");
  }
  /// Drops placements that no session uses any more, the least recently used ones first. Throws resource_exhausted if
  /// sessions use too many.
  void make_room() {
    if (served_.size() < max_kept) return;
    std::set<std::uint64_t> used;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [session, each] : users_) used.insert(each.placements.begin(), each.placements.end());
    }
    while (served_.size() >= max_kept) {
      auto oldest = served_.end();
      for (auto each = served_.begin(); each != served_.end(); ++each)
        if (used.count(each->first) == 0 &&
            (oldest == served_.end() || each->second->last_used < oldest->second->last_used))
          oldest = each;
      if (oldest == served_.end()) break;
      served_.erase(oldest);
    }
    if (served_.size() >= max_served)
      throw error(error_code::resource_exhausted, "step",
                  {"this task serves ", max_served, " different graphs and placements of sessions; end some sessions"});
  }
  /// A session keeps the placements that it has used last until it ends.
  void note_use(std::uint64_t session, const detail::peer_process& client, std::uint64_t placement) {
    const std::lock_guard lock(mutex_);
    if (users_.size() >= max_users && users_.count(session) == 0) return;
    user& by = users_[session];
    by.client = client;
    if (const auto found = std::find(by.placements.begin(), by.placements.end(), placement);
        found != by.placements.end()) {
      std::rotate(found, found + 1, by.placements.end());
      return;
    }
    if (by.placements.size() >= max_placements_of_session) by.placements.erase(by.placements.begin());
    by.placements.push_back(placement);
  }

  static std::vector<graph> list_of(const graph& g) {
    std::vector<graph> made;
    made.push_back(g.share());
    return made;
  }
  /// Throws failed_precondition if this task does not serve the client's graph.
  graph graph_of(const detail::step_registration& from) {
    const std::lock_guard lock(mutex_);
    for (const graph& each : graphs_)
      if (from.is_of(each.self())) return each.share();
    throw error(error_code::failed_precondition, "step",
                "the client's graph is another one than this task's: run the same program with the same flags on "
                "all tasks, record all nodes before the first step, and pass graphs of other programs to "
                "graph_service::add_graph");
  }

  void run_part(served& of, runner& in, const detail::run_message& message) {
    // A step that fails is forgotten: it may not fit the signature that the client has given.
    struct first_run {
      served& of;
      runner& in;
      std::uint64_t signature;
      bool is_registered = false, is_prepared = false;
      ~first_run() {
        if (is_registered) of.steps.erase(signature);
        if (is_prepared) in.steps.erase(signature);
      }
    } first{of, in, message.signature};
    if (message.registers && of.steps.find(message.signature) == of.steps.end()) {
      if (of.steps.size() >= max_steps)
        of.steps.erase(std::min_element(of.steps.begin(), of.steps.end(), [](const auto& a, const auto& b) {
          return a.second.last_used < b.second.last_used;
        }));
      first.is_registered = of.steps.emplace(message.signature, known_step{message.registration.request}).second;
    }
    const auto known = of.steps.find(message.signature);
    if (known != of.steps.end()) known->second.last_used = ++uses_;
    auto step = in.steps.find(message.signature);
    if (step == in.steps.end()) {
      if (known == of.steps.end()) throw forgotten();
      if (in.steps.size() >= max_prepared) in.steps.clear();
      in.support->expected = message.signature;
      step = in.steps.emplace(message.signature, prepared_step(*in.variables, known->second.request)).first;
      first.is_prepared = true;
    }
    if (step->second.request().feeds.size() != message.extents.size()) detail::message_reader::malformed();
    in.support->expected = message.signature;
    in.variables->set_random_stream(message.position / plan::random_state::steps);
    in.variables->set_step_number(message.position % plan::random_state::steps);
    std::vector<plan::fed_value> fed;
    for (const shape& e : message.extents) fed.push_back({nullptr, e});
    fed.push_back({});
    // Which variables have values. Other sessions have states of their own.
    bool is_any_lost = false;
    for (const auto& [n, shared] : in.own) {
      in.variables->state_of(n).initialized = shared->state.initialized;
      is_any_lost = is_any_lost || shared->is_lost;
    }
    const auto keep_marks = [&] {
      for (const auto& [n, shared] : in.own)
        if (in.variables->state_of(n).initialized) shared->state.initialized = true, shared->is_lost = false;
    };
    try {
      step->second.run(fed.data(), [](std::size_t, const shape&) -> void* { return nullptr; });
    } catch (const error& e) {
      keep_marks();
      if (!is_any_lost || e.code() != error_code::failed_precondition) throw;
      throw error(e.code(), e.operation(),
                  {e.sentence(), "; this task was started again and has lost its variables: restore a checkpoint"});
    }
    keep_marks();
    first.is_registered = first.is_prepared = false;
  }

  void access_variable(job& next) {
    const auto asked = detail::read_message<detail::variable_message>(next.payload);
    const std::shared_ptr<served> placed = serve(asked.registration.key(), &asked.registration);
    served& of = *placed;
    note_use(next.header.tag, next.from, of.key);
    runner& runs = runner_of(of.runs, of);
    session& variables = *runs.variables;
    const auto n = static_cast<std::uint32_t>(next.header.request);
    const auto own = std::find_if(runs.own.begin(), runs.own.end(), [&](const auto& each) { return each.first == n; });
    if (own == runs.own.end()) detail::message_reader::malformed();
    plan::variable_state& shared = own->second->state;
    const std::string& name = of.nodes.self()[n].name;
    const std::size_t bytes = variables.variable_info(n).bytes();
    if (next.header.kind == frame_kind::read_variable) {
      if (!shared.initialized)
        throw error(error_code::failed_precondition, name,
                    own->second->is_lost
                        ? "the variable has no value: its task was started again; restore a checkpoint"
                        : "the variable has no value yet: call set(), or run a step that assigns to it");
      await_room(next.from, bytes, std::chrono::seconds(10), 1, true, [] {});
      std::vector<std::byte> value(bytes);
      variables.read_variable(n, value.data());
      return channels_.send(next.from, value_header(next.header), value, std::chrono::seconds(10));
    }
    if (next.header.weight == detail::initializes) {
      variables.state_of(n).initialized = shared.initialized;
      variables.initialize_variable(n);
    } else {
      if (asked.value.size() != bytes) detail::message_reader::malformed();
      variables.write_variable(n, asked.value.data());
    }
    shared.initialized = true;
    own->second->is_lost = false;
  }

  static constexpr std::size_t max_losses = 1024, max_lanes = 1024;
  static constexpr std::ptrdiff_t max_lanes_of_client = 128;
  static constexpr std::size_t max_served = 1024, max_steps = 4096, max_prepared = 256;
  static constexpr std::size_t max_kept = 64;  // placements, also those that no session uses any more
  static constexpr std::size_t max_users = 8192, max_placements_of_session = 16;

  task_server& here_;
  graph_service_options options_;
  std::vector<home> homes_;  // by rank
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint8_t> memory_{0};  // task_message::memory

  std::vector<graph> graphs_;  // whose steps run here
  detail::parked_bytes parked_;
  detail::request_limits limits_{parked_};
  mutable std::mutex mutex_;
  queue jobs_, forwarded_;
  bool jobs_are_own_ = false;     // the last one came from this process
  deadline::duration stalled_{};  // the time that requests in turn have waited for clients that read slowly
  detail::parked_runs boxes_;
  std::map<detail::peer_process, deadline::time_point> losses_;  // of connections, the last of each process
  lane_map lanes_;
  std::vector<std::unique_ptr<lane>> ended_lanes_;
  std::map<std::uint64_t, user> users_;  // by session
  detail::client_runs runs_;             // that sessions of this process ask for

  // Of the thread whose turn it is.
  turn turn_, forwarding_;
  detail::variable_table variables_;
  std::map<std::uint64_t, std::shared_ptr<served>> served_;  // by step_registration::key()
  std::uint64_t uses_ = 0;
  deadline clean_up_{std::chrono::seconds(1)};  // of the executor's

  std::thread executor_, forwarder_;
  detail::remote_channels channels_;
};

#if WEFT_DISTRIBUTED_DEFINITIONS

WEFT_DISTRIBUTED_DECL task_service::task_service(task_server& here, const graph& g, graph_service_options options)
    : here_(here),
      options_(std::move(options)),
      graphs_(list_of(g)),
      parked_(options_.max_parked_bytes),
      runs_(options_.max_parked_bytes),
      channels_(
          here, options_.max_value_bytes,
          [this](const detail::peer_process& from, const frame_header& header) { return open(from, header); },
          [this](const detail::peer_process& from, const frame_header& header, std::vector<std::byte> payload) {
            handle(from, header, std::move(payload));
          },
          [this](const detail::peer_process& from) { lose(from); }) {
  for (std::uint32_t rank = 0; rank < tasks(); ++rank) homes_.push_back({this, rank});
  executor_ = detail::start_thread([this] {
    work(jobs_, [this](job& next) {
      execute(next);
      return true;
    });
  });
  forwarder_ = detail::start_thread([this] { work(forwarded_, [this](job& next) { return forward(next, false); }); });
}

WEFT_DISTRIBUTED_DECL task_service::~task_service() {
  stopping_ = true;
  {
    const std::lock_guard lock(mutex_);
    boxes_.cancel_all(error(error_code::cancelled, "step", "this task stops"));
    for (auto& [session, each] : lanes_) each->jobs.changed.notify_all();
  }
  jobs_.changed.notify_all();
  forwarded_.changed.notify_all();
  channels_.wake();
  detail::join(executor_);
  detail::join(forwarder_);
  channels_.stop();
  // No thread makes a lane any more.
  for (auto& [session, each] : lanes_) detail::join(each->thread);
  for (auto& each : ended_lanes_) detail::join(each->thread);
}

WEFT_DISTRIBUTED_DECL session_target task_service::target(std::size_t rank) {
  return {[](void* to, const graph& g) -> plan::task_support* {
            const home& at = *static_cast<home*>(to);
            at.of->add_graph(g);
            return new detail::remote_tasks<task_service>(*at.of, g, at.rank);
          },
          &homes_.at(rank)};
}

WEFT_DISTRIBUTED_DECL int task_service::serve(deadline until) {
  std::optional<stop_signals> caught;
  if (here_.options().handle_signals) caught.emplace();
  while (!here_.stopping() && !until.expired()) {
    if (caught && caught->received() != 0) return caught->received();
    if (const auto why = here_.given_up()) {
      here_.set_failure(*why);
      throw *why;
    }
    detail::sleep(std::chrono::milliseconds(20));
  }
  return 0;
}

#endif

/// A task_service of a server: graph_service tasks(here, g).
template <typename Server = server>
class graph_service : public task_service {
 public:
  graph_service(Server& here, const graph& g, graph_service_options options = {})
      : task_service(here, g, std::move(options)) {}
};

}  // namespace weft
