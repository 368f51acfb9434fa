// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <weft/distributed/remote/service/client_waits.hpp>
#include <weft/distributed/remote/service/run_scheduler.hpp>
#include <weft/distributed/remote/service/served_placement.hpp>
#include <weft/distributed/remote/service/service_peers.hpp>
#include <weft/distributed/remote/service/step_links.hpp>
#include <weft/distributed/remote/step_messages.hpp>
#include <weft/distributed/remote/task_part.hpp>
#include <weft/distributed/remote/task_table.hpp>
#include <weft/distributed/remote/variable_table.hpp>
#include <weft/error.hpp>
#include <weft/session/session.hpp>

namespace weft::detail {

/// Places the nodes of a task's session as the client has placed them, and cuts the task's parts out of its steps.
class placed_support final : public plan::task_support {
 public:
  placed_support(const service_peers& peers, const variable_table& variables, step_links& links,
                 const step_registration& from, const graph& g)
      : variables_(variables),
        links_(links),
        graph_(g),
        container_(from.container),
        self_(static_cast<std::uint32_t>(peers.self())),
        table_(table_of(peers, from)) {
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
    const auto found = variables_.find(container_, graph_[node].name, info, where);
    if (!found) return false;
    v = found->state;
    v.where = where;  // the variable may be on another CPU device of this task
    return true;
  }
  bool moved(const device_spec& asked, plan::device_number d) const override { return table_.moved(asked, d); }
  plan::task_step* new_step() override { return new task_part(table_, links_, expected); }
  void read_variable(std::uint32_t, plan::device_number, void*) override { refuse(); }
  void write_variable(std::uint32_t, plan::device_number, const void*) override { refuse(); }
  sequence<std::string> devices() const override { return table_.devices(); }

  std::uint64_t expected = 0;  // the signature of the step that is compiled

 private:
  [[noreturn]] static void refuse() {
    throw error(error_code::internal, "session", "a variable of another task is requested");
  }
  static task_table table_of(const service_peers& peers, const step_registration& from) {
    sequence<task_devices> all;
    for (std::size_t t = 0; t < peers.size(); ++t) {
      const std::string name = peers.name_of(t);
      all.push_back({parse_device(name.data(), name.size()), from.cpus[t], from.gpus[t]});
    }
    return {std::move(all), 0};
  }

  const variable_table& variables_;
  step_links& links_;
  const graph& graph_;
  std::string container_;
  std::vector<plan::device_number> placed_;
  std::uint32_t self_;
  task_table table_;
};

/// A local session of a placed graph, for the runs of one queue. It shares the variables of the task. For the thread
/// that has the turn.
class task_session final : public run_scheduler::session_state {
 public:
  /// `are_lost`: variables that the task does not have yet lost their values with an earlier process.
  task_session(service_peers& peers, run_scheduler& scheduler, client_waits& waits, variable_table& table,
               const served_placement& of, session_options options, bool are_lost)
      : links_(peers, scheduler, waits), placement_(of.key), resets_(table.resets(of.config.container)) {
    struct making {
      service_peers& peers;
      variable_table& table;
      const served_placement& of;
      task_session& made;
    } support{peers, table, of, *this};
    options.target = {[](void* to, const graph& g) -> plan::task_support* {
                        auto& s = *static_cast<making*>(to);
                        return s.made.support_ = new placed_support(s.peers, s.table, s.made.links_, s.of.config, g);
                      },
                      &support};
    variables_ = std::make_shared<session>(of.nodes.self(), options);
    share_variables(table, of, static_cast<std::uint32_t>(peers.self()), are_lost);
  }

  /// Returns true if the session was made for the placement, and its container has not been reset since.
  bool fits(const served_placement& of, const variable_table& table) const {
    return placement_ == of.key && resets_ == table.resets(of.config.container);
  }

  session& variables() { return *variables_; }
  step_links& links() { return links_; }
  /// Returns null for a node that is not a variable of this task.
  variable_table::variable* find_variable(std::uint32_t node) const {
    for (const auto& [n, shared] : own_)
      if (n == node) return shared.get();
    return nullptr;
  }

