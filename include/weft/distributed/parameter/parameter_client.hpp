// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/distributed/membership/exchange_loop.hpp>
#include <weft/distributed/membership/loss_watch.hpp>
#include <weft/distributed/membership/server.hpp>
#include <weft/distributed/parameter/enroll_message.hpp>
#include <weft/distributed/parameter/lost_updates.hpp>
#include <weft/distributed/parameter/parameter_buffers.hpp>
#include <weft/distributed/parameter/parameter_spec.hpp>
#include <weft/distributed/parameter/server_connection.hpp>
#include <weft/distributed/parameter/server_state.hpp>
#include <weft/error.hpp>
#include <weft/transport/framing.hpp>
#include <weft/transport/shared_memory.hpp>

#pragma push_macro("slots")  // a keyword of Qt
#undef slots

namespace weft {

/// A worker's client of the parameter servers. Values and gradients are passed as one span of bytes per variable, in
/// the order of the list of variables, and are sent and received without a copy. Input and output run on the calling
/// thread. Not thread-safe.
///
/// A parameter server on the same host maps memory that the client creates, reads gradients from it, and writes values
/// to it; the connection then carries only the messages that hand the memory over. If either side refuses
/// (server_options::shared_memory), or if the two do not share a host and a user, everything travels through the
/// connection.
///
/// Asynchronous mode: the servers apply each gradient on arrival. The answer is a consistent snapshot of each server's
/// variables right after this worker's own update; snapshots of two servers need not be of the same moment. Synchronous
/// mode: the servers wait for all workers that are not done, and apply the mean of their gradients, weighted by
/// examples and summed in the order of the workers' indices, so the order of arrival does not change any bit. With
/// backups or a loss policy (training_terms::has_decisions()), a step may be made without some workers: push_pull then
/// drops gradients that arrive late, and was_stale() returns true. Values are always of one step at all servers.
///
/// The gradient of a variable that travels by rows (parameter_spec::row_elements) consists of the ascending indices of
/// some of its rows, a std::int64_t each, followed by these rows. push_pull fetches only the rows of such a variable
/// that have changed since the last answer, if it writes to the same address as then; pull fetches all rows. The caller
/// must not write to this memory between the two calls.
///
/// If the servers write shards (server_options::shards) and the loss policy waits, a lost server may be replaced: calls
/// wait for the process that takes its place. In synchronous mode the run may have gone back then: a call that fetches
/// values returns the values of the step with which the run continues, and take_rollback() returns this step.
///
/// A failed call may be repeated, and should be after deadline_exceeded. A connection whose answer was outstanding is
/// closed and opened again. An update that is repeated with the same step is applied once. Repeat it with the same
/// gradients unless they were refused (invalid_argument): some servers may have applied the first ones already. Values
/// are received at their destination before their checksum or tag is checked: after a failed call the buffers for
/// values are unspecified until a call that fetches values succeeds.
class parameter_client {
 public:
  /// Connects to every task of the ps job and sends it the list of variables, which must be equal for all workers.
  /// Throws weft::error: failed_precondition if another worker's list differs, deadline_exceeded naming the missing
  /// parameter servers, unavailable; invalid_argument for `terms` or a placement; the servers' errors about update
  /// rules and memory.
  parameter_client(task_server& here, std::vector<parameter_spec> variables, training_terms terms, graph_identity graph,
                   deadline until = std::chrono::seconds(60))
      : here_(here),
        variables_(std::move(variables)),
        terms_(terms),
        watch_(terms.on_loss.wait),
        loop_(here, here.waiting()) {
    detail::check_terms(terms, here.cluster().num_tasks(here.options().worker_job));
    const std::string& job = here.options().ps_job;
    const int tasks = here.cluster().num_tasks(job);
    if (tasks == 0)
      throw error(error_code::failed_precondition, "parameter_client",
                  {"the cluster has no job '", job, "' to keep the variables; add it, or set server_options::ps_job"});
    if (variables_.size() > max_parameters)
      throw error(error_code::resource_exhausted, "parameter_client",
                  {"parameter servers hold at most ", max_parameters, " variables, and the model has ",
                   variables_.size(), "; merge small ones"});
    for (const std::string& each : {job, here.options().worker_job}) check_dense(here.cluster(), each);
    for (const parameter_spec& variable : variables_)
      if (variable.ps_task < 0 || variable.ps_task >= tasks)
        throw error(error_code::invalid_argument, "parameter_client",
                    {"variable '", variable.name, "' is placed on /job:", job, "/task:", variable.ps_task,
                     ", but the job has ", tasks, " tasks"});
    servers_.reserve(static_cast<std::size_t>(tasks));
    for (int task = 0; task < tasks; ++task) servers_.emplace_back(variables_, task, here.cluster().rank({job, task}));
    for (connection& each : servers_) all_.push_back(&each);
    acknowledged_.assign(servers_.size(), 0);
    const detail::enroll_message enrolls{terms, graph, variables_};
    enroll_message_ = enrolls.bytes();
    has_separate_means_ = terms.is_synchronous() && tasks > 1 && !detail::exchanges_squares(enrolls, tasks);
    if (terms.is_synchronous() && watch_.keeps_places()) loop_.report_waits(here.options().worker_job, watch_.wait());
    with_reasons([&] { connect_first(until); });
  }

