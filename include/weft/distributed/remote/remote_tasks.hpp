// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/membership/exchange_loop.hpp>
#include <weft/distributed/remote/client/client_runs.hpp>
#include <weft/distributed/remote/step_messages.hpp>
#include <weft/distributed/remote/task_part.hpp>
#include <weft/error.hpp>
#include <weft/queue/queue_operations.hpp>
#include <weft/queue/section_operations.hpp>

namespace weft::detail {

/// The part of a session with a target that requests steps from the tasks of a cluster. The service is the graph_host
/// of a task, or the client_connections of a graph_client.
template <typename Service>
class remote_tasks : public plan::task_support {
  using runs = client_runs;

 public:
  /// `home`: the rank of the task in which nodes without a task run.
  remote_tasks(Service& service, const graph& g, std::uint32_t home)
      : service_(service), graph_(g), home_(home), links_(*this) {
    service_.fill_random(std::as_writable_bytes(std::span(&session_, 1)));
    service_.runs().add(session_, state_);
  }
  ~remote_tasks() override {
    service_.runs().remove(session_);
    if (number_ == 0) return;
    frame_header over;
    over.kind = frame_kind::end_session;
    over.tag = session_;
    for (std::uint32_t t = 0; t < processes_.size(); ++t) try {
        if (service_.is_there(t, processes_[t]))
          service_.send_to_task(t, processes_[t], over, {}, deadline(std::chrono::seconds(1)));
      } catch (const std::exception&) {  // the task notices that the client is gone
      }
  }

  std::uint32_t self() const override { return static_cast<std::uint32_t>(service_.tasks()); }
  const device_spec& name_of(std::uint32_t task) const override { return table().name_of(task); }
  plan::device_number place(const plan::placement& by, std::uint32_t n, const char*& rule) const override {
    placed_ = &by;
    return table().place(by, n, rule);
  }
  void use_container(const std::string& name) override { container_ = name; }
  bool moved(const device_spec& asked, plan::device_number d) const override { return table().moved(asked, d); }
  plan::task_step* new_step() override { return new step(*this); }
  sequence<std::string> devices() const override { return table().devices(); }

  void read_variable(std::uint32_t node, plan::device_number where, void* to) override {
    const value_info info = info_of(node);
    ask(frame_kind::read_variable, where.task, node, {}, [&] {
      state_.box->take(0, static_cast<std::byte*>(to), static_cast<std::size_t>(info.bytes()), until_,
                       service_.table_name(where.task), check_of(where.task), receiver());
    });
  }
  void write_variable(std::uint32_t node, plan::device_number where, const void* from) override {
    ask(frame_kind::write_variable, where.task, node,
        {static_cast<const std::byte*>(from), static_cast<std::size_t>(info_of(node).bytes())},
        [&] { await_ends(until_); });
  }
  void initialize_variable(std::uint32_t node, plan::device_number where) override {
    ask(frame_kind::write_variable, where.task, node, {}, [&] { await_ends(until_); }, initializes);
  }
  void reset_containers(const std::string* names, std::size_t count) override {
    table();
    const std::vector<std::byte> payload = write_message(reset_message{{names, names + count}});
    for (std::uint32_t t = 0; t < service_.tasks(); ++t) {
      const auto ended = begin_request({t});
      service_.send_to_task(t, processes_[t], header(frame_kind::reset), payload, until_);
      await_ends(until_);
    }
  }

 private:
  class links final : public task_links {
   public:
    explicit links(remote_tasks& of) : of_(of) {}
    void send(const transfer_key& key, const std::byte* value, std::size_t bytes) override {
      if (of_.feed_small(key, {value, bytes})) return;
      of_.begin_run();
      frame_header header = of_.header(frame_kind::transfer);
      header.request = key.to;
      header.weight = key.number;
      of_.service_.send_to_task(key.to, of_.processes_[key.to], header, {value, bytes}, of_.until_);
    }
    void receive(const transfer_key& key, std::byte* to, std::size_t bytes) override {
      of_.begin_run();
      of_.state_.box->take(
          key.number, to, bytes, of_.until_, of_.service_.table_name(key.from), [&] { of_.check_tasks(); },
          of_.receiver());
    }

   private:
    remote_tasks& of_;
  };

