// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/membership/departure.hpp>
#include <weft/distributed/membership/task_server.hpp>
#include <weft/distributed/parameter/parameter_client.hpp>
#include <weft/distributed/training/exchange.hpp>
#include <weft/distributed/training/gradient_buffers.hpp>
#include <weft/distributed/training/replica_parts.hpp>
#include <weft/distributed/training/served_variables.hpp>
#include <weft/distributed/training/shared_variables.hpp>
#include <weft/distributed/training/strategy.hpp>
#include <weft/tensor/owned.hpp>
#include <weft/transport/separate.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

namespace weft::detail {

/// The exchange of a replicated session with parameter servers: sends gradients, with sparse ones as rows, and receives
/// values. The servers evaluate schedules themselves, by the number of updates that they have applied. They also store
/// averaged variables; the change that a step makes to one is sent as its gradient.
template <consistency Mode>
class server_exchange final : public exchange {
 public:
  /// Rejects graphs that servers cannot train, waits for the other tasks (only for the servers if training survives
  /// losses), and adopts the initial values.
  server_exchange(task_server& here, shared_variables& variables, const training_terms& terms,
                  const rollback_handler& on_rollback, const graph_identity& identity, deadline until)
      : here_(here),
        variables_(variables),
        local_(variables.local()),
        terms_(terms),
        on_rollback_(on_rollback),
        gradients_(with_loss_scale(variables)) {
    terms_.skips_nonfinite = Mode == synchronous && variables_.scales_losses();
    check_terms(terms_, here.cluster().num_tasks(here.options().worker_job));
    describe_variables();
    find_values();
    here.with_reason([&] {  // the client waits if a server is being replaced
      here.members().wait_for(
          until, [&](const task_id& task) { return is_needed(task); },
          [&](const task_id&) { return terms_.on_loss.wait.count() > 0; });
    });
    place_served(specs_, here.cluster().num_tasks(here.options().ps_job));
    servers_.emplace(here, specs_, terms_, identity, until);
    next_step_ = servers_->first_step();
    local_.set_step_number(next_step_);
    move_to_shared_memory();
    gradients_.make_blocks([](std::size_t) { return mutable_bytes(); });
    for (bool has_values = false; !has_values;) {
      servers_->initialise(const_values_, until);
      try {
        refresh(until);
        has_values = true;
      } catch (const error& problem) {
        if (problem.code() != error_code::failed_precondition || !servers_->was_restarted()) throw;
      }
    }
    begin_at_next_step();
  }

  void request_stop() override {
    departure_.request();
    servers_->set_stopping();
  }
  bool all_stop() const override { return all_stop_; }
  bool leaves_alone() const override { return leaves_alone_; }
  bool announce_stop(deadline until) override { return Mode == asynchronous && servers_->stopped(until); }

  bool is_chief() const override { return here_.is_chief(); }

  std::int64_t next_step() const override { return next_step_; }
  std::int64_t stale_gradients() const override { return stale_gradients_; }
  const std::vector<std::int64_t>& staleness() const override { return staleness_; }
  std::int64_t lost_updates() const override { return servers_->lost_updates(); }
  int lost_replicas() const override { return static_cast<int>(servers_->left_out()); }

  gradient_buffers& gradients() override { return gradients_; }

  bool takes_over() const override { return terms_.takes_over(); }
  void prepare_step() override {
    if (variables_.scales_losses()) scale_ = variables_.scale_now();
  }
  std::optional<value> use_of_gradients() const override {
    if (Mode == asynchronous && variables_.scales_losses()) return variables_.scales_losses()->finite;
    return {};
  }
  void set_effects(const sequence<std::uint32_t>& effects) override {
    for (const std::uint32_t known : variables_.effects())
      if (variables_.of()[known].def.op->update && std::find(effects.begin(), effects.end(), known) == effects.end())
        throw error(error_code::unimplemented, variables_.of()[variables_.of()[known].def.inputs[0].node].name,
                    "parameter servers update this average with each update; fetch the effect that "
                    "exponential_moving_average::apply() returns in each step that trains, or use collective");
  }

  /// Gradients are sent after the step.
  fetch_watcher* begin_step(std::uint32_t, std::size_t) override { return nullptr; }
  void abandon_step() override {}

