// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <weft/deadline.hpp>
#include <weft/device/gpu/device.hpp>
#include <weft/distributed/cluster/messages.hpp>
#include <weft/distributed/membership/exchange_loop.hpp>
#include <weft/distributed/remote/mailbox.hpp>
#include <weft/distributed/remote/service/client_waits.hpp>
#include <weft/distributed/remote/service/graph_registry.hpp>
#include <weft/distributed/remote/service/parked_runs.hpp>
#include <weft/distributed/remote/service/run_scheduler.hpp>
#include <weft/distributed/remote/service/served_placement.hpp>
#include <weft/distributed/remote/service/service_peers.hpp>
#include <weft/distributed/remote/service/service_replies.hpp>
#include <weft/distributed/remote/service/service_request.hpp>
#include <weft/distributed/remote/service/step_links.hpp>
#include <weft/distributed/remote/service/task_session.hpp>
#include <weft/distributed/remote/step_messages.hpp>
#include <weft/distributed/remote/task_service.hpp>
#include <weft/distributed/remote/variable_table.hpp>
#include <weft/error.hpp>
#include <weft/session/session.hpp>
#include <weft/transport/frame.hpp>

namespace weft::detail {

/// Computes the runs of a task, and reads and writes its variables. Only the thread that has the turn of run_scheduler
/// calls it.
class request_executor {
 public:
  using state_pointer = std::unique_ptr<run_scheduler::session_state>;

  request_executor(const graph_service_options& options, service_peers& peers, parked_runs& runs, parked_bytes& parked,
                   graph_registry& graphs, run_scheduler& scheduler, service_replies& replies)
      : options_(options),
        peers_(peers),
        runs_(runs),
        parked_(parked),
        graphs_(graphs),
        scheduler_(scheduler),
        replies_(replies),
        waits_(peers, scheduler, options.max_value_bytes) {}

  /// Serves a request and sends the result to the client. `state`: the state of the session's queue for a run with
  /// queue operations, otherwise null.
  void execute(service_request& next, state_pointer* state) {
    if (next.message) return run(next, state);
    end_message how;
    try {
      if (next.header.kind == frame_kind::reset)
        for (const std::string& name : read_message<reset_message>(next.payload).containers) variables_.reset(name);
      else
        access_variable(next);
      if (next.header.kind == frame_kind::read_variable) return;
    } catch (const error& e) {
      how = end_message::of(e, false);
    } catch (const std::bad_alloc&) {
      how = end_message::of(no_memory(), false);
    }
    replies_.send_end(next.from, next.header, how);
  }
  /// Raises the state of the task's variables and returns it. Any thread may call.
  task_message::memory mark_variables(task_message::memory wanted) {
    using memory = task_message::memory;
    // A client that connects at the same time as others must not mistake their marks for marks of an earlier process.
    memory before = wanted == memory::used ? memory::met : memory::unused;
    if (wanted != memory::unused) memory_.compare_exchange_strong(before, wanted);
    return memory_;
  }
  static std::uint32_t gpus() {
    return gpu::installed_platform ? static_cast<std::uint32_t>(gpu::installed_platform->count()) : 0;
  }

 private:
  static error no_memory() { return error(error_code::resource_exhausted, "step", "out of memory"); }

  void run(service_request& next, state_pointer* state) {
    const peer_process client = next.client();
    end_message how;
    std::shared_ptr<mailbox> box;
    try {
      box = runs_.find(next.key(), next.from, next.from.rank == peers_.size(),
                       [this](const peer_process& peer) { return peers_.is_gone(peer); });
      if (!box) throw run_was_cancelled();
      box->check();
      how.fetched = compute(next, box, state);
    } catch (const error& e) {
      const bool follows = !box || box->was_cancelled();
      how = peers_.is_ending() && !follows ? end_message::of(service_has_ended(), false) : end_message::of(e, follows);
    } catch (const std::bad_alloc&) {
      how = end_message::of(no_memory(), false);
    } catch (const std::exception& e) {
      how = end_message::of(error(error_code::internal, "step", e.what()), false);
    }
    runs_.end(next.key(), client);
    replies_.send_end(client, next.header, how);
  }
  /// Returns the values that travel with the end of the run.
  small_values compute(service_request& next, const std::shared_ptr<mailbox>& box, state_pointer* state) {
    const run_message& message = *next.message;
    const std::chrono::microseconds asked(
        static_cast<std::int64_t>(std::min<std::uint64_t>(next.header.deadline_us, std::uint64_t{1} << 50)));
    // Shared, because the placement may be dropped while the run has given up its turn.
    const std::shared_ptr<served_placement> placed =
        placement_of(message.placement, message.registers ? &message.registration : nullptr);
    graphs_.note_use(next.header.tag, next.client(), placed->key);
    task_session& in = session_of(state ? *state : placed->in_turn, *placed);
    in.links().begin({next.key(), next.message, box, next.client(),
                      deadline(state ? asked : std::min<std::chrono::microseconds>(options_.step_timeout, asked)),
                      detail::now(), &next.progress});
    const struct at_end {
      step_links& of;
      ~at_end() { of.end(); }
    } ends{in.links()};
    for (const small_values::value& each : message.fed.all())
      if (each.to == peers_.self())
        mailbox::put(mailbox::open(box, each.number, each.bytes.size(), parked_), each.bytes);
    in.run(*placed, message, graphs_.next_use());
    return in.links().take_fetched();
  }