  class step final : public task_part {
   public:
    explicit step(remote_tasks& of) : task_part(of.table(), of.links_), of_(of) {}
    void cut(plan::program& p) override {
      for (std::uint32_t n = 0; n < p.running; ++n) {
        if (!p.nodes[n].runs || !p.op(n).ordered) continue;
        waits_ = true;
        std::int64_t own = 0;
        if (is_operation<enqueue_op>(p.def(n).op)) own = attributes_of<enqueue_op>(p.def(n)).time_limit;
        if (is_operation<dequeue_op>(p.def(n).op)) own = attributes_of<dequeue_op>(p.def(n)).time_limit;
        if (is_operation<enter_section_op>(p.def(n).op)) own = attributes_of<enter_section_op>(p.def(n)).time_limit;
        limit_ = own > INT64_MAX - limit_ ? INT64_MAX : limit_ + own;
      }
      task_part::cut(p);
    }
    void run(const plan::program& p, const plan::binding& b, std::int64_t position, void* part,
             void (*execute)(void*)) override {
      run_message message;
      message.signature = signature();
      message.position = position;
      message.waits = waits_;
      for (const std::uint32_t t : used()) message.participants.push_back(t);
      for (const auto& fed : b.fed) message.extents.push_back(fed.extents);
      message.placement = placement_;
      of_.run(message, limit_, p.request, registered_, part, execute);
      placement_ = message.placement;
    }

   private:
    remote_tasks& of_;
    bool waits_ = false;                     // has queue operations
    std::int64_t limit_ = 0;                 // nanoseconds that queue operations may wait
    std::vector<std::uint64_t> registered_;  // by task: the process that has the step's registration
    std::uint64_t placement_ = 0;            // the placement in that registration
  };

  // ---- runs ----

  frame_header header(frame_kind kind) const {
    frame_header made;
    made.kind = kind;
    made.tag = session_;
    made.step = number_;
    made.deadline_us = until_.remaining_us();
    if (made.deadline_us == 0) made.deadline_us = std::uint64_t{1} << 50;
    return made;
  }

  struct ending {
    remote_tasks& of;
    ~ending() { of.service_.runs().end(of.state_); }
  };
  /// Accepts answers to the next run or request, until the returned object is destroyed.
  [[nodiscard]] ending begin() {
    service_.runs().begin(state_, ++number_, service_.tasks());
    began_ = detail::now();
    return {*this};
  }
  [[nodiscard]] ending begin_request(std::vector<std::uint32_t> of) {
    until_ = deadline(service_.options().step_timeout);
    participants_ = std::move(of);
    takes_turn_ = false;
    began_ = detail::now();
    note_processes();
    return begin();
  }

  void run(run_message& message, std::int64_t limit, const plan::step_request& request,
           std::vector<std::uint64_t>& registered, void* part, void (*execute)(void*)) {
    const std::chrono::nanoseconds step_timeout(service_.options().step_timeout);
    until_ = limit > INT64_MAX - step_timeout.count() ? deadline::never()
                                                      : deadline(step_timeout + std::chrono::nanoseconds(limit));
    participants_ = message.participants;
    takes_turn_ = !message.waits && participants_.size() > 1;
    const auto ended = begin();
    begins_ = &message;
    try {
      note_processes();
      const peer_process self = service_.self_as_client();
      message.client_rank = static_cast<std::uint32_t>(self.rank);
      message.client_incarnation = self.incarnation;
      for (const std::uint32_t t : participants_) message.processes.push_back(processes_[t]);
      message.registers = registered != processes_;
      if (message.registers) {
        message.registration = registration();
        message.registration.request = request;
        message.placement = message.registration.key();
      }
      execute(part);
      begin_run();
      await_ends(until_);
      registered = processes_;
    } catch (const error& problem) {
      registered.clear();
      if (take_run()) throw;
      const error cause = cancel(problem);
      throw cause;
    } catch (...) {
      registered.clear();
      if (take_run()) throw;
      cancel(error(error_code::cancelled, "step", "the client's part of the step failed"));
      throw;
    }
  }

  /// Adds a small value to the request for the run. Returns false if the request has been sent, or the value needs a
  /// frame of its own.
  bool feed_small(const transfer_key& key, const_bytes value) {
    const std::lock_guard lock(beginning_);
    return begins_ && begins_->fed.add(key.to, key.number, value);
  }
  /// Returns the run if it has not been requested yet, otherwise null.
  const run_message* take_run() {
    const std::lock_guard lock(beginning_);
    return std::exchange(begins_, nullptr);
  }
  /// Requests the run from the tasks, unless that has been done. The first lane of the client's part to need the tasks
  /// does so.
  void begin_run() {
    const run_message* const asked = take_run();
    if (!asked) return;
    const run_message& message = *asked;
    const std::vector<std::byte> words = message.bytes();
    // A run that may wait takes no turn, and all tasks receive it directly. A run on a single task waits for no other
    // task and takes its turn there. Other runs take their turns in the first task, which forwards them.
    if (takes_turn_)
      service_.send_to_task(0, processes_[0], header(frame_kind::run_step), words, until_);
    else
      for (const std::uint32_t t : participants_)
        service_.send_to_task(t, processes_[t], header(frame_kind::run_step), words, until_);
  }