  parameter_client(const parameter_client&) = delete;
  parameter_client& operator=(const parameter_client&) = delete;

  /// On the chief (worker 0), uploads the first values; on the other workers, waits for them. Values that exist already
  /// stay as they are, for example if the chief was restarted. Call pull() next.
  void initialise(std::span<const const_bytes> values, deadline until = std::chrono::seconds(60)) {
    if (!here_.is_chief()) return initialise(until);
    check("initialise", values);
    ask("initialise", frame_kind::initialise, 0, until, [&](connection& to) { to.share_values(values); });
    begin_epoch();
  }

  /// Waits until the chief has uploaded the first values.
  void initialise(deadline until = std::chrono::seconds(60)) {
    ask("initialise", frame_kind::await_values, 0, until);
    begin_epoch();
  }

  /// Memory that a variable's parameter server has mapped. Gradients and values in this memory are not copied. All
  /// members are empty without shared memory.
  struct shared_place {
    mutable_bytes gradient, value;  // the `storage::overhead` bytes in front of each are free
    shared_segment memory;          // keeps the memory, even after the client is destroyed
  };
  shared_place place_of(std::size_t variable) const {
    for (const connection& each : servers_)
      for (std::size_t k = 0; each.segment() && k < each.order().size(); ++k)
        if (each.order()[k] == variable) return {each.gradient_place(k), each.value_place(k), each.segment()};
    return {};
  }

  /// Fetches all values. If it throws, `out` is unspecified.
  void pull(std::span<const mutable_bytes> out, deadline until = std::chrono::seconds(60)) {
    check("pull", out);
    pull_step(has_position_ ? position_ : first_step(), out, until);
  }

  /// Returns true if a server was restarted since the last initialise() or restore(). A server that is restarted before
  /// any commit begins another run, which a worker without updates may join by initialise().
  bool was_restarted() const {
    for (std::size_t k = 0; k < begun_with_.size(); ++k)
      if (servers_[k].incarnation() != begun_with_[k]) return true;
    return false;
  }

  // ---- checkpoints ----

  /// Fetches the values and the other state of the servers for a checkpoint. In synchronous mode the state is of one
  /// step: throws failed_precondition if it is not, and deadline_exceeded if other workers continue meanwhile. In
  /// asynchronous mode the state of each server is of one moment, which may differ between servers.
  detail::server_state pull_state(std::span<const mutable_bytes> out, deadline until = std::chrono::seconds(60)) {
    check("save", out);
    detail::server_state state = room_for_state();
    std::vector<std::vector<std::byte>> rest(servers_.size());
    ask_in_step("save", frame_kind::state, has_position_ ? position_ : first_step(), until, [&](connection& to) {
      for (const std::size_t i : to.order()) to.add_destination(out[i]);
      for (const std::size_t i : to.order()) to.add_destination(state.slots[i].arrays);
      rest[number_of(to)].assign(detail::scalar_state_bytes(state, to.order(), workers()), std::byte{});
      to.add_destination(rest[number_of(to)]);
    });
    for (std::size_t k = 0; k < servers_.size(); ++k) {
      const cluster_state its = detail::read_scalar_state(rest[k], state, servers_[k].order(), workers());
      if (k == 0)
        state.cluster = its;
      else
        merge(state.cluster, its, servers_[k]);
    }
    for (connection& each : servers_) each.forget_values();
    return state;
  }

  /// On the chief, sends the servers a checkpoint, or with nullptr reports that there is none, before training begins.
  /// Returns false, and changes nothing, if the servers continue earlier training. Call pull() next. Throws
  /// weft::error: failed_precondition if workers train already, or if only some of the servers were restarted.
  bool restore(std::span<const const_bytes> values, const detail::server_state* state,
               deadline until = std::chrono::seconds(60)) {
    check("restore", values);
    std::string going_on, fresh;
    for (const connection& each : servers_) {
      std::string& among = each.is_settled() ? going_on : fresh;
      append(among, {among.empty() ? "" : ", ", name(each)});
    }
    if (!going_on.empty() && !fresh.empty())
      throw error(error_code::failed_precondition, "restore",
                  {fresh, " was started again and lost its training state, but ", going_on,
                   " still has it; start all parameter servers again to continue the run from its checkpoint"});
    std::vector<std::vector<std::byte>> rest(servers_.size());
    ask("restore", frame_kind::restore, 0, until, [&](connection& to) {
      if (!state) return;
      to.add_values(values);
      for (const std::size_t i : to.order())
        to.add_payload({state->slots[i].arrays.data(), state->slots[i].arrays.size()});
      rest[number_of(to)] = detail::scalar_state(*state, to.order(), workers());
      to.add_payload(rest[number_of(to)]);
    });
    begin_epoch();
    for (connection& each : servers_) each.set_settled(true);
    return !was_duplicate();
  }