  void take_gradients() override {
    gradients_.for_each_by_rows([&](std::size_t i, std::size_t part, std::size_t end) { pack_rows(i, part, end); });
    for (std::size_t i = 0; i < variables_.trained(); ++i)
      if (variables_[i].is_scaled) divide_by_scale(i);
    variables_.note_additions(gradients_.all());
  }

  /// Sends the gradients and receives the new values.
  void update(deadline until, std::uint32_t examples, bool repeated, const replica_work* work) override {
    if (!owes_others_) {
      const_gradients_.assign(gradients_.all().begin(), gradients_.all().end());
      variables_.global_step = servers_->push_pull(next_step_, const_gradients_, values_, until, examples);
      owes_others_ = servers_->owes_others();
      repeated &= !owes_others_;
    }
    if (owes_others_) update_for_all(until, examples, repeated, work);
    write_values();
    all_stop_ = servers_->all_stop();
    if (note_rollback()) return;
    count_update();
    // A previous process of this worker may have sent the first update or, with decisions, any update that the servers
    // hold. If each server restores its own shard, some servers may have more of this worker's updates than others.
    const bool may_be_known = repeated || servers_->was_repeated() || servers_->has_shards() ||
                              terms_.has_decisions() || (is_first_update_ && !servers_->was_duplicate());
    if (!may_be_known && servers_->was_duplicate_somewhere())
      throw error(error_code::internal, "exchange",
                  {"a parameter server had already applied update ", next_step_, " of ", here_.name(),
                   "; these gradients are lost"});
    is_first_update_ = false;
    ++next_step_;
    begin_at_next_step();
    // Under the default policy, all workers stop after the first step with a vote to stop.
    if (terms_.has_decisions() && !all_stop_) all_stop_ = leaves_alone_ = departure_.note_update();
  }
  /// The outcome of the update is unknown, so no other update may have its number. Synchronous workers keep in step.
  void abandon_update() override {
    if (Mode == asynchronous) ++next_step_;
    has_pushed_ = false;
  }

  void refresh(deadline until) override {
    servers_->pull(values_, until);
    take_step(servers_->global_step());
    note_rollback();
  }

  void finish(deadline until, std::optional<std::uint32_t> unfinished, const typename exchange::make_update& update,
              const std::function<void()>& last) override {
    if (unfinished) update(until, *unfinished);
    const std::int64_t end = next_step_;
    // Repeats if servers are restored meanwhile and a committed step contains all updates of this worker.
    do {
      try {
        if (last) servers_->await_others(until);
        refresh(until);
        if (next_step_ < end) break;
        if (last) last();
        return servers_->done(until);
      } catch (const error& problem) {
        if (problem.code() != error_code::aborted) throw;
        refresh(until);
      }
    } while (next_step_ >= end);
    throw error(error_code::aborted, "finish",
                {"a parameter server was restored, and the run went back from step ", end, " to step ", next_step_,
                 "; repeat the steps from next_step() on, then call finish()"});
  }

  // ---- checkpoints ----

  std::int64_t restore(const std::function<std::optional<cluster_state>()>& load, deadline until) override {
    bool takes_random_position = false;
    if (is_chief()) {
      const std::optional<cluster_state> at = load();
      server_state state;
      if (at) {
        state = servers_->room_for_state();
        state.cluster = variables_.adopt_step(*at);
        for (std::size_t i = 0; i < variables_.size(); ++i) {
          if (lies_elsewhere(i)) local_.read_variable(variables_[i].node, values_[i].data());
          if (variables_.has_rule(i)) move_slots(i, state.slots[i], false);
        }
      }
      const bool taken = servers_->restore(const_values_, at ? &state : nullptr, until);
      takes_random_position = taken && at;
    } else {
      servers_->await_restore(until);
    }
    refresh(until);
    next_step_ = terms_.has_decisions() ? servers_->next_step() : servers_->first_step();
    if (!takes_random_position) local_.set_step_number(next_step_);
    return variables_.global_step == 0 ? -1 : variables_.global_step;
  }