  /// Ends the run on all tasks. Returns the cause of the failure: the error of a task that failed by itself, or else
  /// `problem`.
  error cancel(const error& problem) {
    frame_header how = header(frame_kind::cancel_step);
    const auto message = end_message::of(problem, true).bytes();
    std::vector<std::uint32_t> told = participants_;
    if (takes_turn_ && std::find(told.begin(), told.end(), 0u) == told.end())
      told.push_back(0);  // may still wait to forward the run
    for (const std::uint32_t t : told) {
      if (!is_there(t)) continue;
      try {
        service_.send_to_task(t, processes_[t], how, message, deadline(std::chrono::seconds(5)));
      } catch (const error&) {
      }
    }
    try {
      await_ends(deadline(std::chrono::seconds(5)), false);
    } catch (const error&) {
    }
    const std::lock_guard own(state_.mutex);
    return state_.cause ? *state_.cause : problem;
  }

  /// Waits until all tasks that take part have ended the run. `strict`: throws the first error of a task, or
  /// unavailable if a task is gone.
  void await_ends(deadline until, bool strict = true) {
    std::vector<std::uint32_t> awaited = participants_;
    const auto check = [&] {
      if (strict) return check_tasks();
      std::erase_if(awaited, [&](std::uint32_t t) { return !can_answer(t); });
    };
    if (!strict) check();
    std::unique_lock lock(state_.mutex);
    const auto all_ended = [&] {
      return std::all_of(awaited.begin(), awaited.end(), [&](std::uint32_t t) { return state_.ended[t]; });
    };
    const auto is_over = [&] { return (strict && state_.cause) || all_ended(); };
    for (;;) {
      if (strict && state_.cause) throw *state_.cause;
      if (all_ended()) {
        if (strict && state_.consequence) throw *state_.consequence;
        return;
      }
      if (until.expired())
        throw error(error_code::deadline_exceeded, "step", {late(), " has not finished the step in time"});
      lock.unlock();
      const bool received = service_.receive_until(between_checks, [&] {
        const std::lock_guard own(state_.mutex);
        return is_over();
      });
      lock.lock();
      if (is_over()) continue;
      if (!received) detail::sleep(state_.changed, lock, until.remaining(between_checks));
      lock.unlock();
      check();
      lock.lock();
    }
  }
  std::string late() const {
    for (const std::uint32_t t : participants_)
      if (!state_.ended[t]) return service_.table_name(t);
    return "no task";
  }

  bool is_there(std::uint32_t t) const { return service_.is_there(t, processes_[t]); }
  bool can_answer(std::uint32_t t) const {
    return is_there(t) && !service_.has_lost_connection(t, processes_[t], began_);
  }
  void check_tasks() {
    if (takes_turn_) check_task(0);
    for (const std::uint32_t t : participants_) check_task(t);
  }
  void check_task(std::uint32_t t) const {
    service_.check_there(t, processes_[t]);
    service_.check_connection(t, processes_[t], began_);
  }

  /// Updates the current processes of the tasks that take part and of the first task, which forwards runs. A task that
  /// was restarted has lost its variables.
  void note_processes() {
    table();
    const auto note = [&](std::uint32_t t) {
      const std::uint64_t now = service_.process_of(t);
      if (now == processes_[t]) return;
      processes_[t] = now;
      if (std::find(restarted_.begin(), restarted_.end(), t) == restarted_.end()) restarted_.push_back(t);
    };
    note(0);
    for (const std::uint32_t t : participants_) note(t);
    check_tasks();
  }

  step_registration registration() const {
    step_registration made;
    made.graph = graph_.hash();
    made.seed = graph_.seed();
    made.container = container_;
    made.placed = placed_nodes();
    for (const task_devices& t : table().all()) made.cpus.push_back(t.cpus), made.gpus.push_back(t.gpus);
    made.restarted = restarted_;
    return made;
  }

  /// Returns the devices of all nodes, not only of the nodes of one step: the next step may have others.
  const std::vector<step_registration::placed_nodes>& placed_nodes() const {
    if (all_placed_ == graph_.size()) return all_nodes_;
    all_nodes_.clear();
    for (std::uint32_t n = 0; n < graph_.size(); ++n) {
      plan::device_number on{false, 0, self()};
      try {
        on = placed_->of(n);
      } catch (const error&) {  // a step that runs this node fails in the client
      }
      if (all_nodes_.empty() || !(all_nodes_.back().on == on)) all_nodes_.push_back({0, on});
      ++all_nodes_.back().count;
    }
    all_placed_ = graph_.size();
    return all_nodes_;
  }