  /// On the other workers, waits for the restore() of the chief. Call pull() next.
  void await_restore(deadline until = std::chrono::seconds(60)) {
    ask("restore", frame_kind::await_restore, 0, until);
    begin_epoch();
  }

  /// Reports that this worker sends no more updates, as done() does, and waits until all other workers have reported
  /// the same or are gone. The servers keep serving this worker until done().
  void await_others(deadline until = std::chrono::seconds(60)) {
    if (!ask("finish", frame_kind::await_others, 0, until)) throw gone_back("finish");
  }

  /// A rollback of the run since the last take_rollback().
  struct step_change {
    std::int64_t from, to;  // this worker's next step before and after
  };
  std::optional<step_change> take_rollback() { return std::exchange(rollback_, std::nullopt); }
  /// Returns true if the servers write shards.
  bool has_shards() const { return keeps_shards_; }
  /// Returns true if the last request was sent again because a server was lost while serving it.
  bool was_repeated() const { return was_repeated_; }
  /// Number of updates of this worker that asynchronous servers acknowledged and then lost.
  std::int64_t lost_updates() const { return lost_updates_.count(); }

  /// Number of updates that parameter server 0 has applied in total, as of its last answer.
  std::int64_t global_step() const { return servers_.front().answer().step; }

  /// Allocates a server_state for these variables.
  detail::server_state room_for_state() const {
    detail::server_state state;
    for (const parameter_spec& each : variables_) {
      const update_layout& layout = *update_rules::find(each.rule).layout;
      auto& slots = state.slots.emplace_back();
      slots.arrays = detail::aligned_bytes(each.bytes() * layout.arrays());
      slots.numbers.resize(layout.slots - layout.arrays());
    }
    return state;
  }

  /// The step of this client's first update. No update of an earlier client of this task has this step, and in
  /// synchronous mode it is equal for all workers.
  std::int64_t first_step() const {
    const auto [least, most] =
        std::minmax_element(servers_.begin(), servers_.end(),
                            [](const connection& a, const connection& b) { return a.next_step() < b.next_step(); });
    // An update of an asynchronous worker may have reached only some of the servers: the others still need it.
    return terms_.is_synchronous() ? most->next_step() : least->next_step();
  }

  /// The step of the next update, as of the last answers.
  std::int64_t next_step() const {
    std::int64_t next = 0;
    for (const connection& each : servers_) next = std::max(next, static_cast<std::int64_t>(each.answer().tag));
    return next;
  }

  /// Sends this worker's gradients and receives the new values, in one round trip to all parameter servers at once.
  /// `step` identifies the update: it begins with first_step(), grows with every update of this worker, and in
  /// synchronous mode is equal on all workers. `examples` is the number of examples of which the gradients are the
  /// mean; in synchronous mode it is their weight. If it is 0, the gradients are ignored, and no update is made unless
  /// other workers send gradients. Returns the number of updates that parameter server 0 has applied in total. Throws
  /// weft::error: unavailable naming the lost task, deadline_exceeded naming the tasks that did not answer,
  /// invalid_argument for gradients that are not finite or, with several servers, so large that a mean could overflow,
  /// aborted if the other workers are at another step.
  std::int64_t push_pull(std::int64_t step, std::span<const const_bytes> gradients, std::span<const mutable_bytes> out,
                         deadline until = std::chrono::seconds(60), std::uint32_t examples = 1) {
    detail::check_gradients(variables_, gradients);
    check("push_pull", out);
    weight_ = examples;
    owed_replica_ = -1;
    if (examples > 0 && refuses_nonfinite() && servers_.size() > 1)  // one server could refuse what others apply
      detail::check_finite(variables_, gradients, here_.name(), step, margin_of_means());
    // The last call reported a rollback, but did not fetch the values.
    if (!rollback_) position_ = step;
    const bool is_served = !rollback_ && ask("push_pull", frame_kind::push_pull, step, until, [&](connection& to) {
      to.add_gradients(gradients);
      to.receive_values(out, true);
    });
    if (owed_replica_ >= 0) return global_step();
    if (!is_served) return pull_back(out, until);
    take_values(out);
    note_position();
    notes_ = detail::update_notes::read(servers_.front().answer().weight);
    const std::int64_t updates = servers_.front().answer().step;
    if (are_in_step()) return updates;
    const std::uint32_t all = flags_of_all_, any = flags_of_any_;
    pull_step(next_step(), out, until);
    flags_of_all_ = all;
    flags_of_any_ = any;
    return servers_.front().answer().step;
  }

  // ---- workers that compute for others (loss_action::take_over) ----

  /// Returns true if the last push_pull was not served because this worker must first compute the gradients of a lost
  /// worker for the step. Call push() with this worker's own gradients and await_step() next.
  bool owes_others() const { return owed_replica_ >= 0; }

