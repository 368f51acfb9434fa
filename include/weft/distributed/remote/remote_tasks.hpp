#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/distributed/remote/graph_service.hpp>

namespace weft::detail {

/// A session that asks the tasks of a cluster for steps: what a session made with graph_service::target() holds.
template <typename Service>
class remote_tasks final : public plan::task_support {
  using server_type = typename Service::server_type;
  using clock = typename server_type::clock_type;
  using deadline_type = basic_deadline<clock>;
  using run_key = typename Service::run_key;
  using mailbox = typename Service::mailbox;

 public:
  /// Waits for all tasks, and asks for their devices. Throws deadline_exceeded that lists those that are missing.
  remote_tasks(Service& service, const graph& g, std::uint32_t home) : service_(service), graph_(g), links_(*this) {
    fill_random(service_.here().network(), std::as_writable_bytes(std::span(&session_, 1)));
    const std::lock_guard lock(service_.mutex_);
    service_.clients_.emplace(session_, &state_);
    home_ = home;
  }
  ~remote_tasks() override {
    const std::lock_guard lock(service_.mutex_);
    service_.clients_.erase(session_);
  }

  std::uint32_t self() const override { return static_cast<std::uint32_t>(service_.tasks()); }
  const device_spec& name_of(std::uint32_t task) const override { return table().name_of(task); }
  plan::device_number place(const plan::placement& by, std::uint32_t n, const char*& rule) const override {
    placed_ = &by;
    return table().place(by, n, rule);
  }
  bool moved(const device_spec& asked, plan::device_number d) const override { return table().moved(asked, d); }
  plan::task_step* new_step() override { return new step(*this); }
  sequence<std::string> devices() const override { return table().devices(); }

  void read_variable(std::uint32_t node, plan::device_number where, void* to) override {
    const value_info info = info_of(node);
    const std::vector<std::byte> value = ask(frame_kind::read_variable, where.task, node, {}, true);
    if (value.size() != info.bytes())
      throw error(error_code::data_loss, graph_[node].name, {"has come with ", value.size(), " bytes"});
    if (!value.empty()) std::memcpy(to, value.data(), value.size());
  }
  void write_variable(std::uint32_t node, plan::device_number where, const void* from) override {
    ask(frame_kind::write_variable, where.task, node,
        {static_cast<const std::byte*>(from), static_cast<std::size_t>(info_of(node).bytes())}, false);
  }

 private:
  class links final : public task_links {
   public:
    explicit links(remote_tasks& of) : of_(of) {}
    void send(const transfer_key& key, const std::byte* value, std::size_t bytes) override {
      frame_header header = of_.header(frame_kind::transfer);
      header.request = key.to;
      header.weight = key.number;
      of_.service_.channels_.send(key.to, header, {value, bytes}, of_.until_);
    }
    void receive(const transfer_key& key, std::byte* to, std::size_t bytes) override {
      of_.service_.take(*of_.box_, key, to, bytes, of_.until_, [&] { of_.check_tasks(); });
    }

   private:
    remote_tasks& of_;
  };

  class step final : public task_part {
   public:
    explicit step(remote_tasks& of) : task_part(of.table(), of.links_), of_(of) {}
    void run(const plan::program& p, const plan::binding& b, std::int64_t position, void* part,
             void (*execute)(void*)) override {
      run_message message;
      message.signature = signature();
      message.position = position;
      for (const std::uint32_t t : used()) message.participants.push_back(t);
      for (const auto& fed : b.fed) message.extents.push_back(fed.extents);
      of_.run(message, p.request, registered_, part, execute);
    }

   private:
    remote_tasks& of_;
    std::vector<std::uint64_t> registered_;  // the processes that know the step, by task
  };

  // ---- runs ----

  frame_header header(frame_kind kind) const {
    frame_header made;
    made.kind = kind;
    made.tag = session_;
    made.step = number_;
    made.deadline_us = until_.remaining_us();
    return made;
  }