  // ---- requests to one task ----

  /// Sends a request about a variable to one task, and calls `await` to receive the answer.
  template <typename Await>
  void ask(frame_kind kind, std::uint32_t task, std::uint64_t about, const_bytes value, Await await,
           std::uint32_t weight = 0) {
    table();
    const auto ended = begin_request({task});
    const std::vector<std::byte> payload = write_message(variable_message{registration(), value});
    frame_header how = header(kind);
    how.request = about;
    how.weight = weight;
    service_.send_to_task(task, processes_[task], how, payload, until_);
    await();
  }
  static constexpr std::chrono::milliseconds between_checks{20};

  /// For waits in which this thread receives.
  auto receiver() {
    return [this](auto done) { return service_.receive_until(between_checks, done); };
  }
  auto check_of(std::uint32_t task) {
    return [this, task] { check_task(task); };
  }

  value_info info_of(std::uint32_t node) const {
    value_info info = graph_[node].def.outputs[0];
    extent_bindings known;
    for (const auto& [code, size] : graph_.fixed_extents()) known.bind(code, size);
    info.extents = known.resolve(graph_, graph_[node].name, info.extents);
    return info;
  }

  /// Returns the devices of all tasks. Requests them once.
  const task_table& table() const {
    if (!table_) const_cast<remote_tasks*>(this)->meet();
    return *table_;
  }
  void meet() {
    until_ = deadline(service_.options().connect_timeout);
    service_.await_tasks(until_);
    using memory = task_message::memory;
    processes_.clear();
    for (std::uint32_t t = 0; t < service_.tasks(); ++t) processes_.push_back(service_.process_of(t));
    std::vector<memory> variables;
    sequence<task_devices> all;
    bool is_used = false;
    for (std::uint32_t t = 0; t < service_.tasks(); ++t) {
      const task_message said = ask_about(t, memory::unused);
      const std::string name = service_.table_name(t);
      all.push_back({parse_device(name.data(), name.size()), said.cpus, said.gpus});
      variables.push_back(said.variables);
      is_used = is_used || said.variables >= memory::used;
    }
    // Tasks become `used` once the states of all tasks are known. If one of them is `used`, an `unused` one is a new
    // process of its task, whose variables were lost.
    for (std::uint32_t t = 0; t < service_.tasks(); ++t)
      if (variables[t] == memory::unused) variables[t] = ask_about(t, is_used ? memory::lost : memory::met).variables;
    for (std::uint32_t t = 0; t < service_.tasks(); ++t)
      if (variables[t] == memory::met) ask_about(t, memory::used);
    table_ = std::make_unique<task_table>(std::move(all), home_);
  }
  /// Requests the description of a task and raises the state of its variables to at least `least`.
  task_message ask_about(std::uint32_t t, task_message::memory least) {
    participants_.clear();
    takes_turn_ = false;
    const auto ended = begin();
    frame_header how = header(frame_kind::list_devices);
    how.weight = static_cast<std::uint32_t>(least);
    service_.send_to_task(t, processes_[t], how, {}, until_);
    try {
      const deadline answers(until_.remaining(service_.answer_timeout()));
      return task_message::read(state_.box->take(0, answers, service_.table_name(t), check_of(t), receiver()));
    } catch (const error& late) {
      if (late.code() != error_code::deadline_exceeded) throw;
      throw error(late.code(), "connect", {service_.table_name(t), " has not created a graph_service in time"});
    }
  }

  Service& service_;
  const graph& graph_;
  std::uint32_t home_;
  std::uint64_t session_ = 0;
  typename runs::client state_;
  links links_;
  std::unique_ptr<task_table> table_;
  std::string container_;  // container of the variables
  mutable const plan::placement* placed_ = nullptr;
  mutable std::vector<step_registration::placed_nodes> all_nodes_;
  mutable std::size_t all_placed_ = 0;  // number of nodes in all_nodes_

  // Of the run or request in progress.
  std::mutex beginning_;
  run_message* begins_ = nullptr;  // until the run is requested
  std::int64_t number_ = 0;
  deadline until_{std::chrono::seconds(0)};
  deadline::time_point began_{};
  std::vector<std::uint32_t> participants_;
  bool takes_turn_ = false;               // task 0 forwards the run
  std::vector<std::uint64_t> processes_;  // by task
  std::vector<std::uint32_t> restarted_;
};

}  // namespace weft::detail