  /// Sends the gradients of a replica, this worker's own or a lost worker's, as push_pull does; the servers keep them
  /// for the step. Call await_step() next. Returns false if the run has gone back; then call pull_back().
  bool push(std::int64_t step, int replica, std::span<const const_bytes> gradients,
            deadline until = std::chrono::seconds(60), std::uint32_t examples = 1) {
    detail::check_gradients(variables_, gradients);
    weight_ = examples;
    replica_ = replica;
    if (examples > 0 && refuses_nonfinite())
      detail::check_finite(variables_, gradients, here_.name(), step, margin_of_means());
    // The last call reported a rollback, but did not fetch the values.
    if (rollback_) return false;
    position_ = step;
    return ask("push_pull", frame_kind::push, step, until, [&](connection& to) { to.add_gradients(gradients); });
  }

  /// The next action of a worker that has pushed its gradients.
  struct awaited_step {
    enum class outcome : unsigned char {
      made,       ///< the step is made: call pull_made()
      owed,       ///< compute the gradients of `replica`, push them, and await the step again
      repeated,   ///< servers were restored to the state before this step: push all gradients again
      gone_back,  ///< the run has gone back to another step: call pull_back()
    };
    outcome what;
    int replica = 0;
  };
  awaited_step await_step(std::int64_t step, deadline until = std::chrono::seconds(60)) {
    using outcome = typename awaited_step::outcome;
    connection& first = servers_.front();
    awaited_step next{outcome::made};
    with_reasons([&] {
      converse_with("push_pull", frame_kind::await_step, step, until, {&first}, [](connection&) {});
      if (first.is_refused()) throw first.failure("push_pull", name(first));
      if (first.is_rolled_back())
        next.what = enter_epoch() ? outcome::repeated : outcome::gone_back;
      else if (const std::uint32_t owed = first.answer().weight; owed != 0)
        next = {outcome::owed, static_cast<int>(owed - 1)};
    });
    if (next.what != outcome::made) return next;
    flags_of_any_ = first.answer().flags;
    position_ = static_cast<std::int64_t>(first.answer().tag);
    return next;
  }
  /// Receives the values after the awaited step. Returns the same number as push_pull.
  std::int64_t pull_made(std::span<const mutable_bytes> out, deadline until = std::chrono::seconds(60)) {
    check("push_pull", out);
    const std::uint32_t flags = flags_of_any_;
    ask_in_step("push_pull", frame_kind::pull, position_, until, [&](connection& to) { to.receive_values(out, true); });
    take_values(out);
    notes_ = detail::update_notes::read(servers_.front().answer().weight);
    flags_of_any_ = flags_of_all_ = flags;
    return servers_.front().answer().step;
  }
  /// Receives the values of the step to which the run has gone back.
  std::int64_t pull_back(std::span<const mutable_bytes> out, deadline until = std::chrono::seconds(60)) {
    pull_step(position_, out, until);
    flags_of_all_ = flags_of_any_ = 0;
    return servers_.front().answer().step;
  }
  /// The epoch of the run, as this worker knows it. The servers do not keep gradients that were pushed in another
  /// epoch.
  std::uint64_t epoch() const { return epoch_; }

  /// Returns true if every parameter server had already applied the last push_pull.
  bool was_duplicate() const { return (flags_of_all_ & duplicate) != 0; }

  /// In synchronous mode: the next push_pull announces that this worker stops after its step.
  void set_stopping() { stopping_ = true; }
  /// Returns true if training ends with the step of the last push_pull, because workers announced that they stop.
  bool all_stop() const { return (flags_of_any_ & stopping) != 0; }

  /// Returns true if any parameter server had already applied the last push_pull.
  bool was_duplicate_somewhere() const { return (flags_of_any_ & duplicate) != 0; }

  /// Returns true if the gradients of the last push_pull arrived late: the step was made without them, and they were
  /// dropped.
  bool was_stale() const { return (flags_of_any_ & stale) != 0; }
  /// Number of updates by other workers between the values of this worker and its last push_pull, at parameter server
  /// 0.
  std::uint32_t staleness() const { return notes_.staleness; }
  /// Number of lost workers without which training continues, as of the last push_pull.
  std::uint32_t left_out() const { return notes_.left_out; }

  /// Reports to the parameter servers that this worker sends no more updates: synchronous steps no longer wait for it,
  /// and the servers end when all workers are done.
  void done(deadline until = std::chrono::seconds(10)) {
    is_done_recorded_ = false;
    try {
      if (!ask("done", frame_kind::done, 0, until)) throw gone_back("finish");
    } catch (const error& problem) {
      // Training may have ended without the lost server.
      if (!is_done_recorded_ || problem.code() != error_code::unavailable) throw;
    }
    here_.clear_failure();
  }
  /// Reports to the parameter servers that a signal stopped this worker, which counts as gone from then on. Returns
  /// true if this ends the training of the other workers.
  bool stopped(deadline until = std::chrono::seconds(10)) {
    ask("done", frame_kind::done, 0, until, [](connection& to) { to.set_flags(stopping); });
    return all_stop();
  }

 private:
  using connection = detail::server_connection;
  static constexpr std::chrono::milliseconds late_answer{300};

  template <typename Bytes>
  void check(const char* operation, std::span<const Bytes> given) const {
    detail::check_buffers(operation, std::span<const parameter_spec>(variables_), given);
  }