  /// Begins to count what comes for the next run or request.
  void begin() {
    ++number_;
    box_ = std::make_shared<mailbox>();
    const std::lock_guard lock(service_.mutex_);
    service_.boxes_.insert_or_assign(run_key{session_, number_, true}, box_);
    const std::lock_guard own(state_.mutex);
    state_.number = number_;
    state_.ended.assign(service_.tasks(), false);
    state_.cause.reset();
    state_.consequence.reset();
  }
  struct ending {
    remote_tasks& of;
    ~ending() { of.service_.forget({of.session_, of.number_, true}); }
  };

  void run(run_message& message, const plan::step_request& request, std::vector<std::uint64_t>& registered, void* part,
           void (*execute)(void*)) {
    until_ = deadline_type(service_.options().step_timeout);
    begin();
    const ending at_end{*this};
    participants_ = message.participants;
    try {
      note_processes();
      message.client_rank = static_cast<std::uint32_t>(service_.here().members().self());
      message.client_incarnation = service_.here().incarnation();
      message.registers = registered != processes_;
      if (message.registers) {
        message.registration = registration();
        message.registration.request = request;
      }
      if (!participants_.empty()) service_.channels_.send(0, header(frame_kind::run_step), message.bytes(), until_);
      execute(part);
      await_ends(until_);
      registered = processes_;
    } catch (const error& problem) {
      registered.clear();
      const error cause = cancel(problem);
      throw cause;
    } catch (...) {
      registered.clear();
      cancel(error(error_code::cancelled, "step", "the client's part has failed"));
      throw;
    }
  }

  /// Ends the run on all tasks. Returns why it failed: what a task says that failed by itself, before what that led to.
  error cancel(const error& problem) {
    frame_header how = header(frame_kind::cancel_step);
    const auto message = end_message::of(problem, true).bytes();
    for (const std::uint32_t t : participants_) {
      if (!is_there(t)) continue;
      try {
        service_.channels_.send(t, how, message, deadline_type(std::chrono::seconds(5)));
      } catch (const error&) {
      }
    }
    try {
      await_ends(deadline_type(std::chrono::seconds(5)), false);
    } catch (const error&) {
    }
    const std::lock_guard own(state_.mutex);
    return state_.cause ? *state_.cause : problem;
  }

  /// Waits until all tasks that take part have ended the run. `strict`: throws what the first one failed with, or that
  /// it is gone.
  void await_ends(deadline_type until, bool strict = true) {
    std::unique_lock lock(state_.mutex);
    for (;;) {
      if (strict && state_.cause) throw *state_.cause;
      bool all = true;
      for (const std::uint32_t t : participants_) all = all && (state_.ended[t] || (!strict && !is_there(t)));
      if (all && strict && state_.consequence) throw *state_.consequence;
      if (all) return;
      if (until.expired()) throw error(error_code::deadline_exceeded, "step", {late(), " has not ended in time"});
      sleep<clock>(state_.changed, lock, until.remaining(std::chrono::milliseconds(20)));
      if (!strict) continue;
      lock.unlock();
      check_tasks();
      lock.lock();
    }
  }
  std::string late() const {
    for (const std::uint32_t t : participants_)
      if (!state_.ended[t]) return service_.table_name(t);
    return "no task";
  }

  bool is_there(std::uint32_t t) const {
    const membership& members = service_.here().members();
    return t == members.self() || members.alive(t, processes_[t]);
  }
  void check_tasks() {
    for (const std::uint32_t t : participants_) service_.check_alive(t, processes_[t]);
  }

  /// Which process each task is now. A task that was started again has lost its variables.
  void note_processes() {
    const membership& members = service_.here().members();
    for (std::uint32_t t = 0; t < processes_.size(); ++t) {
      const std::uint64_t now = t == members.self() ? service_.here().incarnation() : members.incarnation(t);
      if (now == processes_[t]) continue;
      processes_[t] = now;
      if (std::find(restarted_.begin(), restarted_.end(), t) == restarted_.end()) restarted_.push_back(t);
    }
    check_tasks();
  }