  /// Computes this task's part of a run. `uses`: the number of requests served. A new step that fails is dropped: it
  /// may not match the signature that the client has given.
  void run(served_placement& of, const run_message& message, std::uint64_t uses) {
    struct first_run {
      served_placement& of;
      task_session& in;
      std::uint64_t signature;
      bool is_registered = false, is_prepared = false;
      ~first_run() {
        if (is_registered) of.steps.erase(signature);
        if (is_prepared) in.steps_.erase(signature);
      }
    } first{of, *this, message.signature};
    if (message.registers) first.is_registered = of.add_step(message.signature, message.registration.request);
    const auto known = of.steps.find(message.signature);
    if (known != of.steps.end()) known->second.last_used = uses;
    auto step = steps_.find(message.signature);
    support_->expected = message.signature;
    if (step == steps_.end()) {
      if (known == of.steps.end()) throw step_is_forgotten();
      if (steps_.size() >= max_prepared) steps_.clear();
      step = steps_.emplace(message.signature, prepared_step(*variables_, known->second.request)).first;
      first.is_prepared = true;
    }
    run(step->second, message);
    first.is_registered = first.is_prepared = false;
  }

 private:
  static constexpr std::size_t max_prepared = 256;

  void share_variables(variable_table& table, const served_placement& of, std::uint32_t self, bool are_lost) {
    const graph& g = of.nodes.self();
    const std::string& container = of.config.container;
    for (std::uint32_t n = 0; n < g.size(); ++n) {
      if (!is_operation<variable_op>(g[n].def.op)) continue;
      plan::variable_state& state = variables_->state_of(n);
      if (state.where.task != self) continue;
      const value_info info = variables_->variable_info(n);
      auto shared = table.find(container, g[n].name, info, state.where);
      if (!shared) {
        if (are_lost) state.initialized = false;
        shared = table.add(container, g[n].name, {info, state, are_lost, state.where.gpu ? variables_ : nullptr});
      }
      own_.emplace_back(n, std::move(shared));
    }
  }

  void run(prepared_step& step, const run_message& message) {
    if (step.request().feeds.size() != message.extents.size()) message_reader::malformed();
    variables_->set_random_stream(message.position / plan::random_state::steps);
    variables_->set_step_number(message.position % plan::random_state::steps);
    std::vector<plan::fed_value> fed;
    for (const shape& e : message.extents) fed.push_back({nullptr, e});
    fed.push_back({});
    const bool is_any_lost = take_marks();
    try {
      step.run(fed.data(), [](std::size_t, const shape&) -> void* { return nullptr; });
    } catch (const error& e) {
      keep_marks();
      if (!is_any_lost || e.code() != error_code::failed_precondition) throw;
      throw error(e.code(), e.operation(),
                  {e.sentence(), "; this task was started again and has lost its variables: restore a checkpoint"});
    }
    keep_marks();
  }
  /// Copies from the task's variables which of them have values, because each session has its own states. Returns true
  /// if a value was lost.
  bool take_marks() {
    bool is_any_lost = false;
    for (const auto& [n, shared] : own_) {
      variables_->state_of(n).initialized = shared->state.initialized;
      is_any_lost = is_any_lost || shared->is_lost;
    }
    return is_any_lost;
  }
  void keep_marks() {
    for (const auto& [n, shared] : own_)
      if (variables_->state_of(n).initialized) shared->state.initialized = true, shared->is_lost = false;
  }

  step_links links_;
  std::shared_ptr<session> variables_;
  placed_support* support_ = nullptr;                                                     // owned by the session
  std::vector<std::pair<std::uint32_t, std::shared_ptr<variable_table::variable>>> own_;  // of this task, by node
  std::uint64_t placement_, resets_;                                                      // when the session was made
  std::map<std::uint64_t, prepared_step> steps_;                                          // by signature
};

}  // namespace weft::detail