  std::size_t number_of(const connection& of) const { return static_cast<std::size_t>(&of - servers_.data()); }
  std::size_t workers() const {
    return static_cast<std::size_t>(here_.cluster().num_tasks(here_.options().worker_job));
  }
  std::string name(const connection& each) const { return to_string(here_.members().task(each.rank())); }

  bool refuses_nonfinite() const { return only_finite_ && !terms_.skips_nonfinite; }
  /// A gradient must be smaller than the largest number divided by this, so that no mean over the workers overflows. 0:
  /// the servers check the mean together, or there is no mean.
  double margin_of_means() const { return has_separate_means_ ? 2.0 * weight_ * static_cast<double>(workers()) : 0; }
  void note_next_steps() {
    for (connection& each : servers_) each.note_next_step();
  }

  // ---- replaced servers ----

  bool awaits_servers() const { return keeps_shards_ && watch_.keeps_places(); }

  /// Takes the epoch of the run from the answers of the servers, which have values now.
  void begin_epoch() {
    epoch_ = servers_.front().answered_epoch();  // server 0 determines the run
    for (connection& each : servers_)
      if (const std::uint64_t at = each.answered_epoch()) {
        each.set_epoch(at);
        if (at >> 32 == epoch_ >> 32) epoch_ = std::max(epoch_, at);
      }
    begun_with_.clear();
    for (const connection& each : servers_) begun_with_.push_back(each.incarnation());
    note_next_steps();
    note_position();
    has_position_ = true;
    if (!terms_.is_synchronous() || epoch_ == 0) return;
    // A server may have answered in an earlier epoch: its step does not count.
    for (const connection& each : servers_)
      if (each.answered_epoch() == epoch_) position_ = each.next_step();
    for (connection& each : servers_) each.set_next_step(position_);
  }
  /// Notes the next step after its values have arrived.
  void note_position() {
    for (std::size_t k = 0; k < servers_.size(); ++k)
      acknowledged_[k] = static_cast<std::int64_t>(servers_[k].answer().tag);
    position_ = terms_.is_synchronous() ? next_step() : position_;
  }

  /// Changes to the newer epoch of a server. Returns true if the request may be repeated because the next step of this
  /// worker is the same.
  bool enter_epoch() {
    std::int64_t next = position_;
    for (const connection& each : servers_)
      if (each.is_rolled_back() && each.answered_epoch() > epoch_) {
        epoch_ = each.answered_epoch();
        next = static_cast<std::int64_t>(each.answer().tag);
      }
    for (connection& each : servers_) each.forget_values();
    if (next == position_) return true;
    if (next < position_) rollback_ = {rollback_ ? std::max(rollback_->from, position_) : position_, next};
    position_ = next;
    return false;
  }

  /// The options that training needs to survive the loss of a parameter server. A worker knows only from the answers of
  /// the servers whether they write shards.
  const char* how_to_survive() const {
    if (watch_.keeps_places())
      return "; another process could take its place if all parameter servers wrote shards (their "
             "server_options::shards)";
    return keeps_shards_
               ? "; with a loss policy that waits (on_loss = wait_for{30s}), another process could take its place"
               : "; with a loss policy that waits (on_loss = wait_for{30s}) and parameter servers that write "
                 "shards (their server_options::shards), another process could take its place";
  }
  error gone_back(const char* operation) const {
    return error(error_code::aborted, operation,
                 {"a parameter server was restored, and the run went back to step ", position_,
                  "; repeat the steps from next_step() on, then call finish()"});
  }

  /// Waits after the failure of a connection until all servers are alive. Throws `problem` if no process can take the
  /// place of a lost server, or none has within the wait. `is_first`: this is the first failure of the request.
  void await_servers(const char* operation, const error& problem, bool is_first, deadline until) {
    if (is_first) watch_.begin(detail::now());
    if (is_done_recorded_) throw problem;
    const bool may_wait = awaits_servers() || (!has_position_ && watch_.keeps_places());
    const membership& members = here_.members();
    if (problem.code() != error_code::unavailable) throw problem;
    for (const connection& each : servers_) {
      if (members.state(each.rank()) != task_state::lost) continue;
      const membership::verdict said = members.verdict_of(each.rank());  // the server's verdict on this worker
      if (!may_wait)
        throw error(
            error_code::unavailable, operation,
            {problem.sentence(), said != membership::verdict::none ? "; start this worker again" : how_to_survive()});
      // The server never answers this worker again, and the process that replaces the worker needs its address.
      if (said == membership::verdict::given_up && !here_.stopping())
        throw error(error_code::unavailable, operation,
                    {problem.sentence(), "; start this worker again, because the others wait for its replacement"});
    }
    if (!may_wait || here_.stopping()) throw problem;
    for (;; detail::sleep(std::chrono::milliseconds(20))) {
      detail::awaited_tasks missing;
      bool is_over = false;
      const auto now = detail::now();
      for (connection& each : servers_) {
        const task_state state = members.state(each.rank());
        watch_.note(number_of(each), state != task_state::alive, now);
        if (state == task_state::alive) continue;
        if (state == task_state::left && members.has_failed(each.rank())) throw problem;  // its goodbye gave the reason
        missing.add_lost(members.task(each.rank()), members.reason(each.rank()));
        is_over = is_over || watch_.is_over(number_of(each), now);
      }
      here_.members().waits().begin(missing, watch_.wait(), has_position_);
      if (here_.stopping()) throw error(error_code::cancelled, operation, "this server was stopped");
      if (is_over) throw watch_.not_replaced(problem, operation);
      if (missing.empty() && watch_.is_over(now)) throw problem;
      if (until.expired())
        throw error(error_code::deadline_exceeded, operation,
                    detail::not_replaced_yet(missing.empty() ? "a parameter server" : missing.text));
      if (missing.empty()) break;
    }
    detail::sleep(std::chrono::milliseconds(20));
  }