  void access_variable(service_request& next) {
    const auto asked = read_message<variable_message>(next.payload);
    const std::shared_ptr<served_placement> placed = placement_of(asked.registration.key(), &asked.registration);
    graphs_.note_use(next.header.tag, next.from, placed->key);
    task_session& runs = session_of(placed->in_turn, *placed);
    const auto n = static_cast<std::uint32_t>(next.header.request);
    variable_table::variable* const shared = runs.find_variable(n);
    if (!shared) message_reader::malformed();
    const std::size_t bytes = runs.variables().variable_info(n).bytes();
    if (next.header.kind == frame_kind::read_variable)
      return read_variable(next, *shared, runs.variables(), placed->nodes.self()[n].name, bytes);
    if (next.header.weight == initializes) {
      runs.variables().state_of(n).initialized = shared->state.initialized;
      runs.variables().initialize_variable(n);
    } else {
      if (asked.value.size() != bytes) message_reader::malformed();
      runs.variables().write_variable(n, asked.value.data());
    }
    shared->state.initialized = true;
    shared->is_lost = false;
  }
  void read_variable(const service_request& next, const variable_table::variable& shared, session& variables,
                     const std::string& name, std::size_t bytes) {
    if (!shared.state.initialized)
      throw error(error_code::failed_precondition, name,
                  shared.is_lost ? "the variable has no value: its task was started again; restore a checkpoint"
                                 : "the variable has no value yet: call set(), or run a step that assigns to it");
    waits_.await_room(next.from, bytes, std::chrono::seconds(10), 1, true, [] {});
    std::vector<std::byte> value(bytes);
    variables.read_variable(static_cast<std::uint32_t>(next.header.request), value.data());
    replies_.send_value(next.from, next.header, value);
  }

  /// Returns the graph and the placement that a client requests. Creates them if no session has requested them before.
  std::shared_ptr<served_placement> placement_of(std::uint64_t key, const step_registration* from) {
    if (auto known = graphs_.find(key, from, peers_.size())) return known;
    std::shared_ptr<served_placement> made =
        graphs_.make(key, *from, peers_.size(), static_cast<std::uint32_t>(peers_.self()));
    check_devices(*from);
    graphs_.make_room();
    session_of(made->in_turn, *made);
    graphs_.insert(made);
    return made;
  }
  /// Throws failed_precondition if the client has an outdated list of this task's devices: its nodes are placed on
  /// them.
  void check_devices(const step_registration& from) const {
    const auto cpus = static_cast<std::uint32_t>(options_.session.devices);
    if (from.cpus[peers_.self()] == cpus && from.gpus[peers_.self()] == gpus()) return;
    throw error(error_code::failed_precondition, "step",
                {"the session expects ", from.cpus[peers_.self()], " CPU and ", from.gpus[peers_.self()],
                 " GPU devices in this task, but it has ", cpus, " and ", gpus(),
                 " since it was started again; make a new session"});
  }
  /// Returns the session of a queue, which is replaced if it does not fit the placement.
  task_session& session_of(state_pointer& in, const served_placement& of) {
    if (in && static_cast<task_session&>(*in).fits(of, variables_)) return static_cast<task_session&>(*in);
    in.reset();
    const bool are_lost =
        !variables_.has_reset(of.config.container) && (memory_ == task_message::memory::lost || of.is_restarted);
    auto made = std::make_unique<task_session>(peers_, scheduler_, waits_, variables_, of, options_.session, are_lost);
    task_session& session = *made;
    in = std::move(made);
    return session;
  }

  const graph_service_options& options_;
  service_peers& peers_;
  parked_runs& runs_;
  parked_bytes& parked_;
  graph_registry& graphs_;
  run_scheduler& scheduler_;
  service_replies& replies_;
  client_waits waits_;
  variable_table variables_;
  std::atomic<task_message::memory> memory_{task_message::memory::unused};
};

}  // namespace weft::detail