  cluster_state collect(deadline until) override {
    server_state state = servers_->pull_state(values_, until);
    for (std::size_t i = 0; i < variables_.size(); ++i)
      if (variables_.has_rule(i)) move_slots(i, state.slots[i], true);
    take_step(state.cluster.global_step);
    note_rollback();
    return state.cluster;
  }

 private:
  /// Sends the gradients of this worker, and of lost workers as requested by parameter server 0. These are separate
  /// requests, so a worker without such requests uses push_pull, which takes one round trip.
  void update_for_all(deadline until, std::uint32_t examples, bool repeated, const replica_work* work) {
    using outcome = typename parameter_client::awaited_step::outcome;
    const auto push = [&](int of, std::uint32_t count) {
      const_gradients_.assign(gradients_.all().begin(), gradients_.all().end());
      return servers_->push(next_step_, of, const_gradients_, until, count);
    };
    if (!repeated) has_pushed_ = has_gradients_of_other_ = has_owed_ = awaits_values_ = false;
    while (!awaits_values_) {
      if (!has_pushed_ || pushed_in_epoch_ != servers_->epoch()) {
        if (has_gradients_of_other_) compute(here_.index(), work);
        if (!push(here_.index(), examples)) break;
        has_pushed_ = true;
        pushed_in_epoch_ = servers_->epoch();
      }
      const auto next = servers_->await_step(next_step_, until);
      if (next.what == outcome::gone_back) break;
      if (next.what == outcome::repeated) has_pushed_ = false;
      has_owed_ |= next.what == outcome::owed;
      if (next.what == outcome::owed && !push(next.replica, compute(next.replica, work))) break;
      awaits_values_ = next.what == outcome::made;
    }
    variables_.global_step = awaits_values_ ? servers_->pull_made(values_, until) : servers_->pull_back(values_, until);
    owes_others_ = has_owed_;
    has_pushed_ = awaits_values_ = false;
  }

  std::uint32_t compute(int of_replica, const replica_work* work) {
    if (work) has_gradients_of_other_ = of_replica != here_.index();
    return compute_replica(variables_, here_.index(), {of_replica, next_step_}, work);
  }

  /// Asynchronous training requires no other worker: the chief's tasks may have been done earlier. If training survives
  /// losses, the servers wait for workers that are missing at the start.
  bool is_needed(const task_id& task) const {
    return (Mode == synchronous && !terms_.has_decisions()) || task.job == here_.options().ps_job;
  }

  /// If training survives losses, another process may compute the same gradients, so the random numbers depend on the
  /// step. The other workers may have made several steps since this worker's last one.
  void begin_at_next_step() {
    if (terms_.has_decisions()) next_step_ = servers_->next_step();
    if (terms_.on_loss != loss_policy{} || terms_.has_decisions()) local_.set_step_number(next_step_);
  }

  /// If servers have been restored, adopts their step and returns true.
  bool note_rollback() {
    const auto change = servers_->take_rollback();
    if (!change) return false;
    next_step_ = servers_->next_step();
    local_.set_step_number(next_step_);
    is_first_update_ = true;
    if (on_rollback_)
      on_rollback_(change->from, next_step_);
    else
      std::fprintf(stderr,
                   "weft: %s went back from step %lld to step %lld, which the parameter servers have restored\n",
                   here_.name().c_str(), static_cast<long long>(change->from), static_cast<long long>(next_step_));
    return true;
  }

  void count_update() {
    if (servers_->was_stale()) {
      ++stale_gradients_;
    } else if (!servers_->was_duplicate()) {
      const std::size_t others = servers_->staleness();
      if (staleness_.size() <= others) staleness_.resize(others + 1);
      ++staleness_[others];
    }
  }

  /// Collects the servers' descriptions of the variables and the fetches of a step.
  void describe_variables() {
    const bool has_others = here_.cluster().num_tasks(here_.options().worker_job) > 1;
    if (Mode == synchronous && (has_others || variables_.scales_losses())) variables_.clip_means();
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      specs_.push_back(spec_of_served(here_, variables_, i));
      if (i >= variables_.first_frozen()) continue;
      const shared_variable& v = variables_[i];
      if (!v.has_rows()) gradients_.take_room(i);
      if (i >= variables_.trained()) continue;
      if (!v.has_rows()) gradients_.fetch_whole(i);
      for (std::size_t k = 0; k < v.lists.size(); ++k) gradients_.fetch_list(i, k);
    }
    row_gradients_.resize(variables_.trained());
  }