  /// Merges one server's progress in the training into the progress of the servers before it.
  void merge(cluster_state& all, const cluster_state& its, const connection& from) const {
    if (terms_.is_synchronous() && its.global_step != all.global_step)
      throw error(error_code::failed_precondition, "save",
                  {name(from), " is at step ", its.global_step, ", but ", name(servers_.front()), " is at step ",
                   all.global_step, "; complete the step with exchange() before you save"});
    detail::merge_cluster_state(all, its);
  }

  /// Returns true if all servers answered at the same step, or need not.
  bool are_in_step() const {
    return !terms_.has_decisions() || std::all_of(servers_.begin(), servers_.end(), [&](const connection& each) {
      return each.answer().tag == servers_.front().answer().tag;
    });
  }

  /// Repeats the request until all servers answer at the same step. Servers that are behind answer once they have made
  /// the step; others may have continued.
  template <typename Prepare>
  void ask_in_step(const char* operation, frame_kind kind, std::int64_t step, deadline until, Prepare prepare) {
    for (;; step = position_) {
      if (!ask(operation, kind, terms_.has_decisions() ? step : 0, until, prepare)) continue;
      if (terms_.is_synchronous()) note_position();
      if (are_in_step()) return;
      if (until.expired())
        throw error(error_code::deadline_exceeded, operation,
                    "the parameter servers did not reach the same step in time; allow more time");
    }
  }

  void pull_step(std::int64_t step, std::span<const mutable_bytes> out, deadline until) {
    ask_in_step("pull", frame_kind::pull, step, until, [&](connection& to) { to.receive_values(out); });
    take_values(out);
  }

  void take_values(std::span<const mutable_bytes> into) {
    for (connection& each : servers_) {
      try {
        each.take_values(into);
      } catch (const error& problem) {
        throw error(problem.code(), "push_pull", {name(each), ": ", problem.sentence()});
      }
    }
  }

  // ---- connections ----

  /// Connects for the first time. A server that is lost meanwhile may be replaced.
  void connect_first(deadline until) {
    for (bool is_first = true;; is_first = false) try {
        return connect(until);
      } catch (const error& problem) {
        const error why = problem;
        if (!watch_.keeps_places()) throw;
        await_servers("connect", why, is_first, until);
      }
  }

  /// Opens closed connections and enrolls this task on them. If one of them fails, closes all that it has opened.
  void connect(deadline until) {
    std::vector<connection*> fresh;
    try {
      for (connection& each : servers_) {
        // A request to other servers only does not notice that this one was lost.
        if (each.is_open() && here_.members().state(each.rank(), each.incarnation()) == task_state::lost) each.close();
        if (each.is_open()) continue;
        auto opened = here_.open_channel(each.rank(), detail::parameter_channel, until);
        if (each.incarnation() != 0 && opened.incarnation != each.incarnation() && has_position_ && !awaits_servers())
          throw error(error_code::unavailable, str_cat({"connect to ", name(each)}),
                      {name(each), " was started again and lost its variables", how_to_survive()});
        each.attach(std::move(opened.stream), opened.incarnation);
        fresh.push_back(&each);
      }
      if (!fresh.empty()) enroll(fresh, until);
    } catch (...) {
      for (connection* each : fresh) each->close();
      throw;
    }
  }

  void enroll(const std::vector<connection*>& fresh, deadline until) {
    converse("enroll", frame_kind::enroll, 0, until, fresh, [&](connection& to) { to.add_payload(enroll_message_); });
    for (connection* each : fresh) {
      each->note_next_step();
      each->set_settled(!each->is_refused() && each->has_flag(duplicate));
      only_finite_ = only_finite_ || each->has_flag(only_finite);
      if (each->is_refused()) throw each->failure("enroll", name(*each));
      note_epoch(*each);
    }
    offer_memory(fresh, until);
  }

  /// Notes the epoch of a server that has answered on a new connection. Throws weft::error (failed_precondition) if an
  /// asynchronous server is in another run.
  void note_epoch(connection& of) {
    const std::uint64_t at = of.answered_epoch();
    keeps_shards_ = keeps_shards_ || of.has_flag(keeps_shards);
    if (terms_.is_synchronous() || of.epoch() == 0) {
      if (of.epoch() == 0) of.set_epoch(at);
      if (!has_position_) epoch_ = std::max(epoch_, at);
      return;
    }
    if (of.epoch() >> 32 != at >> 32)
      throw error(error_code::failed_precondition, "enroll",
                  {name(of), " was started again without a shard of this run; start all tasks again"});
    of.set_epoch(at);
    lost_updates_.add(of.next_step(), acknowledged_[number_of(of)]);
  }