  step_registration registration() const {
    step_registration made;
    made.graph = graph_.hash();
    made.seed = graph_.seed();
    made.home = home_;
    made.device = to_string(placed_ ? placed_->preferred() : device_spec(cpu{}));
    made.soft = placed_ && placed_->soft();
    for (const task_devices& t : table().all()) made.cpus.push_back(t.cpus), made.gpus.push_back(t.gpus);
    made.restarted = restarted_;
    return made;
  }

  // ---- requests to one task ----

  /// The answer, where there is one.
  std::vector<std::byte> ask(frame_kind kind, std::uint32_t task, std::uint64_t about, const_bytes value,
                             bool answers) {
    until_ = deadline_type(service_.options().step_timeout);
    begin();
    const ending at_end{*this};
    participants_ = {task};
    note_processes();
    message_writer config;
    registration().write(config);
    const std::vector<std::byte> words = config.take();
    message_writer out;
    out.number(static_cast<std::uint32_t>(words.size()));
    std::vector<std::byte> payload = out.take();
    payload.insert(payload.end(), words.begin(), words.end());
    payload.insert(payload.end(), value.begin(), value.end());
    frame_header how = header(kind);
    how.request = about;
    service_.channels_.send(task, how, payload, until_);
    if (answers) return box_->take(0, until_, service_.table_name(task), [&] { check_tasks(); });
    await_ends(until_);
    return {};
  }

  value_info info_of(std::uint32_t node) const {
    value_info info = graph_[node].def.outputs[0];
    extent_bindings known;
    for (const auto& [code, size] : graph_.fixed_extents()) known.bind(code, size);
    info.extents = known.resolve(graph_, graph_[node].name, info.extents);
    return info;
  }

  /// The devices of all tasks, asked for once.
  const task_table& table() const {
    if (!table_) const_cast<remote_tasks*>(this)->meet();
    return *table_;
  }
  void meet() {
    const membership& members = service_.here().members();
    until_ = deadline_type(service_.options().connect_timeout);
    service_.here().members().wait_for(until_, [](const task_id&) { return true; });
    processes_.clear();
    sequence<task_devices> all;
    for (std::uint32_t t = 0; t < service_.tasks(); ++t) {
      processes_.push_back(t == members.self() ? service_.here().incarnation() : members.incarnation(t));
      participants_.clear();
      begin();
      const ending at_end{*this};
      service_.channels_.send(t, header(frame_kind::list_devices), {}, until_);
      const auto answer =
          box_->take(0, until_, service_.table_name(t), [&] { service_.check_alive(t, processes_[t]); });
      message_reader in(answer);
      const std::string name = service_.table_name(t);
      task_devices of{parse_device(name.data(), name.size()), 0, 0};
      of.cpus = in.number<std::uint32_t>();
      of.gpus = in.number<std::uint32_t>();
      in.end();
      if (of.cpus == 0 || of.cpus > 4096 || of.gpus > 4096) message_reader::malformed();
      all.push_back(of);
    }
    table_ = std::make_unique<task_table>(std::move(all), home_);
  }

  Service& service_;
  const graph& graph_;
  std::uint32_t home_ = 0;
  std::uint64_t session_ = 0;
  typename Service::client state_;
  links links_;
  std::unique_ptr<task_table> table_;
  mutable const plan::placement* placed_ = nullptr;

  // Of the run or request in progress.
  std::int64_t number_ = 0;
  deadline_type until_{std::chrono::seconds(0)};
  std::shared_ptr<mailbox> box_;
  std::vector<std::uint32_t> participants_;
  std::vector<std::uint64_t> processes_;  // by task
  std::vector<std::uint32_t> restarted_;
};

}  // namespace weft::detail
