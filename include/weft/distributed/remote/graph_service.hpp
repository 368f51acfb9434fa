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
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/device/gpu/device.hpp>
#include <weft/distributed/membership/server.hpp>
#include <weft/distributed/remote/mailbox.hpp>
#include <weft/distributed/remote/remote_channels.hpp>
#include <weft/distributed/remote/step_messages.hpp>
#include <weft/distributed/remote/task_part.hpp>
#include <weft/error.hpp>
#include <weft/session/session.hpp>
#include <weft/transport/random_bytes.hpp>

namespace weft {

/// Options of a graph_service.
struct graph_service_options {
  /// The task's devices and threads. Where nodes run that name no device, and soft placement, the client's session
  /// says.
  session_options session = {};
  std::chrono::milliseconds step_timeout{600'000};          ///< a run of a step ends within this time, or fails
  std::chrono::milliseconds connect_timeout{60'000};        ///< a new session waits so long for the tasks
  std::uint64_t max_value_bytes = std::uint64_t{4} << 30;   ///< of one value that arrives
  std::uint64_t max_parked_bytes = std::uint64_t{8} << 30;  ///< of values that wait here for their steps
};

namespace detail {

template <typename Service>
class remote_tasks;

}  // namespace detail

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
/// Variables live as long as this, whichever session made them, and sessions find them again. Runs of several sessions
/// take turns.
template <typename Server = server>
class graph_service {
  using clock = typename Server::clock_type;
  using mailbox = detail::mailbox<clock>;

 public:
  using server_type = Server;
  using deadline_type = basic_deadline<clock>;

  graph_service(Server& here, const graph& g, graph_service_options options = {})
      : here_(here),
        graph_(g.share()),
        options_(std::move(options)),
        channels_(here, options_.max_value_bytes,
                  [this](const detail::peer_process& from, const frame_header& header, std::vector<std::byte> payload) {
                    handle(from, header, std::move(payload));
                  }) {
    executor_ = std::thread([this] { work(jobs_, [this](job& next) { execute(next); }); });
    forwarder_ = std::thread([this] { work(forwarded_, [this](job& next) { forward(next); }); });
  }
  ~graph_service() {
    stopping_ = true;
    {
      const std::lock_guard lock(mutex_);
      for (auto& [key, box] : boxes_) box->fail(error(error_code::cancelled, "step", "this task stops"));
    }
    jobs_.changed.notify_all();
    forwarded_.changed.notify_all();
    executor_.join();
    forwarder_.join();
    channels_.stop();
  }
  graph_service(const graph_service&) = delete;
  graph_service& operator=(const graph_service&) = delete;

  /// For session_options::target: nodes that name no task run in this one.
  session_target target() { return target(here_.members().self()); }
  /// The same with the task of this rank in place of this one.
  session_target target(std::size_t rank) {
    home_ = static_cast<std::uint32_t>(rank);
    return {[](void* to, const graph& g) -> plan::task_support* {
              auto& of = *static_cast<graph_service*>(to);
              return new detail::remote_tasks<graph_service>(of, g, of.home_);
            },
            this};
  }

  Server& here() { return here_; }
  const graph_service_options& options() const { return options_; }

 private:
  friend class detail::remote_tasks<graph_service>;

  /// A run of a step, seen by a task or by the client.
  struct run_key {
    std::uint64_t session;
    std::int64_t number;
    bool is_client;
    friend auto operator<=>(const run_key&, const run_key&) = default;
  };

  struct job {
    detail::peer_process from;
    frame_header header;
    std::vector<std::byte> payload;
  };
  struct queue {
    std::deque<job> all;
    std::condition_variable changed;
  };

  /// A session of this process that asks for steps.
  struct client {
    std::mutex mutex;
    std::condition_variable changed;
    std::int64_t number = 0;                  // of the run
    std::vector<bool> ended;                  // by task
    std::optional<error> cause, consequence;  // what a task failed with; and what that led to
  };

  std::size_t tasks() const { return here_.members().size(); }
  std::string table_name(std::size_t task) const { return to_string(here_.members().task(task)); }

  // ---- frames, on whatever thread ----

  void handle(const detail::peer_process& from, const frame_header& header, std::vector<std::byte> payload) {
    switch (header.kind) {
      case frame_kind::run_step:
        return add(here_.members().self() == 0 ? forwarded_ : jobs_, {from, header, std::move(payload)});
      case frame_kind::read_variable:
      case frame_kind::write_variable:
        return add(jobs_, {from, header, std::move(payload)});
      case frame_kind::transfer:
        return deliver(header, std::move(payload));
      case frame_kind::step_ended:
        return end(from, header, detail::end_message::read(payload));
      case frame_kind::cancel_step: {
        const detail::end_message why = detail::end_message::read(payload);
        if (!why.failed) detail::message_reader::malformed();
        if (const auto box = find({header.tag, header.step, false}))
          box->fail(error(static_cast<error_code>(why.code), why.operation, why.sentence));
        return;
      }
      case frame_kind::list_devices: {
        detail::message_writer out;
        out.number(static_cast<std::uint32_t>(options_.session.devices)).number(gpus());
        return answer(from.rank, header, out.take());
      }
      default:
        detail::message_reader::malformed();
    }
  }

  void add(queue& to, job&& next) {
    const std::lock_guard lock(mutex_);
    if (to.all.size() >= max_waiting) throw error(error_code::resource_exhausted, "step", "too many requests wait");
    to.all.push_back(std::move(next));
    to.changed.notify_one();
  }

  void deliver(const frame_header& header, std::vector<std::byte>&& value) {
    const bool to_client = header.request == tasks();
    if (!to_client && header.request != here_.members().self()) detail::message_reader::malformed();
    const auto box = find({header.tag, header.step, to_client});
    if (!box) return;  // the run has ended
    const std::uint64_t bytes = value.size();
    if (parked_.fetch_add(bytes) + bytes > options_.max_parked_bytes) {
      parked_ -= bytes;
      box->fail(error(error_code::resource_exhausted, "receive",
                      {"values of more than ", options_.max_parked_bytes,
                       " bytes wait here for their steps (graph_service_options::max_parked_bytes)"}));
      return;
    }
    if (!box->put(header.weight, std::move(value))) parked_ -= bytes;
  }

  void end(const detail::peer_process& from, const frame_header& header, const detail::end_message& how) {
    const std::lock_guard lock(mutex_);
    const auto found = clients_.find(header.tag);
    if (found == clients_.end()) return;
    client& of = *found->second;
    {
      const std::lock_guard own(of.mutex);
      if (of.number != header.step || from.rank >= of.ended.size()) return;
      of.ended[from.rank] = true;
      if (how.failed) {
        std::optional<error>& why = how.follows ? of.consequence : of.cause;
        if (!why) why = how.from(to_string(here_.members().task(from.rank)));
        if (const auto box = boxes_.find({header.tag, header.step, true}); box != boxes_.end()) box->second->fail(*why);
      }
    }
    of.changed.notify_all();
  }

  /// The mailbox of a run, which may not have begun here yet; null if it has ended.
  std::shared_ptr<mailbox> find(const run_key& key) {
    const std::lock_guard lock(mutex_);
    if (key.is_client) {
      const auto of = clients_.find(key.session);
      const auto box = boxes_.find(key);
      return of != clients_.end() && box != boxes_.end() ? box->second : nullptr;
    }
    const auto last = finished_.find(key.session);
    if (last != finished_.end() && key.number <= last->second) return nullptr;
    if (const auto box = boxes_.find(key); box != boxes_.end()) return box->second;
    if (boxes_.size() >= max_waiting) throw error(error_code::resource_exhausted, "step", "too many runs wait");
    return boxes_.emplace(key, std::make_shared<mailbox>()).first->second;
  }
  void forget(const run_key& key) {
    const std::lock_guard lock(mutex_);
    if (const auto box = boxes_.find(key); box != boxes_.end()) {
      parked_ -= box->second->close();
      boxes_.erase(box);
    }
    if (key.is_client) return;
    std::int64_t& last = finished_[key.session];
    last = std::max(last, key.number);
    // What came early for runs that were never asked for.
    for (auto each = boxes_.begin(); each != boxes_.end();) {
      if (each->first.session == key.session && !each->first.is_client && each->first.number <= last) {
        parked_ -= each->second->close();
        each = boxes_.erase(each);
      } else {
        ++each;
      }
    }
  }

  void answer(std::size_t rank, const frame_header& asked, const std::vector<std::byte>& value) {
    frame_header header;
    header.kind = frame_kind::transfer;
    header.tag = asked.tag;
    header.step = asked.step;
    header.request = tasks();
    channels_.send(rank, header, value, deadline_type(std::chrono::seconds(10)));
  }

  static std::uint32_t gpus() {
    return gpu::installed_platform ? static_cast<std::uint32_t>(gpu::installed_platform->count()) : 0;
  }

  // ---- threads ----

  template <typename Do>
  void work(queue& from, Do what) {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      if (from.all.empty()) {
        detail::sleep<clock>(from.changed, lock, std::chrono::milliseconds(100));
        continue;
      }
      job next = std::move(from.all.front());
      from.all.pop_front();
      lock.unlock();
      try {
        what(next);
      } catch (const std::exception&) {  // whoever asked is gone, most likely
      }
      lock.lock();
    }
  }

  /// The first task gives all runs their turn: each reaches every task behind the same others.
  void forward(job& next) {
    const auto message = detail::run_message::read(next.payload, tasks());
    for (const std::uint32_t t : message.participants) {
      if (t == here_.members().self()) continue;
      try {
        channels_.send(t, next.header, next.payload, deadline_type(std::chrono::seconds(10)));
      } catch (const error&) {  // the client sees that the task is gone
      }
    }
    if (std::find(message.participants.begin(), message.participants.end(), 0u) != message.participants.end())
      add(jobs_, std::move(next));
  }

  void execute(job& next) {
    if (next.header.kind == frame_kind::run_step) return run(next);
    detail::end_message how;
    try {
      access_variable(next);
      if (next.header.kind == frame_kind::read_variable) return;
    } catch (const error& e) {
      how = detail::end_message::of(e, false);
    }
    send_end(next.from.rank, next.header, how);
  }

  void send_end(std::size_t rank, const frame_header& asked, const detail::end_message& how) {
    frame_header header;
    header.kind = frame_kind::step_ended;
    header.tag = asked.tag;
    header.step = asked.step;
    channels_.send(rank, header, how.bytes(), deadline_type(std::chrono::seconds(10)));
  }

  void run(job& next) {
    const auto message = detail::run_message::read(next.payload, tasks());
    const run_key key{next.header.tag, next.header.step, false};
    detail::end_message how;
    if (const auto box = find(key)) {
      try {
        if (const auto why = box->failure()) throw *why;
        current_ = {
            key, &message, box,
            deadline_type(std::min<std::chrono::microseconds>(
                options_.step_timeout, std::chrono::microseconds(static_cast<std::int64_t>(std::min<std::uint64_t>(
                                           next.header.deadline_us, std::uint64_t{1} << 50)))))};
        run_part(message);
      } catch (const error& e) {
        how = detail::end_message::of(e, box->failure().has_value());
      } catch (const std::bad_alloc&) {
        how = detail::end_message::of(error(error_code::resource_exhausted, "step", "no memory"), false);
      } catch (const std::exception& e) {
        how = detail::end_message::of(error(error_code::internal, "step", e.what()), false);
      }
      current_ = {};
    } else {
      how = detail::end_message::of(error(error_code::aborted, "step", "the run has been cancelled"), true);
    }
    forget(key);
    send_end(message.client_rank, next.header, how);
  }

  // ---- this task's share, on the executor's thread ----

  class own_links final : public detail::task_links {
   public:
    explicit own_links(graph_service& of) : of_(of) {}
    void send(const detail::transfer_key& key, const std::byte* value, std::size_t bytes) override {
      const auto& run = of_.current_;
      frame_header header;
      header.kind = frame_kind::transfer;
      header.tag = run.key.session;
      header.step = run.key.number;
      header.request = key.to;
      header.weight = key.number;
      of_.channels_.send(key.to == of_.tasks() ? run.message->client_rank : key.to, header, {value, bytes}, run.until);
    }
    void receive(const detail::transfer_key& key, std::byte* to, std::size_t bytes) override {
      const auto& run = of_.current_;
      const bool from_client = key.from == of_.tasks();
      const std::size_t rank = from_client ? run.message->client_rank : key.from;
      of_.take(*run.box, key, to, bytes, run.until, [&] {
        of_.check_alive(rank, from_client ? run.message->client_incarnation : 0);
        if (!from_client) of_.check_alive(run.message->client_rank, run.message->client_incarnation);
      });
    }

   private:
    graph_service& of_;
  };

  template <typename Check>
  void take(mailbox& box, const detail::transfer_key& key, std::byte* to, std::size_t bytes, deadline_type until,
            Check check) {
    const std::string from = key.from == tasks() ? "the client" : to_string(here_.members().task(key.from));
    const std::vector<std::byte> value = box.take(key.number, until, from, [&] {
      if (stopping_ || here_.stopping()) throw error(error_code::cancelled, "receive", "this server was stopped");
      check();
    });
    parked_ -= value.size();
    if (value.size() != bytes)
      throw error(error_code::data_loss, "receive",
                  {"a value from ", from, " has ", value.size(), " bytes, not ", bytes});
    if (bytes) std::memcpy(to, value.data(), bytes);
  }

  /// Throws unavailable that names the task if it is gone; `incarnation` 0: whichever process of it.
  void check_alive(std::size_t rank, std::uint64_t incarnation) {
    const membership& members = here_.members();
    if (rank == members.self()) return;
    if (incarnation == 0) incarnation = members.incarnation(rank);
    if (!members.alive(rank, incarnation)) throw members.diagnose(rank, incarnation, "step", "is gone");
  }

  class own_support final : public plan::task_support {
   public:
    own_support(graph_service& of, detail::task_table table)
        : links_(of), self_(static_cast<std::uint32_t>(of.here_.members().self())), table_(std::move(table)) {}
    std::uint32_t self() const override { return self_; }
    const device_spec& name_of(std::uint32_t task) const override { return table_.name_of(task); }
    plan::device_number place(const plan::placement& by, std::uint32_t n, const char*& rule) const override {
      return table_.place(by, n, rule);
    }
    bool moved(const device_spec& asked, plan::device_number d) const override { return table_.moved(asked, d); }
    plan::task_step* new_step() override { return new detail::task_part(table_, links_, expected); }
    void read_variable(std::uint32_t, plan::device_number, void*) override { refuse(); }
    void write_variable(std::uint32_t, plan::device_number, const void*) override { refuse(); }
    sequence<std::string> devices() const override { return table_.devices(); }

    std::uint64_t expected = 0;  // the signature of the step that is compiled

   private:
    [[noreturn]] static void refuse() {
      throw error(error_code::internal, "session", "a variable of another task is asked for");
    }
    own_links links_;
    std::uint32_t self_;
    detail::task_table table_;
  };

  struct served {
    std::vector<std::byte> placed_by;  // the registration without its request
    std::unique_ptr<session> variables;
    own_support* support = nullptr;
    std::map<std::uint64_t, prepared_step> steps;  // by signature
    bool restarted = false;
  };

  detail::task_table table_of(const detail::step_registration& from) const {
    sequence<detail::task_devices> all;
    for (std::size_t t = 0; t < tasks(); ++t) {
      const std::string name = to_string(here_.members().task(t));
      all.push_back({parse_device(name.data(), name.size()), from.cpus[t], from.gpus[t]});
    }
    return {std::move(all), from.home};
  }

  /// The share that a client asks for, which it makes if there is none.
  served& serve(const detail::step_registration& from) {
    from.check(graph_, tasks());
    detail::step_registration config = from;
    config.request = {};
    config.restarted = {};
    detail::message_writer out;
    config.write(out);
    std::vector<std::byte> placed_by = out.take();
    if (served_ && served_->placed_by != placed_by)
      throw error(error_code::failed_precondition, "step",
                  "another session has placed the graph otherwise: sessions that share variables have the same target "
                  "task, session_options::device and allow_soft_placement, and all tasks the same devices");
    if (served_) return *served_;
    auto made = std::make_unique<served>();
    made->placed_by = std::move(placed_by);
    session_options options = options_.session;
    options.device = parse_device(from.device.data(), from.device.size());
    options.allow_soft_placement = from.soft;
    struct making {
      graph_service& of;
      detail::task_table table;
      own_support* made = nullptr;
    } support{*this, table_of(from)};
    options.target = {[](void* to, const graph&) -> plan::task_support* {
                        auto& s = *static_cast<making*>(to);
                        return s.made = new own_support(s.of, std::move(s.table));
                      },
                      &support};
    made->variables = std::make_unique<session>(graph_.self(), options);
    made->support = support.made;
    const auto self = static_cast<std::uint32_t>(here_.members().self());
    made->restarted = std::find(from.restarted.begin(), from.restarted.end(), self) != from.restarted.end();
    if (made->restarted)  // their values are gone with the process that had them
      for (std::uint32_t n = 0; n < graph_.size(); ++n)
        if (graph_[n].def.op == &operation_of<variable_op>) made->variables->state_of(n).initialized = false;
    served_ = std::move(made);
    return *served_;
  }

  void run_part(const detail::run_message& message) {
    if (message.registers) {
      served& of = serve(message.registration);
      if (of.steps.find(message.signature) == of.steps.end()) {
        if (of.steps.size() >= max_steps) of.steps.clear();
        of.steps.emplace(message.signature, prepared_step(*of.variables, message.registration.request));
      }
    }
    const auto step = served_ ? served_->steps.find(message.signature) : decltype(served_->steps.end()){};
    if (!served_ || step == served_->steps.end())
      throw error(error_code::aborted, "step", "this task does not know the step: it was started again");
    if (step->second.request().feeds.size() != message.extents.size()) detail::message_reader::malformed();
    served_->support->expected = message.signature;
    served_->variables->set_random_stream(message.position / plan::random_state::steps);
    served_->variables->set_step_number(message.position % plan::random_state::steps);
    std::vector<plan::fed_value> fed;
    for (const shape& e : message.extents) fed.push_back({nullptr, e});
    fed.push_back({});
    try {
      step->second.run(fed.data(), [](std::size_t, const shape&) -> void* { return nullptr; });
    } catch (const error& e) {
      if (!served_->restarted || e.code() != error_code::failed_precondition) throw;
      throw error(e.code(), e.operation(),
                  {e.sentence(), "; this task was started again and has lost its variables: restore a checkpoint"});
    }
  }

  void access_variable(job& next) {
    detail::message_reader in(next.payload);
    const auto size = in.number<std::uint32_t>();
    detail::message_reader registration(in.bytes(size));
    served& of = serve(detail::step_registration::read(registration));
    const auto n = static_cast<std::uint32_t>(next.header.request);
    if (n >= graph_.size() || graph_[n].def.op != &operation_of<variable_op> ||
        of.variables->state_of(n).where.task != here_.members().self())
      detail::message_reader::malformed();
    const std::size_t bytes = of.variables->variable_info(n).bytes();
    if (next.header.kind == frame_kind::read_variable) {
      if (!of.variables->state_of(n).initialized)
        throw error(error_code::failed_precondition, graph_[n].name,
                    of.restarted ? "the variable has no value: its task was started again; restore a checkpoint"
                                 : "the variable has no value yet: call set(), or run a step that assigns to it");
      std::vector<std::byte> value(bytes);
      of.variables->read_variable(n, value.data());
      return answer(next.from.rank, next.header, value);
    }
    if (in.left() != bytes) detail::message_reader::malformed();
    of.variables->write_variable(n, in.bytes(bytes).data());
  }

  static constexpr std::size_t max_waiting = 1024, max_steps = 256;

  struct current_run {
    run_key key{};
    const detail::run_message* message = nullptr;
    std::shared_ptr<mailbox> box;
    deadline_type until{std::chrono::seconds(0)};
  };

  Server& here_;
  graph graph_;
  graph_service_options options_;
  std::uint32_t home_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> parked_{0};

  std::mutex mutex_;
  queue jobs_, forwarded_;
  std::map<run_key, std::shared_ptr<mailbox>> boxes_;
  std::map<std::uint64_t, std::int64_t> finished_;  // of each client's session, the last run here
  std::map<std::uint64_t, client*> clients_;

  // Of the executor's thread.
  current_run current_;
  std::unique_ptr<served> served_;

  std::thread executor_, forwarder_;
  detail::remote_channels<Server> channels_;
};

template <typename Server>
graph_service(Server&, const graph&) -> graph_service<Server>;
template <typename Server>
graph_service(Server&, const graph&, graph_service_options) -> graph_service<Server>;

}  // namespace weft

#include <weft/distributed/remote/remote_tasks.hpp>