  /// Offers shared memory to each of these parameter servers that runs on this host. Servers that refuse receive
  /// everything through the connection.
  void offer_memory(const std::vector<connection*>& to_whom, deadline until) {
    std::vector<std::vector<std::byte>> offers(servers_.size());
    bool any = false;
    for (connection* each : to_whom) {
      const shared_offer offer = each->offer_memory(here_.may_share_memory(each->rank()));
      offers[number_of(*each)] = detail::offer_bytes(offer);
      any |= static_cast<bool>(each->segment());
    }
    if (!any) return;
    converse("share", frame_kind::share, 0, until, to_whom,
             [&](connection& to) { to.add_payload(offers[number_of(to)]); });
    for (connection* each : to_whom) each->settle_memory();
  }

  // ---- requests ----

  /// Calls `action`. If it throws, this task's goodbye gives the reason.
  template <typename Action>
  void with_reasons(Action action) {
    try {
      action();
    } catch (const error& problem) {
      failed_ = true;
      here_.set_failure(problem);
      throw;
    }
    if (!failed_) return;
    failed_ = false;
    here_.clear_failure();
  }

  bool ask(const char* operation, frame_kind kind, std::int64_t step, deadline until) {
    return ask(operation, kind, step, until, [](connection&) {});
  }

  /// Sends a request to every server and receives the answers. `prepare(connection&)` adds payload and destination.
  /// Returns false if the request was not served because the run has changed to another step, position_.
  template <typename Prepare>
  bool ask(const char* operation, frame_kind kind, std::int64_t step, deadline until, Prepare prepare) {
    bool is_served = true;
    owed_replica_ = -1;
    with_reasons([&] {
      do {
        converse_with(operation, kind, step, until, all_, prepare);
        if (kind == frame_kind::push_pull) owed_replica_ = servers_.front().owed_replica();
        if (owed_replica_ >= 0) return;
        for (const connection& each : servers_)
          if (each.is_refused()) throw each.failure(operation, name(each));
        is_served = std::none_of(servers_.begin(), servers_.end(),
                                 [](const connection& each) { return each.is_rolled_back(); });
        if (!is_served && until.expired())
          throw error(error_code::deadline_exceeded, operation,
                      "parameter servers have not restored their shards in time");
      } while (!is_served && enter_epoch());
      if (!is_served) return;
      flags_of_all_ = ~std::uint32_t{0};
      flags_of_any_ = 0;
      for (const connection& each : servers_) {
        flags_of_all_ &= each.answer().flags;
        flags_of_any_ |= each.answer().flags;
      }
    });
    return is_served;
  }

  /// Opens closed connections, and sends the request to these servers. Repeats it if a server was lost and another
  /// process has taken its place.
  template <typename Prepare>
  void converse_with(const char* operation, frame_kind kind, std::int64_t step, deadline until,
                     const std::vector<connection*>& to_whom, Prepare prepare) {
    was_repeated_ = false;
    for (;;) try {
        connect(until);
        return converse(operation, kind, step, until, to_whom, prepare);
      } catch (const error& problem) {
        const error why = problem;
        await_servers(operation, why, !std::exchange(was_repeated_, true), until);
      }
  }

  /// Sends one request to each of these parameter servers, all in flight at once, and receives their answers. If this
  /// fails, the connections whose answers are outstanding are closed; the next request opens them again.
  template <typename Prepare>
  void converse(const char* operation, frame_kind kind, std::int64_t step, deadline until,
                const std::vector<connection*>& to_whom, Prepare prepare) {
    frame_header header;
    header.kind = kind;
    header.request = ++requests_ & ((std::uint64_t{1} << detail::push_replica_shift) - 1);
    header.step = step;
    if (kind == frame_kind::push) header.request |= static_cast<std::uint64_t>(replica_) << detail::push_replica_shift;
    const bool trains = kind == frame_kind::push_pull || kind == frame_kind::push;
    header.weight = trains ? weight_ : 0;
    header.deadline_us = until.remaining_us();
    if (trains && stopping_) header.flags |= stopping;
    for (connection* each : to_whom) {
      each->prepare();
      prepare(*each);
      header.tag = terms_.is_synchronous() ? epoch_ : each->epoch();
      if (kind == frame_kind::enroll && keeps_shards_) header.step = acknowledged_[number_of(*each)];
      each->start(header, here_.options().checksum);
    }
    try {
      // A synchronous server may wait for another server that has answered, or was not asked, and was lost since. The
      // process that takes its place begins once workers have connected to it.
      requests_in_flight all{here_, operation, to_whom, terms_.is_synchronous() && awaits_servers() ? all_ : nobody_,
                             kind == frame_kind::push_pull && terms_.takes_over()};
      loop_.run(operation, until, all);
      if (kind == frame_kind::done) note_done();
      for (connection* each : to_whom)
        if (!each->is_complete()) each->close();  // the server answers after the step, which waits for this worker
    } catch (...) {
      if (kind == frame_kind::done) {
        // Server 0 last: its answer, which counts for all, may arrive while the others are awaited.
        for (auto each = to_whom.rbegin(); each != to_whom.rend(); ++each) await_late_answer(operation, **each, until);
        note_done();
      }
      for (connection* each : to_whom)
        if (!each->is_complete()) each->close();
      throw;
    }
  }