  static shared_variables& with_loss_scale(shared_variables& variables) {
    variables.find_loss_scale(Mode == synchronous);
    return variables;
  }

  // ---- values ----

  void find_values() {
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      std::byte* place;
      if (lies_elsewhere(i)) {
        place = on_host_.emplace_back(variables_[i].bytes()).data();
        local_.read_variable(variables_[i].node, place);
      } else {
        place = local_.state_of(variables_[i].node).write_unreported();
      }
      values_.emplace_back(place, variables_[i].bytes());
      const_values_.emplace_back(values_.back());
    }
  }

  /// Returns true if steps do not read the variable from the buffer of received values: it is on a GPU, or averaged.
  bool lies_elsewhere(std::size_t i) {
    return variables_.is_averaged(i) || local_.state_of(variables_[i].node).where.gpu;
  }

  /// Copies received values to the variables that have separate memory.
  void write_values() {
    for (std::size_t i = 0; !on_host_.empty() && i < variables_.size(); ++i) {
      if (!lies_elsewhere(i)) continue;
      std::byte* from = values_[i].data();
      if (variables_.is_averaged(i)) {  // a server may write the buffer at any time, so the step starts from this copy
        from = variables_.base_of(i).data();
        __builtin_memcpy(from, values_[i].data(), values_[i].size());
      }
      local_.write_variable(variables_[i].node, from);
    }
  }

  /// Adopts received values as of this step.
  void take_step(std::int64_t step) {
    write_values();
    variables_.global_step = step;
    variables_.set_counters();
  }

  /// Moves variables and their gradients to shared memory that the parameter server accesses directly.
  void move_to_shared_memory() {
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      const auto place = servers_->place_of(i);
      if (!place.memory) continue;
      plan::variable_state& state = local_.state_of(variables_[i].node);
      __builtin_memcpy(place.value.data(), values_[i].data(), place.value.size());
      if (!lies_elsewhere(i)) {
        state.lie_in(storage::borrow(place.value.data() - storage::overhead, place.value.size()));
        state.write_unreported();
      }
      values_[i] = place.value;
      const_values_[i] = place.value;
      gradients_[i] = place.gradient;
      variables_.keep(place.memory);
    }
  }

  /// Copies the slots of a variable between the session and the server's state.
  void move_slots(std::size_t i, server_state::slots_of_variable& of, bool to_local) {
    if (i == variables_.loss_scale()) return move_good_steps(of, to_local);
    const node_def& def = variables_.of()[variables_[i].update].def;
    const update_layout& layout = update_view(def).layout();
    const auto move = [&](std::uint32_t node, void* at) {
      to_local ? local_.write_variable(node, at) : local_.read_variable(node, at);
    };
    std::byte* array = of.arrays.data();
    double* number = of.numbers.data();
    for (std::size_t k = 0; k < layout.slots; ++k) {
      const std::uint32_t node = def.inputs[update_view::slot_input(k)].node;
      if (!layout.is_scalar(k)) {
        move(node, array);
        array += variables_[i].bytes();
      } else if (variables_[i].is_double()) {
        move(node, number++);
      } else {
        float narrow = static_cast<float>(*number);
        move(node, &narrow);
        *number++ = narrow;
      }
    }
  }

  /// Converts the number of good steps, which the servers store in the scale's type.
  void move_good_steps(server_state::slots_of_variable& of, bool to_local) {
    const std::uint32_t node = variables_.scales_losses()->good_steps.node;
    std::int64_t steps = 0;
    float on_server = 0;
    if (to_local) {
      __builtin_memcpy(&on_server, of.arrays.data(), sizeof on_server);
      steps = static_cast<std::int64_t>(on_server);
      local_.write_variable(node, &steps);
    } else {
      local_.read_variable(node, &steps);
      on_server = static_cast<float>(steps);
      __builtin_memcpy(of.arrays.data(), &on_server, sizeof on_server);
    }
  }
  void divide_by_scale(std::size_t i) {
    const mutable_bytes all = gradients_[i];
    const auto divide = [&]<typename T>(T) {
      const std::size_t numbers =
          variables_[i].has_rows() ? all.size() / (8 + specs_[i].row_bytes()) * 8 : std::size_t{0};
      T* const x = reinterpret_cast<T*>(all.data() + numbers);
      const T factor = static_cast<T>(1 / scale_);
      for (std::size_t k = 0; k < (all.size() - numbers) / sizeof(T); ++k) x[k] *= factor;
    };
    variables_[i].is_double() ? divide(double{}) : divide(float{});
  }

  // ---- rows ----

  /// Packs the rows of a step's gradient in the order of their indices.
  void pack_rows(std::size_t i, std::size_t part, std::size_t end) {
    const auto& parts = gradients_.parts();
    const std::size_t row = specs_[i].row_bytes();
    packed_.clear();
    for (; part < end; part += 2) {
      const auto* const numbers = reinterpret_cast<const std::int64_t*>(parts[part + 1].came.data());
      for (std::size_t k = 0; k < parts[part + 1].count; ++k)
        if (numbers[k] >= 0) packed_.emplace_back(numbers[k], parts[part].came.data() + k * row);
    }
    std::sort(packed_.begin(), packed_.end());
    const std::size_t bytes = packed_.size() * (8 + row);
    aligned_bytes& to = row_gradients_[i];
    if (to.size() < bytes) to = aligned_bytes(bytes + bytes / 4);
    for (std::size_t k = 0; k < packed_.size(); ++k) {
      __builtin_memcpy(to.data() + 8 * k, &packed_[k].first, 8);
      __builtin_memcpy(to.data() + 8 * packed_.size() + row * k, packed_[k].second, row);
    }
    gradients_[i] = {to.data(), bytes};
  }

  task_server& here_;
  shared_variables& variables_;
  session& local_;
  training_terms terms_;
  rollback_handler on_rollback_;
  std::vector<parameter_spec> specs_;
  gradient_buffers gradients_;
  std::vector<mutable_bytes> values_;
  std::vector<const_bytes> const_values_, const_gradients_;
  std::vector<storage> on_host_;              // received values of variables with separate memory
  std::vector<aligned_bytes> row_gradients_;  // rows to send
  std::vector<std::pair<std::int64_t, const std::byte*>> packed_;
  std::optional<parameter_client> servers_;
  std::int64_t next_step_ = 0;
  double scale_ = 1;  // loss scale of the last step
  bool all_stop_ = false, is_first_update_ = true;
  departure departure_;
  bool leaves_alone_ = false;  // all_stop_ is true on this worker only
  // In the current update: has_pushed_: the servers hold this worker's gradients; has_gradients_of_other_: the buffers
  // contain another replica's gradients.
  bool has_pushed_ = false, has_gradients_of_other_ = false;
  bool awaits_values_ = false;  // the step is made, but its values have not arrived
  // owes_others_: this worker computed gradients of other workers in the last update; has_owed_: in the current update.
  bool owes_others_ = false, has_owed_ = false;
  std::uint64_t pushed_in_epoch_ = 0;
  std::int64_t stale_gradients_ = 0;
  std::vector<std::int64_t> staleness_;  // number of updates, by staleness
};

template <consistency Mode>
owned<exchange> make_server_exchange(task_server& here, shared_variables& variables, const training_terms& terms,
                                     const rollback_handler& on_rollback, const graph_identity& identity,
                                     deadline until) {
  return owned<exchange>(new server_exchange<Mode>(here, variables, terms, on_rollback, identity, until));
}

WEFT_DISTRIBUTED_INSTANTIATE(owned<exchange> make_server_exchange<synchronous>(
    task_server&, shared_variables&, const training_terms&, const rollback_handler&, const graph_identity&, deadline));
WEFT_DISTRIBUTED_INSTANTIATE(owned<exchange> make_server_exchange<asynchronous>(
    task_server&, shared_variables&, const training_terms&, const rollback_handler&, const graph_identity&, deadline));

}  // namespace weft::detail

#pragma pop_macro("slots")