  /// Waits for the answer of a server after another one has failed. A server that has recorded that this worker is done
  /// may leave after its answer, so the worker cannot ask it again. A synchronous server may itself wait for the failed
  /// one, so the time is limited to late_answer. An asynchronous server only writes a shard.
  void await_late_answer(const char* operation, connection& from, deadline until) {
    if (from.is_complete() || !from.is_open()) return;
    try {
      const std::vector<connection*> one{&from};
      requests_in_flight rest{here_, operation, one, nobody_, false};
      const auto most = std::chrono::duration_cast<deadline::duration>(late_answer);
      loop_.run(operation, terms_.is_synchronous() ? deadline(until.remaining(most)) : until, rest);
    } catch (const error&) {
      // this server has failed, or waits for the failed one
    }
  }

  /// Notes that the servers have recorded that this worker is done. In synchronous training server 0 records it for all
  /// servers; each asynchronous server records it for itself.
  void note_done() {
    for (const connection* each : all_)
      if (keeps_shards_ && each->is_complete() && !each->is_refused() && !each->is_rolled_back() &&
          (!terms_.is_synchronous() || each == all_.front()))
        is_done_recorded_ = true;
  }

  /// Requests to some servers, and their answers, as a message_exchange.
  struct requests_in_flight {
    static constexpr bool survives_leaving = true;  // a server that leaves first sends the rest of its answers

    task_server& here;
    const char* operation;
    const std::vector<connection*>& servers;
    const std::vector<connection*>& watched;  // the loss of these servers also ends the requests
    bool owes = false;  // server 0 may answer for all servers that this worker owes a lost worker's gradients

    std::size_t advance() {
      std::size_t moved = 0;
      for (connection* each : servers) {
        if (each->is_complete()) continue;
        try {
          moved += each->advance();
        } catch (const error& problem) {
          throw here.diagnose(each->rank(), each->incarnation(), operation, problem);
        }
      }
      return moved;
    }
    bool is_complete() const {
      const connection& first = *servers.front();
      return (owes && first.is_complete() && first.owed_replica() >= 0) ||
             std::all_of(servers.begin(), servers.end(), [](const connection* each) { return each->is_complete(); });
    }
    template <typename Visit>
    void for_each_stream(Visit visit) const {
      for (const connection* each : servers)
        if (!each->is_complete()) visit(each->stream(), true, each->is_sending());
    }
    template <typename Visit>
    void for_each_peer(Visit visit) const {
      for (const connection* each : servers)
        if (!each->is_complete()) visit(detail::peer_process{each->rank(), each->incarnation()}, true);
      for (const connection* each : watched) visit(detail::peer_process{each->rank(), each->incarnation()}, false);
    }
    error late() const {
      std::string silent;
      for (const connection* each : servers)
        if (!each->is_complete())
          append(silent, {silent.empty() ? "" : ", ", to_string(here.members().task(each->rank()))});
      return error(error_code::deadline_exceeded, operation, {"received no answer in time from ", silent});
    }
  };

  task_server& here_;
  std::vector<parameter_spec> variables_;
  std::vector<std::byte> enroll_message_;
  std::vector<connection> servers_;
  std::vector<connection*> all_, nobody_;  // point to servers_
  training_terms terms_;
  std::uint32_t flags_of_all_ = 0, flags_of_any_ = 0;  // of the last answers
  detail::update_notes notes_;                         // of the last push_pull
  std::uint32_t weight_ = 1;
  int replica_ = 0;
  int owed_replica_ = -1;  // answered in place of the last push_pull's values
  // State for servers that write shards.
  bool is_done_recorded_ = false;  // in done(), by a server that may have left since
  bool keeps_shards_ = false, has_position_ = false, was_repeated_ = false;
  std::uint64_t epoch_ = 0;                 // epoch of a synchronous run
  std::vector<std::uint64_t> begun_with_;   // incarnations of the servers when they got values
  std::int64_t position_ = 0;               // next step, as of the values of this worker
  std::vector<std::int64_t> acknowledged_;  // next step in the last answer of each server
  std::optional<step_change> rollback_;
  detail::lost_updates lost_updates_;
  detail::loss_watch watch_;  // losses of servers since the first failure of a request
  bool failed_ = false;       // the last call failed
  bool stopping_ = false;
  bool only_finite_ = false;         // a server refuses gradients that are not finite
  bool has_separate_means_ = false;  // each of several servers decides by itself if its part of a mean is finite
  detail::exchange_loop loop_;
  std::uint64_t requests_ = 0;
};

}  // namespace weft

#pragma pop_macro("slots")
